"""RDF as a proposed schema and pipeline: classes become node types, predicates properties and edge types.

A subject is a node whose key is its IRI. Its type is the class that the fewest subjects have, which is mostly the most
special one. A predicate with texts and numbers is a property, one whose objects are subjects an edge type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, islice
from pathlib import Path
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import NotFound, ParameterError, ValidationError, Violation
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.imports.import_proposal import (
    ImportedEdge,
    ImportedNode,
    ImportedProperty,
    ImportedSource,
    ImportedView,
    ImportProposal,
    NameRegister,
    choose_property_name,
    make_type_name,
    make_view_name,
    refuse_hidden_files,
)
from omnigraph.pipeline.imports.rdf_triples import (
    LINES,
    UNREADABLE,
    Triple,
    find_rdf_ending,
    open_rdf,
    parse_lines,
    parse_rdf,
)
from omnigraph.pipeline.imports.rdf_views import (
    RDF_TYPE,
    UNTYPED,
    KnownObjects,
    RdfChecks,
    select_links,
    select_nodes,
    select_subjects,
)
from omnigraph.pipeline.proposal_sql import quote_column, quote_sql_text
from omnigraph.storage.columns import Values
from omnigraph.write.load import convert_texts, expand_path

MAX_TRIPLES: Final = 1_000_000
"""How many triples are looked at."""
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_SCALARS: Final[Mapping[str, tuple[Scalar, str]]] = {
    **{f"{_XSD}{name}": (Scalar.I64, "bigint") for name in ("integer", "int", "long", "short", "byte")},
    **{f"{_XSD}{name}": (Scalar.I64, "bigint") for name in ("nonNegativeInteger", "positiveInteger", "unsignedInt")},
    **{f"{_XSD}{name}": (Scalar.F64, "double") for name in ("decimal", "double", "float")},
    f"{_XSD}boolean": (Scalar.BOOL, "boolean"),
    f"{_XSD}date": (Scalar.DATE, "date"),
    f"{_XSD}dateTime": (Scalar.DATETIME, "timestamp"),
}


@dataclass(slots=True)
class _Predicate:
    """What was seen of one predicate of one class."""

    values: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The texts of each subject: literals, and IRIs of which nothing is said."""
    datatypes: set[str | None] = field(default_factory=set["str | None"])
    languages: set[str] = field(default_factory=set[str])
    has_literals: bool = False
    links: Counter[str] = field(default_factory=Counter[str])
    """How many objects are subjects of each class."""
    num_left: int = 0

    @property
    def known(self) -> KnownObjects:
        """The kinds of its objects."""
        return KnownObjects(self.has_literals, self.num_left > 0, tuple(self.links))


def is_rdf(paths: Sequence[str]) -> bool:
    """Whether one of the files has an ending of RDF."""
    return any(find_rdf_ending(path) is not None for path in paths)


def propose_rdf(paths: Sequence[str]) -> ImportProposal:
    """Propose types for files of RDF; each path may be a pattern. What cannot be parsed is listed, of all files."""
    files = {path: expand_path(path) for path in paths}
    missing = [path for path, found in files.items() if not found]
    if missing:
        raise NotFound("; ".join(f"there is no file '{path}'" for path in missing))
    other = [path for path, found in files.items() if any(find_rdf_ending(each) is None for each in found)]
    if other:
        raise ParameterError(f"{', '.join(other)} is no RDF, as the other files are", hint="give one kind of files")
    every = [each for found in files.values() for each in found]
    refuse_hidden_files(every)
    triples = _read_triples(every)
    ambiguous = _check_names_of_files(every, triples)
    if not triples:
        raise ParameterError("the files have no triples", hint="there is nothing to propose")
    is_complete = len(triples) <= MAX_TRIPLES
    checks = None if is_complete else RdfChecks(f"the first {MAX_TRIPLES:,} triples of {','.join(files)}")
    return _RdfBuilder(triples[:MAX_TRIPLES], checks, ambiguous).build(list(files))


def _read_triples(files: Sequence[str]) -> list[Triple]:
    problems: list[Violation] = []

    def read(file: str) -> Iterator[Triple]:
        try:
            if find_rdf_ending(file) in LINES:
                with open_rdf(file) as lines:
                    yield from parse_lines(file, lines)
            else:
                yield from parse_rdf(file, Path(file).read_bytes())
        except ValidationError as error:
            problems.extend(error.violations)
        except UNREADABLE as error:
            problems.append(Violation("", "rdf_file", f"the file cannot be read: {error}", file))

    found = list(islice(chain.from_iterable(map(read, files)), MAX_TRIPLES + 1))
    if problems:
        raise ValidationError(f"the files have {len(problems):,} problems", problems)
    return found


def _check_names_of_files(files: Sequence[str], triples: Sequence[Triple]) -> list[str]:
    """Refuse two files of one name with nodes without a name: those of both would have the same keys.

    Return the beginnings of such keys.
    """
    counts = Counter(Path(each).name for each in files)
    repeated = [f"_:{name}#" for name, count in counts.items() if count > 1]
    met = next((each.subject for each in triples if each.subject.startswith(tuple(repeated))), None)
    if met is not None:
        name = met.removeprefix("_:").rpartition("#")[0]
        raise ParameterError(
            f"several files are called {name}, and nodes without a name are told apart by that", hint="rename them"
        )
    return repeated


class _RdfBuilder:
    """Sorts triples by the classes of their subjects."""

    def __init__(self, triples: Sequence[Triple], checks: RdfChecks | None, ambiguous: Sequence[str]) -> None:
        self._triples = triples
        self._checks = checks
        self._ambiguous = ambiguous
        self._label = f"{'' if checks is None else 'the first '}{len(triples):,} triples"
        classes: dict[str, list[str]] = {}
        for each in triples:
            classes.setdefault(each.subject, [])
            if each.predicate == RDF_TYPE:
                classes[each.subject].append(each.object)
        counts = Counter(name for names in classes.values() for name in set(names))
        self._ranked = sorted(counts, key=lambda name: (counts[name], name))
        rank = {name: place for place, name in enumerate(self._ranked)}
        self._class_of = {
            subject: min(names, key=rank.__getitem__) if names else UNTYPED for subject, names in classes.items()
        }
        self._subjects = Counter(self._class_of.values())
        self._several = {self._class_of[subject] for subject, names in classes.items() if len(set(names)) > 1}
        register = NameRegister()
        used = [name for name in (*self._ranked, UNTYPED) if self._subjects[name]]
        self._names = {name: register.choose(make_type_name(_local(name), "Resource")) for name in used}
        self._edge_names = register

    def build(self, paths: Sequence[str]) -> ImportProposal:
        """Return the proposal."""
        found = self._collect()
        sources = [ImportedSource(f"triples_{number}", "rdf", path) for number, path in enumerate(paths, 1)]
        views = [ImportedView("triples", " UNION ALL ".join(f"SELECT * FROM {each.name}" for each in sources))]  # noqa: S608  it is shown
        if len(sources) == 1:
            sources, views = [ImportedSource("triples", "rdf", paths[0])], []
        subjects = select_subjects(self._ranked, self._names, self._several, self._ambiguous, self._checks)
        views.append(ImportedView("subjects", subjects))
        nodes = [self._build_node(name, found.get(name, {}), views) for name in self._names]
        pairs = Counter(predicate for mine in found.values() for predicate, each in mine.items() for _ in each.links)
        edges = [
            self._build_edge(predicate, from_, to, each, views, is_alone=pairs[predicate] == 1)
            for from_, mine in found.items()
            for predicate, each in mine.items()
            for to in each.links
        ]
        return ImportProposal(f"RDF ({self._label})", tuple(sources), tuple(views), tuple(nodes), tuple(edges))

    def _collect(self) -> dict[str, dict[str, _Predicate]]:
        """Return what each class has of each predicate."""
        found: dict[str, dict[str, _Predicate]] = {}
        for each in dict.fromkeys(self._triples):
            if each.predicate == RDF_TYPE:
                continue
            mine = found.setdefault(self._class_of[each.subject], {}).setdefault(each.predicate, _Predicate())
            if each.kind == "literal":
                mine.has_literals = True
                mine.values.setdefault(each.subject, set()).add(each.object)
                mine.datatypes.add(each.datatype)
                mine.languages |= set() if each.language is None else {each.language}
            elif each.object in self._class_of:
                mine.links[self._class_of[each.object]] += 1
            else:
                mine.num_left += 1
                mine.values.setdefault(each.subject, set()).add(each.object)
                mine.datatypes.add(None)
        return found

    def _build_node(self, class_: str, predicates: Mapping[str, _Predicate], views: list[ImportedView]) -> ImportedNode:
        name, count = self._names[class_], self._subjects[class_]
        text = ValueType(Scalar.STRING)
        properties = [ImportedProperty("iri", text, "iri", ("the subject",), is_key=True)]
        columns: list[str] = []
        if class_ in self._several:
            kind = ValueType(Scalar.STRING, nullable=True, is_list=True)
            properties.append(ImportedProperty("classes", kind, "classes", ("all of its rdf:type",)))
            columns.append(f"{self._gather(class_, RDF_TYPE, _when(RDF_TYPE), is_list=True)} AS classes")
        for predicate, seen in predicates.items():
            if not seen.values:
                continue
            own = choose_property_name(_local(predicate), name, [each.name for each in properties])
            type_, sql, notes = self._choose_type(predicate, seen, count)
            value = self._find_value(class_, predicate, seen, sql)
            columns.append(f"{self._gather(class_, predicate, value, is_list=type_.is_list)} AS {quote_column(own)}")
            properties.append(ImportedProperty(own, type_, quote_column(own), tuple(notes)))
        view = make_view_name(name, "nodes")
        known = {predicate: seen.known for predicate, seen in predicates.items()}
        views.append(ImportedView(view, select_nodes(class_, columns, known, self._checks)))
        said = f"<{class_}>" if class_ else "subjects without rdf:type"
        notes = [f"{said}: {count:,} subject{'' if count == 1 else 's'}"]
        notes += ["of several classes the one that the fewest subjects have"] if class_ in self._several else []
        return ImportedNode(name, view, tuple(properties), tuple(notes))

    def _find_value(self, class_: str, predicate: str, seen: _Predicate, sql: str | None) -> str:
        """Return the expression of a value of a predicate; null for triples of others."""
        value = "t.object" if sql is None else f"cast(t.object AS {sql})"
        if self._checks is not None and sql is not None:
            datatypes = [name for name, (_, other) in _SCALARS.items() if other == sql]
            value = self._checks.check_value(class_, predicate, value, datatypes)
        return _when(predicate, " AND (t.kind = 'literal' OR o.subject IS NULL)" if seen.links else "", value)

    def _gather(self, class_: str, predicate: str, value: str, *, is_list: bool) -> str:
        """Return the expression that gathers the values of a predicate."""
        if is_list:
            # Without a value there is no list, rather than an empty one.
            return f"nullif(array_sort(collect_set({value})), array())"
        return f"max({value})" if self._checks is None else self._checks.check_single(class_, predicate, value)

    def _choose_type(self, predicate: str, seen: _Predicate, count: int) -> tuple[ValueType, str | None, list[str]]:
        """Return the type of a property, the SQL type to cast to, and what was guessed."""
        notes = [f"<{predicate}>"]
        scalars = {_SCALARS.get(each or "") for each in seen.datatypes}
        found = scalars.pop() if len(scalars) == 1 else None
        if found is not None:
            texts = sorted({text for each in seen.values.values() for text in each})
            wrong = convert_texts(cast("Values", pa.array(texts, pa.string())), ValueType(found[0])).mismatches
            if wrong:
                notes.append(f"a text, because '{wrong[0].value}' is no {found[0]}")
                found = None
        elif len(seen.datatypes) > 1:
            notes.append("a text, because there are several datatypes")
        if not seen.has_literals:
            notes.append("IRIs of which nothing is said")
        if len(seen.languages) > 1:
            notes.append(f"texts in {', '.join(sorted(seen.languages))}; the language is not kept")
        is_list = any(len(each) > 1 for each in seen.values.values())
        missing = count - len(seen.values)
        if missing:
            notes.append(f"missing in {missing:,} of {count:,} subjects")
        scalar, sql = found or (Scalar.STRING, None)
        return ValueType(scalar, nullable=bool(missing), is_list=is_list), sql, notes

    def _build_edge(
        self, predicate: str, from_: str, to: str, seen: _Predicate, views: list[ImportedView], *, is_alone: bool
    ) -> ImportedEdge:
        start, end = self._names[from_], self._names[to]
        plain = make_type_name(_local(predicate), "Link")
        name = self._edge_names.choose(plain if is_alone else f"{start}{plain}{end}")
        view = make_view_name(name, "links")
        views.append(ImportedView(view, select_links(predicate, from_, to, seen.known, self._checks)))
        count = seen.links[to]
        notes = [f"<{predicate}>: {count:,} triple{'' if count == 1 else 's'}"]
        if seen.num_left:
            notes.append(f"IRIs of which nothing is said are texts of {start}, not edges")
        return ImportedEdge(name, start, end, view, "source", "target", (), tuple(notes))


def _when(predicate: str, condition: str = "", value: str = "t.object") -> str:
    return f"CASE WHEN t.predicate = {quote_sql_text(predicate)}{condition} THEN {value} END"


def _local(iri: str) -> str:
    """Return the last part of an IRI: after ``#``, else after the last slash or colon."""
    for mark in ("#", "/", ":"):
        head, found, tail = iri.rstrip("#/:").rpartition(mark)
        if found and tail and head:
            return tail
    return iri

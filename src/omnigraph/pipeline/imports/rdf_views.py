"""The SQL of the views of RDF: subjects with their classes, rows of nodes, and links between them.

If only the first triples were looked at, later ones may have classes, predicates and links that nobody knows here.
Spark then ends with an error, so that no triple is left out without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.proposal_sql import advise_replacement, quote_sql_text, raise_sql_error

RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
UNTYPED: Final = ""
"""The class of subjects without one."""
_LEAVE: Final = "leave it out"


@dataclass(frozen=True, slots=True)
class KnownObjects:
    """What kinds of objects a predicate of a class has."""

    has_literals: bool
    has_texts: bool
    """Whether some are IRIs of which nothing is said."""
    targets: tuple[str, ...]
    """The classes of those that are subjects."""


@dataclass(frozen=True, slots=True)
class RdfChecks:
    """What ends a run: whatever triples have that none has that was looked at. ``looked_at`` says which these are."""

    looked_at: str

    def _raise(self, value: str, outcome: str, *parts: str) -> str:
        first = quote_sql_text(f"none of {self.looked_at} ")
        return raise_sql_error(first, *parts, advise_replacement(value, outcome))

    # ----------------------------------------------------------------------------------------- classes

    def rank_unknown(self, num_classes: int) -> str:
        """Return the rank of a class that nobody knows."""
        return self._raise(str(num_classes), _LEAVE, "'has the class '", "object")

    def check_class(
        self, rows: str, unused: Collection[str], single: Collection[str], blank_prefixes: Iterable[str]
    ) -> str:
        """Return the query for subjects with classes that are checked.

        No subject has one of the classes ``unused`` as its type. Those of the type ``single`` have no other class.
        """
        when = [
            f"WHEN startswith(subject, {quote_sql_text(each)}) THEN "
            + raise_sql_error(
                quote_sql_text("several files have one name, and nodes without a name are told apart by that: "),
                "subject",
            )
            for each in blank_prefixes
        ]
        if single:
            second = self._raise(
                "class", _LEAVE, "'gives a subject of the class '", "class", "' a second one, as '", "subject"
            )
            when.append(f"WHEN has_others AND class IN ({_list(single)}) THEN {second}")
        if unused:
            named = "CASE class WHEN '' THEN 'without a class' ELSE concat('of the class ', class) END"
            wrong = self._raise("class", _LEAVE, "'has a subject that is '", named, "', as is '", "subject")
            when.append(f"WHEN class IN ({_list(unused)}) THEN {wrong}")
        checked = f"CASE {' '.join(when)} ELSE class END AS class" if when else "class"
        return f"SELECT subject, {checked} FROM ({rows})"  # noqa: S608  it is shown

    # ----------------------------------------------------------------------------------------- predicates

    def check_triple(self, class_: str, predicates: Mapping[str, KnownObjects]) -> str:
        """Return the condition on the triples ``t`` of the subjects ``s`` of a class.

        The subject in the texts makes it a condition on both sides of a join: only of this class the triples are known.
        """
        both = [RDF_TYPE, *(name for name, each in predicates.items() if each.has_literals and _has_iris(each))]
        literals = [name for name, each in predicates.items() if each.has_literals and not _has_iris(each)]
        iris = [name for name, each in predicates.items() if not each.has_literals]
        texts = list_texts(predicates)
        when = [f"WHEN t.predicate IN ({_list(both)}) THEN TRUE"]
        if literals:
            when.append(f"WHEN t.predicate IN ({_list(literals)}) AND t.kind = 'literal' THEN TRUE")
        if iris:
            when.append(f"WHEN t.predicate IN ({_list(iris)}) AND t.kind <> 'literal' THEN TRUE")
        if texts:
            link = self._raise_link("TRUE", class_, "t.predicate", "o.class", "s.subject")
            when.insert(0, f"WHEN t.predicate IN ({_list(texts)}) AND o.class IS NOT NULL THEN {link}")
        unknown = self._raise(
            "TRUE",
            _LEAVE,
            quote_sql_text(f"gives {_describe(class_)} "),
            "CASE t.kind WHEN 'literal' THEN 'a literal' ELSE 'an IRI' END",
            "' by '",
            "t.predicate",
            "', as has '",
            "s.subject",
        )
        return f"CASE {' '.join(when)} ELSE {unknown} END"

    def _raise_link(self, value: str, class_: str, predicate: str, target: str, subject: str) -> str:
        to = f"CASE {target} WHEN '' THEN 'a subject without a class' ELSE concat('one of the class ', {target}) END"
        return self._raise(
            value,
            _LEAVE,
            "'leads by '",
            predicate,
            quote_sql_text(f" from {_describe(class_)} to "),
            f"coalesce({to}, 'an IRI of which nothing is said')",
            "', as from '",
            subject,
            "' to '",
            "t.object",
        )

    def check_value(self, class_: str, predicate: str, value: str, datatypes: Iterable[str]) -> str:
        """Return the value of a triple ``t``, whose datatype must be one of these."""
        wrong = self._raise(
            "NULL",
            _LEAVE,
            quote_sql_text(f"gives {_describe(class_)} by {predicate} a value of the datatype "),
            "coalesce(t.datatype, 'string')",
            "', as has '",
            "s.subject",
        )
        return f"CASE WHEN t.datatype IN ({_list(datatypes)}) THEN {value} ELSE {wrong} END"

    def check_single(self, class_: str, predicate: str, value: str) -> str:
        """Return the only value of a property."""
        told = quote_sql_text(f"gives {_describe(class_)} several values of {predicate}, as has ")
        several = self._raise("NULL", "leave them out", told, "s.subject")
        return f"CASE WHEN min({value}) <> max({value}) THEN {several} ELSE max({value}) END"

    # ----------------------------------------------------------------------------------------- links

    def check_link(self, class_: str, predicate: str, to: str, known: KnownObjects) -> str:
        """Return the condition on a triple ``t`` whose object is ``b``, if that is a subject."""
        others = [each for each in known.targets if each != to]
        listed = f"WHEN b.class IN ({_list(others)}) THEN FALSE " if others else ""
        texts = "WHEN b.class IS NULL THEN FALSE " if known.has_texts else ""
        wrong = self._raise_link("FALSE", class_, quote_sql_text(predicate), "b.class", "t.subject")
        return f"CASE WHEN b.class = {quote_sql_text(to)} THEN TRUE {listed}{texts}ELSE {wrong} END"


def list_texts(predicates: Mapping[str, KnownObjects]) -> list[str]:
    """Return the predicates whose IRIs are texts, all of them."""
    return [name for name, each in predicates.items() if each.has_texts and not each.targets]


def _has_iris(known: KnownObjects) -> bool:
    return known.has_texts or bool(known.targets)


def _describe(class_: str) -> str:
    return f"one of the class {class_}" if class_ else "a subject without a class"


def _list(texts: Iterable[str]) -> str:
    return ", ".join(quote_sql_text(each) for each in texts)


# --------------------------------------------------------------------------------------------- queries


def select_subjects(
    ranked: Sequence[str],
    used: Collection[str],
    several: Collection[str],
    ambiguous: Iterable[str],
    checks: RdfChecks | None,
) -> str:
    """Return the query for all subjects with their classes: of several the first that is ranked."""
    ranks = "".join(f" WHEN {quote_sql_text(name)} THEN {place}" for place, name in enumerate(ranked))
    if checks is not None:
        unknown = checks.rank_unknown(len(ranked))
        rank = f"CASE object{ranks} ELSE {unknown} END" if ranks else f"cast({unknown} AS int)"
    else:
        rank = f"CASE object{ranks} END" if ranks else ""
    order = f"CASE WHEN predicate = {quote_sql_text(RDF_TYPE)} THEN {rank} END" if rank else ""
    chosen = f"coalesce(min_by(object, {order}), '')" if order else "''"
    if checks is None:
        return f"SELECT subject, {chosen} AS class FROM triples GROUP BY subject"  # noqa: S608  it is shown
    others = f"min({order}) <> max({order}) AS has_others"
    rows = f"SELECT subject, {chosen} AS class, {others} FROM triples GROUP BY subject"  # noqa: S608  it is shown
    unused = [name for name in (*ranked, UNTYPED) if name not in used]
    single = [name for name in used if name and name not in several]
    return checks.check_class(rows, unused, single, ambiguous)


def select_nodes(
    class_: str, columns: Sequence[str], predicates: Mapping[str, KnownObjects], checks: RdfChecks | None
) -> str:
    """Return the query for the nodes of a class; the columns are expressions over their triples ``t``."""
    selected = ", ".join(["s.subject AS iri", *columns])
    where = f"s.class = {quote_sql_text(class_)}"
    joined = ""
    if checks is not None:
        joined = " JOIN triples t ON t.subject = s.subject"
        where += f" AND {checks.check_triple(class_, predicates)}"
    elif columns:
        joined = " LEFT JOIN triples t ON t.subject = s.subject"
    is_mixed = any((each.has_literals or each.has_texts) and each.targets for each in predicates.values())
    if is_mixed or (checks is not None and list_texts(predicates)):
        joined += " LEFT JOIN subjects o ON o.subject = t.object AND t.kind <> 'literal'"
    return f"SELECT {selected} FROM subjects s{joined} WHERE {where} GROUP BY s.subject"  # noqa: S608  it is shown


def select_links(predicate: str, from_: str, to: str, known: KnownObjects, checks: RdfChecks | None) -> str:
    """Return the query for the links between nodes of two classes."""
    ends = "SELECT DISTINCT t.subject AS source, t.object AS target FROM triples t"
    ends += f" JOIN subjects a ON a.subject = t.subject AND a.class = {quote_sql_text(from_)}"
    where = f"t.predicate = {quote_sql_text(predicate)} AND t.kind <> 'literal'"
    if checks is None:
        return f"{ends} JOIN subjects b ON b.subject = t.object AND b.class = {quote_sql_text(to)} WHERE {where}"
    checked = checks.check_link(from_, predicate, to, known)
    return f"{ends} LEFT JOIN subjects b ON b.subject = t.object WHERE {where} AND {checked}"

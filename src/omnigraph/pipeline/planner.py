"""Plan a pipeline: check it against the schema and the branches of a graph before Spark starts.

Every mapping must name an existing property, and every required property must be mapped. Types are compared if they are
known without Spark; ``spark/pipeline/dataframes.py`` compares the others by the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final, Protocol

from omnigraph.errors import (
    InputError,
    NotFoundError,
    OmniGraphError,
    ParameterError,
    PipelineError,
    Problem,
    QueryError,
)
from omnigraph.language.query import TypedMutation, compile_query
from omnigraph.language.schema import Catalog, EdgeType, NodeType, Property, Schema
from omnigraph.language.source import Span, suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.branches import Branch, check_free, check_name
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.pipeline import codes
from omnigraph.pipeline.column_types import (
    ColumnType,
    UnreadableFile,
    ViewColumns,
    find_local_files,
    infer_expression,
    infer_view_columns,
    read_source_columns,
)
from omnigraph.pipeline.file import (
    EndMapping,
    PipelineCheck,
    PipelineFile,
    PipelineSource,
    PropertyMapping,
    TypeMapping,
)
from omnigraph.pipeline.yaml_reader import TemplateText, start_of
from omnigraph.write.commit import CATCH_UP_MESSAGE, HANDOFF_MESSAGE, RECOVERY_ACTOR
from omnigraph.write.load import can_be_end, can_convert, resolve_identity

_TEXT: Final = ValueType(Scalar.STRING, nullable=True)
_ENDS: Final = frozenset({"from", "to", "src", "dst"})


class PlannedGraph(Protocol):
    """What planning needs of a graph."""

    @property
    def schema(self) -> Schema:
        """The current schema."""
        ...

    def branches(self) -> list[Branch]:
        """All branches."""
        ...

    def commit(self, ref: Reference) -> Commit:
        """Return the commit of a reference."""
        ...

    def commits(self, branch: str) -> Sequence[Commit]:
        """Return the commits of a branch, newest first."""
        ...

    def ancestry(self, branch: str) -> Sequence[Commit]:
        """Return all ancestors of a branch, merged ones too."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """One column of a type, and its expression. ``expression_type`` is None if only Spark knows it.

    ``column`` is the column of the view, if the expression is nothing but its name.
    """

    name: str
    target_type: ValueType | NodeType
    """The type of the property; the node type, if it is an end of an edge that one expression computes."""
    expression: TemplateText
    expression_type: ColumnType = None
    column: str | None = None

    def accepts(self, found: ColumnType) -> bool:
        """Return whether the column accepts values of a type; an unknown type is accepted."""
        if found is None:
            return True
        return (
            can_be_end(found, self.target_type)
            if isinstance(self.target_type, NodeType)
            else can_convert(found, self.target_type)
        )

    @property
    def target_text(self) -> str:
        """The type of the column, as shown to the user."""
        if not isinstance(self.target_type, NodeType):
            return str(self.target_type)
        (key,) = self.target_type.key if self.target_type.key and len(self.target_type.key) == 1 else ("id",)
        return f"{self.target_type.name}.{key}"


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """A source, and what is known of it: the number of local files, their size, their columns."""

    source: PipelineSource
    files: int | None
    size: int | None
    columns: ViewColumns | None


@dataclass(frozen=True, slots=True)
class PlannedMapping:
    """A type, its view, and the columns that are mapped."""

    type: NodeType | EdgeType
    view: TemplateText
    columns: tuple[PlannedColumn, ...]

    @property
    def kind(self) -> str:
        """``node`` or ``edge``."""
        return "edge" if isinstance(self.type, EdgeType) else "node"


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """A check whose query compiles and has all parameters."""

    name: str
    check: PipelineCheck
    path: Path = field(repr=False)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """A pipeline without known problems.

    ``replaced_head`` is the newest commit of the branch, if the run replaces it by a new one.
    """

    file: PipelineFile
    sources: tuple[PlannedSource, ...]
    mappings: tuple[PlannedMapping, ...]
    checks: tuple[PlannedCheck, ...]
    creates_branch: bool
    replaced_head: str | None
    notes: tuple[str, ...]


def plan_pipeline(file: PipelineFile, graph: PlannedGraph) -> PipelinePlan:
    """Check a file against a graph. :class:`PipelineError` lists all problems, including those of the file itself."""
    planner = _Planner(file, graph.schema.catalog)
    sources = tuple(map(planner.plan_source, file.sources))
    planner.add_views()
    mappings = tuple(mapping for each in file.mappings for mapping in planner.plan_mapping(each))
    checks = tuple(check for each in file.checks for check in planner.plan_check(each))
    heads = {branch.name: branch.head for branch in graph.branches()}
    planner.problems += _check_branches(file, graph, heads.keys())
    planner.problems += _check_identities(file, graph.schema.catalog)
    if planner.problems:
        # Problems of other files, such as queries, come last.
        own = [each for each in planner.problems if each.position.file == file.document.name]
        others = [each for each in planner.problems if each.position.file != file.document.name]
        own.sort(key=lambda each: (each.position.line, each.position.column))
        raise PipelineError([*own, *others])
    branch = file.load.branch.value
    replaced_head = heads.get(branch) if file.load.merge_into is not None else None
    creates_branch = branch not in heads or replaced_head is not None
    notes = tuple(_list_notes(file, creates_branch=creates_branch, replaces_branch=replaced_head is not None))
    return PipelinePlan(file, sources, mappings, checks, creates_branch, replaced_head, notes)


def type_mismatch_problem(
    file: PipelineFile, type_: NodeType | EdgeType, column: PlannedColumn, found: object
) -> Problem:
    """Return the problem of an expression whose type does not fit its column; ``found`` is shown as that type."""
    required = column.target_type
    if isinstance(required, NodeType):
        message = f"{type_.name}.{column.name} is {found}, which is neither an id nor a key of {required.name}"
        hint = "give the whole key" if len(required.key or ()) > 1 else None
        return file.problem(codes.BAD_END, message, column.expression.span, hint)
    message = f"{type_.name}.{column.name} is {required}, but this is {found}"
    return file.problem(codes.WRONG_TYPE, message, column.expression.span, _cast_hint(required, column.expression))


class _Planner:
    """Plans the parts of a pipeline, and collects the problems."""

    def __init__(self, file: PipelineFile, catalog: Catalog) -> None:
        self.file = file
        self.catalog = catalog
        self.problems = list(file.problems)
        self._columns: dict[str, ViewColumns | None] = {}
        self._mapped: set[str] = set()

    def plan_source(self, source: PipelineSource) -> PlannedSource:
        """Plan a source, as far as possible without Spark."""
        columns, files = None, None if source.path is None else find_local_files(self.file, source.path)
        if files == [] and source.path is not None and self.file.is_relative(source.path):
            self._add_problem(
                codes.NO_SOURCE,
                f"there is no file {source.path}",
                source.path.span,
                self._missing_file_hint(source.path),
            )
        try:
            columns = read_source_columns(self.file, source)
        except UnreadableFile as error:
            self._add_problem(codes.NO_SOURCE, self.file.redactor.redact(str(error)), source.error_span)
        self._columns[source.name.lower()] = columns
        size = None if files is None else sum(each.stat().st_size for each in files)
        return PlannedSource(source, None if files is None else len(files), size, columns)

    def _missing_file_hint(self, path: TemplateText) -> str:
        place = "the folder of the pipeline file" if str(self.file.folder) == "." else f"'{self.file.folder}'"
        return f"'{path}' is looked for in {place}"

    def add_views(self) -> None:
        """Register the views, with their columns if they can be inferred."""
        for view in self.file.views:
            self._columns[view.name.lower()] = infer_view_columns(view, self._columns)

    # ------------------------------------------------------------------------------------- types

    def plan_mapping(self, mapping: TypeMapping) -> Iterator[PlannedMapping]:
        """Plan the mapping of one type, if the type exists."""
        type_ = self._find_type(mapping)
        if type_ is None:
            return
        if type_.table_key in self._mapped:
            self._add_problem(
                codes.REPEATED_KEY, f"{type_.name} is mapped twice", mapping.span, "make one view of both"
            )
        self._mapped.add(type_.table_key)
        columns = [*self._plan_ends(type_, mapping), *self._plan_properties(type_, mapping)]
        if mapping.view is None:
            return
        if mapping.view.value.lower() not in self._columns:
            names = [each.name for each in (*self.file.sources, *self.file.views)]
            hint = suggest_similar(mapping.view.value, names) or "name a source or a view"
            self._add_problem(codes.UNKNOWN_VIEW, f"there is no view '{mapping.view}'", mapping.view.span, hint)
            return
        yield PlannedMapping(
            type_, mapping.view, tuple(self._plan_column(type_, mapping.view, each) for each in columns)
        )

    def _find_type(self, mapping: TypeMapping) -> NodeType | EdgeType | None:
        catalog, name = self.catalog, mapping.type_name
        nodes = mapping.kind == "node"
        found = catalog.nodes.get(name) if nodes else catalog.find_edge(name)
        if found is None:
            known, others = (catalog.nodes, catalog.edges) if nodes else (catalog.edges, catalog.nodes)
            hint = (
                f"it is a type of {'edges' if nodes else 'nodes'}" if name in others else suggest_similar(name, known)
            )
            message = f"the schema has no {mapping.kind} type '{name}'"
            self._add_problem(codes.UNKNOWN_TYPE, message, mapping.span, hint)
        return found

    def _plan_properties(self, type_: NodeType | EdgeType, mapping: TypeMapping) -> Iterator[PlannedColumn]:
        for column in mapping.columns:
            if column.name == "id":
                yield PlannedColumn("id", _TEXT, column.expression)
            elif column.name in type_.properties:
                yield PlannedColumn(column.name, type_.properties[column.name].type, column.expression)
            else:
                is_end = isinstance(type_, EdgeType) and column.name in _ENDS
                hint = "'from' and 'to' belong beside 'columns'" if is_end else None
                message = f"{type_.name} has no property '{column.name}'"
                hint = (
                    hint
                    or suggest_similar(column.name, type_.properties)
                    or _list_names("the properties are", type_.properties)
                )
                self._add_problem(codes.UNKNOWN_PROPERTY, message, column.span, hint)
        mapped = {column.name for column in mapping.columns}
        for each in type_.properties.values():
            in_key = isinstance(type_, NodeType) and each.name in (type_.key or ())
            if each.name not in mapped and self._is_required(each, mapped, in_key=in_key):
                what = "is in the key" if in_key else "is required"
                message = f"{type_.name}.{each.name} {what}, but not mapped"
                self._add_problem(codes.MISSING_PROPERTY, message, mapping.span, f"add {each.name}: to columns")

    def _is_required(self, each: Property, mapped: Collection[str], *, in_key: bool) -> bool:
        """Return whether a property must be mapped. An update needs the key of its rows, or their ids."""
        if self.file.load.mode == "update":
            return in_key and "id" not in mapped
        return not each.type.nullable and each.default is None

    def _plan_ends(self, type_: NodeType | EdgeType, mapping: TypeMapping) -> Iterator[PlannedColumn]:
        if not isinstance(type_, EdgeType):
            return
        nodes = {"from": self.catalog.nodes[type_.from_type], "to": self.catalog.nodes[type_.to_type]}
        for end in mapping.ends:
            yield from self._plan_end(type_, end, nodes[end.name])

    def _plan_end(self, type_: EdgeType, end: EndMapping, node: NodeType) -> Iterator[PlannedColumn]:
        if end.form == "one":
            yield from (PlannedColumn(end.name, node, column.expression) for column in end.columns)
            return
        key = tuple(sorted(node.key or ()))
        parts = {column.name: column for column in end.columns} if end.form == "parts" else _match_key_parts(key, end)
        if not key or parts is None or parts.keys() != set(key):
            hint = f"its key is {', '.join(key)}" if key else "it has no key: give one expression for its id"
            message = f"{type_.name}.{end.name} does not match the key of {node.name}"
            self._add_problem(codes.BAD_END, message, start_of(end.span), hint)
            return
        for part in key:
            yield PlannedColumn(f"{end.name}.{part}", node.properties[part].type, parts[part].expression)

    def _plan_column(self, type_: NodeType | EdgeType, view: TemplateText, column: PlannedColumn) -> PlannedColumn:
        columns = self._columns[view.value.lower()]
        info = infer_expression(column.expression.value, view.value, columns)
        if info.unknown_column is not None:
            names = columns.names if columns is not None else ()
            hint = suggest_similar(info.unknown_column, names) or _list_names("the columns are", names)
            message = f"'{view}' has no column '{self.file.redactor.redact(info.unknown_column)}'"
            self._add_problem(codes.UNKNOWN_COLUMN, message, column.expression.span, hint)
        if not column.accepts(info.type):
            self.problems.append(type_mismatch_problem(self.file, type_, column, info.type))
        return PlannedColumn(column.name, column.target_type, column.expression, info.type, info.column)

    # ------------------------------------------------------------------------------------- checks

    def plan_check(self, check: PipelineCheck) -> Iterator[PlannedCheck]:
        """Plan one check, if its query is valid."""
        path = self.file.folder / check.file.value
        try:
            compiled = compile_query(path, self.catalog, None if check.name is None else check.name.value)
            if isinstance(compiled.typed, TypedMutation):
                self._add_problem(codes.BAD_CHECK, f"'{compiled.name}' is a mutation", check.span, "a check only reads")
                return
            compiled.bind_parameters(check.params)
        except QueryError as error:
            found = [
                replace(each, position=replace(each.position, file=self.file.display_path(check.file)))
                for each in error.problems
            ]
            self.problems += [each for each in found if each not in self.problems]
        except (InputError, NotFoundError) as error:
            hide, place = self.file.redactor.redact, check.span if path.is_file() else check.file.span
            self._add_problem(codes.BAD_CHECK, hide(error.message), place, error.hint and hide(error.hint))
        else:
            yield PlannedCheck(compiled.name, check, path)

    def _add_problem(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.append(self.file.problem(code, message, span, hint))


def _match_key_parts(key: tuple[str, ...], end: EndMapping) -> dict[str, PropertyMapping] | None:
    """Assign the items of a list to the parts of a key: by name if the names are those of the parts, else by order."""
    if len(end.columns) != len(key):
        return None
    by_name = {column.expression.value.strip(): column for column in end.columns}
    return by_name if by_name.keys() == set(key) else dict(zip(key, end.columns, strict=True))


def _check_branches(file: PipelineFile, graph: PlannedGraph, names: Collection[str]) -> Iterator[Problem]:
    branch, into = file.load.branch, file.load.merge_into
    if into is not None and into.value == branch.value:
        hint = "load into a separate branch"
        yield file.problem(codes.BAD_BRANCH, f"'{into}' would be merged into itself", into.span, hint)
        return
    if into is not None and into.value not in names:
        hint = suggest_similar(into.value, names)
        yield file.problem(codes.BAD_BRANCH, f"there is no branch '{into}'", into.span, hint)
        into = None
    if branch.value not in names:
        yield from _check_new_name(file, names)
        yield from _check_start(file, graph, names)
    elif into is not None:
        yield from _check_replaced(file, graph, into)
        yield from _check_start(file, graph, names)


def _check_new_name(file: PipelineFile, names: Collection[str]) -> Iterator[Problem]:
    branch = file.load.branch
    try:
        check_name(branch.value)
        check_free(branch.value, names)
    except OmniGraphError as error:
        yield _branch_problem(file, error, branch)
        return
    if file.load.start is None:
        hint = suggest_similar(branch.value, names) or "add from: main to create it"
        yield file.problem(codes.BAD_BRANCH, f"there is no branch '{branch}'", branch.span, hint)


def _check_start(file: PipelineFile, graph: PlannedGraph, names: Collection[str]) -> Iterator[Problem]:
    origin = file.load.origin
    if origin is not None and origin.value not in names:
        try:
            graph.commit(origin.value)
        except (InputError, NotFoundError) as error:
            yield _branch_problem(file, error, origin)


def _check_replaced(file: PipelineFile, graph: PlannedGraph, into: TemplateText) -> Iterator[Problem]:
    """Refuse to replace a branch that has changes of others which the target does not have."""
    branch = file.load.branch
    if branch.value == MAIN:
        message = f"each run replaces its branch by a new one, to merge it into '{into}', and main cannot be replaced"
        yield file.problem(codes.BAD_BRANCH, message, into.span, "add branch: and the name of a separate branch")
        return
    own = takewhile(lambda commit: commit.branch == branch.value, graph.commits(branch.value))
    others = [commit for commit in own if not _is_of_run(file, commit)]
    merged = {commit.id for commit in graph.ancestry(into.value)} if others else set[str]()
    commit = next((commit for commit in others if commit.id not in merged), None)
    if commit is not None:
        message = f"each run replaces branch '{branch}', and it has commit {commit.id}, which no run of this file made"
        hint = f"merge the branch into {into} or delete it, or load into another branch"
        yield file.problem(codes.BAD_BRANCH, message, branch.span, hint)


def _is_of_run(file: PipelineFile, commit: Commit) -> bool:
    """Return whether a run of the file made a commit, or it only prepared tables or recovered from a crash."""
    if commit.actor == RECOVERY_ACTOR and commit.message is None:
        return True
    return commit.message in (file.message, HANDOFF_MESSAGE, CATCH_UP_MESSAGE)


def _check_identities(file: PipelineFile, catalog: Catalog) -> Iterator[Problem]:
    for each in file.load.identities:
        try:
            resolve_identity(catalog, {each.type_name: each.columns}, file.load.mode)
        except ParameterError as error:
            yield file.problem(codes.BAD_IDENTITY, error.message, each.span, error.hint)


def _branch_problem(file: PipelineFile, error: OmniGraphError, place: TemplateText) -> Problem:
    hide = file.redactor.redact
    return file.problem(codes.BAD_BRANCH, hide(error.message), place.span, error.hint and hide(error.hint))


def _list_notes(file: PipelineFile, *, creates_branch: bool, replaces_branch: bool) -> Iterator[str]:
    load = file.load
    if file.checks and load.branch.value == MAIN:
        yield "the checks run when the rows are already on main; load into a branch to check before others see them"
    if load.origin is not None and not creates_branch:
        yield f"branch {load.branch} already exists, so 'from' is not used"
    if replaces_branch:
        yield f"branch {load.branch} already exists; the run replaces it by a new one"


def _cast_hint(required: ValueType, expression: TemplateText) -> str | None:
    name = _SQL_NAMES.get(required.scalar)
    if name is None or required.is_list:
        return None
    return f"write cast({expression} AS {name})"


_SQL_NAMES: Final = {
    Scalar.STRING: "string",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
}


def _list_names(begin: str, names: Mapping[str, object] | tuple[str, ...]) -> str | None:
    return f"{begin} {', '.join(names)}" if names else "there are none"

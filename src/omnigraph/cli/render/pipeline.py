"""Results of ``omnigraph pipeline``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize, size_text, to_one_line
from omnigraph.cli.render.write import LoadSummary
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.pipeline.file import PipelineFile, TypeIdentity
    from omnigraph.pipeline.planner import PipelinePlan, PlannedColumn, PlannedMapping, PlannedSource
    from omnigraph.spark.pipeline import CheckResult, PipelineResult, PipelineStep

_MAIN = "main"
_LATER = "known to Spark"


@dataclass(frozen=True, slots=True)
class PipelinePreview(CommandResult):
    """What a pipeline reads, maps and writes."""

    plan: PipelinePlan
    graph: str

    def to_json(self) -> Mapping[str, Json]:
        """Everything as written in the file: variables by name."""
        plan, file = self.plan, self.plan.file
        return {
            "file": file.name,
            "graph": self.graph,
            "load": _load_json(file),
            "makes_branch": plan.creates_branch,
            "sources": [_input_json(each) for each in plan.sources],
            "views": [{"name": view.name, "sql": view.sql.written} for view in file.views],
            "targets": [_target_json(each) for each in plan.mappings],
            "checks": [{"name": each.name, "file": file.display_path(each.check.file)} for each in plan.checks],
            "notes": list(plan.notes),
        }

    def draw(self, page: Page) -> None:
        """The destination, then one table per part."""
        plan, file = self.plan, self.plan.file
        load = file.load
        made = f", made from {load.start}" if plan.creates_branch else ""
        page.facts(
            {
                "graph": self.graph,
                "branch": f"{load.branch}{made}",
                "load": f"{load.mode}, on_error {load.on_error}",
                **({"identity": "; ".join(map(_identity_text, load.identities))} if load.identities else {}),
                "checks": ", ".join(each.name for each in plan.checks) or None,
                "merge": None if load.merge_into is None else f"into {load.merge_into}, if no check finds anything",
            }
        )
        page.print("")
        page.table(("source", "format", "reads", "size"), [_input_row(each) for each in plan.sources])
        if file.views:
            page.print("")
            page.table(("view", "sql"), [(view.name, to_one_line(view.sql.written)) for view in file.views])
        page.print("")
        page.table(
            ("type", "column", "wants", "expression", "gives", "view"),
            [_column_row(target, each) for target in plan.mappings for each in target.columns],
        )
        for note in plan.notes:
            page.say(f"note: {note}")


@dataclass(frozen=True, slots=True)
class PipelineCheckSummary(CommandResult):
    """What a pipeline would load: the result of ``pipeline check``."""

    result: PipelineResult

    def to_json(self) -> Mapping[str, Json]:
        """What a load says, and the steps."""
        return {**_load_summary(self.result, checked=True).to_json(), **_steps_json(self.result)}

    def draw(self, page: Page) -> None:
        """Draw it as a load with ``--check``."""
        _load_summary(self.result, checked=True).draw(page)


@dataclass(frozen=True, slots=True)
class PipelineRunSummary(CommandResult):
    """What a run loaded, what the checks found, and whether it was merged."""

    result: PipelineResult
    graph: str

    def to_json(self) -> Mapping[str, Json]:
        """What a load says, the steps, and the checks; ``look`` is what to do next."""
        return {
            **_load_summary(self.result, checked=False).to_json(),
            **_steps_json(self.result),
            "graph": self.graph,
            "passed": self.result.passed,
            "checks": [
                {
                    "name": each.check.name,
                    "file": self._file.display_path(each.check.check.file),
                    "rows": each.rows,
                    "passed": each.passed,
                    "sample": list(each.sample),
                }
                for each in self.result.checks
            ],
            "merged": self._merged_json(),
            "look": list(self._look()),
        }

    def draw(self, page: Page) -> None:
        """Print what was loaded, the time, the result of each check, and how to inspect it."""
        result = self.result
        _load_summary(result, checked=False).draw(page)
        if self._is_merged_before:
            return
        page.print("")
        pace = f"{result.load_seconds:.1f} s, {result.rows_per_second:,.0f} rows/s; {result.seconds:.1f} s in all"
        page.print(f"{pluralize(result.rows, 'row')} in {pace}")
        for check in result.checks:
            page.print(
                f"check {check.check.name}: {'passed' if check.passed else pluralize(check.rows, 'row') + ' found'}"
            )
            for row in check.sample:
                page.print(f"  {to_one_line(json.dumps(row, ensure_ascii=False))}")
            if check.rows > len(check.sample):
                page.print(f"  and {check.rows - len(check.sample):,} more")
        if result.merged is not None:
            made = "nothing to do" if result.merged.commit is None else f"commit {result.merged.commit.id}"
            page.print(f"merged into {self._file.load.merge_into}: {result.merged.outcome}, {made}")
        if self._branch != _MAIN:
            unmerged = self._file.load.merge_into is not None and result.merged is None
            page.print(f"branch {self._branch} is kept{' and not merged' if unmerged else ''}; to look at it:")
        elif not result.passed:
            page.print("the rows are on main; to look at them:")
        for command in self._look():
            page.print(f"  {command}")

    @property
    def _file(self) -> PipelineFile:
        return self.result.plan.file

    @property
    def _branch(self) -> str:
        return self._file.load.branch.written

    @property
    def _is_merged_before(self) -> bool:
        """Whether the target has the run already, so that nothing was read."""
        into = self._file.load.merge_into
        return into is not None and self.result.load.branch == into.value

    def _merged_json(self) -> Mapping[str, Json] | None:
        merged, into = self.result.merged, self._file.load.merge_into
        if merged is None or into is None:
            return None
        commit = None if merged.commit is None else merged.commit.id
        return {"into": into.written, "outcome": merged.outcome, "commit": commit}

    def _look(self) -> Iterator[str]:
        """Yield the commands that show what was loaded and what failed."""
        if self._is_merged_before:
            return
        place = f"-g {_word(self.graph)}"
        on_branch = f"--branch {_word(self._branch)} {place}"
        for check in self.result.checks:
            if not check.passed:
                yield f"omnigraph query {self._asked(check)} {on_branch}"
        if self._branch != _MAIN:
            yield f"omnigraph snapshot {on_branch}"
            yield f"omnigraph branch delete {_word(self._branch)} --yes {place}"

    def _asked(self, check: CheckResult) -> str:
        given = check.check.check
        words = f"{_word(self._file.display_path(given.file))} --name {check.check.name}"
        if not given.params:
            return words
        params = self._file.redactor.redact(json.dumps(given.params, default=str, ensure_ascii=False))
        return f"{words} --params {_word(params)}"


def _word(text: str) -> str:
    """Quote a word for a command line, so that the shell still expands ``${VARIABLES}`` in it."""
    return f'"{text}"' if "${" in text else shlex.quote(text)


# --------------------------------------------------------------------------------------------- parts


def _load_summary(result: PipelineResult, *, checked: bool) -> LoadSummary:
    """The result of the load, with the texts of the file instead of the values of variables."""
    file, load = result.plan.file, result.load
    rejects = load.rejects_path and file.redactor.redact(load.rejects_path)
    branch = file.load.target if load.branch == file.load.target.value else file.load.branch
    return LoadSummary(replace(load, branch=branch.written, rejects_path=rejects), checked=checked)


def _load_json(file: PipelineFile) -> Mapping[str, Json]:
    load = file.load
    return {
        "mode": load.mode,
        "branch": load.branch.written,
        "from": None if load.origin is None else load.origin.written,
        "on_error": load.on_error,
        "merge_into": None if load.merge_into is None else load.merge_into.written,
        "identity": {each.type_name: list(each.columns) for each in load.identities},
        "allow_empty": load.allow_empty,
        "allow_missing_blobs": load.allow_missing_blobs,
    }


def _identity_text(identity: TypeIdentity) -> str:
    return f"{identity.type_name} by {', '.join(identity.columns)}"


def _input_json(planned: PlannedSource) -> Mapping[str, Json]:
    each = planned.source
    return {
        "name": each.name,
        "format": each.format and each.format.written,
        "path": each.path and each.path.written,
        "sql": each.sql and each.sql.written,
        "options": {name: option.written for name, option in each.options.items()},
        "files": planned.files,
        "bytes": planned.size,
        "columns": None if planned.columns is None else list(planned.columns.names),
    }


def _input_row(planned: PlannedSource) -> tuple[str, str, str, str | None]:
    each = planned.source
    reads = each.path or each.sql or each.options.get("dbtable") or each.options.get("query") or ""
    size = None
    if planned.files is not None and planned.size is not None:
        size = f"{pluralize(planned.files, 'file')}, {size_text(planned.size)}"
    return each.name, "sql" if each.format is None else each.format.written, to_one_line(str(reads)), size


def _target_json(target: PlannedMapping) -> Mapping[str, Json]:
    return {
        "kind": target.kind,
        "type": target.type.name,
        "view": target.view.written,
        "columns": [
            {
                "name": each.name,
                "wants": each.target_text,
                "expression": each.expression.written,
                "gives": None if each.expression_type is None else str(each.expression_type),
            }
            for each in target.columns
        ],
    }


def _column_row(target: PlannedMapping, column: PlannedColumn) -> tuple[str, ...]:
    gives = _LATER if column.expression_type is None else str(column.expression_type)
    expression = to_one_line(column.expression.written)
    return target.type.name, column.name, column.target_text, expression, gives, target.view.written


def _steps_json(result: PipelineResult) -> Mapping[str, Json]:
    return {
        "file": result.plan.file.name,
        "rows": result.rows,
        "seconds": round(result.seconds, 3),
        "rows_per_second": round(result.rows_per_second, 1),
        "steps": [_step_json(step) for step in result.steps],
    }


def _step_json(step: PipelineStep) -> Mapping[str, Json]:
    return {"kind": step.kind, "name": step.name, "rows": step.rows, "seconds": round(step.seconds, 3)}

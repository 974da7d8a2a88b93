"""The stages of a rewrite apart, for work that is spread over processes or machines: plan, tasks, execute, commit."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ._progress import Progress
from ._run import Size, column_list, run
from ._target import TableLike, Target, resolve
from .errors import ConflictError
from .tables import Policy, Verify


@dataclass(frozen=True, repr=False)
class Work:
    """Work on a table for another process. Picklable; the envelope holds no credentials, `table` what it takes to reach
    the files of a table that PyIceberg opened."""

    envelope: bytes  #: JSON
    model: tuple[str, bytes] | None = None  #: name and content of a large model
    table: Any = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> dict[str, Any]:
        """The envelope, read."""
        return json.loads(self.envelope)

    def target(self) -> Target:
        if self.table is None:
            return Target(self.json["table"], dict(self.properties))
        return resolve(self.table, self.properties)

    def write(self, folder: str) -> str:
        """The path of the envelope in the folder, the model beside it."""
        if self.model:
            Path(folder, self.model[0]).write_bytes(self.model[1])
        path = Path(folder, "work.json")
        path.write_bytes(self.envelope)
        return str(path)


class Task(Work):
    """One slice of a plan's work: the envelope is "thalweg.cluster-task/1"."""

    def __repr__(self) -> str:
        task = self.json
        part = f"slice {task['slice'] + 1} of {task['slices']}"
        return f"Task({task['task']} of run {task['run-id']}, {len(task['sources'])} files, {part})"


@dataclass(frozen=True)
class Result:
    """What executing a task gave: written files that belong to no snapshot yet. Picklable."""

    envelope: bytes = field(repr=False)  #: JSON, "thalweg.cluster-result/1"

    @property
    def json(self) -> dict[str, Any]:
        """The envelope, read."""
        return json.loads(self.envelope)

    @property
    def rows(self) -> int:
        return self.json["rows"]

    def __repr__(self) -> str:
        result = self.json
        return f"Result(task {result['task']['task']} of run {result['task']['run-id']}, {result['rows']} rows)"


class Plan(dict[str, Any]):
    """What an `optimize` would rewrite and gain: the object of `thalweg plan --json`."""

    def __init__(self, values: dict[str, Any], target: Target, options: dict[str, Any]) -> None:
        super().__init__(values)
        self._target = target
        self._options = options

    def __bool__(self) -> bool:
        """True when there is something to rewrite."""
        return self["outcome"] == "planned"

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def tasks(
        self,
        *,
        memory: Size | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: Progress = None,
    ) -> list[Task]:
        """The plan's work as tasks, in no special order: reads the key columns of all that is selected.

        Raises:
            ConflictError: the table has moved since it was planned: plan again.
        """
        if not self:
            return []
        resources = {"memory": memory, "spill_dir": spill_dir, "threads": threads}
        with tempfile.TemporaryDirectory(prefix="thalweg-tasks-") as folder:
            paths, table, properties = planned_envelopes(self, "tasks", resources | {"tasks_out": folder}, progress)
            return [read_task(Path(path), table, properties) for path in paths]


def planned_envelopes(
    plan: Plan, kind: str, options: dict[str, Any], progress: Progress = None
) -> tuple[list[str], object, Mapping[str, str]]:
    """Plans again, writing envelopes: their paths, and what it takes elsewhere to reach the table."""
    target = plan._target
    planned = run("plan", target, plan._options | options, progress=progress)
    if planned["outcome"] != "planned" or planned["snapshot_before"] != plan["snapshot_before"]:
        raise ConflictError(f"{plan['table']}: the table has moved since it was planned: plan again")
    return planned[kind], target.pin() if target.pin else None, target.properties


def read_task(path: Path, table: object, properties: Mapping[str, str]) -> Task:
    envelope = path.read_bytes()
    model = json.loads(envelope).get("fitted-file")
    return Task(envelope, (model, (path.parent / model).read_bytes()) if model else None, table, dict(properties))


def plan(
    table: TableLike,
    *,
    columns: Sequence[str] | None = None,
    full: bool = False,
    policy: Policy | None = None,
    theta: float | None = None,
    max_source_files: int | None = None,
    max_source_rows: int | None = None,
    max_source_bytes: Size | None = None,
    target_file_size: Size | None = None,
    target_rows_per_fragment: int | None = None,
    max_task_bytes: Size | None = None,
    sort_scope: Literal["table", "group"] | None = None,
    index_update: bool = True,
    run_id: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Plan:
    """What `optimize` with the same options would rewrite, and the depth before and after. Changes nothing.

    Args:
        columns: plan as if these were declared instead. Such a plan has no tasks.
    """
    options = {
        "columns": column_list(columns) if columns else None,
        "full": full,
        "policy": policy,
        "theta": theta,
        "max_source_files": max_source_files,
        "max_source_rows": max_source_rows,
        "max_source_bytes": max_source_bytes,
        "target_file_size": target_file_size,
        "target_rows_per_fragment": target_rows_per_fragment,
        "max_task_bytes": max_task_bytes,
        "sort_scope": sort_scope,
        "no_index_update": not index_update,
        "run_id": run_id,
    }
    target = resolve(table, catalog_properties)
    return Plan(run("plan", target, options), target, options)


def execute(
    task: Task,
    *,
    rows: Any = None,
    memory: Size | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    max_spill_bytes: Size | None = None,
    threads: int | None = None,
    verify: Verify = "digest",
    orphan_age: str | None = None,
    progress: Progress = None,
) -> Result:
    """Sorts and writes the rows of one task. The files wait for their commit, at most `orphan_age` (24h); on failure
    they are deleted. May be done again, also while another process does it: only one result of a task is committed.

    `rows`: an Arrow stream (`__arrow_c_stream__`) of the rows of its slice, read elsewhere."""
    with tempfile.TemporaryDirectory(prefix="thalweg-task-") as folder:
        out = Path(folder, "result.json")
        target = task.target()
        try:
            run(
                "execute",
                target,
                {
                    "out": str(out),
                    "memory": memory,
                    "spill_dir": spill_dir,
                    "max_spill_bytes": max_spill_bytes,
                    "threads": threads,
                    "verify": verify,
                    "orphan_age": orphan_age,
                },
                files=[task.write(folder)],
                named=False,
                progress=progress,
                rows=None if rows is None else rows.__arrow_c_stream__(),
            )
            return Result(out.read_bytes())
        except BaseException:
            # Stopped when it was through: nobody will have the result, so its files go too.
            if out.exists():
                with suppress(Exception):
                    run("discard", target, {}, files=[str(out)])
            raise


def discard(
    table: TableLike,
    results: Sequence[Result],
    *,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Deletes the files of results that will not be committed; what is committed stays."""
    target = resolve(table, catalog_properties)
    with tempfile.TemporaryDirectory(prefix="thalweg-results-") as folder:
        return run("discard", target, {}, files=_write_results(results, folder))


def _write_results(results: Sequence[Result], folder: str) -> list[str]:
    paths = []
    for number, result in enumerate(results):
        paths.append(os.path.join(folder, f"result-{number:05}.json"))
        Path(paths[-1]).write_bytes(result.envelope)
    return paths


def commit(
    table: TableLike,
    results: Sequence[Result],
    *,
    scans: Sequence[bytes] = (),
    verify: Verify = "digest",
    memory: Size | None = None,
    progress: Progress = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Checks the results of all tasks of a plan (one of each), and commits them as one change: the object of
    `thalweg commit --json`. `scans`: the reports of `thalweg scatter`, for results whose rows it read.

    Raises:
        ConflictError: files that the plan rewrote were changed meanwhile. The written files are reclaimed later.
    """
    target = resolve(table, catalog_properties)
    with tempfile.TemporaryDirectory(prefix="thalweg-results-") as folder:
        reports = []
        for number, scan in enumerate(scans):
            reports.append(os.path.join(folder, f"scan-{number:05}.json"))
            Path(reports[-1]).write_bytes(scan)
        options: dict[str, Any] = {"verify": verify, "memory": memory, "scan": reports}
        return run("commit", target, options, files=_write_results(results, folder), progress=progress)

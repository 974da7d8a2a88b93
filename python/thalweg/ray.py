"""The work of an `optimize` spread over a Ray cluster: `pip install thalweg[ray]`."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

import pyarrow as pa

try:
    import ray as _ray
except ImportError as error:
    raise ImportError("thalweg.ray needs Ray: pip install thalweg[ray]") from error

from . import _shuffle, stages, tables
from ._progress import Callback, Progress, shown
from ._run import Size
from ._target import TableLike
from .errors import ConflictError, ThalwegError, UnknownOutcomeError, UsageError
from .tables import Policy, Verify

logger = logging.getLogger("thalweg.ray")

_POLL_SECONDS = 0.5
#: How long cancelled tasks may take to delete what they wrote.
_CANCEL_SECONDS = 30.0
#: Options of Ray's tasks that the tasks of Ray Data take too.
_DATA_OPTIONS = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "runtime_env", "label_selector")


def optimize(
    table: TableLike,
    *,
    full: bool = False,
    policy: Policy | None = None,
    theta: float | None = None,
    max_source_files: int | None = None,
    max_source_rows: int | None = None,
    max_source_bytes: Size | None = None,
    target_file_size: Size | None = None,
    target_rows_per_fragment: int | None = None,
    shuffle: bool = False,
    num_tasks: int | None = None,
    max_task_bytes: Size | None = None,
    sort_scope: Literal["table", "group"] | None = None,
    index_update: bool = True,
    num_cpus: float = 1,
    memory: int | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    max_spill_bytes: Size | None = None,
    ray_options: Mapping[str, Any] | None = None,
    max_retries: int = 3,
    max_replans: int = 10,
    verify: Verify = "digest",
    run_id: str | None = None,
    orphan_age: str | None = None,
    progress: Progress = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """As `thalweg.optimize`, with the tasks of the plan executed by the workers of a Ray cluster (the one that
    `ray.init` has joined, else a local one), and committed as one change. Every worker needs this package, and must
    reach the table's files by the same paths.

    Lost tasks (a worker or its node died) and tasks that failed are executed again; whatever became of the first
    attempt, one result of each is committed, and `clean` reclaims the files of the dead. Files that others changed
    meanwhile are planned anew. Failures and Ctrl-C cancel the tasks and leave nothing behind.

    Args:
        num_tasks: split the plan's bytes into about so many tasks; else `max_task_bytes` says how large one may be,
            else there is one for each selection. Each task reads its whole selection and keeps its slice of the curve.
        shuffle: read each row once instead, for selections that no node could hold: the workers sample the keys, Ray
            Data shuffles the rows to their slices (through the object store and what Ray spills of it), and each task
            sorts and writes one. `num_tasks` is then the number of slices of each selection; by default as many as
            tasks run at once, and more where a slice would be larger than a cube (Iceberg).
        num_cpus: of one task, also the threads of its sort.
        memory: what the sort of one task may hold, in bytes; Ray is asked for as much. By default half of what the
            node has for `num_cpus`.
        spill_dir: on the workers.
        ray_options: more options of Ray's tasks, like `resources` or `runtime_env`.
        max_retries: executions of one task after the first, for lost workers and for failures.
        max_replans: conflicts that plan again.

    The other arguments, the result and the exceptions are those of `thalweg.optimize`.
    """
    if num_tasks is not None and max_task_bytes is not None:
        raise UsageError("num_tasks and max_task_bytes both say how large a task is: give one")
    if num_tasks is not None and num_tasks < 1:
        raise UsageError(f"num_tasks is {num_tasks}: at least one task is needed")
    if shuffle and max_task_bytes is not None:
        raise UsageError("with shuffle, num_tasks says how many slices there are, not max_task_bytes")
    if not _ray.is_initialized():
        _ray.init()
    planning: dict[str, Any] = {
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
        "index_update": index_update,
        "run_id": run_id,
        "catalog_properties": catalog_properties,
    }
    executing: dict[str, Any] = {
        "memory": memory or _memory_of_a_task(num_cpus),
        "spill_dir": spill_dir and os.fspath(spill_dir),
        "max_spill_bytes": max_spill_bytes,
        "threads": max(1, int(num_cpus)),
        "verify": verify,
        "orphan_age": orphan_age,
    }
    remote: dict[str, Any] = {
        "num_cpus": num_cpus,
        "memory": memory,
        "max_retries": max_retries,
        "scheduling_strategy": "SPREAD",
        **(ray_options or {}),
    }
    begin = time.monotonic()
    committed = run_id is not None and _is_committed(table, run_id, catalog_properties)
    if not committed:
        with suppress(ThalwegError):  # a failure to do so is no reason not to work
            tables.clean(table, orphan_age=orphan_age, catalog_properties=catalog_properties)
    for replans in range(max_replans + 1):
        plan = None if committed else stages.plan(table, **planning)
        if plan and num_tasks is not None and not shuffle:
            plan = stages.plan(table, **planning | {"max_task_bytes": math.ceil(plan["source_bytes"] / num_tasks)})
        if not plan:  # says so, and does what is done even then
            local = {key: value for key, value in planning.items() if key != "max_task_bytes"}
            return tables.optimize(table, **local, orphan_age=orphan_age, progress=progress) | {"replans": replans}
        try:
            with shown(progress) as callback:
                kind = _ShuffleJob if shuffle else _Job
                job = kind(table, plan, executing, remote, max_retries, catalog_properties, callback)
                if isinstance(job, _ShuffleJob):
                    job.slices = num_tasks
                report = job.run()
        except ConflictError as conflict:
            if replans == max_replans:
                raise ConflictError(f"gave up after {replans + 1} conflicts: {conflict}") from conflict
            logger.info("%s: planned again: %s", plan["table"], conflict)
            time.sleep(0.1 * 2 ** min(replans, 6) * random.uniform(0.5, 1.5))
            continue
        notes = plan.get("notes", []) + [note for note in report.get("notes", []) if note not in plan.get("notes", [])]
        seconds = time.monotonic() - begin
        return report | {"format": "thalweg.optimize/1", "notes": notes, "replans": replans, "seconds": seconds}
    raise AssertionError("the last round returns or raises")


def _memory_of_a_task(num_cpus: float) -> int:
    """Half of the smallest share of memory that a node has for a task."""
    shares = [
        node["Resources"]["memory"] * num_cpus / node["Resources"]["CPU"]
        for node in _ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU") and node["Resources"].get("memory")
    ]
    if not shares:
        raise UsageError("no node of the Ray cluster has CPUs and memory")
    return max(1 << 28, int(min(shares) / 2))


def _is_committed(table: TableLike, run_id: str, catalog_properties: Mapping[str, str] | None) -> bool:
    return any(run.get("run_id") == run_id for run in tables.history(table, catalog_properties=catalog_properties))


def _execute(task: stages.Task, options: dict[str, Any]) -> stages.Result:
    return stages.execute(task, **options)


class _Job:
    """One plan, carried out: its tasks on the workers, and the commit."""

    def __init__(
        self,
        table: TableLike,
        plan: stages.Plan,
        executing: dict[str, Any],
        remote: dict[str, Any],
        max_retries: int,
        catalog_properties: Mapping[str, str] | None,
        callback: Callback | None,
    ) -> None:
        self._table = table
        self._plan = plan
        self._executing = executing
        self._remote = {key: value for key, value in remote.items() if value is not None}
        self._max_retries = max_retries
        self._catalog_properties = catalog_properties
        self._callback = callback
        self._scans: list[bytes] = []
        self._results: dict[int, stages.Result] = {}
        self._pending: dict[_ray.ObjectRef, int] = {}

    def run(self) -> dict[str, Any]:
        try:
            self._sort()
            return stages.commit(
                self._table,
                list(self._results.values()),
                scans=self._scans,
                verify=self._executing["verify"],
                progress=self._callback,
                catalog_properties=self._catalog_properties,
            )
        except UnknownOutcomeError:
            raise
        except BaseException:
            self._cancel()
            self._discard()
            raise

    def _sort(self) -> None:
        """Fills `_results` (and `_scans`)."""
        memory, spill_dir = self._executing["memory"], self._executing["spill_dir"]
        tasks = self._plan.tasks(memory=memory, spill_dir=spill_dir, progress=self._callback)
        options = _ray.put(self._executing)
        self._write(_execute, [(_ray.put(task), options) for task in tasks])

    def _write(self, work: Callable[..., stages.Result], arguments: Sequence[tuple[Any, ...]]) -> None:
        rows = 0
        for number, result in self._each(work, arguments):
            self._results[number] = result
            rows += result.rows
            logger.info("%d of %d tasks are done, %d rows", len(self._results), len(arguments), rows)
            if self._callback:
                self._callback("write", rows, self._plan["rows"])

    def _each(self, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Has the work done with each of the arguments, once with success; the number and what came of it, as they
        come. A lost worker is Ray's to replace, a failure ours to try again."""
        remote = _ray.remote(work).options(**self._remote)
        failures = [0] * len(arguments)
        for number, given in enumerate(arguments):
            self._pending[remote.remote(*given)] = number
        while self._pending:
            ready, _ = _ray.wait(list(self._pending), num_returns=1, timeout=_POLL_SECONDS)
            for ref in ready:
                number = self._pending[ref]
                try:
                    result = _ray.get(ref)
                except _ray.exceptions.RayTaskError as error:
                    del self._pending[ref]
                    failures[number] += 1
                    if isinstance(error.cause, ConflictError | UsageError) or failures[number] > self._max_retries:
                        raise error.cause from None
                    logger.warning("task %d failed and is done again: %s", number, error.cause)
                    self._pending[remote.remote(*arguments[number])] = number
                    continue
                except _ray.exceptions.RayError as error:
                    del self._pending[ref]
                    raise ThalwegError(f"task {number} was lost {self._max_retries + 1} times: {error}") from error
                # Pending until the caller has it: an interruption must not lose what is to be discarded.
                yield number, result
                del self._pending[ref]

    def _cancel(self) -> None:
        """Stops the tasks under way, which delete their files; results that come all the same are kept for
        `_discard`."""
        pending, self._pending = self._pending, {}
        for ref in pending:
            _ray.cancel(ref)
        if not pending:
            return
        ended, lost = _ray.wait(list(pending), num_returns=len(pending), timeout=_CANCEL_SECONDS)
        for ref in ended:
            with suppress(Exception):
                self._results[pending[ref]] = _ray.get(ref)
        for ref in lost:
            _ray.cancel(ref, force=True)  # `clean` finds what it leaves

    def _discard(self) -> None:
        """Deletes the files of results that are not committed."""
        results = [result for result in self._results.values() if isinstance(result, stages.Result)]
        self._results = {}
        try:
            if results:
                stages.discard(self._table, results, catalog_properties=self._catalog_properties)
        except Exception as error:
            logger.warning("files of run %s are left, for `clean`: %s", results[0].json["task"]["run-id"], error)


def _sample(selection: _shuffle.Selection, units: tuple[int, int], options: dict[str, Any]) -> bytes:
    return _shuffle.sample(selection, units, options)


def _bucket(item: Mapping[str, int], slice_number: int, piece: int) -> int:
    """Where a piece belongs: any place of its slice, the same one in another attempt. -1: the scan report."""
    if slice_number < 0:
        return -1
    place = zlib.crc32(f"{item['first']}/{piece}".encode()) % item["places"]
    return item["bucket"] + slice_number * item["places"] + place


def _scatter(
    batch: pa.Table, selections: list[_ray.ObjectRef], folder: str | None, options: dict[str, Any]
) -> Iterator[pa.Table]:
    """Of each row of `batch`, some units: their pieces, each with the place that it belongs to."""
    for row in batch.to_pylist():
        selection = _ray.get(selections[row["selection"]])
        pieces = _shuffle.scatter(selection, (row["first"], row["end"]), folder, options)
        for number, (slice_number, content) in enumerate(pieces):
            bucket = _bucket(row, slice_number, number)
            yield pa.table({"bucket": pa.array([bucket], pa.int64()), "piece": pa.array([content], pa.large_binary())})


def _execute_pieces(task: stages.Task, blocks: list[_ray.ObjectRef], options: dict[str, Any]) -> stages.Result:
    """One slice, its pieces fetched block by block while they are sorted."""

    def pieces() -> Iterator[pa.Buffer]:
        for ref in blocks:
            for piece in _ray.get(ref)["piece"]:
                yield piece.as_buffer()

    # A slice without pieces is that of a selection without live rows.
    return stages.execute(task, rows=_shuffle.rows_of(pieces()) if blocks else None, **options)


class _ShuffleJob(_Job):
    """The same with each row read once: the workers sample the keys, the splitters of the merged model say which slice
    a row belongs to, Ray Data shuffles the rows by that, and each worker sorts and writes a slice."""

    slices: int | None = None
    #: Bytes that one worker scatters at once, of one piece of a slice, and of one block of the shuffle.
    scatter_bytes = 1 << 30
    piece_bytes = 8 << 20
    block_bytes = 64 << 20

    def _sort(self) -> None:
        selections = _shuffle.select(self._plan)
        sizes = [selection.unit_bytes() for selection in selections]
        workers = max(1, int(_ray.cluster_resources().get("CPU", 1) / max(self._remote["num_cpus"], 0.001)))
        fitted, tasks = self._fit(selections, sizes, workers)

        places: list[int] = []
        begins: list[int] = []
        items: list[dict[str, int]] = []
        for number, of_selection in enumerate(sizes):
            total = sum(of_selection)
            places.append(max(1, math.ceil(total / len(tasks[number]) / self.block_bytes)))
            begins.append(begins[-1] + len(tasks[number - 1]) * places[number - 1] if number else 0)
            for first, end in _ranges(of_selection, min(self.scatter_bytes, total // (4 * workers) + 1)):
                item = {"selection": number, "first": first, "end": end}
                items.append(item | {"bucket": begins[number], "places": places[number]})
        buckets = begins[-1] + len(tasks[-1]) * places[-1]
        blocks = self._shuffle(fitted, items, buckets)

        options = _ray.put(self._executing)
        arguments = []
        for number, of_tasks in enumerate(tasks):
            for slice_number, task in enumerate(of_tasks):
                begin = begins[number] + slice_number * places[number]
                refs = [ref for bucket in range(begin, begin + places[number]) for ref in blocks.get(bucket, [])]
                arguments.append((_ray.put(task), refs, options))
        self._write(_execute_pieces, arguments)

    def _fit(
        self, selections: list[_shuffle.Selection], sizes: list[list[int]], workers: int
    ) -> tuple[list[_shuffle.Selection], list[list[stages.Task]]]:
        """The selections with their models, and their slices as tasks."""
        resources = {key: self._executing[key] for key in ("memory", "threads", "spill_dir")}
        arguments, of = [], []
        for number, selection in enumerate(selections):
            ref = _ray.put(selection)
            for units in _ranges(sizes[number], sum(sizes[number]) // (2 * workers) + 1):
                arguments.append((ref, units, resources))
                of.append(number)
        samples: list[list[bytes]] = [[] for _ in selections]
        for done, (number, sample) in enumerate(self._each(_sample, arguments)):
            samples[of[number]].append(sample)
            if self._callback:
                self._callback("fit", self._plan["rows"] * (done + 1) // len(arguments), self._plan["rows"])
        fitted, tasks, first_task = [], [], 0
        for number, selection in enumerate(selections):
            slices = self.slices or max(workers, math.ceil(sum(sizes[number]) / _cube_bytes(selection)))
            selection, of_selection = _shuffle.fit(selection, samples[number], slices, first_task)
            fitted.append(selection)
            tasks.append(of_selection)
            first_task += len(of_selection)
        return fitted, tasks

    def _shuffle(
        self, selections: list[_shuffle.Selection], items: list[dict[str, int]], buckets: int
    ) -> dict[int, list[_ray.ObjectRef]]:
        """The blocks of pieces, by their buckets. Fills `_scans`."""
        import ray.data

        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        options = {key: self._executing[key] for key in ("memory", "threads", "spill_dir", "verify")}
        options["piece_size"] = self.piece_bytes
        remote = {key: value for key, value in self._remote.items() if key in _DATA_OPTIONS}
        try:
            with ray.data.DataContext.current(context):
                scattered = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
                    cast(Any, _scatter),
                    batch_size=1,
                    batch_format="pyarrow",
                    fn_kwargs={
                        "selections": [_ray.put(selection) for selection in selections],
                        "folder": self._executing["spill_dir"],
                        "options": options,
                    },
                    **remote,
                )
                self._shuffled = scattered.sort("bucket", boundaries=list(range(buckets))).materialize()
        except _ray.exceptions.RayError as error:
            raise _own_error(error) from error
        blocks = deque(
            (entry.ref, entry.metadata.num_rows)
            for bundle in self._shuffled.iter_internal_ref_bundles()
            for entry in bundle.blocks
            if entry.metadata.num_rows
        )
        # Blocks come in the order of buckets; how many pieces each bucket has the scan reports tell, which come first.
        reports = 0
        while blocks and reports < len(items):
            ref, count = blocks.popleft()
            reports += count
            self._scans += _ray.get(ref)["piece"].to_pylist()
        pieces = _pieces_of_buckets(self._scans, items, selections)
        found: dict[int, list[_ray.ObjectRef]] = {}
        left = 0
        for bucket in sorted(pieces):
            left += pieces[bucket]
            while left > 0 and blocks:
                ref, count = blocks.popleft()
                left -= count
                found.setdefault(bucket, []).append(ref)
            if left != 0:
                break
        if reports != len(items) or left != 0 or blocks:
            raise ThalwegError("Ray Data did not give the blocks of the shuffle in their order, or not all of them")
        return found


def _pieces_of_buckets(
    scans: Sequence[bytes], items: Sequence[Mapping[str, int]], selections: Sequence[_shuffle.Selection]
) -> Counter[int]:
    """How many pieces each bucket must have."""
    numbers = {selection.json["selection-id"]: at for at, selection in enumerate(selections)}
    by_units = {(item["selection"], item["first"]): item for item in items}
    pieces: Counter[int] = Counter()
    for scan in map(json.loads, scans):
        item = by_units[numbers[scan["selection-id"]], scan["first-unit"]]
        pieces.update(_bucket(item, piece["slice"], number) for number, piece in enumerate(scan["pieces"]))
    return pieces


def _ranges(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Neighbours of up to `most` bytes together, or one that is larger."""
    ranges, first, held = [], 0, 0
    for unit, size in enumerate(sizes):
        if unit > first and held + size > most:
            ranges.append((first, unit))
            first, held = unit, 0
        held += size
    return [*ranges, (first, len(sizes))]


def _cube_bytes(selection: _shuffle.Selection) -> int:
    return selection.json["spec"]["target-cube-size-bytes"]


def _own_error(error: BaseException) -> Exception:
    """The failure of ours that Ray wraps, if there is one."""
    seen: BaseException | None = error
    while seen is not None:
        cause = getattr(seen, "cause", None) or seen.__cause__
        if isinstance(seen, ThalwegError) and not isinstance(seen, _ray.exceptions.RayError):
            return seen
        seen = cause
    return ThalwegError(f"Ray could not shuffle the rows: {error}")

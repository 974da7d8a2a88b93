"""The stages of one selection's sort that is spread over machines, as calls: see `thalweg sample --help`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._run import Option, run
from ._target import Target
from .stages import Plan, Task, Work, planned_envelopes, read_task

if TYPE_CHECKING:
    import pyarrow


class Selection(Work):
    """What one sort is to take: the envelope is "thalweg.cluster-selection/1"."""

    def unit_bytes(self) -> list[int]:
        """Sizes of the source units, in the order in which `units` count them."""
        return [unit["bytes"] for unit in self.json["sources"]]

    def __repr__(self) -> str:
        return f"Selection({len(self.json['sources'])} files of run {self.json['run-id']})"


def select(plan: Plan) -> list[Selection]:
    """The selections of a plan. ConflictError: the table has moved since."""
    with tempfile.TemporaryDirectory(prefix="thalweg-selections-") as folder:
        paths, table, properties = planned_envelopes(plan, "selections", {"selections_out": folder})
        return [Selection(Path(path).read_bytes(), None, table, properties) for path in paths]


def sample(selection: Selection, units: tuple[int, int], options: Mapping[str, Option]) -> bytes:
    """Samples the keys of some units: reads the key columns."""
    with tempfile.TemporaryDirectory(prefix="thalweg-sample-") as folder:
        out = Path(folder, "sample")
        words = {"units": f"{units[0]}:{units[1]}", "out": str(out), **options}
        run("sample", selection.target(), words, files=[selection.write(folder)], named=False)
        return out.read_bytes()


def fit(selection: Selection, samples: Sequence[bytes], slices: int, first_task: int) -> tuple[Selection, list[Task]]:
    """The selection with its key model, and the tasks of its slices."""
    with tempfile.TemporaryDirectory(prefix="thalweg-fit-") as folder:
        paths = []
        for number, content in enumerate(samples):
            paths.append(os.path.join(folder, f"{number:05}.sample"))
            Path(paths[-1]).write_bytes(content)
        options: dict[str, Any] = {"slices": slices, "first_task": first_task, "out": os.path.join(folder, "tasks")}
        files = [selection.write(folder), *paths]
        fitted = run("fit", Target("", dict(selection.properties)), options, files=files, named=False)
        tasks = [read_task(Path(path), selection.table, selection.properties) for path in fitted["tasks"]]
        envelope = Path(fitted["selection"]).read_bytes()
        return Selection(envelope, tasks[0].model, selection.table, selection.properties), tasks


def scatter(
    selection: Selection, units: tuple[int, int], folder: str | None, options: Mapping[str, Option]
) -> Iterator[tuple[int, bytes]]:
    """Reads some units: pieces as (slice, Arrow IPC stream), and at last (-1, the scan report). `folder`: for what is
    on its way, about as much as the units hold."""
    with tempfile.TemporaryDirectory(prefix="thalweg-scatter-", dir=folder) as own:
        pieces = Path(own, "pieces")
        words = {"units": f"{units[0]}:{units[1]}", "out": str(pieces), **options}
        done = run("scatter", selection.target(), words, files=[selection.write(own)], named=False)
        for piece in done["pieces"]:
            path = pieces / piece["file"]
            yield piece["slice"], path.read_bytes()
            path.unlink()
        yield -1, Path(done["scan"]).read_bytes()


def rows_of(pieces: Iterable[Any]) -> pyarrow.RecordBatchReader:
    """The rows of pieces (buffers), read one after another; at least one piece."""
    import pyarrow as pa

    pieces = iter(pieces)
    first = pa.ipc.open_stream(next(pieces))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first
        for piece in pieces:
            yield from pa.ipc.open_stream(piece)

    return pa.RecordBatchReader.from_batches(first.schema, batches())

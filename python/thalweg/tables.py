"""Declaring, looking at and optimizing a table. Every function takes the table first: see `TableLike`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._progress import Progress
from ._run import Size, column_list, run
from ._target import TableLike, resolve

if TYPE_CHECKING:
    import pyarrow

Policy = Literal["size", "overlap"]
Verify = Literal["counts", "digest", "full"]


def set_clustering(
    table: TableLike,
    columns: Sequence[str],
    *,
    curve: Literal["hilbert", "zorder"] = "hilbert",
    version: int | None = None,
    bits_per_dim: int = 16,
    algorithm: str | None = None,
    target_cube_size: Size | None = None,
    min_cube_size: Size | None = None,
    policy: Policy | None = None,
    theta: float | None = None,
    allow_single: bool = False,
    catalog_properties: Mapping[str, str] | None = None,
) -> bool:
    """Declares the clustering columns (metadata only). False: an identical declaration was there, nothing is committed.

    Args:
        columns: two to four top-level columns, most queried first; one with `allow_single`.
        version: number of the declaration, above the last one; Lance only, by default the next one.
        bits_per_dim: resolution of each column on the curve, 1 to 32 bits.
        algorithm: how values become ranks; by default the table's, else "typed-quantile-rank-v1" where the columns
            need it.
        target_cube_size, min_cube_size: sizes of cubes, in bytes or like "1GiB" (Iceberg).
        policy, theta: what `optimize` rewrites; by default the table's, else "size" and 0.42.

    Raises:
        UsageError: an unknown column or one of a type that is no key, a version that is not above the last one.
        InvalidTable: there is no such table, or it cannot be written.
        ConflictError: others kept changing the table.
    """
    result = run(
        "set",
        resolve(table, catalog_properties),
        {
            "columns": column_list(columns),
            "curve": curve,
            "version": version,
            "bits": bits_per_dim,
            "algorithm": algorithm,
            "target_cube_size": target_cube_size,
            "min_cube_size": min_cube_size,
            "policy": policy,
            "theta": theta,
            "allow_single": allow_single,
        },
    )
    return result["outcome"] == "committed"


def clustering_spec(table: TableLike, *, catalog_properties: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """The declaration: `columns` (names), `curve`, `version` (Lance; else None), `bits_per_dim`, `algorithm`. None:
    nothing is declared. A declaration that cannot be used raises InvalidTable or ThalwegError."""
    spec = run("spec", resolve(table, catalog_properties), {})["spec"]
    if spec is None:
        return None
    return {
        "columns": [column["name"] for column in spec["columns"]],
        "curve": spec["curve"],
        "version": spec.get("version"),
        "bits_per_dim": spec["bits_per_dim"],
        "algorithm": spec["algorithm"],
    }


def clear_clustering(table: TableLike, *, catalog_properties: Mapping[str, str] | None = None) -> bool:
    """Drops the declaration; what is clustered stays so. False: nothing was declared."""
    return run("clear", resolve(table, catalog_properties), {})["outcome"] == "committed"


def status(
    table: TableLike,
    columns: Sequence[str] | None = None,
    *,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """How well the table is clustered, from metadata alone: the object of `thalweg status --json`. `depth` is the
    number of files (fragments) that an equality is expected to open, `ideal` that of one sort of the whole table.

    Args:
        columns: measure these instead of the declared ones.
    """
    options = {"columns": column_list(columns) if columns else None}
    return run("status", resolve(table, catalog_properties), options)


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
    max_task_bytes: Size | None = None,
    sort_scope: Literal["table", "group"] | None = None,
    index_update: bool = True,
    memory: Size | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    max_spill_bytes: Size | None = None,
    threads: int | None = None,
    verify: Verify = "digest",
    run_id: str | None = None,
    orphan_age: str | None = None,
    progress: Progress = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Rewrites what is worth rewriting: plans, sorts, writes, verifies, commits as one change. Gives the object of
    `thalweg optimize --json`: `outcome` ("committed", "nothing-to-do" with a `reason`, "already-committed"), `rows`,
    `source_units`, `output_units`, bytes, `depth_before`, `depth_after`.

    Leaves nothing behind on failure and on Ctrl-C, which it answers within a second.

    Args:
        full: rewrite everything, also what is healthy or clustered by other columns.
        policy, theta: for this run.
        max_source_files, max_source_rows, max_source_bytes: hard limits on what this run reads.
        target_file_size, target_rows_per_fragment: sizes of what is written.
        max_task_bytes: a larger selection is split along the curve.
        sort_scope: "group" sorts each stretch of neighbouring fragments on its own (Lance).
        index_update: bring secondary indexes up to date first, rather than sort apart what they cover differently
            (Lance).
        memory: what the process may hold, by default a quarter of the machine's.
        spill_dir: for what does not fit; by default $TMPDIR or /tmp.
        verify: how written rows are compared with those read.
        run_id: a name of the run; repeating a call with the same one is safe.
        progress: see `Progress`.

    Raises:
        UsageError: nothing is declared, or options are wrong.
        ConflictError: others kept changing the table.
        UnknownOutcomeError: a commit was sent and its outcome is not known; repeat the call with the same `run_id`.
    """
    return run(
        "optimize",
        resolve(table, catalog_properties),
        {
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
            "memory": memory,
            "spill_dir": spill_dir,
            "max_spill_bytes": max_spill_bytes,
            "threads": threads,
            "verify": verify,
            "run_id": run_id,
            "orphan_age": orphan_age,
        },
        progress=progress,
    )


def cubes(
    table: TableLike, *, rebuild: bool = False, catalog_properties: Mapping[str, str] | None = None
) -> pyarrow.Table:
    """The cubes (Iceberg) or groups (Lance), one row each: id, run, files, rows, bytes, columns, snapshot, health.

    Args:
        rebuild: first make the stored record of them anew from what the files themselves say.
    """
    import pyarrow as pa

    schema = pa.schema(
        [
            pa.field("cube_id", pa.string()),
            pa.field("run_id", pa.string()),
            pa.field("files", pa.int64()),
            pa.field("rows", pa.int64()),
            pa.field("bytes", pa.int64()),
            pa.field("columns", pa.string()),
            pa.field("field_ids", pa.list_(pa.int64())),
            pa.field("spec_id", pa.string()),
            pa.field("snapshot_id", pa.string()),
            pa.field("health", pa.string()),
            pa.field("overlapping", pa.bool_()),
            pa.field("same_spec", pa.bool_()),
        ]
    )
    rows = run("cubes", resolve(table, catalog_properties), {"rebuild": rebuild})["cubes"]
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def history(table: TableLike, *, catalog_properties: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The runs that wrote this table: what each read and wrote, and the depth before, predicted and achieved."""
    return run("history", resolve(table, catalog_properties), {})["runs"]


def clean(
    table: TableLike,
    *,
    dry_run: bool = False,
    orphan_age: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Deletes the files that runs left which died. `orphan_age`: like "24h", the default."""
    options = {"dry_run": dry_run, "orphan_age": orphan_age}
    return run("clean", resolve(table, catalog_properties), options)


def report(
    table: TableLike,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    catalog_properties: Mapping[str, str] | None = None,
) -> str:
    """Writes one self-contained HTML page about the layout, and gives its path.

    Args:
        columns: draw over these one or two; by default the first two declared.
    """
    options = {"out": path, "columns": column_list(columns) if columns else None}
    return run("report", resolve(table, catalog_properties), options)["out"]

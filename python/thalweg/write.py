"""Writing rows into a table, clustered."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ._progress import Progress
from ._run import Size, column_list, run
from ._target import TableLike, foreign_catalog, resolve
from .errors import UsageError
from .tables import Verify

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.catalog import Catalog


def _reader(data: Any) -> pyarrow.RecordBatchReader:
    """The rows as a stream."""
    import pyarrow as pa

    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    if hasattr(data, "scanner"):  # a dataset of pyarrow's or Lance's
        return data.scanner().to_reader()
    raise UsageError(
        f"{type(data).__module__}.{type(data).__qualname__} gives no Arrow data (it has no __arrow_c_stream__): give a "
        "table or reader of pyarrow, a data frame of polars or pandas, a relation of DuckDB, or paths of files"
    )


def _create(catalog: Catalog, identifier: str, schema: pyarrow.Schema) -> None:
    """An empty table in a catalog that only PyIceberg speaks."""
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError

    namespace, _, _ = identifier.rpartition(".")
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    try:
        catalog.create_table(identifier, schema, properties={"write.parquet.compression-codec": "zstd"})
    except TableAlreadyExistsError as error:
        message = f'{catalog.name}.{identifier}: the table exists already; use mode="append" or mode="overwrite"'
        raise UsageError(message) from error


def _paths(data: object) -> list[str]:
    """The paths if the data is in files, else none."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | os.PathLike) for path in data):
        return [os.fspath(path) for path in data]
    return []


def _schema_of(files: list[str]) -> pyarrow.Schema:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(files[0], format=files[0].rpartition(".")[2]).schema


def write_dataset(
    data: object,
    uri: TableLike,
    *,
    cluster_by: Sequence[str] | None = None,
    mode: Literal["create", "append", "overwrite"] = "create",
    allow_single: bool = False,
    format_version: Literal[2, 3] | None = None,
    target_file_size: Size | None = None,
    target_rows_per_fragment: int | None = None,
    memory: Size | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    max_spill_bytes: Size | None = None,
    threads: int | None = None,
    verify: Verify = "digest",
    run_id: str | None = None,
    progress: Progress = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Writes rows as one clustered run: the object of `thalweg write --json`.

    Args:
        data: whatever gives Arrow data as a stream (`__arrow_c_stream__`: pyarrow, polars, pandas, DuckDB relations),
            read once, batch by batch; or paths of Parquet, CSV or Arrow files. Columns go by name, in any order.
        uri: where to; with "create" a path that ends in ".lance" makes a Lance dataset, another path an Iceberg table
            in Hadoop layout, a catalog name a table there.
        cluster_by: where nothing is declared: declared (Iceberg), or for the sort of this write alone (Lance).
        format_version: of a new Iceberg table; 2 by default.
        mode: "create" a table, "append" to one, "overwrite" all its rows.

    Raises:
        UsageError: the table exists (or not), the columns do not fit.
        ConflictError: the table was changed while it was being overwritten.
    """
    options = {
        "mode": mode,
        "cluster_by": column_list(cluster_by) if cluster_by else None,
        "allow_single": allow_single,
        "format_version": format_version,
        "target_file_size": target_file_size,
        "target_rows_per_fragment": target_rows_per_fragment,
        "memory": memory,
        "spill_dir": spill_dir,
        "max_spill_bytes": max_spill_bytes,
        "threads": threads,
        "verify": verify,
        "run_id": run_id,
    }
    files = _paths(data)
    reader = None if files else _reader(data)
    if mode == "create":
        if not isinstance(uri, str | os.PathLike):
            raise UsageError('the table exists already: use mode="append" or mode="overwrite"')
        foreign = None if catalog_properties else foreign_catalog(os.fspath(uri))
        if foreign is not None:
            _create(*foreign, _schema_of(files) if reader is None else reader.schema)
            options["mode"] = "append"
    target = resolve(uri, catalog_properties)
    rows = None if reader is None else reader.__arrow_c_stream__()
    return run("write", target, options, files=files, progress=progress, rows=rows)

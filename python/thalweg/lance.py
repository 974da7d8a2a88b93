"""Clustering in the words of Lance's own calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._run import Size
from .errors import UsageError
from .tables import clustering_spec, optimize
from .write import write_dataset as _write_dataset

if TYPE_CHECKING:
    import lance
    from lance.optimize import CompactionMetrics as LanceMetrics


@dataclass(frozen=True)
class CompactionMetrics:
    """What a clustering has done, in the words of Lance's own metrics, which only Lance can make."""

    fragments_removed: int
    fragments_added: int
    files_removed: int
    files_added: int


def _fragments_and_files(ds: lance.LanceDataset) -> tuple[set[int], set[str]]:
    fragments = ds.get_fragments()
    files = {file.path for fragment in fragments for file in fragment.data_files()}
    return {fragment.fragment_id for fragment in fragments}, files


def compact_files(
    ds: lance.LanceDataset,
    *,
    compaction_mode: str | None = None,
    target_rows_per_fragment: int | None = None,
    max_source_fragments: int | None = None,
    max_source_rows: int | None = None,
    max_source_bytes: int | None = None,
    num_threads: int | None = None,
    memory: Size | None = None,
    **options: Any,
) -> CompactionMetrics | LanceMetrics:
    """Compacts a dataset as `ds.optimize.compact_files` does, clustered where clustering columns are declared.

    Args:
        compaction_mode: "cluster", the default where columns are declared; any other mode (and the default elsewhere)
            is Lance's own, with all `options` of its own.
        memory: what the sort may hold, by default a quarter of the machine's.

    Raises:
        UsageError: "cluster" without a declaration, or with options that a clustering has no use for.
    """
    if compaction_mode is None and clustering_spec(ds) is not None:
        compaction_mode = "cluster"
    if compaction_mode != "cluster":
        given: dict[str, Any] = {
            "compaction_mode": compaction_mode,
            "target_rows_per_fragment": target_rows_per_fragment,
            "max_source_fragments": max_source_fragments,
            "max_source_rows": max_source_rows,
            "max_source_bytes": max_source_bytes,
            "num_threads": num_threads,
        }
        metrics = ds.optimize.compact_files(**{k: v for k, v in given.items() if v is not None}, **options)
        ds.checkout_latest()
        return metrics
    if options:
        raise UsageError(f'compaction_mode="cluster" does not take {", ".join(sorted(options))}')
    fragments, files = _fragments_and_files(ds)
    optimize(
        ds,
        target_rows_per_fragment=target_rows_per_fragment,
        max_source_files=max_source_fragments,
        max_source_rows=max_source_rows,
        max_source_bytes=max_source_bytes,
        threads=num_threads,
        memory=memory,
    )
    fragments_now, files_now = _fragments_and_files(ds)
    return CompactionMetrics(
        fragments_removed=len(fragments - fragments_now),
        fragments_added=len(fragments_now - fragments),
        files_removed=len(files - files_now),
        files_added=len(files_now - files),
    )


def write_dataset(
    data: object,
    uri: str,
    *,
    cluster_by: Sequence[str] | None = None,
    mode: Literal["create", "append", "overwrite"] = "create",
    **options: Any,
) -> lance.LanceDataset:
    """Writes a dataset as `lance.write_dataset` does, its rows sorted by `cluster_by` or by what is declared. `options`
    are those of `thalweg.write_dataset`."""
    import lance

    _write_dataset(data, uri, cluster_by=cluster_by, mode=mode, **options)
    return lance.dataset(uri, storage_options=options.get("catalog_properties"))

"""A picture of a layout, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ._run import column_list, run
from ._target import TableLike, resolve
from .errors import ThalwegError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(
    table: TableLike,
    columns: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Axes:
    """Draws the files of the table as boxes over two keys (as intervals over one), in ranks: a perfect layout tiles the
    square, and the more files lie over one another the darker it is. Gives the matplotlib axes.

    Args:
        columns: one or two columns; by default the first two declared.
        ax: draw there; by default on axes of its own.

    Raises:
        UsageError: nothing is declared and no columns are named, or more than two are.
        ThalwegError: matplotlib is not installed (`pip install thalweg[plot]`).
    """
    try:
        from matplotlib import pyplot
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise ThalwegError("plot needs matplotlib: pip install thalweg[plot]") from error
    if columns is not None and len(columns) not in (1, 2):
        raise UsageError(f"{len(columns)} columns: one or two can be drawn")
    options = {"columns": column_list(columns) if columns else None, "boxes": True}
    status = run("status", resolve(table, catalog_properties), options)
    keys = [key["name"] for key in status["keys"]][:2]
    if not keys:
        raise UsageError(f"{status['table']}: no clustering columns are declared: name one or two to draw")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(6, 6 if len(keys) == 2 else 3))

    boxes = [box["ranks"][: len(keys)] for box in status["boxes"]]
    boxes = [box for box in boxes if all(interval is not None for interval in box)]
    patches = []
    for place, ((left, right), *other) in enumerate(boxes):
        bottom, top = other[0] if other else (place / len(boxes), (place + 1) / len(boxes))
        patches.append(Rectangle((left, bottom), right - left, top - bottom))
    alpha = min(0.5, max(0.02, 1.5 / max(1.0, status["depth"] or 1.0)))
    ax.add_collection(PatchCollection(patches, facecolor=(0.12, 0.47, 0.71, alpha), edgecolor=(0.1, 0.2, 0.3, 0.6)))
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=f"rank of {keys[0]}", ylabel=f"rank of {keys[1]}" if keys[1:] else "files")
    ax.set_title(f"{len(status['boxes'])} files, an equality opens {status['depth']:.2f}")
    return ax

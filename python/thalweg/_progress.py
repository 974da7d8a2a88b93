"""How far a call is, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

#: Called with the stage ("fit", "scatter", "write", "verify", "commit"), the rows done and in all (None: not known).
Callback: TypeAlias = Callable[[str, int, int | None], object]
#: A callback; tqdm.tqdm or a class like it, which makes a bar for each stage; True: bars of `rich` where that is
#: installed; None or False: nothing.
Progress: TypeAlias = Callback | type | bool | None


class _Bars:
    """One tqdm bar for each stage."""

    def __init__(self, tqdm: Callable[..., Any]) -> None:
        self._tqdm = tqdm
        self._bars: dict[str, Any] = {}

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        bar = self._bars.get(stage)
        if bar is None:
            bar = self._bars[stage] = self._tqdm(total=total, desc=stage, unit="rows", unit_scale=True)
        if total is not None:
            bar.total = total
        bar.update(done - bar.n)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()


class _RichBars:
    """One rich bar for each stage."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        self._bars.update(self._tasks[stage], completed=done, total=total)


@contextmanager
def shown(progress: Progress) -> Iterator[Callback | None]:
    """The callback for a command; what it shows is closed at the end."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        try:
            from rich.progress import Progress as RichProgress
        except ImportError:
            yield None
            return
        with RichProgress(transient=True) as bars:
            yield _RichBars(bars)
    elif hasattr(progress, "update") and hasattr(progress, "close"):
        one_each = _Bars(progress)
        try:
            yield one_each
        finally:
            one_each.close()
    else:
        yield progress

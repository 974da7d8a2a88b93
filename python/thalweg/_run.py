"""One command of the engine, as a call."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from . import _core
from ._progress import Progress, shown
from ._target import Target
from .errors import BY_KIND, ThalwegError

logger = logging.getLogger("thalweg")

#: Bytes, or text like "512MiB".
Size: TypeAlias = int | str
Option: TypeAlias = str | int | float | bool | os.PathLike[str] | list[str] | None


def column_list(columns: str | Sequence[str]) -> str:
    """Names as the engine reads a list of them."""
    names = [columns] if isinstance(columns, str) else list(columns)
    return ",".join('"' + name.replace('"', '""') + '"' for name in names)


def words_of(options: Mapping[str, Option]) -> list[str]:
    """Options as words: None and False are left out, True is a flag, a list is the option for each of its members."""
    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        if isinstance(value, list):
            words += [f"{flag}={one}" for one in value]
            continue
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        words.append(flag if value is True else f"{flag}={text}")
    return words


def run(
    command: str,
    target: Target,
    options: Mapping[str, Option],
    *,
    files: Sequence[str] = (),
    named: bool = True,
    progress: Progress = None,
    rows: object = None,
) -> dict[str, Any]:
    """Runs the command and gives its result; its notes are logged. The caller's object is refreshed, also after a
    failure. `named`: the command takes the table's name, and then `files`."""
    words = [command, *words_of(options)]
    words += [f"--catalog-property={key}={value}" for key, value in target.properties.items()]
    words += ["--", *([target.name] if named else []), *files]
    with shown(progress) as callback:
        kind, text = _core.run(words, callback, target.catalog, rows)
    try:
        target.refresh()
    except Exception as error:
        if not kind:
            logger.warning("%s was done, but the table cannot be loaded again: %s", command, error)
    if kind == "interrupted":
        raise KeyboardInterrupt(text)
    if kind:
        raise BY_KIND.get(kind, ThalwegError)(text)
    result = json.loads(text)
    for note in result.get("notes", ()):
        logger.info("%s: %s", result.get("table", command), note)
    if result.get("reason"):
        logger.info("%s: nothing to do: %s", result.get("table", command), result["reason"])
    return result

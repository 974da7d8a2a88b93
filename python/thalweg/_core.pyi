"""Commands of the `thalweg` program, run inside Python."""

from collections.abc import Callable
from typing import Any, Protocol

__version__: str

class Catalog(Protocol):
    """A table's catalog that Python speaks: see `thalweg._catalog`."""

    description: str
    commits: bool

    def load(self) -> tuple[Any, ...]: ...
    def commit(self, requirements: str, updates: str) -> tuple[Any, ...]: ...

def run(
    words: list[str],
    progress: Callable[[str, int, int | None], object] | None = None,
    catalog: Catalog | None = None,
    rows: object = None,
) -> tuple[str, str]:
    """Runs one command. Gives ("", its JSON), or the kind of its failure and the message.

    `rows` is a PyCapsule "arrow_array_stream", the input of `write`. The GIL is not held meanwhile. What `progress` or
    `catalog` raise stops the command and is raised here, as is KeyboardInterrupt.
    """

def main(words: list[str]) -> int:
    """The program itself, `words` with its name first: prints, takes signals, gives the exit code."""

def finalize() -> None:
    """Ends what the S3 library keeps in the background."""

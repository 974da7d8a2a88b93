"""What can go wrong, by what the caller can do about it."""

from __future__ import annotations


class ThalwegError(Exception):
    """Base of all of them: something failed, and nothing was changed unless the message says so."""


class UsageError(ThalwegError, ValueError):
    """The call itself is wrong: an unknown column, a size that cannot be read, options that do not go together."""


class InvalidTable(ThalwegError):
    """There is no such table, it cannot be read, or it is of a kind that cannot be worked on."""


class ConflictError(ThalwegError):
    """Somebody else changed the table meanwhile, and planning anew did not help: try again later."""


class UnknownOutcomeError(ThalwegError):
    """A commit was sent and its outcome is not known. Repeat the call with the same `run_id`: that is safe."""


BY_KIND: dict[str, type[ThalwegError]] = {
    "usage": UsageError,
    "table": InvalidTable,
    "conflict": ConflictError,
    "unknown": UnknownOutcomeError,
}

"""The command `thalweg`."""

import os
import signal
import sys


def main() -> int:
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # The program has its own handlers, and between them the system's: Python's would only note a Ctrl-C down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    from . import _core

    return _core.main(["thalweg", *sys.argv[1:]])

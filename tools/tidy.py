"""clang-tidy over files of the build in build/debug: `tools/tidy.py FILE.cc …`.

A file is passed over when it was found clean before and nothing of it has changed since: what the preprocessor makes
of it and its headers, how it is compiled, the checks, and clang-tidy itself.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "debug"
CLEAN = BUILD / "tidy"  # an empty file for each state found clean
TIDY = "clang-tidy-16"
EXTRA = [
    # The compile commands are g++'s: what only g++ knows is passed over.
    "-Wno-unknown-warning-option",
    # Else the analyzer walks through fmt's parser of format strings for each call, until it gives up: most of its time.
    # The compiler checks the format strings.
    "-DFMT_CONSTEVAL=",
]


def state(command: list[str]) -> str:
    """The hash of all that decides what clang-tidy says about one file; comments count, they may hold NOLINT."""
    output = command.index("-o")
    flags = command[1:output] + command[output + 2 :]
    preprocessed = subprocess.run(
        ["clang++-16", *EXTRA, *flags, "-E", "-C"], cwd=BUILD, capture_output=True, check=True
    )
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True)
    digest = hashlib.sha256()
    for part in (
        preprocessed.stdout,
        (ROOT / ".clang-tidy").read_bytes(),
        version.stdout,
        shlex.join(command).encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def check(file: str, command: list[str]) -> bool:
    clean = CLEAN / state(command)
    if clean.exists():
        return True
    extra = [f"--extra-arg={argument}" for argument in EXTRA]
    tidy = [TIDY, "--quiet", "-p", str(BUILD), "--warnings-as-errors=*", *extra, file]
    done = subprocess.run(tidy, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        clean.touch()
        return True
    errors = [line for line in done.stderr.splitlines() if not line.endswith(" generated.")]
    print("\n".join([done.stdout, *errors]), flush=True)
    return False


def main() -> None:
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    commands = {os.path.relpath(entry["file"], ROOT): shlex.split(entry["command"]) for entry in entries}
    files = [os.path.relpath(file, ROOT) for file in sys.argv[1:]]
    unknown = [file for file in files if file not in commands]
    if unknown:
        sys.exit(f"{unknown[0]}: not a file of the build in {BUILD}")
    CLEAN.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        clean = list(pool.map(lambda file: check(file, commands[file]), files))
    if not all(clean):
        sys.exit(f"clang-tidy: {clean.count(False)} of {len(clean)} files have faults")


if __name__ == "__main__":
    main()

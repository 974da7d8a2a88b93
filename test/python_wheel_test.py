"""The wheel, built and installed alone into a fresh virtual environment, in which the quick starts run."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from thalweg_test_tools import clean_environment

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1800, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    if not (ROOT / "build" / "lib" / "libthalweg_lance.so").exists():
        pytest.skip("the bridge to Lance is not built, and building it here would take long")
    return ROOT / output_of(ROOT / "tools" / "wheel.sh").strip().splitlines()[-1]


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("venv")
    output_of(sys.executable, "-m", "venv", folder)
    # What the wheel itself asks for, and the two libraries that the quick starts are about; as pinned for the tests.
    pins = ROOT / "tools" / "requirements.txt"
    install = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", pins]
    output_of(*install, f"thalweg[iceberg,lance] @ file://{wheel}")
    return folder / "bin"


def test_the_wheel_carries_what_it_needs_and_takes_arrow_from_pyarrow(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "thalweg/__init__.py" in names and "thalweg/py.typed" in names and "thalweg/_core.pyi" in names
    assert "thalweg/libthalweg_lance.so" in names
    assert any(name.startswith("thalweg/_core.") and name.endswith(".so") for name in names)
    assert not [name for name in names if "libarrow" in name or "libparquet" in name]
    assert [name for name in names if name.startswith("thalweg.libs/libcurl")]
    assert "manylinux" in wheel.name and "cp311" in wheel.name
    (metadata,) = [name for name in names if name.endswith("METADATA")]
    assert "Requires-Dist: pyarrow==26" in zipfile.ZipFile(wheel).read(metadata).decode()


@pytest.mark.parametrize("name", ["iceberg_quick_start", "lance_quick_start"])
def test_the_quick_starts_run_in_a_fresh_environment(fresh, tmp_path, name):
    example = shutil.copy(ROOT / "examples" / "python" / f"{name}.py", tmp_path)
    environment = clean_environment(tmp_path)
    for variable in ("PYTHONPATH", "THALWEG_LANCE_BRIDGE", "LD_LIBRARY_PATH"):
        environment.pop(variable, None)
    assert "after" in output_of(fresh / "python", example, env=environment, cwd=tmp_path)


def test_the_command_comes_with_it(fresh, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "THALWEG_LANCE_BRIDGE"}
    assert output_of(fresh / "thalweg", "--version", env=environment).startswith("thalweg ")
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(100)))
    for table in ("rows", "rows.lance"):
        words = [fresh / "thalweg", "write", tmp_path / table, tmp_path / "rows.csv", "--mode", "create"]
        assert "100" in output_of(*words, "--cluster-by", "a,b", env=environment)

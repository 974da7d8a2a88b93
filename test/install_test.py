"""The installed package: find_package(thalweg), the example built with it, and the installed program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from campaign_tools import SqliteLake, make_rows
from thalweg_test_tools import BIN

ROOT = Path(__file__).resolve().parent.parent
BUILD = BIN.parent


@pytest.mark.skipif(not (BUILD / "lib").is_dir(), reason="THALWEG_BIN is no build folder")
def test_example_builds_against_the_installed_package_and_clusters(tmp_path, monkeypatch):
    import numpy as np

    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)], check=True, capture_output=True)
    source, build = tmp_path / "example", tmp_path / "example-build"
    shutil.copytree(ROOT / "examples" / "cpp", source)
    configure = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), f"-DCMAKE_PREFIX_PATH={prefix}"]
    configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)

    lake = SqliteLake(tmp_path / "lake")
    for first in range(0, 4000, 1000):
        lake.append(make_rows(np.random.default_rng(first), first, 1000))
    appended = len(list(lake.table().scan().plan_files()))
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake/catalog.db")
    example = [str(build / "cluster_table"), "lake.db.events", "user_id,event_time"]
    done = subprocess.run(example, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        f"4000 rows in {appended} files are now in {len(list(lake.table().scan().plan_files()))} files" in done.stdout
    )
    again = subprocess.run(example, capture_output=True, text=True)
    assert again.returncode == 0 and again.stdout.startswith("nothing to do: ")
    wrong = subprocess.run([*example[:2], "user_id,evnt_time"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "event_time" in wrong.stderr

    program = prefix / "bin" / "thalweg"
    shown = subprocess.run([str(program), "status", "lake.db.events"], capture_output=True, text=True, env=os.environ)
    assert shown.returncode == 0 and "4,000 rows" in shown.stdout

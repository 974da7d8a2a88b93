"""The stages of a sort over machines as commands, and discard."""

import json

import pytest
from thalweg_test_tools import data_files, local_path, rows_of


@pytest.fixture
def pieces(lake, events, tmp_path):
    """A selection, fitted and scattered: the folder with everything in it."""
    plan = lake.ok("plan", events, "--selections-out", tmp_path / "s", "--run-id", "nightly")
    assert plan["selections"] == [str(tmp_path / "s" / "selection-00000.json")]
    selection = tmp_path / "s" / "selection-00000.json"
    sources = json.loads(selection.read_text())["sources"]
    rows = [unit["rows"] for unit in sources]
    for first, end in ((0, 3), (3, len(rows))):
        done = lake.ok("sample", selection, "--units", f"{first}:{end}", "--out", tmp_path / f"{first}.sample")
        assert done["rows"] == sum(rows[first:end])
    samples = [tmp_path / "3.sample", tmp_path / "0.sample"]
    fitted = lake.ok("fit", selection, *samples, "--slices", 3, "--out", tmp_path / "f")
    assert [path.rsplit("/", 1)[1] for path in fitted["tasks"]] == [f"task-{n:05}.json" for n in range(3)]
    for first, end in ((0, 5), (5, len(rows))):
        out = tmp_path / f"p{first}"
        done = lake.ok(
            "scatter",
            tmp_path / "f" / "selection.json",
            "--units",
            f"{first}:{end}",
            "--out",
            out,
            "--piece-size",
            9000,
        )
        assert done["rows"] == sum(rows[first:end]) == sum(piece["rows"] for piece in done["pieces"])
        assert {path.name for path in out.iterdir()} == {piece["file"] for piece in done["pieces"]} | {"scan.json"}
    return tmp_path


def execute(lake, folder, number: int):
    rows = sorted(folder.glob(f"p*/slice-{number:05}-*.arrows"))
    out = folder / f"{number}.json"
    lake.ok("execute", folder / "f" / f"task-{number:05}.json", "--out", out, "--rows", *rows)
    return out


def test_the_stages_give_what_optimize_gives(lake, events, pieces):
    before = rows_of(lake.table())
    # The tasks of the same plan in one process have the same model and the same borders.
    lake.ok("plan", events, "--tasks-out", pieces / "t", "--max-task-bytes", 60_000)
    alone = json.loads((pieces / "t" / "task-00000.json").read_text())
    together = json.loads((pieces / "f" / "task-00000.json").read_text())
    assert alone["fitted-hash"] == together["fitted-hash"]
    results = [execute(lake, pieces, number) for number in range(3)]
    message = lake.run("commit", events, *results).error(1)
    assert "do not name each of its" in message
    scans = sorted(pieces.glob("p*/scan.json"))
    done = lake.ok("commit", events, *results, "--scan", *scans)
    assert (done["outcome"], done["run_id"], done["rows"]) == ("committed", "nightly", 16000)
    assert rows_of(lake.table()) == before


def test_a_piece_left_out_is_no_commit(lake, events, pieces):
    files = lake.files()
    lost = sorted(pieces.glob("p0/slice-00001-*.arrows"))[0]
    lost.unlink()
    results = [execute(lake, pieces, number) for number in range(3)]
    message = lake.run("commit", events, *results, "--scan", *sorted(pieces.glob("p*/scan.json"))).error(1)
    assert "rows were written" in message
    # Given up: everything goes that the tasks wrote.
    done = lake.ok("discard", events, *results)
    assert done["outcome"] == "discarded" and done["files_deleted"] > 3
    assert lake.files() == files
    assert lake.ok("discard", events, *results)["outcome"] == "nothing-to-do"


def test_committed_files_are_not_discarded(lake, events, tmp_path):
    lake.ok("plan", events, "--tasks-out", tmp_path / "t")
    lake.ok("execute", tmp_path / "t" / "task-00000.json", "--out", tmp_path / "r.json")
    lake.ok("commit", events, tmp_path / "r.json")
    live = data_files(lake.table())
    done = lake.ok("discard", events, tmp_path / "r.json")
    assert (done["files_deleted"], done["files_committed"]) == (0, len(live))
    assert data_files(lake.table()) == live


def test_what_a_result_names_is_not_believed(lake, events, tmp_path):
    lake.ok("plan", events, "--tasks-out", tmp_path / "t")
    lake.ok("execute", tmp_path / "t" / "task-00000.json", "--out", tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    foreign = tmp_path / "foreign.parquet"
    foreign.write_text("x")
    stray = local_path(lake.table().location()) + "/data/stray.parquet"
    with open(stray, "w") as file:
        file.write("x")
    result["outputs"][0]["id"] = f"file://{foreign}"
    result["outputs"][1]["id"] = f"file://{stray}"
    (tmp_path / "forged.json").write_text(json.dumps(result))
    lake.run("discard", events, tmp_path / "forged.json")
    assert foreign.exists() and stray in lake.files()


def test_wrong_input(lake, events, pieces, tmp_path):
    selection = pieces / "s" / "selection-00000.json"
    for units in ("3", "3:3", "-1:2", "a:b", "3:2"):
        assert "units" in lake.run("sample", selection, "--units", units, "--out", tmp_path / "x").error(2)
    for command in ("sample", "scatter"):
        fitted = pieces / "f" / "selection.json"
        message = lake.run(command, fitted, "--units", "0:999", "--out", tmp_path / f"x-{command}").error(2)
        assert "units 0 to 999 of a selection of" in message
    assert "no key model yet" in lake.run("scatter", selection, "--units", "0:8", "--out", tmp_path / "y").error(2)
    one = pieces / "0.sample"
    message = lake.run("fit", selection, one, "--out", tmp_path / "z").error(1)
    assert "16,000 live rows" in message
    (tmp_path / "bad.sample").write_bytes(one.read_bytes()[:5000])
    assert "bad.sample" in lake.run("fit", selection, tmp_path / "bad.sample", "--out", tmp_path / "z").error(1)
    task = pieces / "f" / "task-00000.json"
    wrong = sorted(pieces.glob("p*/slice-00001-*.arrows"))
    message = lake.run("execute", task, "--out", tmp_path / "r.json", "--rows", *wrong).error(1)
    assert "are not of its slice" in message
    assert "type" in lake.run("execute", selection, "--out", tmp_path / "r.json").error(1)
    assert "not empty" in lake.run("scatter", fitted, "--units", "0:8", "--out", pieces / "p0").error(2)

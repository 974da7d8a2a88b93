"""The report as a browser shows it: real tables of both formats, made and clustered by the program."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from browser_tools import CHROMIUM, Browser
from lance_test_tools import LanceTable, needs_lance
from thalweg_test_tools import EVENTS, KEYS, SMALL_CUBES, Lake, make_rows

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# What is drawn, shown and said, as rendered.
BOXES = """(() => {{
  const frame = document.querySelector('figure#{0} .frame').getBoundingClientRect();
  return [...document.querySelectorAll('figure#{0} .frame svg .boxes rect')].filter(box => {{
    const at = box.getBoundingClientRect();
    return at.width > 0 && at.height > 0 && at.left >= frame.left - 2 && at.right <= frame.right + 2
      && at.top >= frame.top - 2 && at.bottom <= frame.bottom + 2;
  }}).length;
}})()"""
RECTS = """[...document.querySelectorAll('figure#{} .boxes rect')].map(
  r => ['x', 'y', 'width', 'height'].map(a => r.getAttribute(a)).join(' '))"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALLEST_TEXT = """Math.min(...[...document.querySelectorAll('body *')]
  .filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()))
  .map(e => parseFloat(getComputedStyle(e).fontSize)))"""
# Text that is under other text: the labels of an axis must not meet.
CROSSED_TICKS = """[...document.querySelectorAll('.below, .beside')].filter(axis => {
  const at = [...axis.querySelectorAll('.tick')].map(t => t.getBoundingClientRect());
  return at.some((a, i) => at.some((b, j) => i < j && a.left < b.right && b.left < a.right
    && a.top < b.bottom && b.top < a.bottom));
}).length"""
CUT_TICKS = """[...document.querySelectorAll('.beside .tick')].filter(t => t.scrollWidth > t.clientWidth)
  .map(t => t.textContent)"""
# The least contrast of any text with the page's background, by the formula of WCAG 2.
CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll('body *:not(style):not(title)')]
    .filter(e => !(e instanceof SVGElement)).map(e => light(getComputedStyle(e).color))
    .map(ink => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)));
})()"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path)


def write_report(lake: Lake, table, *arguments) -> Path:
    out = lake.folder / "layout.html"
    done = lake.ok("report", table, "--out", out, *arguments)
    assert done["out"] == str(out) and done["bytes"] == out.stat().st_size
    assert not list(lake.folder.glob("layout.html.*"))
    return out


def values(browser: Browser, selector: str) -> list[float]:
    found = browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.value)")
    return [float(value) for value in found]


def check_page(browser: Browser, page: Path) -> None:
    """Holds for every report: it fits, can be read, and asks nothing of anybody."""
    for width in (400, 1200):
        for dark in (False, True):
            browser.open(page, width=width, dark=dark)
            assert browser.evaluate(SIDEWAYS) <= 0, (width, dark)
            assert browser.evaluate(SMALLEST_TEXT) >= 13
            assert browser.evaluate(CROSSED_TICKS) == 0, width
            assert browser.evaluate(CUT_TICKS) == [], width
            assert browser.evaluate(CONTRAST) >= 4.5, dark
            paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 150) == dark
            assert browser.requests() == [page.resolve().as_uri()]
            assert browser.complaints() == []
    # As printed on A4: light, whatever the reader's system says, and nothing cut off.
    browser.open(page, width=688, media="print", dark=True)
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate(SIDEWAYS) <= 0
    assert browser.evaluate(SMALLEST_TEXT) >= 13
    assert browser.evaluate(CROSSED_TICKS) == 0
    assert browser.evaluate("document.scripts.length") == 0
    policy = browser.evaluate("document.querySelector('meta[http-equiv]').content")
    assert "default-src 'none'" in policy


def check_figures(browser: Browser, status: dict) -> None:
    """The page's figures are those of `thalweg status --json`, exactly."""
    assert values(browser, ".lead data") == [status["depth"], status["units"], status["ideal"]]
    assert values(browser, ".tiles data") == [
        status[key] for key in ("units", "rows", "bytes", "depth", "ideal", "efficiency")
    ]
    rows = browser.evaluate(
        "[...document.querySelectorAll('.figures tbody tr')].map(r => [...r.querySelectorAll('td')]"
        ".map(d => d.querySelector('data') ? +d.querySelector('data').value : d.textContent))"
    )
    keys = status["keys"]
    wanted = [[key[name] for key in keys] for name in ("depth_mean", "depth_p95", "depth_max", "ideal")]
    assert [row[: len(keys)] for row in rows[:4]] == wanted
    assert rows[5][: len(keys)] == [key["efficiency"] for key in keys]
    assert rows[7][: len(keys)] == [key["box_1_percent"]["files"] for key in keys]
    assert rows[10][: len(keys)] == [key["box_10_percent"]["rows_share"] for key in keys]
    assert rows[15][: len(keys)] == [key["distribution"] for key in keys]
    bars = browser.evaluate(
        "[...document.querySelectorAll('.histogram')].map(h => [...h.querySelectorAll('.bars rect title')]"
        ".map(t => t.textContent))"
    )
    assert [[int(bar.split(" of ")[0].replace(",", "")) for bar in key] for key in bars] == [
        key["depth_histogram"] for key in keys
    ]
    health = browser.evaluate(
        "[...document.querySelectorAll('.health tbody tr')].map(r => +r.querySelector('td data').value)"
    )
    states = status["health"]
    assert health[0] == states["cubes"]
    assert states["unclustered_units"] in health
    if "healthy" in states:
        assert health[1:4] == [states["healthy"], states["partial"], states["column_mismatch"]]


def check_history(browser: Browser, history: dict) -> None:
    rows = browser.evaluate(
        "[...document.querySelectorAll('.history tbody tr')].map(r => [r.querySelector('small').textContent,"
        "...[...r.querySelectorAll('td')].map(d => [...d.querySelectorAll('data')].map(e => +e.value))])"
    )
    known = lambda depth: [] if depth is None else [depth]  # noqa: E731
    assert rows == [
        [
            run["run_id"],
            [],
            [run["rows"]],
            [run["source_units"], run["source_bytes"]],
            [run["output_units"], run["output_bytes"]],
            known(run["depth_before"]),
            known(run["predicted_depth"]),
            known(run["achieved_depth"]),
        ]
        for run in reversed(history["runs"])
    ]


def test_iceberg_before_and_after(lake, browser):
    events = lake.make_events(files=6, rows=3000)
    before = lake.ok("status", events)
    plan = lake.ok("plan", events)
    assert plan["source_units"] == before["units"] >= 6
    page = write_report(lake, events)
    browser.open(page)
    # Nothing has run yet: there is no before.
    assert browser.evaluate(BOXES.format("now")) == before["units"]
    assert browser.evaluate("document.querySelector('figure#before')") is None
    assert browser.evaluate(BOXES.format("after")) == plan["output_units"]
    assert values(browser, "figure#after figcaption data") == [plan["depth_after"], plan["output_units"]]
    check_page(browser, page)
    lake.ok("optimize", events)
    page = write_report(lake, events)
    check_page(browser, page)
    status = lake.ok("status", events)
    check_figures(browser, status)
    check_history(browser, lake.ok("history", events))
    assert browser.evaluate(BOXES.format("now")) == status["units"]
    assert status["depth"] < before["depth"]
    assert browser.evaluate(BOXES.format("before")) == before["units"]
    assert values(browser, "figure#before figcaption data") == [before["depth"], before["units"]]
    # A second run would do nothing, and the page says why.
    plan = lake.ok("plan", events)
    assert plan["outcome"] == "nothing-to-do"
    assert browser.evaluate("document.querySelector('figure#after')") is None
    assert plan["reason"] in browser.evaluate("document.body.textContent")
    assert browser.pdf().startswith(b"%PDF-")


@needs_lance
def test_lance_before_and_after(lake, browser):
    table = LanceTable(lake).grow(5, 400)
    table.ok("set", "--columns", "user_id,event_time")
    table.ok("optimize", "--target-rows-per-fragment", 100)
    page = write_report(lake, table.path)
    check_page(browser, page)
    status = table.ok("status")
    check_figures(browser, status)
    check_history(browser, table.ok("history"))
    assert browser.evaluate(BOXES.format("now")) == status["units"] >= 20
    # No zone maps were there before the run, so nothing is known of these fragments.
    assert browser.evaluate(BOXES.format("before")) == 5
    assert browser.evaluate("document.querySelectorAll('figure#before rect.unknown').length") == 5
    assert "fragments" in browser.evaluate("document.querySelector('.lead').textContent")


def test_boxes_lie_where_the_bounds_are(lake, browser):
    """Two files over the lower and the upper half of a key, both over all of the other."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = lake.make_table("halves", schema, {KEYS: "a,b"})
    for half in range(2):
        a = np.arange(half * 500, half * 500 + 500)
        table.append(pa.table([a, (a * 7) % 500], schema=schema))
    browser.open(write_report(lake, "lake.db.halves"))
    boxes = browser.evaluate(
        "(() => { const f = document.querySelector('figure#now svg').getBoundingClientRect(); return "
        "[...document.querySelectorAll('figure#now .boxes rect')].map(r => r.getBoundingClientRect())"
        ".map(r => [(r.left - f.left) / f.width, (r.right - f.left) / f.width, "
        "(f.bottom - r.bottom) / f.height, (f.bottom - r.top) / f.height]); })()"
    )
    assert sorted(boxes) == [
        pytest.approx([0, 0.5, 0, 1], abs=0.02),
        pytest.approx([0.5, 1, 0, 1], abs=0.02),
    ]
    ticks = "[...document.querySelectorAll('figure#now .{} .tick')].map(t => t.textContent)"
    assert browser.evaluate(ticks.format("below"))[0] == "0"
    assert browser.evaluate(ticks.format("below"))[-1] == "999"
    assert browser.evaluate(ticks.format("beside"))[-1] == "499"


def test_columns_choose_what_is_drawn(lake, browser):
    events = lake.make_events(files=4, rows=500)
    axes = "[...document.querySelectorAll('figure#now .axis bdi')].map(a => a.textContent)"
    # Declared ones in another order: measured as declared.
    browser.open(write_report(lake, events, "--columns", "event_time,user_id"))
    assert browser.evaluate(axes) == ["user_id", "event_time"]
    check_figures(browser, lake.ok("status", events))
    # Others are measured instead.
    page = write_report(lake, events, "--columns", "country,amount")
    check_page(browser, page)
    check_figures(browser, lake.ok("status", events, "--columns", "country,amount"))
    assert browser.evaluate(axes) == ["amount", "country"]
    # One alone is drawn as intervals.
    page = write_report(lake, events, "--columns", "event_time")
    check_page(browser, page)
    assert browser.evaluate(BOXES.format("now")) == 4
    assert browser.evaluate(axes) == ["event_time"]
    out = lake.folder / "x.html"
    for columns, why in [
        ("user_id,country,amount", "one or two columns"),
        ("user_id,user_id", "twice"),
        ("user", "user_id"),
        ("user_id,", "empty name"),
    ]:
        assert why in lake.run("report", events, "--out", out, "--columns", columns).error(2)
    assert not out.exists()


def test_without_a_declaration(lake, browser):
    events = lake.make_events(files=3, rows=500, keys=None)
    out = lake.folder / "layout.html"
    message = lake.run("report", events, "--out", out).error(2)
    assert "no clustering columns are declared" in message and "--columns" in message
    assert not out.exists()
    page = write_report(lake, events, "--columns", "user_id,country")
    check_page(browser, page)
    check_figures(browser, lake.ok("status", events, "--columns", "user_id,country"))
    assert browser.evaluate(BOXES.format("now")) == 3


def test_an_empty_table_says_so(lake, browser):
    lake.make_table("nothing", EVENTS, {KEYS: "user_id,event_time"})
    page = write_report(lake, "lake.db.nothing")
    check_page(browser, page)
    assert "empty" in browser.evaluate("document.querySelector('.lead').textContent")
    assert browser.evaluate("document.querySelectorAll('figure').length") == 0


def test_read_only_tables(lake, browser):
    """A table by the path of its metadata alone can be looked at, not written."""
    lake.make_events(files=3, rows=500)
    metadata = lake.table().metadata_location.removeprefix("file://")
    assert lake.run("optimize", metadata).code == 1
    browser.open(write_report(lake, metadata))
    assert browser.evaluate(BOXES.format("now")) == 3


def test_hostile_names_and_values_are_text(lake, browser):
    name = "<script>document.title='taken'</script>"
    other = "b\"'&\u202e</style><img src=x onerror=document.title='taken'>"
    schema = pa.schema([(name, pa.string()), (other, pa.int64())])
    quoted = ",".join('"' + column.replace('"', '""') + '"' for column in (name, other))
    table = lake.make_table("hostile", schema, SMALL_CUBES)
    for number in range(3):
        texts = [f"<b onclick=x>{number}{i}" for i in range(50)]
        table.append(pa.table([texts, list(range(50))], schema=schema))
    page = write_report(lake, "lake.db.hostile", "--columns", quoted)
    check_page(browser, page)
    assert browser.evaluate("document.title") == "lake.db.hostile: layout"
    assert browser.evaluate("document.querySelectorAll('script, img, b[onclick]').length") == 0
    heads = browser.evaluate("[...document.querySelectorAll('h3 bdi')].map(h => h.textContent)")
    assert heads == [name, other]
    assert browser.evaluate("document.querySelector('figure#now .below .tick').textContent").startswith('"<b onclick')


@pytest.mark.parametrize(
    ("kind", "values", "first", "last"),
    [
        (pa.int32(), [1, 2, 30000], "1", "30,000"),
        (pa.float32(), [-1.5, 0, 2.25], "-1.5", "2.25"),
        (pa.float64(), [-1.5e30, 0, 2.25], "-1.5e+30", "2.25"),
        (pa.decimal128(9, 2), ["-1.50", "0.00", "22.25"], "-1.50", "22.25"),
        (pa.date32(), [0, 10, 19000], "1970-01-01", "2022-01-08"),
        (pa.timestamp("us"), [0, 10, 1_600_000_000_000_000], "1970-01-01", "2020-09-13"),
        (pa.timestamp("us", "UTC"), [0, 10, 90_000_000_000], "1970-01-01 00:00", "1970-01-02 01:00"),
        (pa.string(), ["ab", "bc", "z" * 12], '"ab"', '"' + "z" * 12 + '"'),
        (pa.bool_(), [False, True, True], "false", "true"),
    ],
)
def test_axes_of_every_type(lake, browser, kind, values, first, last):
    column = pa.array(values, pa.string()).cast(kind) if pa.types.is_decimal(kind) else pa.array(values, kind)
    rows = pa.table({"k": column, "n": pa.array([1, 2, 3], pa.int64())})
    lake.make_table("typed", rows.schema).append(rows)
    browser.open(write_report(lake, "lake.db.typed", "--columns", "k"))
    ticks = browser.evaluate("[...document.querySelectorAll('figure#now .below .tick')].map(t => t.textContent)")
    assert (ticks[0], ticks[-1]) == (first, last)


def test_long_labels_have_room(lake, browser):
    schema = pa.schema([("name", pa.string()), ("at", pa.timestamp("us"))])
    table = lake.make_table("long", schema, SMALL_CUBES | {KEYS: "name,at"})
    rng = np.random.default_rng(3)

    def append(rows: int) -> None:
        names = [f"measurement {word:08}" for word in rng.integers(0, 10**8, rows)]
        times = 1_767_225_600_000_000 + rng.integers(0, 3 * 86_400_000_000, rows)
        table.append(pa.table([names, pa.array(times, pa.timestamp("us"))], schema=schema))

    append(4000)
    lake.ok("optimize", "lake.db.long")
    table.refresh()
    append(4000)
    for columns in ("name,at", "at,name"):
        page = write_report(lake, "lake.db.long", "--columns", columns)
        check_page(browser, page)
        assert browser.evaluate("document.querySelectorAll('figure').length") == 3


def test_the_page_takes_its_name_at_once(lake):
    events = lake.make_events(files=2, rows=200)
    out = lake.folder / "layout.html"
    out.write_text("old")
    page = write_report(lake, events)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "No such file" in lake.run("report", events, "--out", lake.folder / "no" / "x.html").error()
    folder = lake.folder / "folder"
    folder.mkdir()
    assert "directory" in lake.run("report", events, "--out", folder).error().lower()
    assert not list(lake.folder.glob("folder.*"))
    assert "--out" in lake.run("report", events).error(2)
    done = lake.run("report", events, "--out", out)
    assert done.code == 0 and done.out.startswith(f"wrote {out} (")


def test_a_snapshot_that_is_gone_is_named(lake, browser):
    events = lake.make_events(files=3, rows=1500)
    lake.ok("optimize", events)
    table = lake.table()
    gone = table.current_snapshot().parent_snapshot_id
    # As Java expires it: the child still names its parent.
    metadata = Path(table.metadata_location.removeprefix("file://"))
    content = json.loads(metadata.read_text())
    content["snapshots"] = [s for s in content["snapshots"] if s["snapshot-id"] != gone]
    content["snapshot-log"] = content["snapshot-log"][-1:]
    other = metadata.with_name("99999-expired.metadata.json")
    other.write_text(json.dumps(content))
    browser.open(write_report(lake, other))
    assert browser.evaluate("document.querySelector('figure#before')") is None
    assert f"({gone}) is gone" in browser.evaluate("document.body.textContent")
    # As PyIceberg does: the child has no parent any more.
    table.maintenance.expire_snapshots().by_id(gone).commit()
    browser.open(write_report(lake, events))
    assert browser.evaluate("document.querySelector('figure#before')") is None
    assert "before the last run is gone" in browser.evaluate("document.body.textContent")


def test_rows_appended_since_the_last_run_are_drawn(lake, browser):
    events = lake.make_events(files=3, rows=1500)
    lake.ok("optimize", events)
    lake.table().append(make_rows(100, 9))
    browser.open(write_report(lake, events))
    status = lake.ok("status", events)
    assert browser.evaluate(BOXES.format("now")) == status["units"]
    assert status["health"]["unclustered_units"] == 1
    check_figures(browser, status)
    # Files that the next run leaves alone stay where they are in what is predicted.
    plan = lake.ok("plan", events)
    kept = status["units"] - plan["source_units"]
    after = browser.evaluate(RECTS.format("after"))
    assert len(after) == kept + plan["output_units"]
    assert values(browser, "figure#after figcaption data") == [plan["depth_after"], len(after)]
    now = browser.evaluate(RECTS.format("now"))
    assert kept > 0 and sum(rect in now for rect in after) >= kept
    # Of keys that are not declared nothing is planned.
    browser.open(write_report(lake, events, "--columns", "country,amount"))
    assert browser.evaluate("document.querySelector('figure#after')") is None
    assert plan["outcome"] == "planned"

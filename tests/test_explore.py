"""The page of a sweep: what it holds, and, in a real browser, what it does."""

from __future__ import annotations

import base64
import csv
import gzip
import html.parser
import io
import itertools
import json
import math
import random
import re
import shutil
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from conftest import PATIENCE_S

from aqmlab import stats
from aqmlab.explore import page as explore
from aqmlab.explore.page import Axis, Exploration, PointData
from aqmlab.measures import Quantity

QUEUES = ("drop-tail", "red", "shred")
RATES = ("1Mbps", "2Mbps", "10Mbps")
LOADS = (0.5, 0.9)
SEEDS = tuple(range(1, 7))
TIME, USED = "web.p90-time", "bottleneck.utilisation"
DOUBTFUL = 'a "title" with <b>marks</b> & </script>'


def point(queue: str, rate: str, load: float) -> PointData:
    """Some runs; of red at 10Mbps one failed, and of shred at 10Mbps and half the load all."""
    chance = random.Random(f"{queue} {rate} {load}")
    times: list[float | None] = [chance.lognormvariate(0.0, 0.3) for _ in SEEDS]
    failures = {3: "a limit was reached"} if (queue, rate) == ("red", "10Mbps") else {}
    if (queue, rate, load) == ("shred", "10Mbps", 0.5):
        failures = dict.fromkeys(SEEDS, "it killed three workers")
    return PointData(
        labels={"queue": queue, "bottleneck.rate": rate, "load": load},
        scenario=f"{chance.getrandbits(256):064x}",
        given={"duration": "60s", "bottleneck": {"rate": rate, "queue": {"kind": queue}}},
        seeds=SEEDS,
        values={
            TIME: [None if seed in failures else time for seed, time in zip(SEEDS, times, strict=True)],
            USED: [chance.uniform(80, 100) for _ in SEEDS],
        },
        failures=failures,
        command=f"aqmlab run base.toml --set bottleneck.rate={rate} --set queue={queue}",
    )


POINTS = {labels: point(*labels) for labels in itertools.product(QUEUES, RATES, LOADS)}
SWEEP = Exploration(
    title=DOUBTFUL,
    axes=(Axis.of("queue", QUEUES), Axis.of("bottleneck.rate", RATES, title="rate"), Axis.of("load", LOADS)),
    measures=(
        Quantity(name=TIME, title="web time, 90th percentile", unit="s"),
        Quantity(name=USED, title="utilisation", unit="%"),
    ),
    points=tuple(POINTS.values()),
    provenance={"aqmlab": "0.1.0", "store": "results"},
)
OTHER = replace(SWEEP, title="the other sweep", measures=SWEEP.measures[1:], points=tuple(
    replace(one, values={USED: one.values[USED]}, failures={}) for one in SWEEP.points
))  # fmt: skip


def times(queue: str, rate: str, load: float = 0.5) -> list[float]:
    return [math.nan if value is None else value for value in POINTS[queue, rate, load].values[TIME]]


class Outline(html.parser.HTMLParser):
    """Every address in a page, and its scripts' sources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href", "action", "srcset")]


def test_the_page_refers_to_nothing_outside_itself() -> None:
    text = explore.page(SWEEP)
    assert set(Outline(text).addresses) == {"data:,"}
    assert not re.search(r"@import|url\(|import\(|fetch\(|XMLHttpRequest", text)
    assert "default-src 'none'" in text
    assert "<b>marks</b>" not in text


def test_the_page_is_the_same_for_the_same_runs_and_small() -> None:
    text = explore.page(SWEEP)
    assert text == explore.page(SWEEP)
    assert len(text) < 100_000


def test_every_value_seed_and_failure_is_in_the_page() -> None:
    data = json.loads(gzip.decompress(base64.b64decode(explore.packed([SWEEP]))))
    (sweep,) = data["sweeps"]
    for at, one in enumerate(SWEEP.points):
        labels = {axis["name"]: axis["values"][axis["of"][at]] for axis in sweep["axes"]}
        assert labels == {name: str(label) for name, label in one.labels.items()}
        assert sweep["seed_lists"][sweep["seeds"][at]] == list(one.seeds)
        for measure in sweep["measures"]:
            values = list(one.values[measure["name"]])
            assert measure["values"][at] == (values if any(value is not None for value in values) else None)
        assert sweep["failures"][at] == ({str(k): text for k, text in one.failures.items()} or None)
        assert tomllib.loads(sweep["given"][at]) == one.given
    assert data["sweeps"][0]["t"] == [stats.t_quantile(0.95, freedom) for freedom in range(1, len(SEEDS))]


def test_a_value_that_is_no_number_is_a_missing_one() -> None:
    strange = replace(SWEEP.points[0], values={TIME: [math.nan, math.inf, 1.0, None, 2.0, 3.0]})
    data = json.loads(gzip.decompress(base64.b64decode(explore.packed([replace(SWEEP, points=(strange,))]))))
    assert data["sweeps"][0]["measures"][0]["values"] == [[None, None, 1.0, None, 2.0, 3.0]]
    assert data["sweeps"][0]["measures"][1]["values"] == [None]


def test_an_axis_is_to_scale_if_its_values_are_numbers_of_one_unit() -> None:
    rate = Axis.of("bottleneck.rate", RATES, title="rate")
    assert (rate.label, rate.numbers, rate.log) == ("rate (Mbps)", (1.0, 2.0, 10.0), True)
    assert Axis.of("load", LOADS).numbers == LOADS and not Axis.of("load", LOADS).log
    for names in (QUEUES, ("1Mbps", "60ms"), (True, False), ("1Mbps", 2.0)):
        assert Axis.of("what", names).numbers is None


FIRST = SWEEP.points[0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"points": ()}, "has no point"),
        ({"measures": ()}, "has no measure"),
        ({"axes": SWEEP.axes * 2}, "axes: must have different names"),
        ({"points": (FIRST, FIRST)}, "must have different labels"),
        ({"points": (replace(FIRST, labels={"queue": "red"}),)}, "a label for each of the axes"),
        ({"points": (replace(FIRST, labels={**FIRST.labels, "load": 7}),)}, "`7` is not a value of the axis"),
        ({"points": (replace(FIRST, values={"x": SEEDS}),)}, "unknown measures x"),
        ({"points": (replace(FIRST, values={TIME: [1.0]}),)}, "a value for each of the 6 seeds .got 1"),
        ({"points": (replace(FIRST, seeds=[1] * 6),)}, "seeds: must be different"),
        ({"points": (replace(FIRST, failures={9: "lost"}),)}, r"these are not seeds of the point: \[9\]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replace(SWEEP, **wrong)


def test_two_sweeps_of_one_title_and_none_at_all_are_refused() -> None:
    for sweeps in ((), (SWEEP, SWEEP)):
        with pytest.raises(ValueError, match="different titles"):
            explore.page(*sweeps)


# In a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on the path")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, timeout=1e3 * PATIENCE_S)
        yield started
        started.close()


class Opened:
    """A page in the browser, as its reader uses it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def go(self, fragment: str = "") -> None:
        self.page.goto("about:blank")
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("#figure *")

    def choose(self, control: str, value: str) -> None:
        self.page.locator(f'[id="{control}"]').select_option(value)

    @property
    def points(self) -> list[str]:
        """What each point of the figure tells those who listen."""
        told = self.page.locator("#figure .point").evaluate_all("all => all.map(one => one.ariaLabel)")
        return list(told)

    @property
    def view(self) -> dict[str, list[str]]:
        return parse_qs(self.page.url.partition("#")[2])

    def saved(self, button: str) -> str:
        with self.page.expect_download() as waiting:
            self.page.click(f"#{button}")
        return Path(waiting.value.path()).read_text(encoding="utf-8")

    def rows(self) -> list[dict[str, str]]:
        """What is shown, by the CSV that the page saves."""
        return list(csv.DictReader(io.StringIO(self.saved("csv"))))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("explore") / "page.html"
    path.write_text(explore.page(SWEEP, OTHER), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser: Any, written: str) -> Iterator[Opened]:
    """The page of two sweeps; at the end nothing was complained of or asked for."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(1e3 * PATIENCE_S)
    reader = Opened(context.new_page(), written)
    reader.go()
    yield reader
    assert reader.said == []
    assert all(url.startswith((written, "about:", "data:", "blob:")) for url in reader.requests)
    context.close()


def test_at_first_rates_go_along_x_and_queues_are_lines(opened: Opened) -> None:
    assert opened.view["x"] == ["bottleneck.rate"] and opened.view["lines"] == ["queue"]
    assert len(opened.points) == len(POINTS)
    assert "drop-tail" in opened.page.inner_text("#figure")
    interval = stats.mean_interval(times("drop-tail", "2Mbps"))
    assert f"load 0.5, queue drop-tail, bottleneck.rate 2Mbps: {interval} s; 6 runs" in opened.points


def test_choosing_axes_changes_the_figure(opened: Opened) -> None:
    before = opened.page.inner_html("#figure")
    opened.choose("y", USED)
    assert "utilisation (%)" in opened.page.inner_text("#figure")
    assert opened.page.inner_html("#figure") != before
    opened.choose("x", "load")  # Whose panels the rates take.
    assert opened.view["panels"] == ["bottleneck.rate"]
    groups = opened.page.locator("#figure svg > [role=group]")
    assert [group.get_attribute("aria-label") for group in groups.all()] == [
        f"bottleneck.rate {r}" for r in RATES
    ]
    opened.choose("panels", "")
    assert len(opened.points) == len(QUEUES) * len(LOADS)
    opened.choose("only.bottleneck.rate", "2")
    assert "only bottleneck.rate 10Mbps" in opened.page.inner_text("#shown")


def test_the_csv_has_the_intervals_of_python(opened: Opened) -> None:
    rows = opened.rows()
    assert len(rows) == len(POINTS)
    for row in rows:
        found = stats.mean_interval(times(row["queue"], row["bottleneck.rate"], float(row["load"])))
        assert int(row["runs"]) == found.count
        assert int(row["failed"]) == len(SEEDS) - found.count
        for end in ("value", "low", "high"):
            expected = getattr(found, end)
            assert (row[end] == "") == math.isnan(expected)
            assert row[end] == "" or float(row[end]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("mode", "of"), [("difference", stats.paired_difference), ("ratio", stats.paired_ratio)]
)
def test_what_is_compared_with_a_baseline_is_what_python_finds_seed_by_seed(
    opened: Opened, mode: str, of: Any
) -> None:
    opened.choose("mode", mode)
    opened.choose("against", "queue")
    opened.choose("baseline", "1")
    rows = opened.rows()
    assert {row["queue"] for row in rows} == {"drop-tail", "shred"}
    for row in rows:
        rate, load = row["bottleneck.rate"], float(row["load"])
        found = of(times(row["queue"], rate, load), times("red", rate, load))
        assert int(row["runs"]) == found.count
        for end in ("value", "low", "high"):
            expected = getattr(found, end)
            assert (
                row[end] == ""
                if math.isnan(expected)
                else float(row[end]) == pytest.approx(expected, rel=1e-9)
            )
    word = {"difference": "difference from", "ratio": "ratio to"}[mode]
    assert f"{word} queue red" in opened.page.inner_text("#figure")


def test_the_formulas_of_the_page_are_those_of_python(opened: Opened) -> None:
    chance = random.Random(11)
    for _ in range(60):
        count = chance.randrange(len(SEEDS) + 1)
        scale = 10 ** chance.uniform(-6, 6)
        ours, theirs = (
            [math.nan if chance.random() < 0.15 else scale * chance.uniform(1, 9) for _ in range(count)]
            for _ in "ab"
        )
        for script, found in (
            ("meanInterval(a, data.sweeps[0].t)", stats.mean_interval(ours)),
            ("pairedDifference(a, b, data.sweeps[0].t)", stats.paired_difference(ours, theirs)),
            ("pairedRatio(a, b, data.sweeps[0].t)", stats.paired_ratio(ours, theirs)),
        ):
            given = [[None if math.isnan(value) else value for value in side] for side in (ours, theirs)]
            told = opened.page.evaluate(f"([a, b]) => {script}", given)
            assert told["count"] == found.count
            for end in ("value", "low", "high"):
                expected = getattr(found, end)
                if math.isnan(expected):
                    assert told[end] is None
                else:
                    assert told[end] == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)


def test_an_average_is_taken_replication_by_replication(opened: Opened) -> None:
    opened.go("#x=bottleneck.rate&lines=queue&panels=&average=load")
    assert "averaged over load (2 values) within each replication" in opened.page.inner_text("#shown")
    for row in opened.rows():
        both = [times(row["queue"], row["bottleneck.rate"], load) for load in LOADS]
        found = stats.mean_interval([(a + b) / 2 for a, b in zip(*both, strict=True)])
        assert row["load"] == "average of 2"
        assert row["value"] == "" if found.count == 0 else float(row["value"]) == pytest.approx(found.value)
        assert row["low"] == "" if found.count < 2 else float(row["low"]) == pytest.approx(found.low)


def test_each_run_is_a_dot_if_asked_and_a_row_of_the_csv(opened: Opened) -> None:
    opened.choose("runs", "each")
    assert opened.page.locator('#figure path[stroke-linecap="round"]').count() > 0
    rows = opened.rows()
    assert len(rows) == len(POINTS) * len(SEEDS)
    for row in rows:
        value = times(row["queue"], row["bottleneck.rate"], float(row["load"]))[int(row["seed"]) - 1]
        assert row["value"] == "" if math.isnan(value) else float(row["value"]) == value


def test_the_keyboard_goes_from_point_to_point_and_opens_a_card(opened: Opened) -> None:
    page = opened.page
    page.locator("#baseline, #runs").last.focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('point')"):
            break
    here = lambda: page.evaluate("document.activeElement.ariaLabel")  # noqa: E731
    assert here().startswith("load 0.5, queue drop-tail, bottleneck.rate 1Mbps")
    assert page.inner_text("#tip").startswith("load 0.5, queue drop-tail, bottleneck.rate 1Mbps")
    page.keyboard.press("ArrowRight")
    assert here().startswith("load 0.5, queue drop-tail, bottleneck.rate 2Mbps")
    page.keyboard.press("ArrowDown")
    assert here().startswith("load 0.5, queue red, bottleneck.rate 2Mbps")
    page.keyboard.press("End")
    assert here().startswith("load 0.5, queue red, bottleneck.rate 10Mbps")
    page.keyboard.press("Enter")
    card = page.inner_text("#card")
    of = POINTS["red", "10Mbps", 0.5]
    assert of.scenario in card and of.command in card and "Seed 3 failed: a limit was reached" in card
    cells = page.locator("#card tbody").first.locator("tr").all_inner_texts()
    assert len(cells) == len(SEEDS) and cells[2].split() == ["3", "failed"]
    assert float(cells[0].split()[1]) == pytest.approx(times("red", "10Mbps")[0], rel=1e-5)
    page.get_by_text("Scenario as written").click()
    assert 'kind = "red"' in page.inner_text("#card")
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"Save {of.scenario[:12]}.toml").click()
    assert tomllib.loads(Path(waiting.value.path()).read_text(encoding="utf-8")) == of.given
    page.keyboard.press("Escape")
    assert not page.locator("#card").is_visible()
    assert here().startswith("load 0.5, queue red, bottleneck.rate 10Mbps")
    page.keyboard.press("Tab")  # The next panel.
    assert here().startswith("load 0.9, queue drop-tail, bottleneck.rate 1Mbps")


def test_the_command_is_copied(opened: Opened) -> None:
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.locator("#figure .point").first.click(force=True)
    opened.page.get_by_role("button", name="Copy command").click()
    opened.page.get_by_text("Copied.").wait_for()
    assert opened.page.evaluate("navigator.clipboard.readText()") == SWEEP.points[0].command


def test_failed_runs_are_counted_listed_and_marked(opened: Opened) -> None:
    failed = sum(len(one.failures) for one in SWEEP.points)
    assert f"{failed}runs failed" in opened.page.inner_text("#tally").replace("\n", "")
    opened.page.locator("#failed summary").click()
    assert opened.page.locator("#failed li").count() == failed
    lost = "load 0.5, queue shred, bottleneck.rate 10Mbps: no value; 0 runs, 6 failed"
    assert lost in opened.points
    assert opened.page.locator(f'#figure .point[aria-label="{lost}"] path[stroke="#a3271c"]').count() == 1
    opened.page.locator("#failed li button").last.click()
    assert "it killed three workers" in opened.page.inner_text("#card")


def test_the_table_below_the_figure_has_the_numbers_shown(opened: Opened) -> None:
    rows = opened.page.locator("#table tbody tr")
    assert rows.count() == len(POINTS)
    mean = stats.mean_interval(times("drop-tail", "1Mbps")).value
    assert f"{mean:.4g}".rstrip("0") in rows.first.inner_text()


def test_the_svg_stands_for_itself(opened: Opened) -> None:
    root = ElementTree.fromstring(opened.saved("svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    texts = [text.text for text in root.iter(f"{space}text")]
    assert {"red", "rate (Mbps)", "web time, 90th percentile (s)", "load 0.5", "10Mbps"} <= set(texts)
    assert len([one for one in root.iter(f"{space}g") if one.get("class") == "point"]) == len(POINTS)


def test_a_view_is_kept_in_its_address(opened: Opened) -> None:
    opened.choose("sweep", OTHER.title)
    opened.choose("mode", "ratio")
    opened.choose("against", "load")
    opened.choose("x", "queue")
    opened.choose("lines", "load")
    opened.page.check("#logy")
    opened.page.locator('[id="values.queue"]').click()
    opened.page.uncheck('[id="show.queue.0"]')
    address, figure, shown = (
        opened.page.url,
        opened.page.inner_html("#figure"),
        opened.page.inner_text("#shown"),
    )
    assert opened.view["hide.queue"] == ["drop-tail"]
    opened.go()
    assert opened.page.inner_text("#shown") != shown
    opened.go(address.partition(opened.address)[2])
    assert opened.page.inner_text("#shown") == shown
    assert opened.page.inner_html("#figure") == figure
    assert opened.page.inner_text("#title") == OTHER.title


def test_an_address_of_nonsense_shows_the_first_view(opened: Opened) -> None:
    expected = opened.page.inner_html("#figure")
    opened.go(
        "#x=nothing&y=&lines=42&mode=evil&only.load=7&against=__proto__&hide.queue=none&baseline=%3Cb%3E"
    )
    assert opened.points and opened.view["mode"] == ["value"]
    opened.go("#sweep=none")
    assert opened.page.inner_html("#figure") == expected


def test_a_choice_without_points_is_told(opened: Opened) -> None:
    opened.go(
        "#x=load&lines=bottleneck.rate&panels=&only.queue=red&mode=difference&against=queue&baseline=red"
    )
    assert "No point has the selected values" in opened.page.inner_text("#figure")
    assert opened.page.locator("#svg").is_disabled()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_the_page_fits_phones_and_desks(opened: Opened, width: int, scheme: str) -> None:
    opened.page.emulate_media(color_scheme=scheme)
    opened.page.set_viewport_size({"width": width, "height": 800})
    opened.page.wait_for_function(f"document.querySelector('#figure svg').clientWidth <= {width}")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(21, 24, 27)" if scheme == "dark" else "rgb(251, 250, 247)")

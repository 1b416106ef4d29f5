"""Recorded pages are replayed over a link: the command, its files, the store and the measures."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from conftest import SMALL, Cli
from har_files import ROOT_URL, SECRETS, child, document, entry, har, written

import aqmlab as al
from aqmlab import measures
from aqmlab.cli import page_text
from aqmlab.pages import loads, network, read_har, waterfall
from aqmlab.store import Store

EXAMPLES = Path(__file__).parent.parent / "scenarios" / "pages"


def small(folder: Path) -> Path:
    """A HAR file of two hosts, full of secrets."""
    style = child("a.css", 170, _resourceType="stylesheet", _initiator={"type": "parser", "url": ROOT_URL})
    far = entry("https://cdn.internal.test/x.png", 200, timings={"connect": 90, "ssl": 45, "wait": 60})
    return written(folder, har(document(), style, far))


def contents(folder: Path) -> str:
    """Everything that is written below a folder, with the contents of Parquet files as CSV."""
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            texts.append(str(path.relative_to(folder)))
            texts.append(path.read_bytes().decode("latin-1"))
            if path.suffix == ".parquet":
                texts.append(pl.read_parquet(path).write_csv())
    return "\n".join(texts)


def test_nothing_private_is_written_or_printed(cli: Cli, tmp_path: Path) -> None:
    file, out, store = small(tmp_path), tmp_path / "out", tmp_path / "store"
    options = ["--http", "1.1,3", "--runs", "2", "--out", str(out), "--store", str(store), "--jobs", "1"]
    done = cli("page", str(file), *options)
    assert done.returncode == 0, done.stderr
    assert "3 objects from 2 hosts, 12 kB, HTTP/2 with TLS" in done.stdout
    assert "8 runs executed, 0 found in the store" in done.stdout
    again = cli("page", str(file), *options, "--json", "--pictures", "svg")
    table = json.loads(again.stdout)
    assert table["executed"] == 0
    assert [row["http"] for row in table["loads"]] == ["HTTP/1.1", "HTTP/1.1", "HTTP/3", "HTTP/3"]
    assert all(row["unfinished"] == 0 and row["load-time.mean"] > 0.1 for row in table["loads"])
    names = {path.name for path in out.iterdir()}
    assert {"page.csv", "page.toml", "loads.csv", "waterfall.svg", "waterfall.png", "waterfall.csv"} <= names
    assert {"page-load-time.svg", "page-load-time.csv", "page-render-time.png"} <= names
    written_text = contents(out) + contents(store)
    assert "style 1 (host 1)" in written_text
    printed = done.stdout + done.stderr + again.stdout + again.stderr
    for secret in SECRETS:
        assert secret not in written_text + printed, secret


def test_the_written_scenario_is_the_scenario(tmp_path: Path) -> None:
    page = read_har(small(tmp_path))
    link = network.AccessLink(rate_bps=5e6, rtt_s=0.04)
    scenario = network.on_link(link, [page], http="2", downloads=1)
    page_text.write_scenario(scenario, tmp_path)
    assert al.Scenario.load(tmp_path / "page.toml").digest == scenario.digest


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--http", "1.0"], "--http: must be a list of 1.1, 2, 3, such as 1.1,2 (got 1.0)"),
        (
            ["--link", "hello", "--rate", "1Mbps"],
            "--rate: cannot be used with --link, whose scenario contains",
        ),
        (["--ends", "a", "b"], "--ends: needs --link"),
        (["--rate", "fast"], "--rate: "),
        (
            ["--page", "3"],
            "page.har: --page: must be between 1 and 1, the number of pages in the file (got 3)",
        ),
        (["--queues", "drop-tial"], "did you mean drop-tail, "),
    ],
)
def test_invalid_options_are_refused(cli: Cli, tmp_path: Path, options: list[str], expected: str) -> None:
    done = cli("page", str(small(tmp_path)), *options, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert expected in done.stderr
    assert not any(secret in done.stderr + done.stdout for secret in SECRETS)


def test_a_damaged_file_is_refused_without_its_contents(cli: Cli, tmp_path: Path) -> None:
    file = small(tmp_path)
    file.write_text(file.read_text()[:-30], encoding="utf-8")
    done = cli("page", str(file), "--runs", "0", "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "page.har: line 1 column " in done.stderr
        and "is not valid JSON: export the HAR file again" in done.stderr
    )
    assert not any(secret in done.stderr for secret in SECRETS)


def test_several_pages_and_users_load_at_once(tmp_path: Path) -> None:
    pages = [read_har(EXAMPLES / f"{name}.har") for name in ("article", "board")]
    link = network.AccessLink(rate_bps=20e6, rtt_s=0.03)
    scenario = network.on_link(link, pages, http="2", users=3)
    run = scenario.run(1)
    rows = run.tables["page_loads"]
    assert rows.group_by("traffic").len().sort("traffic")["len"].to_list() == [3, 3]
    assert rows["load_s"].null_count() == 0
    found = measures.of_scenario(scenario)
    view = measures.View(run)
    assert found["page-1.load-time"].of(view) == pytest.approx(
        rows.filter(pl.col("traffic") == "page-1")["load_s"].mean()
    )
    assert found["page-2.unfinished-loads"].of(view) == 0


def test_pages_are_added_to_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    scenario, page = al.Scenario.load(tmp_path / "small.toml"), read_har(EXAMPLES / "board.har")
    mine = network.on_scenario(scenario, [page], http="3")
    assert mine.effective["traffic"]["page"]["start"] == "2s"
    assert {"ftp", "web", "page"} == set(mine.effective["traffic"])
    found = loads.load(mine, [page], http=["2", "3"], queues=["short"], runs=2, store=Store.in_memory())
    assert [(row["http"], row["queue"], row["runs"]) for row in found.rows()] == [
        ("HTTP/2", "short", 2),
        ("HTTP/3", "short", 2),
    ]
    taken = scenario.with_({"traffic.page": {"kind": "ftp"}})
    with pytest.raises(ValueError, match=r"traffic.page: is the name of a page's workload"):
        network.on_scenario(taken, [page], http="2")
    with pytest.raises(ValueError, match=r"--ends: is only used with a scenario that has a table `links`"):
        network.on_scenario(scenario, [page], http="2", ends=("a", "b"))


def test_pages_are_added_to_a_network_of_several_links() -> None:
    scenario, page = al.Scenario.load("two-bottlenecks"), read_har(EXAMPLES / "board.har")
    with pytest.raises(ValueError, match=r"name the nodes of the servers and of the users with --ends"):
        network.on_scenario(scenario, [page], http="2")
    links = scenario.effective["links"].values()
    ends = (next(iter(links))["from"], next(iter(links))["to"])
    mine = network.on_scenario(scenario, [page], http="2", ends=ends)
    assert mine.effective["traffic"]["page"]["from"] == ends[0]


def test_versions_differ_in_connections_and_transport() -> None:
    page = read_har(EXAMPLES / "shop.har")
    scenario = network.on_link(network.AccessLink(rate_bps=1e7, rtt_s=0.04), [page], http="1.1")
    flows = {}
    for name, change in network.versions([page], network.VERSIONS).items():
        assert callable(change)
        changed = al.Scenario.from_dict(change(dict(scenario.given)), files=scenario.files)
        run = changed.run(1)
        flows[name] = run.flows.height
        assert run.tables["page_loads"]["objects"].to_list() == [22]
        assert changed.effective["traffic"]["page"].get("tls", False) is (name != "HTTP/1.1")
    # With HTTP/1.1: 1 connection to the first host, 2 to the second and 6 to the third.
    assert flows == {"HTTP/1.1": 9, "HTTP/2": 3, "HTTP/3": 3}


FAST, SLOW = {"rate_bps": 10e6, "rtt_s": 0.04}, {"rate_bps": 2e6, "rtt_s": 0.1}
"""The links over which the examples were recorded."""


def rows_of_the_guide() -> dict[str, list[str]]:
    """The rows of the guide's table of recorded and simulated loads."""
    text = (EXAMPLES.parent.parent / "docs/guides/your-page.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows if len(row) == 6}


@pytest.mark.parametrize("name", ["article", "shop", "board"])
def test_the_guide_shows_the_differences_between_recorded_and_simulated_loads(name: str) -> None:
    shown, files = (
        rows_of_the_guide(),
        {one: read_har(EXAMPLES / f"{one}.har") for one in (name, f"{name}-slow")},
    )
    fast, slow = files.values()
    for page, (file, other, link) in zip(
        (fast, slow), ((name, slow, FAST), (f"{name}-slow", fast, SLOW)), strict=True
    ):
        fit, prediction = waterfall.fitted(page), waterfall.fitted(other, **link)
        assert fit.load_s is not None and prediction.load_s is not None
        assert shown[file] == [
            f"{page.load_s:.3f} s",
            f"{fit.link.rate_bps / 1e6:.1f} Mb/s",
            f"{1000 * fit.link.rtt_s:.0f} ms",
            f"{100 * (fit.load_s / page.load_s - 1):+.1f} %",
            f"{100 * (prediction.load_s / page.load_s - 1):+.1f} %",
        ]


def test_a_recording_over_a_fast_link_predicts_the_load_over_a_slow_link() -> None:
    for name, share in (("article", 0.05), ("shop", 0.05), ("board", 0.10)):
        fast, slow = (read_har(EXAMPLES / f"{name}{end}.har") for end in ("", "-slow"))
        assert waterfall.fitted(fast, **SLOW).load_s == pytest.approx(slow.load_s, rel=share)


def test_a_waterfall_shows_the_stages_of_both_loads() -> None:
    page = read_har(EXAMPLES / "board.har")
    fit = waterfall.fitted(page, rate_bps=10e6)
    chart = waterfall.chart(page, fit)
    rows = chart.table
    assert rows["source"].unique(maintain_order=True).to_list() == ["recorded", "simulated"]
    assert rows.height == 2 * 3 * len(page.objects)
    assert (rows["begin_s"] <= rows["end"]).all()
    assert waterfall.table(page, fit).height == len(page.objects)

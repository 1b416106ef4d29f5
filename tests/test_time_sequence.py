"""The time-sequence graph: what is drawn is what the table of packets says of the flow."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.charts import chart as plot
from aqmlab.run_charts import time_sequence

DATAGRAMS = {"kind": "udp", "rate": "400kbps", "start": "3s", "lasts": "5s", "phase": "zero"}


@pytest.fixture
def run(small: Path) -> al.Run:
    scenario = al.Scenario.load(small).with_({"traffic.burst": DATAGRAMS, "warm_up": "0s"})
    return time_sequence.recorded(scenario).run()


def flow_of(run: al.Run, traffic: str) -> int:
    """The flow of a workload that lost most."""
    flows = run.flows.filter(pl.col("traffic").cast(pl.String) == traffic)
    return int(flows.sort("packets_dropped")["flow"][-1])


def test_all_that_was_sent_lost_and_acknowledged_is_drawn(run: al.Run) -> None:
    flow = flow_of(run, "ftp")
    chart = time_sequence.of_tables(run.tables, flow)
    assert chart.table["flow"].unique().to_list() == [f"flow {flow} of ftp"]
    row = run.flows.row(flow, named=True)
    drawn = dict(chart.table["event"].value_counts().iter_rows())
    assert drawn["dropped"] == row["packets_dropped"] > 10
    assert drawn["sent again"] == row["retransmitted"] > 10
    assert (
        drawn["sent"] + drawn["sent again"] <= row["packets_sent"] <= drawn["sent"] + drawn["sent again"] + 1
    )
    sent = chart.table.filter(event="sent")
    assert sent["sequence_kB"].is_sorted()
    # Each byte is sent for a first time once, from where the one before ended.
    assert sent["sequence_kB"][1:].to_list() == sent["end"][:-1].to_list()
    known = chart.table.filter(event="acknowledged")
    assert known["sequence_kB"].is_sorted()
    assert 0 < known["sequence_kB"][-1] <= sent["end"][-1]
    assert chart.table.filter(event="dropped")["link"].unique().to_list() == ["bottleneck"]


def test_requests_and_lost_acknowledgements_are_left_out(small: Path) -> None:
    scenario = al.Scenario.load(small).with_({"traffic.web.request": "300B"})
    run = time_sequence.recorded(scenario).run()
    flow = int(run.transfers.filter(complete=True).sort("retransmitted")["flow"][-1])
    chart = time_sequence.of_tables(run.tables, flow)
    payload = run.transfers.filter(flow=flow)["size_bytes"][0] / 1000
    assert chart.table.filter(event="sent")["end"].max() == pytest.approx(payload)
    assert chart.table["end"].max() <= payload + 0.001 + 1e-9


def test_datagrams_are_drawn_by_number_with_their_arrivals(run: al.Run) -> None:
    flow = flow_of(run, "burst")
    chart = time_sequence.of_tables(run.tables, flow)
    assert (chart.y, chart.y_label) == ("datagram", "datagram number")
    sent = chart.table.filter(event="sent")
    assert sent["datagram"].to_list() == [float(number) for number in range(250)]
    arrived = chart.table.filter(event="arrived").height
    assert arrived == run.flows["datagrams_received"][flow]
    assert arrived + chart.table.filter(event="dropped").height == 250


def test_only_the_drops_of_a_link_are_drawn_if_one_is_named(run: al.Run) -> None:
    flow = flow_of(run, "ftp")
    whole = time_sequence.time_sequence(run.tables["packets"], flow).table
    assert whole.equals(time_sequence.time_sequence(run.tables["packets"], flow, link="bottleneck").table)
    other = time_sequence.time_sequence(run.tables["packets"], flow, link="another").table
    assert other.equals(whole.filter(pl.col("event") != "dropped"))
    with pytest.raises(LookupError, match="no managed link is named `another`; available: bottleneck"):
        time_sequence.of_tables(run.tables, flow, link="another")


def test_a_flow_without_a_history_is_refused_with_those_that_have_one(small: Path) -> None:
    scenario = al.Scenario.load(small)
    tables = scenario.with_({"record.histories": ["ftp"]}).run().tables
    with pytest.raises(LookupError, match=r"^flow 999 has no history; available: 2-4$"):
        time_sequence.of_tables(tables, 999)
    with pytest.raises(LookupError, match=r"record\.histories"):
        time_sequence.of_tables(scenario.run().tables, 0)
    of_links = scenario.with_({"record.packets": ["bottleneck"]}).run()
    with pytest.raises(LookupError, match=r"record\.histories"):
        time_sequence.of_tables(of_links.tables, 0)


def test_marks_lie_where_the_table_says(run: al.Run) -> None:
    chart = time_sequence.of_tables(run.tables, flow_of(run, "ftp"))
    axis = plot.draw(chart).axes[0]
    drawn = {line.get_label(): line for line in axis.lines}
    for event in ("dropped", "acknowledged"):
        rows = chart.table.filter(event=event)
        assert drawn[event].get_xdata().tolist() == rows["time_s"].to_list()  # type: ignore[union-attr]
    bars = {bars.get_label(): bars.get_segments() for bars in axis.collections}  # type: ignore[attr-defined]
    rows = chart.table.filter(event="sent again")
    ends = zip(*(rows[name].to_list() for name in ("time_s", "sequence_kB", "end")), strict=True)
    expected = [[[at, low], [at, high]] for at, low, high in ends]
    assert [bar.tolist() for bar in bars["sent again"]] == expected


def test_the_command_draws_a_run_that_was_kept_or_runs_a_scenario(
    cli: Cli, small: Path, tmp_path: Path
) -> None:
    assert cli("run", small, "--out", "kept", "--set", 'record.histories=["ftp"]').returncode == 0
    done = cli("plot", "time-sequence", "kept", "--flow", "2", "--out", "a/kept.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Plot and numbers: a/kept.svg, a/kept.csv\n"
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["kept.csv", "kept.svg"]
    done = cli("plot", "time-sequence", small, "--flow", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "time-sequence-2.png").read_bytes().startswith(b"\x89PNG")
    # The same flow of the same run, whoever recorded it.
    assert (tmp_path / "time-sequence-2.csv").read_text() == (tmp_path / "a/kept.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kept", "--flow", "99999"], "flow 99999 has no history; available: 2-4"),
        (["kept", "--flow", "2", "--out", "x.gif"], "must end in"),
        (["kept", "--flow", "2", "--set", "seed=2"], "--set: can be used only with a scenario file"),
        (["kept", "--flow", "2", "--link", "x"], "no managed link is named `x`; available: bottleneck"),
        (["silent", "--flow", "0"], "record.histories"),
        (["empty", "--flow", "0"], "contains no packets.parquet"),
        (["nowhere", "--flow", "0"], "nowhere: is neither a file nor a packaged scenario"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    cli: Cli, small: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert cli("run", small, "--out", "kept", "--set", 'record.histories=["ftp"]').returncode == 0
    assert cli("run", small, "--out", "silent").returncode == 0
    done = cli("plot", "time-sequence", *arguments)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.startswith("aqmlab: ") and done.stderr.count("\n") == 1

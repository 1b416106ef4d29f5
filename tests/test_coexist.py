"""`aqmlab coexist`: pairs of congestion controls at queues, buffers and round-trip times, as a study."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from aqmlab.charts.chart import Chart, draw, save
from aqmlab.charts.matrix import Cells
from aqmlab.cli.app import app
from aqmlab.coexistence import network
from aqmlab.coexistence import study as coexistence
from aqmlab.coexistence.measures import MEASURES
from aqmlab.measures import View
from aqmlab.scenario import Scenario
from aqmlab.study import Experiment, Study

SHORT: dict[str, Any] = {"duration_s": 3.0, "warm_up_s": 1.0, "rate": "10Mbps", "load": 0.2}
OPTIONS = ("--duration", "3s", "--warm-up", "1s", "--rate", "10Mbps", "--load", "0.2", "--seeds", "2")


def study(*controls: str, **more: Any) -> Study:
    options = {"queues": ["drop-tail"], "replications": 2, **SHORT, **more}
    return coexistence.study(controls or ("reno", "cubic"), **options)


def scenarios(found: Study) -> dict[tuple[Any, ...], Scenario]:
    """The scenario of each point, by the labels in the order of `AXES`."""
    sweep = found.experiments[0].sweep("full")
    return {
        tuple(point.labels[axis] for axis in coexistence.AXES): sweep.scenario_of(point)
        for point in sweep.points()
    }


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["coexist", *words], catch_exceptions=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished command with two controls and two queues."""
    out = tmp_path_factory.mktemp("coexist")
    ended = run("reno", "cubic", "--queues", "drop-tail,fq-codel", *OPTIONS, "--out", str(out))
    assert ended.exit_code == 0, ended.output
    return out


# Points


def test_each_unordered_pair_and_each_control_beside_itself_is_a_point() -> None:
    found = scenarios(
        study("prague", "cubic+ecn", "bbr1/sack", buffers=["0.5bdp", "2bdp"], rtts=["10ms", "40ms"])
    )
    pairs = [
        *(("prague", "prague"), ("prague", "cubic+ecn"), ("prague", "bbr1/sack")),
        *(("cubic+ecn", "cubic+ecn"), ("cubic+ecn", "bbr1/sack"), ("bbr1/sack", "bbr1/sack")),
    ]
    assert {point[:2] for point in found} == set(pairs)
    assert len(found) == len(pairs) * 2 * 2


def test_controls_share_the_recovery_of_linux_unless_their_name_has_another() -> None:
    for name, control, recovery, ecn in [
        ("reno", "reno", "rack", "off"),
        ("reno+ecn", "reno", "rack", "on"),
        ("reno/newreno", "reno", "newreno", "off"),
        ("bbr", "bbr3", "rack", "off"),
        ("prague", "prague", "rack", "on"),
        ("linux", "cubic", "rack", "off"),
        ("sack", "reno", "sack", "off"),
    ]:
        (made,) = scenarios(study(name)).values()
        for workload in ("first", "first-short", "second", "second-short"):
            tcp = made.effective["traffic"][workload]["tcp"]
            assert (tcp["congestion_control"]["kind"], tcp["recovery"]["kind"]) == (control, recovery)
            assert tcp["ecn"]["mode"] == ecn
            assert tcp["connection"]["mss"] == "1448B"


def test_a_buffer_is_the_same_number_of_full_packets_in_every_queue() -> None:
    queues = ["drop-tail", "cake", "fq-codel", "dualpi2"]
    found = scenarios(study("reno", queues=queues, buffers=["1bdp", "90p", "15kB"], rtts=["40ms", "80ms"]))
    limits = {point[2:]: made.effective["bottleneck"]["queue"] for point, made in found.items()}
    # 10 Mbit/s times 40 ms are 50 kB: 33.3 packets of 1500 bytes.
    for buffer, rtt, packets in [
        ("1bdp", "40ms", 34),
        ("1bdp", "80ms", 67),
        ("90p", "80ms", 90),
        ("15kB", "40ms", 10),
    ]:
        assert limits["drop-tail", buffer, rtt]["limit"] == f"{packets}p"
        assert limits["fq-codel", buffer, rtt]["limit"] == f"{packets}p"
        assert limits["cake", buffer, rtt]["memlimit"] == f"{packets * 2304}B"
        assert limits["dualpi2", buffer, rtt]["limit"] in (f"{packets}p", f"{packets * 1500}B")


def test_the_default_buffer_is_that_of_the_queue() -> None:
    found = scenarios(study("reno", queues=["drop-tail", "fq-codel"], buffers=["default"]))
    limits = {point[2]: made.effective["bottleneck"]["queue"]["limit"] for point, made in found.items()}
    assert limits == {"drop-tail": "1000p", "fq-codel": "10240p"}


def test_a_round_trip_without_queueing_takes_the_given_time() -> None:
    (made,) = scenarios(study("reno", rtts=["30ms"])).values()
    assert made.effective["bottleneck"]["delay"] == "15ms"
    assert made.effective["access"]["delay"] == "0s"


def test_a_queue_marks_with_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'duration = "1s"\n[traffic.a]\nkind = "ftp"\n'
        '[bottleneck]\nrate = "1Mbps"\ndelay = "1ms"\nqueue.kind = "drop-tail"\n'
        '[queues.mine]\nkind = "codel"\ntarget = "7ms"\n'
    )
    found = scenarios(study("reno", queues=["codel", "codel+ecn", "mine+ecn"], of=Scenario.load(path)))
    queues = {point[2]: made.effective["bottleneck"]["queue"] for point, made in found.items()}
    assert queues["codel"]["ecn"] != queues["codel+ecn"]["ecn"]
    assert queues["mine+ecn"]["ecn"] == queues["codel+ecn"]["ecn"]
    assert [queues[name]["target"] for name in ("codel+ecn", "mine+ecn")] == ["5ms", "7ms"]


def test_the_quick_form_never_lasts_longer() -> None:
    for duration_s, warm_up_s, expected in [(60.0, 10.0, ("20s", "5s")), (3.0, 1.0, ("3s", "1s"))]:
        found = study("reno", duration_s=duration_s, warm_up_s=warm_up_s, replications=9)
        quick = found.experiments[0].sweep("quick")
        (point,) = quick.points()
        made = quick.scenario_of(point).effective
        assert (made["duration"], made["warm_up"], quick.replications) == (*expected, 2)


# Measures


def test_measures_are_those_of_the_tables_of_a_run() -> None:
    (_, made, _) = scenarios(study("reno", "cubic", flows=2)).values()
    ended = made.run(seed=3)
    view = View(ended)
    found = {name: one.of(view) for name, one in MEASURES.items()}
    flows = ended.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    rates = {side: flows.filter(pl.col("traffic") == side)["goodput_bps"] for side in network.SIDES}
    first, second = (rates[side].sum() for side in network.SIDES)
    assert len(rates["first"]) == 2
    assert found["share"] == pytest.approx(100 * first / (first + second))
    squares = sum(float((one**2).sum()) for one in rates.values())
    assert found["jain"] == pytest.approx((first + second) ** 2 / (4 * squares))
    for side in network.SIDES:
        ours = flows.filter(pl.col("traffic") == side)
        dropped = 100 * ours["packets_dropped"].sum() / ours["packets_sent"].sum()
        assert found[f"{side}.drops"] == pytest.approx(dropped)
        assert found[f"{side}.marks"] == 0
        assert 0 < found[f"{side}.delay"] < found[f"{side}.p95-delay"] < 40
        assert 40 < found[f"{side}.median-time"] <= found[f"{side}.p95-time"]


def test_short_transfers_offer_the_load() -> None:
    (made,) = scenarios(study("reno", load=0.3, duration_s=60.0)).values()
    ended = made.run(seed=1)
    sizes = ended.tables["transfers"].filter(pl.col("size_bytes").is_not_null())["size_bytes"]
    # 50 segments with headers are 75 kB; the load counts connection set-up as well.
    assert sizes.unique().to_list() == [72400]
    assert len(sizes) * 75e3 * 8 / 60 == pytest.approx(0.3 * 10e6, rel=0.15)


# Results


def test_the_command_writes_a_table_and_pictures(folder: Path) -> None:
    values = pl.read_parquet(folder / "coexist.parquet")
    assert pl.read_csv(folder / "coexist.csv").height == values.height == 3 * 2 * 15
    shares = values.filter(pl.col("quantity") == "share")
    assert shares.select(coexistence.AXES).rows() == [
        (first, second, queue, "1bdp", "40ms")
        for first, second in (("reno", "reno"), ("reno", "cubic"), ("cubic", "cubic"))
        for queue in ("drop-tail", "fq-codel")
    ]
    assert shares["seeds"].to_list() == [2] * 6
    assert (shares["low"] < shares["value"]).all()
    for name in coexistence.SHOWN:
        assert (folder / "figures" / f"{name}.png").stat().st_size > 1000
    assert "Coexistence of reno, cubic" in (folder / "report.html").read_text()
    drawn = pl.read_csv(folder / "figures" / "share.csv")
    by_pair = {(queue, row, column): value for queue, row, column, value, *_ in drawn.rows()}
    for queue in ("drop-tail", "fq-codel"):
        assert by_pair[queue, "reno", "cubic"] + by_pair[queue, "cubic", "reno"] == pytest.approx(100)


def test_a_repeated_command_runs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a run was executed")

    monkeypatch.setattr(Scenario, "run", refused)
    ended = run("reno", "cubic", "--queues", "drop-tail,fq-codel", *OPTIONS, "--out", str(folder), "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert (found["replications"], found["failures"]) == (2, [])
    assert {one["quantity"] for one in found["values"]} == {
        "share",
        "jain",
        "utilisation",
        *coexistence.OF_SIDE,
    }


def test_a_figure_alone_needs_no_table(folder: Path) -> None:
    words = ("reno", "cubic", "--queues", "drop-tail,fq-codel", *OPTIONS, "--out", str(folder))
    ended = run(*words, "--figure", "share")
    assert ended.exit_code == 0, ended.output
    assert "share.png" in ended.stdout
    assert "delay.png" not in ended.stdout
    assert "mean delay" not in ended.stdout


def test_the_table_has_a_row_for_each_point_with_both_controls(folder: Path) -> None:
    words = ("reno", "cubic", "--queues", "drop-tail,fq-codel", *OPTIONS, "--out", str(folder))
    ended = run(*words, "--table", "markdown")
    lines = [line for line in ended.stdout.splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("| ")] for line in lines)
    assert heads[:6] == [*coexistence.AXES, "share of first (%)"]
    assert len(rows) == 6


def test_shares_with_several_modes_are_medians() -> None:
    found = study("reno", replications=12)
    values = [10.0 + seed / 10 if seed % 2 else 90.0 + seed / 10 for seed in range(12)]
    cells = coexistence._cells(found.experiments[0], _runs_with(found.experiments[0], values))
    share = next(cell for cell in cells if cell.quantity == "share")
    assert share.found.median
    assert coexistence._text(share.found).endswith("*")


def _runs_with(experiment: Experiment, shares: list[float]) -> Any:
    """Runs that all have these values of every measure."""
    axes = {label: experiment.values(label) for label in experiment.labels}
    runs = SimpleNamespace(
        axes=axes,
        seeds=tuple(range(1, 1 + len(shares))),
        point_set=None,
        seeds_at=lambda _: range(1, 1 + len(shares)),
        at_point=lambda *_: shares,
    )
    return {coexistence.NAME: runs}


# Pictures


def _matrix(rows: list[tuple[str, str, str, float | None]], cells: Cells) -> Chart:
    table = pl.DataFrame(rows, schema=["queue", "row", "column", "value"], orient="row")
    return Chart(
        kind="matrix",
        table=table,
        x="column",
        y="row",
        by="value",
        panel="queue",
        x_label="other",
        y_label="control",
        cells=cells,
    )


def test_a_matrix_has_a_coloured_cell_with_its_number_for_each_row() -> None:
    rows = [("a", "reno", "reno", 50.0), ("a", "reno", "bbr", 12.5), ("b", "bbr", "reno", None)]
    figure = draw(_matrix(rows, Cells(label="share (%)", limits=(0.0, 100.0), middle=50.0)))
    first, second, bar = figure.axes
    assert [(text.get_text(), text.get_position()) for text in first.texts] == [
        ("50", (0, 0)),
        ("12.5", (1, 0)),
    ]
    middle, low = (patch.get_facecolor() for patch in first.patches)
    assert min(middle) > 0.9
    assert low != middle
    assert (len(second.patches), second.get_title()) == (0, "b")
    assert [label.get_text() for label in first.get_yticklabels()] == ["reno", "bbr"]
    assert bar.get_ylabel() == "share (%)"


def test_long_names_of_columns_do_not_overlap() -> None:
    names = ("cubic/newreno+ecn", "reno/newreno+ecn")
    figure = draw(_matrix([("a", "x", name, 1.0) for name in names], Cells(label="share (%)")))
    figure.canvas.draw()
    first, second = (label.get_window_extent() for label in figure.axes[0].get_xticklabels())
    assert first.x1 < second.x0


def test_colours_without_limits_span_the_numbers(tmp_path: Path) -> None:
    chart = _matrix([("a", "x", "x", 2.0), ("a", "x", "y", 4.0)], Cells(label="delay (ms)"))
    assert draw(chart).axes[-1].get_ylim() == (2.0, 4.0)
    assert set(save(chart, tmp_path, "delay")) == {"svg", "png", "csv"}


@pytest.mark.parametrize("numbers", [(0.0, 0.1, 100.0), (0.0, 0.0), (5.0, 5.0)])
def test_a_logarithmic_scale_begins_at_the_smallest_positive_number(numbers: tuple[float, ...]) -> None:
    chart = _matrix(
        [("a", "x", str(at), value) for at, value in enumerate(numbers)], Cells(label="", log=True)
    )
    axis, bar = draw(chart).axes
    assert len(axis.patches) == len(numbers)
    if numbers[-1] == 100:
        assert bar.get_ylim() == pytest.approx((0.1, 100.0))


def test_only_a_matrix_has_cells() -> None:
    with pytest.raises(ValueError, match="cells: must be set if and only if"):
        Chart(
            kind="bars",
            table=pl.DataFrame(),
            x="x",
            y="y",
            by="b",
            x_label="",
            y_label="",
            cells=Cells(label=""),
        )


def test_several_settings_are_columns_of_the_matrix() -> None:
    found = study("reno", "cubic", buffers=["0.5bdp", "1bdp"], rtts=["10ms", "40ms"])
    experiment = found.experiments[0]
    chart = coexistence.matrix(experiment, "share", _runs_with(experiment, [40.0, 42.0]))
    assert chart.x_label == "buffer, round-trip time"
    assert chart.table["column"].unique(maintain_order=True).to_list() == [
        *("0.5bdp\n10ms", "0.5bdp\n40ms", "1bdp\n10ms", "1bdp\n40ms")
    ]
    shares = {row[1]: row[3] for row in chart.table.rows()}
    assert shares["reno beside cubic"] == 41.0
    assert shares["cubic beside reno"] == 59.0


def test_a_missing_value_is_a_dash() -> None:
    found = coexistence.Interval(value=math.nan, low=math.nan, high=math.nan, count=0)
    assert coexistence._text(found) == "-"


# Errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cubci"], "controls: unknown transport `cubci`; did you mean `cubic`?"),
        (["cubic/rak"], "controls: recovery: unknown word `rak`"),
        (["cubic", "cubic"], "controls: `cubic` occurs twice"),
        (["cubic", "--queues", "codle"], "queues: no queue is named `codle`: did you mean codel"),
        (["cubic", "--queues", ""], "queues: must contain at least one value"),
        (["cubic", "--queues", "drop-tail+ecn"], "queues: the queue `drop-tail` cannot mark packets"),
        (["cubic", "--queues", "policer"], "queues: policer has no queue to manage"),
        (["cubic", "--buffers", "2"], "buffers: must be a positive number of bandwidth-delay products"),
        (["cubic", "--buffers", "0bdp"], "(got 0bdp)"),
        (["cubic", "--rtts", "40"], "rtts: must be a positive time, such as 40ms (got 40)"),
        (["cubic", "--rate", "fast"], "rate: must be a positive rate, such as 50Mbps (got fast)"),
        (["cubic", "--load", "1.5"], "load: must be above 0 and below 1 (got 1.5)"),
        (["cubic", "--warm-up", "60s"], "warm_up: must be shorter than the duration"),
        (["prague/newreno"], "prague"),
        (["cubic", "--figure", "shares"], "has no figure or table `shares`: did you mean share"),
    ],
)
def test_an_error_is_reported_before_any_run(words: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = run(*words, "--out", str(out))
    assert ended.exit_code != 0
    assert message in str(ended.exception)
    assert not out.exists()


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match="queues: no queue") as error:
        study("cubci", "renno", queues=["codle"], buffers=["big"], rtts=["soon"])
    assert len(str(error.value).splitlines()) == 5


def test_a_control_is_required() -> None:
    assert run().exit_code == 2
    with pytest.raises(ValueError, match="controls: must contain at least one value"):
        coexistence.study([], queues=["codel"])


def test_a_control_that_needs_ecn_may_use_a_queue_that_does_not_mark() -> None:
    (made,) = scenarios(study("prague", queues=["drop-tail"])).values()
    assert made.run(seed=1).tables["links"]["marks"].sum() == 0

"""The tables of the study `fair-queueing`."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from aqmlab import stats
from aqmlab.flow_level import regime, throughput_law
from aqmlab.grid import Results, Runs
from aqmlab.publication import Table
from aqmlab.studies.fair_queueing_figures import (
    BACKGROUND_NAMES,
    LAW_NAMES,
    NAMES,
    QUEUES,
    bottlenecked_law,
    full_share,
    modulated_wait_ms,
    peak_mbps,
    share_ratio,
    tail_estimates,
)
from aqmlab.studies.fair_queueing_runs import (
    BUFFERS,
    CASES,
    EXAMPLE_BACKGROUNDS,
    FLOWS,
    MIXES,
    ORDERS,
    PAIRS,
    RATE_MBPS,
    RECOVERIES,
    SCALE_MIXES,
)
from aqmlab.studies.shared import shown


def _grid(metric: str, digits: int, scale: float = 1.0) -> Callable[[Results], pl.DataFrame]:
    """A measure of every case, a column for each queue and buffer."""

    def table(results: Results) -> pl.DataFrame:
        rows = []
        for flows in FLOWS:
            for kind in BACKGROUND_NAMES:
                for recovery in RECOVERIES:
                    cells = _cells(results, (flows, kind, recovery), (metric, digits, scale))
                    if any(cells):
                        rows.append((flows, BACKGROUND_NAMES[kind], NAMES[recovery], *cells))
        schema = ["flows", "background", "recovery", *(f"{q} {b}" for q in QUEUES for b in BUFFERS)]
        return pl.DataFrame(rows, schema=schema, orient="row")

    return table


def _cells(results: Results, case: tuple[str, str, str], measure: tuple[str, int, float]) -> list[str | None]:
    flows, kind, recovery = case
    found = [
        row
        for name in ("one", "several", "baseline")
        for row in results[name].where(flows=flows, recovery=recovery).rows
        if row.labels.get("background", "packets") == kind
    ]
    runs = Runs(rows=tuple(found))
    chosen = [runs.where(queue=queue, buffer=buffer) for queue in QUEUES for buffer in BUFFERS]
    metric, digits, scale = measure
    return [shown(one, metric, digits, scale) if one.rows else None for one in chosen]


def _ratios(results: Results) -> pl.DataFrame:
    runs = results["several"].where(flows="HighSpeed + Reno")
    rows = []
    for recovery in RECOVERIES:
        for buffer in runs.axis("buffer"):
            for queue in QUEUES:
                ours = runs.where(recovery=recovery, buffer=buffer, queue=queue)
                cells = [shown(ours, f"{law}_mbps", 2) for law in ("highspeed", "reno")]
                rows.append(
                    (NAMES[recovery], buffer, queue, *cells, str(share_ratio(ours, "highspeed", "reno")))
                )
    schema = ["recovery", "buffer", "queue", "HighSpeed (Mb/s)", "Reno (Mb/s)", "ratio"]
    return pl.DataFrame(rows, schema=schema, orient="row")


_PAIR_COLUMNS = {
    f"FIFO, {NAMES[RECOVERIES[0]]}": ("pairs-fifo", RECOVERIES[0]),
    **{f"FQ, {NAMES[recovery]}": ("pairs", recovery) for recovery in RECOVERIES},
}


def _pair_table(results: Results) -> pl.DataFrame:
    rows = []
    for pair in PAIRS:
        cells = [
            _both(results[sweep].where(pair=pair, recovery=recovery), pair)
            for sweep, recovery in _PAIR_COLUMNS.values()
        ]
        rows.append((" / ".join(LAW_NAMES[law] for law in pair), *cells))
    return pl.DataFrame(rows, schema=["pair", *_PAIR_COLUMNS], orient="row")


def _both(runs: Runs, pair: tuple[str, str]) -> str:
    return " / ".join(shown(runs, f"{law}_mbps", 2) for law in pair)


def _orders(results: Results) -> pl.DataFrame:
    runs = results["orders"].where(recovery="newreno")
    measures = (
        ("rate over available capacity", "available", 3, 1.0),
        ("Jain's index", "jain", 4, 1.0),
        ("background lost (%)", "background_loss", 4, 100.0),
        ("mean wait, all packets (ms)", "wait_ms", 2, 1.0),
    )
    rows = []
    for case in CASES:
        for name, metric, digits, scale in measures:
            cells = [shown(runs.where(case=case, queue=queue), metric, digits, scale) for queue in ORDERS]
            rows.append((case, name, *cells))
    return pl.DataFrame(rows, schema=["block", "measure", *ORDERS], orient="row")


def _delay_table(results: Results) -> pl.DataFrame:
    runs = results["delay"]
    rows = []
    for kind in runs.axis("background"):
        for flows in runs.axis("flows"):
            for recovery in RECOVERIES if flows != "none" else RECOVERIES[:1]:
                for buffer in runs.axis("buffer"):
                    ours = runs.where(background=kind, flows=flows, recovery=recovery, buffer=buffer)
                    cells = [
                        shown(ours.where(queue=queue), metric, 2)
                        for queue in QUEUES
                        for metric in ("mean_ms", "p99_ms")
                    ]
                    name = NAMES[recovery] if flows != "none" else ""
                    rows.append((BACKGROUND_NAMES[kind], flows, name, buffer, *cells))
    schema = ["background", "flows", "recovery", "buffer"]
    schema += [f"{queue}, {measure}" for queue in QUEUES for measure in ("mean (ms)", "99 % (ms)")]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _number_table(results: Results) -> pl.DataFrame:
    runs = results["number"]
    rows = []
    for load in runs.axis("load"):
        rows.append((f"{load:g}", "geometric law", f"{load / (1 - load):.3f}", *_law_cells(load)))
        for sizes in runs.axis("sizes"):
            ours = runs.where(load=load, sizes=sizes)
            cells = (
                shown(ours, "mean", 3),
                f"{1 - tail_estimates(ours, 2)[1].value:.4f}",
                shown(ours, "at_least_5", 4),
                f"{stats.mean_interval(ours.values('at_least_100')).value:.2e}",
            )
            rows.append((f"{load:g}", f"{sizes} sizes", *cells))
    schema = ["load", "sizes", "mean", "P(N = 0)", "P(N >= 5)", "P(N >= 100)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _law_cells(load: float) -> tuple[str, str, str]:
    return f"{1 - load:.4f}", f"{load**5:.4f}", f"{load**100:.2e}"


def _example_table(results: Results) -> pl.DataFrame:
    law = bottlenecked_law(0.6, 0.5, 7)
    rows = [("formula", *(f"{chance:.5f}" for chance in law[1:]))]
    for name in EXAMPLE_BACKGROUNDS:
        found = tail_estimates(results["example"].where(background=name), 7)
        cells = [
            f"{one.value:.5f} ± {one.half_width:.5f}" if one.decided else f"{one.value:.5f}" for one in found
        ]
        rows.append((name, *cells[1:]))
    return pl.DataFrame(rows, schema=["background", *(f"i = {i}" for i in range(1, 7))], orient="row")


def _regime_table(results: Results) -> pl.DataFrame:
    runs = results["regimes"]
    rows = []
    for peak in runs.axis("peak"):
        limit = peak_mbps(peak)
        for load in runs.axis("load"):
            ours = runs.where(peak=peak, load=load)
            saturated = stats.mean_interval(ours.values("saturated")).value
            law = throughput_law(load, limit / RATE_MBPS if limit < RATE_MBPS else math.inf) * RATE_MBPS
            rows.append(
                (
                    peak,
                    f"{load:g}",
                    regime(load, saturated),
                    f"{100 * saturated:.2f}",
                    shown(ours, "throughput_mbps", 3),
                    f"{law:.3f}",
                )
            )
    schema = ["peak rate", "load", "regime", "time full (%)", "throughput (Mb/s)", "law (Mb/s)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _alone_table(results: Results) -> pl.DataFrame:
    runs = results["alone"]
    rows = []
    for mix in MIXES:
        for load in runs.axis("load"):
            cells = []
            for queue in QUEUES:
                ours = runs.where(mix=mix, load=load, queue=queue)
                cells += [shown(ours, "wait_ms", 3), shown(ours, "loss", 3, 100.0)]
            limited = mix == MIXES[0] and full_share(load) < 0.1
            laws = [
                f"{modulated_wait_ms(load, periodic=periodic):.3f}" if limited else None
                for periodic in (False, True)
            ]
            rows.append((mix, f"{load:g}", *cells, *laws))
    schema = ["flows", "load", "FIFO wait (ms)", "FIFO lost (%)", "FQ wait (ms)", "FQ lost (%)"]
    return pl.DataFrame(rows, schema=[*schema, "M/G/1 (ms)", "periodic (ms)"], orient="row")


def _scale_table(results: Results) -> pl.DataFrame:
    runs = results["scale"]
    measures = ("active", "active_p999", "active_most", "waiting", "waiting_p999")
    rows = [
        (mix, f"{load:g}", f"x{scale}", *(shown(one, metric, 1) for metric in measures))
        for mix in SCALE_MIXES
        for load in runs.axis("load")
        for scale in runs.axis("scale")
        for one in [runs.where(mix=mix, load=load, scale=scale)]
    ]
    schema = [
        "flows",
        "load",
        "link",
        "active",
        "active, 99.9 %",
        "most active",
        "waiting",
        "waiting, 99.9 %",
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _trace_table(results: Results) -> pl.DataFrame:
    runs = results["trace"]
    measures = (("mean_active", 3), ("p999_active", 1), ("most_active", 1), ("mean_in_progress", 0))
    rows = [
        (f"{load:g}", *(shown(runs.where(load=load), metric, digits) for metric, digits in measures))
        for load in runs.axis("load")
    ]
    schema = ["load", "active", "active, 99.9 %", "most active", "in progress"]
    return pl.DataFrame(rows, schema=schema, orient="row")


_MEAN = "Mean ± half of the 95 % interval over seeds; a column for each queue and buffer (packets)."

TABLES = (
    Table(
        id="available-capacity",
        title="Rate of the bottlenecked flows over the available 25 Mb/s",
        caption=_MEAN,
        table=_grid("available", 3),
    ),
    Table(id="jain", title="Jain's index of the bottlenecked flows", caption=_MEAN, table=_grid("jain", 4)),
    Table(
        id="lost",
        title="Packets of the background lost (%)",
        caption=_MEAN,
        table=_grid("background_loss", 4, 100.0),
    ),
    Table(
        id="utilisation",
        title="Utilisation of the line (%)",
        caption=_MEAN,
        table=_grid("utilisation", 1, 100.0),
    ),
    Table(
        id="timeouts",
        title="Time-outs of the bottlenecked flows",
        caption=f"In 500 s. {_MEAN}",
        table=_grid("timeouts", 1),
    ),
    Table(
        id="highspeed-and-reno",
        title="HighSpeed beside Reno",
        caption="Rates on the wire, and the ratio with its 95 % interval.",
        table=_ratios,
    ),
    Table(
        id="background-delay",
        title="How long packets of the background wait",
        caption="In the queue, over 60 s; `none` is the baseline without a bottlenecked flow.",
        table=_delay_table,
    ),
    Table(
        id="schedulers",
        title="Four orders of service in the blocks with fair queueing",
        caption="NewReno. All drop the oldest packet of the longest queue.",
        table=_orders,
    ),
    Table(
        id="any-two",
        title="Any two flows, 625 packets",
        caption="Rates of the first and the second on the wire. 12.5 Mb/s is an even share.",
        table=_pair_table,
    ),
    Table(
        id="number",
        title="Flows in progress on a fluid link",
        caption="Beside the geometric law, which knows no sizes.",
        table=_number_table,
    ),
    Table(
        id="five-flows",
        title="P(N >= i) with background 0.5 and total load 0.6",
        caption="The formula is ((0.6 - 0.5) / (1 - 0.5))^i; for i = 5 the deck prints 0.003.",
        table=_example_table,
    ),
    Table(
        id="regime",
        title="Regimes",
        caption="Transparent: peak rates add up to the capacity in less than 1 % of the time.",
        table=_regime_table,
    ),
    Table(
        id="rate-limited",
        title="Rate-limited flows alone, 100 packets of buffer",
        caption="Wait of all packets; the laws of 1 Mb/s flows, while their number leaves room.",
        table=_alone_table,
    ),
    Table(
        id="scale",
        title="Active flows, as link and traffic grow together",
        caption="Sampled every 10 ms under fair queueing; a buffer of 625 packets times the scale.",
        table=_scale_table,
    ),
    Table(
        id="trace-loads",
        title="Active flows of an OC-48-like trace",
        caption="Made-up traces of 60 s through deficit round robin; the load is that of the line they are "
        "replayed at. The most and the 99.9 % are means over seeds.",
        table=_trace_table,
    ),
)

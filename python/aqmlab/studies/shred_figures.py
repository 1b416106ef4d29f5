"""The figures and tables of the study `shred`: from the reductions of its runs to what is drawn.

The curves of the talk's figures are not available as numbers, so nothing of them is drawn here but
the one number it gives, 140 active flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from aqmlab import metrics, stats
from aqmlab.grid import Results, Row, Runs
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.studies.shared import average, drop_functions, means, overview, shown
from aqmlab.studies.shred_runs import DISCIPLINES, DURATION_S, GRID, LONG_BIN_S, QUEUES, REFERENCE, WARM_UP_S

TALK_ACTIVE = 140
"""Active flows at 100 % Web load, on slides 21 and 22."""

RATIOS = (0.25, 0.5, 1.0, 1.5, 2.0)
"""Windows over the average window at which SHRED's drop function is drawn."""

AREA_TO_S = 10.0
"""How far the area between two distribution functions is taken."""


# From runs to small tables


def normalised(runs: Runs, metric: str) -> Runs:
    """The runs with `metric` over its value in the uncongested run of the same labels and seed."""
    divisor = {_place(row): row.values[metric] for row in runs.rows if row.labels["queue"] == REFERENCE}
    rows = []
    for row in runs.rows:
        below = divisor.get(_place(row))
        if row.labels["queue"] != REFERENCE and below is not None and row.values[metric] is not None:
            ratio = metrics.normalised_time(row.values[metric], below)
            rows.append(Row(labels=row.labels, seed=row.seed, values={"normalised": ratio}))
    return Runs(rows=tuple(rows))


def _place(row: Row) -> tuple[object, ...]:
    others = (value for label, value in sorted(row.labels.items()) if label != "queue")
    return (row.seed, *others)


def distributions(runs: Runs, *, beyond: bool) -> pl.DataFrame:
    """Mean and interval over seeds of the distribution of object times; of its tail if `beyond`."""
    frames = []
    for queue in runs.axis("queue"):
        curves = [beyond_grid(row) for row in runs.where(queue=queue).rows]
        intervals = [stats.mean_interval([curve[i] for curve in curves]) for i in range(GRID.size)]
        value, low, high = ([getattr(i, part) for i in intervals] for part in ("value", "low", "high"))
        if not beyond:
            value, low, high = [1 - v for v in value], [1 - v for v in high], [1 - v for v in low]
        floor = 1e-5 if beyond else 0.0
        low = [max(v, floor) for v in low]
        high = [min(v, 1.0) for v in high]
        frame = pl.DataFrame({"time_s": GRID, "fraction": value, "low": low, "high": high})
        frames.append(frame.select(pl.lit(queue).alias("queue"), pl.all()))
    return pl.concat(frames)


def beyond_grid(row: Row) -> metrics.Floats:
    return metrics.survival(row.values["ended"], row.values["censored"])


def distance(runs: Runs, queue: str) -> list[float]:
    """The area between the distribution of a queue and the uncongested one, seed by seed, in seconds."""
    reference = {row.seed: beyond_grid(row) for row in runs.where(queue=REFERENCE).rows}
    ours = {row.seed: beyond_grid(row) for row in runs.where(queue=queue).rows}
    near = GRID <= AREA_TO_S
    return [
        metrics.area_between(ours[seed][near], reference[seed][near], GRID[near])
        if seed in ours and seed in reference
        else math.nan
        for seed in runs.seeds()
    ]


def congested(runs: Runs) -> Runs:
    """The runs without the uncongested ones."""
    return Runs(rows=tuple(row for row in runs.rows if row.labels["queue"] != REFERENCE))


# Figures


def _cdf(sweep: str, **labels: object) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        table = distributions(results[sweep].where(**labels), beyond=False)
        return Chart(
            kind="cdf",
            table=table.filter(pl.col("time_s").is_between(0.15, 10.0)),
            x="time_s",
            y="fraction",
            by="queue",
            x_label="object transmission time (s)",
            y_label="cumulative fraction of objects",
            log_x=True,
            x_limits=(0.15, 10.0),
        )

    return chart


def _tail(sweep: str, **labels: object) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        table = distributions(results[sweep].where(**labels), beyond=True)
        return Chart(
            kind="tail",
            table=table.filter(pl.col("time_s").is_between(0.5, 60.0)),
            x="time_s",
            y="fraction",
            by="queue",
            x_label="object transmission time (s)",
            y_label="fraction of objects that take longer",
            log_x=True,
            log_y=True,
            x_limits=(0.5, 60.0),
            y_limits=(1e-4, 1.0),
            guides={"initial RTO": 3.0},
        )

    return chart


def _line(table: pl.DataFrame, *, x: str, x_label: str, y_label: str) -> Chart:
    return Chart(kind="line", table=table, x=x, y="value", by="queue", x_label=x_label, y_label=y_label)


def _against_load(sweep: str, metric: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        table = means(normalised(results[sweep], metric), "normalised", by="queue", x="web")
        return _line(
            table.with_columns(pl.col("web") * 100),
            x="web",
            x_label="Web load (% of the bottleneck), beside 10 FTP flows",
            y_label="time over uncongested time",
        )

    return chart


def _drops_against_load(results: Results) -> Chart:
    table = means(congested(results["web-mixed"]), "drop_percent", by="queue", x="web")
    return _line(
        table.with_columns(pl.col("web") * 100),
        x="web",
        x_label="Web load (% of the bottleneck), beside 10 FTP flows",
        y_label="packets dropped per Web flow (%)",
    )


def _against_ftp(results: Results) -> Chart:
    table = means(normalised(results["ftp-mixed"], "response_s"), "normalised", by="queue", x="ftp")
    return _line(
        table, x="ftp", x_label="FTP flows, beside 50 % Web load", y_label="time over uncongested time"
    )


def _ftp_alone(metric: str, y_label: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        table = means(results["ftp-only"], metric, by="queue", x="ftp")
        return _line(table, x="ftp", x_label="FTP flows, no Web traffic", y_label=y_label)

    return chart


def _drop_functions(*, up_to: int, most: float) -> Callable[[Results], Chart]:
    def chart(_: Results) -> Chart:
        red, shred = DISCIPLINES["RED"], DISCIPLINES["SHRED"]
        lines = [("RED", red, (1.0,)), *((f"SHRED, r = {r:g}", shred, (r,)) for r in RATIOS)]
        return Chart(
            kind="curve",
            table=drop_functions(lines, up_to),
            x="average_packets",
            y="probability",
            by="line",
            x_label="average queue (packets)",
            y_label="drop probability p_b",
            y_limits=(0.0, most),
        )

    return chart


def _pages(results: Results) -> Chart:
    frames = []
    for panel, one, several in (
        ("Web only, 100 %", results["web-only"], results["web-only-pages"]),
        ("Web 70 % + 10 FTP", results["web-mixed"].where(web=0.7), results["web-mixed-pages"]),
    ):
        single = tuple(Row(labels={**r.labels, "objects": 1}, seed=r.seed, values=r.values) for r in one.rows)
        table = means(
            normalised(Runs(rows=single + several.rows), "response_s"), "normalised", by="queue", x="objects"
        )
        frames.append(table.select(pl.lit(panel).alias("traffic"), pl.all()))
    table = pl.concat(frames).with_columns(
        pl.when(pl.col("objects") == 1)
        .then(pl.lit("1"))
        .otherwise(pl.format("1-{}", "objects"))
        .alias("objects")
    )
    return Chart(
        kind="bars",
        table=table,
        x="objects",
        y="value",
        by="queue",
        panel="traffic",
        x_label="objects per page",
        y_label="page time over uncongested time",
    )


def _active(results: Results) -> Chart:
    table = means(results["web-only"], "mean_active", by="queue", x="web")
    return Chart(
        kind="bars",
        table=table.with_columns(pl.col("queue").alias("name")),
        x="name",
        y="value",
        by="queue",
        overlaid=True,
        x_label="Web only, 100 % load",
        y_label="mean open transfers",
        levels={f"the talk: {TALK_ACTIVE}": float(TALK_ACTIVE)},
    )


def _stable(results: Results) -> Chart:
    rows = []
    for row in results["long"].rows:
        count = total = 0.0
        for place, some, seconds in zip(
            row.values["bin"], row.values["count"], row.values["sum_s"], strict=True
        ):
            begin = place * LONG_BIN_S
            if begin < WARM_UP_S:
                continue
            count, total = count + some, total + seconds
            rows.append((row.labels["mix"], row.labels["queue"], begin + LONG_BIN_S, total / count))
    table = pl.DataFrame(rows, schema=["mix", "queue", "until_s", "mean_time_s"], orient="row")
    return Chart(
        kind="curve",
        table=table,
        x="until_s",
        y="mean_time_s",
        by="queue",
        panel="mix",
        x_label="objects begun from 20 s to this time (s)",
        y_label="mean object transmission time (s)",
        guides={"runs of the talk end": 160.0},
    )


def _lost_packet(results: Results) -> Chart:
    rows = [
        (
            str(row.labels["lost"]),
            "fast retransmit or none" if row.values["timeouts"] == 0 else "time-out",
            value,
        )
        for row in results["lost-packet"].rows
        if (value := row.values["time_s"]) is not None
    ]
    table = pl.DataFrame(rows, schema=["lost", "recovery", "time_s"], orient="row")
    return Chart(
        kind="bars",
        table=table,
        x="lost",
        y="time_s",
        by="recovery",
        overlaid=True,
        x_label="the packet lost: none, the SYN, or the k-th of ten data segments",
        y_label="object transmission time (s)",
    )


FIGURES = (
    Figure(
        id="3a",
        title="Object transmission time, Web only",
        caption="Distribution at 100 % Web load. Bands are 95 % intervals over the seeds, point by point.",
        chart=_cdf("web-only"),
    ),
    Figure(
        id="3b",
        title="Object transmission time, Web only: tail",
        caption="The same runs: the share of objects that take longer.",
        chart=_tail("web-only"),
    ),
    Figure(
        id="4a",
        title="Object transmission time, Web-mixed",
        caption="Distribution at 70 % Web load beside 10 FTP flows.",
        chart=_cdf("web-mixed", web=0.7),
    ),
    Figure(
        id="4b",
        title="Object transmission time, Web-mixed: tail",
        caption="The same runs: the share of objects that take longer.",
        chart=_tail("web-mixed", web=0.7),
    ),
    Figure(
        id="5",
        title="Normalised transmission time, Web-mixed",
        caption="Mean object time over that of the same arrivals without congestion, paired by seed. "
        "One object per page, so this is the response time too.",
        chart=_against_load("web-mixed", "mean_time_s"),
    ),
    Figure(
        id="6",
        title="Percent drops, Web-mixed",
        caption="Mean over Web flows of the share of their packets that were dropped.",
        chart=_drops_against_load,
    ),
    Figure(
        id="7",
        title="Normalised Web response time, FTP-mixed",
        caption="50 % Web load and a growing number of FTP flows; one object per page.",
        chart=_against_ftp,
    ),
    Figure(
        id="8",
        title="Normalised Web response time with several objects per page, Web-mixed",
        caption="Pages of 1 to 8 objects beside 10 FTP flows. More kinds of pages have their own figure.",
        chart=_against_load("web-mixed-pages-by-load", "response_s"),
    ),
    Figure(
        id="table-1",
        title="FTP-only goodput (Table 1)",
        caption="Unique payload that reached the receivers, all flows together.",
        chart=_ftp_alone("goodput_mbps", "goodput (Mb/s)"),
    ),
    Figure(
        id="table-2",
        title="FTP-only fairness (Table 2)",
        caption="Jain's index over the goodputs of the flows.",
        chart=_ftp_alone("jain", "Jain's index"),
    ),
    Figure(
        id="drop-functions",
        title="Drop functions of RED and SHRED (slides 8 and 12)",
        caption="Drawn from the disciplines' own code; r is a packet's window over the average window. "
        "Large windows meet RED's line earlier, small ones later; r = 1 is RED.",
        chart=_drop_functions(up_to=200, most=1.02),
    ),
    Figure(
        id="drop-functions-near",
        title="The same below max_th",
        caption="The lines are parallel. Those of r = 1.5 and r = 2 are one: a line that would begin below "
        "an empty queue begins at zero.",
        chart=_drop_functions(up_to=90, most=0.16),
    ),
    Figure(
        id="pages",
        title="Objects per page (slide 29)",
        caption="Web response time over the uncongested one, for pages of one object and of several.",
        chart=_pages,
    ),
    Figure(
        id="hint-on-pi",
        title="The hint on another AQM",
        caption="70 % Web load and 10 FTP flows. PI holds the queue at 60 packets, midway between RED's "
        "thresholds. PISA is PI that weighs its probability by the window hint as SHRED does, PIMC spares "
        "packets of windows below four; their formulas are ours, since only the abstract of their thesis "
        "(Kim 2004) was at hand.",
        chart=_cdf("hint-on-pi"),
    ),
    Figure(
        id="active-transfers",
        title="Open transfers at 100 % Web load",
        caption="Time average after warm-up, beside the talk's 140 active flows.",
        chart=_active,
    ),
    Figure(
        id="stable",
        title="When the means are stable (slide 18)",
        caption="One run of 1000 s for each queue: the mean time of all objects begun so far. At 100 % Web "
        "load the line has nothing to spare for retransmissions, and sizes have a heavy tail: the mean of a "
        "single run goes on wandering long after 160 s. Hence many seeds, compared in pairs.",
        chart=_stable,
    ),
    Figure(
        id="lost-packet",
        title="What a single loss costs (slide 4)",
        caption="One object of ten segments alone on the line, and one packet of it lost.",
        chart=_lost_packet,
    ),
    Figure(
        id="synchronisation",
        title="Loss synchronisation",
        caption="FTP only: the mean share of flows that lose a packet in the same loss event.",
        chart=_ftp_alone("synchronisation", "share of flows hit per loss event"),
    ),
    Figure(
        id="drop-runs",
        title="Drops in a row",
        caption="FTP only: the mean number of consecutive arrivals refused.",
        chart=_ftp_alone("drop_run", "mean length of a run of drops (packets)"),
    ),
    Figure(
        id="largest-burst",
        title="Largest burst accepted",
        caption="FTP only: the largest rise of the queue within a base round trip and without a drop. Where "
        "early drops come so often that hardly two samples of the queue have none between them, nothing is "
        "left to rise.",
        chart=_ftp_alone("largest_burst", "largest burst accepted (packets)"),
    ),
)


# Tables


def _by_flows(metric: str, digits: int) -> Callable[[Results], pl.DataFrame]:
    def table(results: Results) -> pl.DataFrame:
        runs = results["ftp-only"]
        return pl.DataFrame(
            {
                "FTP flows": runs.axis("ftp"),
                **{
                    queue: [
                        shown(runs.where(queue=queue, ftp=ftp), metric, digits) for ftp in runs.axis("ftp")
                    ]
                    for queue in QUEUES
                },
            }
        )

    return table


_OVERVIEW = (
    ("mean (s)", "mean_time_s", 3, 1.0),
    ("median (s)", "p50_s", 3, 1.0),
    ("p90 (s)", "p90_s", 3, 1.0),
    ("p99 (s)", "p99_s", 2, 1.0),
    ("mean of time over ideal time", "slowdown", 3, 1.0),
    ("drops per Web flow (%)", "drop_percent", 2, 1.0),
    ("time-outs per short flow", "short_timeouts", 4, 1.0),
    ("open transfers", "mean_active", 1, 1.0),
    ("unfinished", "unfinished", 1, 1.0),
    ("utilisation (%)", "utilisation", 1, 100.0),
    ("queue delay (ms)", "queue_delay_s", 1, 1000.0),
    ("FTP goodput (Mb/s)", "ftp_goodput_bps", 3, 1e-6),
)


def _overview(sweep: str, **labels: object) -> Callable[[Results], pl.DataFrame]:
    def table(results: Results) -> pl.DataFrame:
        runs = results[sweep].where(**labels)
        measures = [one for one in _OVERVIEW if sweep != "web-only" or one[1] != "ftp_goodput_bps"]
        return overview(runs, measures)

    return table


def _readings(results: Results) -> pl.DataFrame:
    """What SH-4 compares, load by load, and under other readings of "normalised"."""
    runs = results["web-mixed"]
    readings = [
        *((f"{100 * web:.0f} % Web load", runs.where(web=web), "mean_time_s") for web in runs.axis("web")),
        ("all loads: medians", runs, "p50_s"),
        ("all loads: mean of each object's time over its ideal time", runs, "slowdown"),
    ]
    rows = [
        (
            name,
            *(
                str(stats.paired_ratio(*chosen.pair(metric, {"queue": ours}, {"queue": theirs})))
                for ours, theirs in (("SHRED", "RED"), ("RED", "Drop Tail"))
            ),
        )
        for name, chosen, metric in readings
    ]
    return pl.DataFrame(rows, schema=["reading", "SHRED/RED", "RED/Drop Tail"], orient="row")


def _loads(results: Results) -> pl.DataFrame:
    """Nominal and realised load of the Web traffic, means over the seeds."""
    rows = []
    for sweep in ("web-only", "web-mixed"):
        runs = results[sweep].where(queue="RED")
        rows += [(sweep, f"{100 * web:.0f}", *_offered(runs.where(web=web))) for web in runs.axis("web")]
    return pl.DataFrame(rows, schema=["runs", "nominal load (%)", *_OFFERED], orient="row")


def _sizes(results: Results) -> pl.DataFrame:
    """The same for the readings of the sizes' law, and the open transfers beside the talk's 140."""
    runs = results["sizes"]
    rows = [
        (sizes, *_offered(runs.where(sizes=sizes)), shown(runs.where(sizes=sizes), "mean_active", 1))
        for sizes in runs.axis("sizes")
    ]
    return pl.DataFrame(rows, schema=["sizes", *_OFFERED, "open transfers under RED"], orient="row")


_OFFERED = ("realised on the wire (%)", "realised, payload (%)", "mean object (B)", "objects per second")


def _offered(runs: Runs) -> tuple[str, str, str, str]:
    facts = [row.values["facts"] for row in runs.rows]
    return (
        f"{100 * average([fact.get('realised_load') for fact in facts]):.1f}",
        f"{100 * average([row.values['payload_load'] for row in runs.rows]):.1f}",
        f"{average([fact.get('mean_object_bytes') for fact in facts]):.0f}",
        f"{average([row.values['count'] for row in runs.rows]) / (DURATION_S - WARM_UP_S):.1f}",
    )


TABLES = (
    Table(
        id="table-1-goodput",
        title="Table 1. FTP-only goodput (Mb/s)",
        caption="Mean ± half of the 95 % interval.",
        table=_by_flows("goodput_mbps", 3),
    ),
    Table(
        id="table-2-jain",
        title="Table 2. FTP-only Jain's fairness index",
        caption="Mean ± half of the 95 % interval.",
        table=_by_flows("jain", 3),
    ),
    Table(
        id="overview-web-only",
        title="Web only, 100 % load",
        caption="A short flow has at most 10 kB. Unfinished objects count in the distributions as what is "
        "known of them, but not in means and quantiles.",
        table=_overview("web-only"),
    ),
    Table(
        id="overview-web-mixed",
        title="Web 70 % + 10 FTP flows",
        caption="As above.",
        table=_overview("web-mixed", web=0.7),
    ),
    Table(
        id="hint-on-pi-overview",
        title="The hint on PI: Web 70 % + 10 FTP flows",
        caption="As above, over 140 s after 100 s in which PI finds its probability.",
        table=_overview("hint-on-pi"),
    ),
    Table(
        id="readings",
        title="SH-4, load by load and under other readings",
        caption="Ratios of times with 95 % intervals, paired by seed; the talk says 0.96 and 0.92. The "
        "ideal time of an object is what slow start alone needs. At one load the common divisor of "
        "normalised times cancels.",
        table=_readings,
    ),
    Table(
        id="loads",
        title="Offered load",
        caption="Load is in bytes on the wire of first transmissions, connection set-up and the padding of "
        "last segments included; payload alone is less. Sizes have so heavy a tail that a run of 160 s "
        "misses its nominal load by some percent; all queues meet the same arrivals.",
        table=_loads,
    ),
    Table(
        id="sizes",
        title="Readings of the law of sizes, at 100 % Web load",
        caption="The talk gives a mean of 10 kB, a minimum of 12 B and a maximum of 2 MB, and 140 active "
        "flows. Sizes above the maximum may be cut or drawn again, and the mean may be that of the sizes in "
        "use or that before the cut. Load is the same under all of them.",
        table=_sizes,
    ),
)

"""Active Queue Management for Web Traffic (Claypool, Kinicki and Hartling, IPCCC 2004, and its talk).

Question: can a router treat short Web transfers better by looking at their senders' windows?
The talk: SHRED shortens transmission times against RED and Drop Tail, and does not hurt FTP.
Ours: everything the talk leaves open, listed in `DECISIONS` and printed in the report. The curves of
its figures are not available as numbers, so nothing of them is drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from aqmlab import metrics, stats
from aqmlab.plot import Chart
from aqmlab.stats import Evidence
from aqmlab.studies.shred_runs import (
    DISCIPLINES,
    FTP_ONLY,
    GRID,
    LONG_BIN_S,
    QUEUES,
    REFERENCE,
    SENSITIVITY_SWEEPS,
    SERIES_STEP_S,
    SWEEPS,
    TAIL_AT_S,
    VARIANTS,
    WARM_UP_S,
    WITH_REFERENCE,
)
from aqmlab.study import Claim, Decision, Figure, Results, Row, Runs, Study, Table

TALK_ACTIVE = 140
"""Active flows at 100 % Web load, on slides 21 and 22."""

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


def means(runs: Runs, metric: str, *, by: str, x: str, scale: float = 1.0) -> pl.DataFrame:
    """Mean and interval of a metric for each value of `by` and `x`."""
    rows = []
    for group in runs.axis(by):
        for at in runs.where(**{by: group}).axis(x):
            chosen = runs.where(**{by: group, x: at})
            interval = stats.mean_interval([value * scale for value in chosen.values(metric)])
            rows.append((group, at, interval.value, interval.low, interval.high, interval.count))
    return pl.DataFrame(rows, schema=[by, x, "value", "low", "high", "seeds"], orient="row")


def distributions(runs: Runs, *, beyond: bool) -> pl.DataFrame:
    """Mean and interval over seeds of the distribution of object times; of its tail if `beyond`."""
    frames = []
    for queue in runs.axis("queue"):
        curves = [_beyond(row) for row in runs.where(queue=queue).rows]
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


def _beyond(row: Row) -> metrics.Floats:
    return metrics.survival(row.values["ended"], row.values["censored"])


def _distance(runs: Runs, queue: str) -> list[float]:
    """The area between the distribution of a queue and the uncongested one, seed by seed, in seconds."""
    reference = {row.seed: _beyond(row) for row in runs.where(queue=REFERENCE).rows}
    ours = {row.seed: _beyond(row) for row in runs.where(queue=queue).rows}
    near = GRID <= AREA_TO_S
    return [
        metrics.area_between(ours[seed][near], reference[seed][near], GRID[near])
        if seed in ours and seed in reference
        else math.nan
        for seed in runs.seeds()
    ]


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
            table.with_columns(100 * pl.col("web")),
            x="web",
            x_label="Web load (% of the bottleneck), beside 10 FTP flows",
            y_label="time over uncongested time",
        )

    return chart


def _drops_against_load(results: Results) -> Chart:
    table = means(_congested(results["web-mixed"]), "drop_percent", by="queue", x="web")
    return _line(
        table.with_columns(100 * pl.col("web")),
        x="web",
        x_label="Web load (% of the bottleneck), beside 10 FTP flows",
        y_label="packets dropped per Web flow (%)",
    )


def _against_ftp(results: Results) -> Chart:
    table = means(normalised(results["ftp-mixed"], "response_s"), "normalised", by="queue", x="ftp")
    return _line(table, x="ftp", x_label="FTP flows, beside 50 % Web load", y_label="time over uncongested time")


def _ftp_alone(metric: str, y_label: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        table = means(results["ftp-only"], metric, by="queue", x="ftp")
        return _line(table, x="ftp", x_label="FTP flows, no Web traffic", y_label=y_label)

    return chart


def _drop_functions(_: Results) -> Chart:
    from aqmlab._core import drop_curve

    averages = [float(length) for length in range(201)]
    red = [(queue := dict(DISCIPLINES["RED"]), "RED", 1.0)]
    moved = [(dict(DISCIPLINES["SHRED"]), f"SHRED, r = {r:g}", r) for r in (0.25, 0.5, 1.0, 1.5, 2.0)]
    del queue
    frames = [
        pl.DataFrame({"line": name, "average_packets": averages, "probability": drop_curve(table, averages, r)})
        for table, name, r in (*red, *moved)
    ]
    return Chart(
        kind="curve",
        table=pl.concat(frames),
        x="average_packets",
        y="probability",
        by="line",
        x_label="average queue (packets)",
        y_label="drop probability p_b",
        y_limits=(0.0, 1.02),
    )


def _pages(results: Results) -> Chart:
    frames = []
    for panel, one, several in (
        ("Web only, 100 %", results["web-only"], results["web-only-pages"]),
        ("Web 70 % + 10 FTP", results["web-mixed"].where(web=0.7), results["web-mixed-pages"]),
    ):
        single = tuple(Row(labels={**r.labels, "objects": 1}, seed=r.seed, values=r.values) for r in one.rows)
        table = means(normalised(Runs(rows=single + several.rows), "response_s"), "normalised", by="queue", x="objects")
        frames.append(table.select(pl.lit(panel).alias("traffic"), pl.all()))
    table = pl.concat(frames).with_columns(
        pl.when(pl.col("objects") == 1).then(pl.lit("1")).otherwise(pl.format("1-{}", "objects")).alias("objects")
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
        x_label="Web only, 100 % load",
        y_label="mean open transfers",
        levels={f"the talk: {TALK_ACTIVE}": float(TALK_ACTIVE)},
    )


def _stable(results: Results) -> Chart:
    rows = []
    for row in results["long"].rows:
        count = total = 0.0
        for place, some, seconds in zip(row.values["bin"], row.values["count"], row.values["sum_s"], strict=True):
            begin = place * LONG_BIN_S
            if begin < WARM_UP_S:
                continue
            count, total = count + some, total + seconds
            rows.append((row.labels["queue"], begin + LONG_BIN_S, total / count))
    table = pl.DataFrame(rows, schema=["queue", "until_s", "mean_time_s"], orient="row")
    return Chart(
        kind="curve",
        table=table,
        x="until_s",
        y="mean_time_s",
        by="queue",
        x_label="objects begun between 20 s and this time (s)",
        y_label="mean object transmission time (s)",
        guides={"runs of the talk end": 160.0},
    )


def _lost_packet(results: Results) -> Chart:
    rows = [
        (str(row.labels["lost"]), "fast retransmit or none" if row.values["timeouts"] == 0 else "time-out", value)
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
        stacked=True,
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
        caption="Pages of 1 to 8 objects beside 10 FTP flows. The figure below has 1 to 16 and 1 to 32, too.",
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
        chart=_drop_functions,
    ),
    Figure(
        id="pages",
        title="Objects per page (slide 29)",
        caption="Web response time over the uncongested one, for pages of one object and of several.",
        chart=_pages,
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
        caption="One run of 1000 s for each queue: the mean time of all objects begun so far. Object sizes have "
        "so heavy a tail that single runs still move after 160 s; hence many seeds, and comparison in pairs.",
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
        caption="FTP only: the largest rise of the queue within a base round trip and without a drop.",
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
                    queue: [_shown(runs.where(queue=queue, ftp=ftp), metric, digits) for ftp in runs.axis("ftp")]
                    for queue in QUEUES
                },
            }
        )

    return table


def _shown(runs: Runs, metric: str, digits: int, scale: float = 1.0) -> str:
    interval = stats.mean_interval([value * scale for value in runs.values(metric)])
    if not interval.decided:
        return f"{interval.value:.{digits}f}"
    return f"{interval.value:.{digits}f} ± {interval.half_width:.{digits}f}"


_OVERVIEW = (
    ("mean (s)", "mean_time_s", 3, 1.0),
    ("median (s)", "p50_s", 3, 1.0),
    ("p90 (s)", "p90_s", 3, 1.0),
    ("p99 (s)", "p99_s", 2, 1.0),
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
        queues = runs.axis("queue")
        rows = {
            queue: [_shown(runs.where(queue=queue), key, digits, scale) for _, key, digits, scale in _OVERVIEW]
            for queue in queues
        }
        return pl.DataFrame({"measure": [name for name, *_ in _OVERVIEW], **rows})

    return table


def _loads(results: Results) -> pl.DataFrame:
    """Nominal and realised load of the Web traffic, means over the seeds."""
    rows = []
    for sweep, queue in (("web-only", "Drop Tail"), ("web-mixed", "Drop Tail")):
        runs = results[sweep].where(queue=queue)
        for web in runs.axis("web"):
            chosen = runs.where(web=web).rows
            facts = [row.values["facts"] for row in chosen]
            rows.append(
                (
                    sweep,
                    f"{100 * web:.0f}",
                    f"{100 * _average([f.get('realised_load') for f in facts]):.1f}",
                    f"{100 * _average([row.values['payload_load'] for row in chosen]):.1f}",
                    f"{_average([f.get('mean_object_bytes') for f in facts]):.0f}",
                    f"{_average([row.values['count'] for row in chosen]) / 140:.1f}",
                )
            )
    columns = [
        "runs",
        "nominal load (%)",
        "realised, first transmissions on the wire (%)",
        "realised, payload (%)",
        "mean object (B)",
        "objects per second",
    ]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _average(values: Sequence[float | None]) -> float:
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else math.nan


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
        caption="A short flow has at most 10 kB. Unfinished objects count in the distributions as what is known "
        "of them, but not in means and quantiles.",
        table=_overview("web-only"),
    ),
    Table(
        id="overview-web-mixed",
        title="Web 70 % + 10 FTP flows",
        caption="As above.",
        table=_overview("web-mixed", web=0.7),
    ),
    Table(
        id="loads",
        title="Offered load",
        caption="Load is in bytes on the wire of first transmissions, connection set-up and the padding of last "
        "segments included; payload alone is less. Sizes have so heavy a tail that a run of 160 s misses "
        "its nominal load by some percent; all queues meet the same arrivals.",
        table=_loads,
    ),
)


# Claims: what is compared, and the bands, were written down before the first run


def _congested(runs: Runs) -> Runs:
    return Runs(rows=tuple(row for row in runs.rows if row.labels["queue"] != REFERENCE))


def _ratio(runs: Runs, metric: str, ours: str, theirs: str) -> stats.Interval:
    return stats.paired_ratio(*runs.pair(metric, {"queue": ours}, {"queue": theirs}))


def sh_1(results: Results) -> Evidence:
    runs = results["web-only"].where(web=1.0)
    parts = []
    for name, metric in (("median", "p50_s"), ("p90", "p90_s"), ("mean", "mean_time_s")):
        parts.append(stats.judge(f"{name} SHRED/RED", _ratio(runs, metric, "SHRED", "RED"), stats.below(1)))
        parts.append(stats.judge(f"{name} RED/Drop Tail", _ratio(runs, metric, "RED", "Drop Tail"), stats.at_most(1.02)))
    return stats.together(*parts)


def sh_2(results: Results) -> Evidence:
    runs = results["web-mixed"].where(web=0.7)
    ours = _distance(runs, "SHRED")
    return stats.together(
        *(
            stats.judge(
                f"area to uncongested, SHRED/{other}",
                stats.paired_ratio(ours, _distance(runs, other)),
                stats.below(1),
            )
            for other in ("RED", "Drop Tail")
        )
    )


def sh_3(results: Results) -> Evidence:
    runs = results["web-mixed"].where(web=0.7)
    return stats.together(
        *(
            stats.judge(f"share beyond {at:g} s, SHRED/{other}", _ratio(runs, f"beyond_{at:g}s", "SHRED", other), stats.below(1))
            for at in TAIL_AT_S
            for other in ("RED", "Drop Tail")
        )
    )


def sh_4(results: Results) -> Evidence:
    runs = normalised(results["web-mixed"], "mean_time_s")
    return stats.together(
        stats.judge("SHRED/RED", _ratio(runs, "normalised", "SHRED", "RED"), stats.within(0.90, 0.99)),
        stats.judge("RED/Drop Tail", _ratio(runs, "normalised", "RED", "Drop Tail"), stats.within(0.85, 0.99)),
    )


def sh_5(results: Results) -> Evidence:
    return stats.together(
        _widens(results["web-mixed"], "web", "per 10 % of Web load", 0.1),
        _widens(results["ftp-mixed"], "ftp", "per 10 FTP flows", 10.0),
    )


def _widens(runs: Runs, axis: str, unit: str, step: float) -> Evidence:
    """Whether RED's percent drops less SHRED's grow along an axis, by the slope of each seed."""
    at = [float(value) for value in runs.axis(axis)]
    slopes = []
    for seed in runs.seeds():
        gain = []
        for value in runs.axis(axis):
            ours, theirs = runs.where(**{axis: value}).pair("drop_percent", {"queue": "SHRED"}, {"queue": "RED"})
            place = runs.where(**{axis: value}).seeds().index(seed) if seed in runs.where(**{axis: value}).seeds() else None
            gain.append(math.nan if place is None else theirs[place] - ours[place])
        slopes.append(step * stats.slope(at, gain))
    return stats.judge(f"growth of RED - SHRED in percent drops {unit}", stats.mean_interval(slopes), stats.above(0))


def sh_6(results: Results) -> Evidence:
    runs = normalised(results["ftp-mixed"], "response_s")
    loaded = Runs(rows=tuple(row for row in runs.rows if row.labels["ftp"] > 0))
    return stats.together(
        stats.judge("SHRED/RED", _ratio(loaded, "normalised", "SHRED", "RED"), stats.below(1)),
        stats.judge("RED/Drop Tail", _ratio(loaded, "normalised", "RED", "Drop Tail"), stats.below(1)),
    )


def sh_7(results: Results) -> Evidence:
    one = results["web-mixed"].where(web=0.7)
    several = results["web-mixed-pages"]
    seeds = several.seeds()
    single = _gain(one, seeds)
    each = [_gain(several.where(objects=objects), seeds) for objects in several.axis("objects")]
    mean = [math.fsum(gains) / len(gains) for gains in zip(*each, strict=True)]
    return stats.together(
        stats.judge("gain over RED with several objects (%)", stats.mean_interval(mean), stats.above(0)),
        stats.judge("that less the gain with one object", stats.paired_difference(mean, single), stats.above(0)),
    )


def _gain(runs: Runs, seeds: Sequence[int]) -> list[float]:
    """How much shorter response times are under SHRED than under RED, in percent, by seed."""
    ours = runs.where(queue="SHRED").values("response_s", seeds)
    theirs = runs.where(queue="RED").values("response_s", seeds)
    return [100 * (1 - a / b) for a, b in zip(ours, theirs, strict=True)]


def sh_8(results: Results) -> Evidence:
    runs = results["ftp-only"]
    fairness = runs.pair("jain", {"queue": "SHRED"}, {"queue": "RED"})
    return stats.together(
        stats.judge("goodput SHRED/RED", _ratio(runs, "goodput_mbps", "SHRED", "RED"), stats.within(0.98, 1.02)),
        stats.judge("Jain's index SHRED - RED", stats.paired_difference(*fairness), stats.within(-0.05, 0.05)),
    )


def sh_9(results: Results) -> Evidence:
    runs = results["web-mixed"]
    return stats.together(
        *(
            stats.judge(f"total goodput SHRED/{other}", _ratio(runs, "goodput_bps", "SHRED", other), stats.at_least(0.98))
            for other in ("RED", "Drop Tail")
        )
    )


def sh_10(results: Results) -> Evidence:
    return stats.together(
        *(
            stats.judge(f"time-outs per short flow SHRED/RED, {name}", _ratio(runs, "short_timeouts", "SHRED", "RED"), stats.below(1))
            for name, runs in (
                ("Web only", results["web-only"].where(web=1.0)),
                ("Web 70 % + 10 FTP", results["web-mixed"].where(web=0.7)),
            )
        )
    )


def aqm_1(results: Results) -> Evidence:
    runs = results["ftp-only"]
    return stats.together(
        stats.judge("synchronisation RED/Drop Tail", _ratio(runs, "synchronisation", "RED", "Drop Tail"), stats.below(1)),
        stats.judge("mean drop run RED/Drop Tail", _ratio(runs, "drop_run", "RED", "Drop Tail"), stats.below(1)),
    )


CLAIMS = (
    Claim(
        id="SH-1",
        statement="With Web traffic only at 100 % load, object times under SHRED are shorter than under RED, "
        "and under RED not longer than under Drop Tail.",
        rule="Median, 90th percentile and mean: SHRED/RED below 1, RED/Drop Tail at most 1.02, paired by seed.",
        judge=sh_1,
    ),
    Claim(
        id="SH-2",
        statement="With 70 % Web load and 10 FTP flows, SHRED's distribution of object times is the nearest to "
        "the uncongested one.",
        rule="Area between the distribution functions from 0 to 10 s: SHRED's over RED's and over Drop Tail's "
        "below 1, paired by seed.",
        judge=sh_2,
    ),
    Claim(
        id="SH-3",
        statement="In the tail of that distribution, from one time-out on, fewer objects take so long under SHRED "
        "than under RED and Drop Tail.",
        rule="Shares of objects beyond 1, 3 and 6 s: SHRED's over RED's and over Drop Tail's below 1.",
        judge=sh_3,
    ),
    Claim(
        id="SH-4",
        statement="Normalised transmission times, Web-mixed: SHRED about 4 % better than RED, RED about 8 % better "
        "than Drop Tail.",
        rule="Normalised mean times, averaged over all Web loads: SHRED/RED in [0.90, 0.99], RED/Drop Tail in "
        "[0.85, 0.99].",
        judge=sh_4,
    ),
    Claim(
        id="SH-5",
        statement="As load or the number of flows grows, SHRED's advantage in percent of Web packets dropped widens.",
        rule="Slope of (RED - SHRED) in percent drops per Web flow against Web load, and against FTP flows: above 0.",
        judge=sh_5,
    ),
    Claim(
        id="SH-6",
        statement="With 50 % Web load, response times are shortest under SHRED, then RED, then Drop Tail, whatever "
        "the number of FTP flows.",
        rule="Normalised response time averaged over FTP counts above 0: SHRED/RED and RED/Drop Tail below 1.",
        judge=sh_6,
    ),
    Claim(
        id="SH-7",
        statement="With several objects per page, SHRED shortens response times significantly, and more than with one.",
        rule="Web 70 % + 10 FTP flows: percent gain over RED, averaged over the kinds of pages, above 0; and above the "
        "gain with one object.",
        judge=sh_7,
    ),
    Claim(
        id="SH-8",
        statement="FTP traffic is not harmed: with FTP only, goodput and fairness under SHRED are about those under RED.",
        rule="Averaged over the numbers of flows: goodput SHRED/RED in [0.98, 1.02], Jain's index within 0.05 of RED's.",
        judge=sh_8,
    ),
    Claim(
        id="SH-9",
        statement="The network as a whole does not lose performance.",
        rule="Web-mixed, averaged over loads: goodput of all flows under SHRED at least 0.98 of RED's and Drop Tail's.",
        judge=sh_9,
    ),
    Claim(
        id="SH-10",
        statement="Short Web flows have fewer time-outs under SHRED than under RED.",
        rule="Time-outs per object of at most 10 kB, SHRED/RED: below 1 Web-only at 100 %, and at 70 % + 10 FTP flows.",
        judge=sh_10,
    ),
    Claim(
        id="AQM-1",
        statement="RED avoids what it was invented against: flows losing together, and drops in a row.",
        rule="FTP only, averaged over the numbers of flows: loss synchronisation and mean drop run, RED/Drop Tail below 1.",
        judge=aqm_1,
    ),
)


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Can a router treat short transfers better? In words, from the verdicts."""
    said = {
        "holds": ("Yes", "it does", "confirmed"),
        "fails": ("No", "it does not", "contradicted"),
        "undecided": ("Not decided", "these runs cannot tell", "left open"),
    }
    mixed = said[_joint(evidence, "SH-2", "SH-3")]
    size = evidence["SH-4"]
    harm = said[_joint(evidence, "SH-8", "SH-9")]
    counts = {word: [i for i, e in evidence.items() if e.verdict == word] for word in said}
    shares = [f"{part.measured.split(',')[0].split(' [')[0]}" for part in size.parts]
    return [
        f"Does SHRED bring short Web transfers nearer to an uncongested network than RED and Drop Tail, "
        f"beside FTP flows? {mixed[0]}: {mixed[1]} (SH-2 and SH-3).",
        f"By how much? Ratios of normalised transmission times: {', '.join(shares)}; the talk says 0.96 and 0.92 "
        f"(SH-4 {said[size.verdict][2]}).",
        f"Without harm to FTP traffic and to the network? {harm[0]} (SH-8 and SH-9).",
        f"Of {len(evidence)} claims, {len(counts['holds'])} hold"
        + (f", {len(counts['fails'])} fail ({', '.join(counts['fails'])})" if counts["fails"] else "")
        + (
            f", {len(counts['undecided'])} stay undecided ({', '.join(counts['undecided'])})"
            if counts["undecided"]
            else ""
        )
        + ".",
    ]


def _joint(evidence: Mapping[str, Evidence], *ids: str) -> stats.Verdict:
    return stats.together(*(evidence[i] for i in ids)).verdict


def _checks(results: Results) -> list[str]:
    """MSER-5 on the number of open transfers, averaged over seeds, against the warm-up of 20 s."""
    found = []
    for sweep in ("web-only", "web-mixed", "ftp-mixed"):
        runs = results[sweep]
        for queue in QUEUES:
            for axis in ("web", "ftp"):
                for value in runs.axis(axis):
                    series = [row.values["active"] for row in runs.where(queue=queue, **{axis: value}).rows]
                    if not series:
                        continue
                    mean = [math.fsum(at) / len(series) for at in zip(*series, strict=True)]
                    cut = metrics.mser5(mean)
                    if cut is None or cut * SERIES_STEP_S > WARM_UP_S:
                        said = "does not settle" if cut is None else f"asks for {cut * SERIES_STEP_S:g} s"
                        found.append(f"{sweep} ({queue}, {axis} {value:g}): {said}")
    if not found:
        return []
    return ["The warm-up of 20 s is that of the talk; MSER-5 on open transfers, averaged over seeds, would have more in "
            f"{len(found)} places: " + "; ".join(found) + "."]


DECISIONS = (
    Decision(
        question="Negative min_th of large windows",
        decision="The line begins at zero with its slope kept (`floor = zero`).",
        reason="Taken literally, a flow of twice the average window loses 5 % at an empty queue. The other two readings "
        "are among the sensitivity runs.",
    ),
    Decision(
        question="Count law",
        decision="p_a = p_b / (1 - count p_b), without ns-2's `wait`.",
        reason="It is the one on slide 7; `wait` changes the drop rate threefold and is among the sensitivity runs.",
    ),
    Decision(question="RED gentle or not", decision="Gentle for RED and SHRED.", reason="Slide 12 and ns-2's default of the time; slides 6 and 8 draw RED without. Both were run."),
    Decision(question="Average window at the start", decision="The first window seen.", reason="Any other number would be invented."),
    Decision(question="The window told", decision="Congestion window, at most the receiver's, not inflated, rounded down; SYNs tell 1.", reason="What limits sending; ns-2 has cwnd 1 at the SYN."),
    Decision(question="TCP", decision="Reno as in ns-2.35: initial window 2, no delayed acknowledgements, limited transmit, timer of 10 ms ticks, minimum RTO 0.2 s, initial RTO 3 s, a receiver window that never limits.", reason="The talk says ns-2 and Reno. Versions differ: window 20 and the RTOs of 2003 are among the sensitivity runs."),
    Decision(question="Packet size", decision="934 B payload, 974 B on the wire.", reason="974 B is the talk's average packet; 1040 B is among the sensitivity runs."),
    Decision(question="Drop Tail's buffer", decision="225 packets, as RED's.", reason="The slide lists one buffer size."),
    Decision(question="Object sizes", decision="Pareto II, shape 1.2, scale set so that the mean of sizes cut to 12 B and 2 MB is 10 kB.", reason="Then load is what it says. Redrawing instead of cutting is among the sensitivity runs."),
    Decision(question="Load", decision="First transmissions on the wire over the bottleneck's capacity.", reason="Retransmissions are a result, not a load."),
    Decision(question="Pages", decision="Start to start exponential, whatever the pages before are doing; objects in parallel, each on its own connection; responses only.", reason="Slide 13: congestion must not lower the load."),
    Decision(question="Start of an object's time", decision="From sending the SYN to the last payload byte in order.", reason="A lost SYN is the dearest loss; leaving it out would hide the point of SHRED."),
    Decision(question="Normalised time", decision="Mean time over the mean time of the same arrivals, same seed, with the bottleneck at 100 Mb/s and no FTP flows; delay kept.", reason="Only the numerator sees congestion. FTP flows without a window limit would fill any line."),
    Decision(question="FTP starts", decision="At random within the first 10 s.", reason="Avoids a common slow start."),
    Decision(question="Unfinished objects", decision="Counted in distributions as what is known of them (Kaplan-Meier); not in means and quantiles, but reported.", reason="Leaving them out would flatter slow queues."),
    Decision(question="Loss event", decision="A drop and all drops less than a base round trip (124 ms) after it.", reason="Losses so close are one signal to the senders."),
    Decision(question="Equal timing", decision="Hosts process each packet after a random time of up to one packet's transmission.", reason="Breaks phase effects of equal round-trip times."),
)

STUDY = Study(
    name="shred",
    title="Active Queue Management for Web Traffic",
    paper="M. Claypool, R. Kinicki, M. Hartling: Active Queue Management for Web Traffic. IPCCC 2004, and the talk.",
    question="Can a router treat short Web transfers better by looking at their senders' congestion windows?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=("SH-1", "SH-2", "SH-3", "SH-4", "SH-5", "SH-6", "SH-8", "SH-9", "SH-10", "AQM-1"),
)

__all__ = ["CLAIMS", "FIGURES", "FTP_ONLY", "STUDY", "WITH_REFERENCE"]

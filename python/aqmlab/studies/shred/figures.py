"""The figures of the study `shred`.

The curves of the talk's figures are not available as numbers, so nothing of them is drawn here but
the one number it gives, 140 active flows.
"""

from __future__ import annotations

from collections.abc import Iterator

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import Row
from aqmlab.results.variable import Measured, Variable, per_seed
from aqmlab.studies.drop_curves import drop_functions
from aqmlab.studies.shred import measures
from aqmlab.studies.shred.claims import TALK_ACTIVE, mixed, normalised, share_beyond
from aqmlab.studies.shred.experiments import (
    DISCIPLINES,
    QUEUES,
    WARM_UP_S,
    ftp_mixed,
    ftp_only,
    hint_on_pi,
    long,
    lost_packet,
    pages_by_load,
    web_mixed,
    web_mixed_pages,
    web_only,
    web_only_pages,
)
from aqmlab.study.charts import Draws, line
from aqmlab.study.publication import Figure
from aqmlab.study.query import Query, joined, of_runs, query, stacked

RATIOS = (0.25, 0.5, 1.0, 1.5, 2.0)
"""Windows over the average window at which SHRED's drop function is drawn."""


def _at_times(beyond: Variable, low_s: float, high_s: float) -> Variable:
    """The share of objects that take longer, at those times of the grid that are drawn."""
    times = [float(at) for at in measures.GRID]
    drawn = [at for at in times if low_s <= at <= high_s]
    return beyond.unrolled("time_s", times).among(time_s=drawn)


def cdf(beyond: Variable) -> Draws:
    """The distribution of object times, of the shares that take longer than each time."""
    return line(
        per_seed("share done", lambda share: 1 - share, _at_times(beyond, 0.15, 10.0)),
        kind="cdf",
        x="time_s",
        by="queue",
        x_label="object transmission time (s)",
        y_label="cumulative fraction of objects",
        log_x=True,
        x_limits=(0.15, 10.0),
        clip=(0.0, 1.0),
    )


def tail(beyond: Variable) -> Draws:
    """The same from the other end: the share of objects that take longer."""
    return line(
        _at_times(beyond, 0.5, 60.0),
        kind="tail",
        x="time_s",
        by="queue",
        x_label="object transmission time (s)",
        y_label="fraction of objects that take longer",
        log_x=True,
        log_y=True,
        x_limits=(0.5, 60.0),
        y_limits=(1e-4, 1.0),
        guides={"initial RTO": 3.0},
        clip=(1e-5, 1.0),
    )


def _by_load(variable: Variable) -> Draws:
    label = "Web load (% of the bottleneck), beside 10 FTP flows"
    return line(query(variable).told(load=lambda load: 100 * load), x="load", by="queue", x_label=label)


def _ftp_alone(measure: Measure) -> Draws:
    return line(ftp_only[measure], x="flows", by="queue", x_label="FTP flows, no Web traffic")


def _drop_functions(*, up_to: int, most: float) -> Draws:
    red, shred = DISCIPLINES["RED"], DISCIPLINES["SHRED"]
    packets = {"RED": (red, (1.0,)), **{f"SHRED, r = {r:g}": (shred, (r,)) for r in RATIOS}}
    return drop_functions(
        packets,
        up_to,
        x_label="average queue (packets)",
        y_label="drop probability p_b",
        y_limits=(0.0, most),
    )


def _page_times(one: Measured, several: Measured) -> Query:
    """Of pages of one object and of several, over those of pages without congestion."""
    single = query(normalised(one).among(queue=QUEUES)).tagged(objects="1")
    more = query(normalised(several).among(queue=QUEUES))
    return joined(single, more.told(objects=lambda most: f"1-{most}"))


def _since_warm_up(row: Row) -> Iterator[tuple[Labels, float]]:
    """The mean time of all objects begun up to a time."""
    count = total = 0.0
    bins = row[measures.BINS]
    for place, some, seconds in zip(bins["bin"], bins["count"], bins["sum_s"], strict=True):
        if place * measures.LONG_BIN_S >= WARM_UP_S:
            count, total = count + some, total + seconds
            yield {"until_s": (place + 1) * measures.LONG_BIN_S}, total / count


def _recovered(row: Row) -> Iterator[tuple[Labels, float]]:
    if row[measures.LOST_TIME] is not None:
        without = row[measures.LOST_TIMEOUTS] == 0
        yield {"recovery": "fast retransmit or none" if without else "time-out"}, row[measures.LOST_TIME]


_BESIDE_FTP = share_beyond(web_mixed).at(load=0.7)
_ALONE = share_beyond(web_only)

FIGURES = (
    Figure(
        id="3a",
        title="Object transmission time, Web only",
        caption="Distribution at 100 % Web load. Bands are 95 % intervals over the seeds, point by point.",
        chart=cdf(_ALONE),
    ),
    Figure(
        id="3b",
        title="Object transmission time, Web only: tail",
        caption="The same runs: the share of objects that take longer.",
        chart=tail(_ALONE),
    ),
    Figure(
        id="4a",
        title="Object transmission time, Web-mixed",
        caption="Distribution at 70 % Web load beside 10 FTP flows.",
        chart=cdf(_BESIDE_FTP),
    ),
    Figure(
        id="4b",
        title="Object transmission time, Web-mixed: tail",
        caption="The same runs: the share of objects that take longer.",
        chart=tail(_BESIDE_FTP),
    ),
    Figure(
        id="5",
        title="Normalised transmission time, Web-mixed",
        caption="Mean object time over that of the same arrivals without congestion, paired by seed. "
        "One object per page, so this is the response time too.",
        chart=_by_load(normalised(mixed).among(queue=QUEUES)),
    ),
    Figure(
        id="6",
        title="Percent drops, Web-mixed",
        caption="Mean over Web flows of the share of their packets that were dropped.",
        chart=_by_load(web_mixed[measures.DROP_PERCENT].among(queue=QUEUES)),
    ),
    Figure(
        id="7",
        title="Normalised Web response time, FTP-mixed",
        caption="50 % Web load and a growing number of FTP flows; one object per page.",
        chart=line(
            normalised(ftp_mixed[measures.RESPONSE]).among(queue=QUEUES),
            x="flows",
            by="queue",
            x_label="FTP flows, beside 50 % Web load",
        ),
    ),
    Figure(
        id="8",
        title="Normalised Web response time with several objects per page, Web-mixed",
        caption="Pages of 1 to 8 objects beside 10 FTP flows. More kinds of pages have their own figure.",
        chart=_by_load(normalised(pages_by_load[measures.RESPONSE]).among(queue=QUEUES)),
    ),
    Figure(
        id="goodput",
        title="Goodput of all flows, Web-mixed",
        caption="Unique payload that reached the receivers, Web and FTP together.",
        chart=_by_load(web_mixed[measures.GOODPUT].among(queue=QUEUES)),
    ),
    Figure(
        id="table-1",
        title="FTP-only goodput (Table 1)",
        caption="Unique payload that reached the receivers, all flows together.",
        chart=_ftp_alone(measures.FTP_ALONE),
    ),
    Figure(
        id="table-2",
        title="FTP-only fairness (Table 2)",
        caption="Jain's index over the goodputs of the flows.",
        chart=_ftp_alone(measures.JAIN),
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
        chart=line(
            stacked(
                "traffic",
                {
                    "Web only, 100 %": _page_times(
                        web_only[measures.RESPONSE], web_only_pages[measures.RESPONSE]
                    ),
                    "Web 70 % + 10 FTP": _page_times(
                        web_mixed[measures.RESPONSE].at(load=0.7), web_mixed_pages[measures.RESPONSE]
                    ),
                },
            ),
            kind="bars",
            x="objects",
            by="queue",
            panel="traffic",
            x_label="objects per page",
            y_label="page time over uncongested time",
        ),
    ),
    Figure(
        id="hint-on-pi",
        title="The hint on another AQM",
        caption="70 % Web load and 10 FTP flows. PI holds the queue at 60 packets, midway between RED's "
        "thresholds. PISA is PI that weighs its probability by the window hint as SHRED does, PIMC spares "
        "packets of windows below four; their formulas are ours, since only the abstract of their thesis "
        "(Kim 2004) was at hand.",
        chart=cdf(share_beyond(hint_on_pi)),
    ),
    Figure(
        id="active-transfers",
        title="Open transfers at 100 % Web load",
        caption="Time average after warm-up, beside the talk's 140 active flows.",
        chart=line(
            web_only[measures.MEAN_ACTIVE],
            kind="bars",
            x="queue",
            by="queue",
            overlaid=True,
            x_label="Web only, 100 % load",
            y_label="mean open transfers",
            levels={f"the talk: {TALK_ACTIVE}": float(TALK_ACTIVE)},
        ),
    ),
    Figure(
        id="stable",
        title="When the means are stable (slide 18)",
        caption="One run of 1000 s for each queue: the mean time of all objects begun so far. At 100 % Web "
        "load the line has nothing to spare for retransmissions, and sizes have a heavy tail: the mean of a "
        "single run goes on wandering long after 160 s. Hence many seeds, compared in pairs.",
        chart=line(
            of_runs(long, _since_warm_up, "until_s"),
            kind="curve",
            x="until_s",
            by="queue",
            panel="mix",
            x_label="objects begun from 20 s to this time (s)",
            y_label="mean object transmission time (s)",
            guides={"runs of the talk end": 160.0},
        ),
    ),
    Figure(
        id="lost-packet",
        title="What a single loss costs (slide 4)",
        caption="One object of ten segments alone on the line, and one packet of it lost.",
        chart=line(
            of_runs(lost_packet, _recovered, "recovery"),
            kind="bars",
            x="lost",
            by="recovery",
            overlaid=True,
            x_label="the packet lost: none, the SYN, or the k-th of ten data segments",
            y_label="object transmission time (s)",
        ),
    ),
    Figure(
        id="synchronisation",
        title="Loss synchronisation",
        caption="FTP only: the mean share of flows that lose a packet in the same loss event. It grows with "
        "how many packets are dropped at all, so that a queue which drops more looks less good in it.",
        chart=_ftp_alone(measures.SYNCHRONISATION),
    ),
    Figure(
        id="drop-runs",
        title="Drops in a row",
        caption="FTP only: the mean number of consecutive arrivals refused.",
        chart=_ftp_alone(measures.DROP_RUN),
    ),
    Figure(
        id="largest-burst",
        title="Largest burst accepted",
        caption="FTP only: the largest rise of the queue within a base round trip and without a drop. Where "
        "early drops come so often that hardly two samples of the queue have none between them, nothing is "
        "left to rise.",
        chart=_ftp_alone(measures.LARGEST_BURST),
    ),
)

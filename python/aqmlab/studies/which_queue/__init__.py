"""Which queue for Web traffic? Eight queue disciplines on home lines, with the senders of 2026.

The study is aqmlab's own. It crosses five senders (a congestion control with or without ECN) and twelve
queues (Drop Tail with five sizes, and seven disciplines with active management as shipped) with the 16 rows
of an orthogonal array of household load, version of HTTP, line, and round trip of the household's transfers
(`network.py`). Page times are compared on a logarithmic scale, so that an effect is a factor (`effects.py`).

Why a fraction: the full factorial has 4 loads, 3 versions of HTTP, 3 lines, 2 round trips and 5 rooms, which
are 360 settings for each sender and queue. The array has 16. The experiment `factorial` runs all settings for
CUBIC with three queues, and a claim compares the effects of the fraction with those of the whole.

Why Drop Tail with five rooms and the other queues as shipped: the room is the only parameter of Drop Tail,
and has a large effect, so that all rooms run in all rows. A queue with active management has a limit that is
reached seldom. The experiment `equal` gives both kinds the same limit, which follows the fifth column of the
array.

Why ECN marks everywhere: CoDel, PIE, FQ-PIE and RED as shipped by Linux do not mark. The study lets them
mark, because the question is whether marks help. Senders without ECN show what happens otherwise.

The rules were fixed after single runs at the line 20/1, before any run of the whole study. The rules about
the video call were fixed before any run with a video call. The number of seeds was fixed after the quick form
and before any result of the full form was read, by the time that the full form needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aqmlab import stats
from aqmlab.results.rule import AnyRule, Estimate, difference, every, ratio
from aqmlab.results.variable import Variable
from aqmlab.studies.which_queue import effects
from aqmlab.studies.which_queue import measures as m
from aqmlab.studies.which_queue import network as net
from aqmlab.study import (
    Claim,
    Experiment,
    Figure,
    Form,
    Study,
    Table,
    Verdicts,
    line,
    listed,
    our_claim,
    query,
    stacked,
)
from aqmlab.study.charts import Line
from aqmlab.study.query import Query
from aqmlab.sweep import Changes

SEEDS = 3
QUICK_ROWS = tuple(name for name, row in net.ROWS.items() if row["line"] != "1000/50")
QUICK = Form(seeds=2, axes={"row": QUICK_ROWS})


def experiment(
    name: str, title: str, axes: Mapping[str, Any], seeds: int = SEEDS, **fields: Any
) -> Experiment:
    """An experiment on a home line with a fixed number of seeds."""
    return Experiment(
        name, title, net.base(net.ROWS["row 1"]), axes, m.ALL, seeds=seeds, most_seeds=seeds, **fields
    )


# Experiments

main = experiment(
    "lines",
    "Home lines",
    # The order matters: the row sets HTTP's version and the rates, on which senders and queues depend.
    {"row": net.ROW_AXIS, "sender": net.SENDER_AXIS, "queue": net.QUEUE_AXIS},
    quick=QUICK,
    # All rows and senders, because the claims are about means over them.
    varied=Form(axes={"queue": (net.REFERENCE, net.CODEL, net.DUALPI2, net.FQ_CODEL)}),
    varied_quick=Form(axes={"row": net.SLOW_ROWS, "sender": (net.CUBIC, net.PRAGUE)}),
)

EQUAL_QUEUES = (net.CODEL, net.PIE, net.FQ_CODEL, net.CAKE)
EQUAL_SENDERS = (net.CUBIC, net.BBR, net.PRAGUE)


equal = experiment(
    "equal",
    "Equal limits",
    {
        "row": Changes({name: net.in_room(row) for name, row in net.ROWS.items()}),
        "sender": Changes({name: net.sent_by(name) for name in EQUAL_SENDERS}),
        "queue": Changes(
            {net.DROP_TAIL: lambda table: table, **{name: net.limited(name) for name in EQUAL_QUEUES}}
        ),
    },
    quick=Form(seeds=2, axes={"row": QUICK_ROWS[::2]}),
)

SLICE = (net.REFERENCE, net.CODEL, net.FQ_CODEL)
LEVELS = tuple((a, b, c, d, 0) for a in range(4) for b in range(4) for c in range(4) for d in range(4))
"""All settings of the first four columns of the array. Repeated levels give each value its frequency in the
array; equal settings are executed once."""

factorial = experiment(
    "factorial",
    "All settings, CUBIC",
    {
        "setting": Changes({"".join(map(str, one[:4])): net.of_row(net.row_of(one)) for one in LEVELS}),
        "queue": Changes({name: net.queued(name) for name in SLICE}),
    },
    seeds=2,
    quick=Form(
        seeds=2,
        axes={"setting": ["".join(map(str, one[:4])) for one in LEVELS if one[2] != 2 and sum(one) % 4 == 0]},
    ),
)

NEITHER, BOTH = "neither", "both"
_WHERE: Mapping[str, tuple[str, ...]] = {
    NEITHER: (),
    net.DOWNLINK: (net.DOWNLINK,),
    net.UPLINK: (net.UPLINK,),
    BOTH: net.LINKS,
}
_BUSY = {"load": "download and upload", "http": "2", "line": "20/1", "rtt": 20, "room": "1 BDP"}

directions = experiment(
    "directions",
    "20/1 with a download and an upload",
    {
        "row": Changes({"busy": net.of_row(_BUSY)}),
        "sender": Changes({name: net.sent_by(name) for name in EQUAL_SENDERS}),
        "queue": Changes({name: net.queued(name) for name in (net.CODEL, net.PIE, net.FQ_CODEL, net.CAKE)}),
        "where": Changes(
            {
                name: net.queued(net.REFERENCE, where=[one for one in net.LINKS if one not in links])
                for name, links in _WHERE.items()
            }
        ),
    },
    seeds=6,
    quick=Form(seeds=3),
)

_DOWNLOAD = {"load": "download", "http": "2", "line": "100/10", "rtt": 20, "room": "1 BDP"}

varying = experiment(
    "varying",
    "A line whose rate varies",
    {
        "row": Changes({"varying": net.varying(_DOWNLOAD)}),
        "sender": net.SENDER_AXIS,
        "queue": net.QUEUE_AXIS,
    },
    seeds=5,
    quick=Form(seeds=3),
)

MIXED_QUEUES = (net.REFERENCE, *net.MANAGED)
mixed = experiment(
    "mixed",
    "Pages and download of different senders",
    {
        "row": Changes({"download": net.of_row(_DOWNLOAD)}),
        "pages": Changes({name: net.pages_by(name) for name in EQUAL_SENDERS}),
        "download": Changes({name: net.household_by(name) for name in EQUAL_SENDERS}),
        "queue": Changes({name: net.queued(name) for name in MIXED_QUEUES}),
    },
    seeds=5,
    quick=Form(seeds=2),
)

FREEZES, FROZEN, VIDEO_RATE = "video.freezes", "video.frozen", "video.rate"

video = Experiment(
    "video",
    "A video call beside a download and an upload",
    net.with_video(_BUSY)({}),
    {
        "line": Changes({name: net.with_video({**_BUSY, "line": name}) for name in ("20/1", "100/10")}),
        "sender": Changes({name: net.sent_by(name) for name in EQUAL_SENDERS}),
        "queue": net.QUEUE_AXIS,
    },
    [FREEZES, FROZEN, VIDEO_RATE, "video.p95-frame-delay"],
    seeds=5,
    most_seeds=5,
    quick=Form(seeds=2),
)

EXPERIMENTS = (main, equal, factorial, directions, varying, mixed, video)

# Effects

LOG = main[m.LOG_PAGE].averaged("row")
OTHERS = tuple(one for one in net.QUEUES if one != net.REFERENCE)
ALL_SENDERS = "all senders"


def pages(queue: str, reference: str = net.REFERENCE, of: Variable = LOG, **at: Any) -> Estimate:
    """The page time with a queue, divided by that with the reference."""
    ours, theirs = (of.at(queue=one, **at) for one in (queue, reference))
    return effects.effect(ours, theirs, f"page time, ratio of {queue} to {reference}")


def among(**values: Any) -> Variable:
    """The logarithm of the page time, averaged over the rows with these values."""
    return main[m.LOG_PAGE].among(row=net.rows_with(**values)).averaged("row")


MOS = main[m.MOS].averaged("row", "sender")
DOWN = main[m.DOWN_SHARE].among(row=net.DOWN_ROWS).averaged("row", "sender")
UP = main[m.UP_SHARE].among(row=net.UP_ROWS).averaged("row", "sender")

_SLUGS = {
    **{
        name: f"tail-{slug}"
        for name, slug in zip(net.TAIL.values(), ("quarter", "1", "4", "16", "shipped"), strict=True)
    },
    **{name: name.lower() for name in net.MANAGED},
    net.CUBIC: "cubic",
    net.CUBIC_ECN: "cubic-ecn",
    net.BBR: "bbr",
    net.BBR_ECN: "bbr-ecn",
    net.PRAGUE: "prague",
}
OURS = "aqmlab"


def claim(id: str, statement: str, rule: AnyRule, *figures: str) -> Claim:
    return our_claim(id, statement, rule, OURS, figures or ("pages",))


def _table_claims() -> Iterator[Claim]:
    """For each queue, four claims that the queue is better than Drop Tail with a room of one BDP, and one
    that pages are faster with each sender. The first table of the page consists of their numbers."""
    for queue in OTHERS:
        slug, than = _SLUGS[queue], "than with Drop Tail of 1 BDP"
        everyone = LOG.averaged("sender")
        yield claim(f"pages-{slug}", f"{queue}: pages take less time {than}.", pages(queue, of=everyone) < 1)
        yield claim(
            f"senders-{slug}", f"{queue}: pages take less time {than}, with each sender.", pages(queue) < 1
        )
        for name, title, variable in (
            ("call", "the call is better", MOS),
            ("down", "the long download is faster", DOWN),
            ("up", "the long upload is faster", UP),
        ):
            rule = difference(variable, queue=(queue, net.REFERENCE)) > 0
            yield claim(f"{name}-{slug}", f"{queue}: {title} {than}.", rule, "household")


def _video() -> Iterator[Claim]:
    """Freezes of a video call. WebRTC counts a gap between two frames as a freeze if the gap is at least
    three times, and at least 150 ms longer than, the mean gap."""
    freezes = video[FREEZES].averaged("line")
    for queue in OTHERS:
        yield claim(
            f"video-{_SLUGS[queue]}",
            f"{queue}: the video call freezes less often than with Drop Tail of 1 BDP.",
            difference(freezes.averaged("sender"), queue=(queue, net.REFERENCE)) < 0,
            "video",
        )
    yield claim(
        "video-flows",
        "The video call freezes less often with FQ-CoDel than with CoDel, with each sender.",
        difference(freezes, queue=(net.FQ_CODEL, net.CODEL)) < 0,
        "video",
    )


def _flow_queues() -> Iterator[Claim]:
    """What a queue for each flow adds to a controller of the delay."""
    for sender, limit in ((net.CUBIC, 0.95), (net.BBR, 0.95), (net.CUBIC_ECN, 0.95), (net.PRAGUE, 0.9)):
        faster = f"{100 - 100 * limit:.0f} %"
        yield claim(
            f"flows-{_SLUGS[sender]}",
            f"{sender}: FQ-CoDel's pages take at least {faster} less time than CoDel's.",
            pages(net.FQ_CODEL, net.CODEL, sender=sender) <= limit,
        )
    yield claim(
        "flows-disciplines",
        "The three disciplines with a queue for each flow differ by at most 10 % in pages, with each sender.",
        every(
            pages(net.FQ_PIE, net.FQ_CODEL).within(0.9, 1.1),
            pages(net.CAKE, net.FQ_CODEL).within(0.9, 1.1),
        ),
    )


def _rooms() -> Iterator[Claim]:
    """What the room of Drop Tail does."""
    quarter, sixteen = net.TAIL["1/4 BDP"], net.TAIL["16 BDP"]
    for sender in (net.CUBIC, net.BBR):
        yield claim(
            f"quarter-{_SLUGS[sender]}",
            f"{sender}: pages with Drop Tail of 1/4 BDP are within 10 % of those with CoDel and PIE.",
            every(*(pages(quarter, one, sender=sender).within(0.9, 1.1) for one in (net.CODEL, net.PIE))),
        )
    yield claim(
        "sixteen-cubic",
        "CUBIC: pages take at least 25 % longer with Drop Tail of 16 BDP than with 1/4 BDP.",
        pages(sixteen, quarter, sender=net.CUBIC) >= 1.25,
    )
    yield claim(
        "sixteen-bbr",
        "BBRv3: pages take at most 10 % longer with Drop Tail of 16 BDP than with 1/4 BDP.",
        pages(sixteen, quarter, sender=net.BBR) <= 1.1,
    )
    log = equal[m.LOG_PAGE].averaged("row")
    yield claim(
        "equal-limits",
        "With equal limits, FQ-CoDel's pages take less time than Drop Tail's, with each sender.",
        pages(net.FQ_CODEL, net.DROP_TAIL, of=log) < 1,
        "equal",
    )
    small = equal[m.LOG_PAGE].among(row=net.rows_with(room=("1/4 BDP",))).averaged("row", "sender")
    yield claim(
        "equal-quarter",
        "With equal limits of 1/4 BDP, FQ-CoDel's pages are within 10 % of Drop Tail's.",
        pages(net.FQ_CODEL, net.DROP_TAIL, of=small).within(0.9, 1.1),
        "equal",
    )


def _http() -> Iterator[Claim]:
    """Whether the version of HTTP changes the gain of FQ-CoDel over Drop Tail."""
    pair = (net.REFERENCE, net.FQ_CODEL)

    def gap(version: str) -> tuple[Variable, Variable]:
        first, second = (among(http=(version,)).averaged("sender").at(queue=one) for one in pair)
        return first, second

    for version in ("3", "1.1"):
        yield claim(
            f"http{version[0]}",
            f"The ratio of Drop Tail's pages to FQ-CoDel's is smaller with HTTP/{version} than with HTTP/2.",
            effects.interaction(
                gap(version),
                gap("2"),
                f"page time, ratio of {pair[0]} to {pair[1]}, HTTP/{version} relative to HTTP/2",
            )
            < 1,
            "by-factor",
        )


def _ecn() -> Iterator[Claim]:
    """What marks instead of drops do to pages, for CUBIC."""
    for name, queues in (("single", net.SINGLE), ("flows", net.PER_FLOW)):
        ours, theirs = (LOG.at(sender=one).among(queue=queues) for one in (net.CUBIC_ECN, net.CUBIC))
        yield claim(
            f"ecn-{name}",
            f"ECN makes CUBIC's pages faster with each of {', '.join(queues)}.",
            effects.effect(ours, theirs, "page time, ratio of CUBIC+ECN to CUBIC") < 1,
        )


def _l4s() -> Iterator[Claim]:
    """Prague behind DualPI2, and behind queues that are not made for it."""
    best = LOG.at(sender=net.CUBIC, queue=net.FQ_CODEL)
    yield claim(
        "prague-dualpi2",
        "Prague with DualPI2: pages are within 10 % of CUBIC's with FQ-CoDel.",
        effects.effect(
            LOG.at(sender=net.PRAGUE, queue=net.DUALPI2),
            best,
            "page time, ratio of Prague with DualPI2 to CUBIC with FQ-CoDel",
        ).within(0.9, 1.1),
    )
    mos = main[m.MOS].averaged("row").at(sender=net.PRAGUE)
    yield claim(
        "prague-dualpi2-call",
        "Prague: the call is at most 0.1 points worse with DualPI2 than with FQ-CoDel.",
        difference(mos, queue=(net.DUALPI2, net.FQ_CODEL)) >= -0.1,
        "household",
    )
    delay = main[m.DOWN_DELAY].averaged("row").at(queue=net.CODEL)
    yield claim(
        "prague-codel-delay",
        "The queueing delay down with CoDel is at least 1.5 times as long with Prague as with CUBIC+ECN.",
        ratio(delay.at(sender=net.PRAGUE), delay.at(sender=net.CUBIC_ECN)) >= 1.5,
        "household",
    )


def _senders() -> Iterator[Claim]:
    """Whether the sender changes the choice of the queue."""
    gaps = {
        one: (LOG.at(sender=one, queue=net.REFERENCE), LOG.at(sender=one, queue=net.FQ_CODEL))
        for one in net.SENDERS
    }
    for sender in (net.BBR, net.PRAGUE):
        yield claim(
            f"gain-{_SLUGS[sender]}",
            f"FQ-CoDel gains less over Drop Tail of 1 BDP with {sender} than with CUBIC.",
            effects.interaction(
                gaps[sender],
                gaps[net.CUBIC],
                f"page time, ratio of {net.REFERENCE} to {net.FQ_CODEL}, {sender} relative to CUBIC",
            )
            < 1,
        )


def _places() -> Iterator[Claim]:
    """Which of the two queues of a slow line matters."""
    log = directions[m.LOG_PAGE]
    up, down = (log.at(where=one, row="busy") for one in (net.UPLINK, net.DOWNLINK))
    yield claim(
        "uplink-pages",
        "20/1: pages take less time with the queue at the uplink only than at the downlink only.",
        effects.effect(up, down, "page time, ratio of the queue at the uplink to the queue at the downlink")
        < 1,
        "directions",
    )
    mos = directions[m.MOS].at(row="busy")
    yield claim(
        "uplink-call",
        "20/1: the call is better with the queue at the uplink only than at the downlink only.",
        difference(mos, where=(net.UPLINK, net.DOWNLINK)) > 0,
        "directions",
    )


def _varying() -> Iterator[Claim]:
    """Whether the advice holds on a line whose rate varies."""
    log = varying[m.LOG_PAGE].at(row="varying")
    yield claim(
        "varying-flows",
        "Varying rate: FQ-CoDel's pages take at most 0.9 times as long as Drop Tail's of 1 BDP, with each "
        "sender.",
        pages(net.FQ_CODEL, of=log) <= 0.9,
        "varying",
    )
    yield claim(
        "varying-single",
        "Varying rate: CoDel's and PIE's pages take at most 0.9 times as long as Drop Tail's of 1 BDP, with "
        "each sender.",
        every(*(pages(one, of=log) <= 0.9 for one in (net.CODEL, net.PIE))),
        "varying",
    )


def _mixed() -> Iterator[Claim]:
    """Whether the sender of the download changes the pages of another sender."""
    log = mixed[m.LOG_PAGE].at(row="download")
    for download in (net.BBR, net.PRAGUE):
        yield claim(
            f"mixed-{_SLUGS[download]}",
            f"CUBIC's pages beside a download by {download} take at least 20 % less time with FQ-CoDel than "
            "with CoDel.",
            pages(net.FQ_CODEL, net.CODEL, of=log, pages=net.CUBIC, download=download) <= 0.8,
            "mixed",
        )
    yield claim(
        "mixed-dualpi2",
        "CUBIC's pages beside a download by Prague take at least 10 % longer with DualPI2 than with "
        "FQ-CoDel.",
        pages(net.DUALPI2, net.FQ_CODEL, of=log, pages=net.CUBIC, download=net.PRAGUE) >= 1.1,
        "mixed",
    )


def _fraction() -> Iterator[Claim]:
    """Whether the fraction has the effects of the whole."""
    whole = factorial[m.LOG_PAGE].averaged("setting")
    part = LOG.at(sender=net.CUBIC)
    for queue in SLICE[1:]:
        yield claim(
            f"fraction-{_SLUGS[queue]}",
            f"The effect of {queue} in the 16 rows is within 10 % of its effect in all settings, with CUBIC.",
            effects.interaction(
                (part.at(queue=queue), part.at(queue=net.REFERENCE)),
                (whole.at(queue=queue), whole.at(queue=net.REFERENCE)),
                f"page time, ratio of {queue} to {net.REFERENCE}, 16 rows relative to all settings",
            ).within(0.9, 1.1),
        )


CLAIMS = (
    *_table_claims(),
    *_video(),
    *_flow_queues(),
    *_rooms(),
    *_http(),
    *_ecn(),
    *_l4s(),
    *_senders(),
    *_places(),
    *_varying(),
    *_mixed(),
    *_fraction(),
)

# Figures and tables

RATIO = "page time, ratio to DT of 1 BDP"
CAPTION = (
    "Ratio of the geometric means over the 16 rows, with the 95 % interval over the seeds. Drop Tail (DT) "
    "has the room in its name; the other queues have their own limits."
)


def beside(of: Variable, queues: Sequence[str] = OTHERS, reference: str = net.REFERENCE) -> Query:
    """The effects of queues on pages."""
    found = stacked("queue", {one: pages(one, reference, of) for one in queues})
    return found.relabelled(queue=_in_two_lines)


def _in_two_lines(queue: str) -> str:
    return queue.replace(f"{net.DROP_TAIL} ", "DT\n")


def _by_factor() -> Query:
    """The effects at each value of each factor of the array, averaged over the senders."""
    found = {}
    for factor, values in net.FACTORS.items():
        for value in dict.fromkeys(values if factor != "room" else ()):
            title = f"{factor} {value}" if factor != "load" else str(value)
            log = among(**{factor: (value,)}).averaged("sender")
            found[title] = stacked("queue", {one: pages(one, of=log) for one in OTHERS})
    return stacked("rows with", found)


def _bars(shown: Query, y_limits: tuple[float, float] = (0.4, 4.0)) -> Line:
    """Bars of effects by sender, from a common lower limit, on a logarithmic axis."""
    return line(
        shown,
        x="queue",
        by="sender",
        kind="bars",
        y_label=RATIO,
        log_y=True,
        y_limits=y_limits,
        beneath={"": RATIO},
        levels={"": 1.0},
    )


SHOWN: tuple[Figure | Table, ...] = (
    Figure("pages", "Page times with each queue and sender", _bars(beside(LOG)), CAPTION),
    Table(
        "household",
        "Pages, call, long transfers and delays, averaged over senders and rows",
        listed(
            {
                "page (s)": main[m.PAGE].averaged("row", "sender"),
                "95 % of pages (s)": main[m.P95].averaged("row", "sender"),
                "unfinished (%)": main[m.UNFINISHED].averaged("row", "sender"),
                "call (MOS)": MOS,
                "download (%)": DOWN,
                "upload (%)": UP,
                "delay down (ms)": main[m.DOWN_DELAY].averaged("row", "sender"),
                "delay up (ms)": main[m.UP_DELAY].averaged("row", "sender"),
            },
            "queue",
        ),
        "Means over the seeds ± half of their 95 % interval. The shares are those of the line's rate.",
    ),
    Table(
        "by-sender",
        "Pages, call and delays by sender, averaged over rows",
        listed(
            {
                "page (s)": main[m.PAGE].averaged("row"),
                "call (MOS)": main[m.MOS].averaged("row"),
                "download (%)": main[m.DOWN_SHARE].among(row=net.DOWN_ROWS).averaged("row"),
                "delay down (ms)": main[m.DOWN_DELAY].averaged("row"),
                "delay up (ms)": main[m.UP_DELAY].averaged("row"),
            },
            "sender",
            "queue",
        ),
    ),
    Table("by-factor", "Page times by factor", listed({RATIO: _by_factor()}, "rows with", "queue"), CAPTION),
    Figure(
        "equal",
        "Page times with equal limits",
        _bars(beside(equal[m.LOG_PAGE].averaged("row"), EQUAL_QUEUES, net.DROP_TAIL)),
        "Ratio to Drop Tail with the same limit, averaged over the 16 rows, whose limits are 1/4, 1, 4 and "
        "16 BDP.",
    ),
    Figure(
        "directions",
        "20/1 with a download and an upload: a queue in one or both directions",
        line(query(directions[m.PAGE].at(row="busy")), x="queue", by="where", panel="sender", kind="bars"),
        "Links without the queue have Drop Tail of 1 BDP.",
    ),
    Figure(
        "varying",
        "Page times on a line whose rate varies",
        _bars(beside(varying[m.LOG_PAGE].at(row="varying")), (0.15, 4.0)),
        "The downlink has a new rate from 5 to 80 Mb/s every second.",
    ),
    Figure(
        "mixed",
        "Page times beside a download by another sender",
        line(query(mixed[m.PAGE].at(row="download")), x="queue", by="download", panel="pages", kind="bars"),
        "100/10 Mb/s, HTTP/2; a panel for each sender of the pages.",
    ),
    Table(
        "video",
        "A video call beside a download and an upload, averaged over the two lines",
        listed(
            {
                "freezes per minute": video[FREEZES].averaged("line"),
                "time frozen (%)": video[FROZEN].averaged("line"),
                "rate (Mb/s)": video[VIDEO_RATE].averaged("line"),
            },
            "sender",
            "queue",
        ),
    ),
    Table(
        "model",
        "Terms of the linear model of the logarithm of page times",
        effects.anova(main.name, m.LOG_PAGE.name),
        "The typical factor is the root mean square of the term, as a factor of the page time.",
        (main,),
    ),
    Table(
        "residuals",
        "Residuals of the linear model, as factors of the page time",
        effects.residuals_by_queue(main.name, m.LOG_PAGE.name),
        "Worst: the largest mean residual over the seeds of a sender in a row.",
        (main,),
    ),
)


def answer(found: Verdicts) -> list[str]:
    """The effects of the best and the worst queue on pages, and the number of claims by verdict."""
    ratios = {queue: found.of(f"pages-{_SLUGS[queue]}").value for queue in OTHERS}
    ratios = {queue: value for queue, value in ratios.items() if value is not None}
    verdicts = [one.evidence.verdict for one in found]
    counted = ", ".join(f"{verdicts.count(one)} {word}" for one, word in stats.PLURALS.items())
    sentences = [f"Claims: {counted}."]
    if ratios:
        best, worst = (pick(ratios, key=lambda one: ratios[one]) for pick in (min, max))
        sentences.insert(
            0,
            f"Averaged over senders and households, pages take {ratios[best]:.2f} times as long with "
            f"{best} as with Drop Tail of 1 BDP, and {ratios[worst]:.2f} times as long with {worst}.",
        )
    return sentences


STUDY = Study.of(
    "which-queue",
    "Which queue for Web traffic?",
    *EXPERIMENTS,
    *CLAIMS,
    *SHOWN,
    *net.DECISIONS,
    question="Which queue serves the pages, the call and the long transfers of a household best, with the "
    "senders of 2026?",
    answer=answer,
)

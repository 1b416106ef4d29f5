"""The queue disciplines of `tc` as queues of a scenario. Each function reads the options of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aqmlab.tc import red
from aqmlab.tc.options import Options, codel_time, gain, packets, rate, size, ticks_time, time

Queue = dict[str, Any]


def _pfifo(options: Options, _link: int) -> Queue:
    return {"kind": "drop-tail", "limit": packets(options.count("limit"))}


def _bfifo(options: Options, _link: int) -> Queue:
    return {"kind": "drop-tail", "limit": size(options.count("limit"))}


def _codel_settings(options: Options) -> Queue:
    """Returns the parameters that `codel` and `fq_codel` have in common."""
    queue: Queue = {
        name: time(codel_time(options.count(name))) for name in ("target", "interval") if options.has(name)
    }
    queue["ecn"] = options.flag("ecn")
    if options.has("ce_threshold"):
        queue["ce_threshold"] = time(codel_time(options.count("ce_threshold")))
    return queue


def _codel(options: Options, _link: int) -> Queue:
    return {"kind": "codel", "limit": packets(options.count("limit")), **_codel_settings(options)}


def _flow_queues(options: Options) -> Queue:
    queue: Queue = {"flows": options.count("flows"), "quantum": size(options.count("quantum"))}
    if options.has("memory_limit"):
        queue["memory_limit"] = size(options.count("memory_limit"))
    return queue


def _fq_codel(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "fq-codel", "limit": packets(options.count("limit"))}
    queue |= _flow_queues(options) | _codel_settings(options)
    if options.has("drop_batch"):
        queue["drop_batch"] = options.count("drop_batch")
    selector, mask = options.count("ce_threshold_selector", 0), options.count("ce_threshold_mask", 0)
    if (selector, mask) != (0, 0):
        queue |= {"ce_threshold_selector": selector, "ce_threshold_mask": mask}
    return queue


def _pie_settings(options: Options) -> Queue:
    """Returns the parameters that `pie` and `fq_pie` have in common."""
    queue: Queue = {
        "target": time(ticks_time(options.count("target"))),
        "tupdate": time(options.count("tupdate")),
        # `tc` counts in units of 1/16 Hz.
        "alpha": options.count("alpha") / 16,
        "beta": options.count("beta") / 16,
        **{name: options.flag(name) for name in ("ecn", "bytemode", "dq_rate_estimator")},
    }
    options.document.notes.append(
        f"{options.at}.tupdate: the kernel has rounded the value up to whole ticks; set hz to CONFIG_HZ "
        f"of the kernel unless its value is 1000"
    )
    return queue


def _pie(options: Options, _link: int) -> Queue:
    return {"kind": "pie", "limit": packets(options.count("limit")), **_pie_settings(options)}


def _fq_pie(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "fq-pie", "limit": packets(options.count("limit"))}
    queue |= _flow_queues(options) | _pie_settings(options)
    return queue | {"ecn_prob": options.count("ecn_prob")}


def _red(options: Options, link: int) -> Queue:
    thresholds = options.count("min"), options.count("max")
    queue = {"kind": "linux-red", "limit": size(options.count("limit")), **red.size_pair(thresholds)}
    queue |= red.curve(options, thresholds, 1, link) | red.flags(options)
    nodrop, adaptive = options.flag("nodrop"), options.flag("adaptive")
    if nodrop and queue["ecn"]:
        queue["nodrop"] = True
    return queue | ({"adaptive": True} if adaptive else {})


def _choke(options: Options, link: int) -> Queue:
    thresholds = options.count("min"), options.count("max")
    queue = {"kind": "choke", "limit": packets(options.count("limit"))}
    queue |= {"min": packets(thresholds[0]), "max": packets(thresholds[1])}
    queue |= red.curve(options, thresholds, red.AVPKT, link)
    options.skip("matched")
    for name in ("harddrop", "adaptive", "nodrop"):
        options.skip_if_off(name, "CHOKe has no such parameter")
    return queue | {"ecn": options.flag("ecn")}


def _gred(options: Options, link: int) -> Queue:
    options.skip("dp_cnt", "ecn", "harddrop", "adaptive", "nodrop")
    by_number = {}
    for vq in options.tables("vqs"):
        thresholds = vq.count("min"), vq.count("max")
        number = vq.count("vq", most=15)
        virtual = {"limit": size(vq.count("limit")), **red.size_pair(thresholds)}
        prio = vq.count("prio", 0)
        by_number[number] = virtual | red.curve(vq, thresholds, 1, link) | red.flags(vq)
        if options.flag("grio") and prio:
            by_number[number]["prio"] = prio
        vq.skip("adaptive", "nodrop")
    if sorted(by_number) != list(range(len(by_number))) or not by_number:
        raise options.document.error(
            f"{options.at}.vqs",
            f"must have the numbers 0, 1, 2 and so on without gaps (got {sorted(by_number)}); configure "
            f"all of them with `tc qdisc change ... gred vq N`",
        )
    queue: Queue = {"kind": "gred", "default": options.count("dp_default", most=15)}
    if len(by_number) > 1:
        queue["grio"] = options.flag("grio")
    else:
        options.skip("grio")
        by_number[0].pop("prio", None)
    if options.has("limit"):
        queue["limit"] = size(options.count("limit"))
    return queue | {"vqs": [by_number[number] for number in sorted(by_number)]}


def _sfb(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "sfb"}
    queue |= {name: packets(options.count(name)) for name in ("limit", "max", "target")}
    queue |= {name: options.number(name) for name in ("increment", "decrement")}
    queue |= {name: options.count(name) for name in ("penalty_rate", "penalty_burst")}
    rehash = options.count("rehash")
    db = options.count("db")
    return queue | ({"rehash": time(rehash), "db": time(db)} if rehash else {"rehash": "0s"})


def _sfq(options: Options, link: int) -> Queue:
    limit, depth = options.count("limit"), options.count("depth", 127)
    flows, divisor = options.count("flows", 128), options.count("divisor", 1024)
    queue: Queue = {"kind": "sfq", "depth": depth, "divisor": divisor, "flows": flows}
    # A limit of 127 packets is the default. If the limit was set nevertheless, the number of queues, which
    # the kernel has then reduced to at most 127, is the number that `tc` shows.
    if limit != 127:
        queue["limit"] = packets(limit)
    if depth > 1:
        queue["quantum"] = size(options.count("quantum"))
    options.skip("quantum")
    if perturb := options.count("perturb", 0):
        queue["perturb"] = time(perturb * 1_000_000)
    if options.flag("headdrop"):
        queue["headdrop"] = True
    if options.has("min") and options.has("max"):
        thresholds = options.count("min"), options.count("max")
        queue |= {"redflowlimit": size(4 * thresholds[1]), **red.size_pair(thresholds)}
        queue |= red.curve(options, thresholds, 1, link) | red.flags(options)
        queue.pop("bandwidth", None)
        options.document.notes.append(
            f"{options.at}: redflowlimit is not in the output, so it is four times max, as by default"
        )
    options.skip("adaptive", "nodrop")
    return queue


def _fq(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "fq", "limit": packets(options.count("limit"))}
    queue["flow_limit"] = packets(options.count("flow_limit"))
    queue |= {name: options.count(name) for name in ("buckets", "orphan_mask") if options.has(name)}
    queue |= {name: size(options.count(name)) for name in ("quantum", "initial_quantum")}
    queue["refill_delay"] = time(options.count("refill_delay"))
    if options.has("timer_slack"):
        queue["timer_slack"] = time(options.count("timer_slack") / 1000)
    if options.has("pacing") and not options.flag("pacing"):
        queue["pacing"] = False
    if options.has("maxrate"):
        queue["maxrate"] = rate(options.count("maxrate"))
    # `tc` omits a threshold of zero bytes per second.
    low = options.count("low_rate_threshold", 0)
    queue["low_rate_threshold"] = rate(low) if low else "1bps"
    if options.has("ce_threshold"):
        queue["ce_threshold"] = time(options.count("ce_threshold"))
    if options.has("bands"):
        options.count("bands", most=3)
        queue |= {
            "kernel": "6.18",
            "priomap": options.numbers("priomap"),
            "weights": options.numbers("weights"),
        }
    # The senders of aqmlab set no departure times, so these options have no effect.
    options.skip("horizon", "horizon_drop", "offload_horizon")
    options.skip_if_off("defrate", "the kernel ignores this option")
    return queue


_CAKE_FLOWS = (
    *("flowblind", "srchost", "dsthost", "hosts", "flows"),
    *("dual-srchost", "dual-dsthost", "triple-isolate"),
)
_CAKE_TINS = ("diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence")
_ACK_FILTERS = {"disabled": "disabled", "enabled": "conservative", "aggressive": "aggressive"}


def _cake(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "cake"}
    if options.values.get("bandwidth") == "unlimited":
        options.skip("bandwidth")
    elif options.has("bandwidth") and (bandwidth := options.count("bandwidth", most=2**60)):
        queue["bandwidth"] = rate(bandwidth)
    if options.has("autorate"):
        options.word("autorate", ("autorate-ingress",))
        queue["autorate_ingress"] = True
    queue["diffserv"] = options.word("diffserv", _CAKE_TINS, "diffserv3")
    queue["flows"] = options.word("flowmode", _CAKE_FLOWS, "triple-isolate")
    queue["ingress"] = options.flag("ingress")
    queue["ack_filter"] = _ACK_FILTERS[options.word("ack-filter", tuple(_ACK_FILTERS), "disabled")]
    queue["rtt"] = time(options.count("rtt"))
    overhead = options.signed("overhead")
    if not options.flag("raw"):
        queue["overhead"] = overhead
    if options.has("atm"):
        queue["atm"] = options.word("atm", ("noatm", "atm", "ptm"))
    if mpu := options.count("mpu", 0):
        queue["mpu"] = size(mpu)
    if memory := options.count("memlimit", 0):
        queue["memlimit"] = size(memory)
    options.skip("split_gso")
    for name in ("nat", "wash", "fwmark"):
        options.skip_if_off(name, "aqmlab has no such parameter")
    return queue


def _dualpi2(options: Options, _link: int) -> Queue:
    queue: Queue = {"kind": "dualpi2", "limit": packets(options.count("limit"))}
    queue["memory_limit"] = size(options.count("memory-limit"))
    queue |= {name: time(options.count(name)) for name in ("target", "tupdate")}
    queue |= {name: gain(options.number(name)) for name in ("alpha", "beta")}
    queue["coupling"] = float(options.count("coupling", most=255))
    if options.has("step-thresh-pkts"):
        queue["step_thresh_packets"] = options.count("step-thresh-pkts")
    else:
        queue["step_thresh"] = time(options.count("step-thresh-us"))
    queue["min_qlen_step"] = options.count("min-qlen-step", 0)
    queue["drop_overload"] = options.word("drop-overload", ("drop", "overflow")) == "drop"
    queue["drop_early"] = options.word("drop-early", ("drop-enqueue", "drop-dequeue")) == "drop-enqueue"
    queue["c_protection"] = options.count("c-protection", most=100) / 100
    queue["ecn_mask"] = options.word("ecn-mask", ("l4s-ect", "any-ect"))
    options.skip("split-gso")
    return queue


READERS: Mapping[str, Callable[[Options, int], Queue]] = {
    "pfifo": _pfifo,
    "bfifo": _bfifo,
    "codel": _codel,
    "fq_codel": _fq_codel,
    "pie": _pie,
    "fq_pie": _fq_pie,
    "red": _red,
    "choke": _choke,
    "gred": _gred,
    "sfb": _sfb,
    "sfq": _sfq,
    "fq": _fq,
    "cake": _cake,
    "dualpi2": _dualpi2,
}
"""Reader of each kind. The arguments are the options and the rate of the link in bytes per second."""

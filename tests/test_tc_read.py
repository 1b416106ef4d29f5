"""Queues from the output of tc: recorded outputs of a real kernel, links, devices and refusals."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

import aqmlab as al
from aqmlab import _core, tc
from aqmlab.tc.kinds import READERS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "reference"))

import tc_kernel  # noqa: E402
import tc_queues  # noqa: E402

RECORDED = json.loads((ROOT / "tests" / "tc_outputs" / "linux.json").read_text(encoding="utf-8"))
LINE = "10Mbps"

DUALPI2 = {
    "kind": "dualpi2", "handle": "1:", "dev": "eth0", "root": True, "refcnt": 2,
    "options": {
        "limit": 10000, "memory-limit": 30280000, "target": 15000, "tupdate": 16000, "alpha": 0.15625,
        "beta": 3.195312, "step-thresh-us": 1000, "min-qlen-step": 0, "coupling": 2, "drop-overload": "drop",
        "drop-early": "drop-dequeue", "c-protection": 10, "ecn-mask": "l4s-ect", "split-gso": None,
    },
    "bytes": 0, "packets": 0, "drops": 0, "overlimits": 0, "requeues": 0, "backlog": 0, "qlen": 0,
    "prob": 0, "delay-c": 0, "delay-l": 0, "pkts-in-c": 0, "pkts-in-l": 0, "maxq": 0, "ecn-mark": 0,
}  # fmt: skip
"""An output of iproute2 since 6.17, which no test machine has: the fields of tc/q_dualpi2.c."""


def read(*entries: dict[str, Any], **options: Any) -> tc.Reading:
    return tc.read(json.dumps(entries), file="tc.json", **options)


def entry(kind: str, options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """An object of the output, at the root of eth0 unless `parent` says otherwise."""
    place = {} if "parent" in fields else {"root": True, "refcnt": 2}
    return {"kind": kind, "handle": "1:", "dev": "eth0", **place, "options": options or {}, **fields}


def codel(**fields: Any) -> dict[str, Any]:
    return entry("codel", {"limit": 1000, "target": 4999, "interval": 99999}, **fields)


@pytest.mark.parametrize("record", RECORDED["links"], ids=lambda record: str(record["link"]["queue"])[:60])
def test_a_queue_that_a_kernel_shows_is_the_queue_that_was_written(record: dict[str, Any]) -> None:
    one = tc_kernel.case(record["link"])
    # The recorded commands were executed by the kernel.
    assert list(one.lines) == record["lines"]
    assert list(tc_kernel.problems(one, {"commands": "", "undo": "", **record["shown"]})) == []


def test_every_kind_is_recorded_or_has_an_output_of_its_own() -> None:
    shown = {
        found["kind"]
        for record in RECORDED["links"]
        for text in record["shown"].values()
        for found in json.JSONDecoder().raw_decode(text)[0]
    }
    assert READERS.keys() - shown <= {"dualpi2", "fq_pie"}
    assert set(tc_queues.VARIANTS) == set(_core.tc_kinds())


@pytest.mark.parametrize("kind", ["dualpi2", "fq-pie"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_queue_that_no_recorded_kernel_has_survives_the_round_trip(kind: str, number: int) -> None:
    table = {"kind": kind, **tc_queues.VARIANTS[kind][number], **({"hz": 0} if kind == "fq-pie" else {})}
    options = json.loads(_core.tc_qdisc(json.dumps(table), LINE, "eth0", False))["options"]
    found = read(entry(options.pop("kind"), options))
    again = tc_kernel.arguments(dict(found.queue), LINE)
    assert again == tc_kernel.arguments(table, LINE)


def test_dualpi2_is_read() -> None:
    found = read(DUALPI2)
    assert tc_kernel.arguments(dict(found.queue), LINE) == tc_kernel.arguments({"kind": "dualpi2"}, LINE)
    assert [note.split(":")[0] for note in found.notes] == [
        "the rate of the link is not in the output; add `rate` to the table",
        "skipped statistics",
    ]


def test_the_statistics_of_a_run_can_be_read_back() -> None:
    table = {"rate": "2Mbps", "delay": "5ms", "queue": {"kind": "fq-codel", "limit": "600p"}}
    scenario = {"duration": "1s", "warm_up": "0s", "bottleneck": table, "record": {"tc_statistics": True}}
    run = al.Scenario.from_dict({**scenario, "traffic": {"f": {"kind": "ftp"}}}).run()
    found = tc.read(json.dumps(run.manifest["qdiscs"]), dev="bottleneck")
    assert found.queue["limit"] == "600p" and found.queue["target"] == "5ms"


def test_times_are_those_that_the_kernel_rounded() -> None:
    assert read(codel()).queue == {
        "kind": "codel", "limit": "1000p", "target": "5ms", "interval": "100ms", "ecn": False,
    }  # fmt: skip


def test_outer_disciplines_give_the_link_its_rate_and_delay() -> None:
    htb = entry("htb", {"r2q": 10, "default": "0x1"}, handle="1:")
    inner = codel(handle="10:", parent="1:1")
    line = "class htb 1:1 root leaf 10: prio 0 quantum 1514 rate 9500Kbit ceil 9500Kbit burst 1600b/1"
    text = f"{json.dumps([htb, inner])}\n{line}\n Sent 0 bytes 0 pkt\n rate 0bit 0pps\n"
    assert tc.read(text).link["rate"] == "9500kbps"
    classes = json.dumps([{"class": "htb", "handle": "1:1", "root": True, "rate": 1187500, "ceil": 1250000}])
    found = tc.read(json.dumps([htb, inner]) + classes)
    assert found.link["rate"] == "9500kbps" and any("ceil" in note for note in found.notes)
    assert any("append the output of `tc -j class show" in note for note in read(htb, inner).notes)
    assert tc.read(text, handle="10").link == tc.read(text).link
    tbf = entry("tbf", {"rate": 1250000, "burst": "3000b/1", "lat": 45600, "linklayer": "ethernet"})
    assert read(tbf).link == {"rate": "10Mbps", "queue": {"kind": "drop-tail", "limit": "60000B"}}
    assert read(tbf, codel(handle="2:", parent="1:1")).link["queue"]["kind"] == "codel"


def test_netem_gives_the_link_delay_loss_and_reordering() -> None:
    delay = {"delay": 0.06, "jitter": 0.005, "correlation": 0.25}
    options = {
        "limit": 2000, "delay": delay, "loss-gemodel": {"p": 0.01, "r": 0.2, "1-h": 0.9, "1-k": 0.005},
        "rate": {"rate": 125000, "packetoverhead": 0, "cellsize": 0, "celloverhead": 0},
        "duplicate": {"duplicate": 0.01, "correlation": 0}, "ecn": False, "gap": 0,
    }  # fmt: skip
    found = read(entry("netem", options))
    assert found.link == {
        "rate": "1Mbps",
        "delay": "55ms",
        "loss": {"p": 0.01, "r": 0.2, "loss_in_bad": 0.9, "loss_in_good": 0.005},
        "reordering": {"probability": 1.0, "delay": "0s", "jitter": "10ms"},
        "queue": {"kind": "drop-tail", "limit": "2000p"},
    }
    skipped = [note.split(":")[0] for note in found.notes]
    assert skipped == ["0.options.delay.correlation", "0.options.duplicate"]
    scenario = {"duration": "1s", "bottleneck": dict(found.link), "traffic": {"f": {"kind": "ftp"}}}
    assert al.Scenario.from_dict(scenario).effective["bottleneck"]["delay"] == "55ms"


def test_equal_hardware_queues_are_one_queue() -> None:
    mq = entry("mq", handle="8001:")
    inner = [codel(handle=f"{n}:", parent=f"8001:{n}") for n in (1, 2)]
    found = read(mq, *inner)
    assert found.queue["kind"] == "codel" and any("2 equal queues" in note for note in found.notes)
    other = entry("pfifo", {"limit": 9}, handle="2:", parent="8001:2")
    with pytest.raises(tc.TcError, match=r"2 queues: choose one with --handle: 1: \(codel\), 2: \(pfifo\)"):
        read(mq, inner[0], other)
    assert read(mq, inner[0], other, handle="2:").queue["limit"] == "9p"


def test_a_device_is_chosen_if_there_are_several() -> None:
    idle = entry("noqueue", dev="lo", handle="0:")
    two = [codel(), codel(dev="wlan0"), idle]
    with pytest.raises(tc.TcError, match=r"contains several devices: choose one with --dev: eth0, wlan0$"):
        read(*two)
    assert read(codel(), idle).queue["kind"] == "codel"
    with pytest.raises(tc.TcError, match=r"contains no device `wlan`: did you mean wlan0\?"):
        read(*two, dev="wlan")
    assert read(*two, dev="wlan0").queue["kind"] == "codel"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "tc.json: contains no queue discipline; run `tc -j -s -d qdisc show dev DEVICE`"),
        ("qdisc codel 1: root", "tc.json: line 1: is the output of tc without -j; run"),
        ("hello", "tc.json: line 1: is not an output of tc (got 'hello'); run"),
        ('[{"kind": "codel",}]', "tc.json: line 1, column 19: is not valid JSON: "),
        ("[NaN]", "NaN is not a JSON number"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1]", "tc.json: 0: must be an object (got 1)"),
        ('[{"handle": "1:"}]', "tc.json: 0.kind: is missing"),
        ('[{"kind": 7}]', "tc.json: 0.kind: must be a text (got 7)"),
        (json.dumps([entry("codel", {"limit": 1000, "target": "5ms"})]),
         'tc.json: 0.options.target: must be a whole number from 0 to 4294967295 (got "5ms")'),
        (json.dumps([entry("codel", {"target": 5})]), "0.options.limit: is missing: must be a whole number"),
        (json.dumps([entry("codel", {"limit": 0})]),
         "tc.json: 0.options: cannot be a queue of aqmlab: limit: must be at least 1p"),
        (json.dumps([entry("hfsc")]), "tc.json: 0.kind: `hfsc` cannot be read; available: pfifo"),
        (json.dumps([entry("pfifo_fast")]), "so write a `drop-tail` with this limit"),
        (json.dumps([entry("prio"), codel(handle="2:", parent="1:1")]),
         "choose one of its queues with --handle: 2:"),
        (json.dumps([entry("htb")]), "tc.json: 0: `htb` contains no queue"),
        (json.dumps([codel(parent="1:1")]),
         "contains no discipline at the root: choose one with --handle: 1:"),
        (json.dumps([entry("cake", {"rtt": 100000, "flowmode": "flow", "overhead": 0})]),
         'tc.json: 0.options.flowmode: must be flowblind or srchost'),
    ],
)  # fmt: skip
def test_an_output_that_cannot_be_read_is_refused_with_place_and_cure(text: str, problem: str) -> None:
    with pytest.raises(tc.TcError) as error:
        tc.read(text, file="tc.json")
    assert problem in str(error.value)


def test_unknown_options_are_reported() -> None:
    found = read(entry("codel", {"limit": 9, "target": 4999, "interval": 99999, "colour": "red"}))
    assert "0.options: skipped options of codel that aqmlab does not have: colour" in found.notes


def test_the_command_prints_a_table_for_a_scenario(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "qdiscs.json"
    file.write_text(json.dumps([codel(packets=7)]), encoding="utf-8")
    done = cli("tc", "read", str(file), "--link", "links.up")
    assert tomllib.loads(done.stdout)["links"]["up"]["queue"]["target"] == "5ms"
    assert done.stderr.splitlines() == [
        f"aqmlab: {file}: the rate of the link is not in the output; add `rate` to the table",
        f"aqmlab: {file}: skipped statistics: packets",
    ]
    assert json.loads(cli("tc", "read", str(file), "--json").stdout)["link"]["queue"]["kind"] == "codel"
    missing = cli("tc", "read", str(tmp_path / "none.json"))
    assert missing.returncode == 2 and "none.json" in missing.stderr

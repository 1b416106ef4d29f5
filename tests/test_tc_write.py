"""Links as commands for Linux: the arrangement of devices, what tc cannot express, and the other formats."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

import aqmlab as al
from aqmlab import tc

CABLE = "cable"
ELASTIC = Path(__file__).parent.parent / "scenarios" / "flow-level" / "elastic.toml"
ROUTER = {"kind": "codel", "ecn": True}
REVERSE = {"rate": "1Mbps"}
NESTED = {"kind": "htb", "classes": {"a": {"rate": "1Mbps"}, "b": {"rate": "1Mbps", "parent": "a"}}}


def scenario(**bottleneck: Any) -> al.Scenario:
    """A link of 10 Mbps without delay."""
    table = {"rate": "10Mbps", "delay": "0s", "queue": ROUTER, **bottleneck}
    return al.Scenario.from_dict({"duration": "1s", "bottleneck": table, "traffic": {"f": {"kind": "ftp"}}})


def test_without_a_delay_the_device_itself_shapes_and_queues() -> None:
    commands = tc.write(scenario(), device="wan0")
    assert commands.lines == (
        "tc qdisc add dev wan0 root handle 1: htb default 0x1 r2q 10",
        "tc class add dev wan0 parent 1: classid 1:1 htb rate 10Mbit ceil 10Mbit burst 1600 cburst 1600 "
        "quantum 1514",
        "tc qdisc add dev wan0 parent 1:1 handle 2: codel limit 1000 target 5ms interval 100ms ecn",
    )
    assert commands.undo == ("tc qdisc del dev wan0 root",)
    assert commands.limits == ()


def test_a_delay_follows_the_shaper() -> None:
    commands = tc.write(scenario(delay="30ms", loss={"probability": 0.01}))
    kinds = [line for line in commands.lines if line.startswith(("ip", "tc filter")) or "netem" in line]
    assert kinds == [
        "ip link add out4eth0 type ifb",
        "ip link set dev out4eth0 up",
        # 10 Mbit/s for 30 ms are 586 frames of 64 bytes.
        "tc qdisc add dev eth0 root handle 1: netem limit 1586 delay 30ms loss random 1%",
        "tc filter add dev eth0 egress matchall action mirred egress redirect dev out4eth0",
    ]
    assert commands.undo == (
        "tc qdisc del dev eth0 clsact",
        "tc qdisc del dev eth0 root",
        "ip link del out4eth0",
    )
    assert tc.write(scenario(delay="30ms"), netem=False).lines == tc.write(scenario()).lines


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (
            {"loss": {"p": 0.01, "r": 0.2, "loss_in_good": 0.001, "loss_in_bad": 0.9}},
            ["handle 1: netem limit 1000 loss gemodel 1% 20% 90% 0.1%"],
        ),
        (
            {"delay": "1500us", "reordering": {"probability": 0.02, "delay": "5ms", "jitter": "2ms"}},
            [
                "root handle 1: netem limit 1030 delay 1500us",
                "parent 1:1 handle 2: netem limit 1137 delay 6ms 1ms reorder 98%",
            ],
        ),
        (
            {"reordering": {"probability": 1.0, "delay": "5ms"}},
            ["root handle 1: netem limit 1098 delay 5ms"],
        ),
        ({"reordering": {"probability": 0.0}}, []),
    ],
)
def test_netem_imitates_the_channel(channel: dict[str, Any], words: list[str]) -> None:
    found = [line for line in tc.write(scenario(**channel)).lines if "netem" in line]
    assert len(found) == len(words)
    assert all(line.endswith(part) for line, part in zip(found, words, strict=True))


def test_both_directions_of_a_line_share_the_filters() -> None:
    cable = al.Scenario.load(CABLE)
    commands = tc.write(cable, "up", download="down", netem_device="lan0")
    assert commands.lines.count("tc qdisc add dev eth0 clsact") == 1
    redirect = "tc filter add dev eth0 ingress matchall action mirred egress redirect dev ifb4eth0"
    assert redirect in commands.lines
    assert "tc qdisc add dev lan0 root handle 1: netem limit 2954 delay 10ms" in commands.lines
    assert commands.undo[0] == "tc qdisc del dev eth0 clsact"
    assert {"ip link del ifb4eth0", "tc qdisc del dev lan0 root"} <= set(commands.undo)
    assert any(limit.startswith("links.up.rate: the shaper of the queue") for limit in commands.limits)
    without = tc.write(cable, None, download="down")
    assert "out4eth0" not in "\n".join(without.lines)
    assert any("links.down.delay" in limit and "--netem-device" in limit for limit in without.limits)


def test_a_reverse_link_is_chosen_by_direction() -> None:
    table = {"rate": "1Mbps", "queue": {"kind": "drop-tail", "limit": "60p"}}
    both = scenario(reverse=table)
    commands = tc.write(both, direction="reverse")
    assert "pfifo limit 60" in commands.lines[-1]
    assert commands == tc.write(both, "bottleneck-back")


def test_what_tc_cannot_express_is_listed_with_its_path() -> None:
    commands = tc.write(
        scenario(
            rate="9999999bps",
            rate_steps=[{"at": "20s", "rate": "4Mbps"}],
            delay_steps=[{"at": "1s", "delay": "2ms"}],
            random_outages={"mean_up": "10s"},
            aggregation={"packets": 4},
            queue={"kind": "codel", "profile": "rfc", "mtu": "1000B"},
        )
    )
    paths = [limit.split(": ")[0] for limit in commands.limits]
    keys = ["rate", "rate_steps", "random_outages", "aggregation", "delay_steps", "queue.profile"]
    keys.append("queue.mtu")
    assert paths == [f"bottleneck.{key}" for key in keys]
    assert "rate 9999992bit" in commands.lines[1]
    text = commands.text()
    assert "# tc cannot express: bottleneck.queue.profile: the kernel always uses its own variant" in text
    assert commands.text(undo=True) == "tc qdisc del dev eth0 root\n"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: tc.write(scenario(queue={"kind": "red"})), "bottleneck.queue.kind: does not exist in Linux"),
        (lambda: tc.write(scenario(), "uplink"), "link: no link is named `uplink`"),
        (lambda: tc.write(scenario(), direction="reverse"), "the link `bottleneck` has no reverse link"),
        (lambda: tc.write(scenario(reverse=REVERSE), direction="reverse"), "bottleneck-back has no queue"),
        (lambda: tc.write(scenario(), None), "link: is missing"),
        (lambda: tc.write(scenario(), device="eth0; reboot"), "device: must be the name of a network device"),
        (lambda: tc.write(scenario(), device="a-name-that-is-too-long"), "device: must be the name"),
        (lambda: tc.write(scenario(), netem_device="lan0"), "netem_device: applies only to the link of a"),
        (lambda: tc.write(al.Scenario.load(ELASTIC)), "level: must be packet"),
        (lambda: tc.sqm(scenario(queue={"kind": "sfb"})), "cannot be configured with sqm-scripts"),
        (lambda: tc.networkd(scenario(queue={"kind": "choke"})), "cannot be configured with networkd"),
        (lambda: tc.networkd(scenario(queue=NESTED)), "does not create classes inside classes"),
    ],
)  # fmt: skip
def test_a_link_that_cannot_be_written_is_refused(call: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=r".*") as error:
        call()
    assert problem in str(error.value)


def test_long_device_names_lose_their_beginning() -> None:
    commands = tc.write(scenario(delay="1ms"), device="wlp0s20f3-guest")
    assert commands.lines[0] == "ip link add out4s20f3-guest type ifb"


def options(commands: tc.Commands) -> dict[str, str]:
    """The options of a section of /etc/config/sqm."""
    words = (line.split(" ", 2) for line in commands.lines if line.startswith("\toption"))
    return {name: value.strip("'") for _, name, value in words}


def test_sqm_gets_every_argument_of_the_queue() -> None:
    found = options(tc.sqm(al.Scenario.load(CABLE), "up", "eth1.2", download="down"))
    assert found["upload"] == "9500" and found["download"] == "90000"
    assert (found["qdisc"], found["script"]) == ("cake", "layer_cake.qos")
    common = "nonat nowash"
    assert found["eqdisc_opts"] == (
        f"diffserv3 dual-srchost {common} ack-filter split-gso rtt 100ms overhead 18 noatm mpu 64"
    )
    assert found["iqdisc_opts"].startswith(f"diffserv3 dual-dsthost {common} ingress no-ack-filter")
    plain = options(tc.sqm(scenario(queue={"kind": "fq-codel", "ecn": False, "limit": "600p"})))
    assert [plain[key] for key in ("script", "upload", "elimit", "etarget", "egress_ecn")] == [
        "simplest.qos", "10000", "600", "5ms", "NOECN",
    ]  # fmt: skip
    rest = "flows 1024 quantum 1514 memory_limit 33554432 drop_batch 64 interval 100ms"
    assert plain["eqdisc_opts"] == rest
    stab = {"kind": "stab", "overhead": 32, "linklayer": "atm", "queue": ROUTER}
    framed = options(tc.sqm(scenario(queue=stab)))
    assert [framed[key] for key in ("linklayer", "overhead", "tcTSIZE")] == ["atm", "32", "512"]
    with pytest.raises(ValueError, match=r"must be the same as links\.up\.queue\.kind"):
        tc.sqm(al.Scenario.load(CABLE).with_({"links.up.queue": {"kind": "codel"}}), "up", download="down")


def test_sqm_is_undone_with_uci() -> None:
    commands = tc.sqm(scenario(), device="eth1.2")
    assert commands.lines[0] == "config queue 'eth1_2'"
    assert commands.undo == ("uci delete sqm.eth1_2", "uci commit sqm", "/etc/init.d/sqm restart")


def test_networkd_gets_sections_with_the_keys_of_the_manual() -> None:
    text = "\n".join(tc.networkd(scenario(delay="9ms"), device="wan0").lines)
    assert text == "\n".join(
        (
            "[Match]",
            "Name=wan0",
            "",
            "[HierarchyTokenBucket]",
            "Parent=root",
            "Handle=1",
            "DefaultClass=1",
            "RateToQuantum=10",
            "",
            "[HierarchyTokenBucketClass]",
            "Parent=root",
            "ClassId=1:1",
            "Rate=10M",
            "CeilRate=10M",
            "BufferBytes=1600",
            "CeilBufferBytes=1600",
            "QuantumBytes=1514",
            "",
            "[ControlledDelay]",
            "Parent=1:1",
            "Handle=2",
            "PacketLimit=1000",
            "TargetSec=5ms",
            "IntervalSec=100ms",
            "ECN=yes",
        )
    )
    cake = tc.networkd(al.Scenario.load(CABLE), "up")
    assert [limit for limit in cake.limits if "253" in limit] == [
        "links.up.queue: ack-filter needs systemd 253 or later"
    ]
    keys = {"Bandwidth=9500K", "FlowIsolationMode=dual-src-host", "AckFilter=yes", "OverheadBytes=18"}
    assert keys <= set(cake.lines)
    pie = tc.networkd(scenario(queue={"kind": "pie", "target": "20ms", "ecn": True}))
    assert pie.limits == ("bottleneck.queue: networkd has no key for target 20ms, ecn",)


def test_the_command_prints_comments_and_commands(cli: Cli) -> None:
    shown = cli("tc", "write", "dsl-uplink", "--set", "bottleneck.queue=codel", "--no-netem")
    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    first = next(line for line in lines if not line.startswith("#"))
    assert first.startswith("tc qdisc add dev eth0 root")
    undo = cli("tc", "write", "dsl-uplink", "--no-netem", "--undo")
    assert undo.stdout == "tc qdisc del dev eth0 root\n"
    sqm = cli("tc", "write", "cable", "--download", "down", "--format", "sqm", "--json")
    written = json.loads(sqm.stdout)
    assert written["format"] == "sqm" and written["lines"][0] == "config queue 'eth0'"


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_the_command_refuses_what_linux_lacks(cli: Cli) -> None:
    error = refusal(cli("tc", "write", "red-uplink"))
    absent = "aqmlab: bottleneck.queue.kind: does not exist in Linux; available: drop-tail, linux-red"
    assert error.startswith(absent)
    assert "--download: needs --format" in refusal(
        cli("tc", "write", "cable", "--download", "down", "--format", "networkd")
    )

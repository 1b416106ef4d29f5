"""Real captures: the trace command gives the numbers that another reading of the same file gives.

One capture is kept in `tests/captures`, others are recorded on the spot where the machine lets the tests, and
public ones come with the crate that cuts captures into packets.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from capture_reading import active_flows, mean_in_progress, packets, parted
from conftest import PATIENCE_S, Cli
from record_transfers import PAGES

from aqmlab import _core
from aqmlab import traces as trace
from aqmlab.scenario.run import Run

HERE = Path(__file__).parent
KEPT = HERE / "captures" / "transfers.pcap.gz"
IDLE_S = 0.05
NAMESPACE = ("unshare", "--map-root-user", "--net")
LINK = """\
ip link add near type veth peer name far
tc qdisc add dev far root tbf rate 4mbit burst 3000 latency 200ms
"""
RATES = ("2Mbps", "4Mbps", "20Mbps")


def replay(path: Path, rate: str, idle_s: float) -> Run:
    """Through a first-come queue, so that waiting can be told by hand."""
    changes = {"idle_timeout": f"{round(idle_s * 1e3)}ms"}
    return trace.active_flows(path, rate=rate, queue="drop-tail", changes=changes)


def agrees(path: Path, rate: str, idle_s: float) -> Run:
    """The replay, held against the other reading."""
    seen = packets(path)
    flows = parted(seen, idle_s)
    run = replay(path, rate, idle_s)
    row = run.summary
    assert row["packets"] == len(seen)
    assert row["bytes"] == sum(one.bytes for one in seen)
    assert row["duration_s"] == pytest.approx(seen[-1].nanos / 1e9, abs=1e-9)
    assert row["flows"] == len({one.flow for one in flows})
    assert run.manifest["facts"]["trace"]["packets_not_ip"] == sum(one.flow is None for one in seen)
    if row["mean_in_progress"] is not None:
        assert row["mean_in_progress"] == pytest.approx(mean_in_progress(flows, idle_s), rel=1e-9)
    mean, most = active_flows(flows, float(rate.removesuffix("Mbps")) * 1e6)
    assert (row["mean_active"], row["most_active"]) == (pytest.approx(mean, rel=1e-9), most)
    return run


@pytest.mark.parametrize("rate", RATES)
def test_a_kept_capture_of_real_transfers_gives_the_numbers_of_another_reading(rate: str) -> None:
    run = agrees(KEPT, rate, IDLE_S)
    assert (run.summary["packets"], run.summary["bytes"]) == (108, 66324)
    assert run.warnings == []


def test_fewer_bytes_per_second_make_more_flows_wait() -> None:
    means = [replay(KEPT, rate, IDLE_S).summary["mean_active"] for rate in RATES]
    assert means == sorted(means, reverse=True)


@pytest.mark.parametrize(
    ("recorder", "interface"), [("dumpcap", "near"), ("dumpcap", "any"), ("socket", "near")]
)
def test_transfers_recorded_now_give_the_numbers_of_another_reading(
    recorder: str, interface: str, tmp_path: Path
) -> None:
    for program in ("unshare", "ip", "tc", recorder):
        if program != "socket" and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if subprocess.run([*NAMESPACE, "sh", "-ec", LINK], capture_output=True).returncode:
        pytest.skip("the machine lets nobody have a network namespace with a shaped link")
    file = tmp_path / "now.cap"
    script = [sys.executable, HERE / "record_transfers.py", file, recorder, interface]
    said = subprocess.run([*NAMESPACE, *script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == PAGES
    run = agrees(file, "4Mbps", IDLE_S)
    # Each page came whole, and with it the headers of its packets.
    assert run.summary["bytes"] > sum(PAGES.values())
    # On a busy machine the recording may be too short to tell how many flows are in progress.
    wrong = ("packets longer than", "packets captured too short")
    assert not [warning for warning in run.warnings if any(what in warning for what in wrong)]


PUBLIC = {
    "wireshark_samples-test.pcapng": (5898, 959259, 1810),
    "err-buffertoosmall.pcapng": (27, 8687, 0),
    "ntp.pcap": (12, 1080, 0),
}
"""Packets, bytes and packets that are not IP, as tshark 4.0 counts them too."""


def public(name: str) -> Path:
    """A capture that comes with the source of pcap-parser, where cargo has unpacked it."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for folder in sorted(cargo.glob("registry/src/*/pcap-parser-0.17.*/assets")):
        if (folder / name).exists():
            return folder / name
    pytest.skip("cargo has not unpacked pcap-parser here")


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("rate", ["1Mbps", "20Mbps"])
def test_public_captures_give_the_numbers_of_another_reading(name: str, rate: str) -> None:
    run = agrees(public(name), rate, 2.0)
    others = run.manifest["facts"]["trace"]["packets_not_ip"]
    assert (run.summary["packets"], run.summary["bytes"], others) == PUBLIC[name]


def test_packets_without_a_time_are_told_or_refused() -> None:
    run = replay(public("test016-le.pcapng"), "1Mbps", 2.0)
    assert run.summary["packets"] == 2
    assert "packets without a timestamp, which were skipped: 2" in run.warnings[0]
    with pytest.raises(_core.TraceError, match=r"none of its 4 packets has a timestamp"):
        replay(public("test010-le.pcapng"), "1Mbps", 2.0)
    with pytest.raises(_core.TraceError, match="have the same timestamp"):
        replay(public("test001-be.pcapng"), "1Mbps", 2.0)


@pytest.mark.parametrize("rate", ["20Mbps", "4Mbps", "2Mbps"])
def test_the_guide_shows_what_the_command_says_of_the_kept_capture(cli: Cli, rate: str) -> None:
    said = cli("trace", "active-flows", KEPT, "--rate", rate, "--set", "idle_timeout=50ms")
    assert (said.returncode, said.stderr) == (0, "")
    told = said.stdout.splitlines()[:4]
    guide = (HERE.parent / "docs" / "guides" / "traces.md").read_text(encoding="utf-8")
    assert "transfers.pcap.gz (capture): 0.345109 s of which 0.345109 s measured, 108 packets" in told[0]
    assert "\n".join(told) in guide


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("name", ["kept", *PUBLIC])
def test_tshark_counts_the_same_packets_and_bytes(name: str) -> None:
    path = KEPT if name == "kept" else public(name)
    fields = ["-T", "fields", "-e", "frame.len", "-e", "frame.time_relative"]
    said = subprocess.run(
        ["tshark", "-n", "-r", path, *fields], capture_output=True, text=True, check=True
    ).stdout
    lengths, times = zip(*(line.split("\t") for line in said.splitlines()), strict=True)
    row = replay(path, "4Mbps", IDLE_S).summary
    assert (row["packets"], row["bytes"]) == (len(lengths), sum(map(int, lengths)))
    assert row["duration_s"] == pytest.approx(float(times[-1]), abs=1e-9)


def test_a_scenario_of_a_synthetic_trace_is_called_so(cli: Cli) -> None:
    scenario = HERE.parent / "scenarios" / "trace" / "oc48.toml"
    said = cli("trace", "active-flows", scenario, "--set", "source.duration=100ms")
    assert said.stdout.startswith("oc48 (synthetic): "), said.stderr

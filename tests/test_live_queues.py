"""Queues in live runs that need to know more of a packet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from live_rig import (
    ENDLESS,
    LINE,
    NEEDED,
    PATIENCE_S,
    file,
    missing,
    run_live,
    run_valid,
)

import aqmlab as al

pytestmark = NEEDED

SHRED = LINE.replace(
    '{ kind = "drop-tail", limit = "20p" }',
    '{ kind = "shred", red = { min_th = "2p", max_th = "12p", max_p = 0.2, weight = 0.05, limit = "40p" } }',
)
RENO = 'profile = "linux-6"\ncongestion_control.kind = "reno"\n'
BULK = '[traffic.ftp]\nkind = "ftp"\nflows = 3\nstagger = "0s"\n'


def windows_of(run: al.Run) -> pl.Series:
    return run.tables["drops"]["window"].drop_nulls()


@pytest.mark.skipif(bool(missing("bpf")), reason=missing("bpf"))
def test_shred_sees_windows_in_packets(tmp_path: Path) -> None:
    run = run_live(tmp_path, SHRED + BULK)
    assert run.manifest["live"]["hints"]["kind"] == "in-packets"
    windows = windows_of(run)
    assert len(windows) >= 0.9 * len(run.tables["drops"]) > 0
    assert ((windows >= 2) & (windows < 1000)).all()


@pytest.mark.skipif(bool(missing("bpf")), reason=missing("bpf"))
def test_windows_in_packets_are_those_that_the_kernel_says_its_senders_have(tmp_path: Path) -> None:
    text = SHRED.replace('profile = "linux-6"', f"{RENO}cwnd.initial = 4\ncwnd.initial_after_syn_loss = 4")
    text = text.replace("drops = true", 'drops = true\nqueue_every = "5ms"\nsenders = ["ftp"]')
    run = run_valid(tmp_path, text.replace('"1500ms"', '"4s"') + BULK)
    hints = run.manifest["live"]["hints"]
    assert hints["known"] == hints["data_packets"], hints
    # What else a sender sends are a SYN and the end of the handshake, seldom again.
    assert 6 <= run.flows["packets_sent"].sum() - hints["data_packets"] <= 12, hints
    # How often the kernel is asked depends on how busy the machine is, what it answers does not.
    assert hints["agreeing"] >= 0.9 * hints["compared"] > 0, hints
    assert not any("window" in objection for objection in run.manifest["live"]["objections"])
    senders = run.tables["senders"].select("time_s", "flow", "cwnd_segments")
    drops = run.tables["drops"].drop_nulls("window").sort("time_s")
    both = drops.join_asof(senders, on="time_s", by="flow", strategy="nearest", tolerance=0.02)
    both = both.drop_nulls("cwnd_segments")
    apart = (both["window"] - both["cwnd_segments"]).abs()
    # A packet that is dropped as it arrives has just left.
    assert (apart <= 2).sum() >= 0.8 * len(apart), both


def test_samples_of_a_sender_show_the_sawtooth_of_reno(tmp_path: Path) -> None:
    text = LINE.replace('profile = "linux-6"', RENO).replace('"1500ms"', '"5s"')
    text = text.replace("drops = true", 'queue_every = "20ms"\nsenders = ["ftp"]')
    others = '[traffic.probe]\nkind = "probes"\nflows = 1\nsize = "9kB"\n'
    run = run_valid(tmp_path, text + '[traffic.ftp]\nkind = "ftp"\nstagger = "0s"\n' + others)
    senders = run.tables["senders"]
    assert senders.schema == al.Scenario.load(tmp_path / "live.toml").run().tables["senders"].schema
    assert senders["traffic"].cast(str).unique().to_list() == ["ftp"]
    assert senders["flow"].is_in(run.flows.filter(pl.col("traffic") == "ftp")["flow"].to_list()).all()
    assert 0 < len(senders) <= 250
    assert senders["time_s"].is_sorted() and senders["dupacks"].null_count() == len(senders)
    assert (senders["rto_s"] >= 0.2).all()
    if not run.manifest["live"]["valid"] or len(senders) < 200:
        return  # The machine was too busy to see the shape.
    later = senders.filter(pl.col("time_s") > 1.0)
    # The line holds 8 packets and the queue 20: full at 28, halved to 14.
    windows = later["cwnd_segments"]
    peak = windows.arg_max()
    assert 20 <= windows[peak] <= 45 and windows[peak:].min() <= 0.65 * windows[peak], windows.to_list()
    assert 8 <= later["ssthresh_segments"].median() <= 20
    # Two ways of 10 ms, and up to 20 packets of 2.4 ms in the queue.
    assert later["srtt_s"].is_between(0.02, 0.02 + 21 * 0.0024 + 0.05).mean() > 0.9


def test_shred_sees_polled_windows_without_bpf(tmp_path: Path) -> None:
    # Root without capabilities, but for the one that lets it be root in a user namespace, too.
    few = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]
    file(tmp_path, SHRED + BULK)
    words = [*few, sys.executable, "-m", "aqmlab", "live", "run", "live.toml", "--out", "out"]
    if subprocess.run([*few, "unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are refused")
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S)
    assert done.returncode in (0, 3), done.stderr
    hints = json.loads((tmp_path / "out/run.json").read_text())["manifest"]["live"]["hints"]
    assert hints["kind"] == "polled"
    assert "BPF" in hints["why"]
    drops = pl.read_parquet(tmp_path / "out/drops.parquet")
    assert len(drops["window"].drop_nulls()) >= 0.5 * len(drops) > 0


def test_rio_ps_tells_long_flows_from_short_ones(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("0.1,400000\n0.2,3000\n0.6,3000\n", encoding="utf-8")
    text = LINE.replace('"drop-tail", limit = "20p"', '"rio-ps", limit = "60p"')
    text = text.replace('"1500ms"', f'"{ENDLESS}"')
    text += '[traffic.sizes]\nkind = "replay"\nfile = "sizes.csv"\n'
    run = run_live(tmp_path, text, until_done=True)
    transfers = run.transfers.sort("size_bytes")
    assert transfers["size_bytes"].to_list() == [3000, 3000, 400_000]
    assert transfers["complete"].all()
    *short, long = transfers["packets_long"].to_list()
    assert short == [0, 0]
    assert long > 0.5 * transfers["segments"][2]


SERVER = """
import socket, threading, time
def datagrams(port, dscp, count):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    sender.bind(("0.0.0.0", port))
    for _ in range(count):
        sender.sendto(bytes(200), ("client", 9000))
        time.sleep(0.002)
listener = socket.create_server(("0.0.0.0", 5000))
while True:
    connection, _ = listener.accept()
    # The client is there.
    threading.Thread(target=datagrams, args=(6000, 46, 20)).start()
    threading.Thread(target=datagrams, args=(6001, 0, 30)).start()
    connection.sendall(bytes(50_000))
    connection.close()
"""

CLIENT = """
import socket, time
listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listening.bind(("0.0.0.0", 9000))
while True:
    try:
        connection = socket.create_connection(("server", 5000), timeout=20)
        break
    except OSError:
        time.sleep(0.02)
while connection.recv(65536):
    pass
for _ in range(50):
    listening.recv(1000)
"""

CLASSES = f"""
duration = "{ENDLESS}"
seed = 5
[bottleneck]
rate = "10Mbps"
delay = "5ms"
[bottleneck.queue]
kind = "htb"
default = "rest"
[bottleneck.queue.classes]
line = {{ rate = "8Mbps" }}
voice = {{ parent = "line", rate = "1Mbps", ceil = "8Mbps", match = {{ dscp = [46] }} }}
files = {{ parent = "line", rate = "2Mbps", ceil = "8Mbps", match = {{ protocol = "tcp", port = [5000] }} }}
datagrams = {{ parent = "line", rate = "1Mbps", ceil = "8Mbps", match = {{ protocol = "udp", dscp = [0] }} }}
web = {{ parent = "line", rate = "1Mbps", ceil = "8Mbps", match = {{ port = [443] }} }}
rest = {{ parent = "line", rate = "1Mbps", ceil = "8Mbps" }}
[tcp]
profile = "linux-6"
"""

PROGRAMS = f"""
[traffic.programs]
kind = "program"
server = {json.dumps([sys.executable, "-c", SERVER])}
client = {json.dumps([sys.executable, "-c", CLIENT])}
"""

WORKLOADS = """
[traffic.call]
kind = "udp"
rate = "100kbps"
dscp = 46
stop = "1s"
sizes = { kind = "constant", value = "250B" }
[traffic.web]
kind = "probes"
flows = 1
size = "20kB"
every = "500s"
stop = "400s"
port = 443
[traffic.other]
kind = "probes"
flows = 1
size = "20kB"
every = "500s"
stop = "400s"
"""


def departures(run: al.Run) -> dict[str, dict[str, Any]]:
    """What each class of the line let through, none of which dropped a packet."""
    classes = {row["class"]: row for row in run.tables["classes"].to_dicts()}
    assert not any(row["drops"] for row in classes.values())
    return classes


def test_htb_puts_packets_of_programs_into_classes_by_protocol_port_and_dscp(tmp_path: Path) -> None:
    run = run_live(tmp_path, CLASSES + PROGRAMS, until_done=True)
    assert run.manifest["live"]["statuses"] == {"programs": 0}
    classes = departures(run)
    assert classes["voice"]["departures"] == 20
    assert classes["datagrams"]["departures"] == 30
    assert classes["datagrams"]["departed_bytes"] == 30 * 228
    assert 50_000 < classes["files"]["departed_bytes"] < 60_000


def test_htb_puts_packets_of_workloads_into_classes_by_port_and_dscp(tmp_path: Path) -> None:
    run = run_live(tmp_path, CLASSES + WORKLOADS, until_done=True)
    classes = departures(run)
    call = run.flows.filter(pl.col("traffic") == "call")["packets_sent"].sum()
    assert classes["voice"]["departures"] == call > 0
    for name in ("web", "rest"):
        assert 20_000 < classes[name]["departed_bytes"] < 25_000, name


def test_a_line_that_changes_does_so_live(tmp_path: Path) -> None:
    steps = '[[bottleneck.rate_steps]]\nat = "1s"\nrate = "1Mbps"\n[tcp]'
    text = LINE.replace("[tcp]", steps).replace('"1500ms"', '"2s"').replace('"5Mbps"', '"8Mbps"')
    text = text.replace("drops = true", 'queue_every = "10ms"')
    run = run_valid(tmp_path, text + BULK)
    carried = run.flows["delivered_bytes"].sum() * 8e-6
    # A megabit in the second second, eight in the first but for the beginning.
    assert carried <= 9, carried
    assert carried >= 6 or not run.manifest["live"]["valid"], carried
    shortest = run.tables["queue"].filter(pl.col("time_s") > 1.2)["length_packets"].min()
    assert shortest > 0 or not run.manifest["live"]["valid"]

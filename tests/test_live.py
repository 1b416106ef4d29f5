"""Live runs: queues in front of the kernel's TCP. Bounds on time are wide, those on counts are not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import COMMAND, Cli

import aqmlab as al
from aqmlab import _core, live, live_watch


def missing(*features: str) -> str:
    """Why live runs with these features are impossible here; empty if they are possible."""
    if not hasattr(_core, "live_privileges"):
        return "live runs need Linux"
    if _core.needs_user_namespace():
        return "the tests run live as root"
    granted = live.privileges()
    return "; ".join(f"{name}: {granted[name]}" for name in features if granted[name])


pytestmark = pytest.mark.skipif(bool(missing("namespaces", "tun")), reason=missing("namespaces", "tun"))

PATIENCE_S = 20.0
"""How long something may take on a loaded machine that takes a moment."""

LINE = """\
duration = "1500ms"
seed = 5
[bottleneck]
rate = "5Mbps"
delay = "10ms"
queue = { kind = "drop-tail", limit = "20p" }
[tcp]
profile = "linux-6"
[record]
drops = true
"""

MIXED = f"""\
{LINE}
[traffic.ftp]
kind = "ftp"
flows = 2
stagger = "0s"
[traffic.web]
kind = "web"
load = 0.3
objects = {{ kind = "constant", value = 2 }}
request = "200B"
"""


def file(folder: Path, text: str, name: str = "live.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def run_live(folder: Path, text: str, **options: Any) -> al.Run:
    return live.run(al.Scenario.load(file(folder, text)), **options)


def eventually(holds: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.02)


def threads(process: subprocess.Popen[str]) -> set[str]:
    """The names of a process's threads."""
    names = set()
    for task in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        try:
            names.add(task.read_text().strip())
        except OSError:  # It has just ended.
            continue
    return names


@dataclass(frozen=True)
class Packet:
    """A packet in a capture, and what is said of it."""

    data: bytes
    comment: str


def packets(path: Path) -> list[Packet]:
    """Those of a pcapng file: M. Tuexen et al., "PCAP Next Generation", 2024."""
    enhanced_packet, comment_option = 6, 1
    content, found = path.read_bytes(), []
    at = 0
    while at < len(content):
        kind, length = struct.unpack_from("=II", content, at)
        if kind == enhanced_packet:
            captured = struct.unpack_from("=I", content, at + 20)[0]
            data = content[at + 28 : at + 28 + captured]
            option, comment = at + 28 + captured + -captured % 4, ""
            while option < at + length - 4:
                code, size = struct.unpack_from("=HH", content, option)
                if code == comment_option:
                    comment = content[option + 4 : option + 4 + size].decode()
                option += 4 + size + -size % 4
            found.append(Packet(data, comment))
        at += length
    return found


def dropped(found: list[Packet]) -> list[Packet]:
    return [packet for packet in found if packet.comment.startswith("dropped")]


# The command, for a program.


@pytest.mark.parametrize(
    ("command", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
def test_the_exit_status_of_the_command_is_that_of_the_shell(cli: Cli, command: str, status: int) -> None:
    done = cli("live", "shell", "--", "sh", "-c", f"echo out; echo err >&2; {command}")
    assert done.returncode == status
    assert done.stdout == "out\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "err"
    assert lines[1].startswith("sh -c ") and ": live for " in lines[1]
    assert any(line.startswith("  link bottleneck: ") for line in lines)


@pytest.mark.parametrize("words", [("--", "no-such-command"), ("--server", "no-such-command", "--", "true")])
def test_a_command_that_there_is_not_is_named(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli("live", "shell", *words)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "aqmlab: no-such-command: command not found\n"


def test_the_view_of_a_program_is_in_another_terminal(cli: Cli) -> None:
    done = cli("live", "shell", "--watch", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "aqmlab: live shell has no option --watch, and commands stand behind `--`; "
        "while it runs, `aqmlab live watch` shows it in another terminal\n"
    )


def test_a_server_that_ends_before_its_client_is_told(cli: Cli) -> None:
    done = cli("live", "shell", "--server", "sh -c 'exit 9'", "--out", "out", "--", "sleep", "0.3")
    assert done.returncode == 0
    assert re.search(
        r"^  the server of shell ended with status 9 after 0\.\d\d s$", done.stderr, re.MULTILINE
    )


FETCH = """
import hashlib, socket, time, urllib.request
print(socket.gethostbyname("server"), socket.gethostbyname("client"))
for attempt in range(200):
    try:
        data = urllib.request.urlopen("http://server:8000/data", timeout=20).read()
        break
    except OSError:
        time.sleep(0.05)
print(hashlib.sha256(data).hexdigest())
began = time.monotonic()
try:
    socket.create_connection(("8.8.8.8", 53), timeout=10)
except OSError as error:
    print("no way out:", time.monotonic() - began < 2, error.strerror)
"""


def test_a_file_is_the_same_behind_the_line_and_nothing_else_is_reached(cli: Cli, tmp_path: Path) -> None:
    content = bytes(range(256)) * 800
    (tmp_path / "data").write_bytes(content)
    server = f"{sys.executable} -m http.server 8000"
    line = ["--rate", "10Mbps", "--delay", "5ms", "--queue", "red", "--pcap", "shell.pcapng"]
    done = cli("live", "shell", *line, "--server", server, "--", sys.executable, "-c", FETCH)
    assert done.returncode == 0, done.stderr
    server_address, client_address, digest, *way_out = done.stdout.split(maxsplit=3)
    assert server_address != client_address
    assert digest == hashlib.sha256(content).hexdigest()
    assert way_out == ["no way out: True Network is unreachable\n"]
    assert '"GET /data HTTP/1.1" 200' in done.stderr
    seen = packets(tmp_path / "shell.pcapng")
    assert sum(len(packet.data) for packet in seen if not packet.comment) > len(content)


# The command, for a scenario.


@dataclass(frozen=True)
class Mixed:
    """A live run of a scenario by the command, and the same one simulated."""

    printed: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    seen: list[Packet]
    simulated: al.Run


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    folder = tmp_path_factory.mktemp("mixed")
    path = file(folder, MIXED)
    words = ["live", "run", str(path), "--json", "--out", "out", "--pcap", "run.pcapng"]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, cwd=folder, timeout=60
    )
    assert done.returncode in (0, 3), done.stderr
    tables = {found.stem: pl.read_parquet(found) for found in (folder / "out").glob("*.parquet")}
    printed = json.loads(done.stdout)
    assert (done.returncode == 0) == printed["manifest"]["live"]["valid"]
    return Mixed(printed, tables, packets(folder / "run.pcapng"), al.Scenario.load(path).run())


def test_the_tables_are_those_of_a_simulation(mixed: Mixed) -> None:
    assert set(mixed.tables) == set(mixed.simulated.tables)
    for name, table in mixed.tables.items():
        assert table.schema == mixed.simulated.tables[name].schema, name
    assert list(mixed.printed) == ["manifest", "summary", "performance"]
    assert set(mixed.printed["summary"]) == set(mixed.simulated.summary)
    for part in ("links", "flows", "transfers"):
        assert set(mixed.printed["summary"][part]) == set(mixed.simulated.summary[part])


def test_what_is_asked_for_is_what_a_simulation_asks_for(mixed: Mixed) -> None:
    def pages(transfers: pl.DataFrame) -> list[tuple[int, list[int]]]:
        by_page = transfers.sort("page", "size_bytes").group_by("page", maintain_order=True)
        rows = by_page.agg(pl.col("size_bytes"), pl.col("start_s").min())
        return list(zip(rows["page"].to_list(), rows["size_bytes"].to_list(), strict=True))

    # What begins in the last moment of a run may not be begun in the other.
    early = pl.col("start_s") < 1.3
    simulated = pages(mixed.simulated.transfers.filter(early))
    found = pages(mixed.tables["transfers"])
    assert len(simulated) >= 5
    assert found[: len(simulated)] == simulated
    starts = mixed.tables["transfers"].sort("start_s")["page"].to_list()
    assert starts == sorted(starts)


def test_every_packet_is_counted_once(mixed: Mixed) -> None:
    link = mixed.tables["links"].row(0, named=True)
    router = mixed.printed["manifest"]["live"]["router"]
    assert router["malformed"] == router["oversize"] == router["refused"] == 0
    assert link["drops"] == len(mixed.tables["drops"]) > 0
    assert 0 <= link["arrivals"] - link["departures"] - link["drops"] <= 21
    # At most a full queue and what fits on the line, both ways, in the smallest packets.
    assert 0 <= router["read"] - router["handed_over"] - link["drops"] <= 21 + 2 * 160


def test_a_capture_has_every_packet_and_says_what_was_dropped(mixed: Mixed) -> None:
    lost = dropped(mixed.seen)
    drops = mixed.tables["drops"]
    assert [packet.comment for packet in lost] == ["dropped: overflow, queue bottleneck"] * len(drops)
    assert [len(packet.data) for packet in lost] == drops["size_bytes"].to_list()
    router = mixed.printed["manifest"]["live"]["router"]
    assert len(mixed.seen) - len(lost) == router["handed_over"]
    for packet in mixed.seen:
        assert packet.data[0] == 0x45
        assert int.from_bytes(packet.data[2:4], "big") == len(packet.data)


def test_one_json_object_is_printed_whatever_programs_print(cli: Cli, tmp_path: Path) -> None:
    programs = '[traffic.said]\nkind = "program"\nclient = ["echo", "client"]\nserver = ["echo", "server"]\n'
    done = cli("live", "run", file(tmp_path, LINE.replace('"1500ms"', '"500ms"') + programs), "--json")
    assert json.loads(done.stdout)["manifest"]["live"]["statuses"] == {"said": 0}
    assert sorted(done.stderr.split()) == ["client", "server"]


def test_a_capture_that_cannot_be_written_is_named(cli: Cli, tmp_path: Path) -> None:
    done = cli("live", "run", file(tmp_path, MIXED), "--pcap", "no-such-folder/run.pcapng")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aqmlab: cannot write no-such-folder/run.pcapng: No such file")


def test_a_run_that_may_end_early_ends_when_all_has_arrived(cli: Cli, tmp_path: Path) -> None:
    text = LINE.replace('"1500ms"', '"300s"') + (
        '[traffic.files]\nkind = "ftp"\nflows = 2\nsizes = { kind = "constant", value = "200kB" }\n'
        '[traffic.asked]\nkind = "probes"\nflows = 2\nsize = "5kB"\nevery = "250s"\nrequest = "200B"\n'
        '[traffic.stream]\nkind = "udp"\nrate = "100kbps"\nstop = "800ms"\n'
    )
    words = ["live", "run", str(file(tmp_path, text)), "--until-done", "--out", "out"]
    done = cli(*words, "--set", 'traffic.asked.stop="200s"')
    assert done.returncode in (0, 3), done.stderr
    manifest = json.loads((tmp_path / "out/run.json").read_text())["manifest"]
    ended = manifest["live"]["ended_s"]
    assert 0.8 <= ended < PATIENCE_S
    assert manifest["scenario"]["duration"].startswith(f"{ended:.0f}"[:1])
    transfers = pl.read_parquet(tmp_path / "out/transfers.parquet")
    assert transfers["complete"].all() and transfers["acknowledged_s"].is_not_null().all()
    assert len(transfers) == 4
    flows = pl.read_parquet(tmp_path / "out/flows.parquet")
    stream = flows.row(by_predicate=pl.col("traffic") == "stream", named=True)
    assert stream["datagrams_received"] + stream["packets_dropped"] == stream["packets_sent"] == 10


def test_a_run_of_programs_that_may_end_early_ends_with_the_last_client(tmp_path: Path) -> None:
    programs = "".join(
        f'[traffic.p{name}]\nkind = "program"\nclient = ["sleep", "0.{name}"]\nserver = ["sleep", "60"]\n'
        for name in (2, 6)
    )
    text = LINE.replace('"1500ms"', '"300s"') + '[traffic.ftp]\nkind = "ftp"\n' + programs
    run = run_live(tmp_path, text, until_done=True)
    assert run.manifest["live"]["statuses"] == {"p2": 0, "p6": 0}
    assert 0.6 <= run.manifest["live"]["ended_s"] < PATIENCE_S
    assert run.flows.filter(pl.col("traffic") == "ftp")["end_s"].null_count() == 1


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `aqmlab` with these arguments; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
            **pipes,  # type: ignore[call-overload]
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def under_way(command: Callable[..., subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A live run of `live.toml` in its midst."""
    process = command("live", "run", "live.toml")
    eventually(lambda: "router" in threads(process), "the router starts")
    time.sleep(0.5)
    return process


def test_a_run_is_seen_from_another_terminal_until_it_is_over(
    command: Callable[..., subprocess.Popen[str]],
) -> None:
    process = command("live", "shell", "--rate", "2Mbps", "--", "sleep", "2")
    eventually(lambda: process.pid in live_watch.running(), "the run can be seen")
    seen = list(live_watch.views(process.pid))
    assert len(seen) >= 3
    times = [view["time_s"] for _, view in seen]
    assert times == sorted(times) and all(view["links"][0]["rate_bps"] == 2e6 for _, view in seen)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert process.pid not in live_watch.running()


def test_a_run_that_stood_still_is_not_valid(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file(tmp_path, MIXED.replace('"1500ms"', '"2500ms"'))
    process = under_way(command)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (3, "")
    stalls = re.search(r"NOT VALID: the router stood still .* at most for (\d+) ms", out)
    assert stalls is not None and int(stalls[1]) >= 900, out
    assert "  valid" not in out.splitlines()


def test_an_interrupt_ends_a_run_at_once(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file(tmp_path, MIXED.replace('"1500ms"', '"600s"'))
    process = under_way(command)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "aqmlab: interrupted\n")
    assert time.monotonic() - began < 5


# What cannot be run live.

TAHOE = MIXED.replace('profile = "linux-6"', 'recovery.kind = "tahoe"').replace('"1500ms"', '"1s"')
FLOW_LEVEL = (Path(__file__).parents[1] / "scenarios/flow-level/elastic.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TAHOE, r"recovery\.kind: .*tahoe"),
        (FLOW_LEVEL, "only scenarios of the level packet can be run live"),
        (
            LINE + "".join(f'[traffic.a{number}]\nkind = "ftp"\n' for number in range(200)),
            "traffic: has 200 workloads; a live run has addresses for 120",
        ),
    ],
)
def test_what_cannot_be_run_live_is_refused_by_name(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    done = cli("live", "run", file(tmp_path, text))
    assert (done.returncode, done.stdout) == (2, ""), done
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.startswith("aqmlab: ") and "Traceback" not in done.stderr


def test_the_nearest_tcp_is_run_and_its_differences_are_told(cli: Cli, tmp_path: Path) -> None:
    path = file(tmp_path, TAHOE)
    done = cli("live", "run", path, "--nearest-tcp")
    assert done.returncode in (0, 3), done.stderr
    assert re.search(r"the kernel's TCP differs for ftp, web: .*recovery\.kind", done.stdout)


def test_refusals_stand_below_the_name_of_the_file(cli: Cli, tmp_path: Path) -> None:
    text = LINE.replace('profile = "linux-6"', 'recovery.kind = "tahoe"') + '[traffic.ftp]\nkind = "ftp"\n'
    done = cli("live", "run", file(tmp_path, text))
    first, *rest = done.stderr.splitlines()
    assert first == f"aqmlab: {tmp_path / 'live.toml'}:"
    assert len(rest) > 1 and all(line.startswith("  tcp.") for line in rest), done.stderr
    done = cli("live", "run", file(tmp_path, MIXED), "--set", "tcp.connection.mss=9000B")
    assert done.stderr == (
        f"aqmlab: {tmp_path / 'live.toml'}: "
        "tcp.connection.mss: must be 88B to 1448B, which with headers is the MTU, 1500B, not 9kB\n"
    )


# Nothing is left behind.


def marked(mark: str) -> dict[int, str]:
    """The processes with this in their environment, and their network namespaces."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = os.readlink(process / "ns/net")
        except OSError:  # It has just ended.
            continue
    return found


def namespaces() -> set[str]:
    """The network namespaces of all threads, and those that are held open."""
    found = set()
    for place in ("[0-9]*/task/*/ns/net", "[0-9]*/fd/*"):
        for link in Path("/proc").glob(place):
            try:
                found.add(os.readlink(link))
            except OSError:
                continue
    return {name for name in found if name.startswith("net:")}


def test_a_killed_command_leaves_nothing_behind(command: Callable[..., subprocess.Popen[str]]) -> None:
    def devices() -> list[str]:
        return sorted(os.listdir("/sys/class/net"))

    before, mark = (namespaces(), devices()), f"AQMLAB_TEST={uuid.uuid4()}"
    name, value = mark.split("=")
    daemon = "setsid sleep 62 & exec sleep 61"
    words = ["live", "shell", "--server", f"sh -c '{daemon}'", "--", "sh", "-c", "setsid sleep 63 & sleep 60"]
    process = command(*words, **{name: value})
    # This one, the first process of each namespace, and four that sleep and a shell at least.
    eventually(lambda: len(marked(mark)) >= 7, "the programs run")
    own = set(marked(mark).values()) - before[0]
    assert len(own) == 2
    assert devices() == before[1]
    process.kill()
    process.wait()
    eventually(lambda: not marked(mark), "the processes vanish")
    eventually(lambda: not own & namespaces(), "the namespaces vanish")
    assert devices() == before[1]


# Queues that need to know more of a packet.

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
    run = run_live(tmp_path, text.replace('"1500ms"', '"4s"') + BULK)
    hints = run.manifest["live"]["hints"]
    assert hints["told"] == hints["data_packets"], hints
    # What else a sender sends are a SYN and the end of the handshake, seldom again.
    assert 6 <= run.flows["packets_sent"].sum() - hints["data_packets"] <= 12, hints
    assert hints["agreeing"] >= 0.9 * hints["compared"] >= 90, hints
    assert not any("window" in objection for objection in run.manifest["live"]["objections"])
    senders = run.tables["senders"].select("time_s", "flow", "cwnd_segments")
    drops = run.tables["drops"].drop_nulls("window").sort("time_s")
    both = drops.join_asof(senders, on="time_s", by="flow", strategy="nearest", tolerance=0.02)
    both = both.drop_nulls("cwnd_segments")
    apart = (both["window"] - both["cwnd_segments"]).abs()
    # A packet that is dropped as it arrives has just left.
    assert len(apart) > 10 and (apart <= 2).mean() >= 0.8, both


def test_samples_of_a_sender_show_the_sawtooth_of_reno(tmp_path: Path) -> None:
    text = LINE.replace('profile = "linux-6"', RENO).replace('"1500ms"', '"5s"')
    text = text.replace("drops = true", 'queue_every = "20ms"\nsenders = ["ftp"]')
    others = '[traffic.probe]\nkind = "probes"\nflows = 1\nsize = "9kB"\n'
    run = run_live(tmp_path, text + '[traffic.ftp]\nkind = "ftp"\nstagger = "0s"\n' + others)
    senders = run.tables["senders"]
    assert senders.schema == al.Scenario.load(tmp_path / "live.toml").run().tables["senders"].schema
    assert senders["traffic"].cast(str).unique().to_list() == ["ftp"]
    assert senders["flow"].is_in(run.flows.filter(pl.col("traffic") == "ftp")["flow"].to_list()).all()
    assert 0.5 * 250 <= len(senders) <= 250
    assert senders["time_s"].is_sorted() and senders["dupacks"].null_count() == len(senders)
    later = senders.filter(pl.col("time_s") > 1.0)
    # The line holds 8 packets and the queue 20: full at 28, halved to 14.
    windows = later["cwnd_segments"]
    peak = windows.arg_max()
    assert 20 <= windows[peak] <= 45 and windows[peak:].min() <= 0.65 * windows[peak], windows.to_list()
    assert 8 <= later["ssthresh_segments"].median() <= 20
    # Two ways of 10 ms, and up to 20 packets of 2.4 ms in the queue.
    assert later["srtt_s"].is_between(0.02, 0.02 + 21 * 0.0024 + 0.05).mean() > 0.9
    assert (later["rto_s"] >= 0.2).all()


def test_shred_sees_polled_windows_without_bpf(tmp_path: Path) -> None:
    # Root without capabilities, but for the one that lets it be root in a user namespace, too.
    few = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"]
    file(tmp_path, SHRED + BULK)
    words = [*few, sys.executable, "-m", "aqmlab", "live", "run", "live.toml", "--out", "out"]
    if subprocess.run([*few, "unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are refused")
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode in (0, 3), done.stderr
    hints = json.loads((tmp_path / "out/run.json").read_text())["manifest"]["live"]["hints"]
    assert hints["kind"] == "polled"
    assert "BPF" in hints["why"]
    drops = pl.read_parquet(tmp_path / "out/drops.parquet")
    assert len(drops["window"].drop_nulls()) >= 0.5 * len(drops) > 0


def test_rio_ps_tells_long_flows_from_short_ones(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("0.1,400000\n0.2,3000\n0.6,3000\n", encoding="utf-8")
    text = LINE.replace('"drop-tail", limit = "20p"', '"rio-ps", limit = "60p"')
    run = run_live(tmp_path, text + '[traffic.sizes]\nkind = "replay"\nfile = "sizes.csv"\n')
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
threading.Thread(target=datagrams, args=(6000, 46, 20)).start()
threading.Thread(target=datagrams, args=(6001, 0, 30)).start()
listener = socket.create_server(("0.0.0.0", 5000))
while True:
    connection, _ = listener.accept()
    connection.sendall(bytes(50_000))
    connection.close()
"""

CLIENT = """
import socket, time
for attempt in range(100):
    try:
        connection = socket.create_connection(("server", 5000), timeout=5)
        break
    except OSError:
        time.sleep(0.02)
while connection.recv(65536):
    pass
time.sleep(0.2)
"""


def test_htb_puts_packets_into_classes_by_protocol_port_and_dscp(tmp_path: Path) -> None:
    text = f"""
duration = "1500ms"
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
[traffic.programs]
kind = "program"
server = {json.dumps([sys.executable, "-c", SERVER])}
client = {json.dumps([sys.executable, "-c", CLIENT])}
[traffic.call]
kind = "udp"
rate = "100kbps"
dscp = 46
stop = "1s"
sizes = {{ kind = "constant", value = "250B" }}
[traffic.web]
kind = "probes"
flows = 1
size = "20kB"
every = "10s"
port = 443
[traffic.other]
kind = "probes"
flows = 1
size = "20kB"
every = "10s"
"""
    run = run_live(tmp_path, text)
    assert run.manifest["live"]["statuses"] == {"programs": 0}
    classes = {row["class"]: row for row in run.tables["classes"].to_dicts()}
    assert not any(row["drops"] for row in classes.values())
    call = run.flows.filter(pl.col("traffic") == "call")["packets_sent"].sum()
    assert classes["voice"]["departures"] == 20 + call
    assert classes["datagrams"]["departures"] == 30
    assert classes["datagrams"]["departed_bytes"] == 30 * 228
    assert 50_000 < classes["files"]["departed_bytes"] < 60_000
    for name in ("web", "rest"):
        assert 20_000 < classes[name]["departed_bytes"] < 25_000, name


ETHERNET = """
[host]
link_header = "14B"
[tcp.connection]
mss = "1460B"
header = "54B"
ack_size = "54B"
syn_size = "66B"
[record]
drops = true
packets = ["bottleneck"]
histories = ["file", "stream"]
[traffic.file]
kind = "ftp"
stagger = "0s"
sizes = { kind = "constant", value = "292kB" }
[traffic.stream]
kind = "udp"
rate = "100kbps"
sizes = { kind = "constant", value = "264B" }
"""


def test_lengths_that_contain_the_header_of_the_link_are_those_of_a_simulation(tmp_path: Path) -> None:
    text = LINE.replace("[record]\ndrops = true\n", "") + ETHERNET
    run = run_live(tmp_path, text.replace("20p", "300p"), nearest_tcp=True)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()

    def sizes(of: al.Run, traffic: str, event: str) -> dict[int, int]:
        flows = of.flows.filter(pl.col("traffic") == traffic)["flow"].to_list()
        rows = of.tables["packets"].filter(pl.col("flow").is_in(flows), pl.col("event") == event)
        return dict(rows.group_by("size_bytes").len().iter_rows())

    assert sizes(run, "file", "send") == sizes(simulated, "file", "send")
    assert sizes(run, "file", "send")[1514] == 200
    for found in (run, simulated):
        assert set(sizes(found, "stream", "receive")) == {264}
        assert found.flows.filter(pl.col("traffic") == "stream")["delivered_bytes"].sum() % 264 == 0
        at_link = found.tables["packets"].filter(pl.col("event") == "start")["size_bytes"]
        assert {54, 264, 1514} >= set(at_link) - {66}
    assert run.manifest["live"]["load"]["workloads"]["stream"]["lengthened"] == 0


# Datagrams and conversations.


def test_datagrams_are_those_of_a_simulation_and_all_accounted_for(tmp_path: Path) -> None:
    text = LINE.replace('"5Mbps"', '"1Mbps"') + (
        '[traffic.stream]\nkind = "udp"\nflows = 2\nrate = "700kbps"\nstop = "1200ms"\n'
        'sizes = { kind = "constant", value = "500B" }\n'
    )
    run = run_live(tmp_path, text)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()
    assert run.flows["packets_sent"].to_list() == simulated.flows["packets_sent"].to_list()
    for flow in run.flows.to_dicts():
        assert flow["packets_sent"] == flow["datagrams_received"] + flow["packets_dropped"]
        # The line's delay, and what a datagram takes on it.
        assert flow["mean_delay_s"] >= 0.010 + 500 * 8 / 1e6
    drops = run.flows["packets_dropped"].sum()
    assert drops == run.links["drops"].sum() == len(run.tables["drops"]) > 0


def test_a_recorded_request_and_its_response_are_a_row_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "recorded.csv").write_text(
        "start_s,size_bytes,request_bytes,think_s,client_delay_s,server_delay_s\n"
        "0.1,9340,436,0.05,0.001,0.002\n0.2,50000,300,0,0.002,0\n0.4,12,1000,0,0,0.030\n",
        encoding="utf-8",
    )
    run = run_live(tmp_path, LINE + '[traffic.recorded]\nkind = "replay"\nfile = "recorded.csv"\n')
    transfers = run.transfers.sort("start_s")
    assert transfers["size_bytes"].to_list() == [9340, 50000, 12]
    assert transfers["complete"].all()
    # Two round trips of 20 ms and the delays of the ends, and, of the first, of the server.
    least = [0.05 + 2 * 0.026, 2 * 0.024, 2 * 0.080]
    assert all(took >= 0.999 * bound for took, bound in zip(transfers["duration_s"], least, strict=True))


def test_conversations_have_the_exchanges_of_a_simulation(tmp_path: Path) -> None:
    text = LINE.replace('"5Mbps"', '"50Mbps"') + (
        '[traffic.users]\nkind = "packmime"\nconnections_per_second = 20\nhttp = "1.1"\nstop = "1s"\n'
        'server_delay = { kind = "constant", value = "5ms" }\n'
        'response_sizes = { kind = "uniform", minimum = "1kB", maximum = "30kB" }\n'
    )
    run = run_live(tmp_path, text)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()
    done = pl.col("start_s") + pl.col("duration_s") < 1.2

    def firsts(of: al.Run) -> list[int]:
        by_flow = of.transfers.sort("start_s", "size_bytes").unique("flow", keep="first", maintain_order=True)
        return by_flow["size_bytes"].to_list()

    assert firsts(run) == firsts(simulated)
    early = sorted(simulated.transfers.filter(done)["size_bytes"].to_list())
    found = sorted(run.transfers["size_bytes"].to_list())
    assert len(early) >= 10
    assert not [size for size in early if size not in found]


# What else may come from inside.

GARBAGE = """
import random, socket
random.seed(1)
server = socket.gethostbyname("server")
address = socket.inet_aton(server)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def send(first, protocol, rest):
    header = bytes([first, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 2, 0, 1]) + address
    raw.sendto(header + rest, (server, 0))
for _ in range(50):
    send(0x65, 6, random.randbytes(40))  # Version 6.
    send(0x45, 6, random.randbytes(3))   # No room for a TCP header.
    send(0x45, 17, bytes([0, 1, 0, 2, 255, 255, 0, 0]))  # A datagram longer than its packet.
device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
device.bind(("tun0", 0x0800))
for _ in range(50):
    # No IPv4, a header of four bytes, and a packet that says that it is longer than it is.
    first = random.choice([0x00, 0x20, 0x50, 0x60, 0xff])
    device.send(bytes([first]) + random.randbytes(random.randrange(1400)))
    device.send(bytes([0x41]) + random.randbytes(60))
    device.send(bytes([0x45, 0, 5, 220]) + random.randbytes(60))
for _ in range(50):
    send(0x45, 200, random.randbytes(60))  # A protocol that nobody knows: routed all the same.
"""


def test_malformed_packets_are_counted_and_go_nowhere() -> None:
    scenario = live.with_command(None, [sys.executable, "-c", GARBAGE + "\nimport time; time.sleep(0.2)"])
    run = live.run(scenario, until_done=True)
    assert live.status(run) == 0
    router = run.manifest["live"]["router"]
    assert router["malformed"] == 6 * 50
    # Those of the unknown protocol, and what the server says of them.
    assert router["handed_over"] == router["read"] - router["malformed"] >= 50


OVERSIZE = """
import os, socket
os.system("ip link set tun0 mtu 9000")
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    sender.sendto(bytes(4000), ("server", 9))
"""


def test_packets_above_the_mtu_are_counted_and_make_a_run_invalid() -> None:
    run = live.run(live.with_command(None, [sys.executable, "-c", OVERSIZE]), until_done=True)
    assert live.status(run) == 0
    assert run.manifest["live"]["router"]["oversize"] == 10
    assert "10 packets were larger than the MTU" in run.manifest["live"]["objections"]


@pytest.mark.parametrize("what", ["set tun0 down", "delete tun0"])
def test_a_device_that_vanishes_makes_a_run_invalid_and_no_more(what: str) -> None:
    command = ["sh", "-c", f"ip link {what} && sleep 0.5; exit 4"]
    run = live.run(live.with_command(None, command), until_done=True)
    assert live.status(run) == 4
    (objection,) = run.manifest["live"]["objections"]
    assert objection.startswith("the network of client was changed: ")


CONNECTIONS = 3000
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

ACCEPT = """
import socket
listener = socket.create_server(("0.0.0.0", 5000), backlog=512)
while True:
    connection, _ = listener.accept()
    connection.sendall(b"x")
    connection.close()
"""

CONNECT = f"""
import socket, time
done = 0
while done < {CONNECTIONS}:
    try:
        with socket.create_connection(("10.1.0.1", 5000), timeout=10) as connection:
            done += connection.recv(10) == b"x"
    except ConnectionRefusedError:
        time.sleep(0.02)
print(done)
"""


def test_thousands_of_connections_are_flows_of_their_own() -> None:
    scenario = live.with_command(
        None,
        [sys.executable, "-c", CONNECT],
        [sys.executable, "-c", ACCEPT],
        {"bottleneck.rate": "100Mbps", "bottleneck.delay": "50us"},
    )
    run = live.run(scenario, until_done=True)
    assert live.status(run) == 0
    closed = run.flows.filter(pl.col("end_s").is_not_null())
    assert len(closed) >= CONNECTIONS
    assert closed["delivered_bytes"].sum() == CONNECTIONS


@pytest.mark.skipif(DESCRIPTORS < 20_000, reason=f"a process may have {DESCRIPTORS} descriptors")
def test_ten_thousand_connections_at_once_all_carry_what_was_asked_for(tmp_path: Path) -> None:
    text = LINE.replace('"1500ms"', '"120s"').replace('"5Mbps"', '"100Mbps"').replace("20p", "30000p") + (
        '[traffic.many]\nkind = "probes"\nflows = 10000\nsize = "1kB"\nrequest = "100B"\n'
        'every = "119s"\nstop = "1s"\n'
    )
    run = run_live(tmp_path, text, until_done=True)
    assert len(run.transfers) == len(run.flows) == 10_000
    assert run.transfers["complete"].all()
    assert run.flows["delivered_bytes"].to_list() == [1000] * 10_000
    assert run.manifest["live"]["load"]["workloads"]["many"]["lengthened"] == 0


def test_a_run_in_another_thread_is_a_run() -> None:
    found: list[al.Run] = []
    scenario = live.with_command(None, ["true"])
    thread = threading.Thread(target=lambda: found.append(live.run(scenario, until_done=True)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [live.status(run) for run in found] == [0]

"""Live runs of a program: `aqmlab live shell`. Bounds on time are wide, those on counts are not."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
from conftest import Cli
from live_rig import (
    ANSWERED,
    ECHO,
    LARGER_MTU,
    NEEDED,
    PATIENCE_S,
    packets,
)

import aqmlab as al
from aqmlab import live

pytestmark = NEEDED


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
    assert any(line.startswith("  link bottleneck (to the client): ") for line in lines)


@pytest.mark.parametrize("words", [("--", "no-such-command"), ("--server", "no-such-command", "--", "true")])
def test_a_command_that_there_is_not_is_named(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli("live", "shell", *words)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "aqmlab: no-such-command: command not found\n"


def test_the_view_of_a_program_is_in_another_terminal(cli: Cli) -> None:
    done = cli("live", "shell", "--watch", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "aqmlab: live shell has no option --watch; write the client command after `--`; "
        "`aqmlab live watch` shows the run in another terminal\n"
    )


def test_a_server_that_ends_before_its_client_is_told(cli: Cli) -> None:
    # The server's last act is to leave a file, and the client goes on for a little longer.
    wait = ["sh", "-c", "until [ -e last ]; do sleep 0.1; done; sleep 0.3"]
    done = cli("live", "shell", "--server", "sh -c 'touch last; exit 9'", "--out", "out", "--", *wait)
    assert done.returncode == 0
    assert re.search(
        r"^  the server of shell exited with status 9 after \d+\.\d\d s$", done.stderr, re.MULTILINE
    )


FETCH = """
import hashlib, socket, time, urllib.request
print(socket.gethostbyname("server"), socket.gethostbyname("client"))
for attempt in range(200):
    try:
        data = urllib.request.urlopen("http://server:8000/data", timeout=60).read()
        break
    except OSError:
        time.sleep(0.05)
print(hashlib.sha256(data).hexdigest())
began = time.monotonic()
try:
    socket.create_connection(("8.8.8.8", 53), timeout=60)
except OSError as error:
    print("no way out:", time.monotonic() - began < 50, error.strerror)
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


def test_with_strict_a_run_that_is_not_valid_ends_with_status_3(cli: Cli, tmp_path: Path) -> None:
    send = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(4000), ('server', 9))"
    program = f"{LARGER_MTU}{send}{ANSWERED}raise SystemExit(5)"
    server = tmp_path / "echo.py"
    server.write_text(ECHO, encoding="utf-8")
    for options, status in (((), 5), (("--strict",), 3)):
        words = [*options, "--server", f"{sys.executable} {server}"]
        done = cli("live", "shell", *words, "--", sys.executable, "-c", program)
        assert "  NOT VALID: 1 packets were larger than the MTU" in done.stderr.splitlines(), done.stderr
        assert done.returncode == status


SINK = """
import socket
listener = socket.create_server(("0.0.0.0", 5000))
CHOICE
while True:
    connection, _ = listener.accept()
    print("accepted:", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(b"\\0"))
    received = 0
    while data := connection.recv(65536):
        received += len(data)
    connection.sendall(b"%d" % received)
    connection.close()
"""
"""A server that takes what is sent and answers how much that was."""


def controls(kind: str) -> list[str]:
    """The `available` or the `allowed` congestion controls of this machine."""
    return Path(f"/proc/sys/net/ipv4/tcp_{kind}_congestion_control").read_text(encoding="utf-8").split()


GIVEN = next(one for one in ("cubic", "reno") if one in controls("allowed"))
"""What the scenario says: one that the machine lets a namespace have by default."""
CHOSEN = next((one for one in controls("available") if one != GIVEN), "")
"""What a program chooses."""
CHOICE = f'setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"{CHOSEN}")'

CHOOSE = f"""
import socket, time
def connected(choose):
    connection = socket.socket()
    if choose:
        connection.{CHOICE}
    connection.connect(("server", 5000))
    print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(bytes(1)).decode())
    return connection
connections = [connected(False), connected(True)]
# Long enough to be looked at.
time.sleep(2)
for connection in connections:
    connection.shutdown(socket.SHUT_WR)
    connection.recv(100)
"""


@pytest.mark.skipif(not CHOSEN, reason="the kernel has no other congestion control")
def test_the_congestion_control_that_a_program_chooses_is_used_and_told(cli: Cli, tmp_path: Path) -> None:
    server = tmp_path / "sink.py"
    server.write_text(SINK.replace("CHOICE", f"listener.{CHOICE}"), encoding="utf-8")
    line = ["--set", f"tcp.congestion_control.kind={GIVEN}", "--out", "out"]
    programs = ["--server", f"{sys.executable} {server}", "--", sys.executable, "-c", CHOOSE]
    done = cli("live", "shell", *line, *programs)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [GIVEN, CHOSEN]
    assert done.stderr.count(f"accepted: {CHOSEN.encode()!r}") == 2
    manifest = json.loads((tmp_path / "out/run.json").read_text())["manifest"]["live"]
    used = {"server": {CHOSEN: 2}, "client": {GIVEN: 1, CHOSEN: 1}, "connections": 2}
    assert manifest["congestion_controls"] == {"shell": used}
    assert f"  connections of shell at the server: 2 used {CHOSEN}" in done.stderr.splitlines()


@pytest.mark.skipif("cubic" in controls("allowed"), reason="the machine keeps no control from its users")
def test_where_a_choice_does_not_count_that_is_told_with_the_remedy(cli: Cli) -> None:
    choose = f"import socket; s = socket.socket(); s.{CHOICE}; s.connect(('server', 5000))"
    ask = "print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(bytes(1)).decode())"
    done = cli("live", "shell", "--server", ACCEPT_ALL, "--", sys.executable, "-c", f"{choose}; {ask}")
    assert (done.returncode, done.stdout) == (0, "cubic\n"), done.stderr
    assert "all connections use cubic, even if a program chooses another one" in done.stderr
    assert "net.ipv4.tcp_allowed_congestion_control" in done.stderr


ACCEPT_ALL = f"{sys.executable} -m http.server 5000"

UPLOAD = """
import socket
connection = socket.create_connection(("server", 5000))
connection.sendall(bytes(300_000))
connection.shutdown(socket.SHUT_WR)
print(connection.recv(100).decode())
"""


def test_what_a_client_sends_is_counted_and_its_direction_has_a_queue_of_its_own(
    cli: Cli, tmp_path: Path
) -> None:
    server = tmp_path / "sink.py"
    server.write_text(SINK.replace("CHOICE", ""), encoding="utf-8")
    up = ["--up-rate", "2Mbps", "--up-queue", "drop-tail", "--set", "bottleneck.reverse.queue.limit=5p"]
    words = [
        "--rate",
        "20Mbps",
        "--delay",
        "10ms",
        *up,
        "--server",
        f"{sys.executable} {server}",
        "--out",
        "out",
    ]
    done = cli("live", "shell", *words, "--", sys.executable, "-c", UPLOAD)
    assert (done.returncode, done.stdout) == (0, "300000\n"), done.stderr
    back = pl.read_parquet(tmp_path / "out/from_client.parquet").row(0, named=True)
    assert back["delivered_bytes"] == 300_000
    assert back["packets_dropped"] > 0 and back["retransmitted"] > 0
    links = {row["link"]: row for row in pl.read_parquet(tmp_path / "out/links.parquet").to_dicts()}
    assert links["bottleneck-back"]["rate_bps"] == 2e6
    assert links["bottleneck-back"]["drops"] == back["packets_dropped"]
    assert re.search(r"^  link bottleneck-back \(from the client\): utilisation", done.stderr, re.MULTILINE)
    sent = re.search(r"^    from the client: (\d+) packets, goodput ([\d.]+) Mbps", done.stderr, re.MULTILINE)
    assert sent is not None and int(sent[1]) == back["packets_sent"] and 0 < float(sent[2]) <= 2
    assert re.search(r"^    to the client: \d+ packets, goodput ", done.stderr, re.MULTILINE)


def test_datagrams_of_a_client_are_counted(cli: Cli, tmp_path: Path) -> None:
    serve = (
        'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7000))\n'
        "for number in range(50): _, client = s.recvfrom(2000)\n"
        's.sendto(b"all", client); s.recvfrom(2000)'
    )
    ask = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        'for number in range(50): s.sendto(bytes(500), ("server", 7000))\n'
        "print(s.recv(100))"
    )
    server = tmp_path / "serve.py"
    server.write_text(serve, encoding="utf-8")
    words = ["--server", f"{sys.executable} {server}", "--out", "out", "--", sys.executable, "-c", ask]
    done = cli("live", "shell", *words)
    assert (done.returncode, done.stdout) == (0, "b'all'\n"), done.stderr
    back = pl.read_parquet(tmp_path / "out/from_client.parquet").row(0, named=True)
    assert (back["packets_sent"], back["datagrams_received"], back["packets_dropped"]) == (50, 50, 0)
    there = pl.read_parquet(tmp_path / "out/flows.parquet").row(0, named=True)
    assert (there["packets_sent"], there["datagrams_received"], there["packets_marked"]) == (1, 1, 0)


def test_a_run_in_another_thread_is_a_run() -> None:
    found: list[al.Run] = []
    scenario = live.with_command(None, ["true"])
    thread = threading.Thread(target=lambda: found.append(live.run(scenario, until_done=True)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [live.status(run) for run in found] == [0]

"""Live runs of a program: `aqmlab live shell`. Bounds on time are wide, those on counts are not."""

from __future__ import annotations

import hashlib
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from conftest import Cli
from live_rig import (
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


def test_a_run_in_another_thread_is_a_run() -> None:
    found: list[al.Run] = []
    scenario = live.with_command(None, ["true"])
    thread = threading.Thread(target=lambda: found.append(live.run(scenario, until_done=True)))
    thread.start()
    thread.join(PATIENCE_S)
    assert [live.status(run) for run in found] == [0]

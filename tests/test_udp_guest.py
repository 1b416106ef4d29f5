"""Guests over real UDP sockets: `examples/guests/udp_guest.py`."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE_S

EXAMPLES = Path(__file__).parents[1] / "examples"
BRIDGE = EXAMPLES / "guests" / "udp_guest.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bridge uses socket options of Linux")

GUEST = """
import sys
sys.path.insert(0, "FOLDER")
from echo_guest import NEVER, serve

class Client:
    def __init__(self):
        self.ecn = 0

    def run(self, now, datagrams):
        events = [("ecn", ecn) for _, ecn, data in datagrams]
        events += [("received_bytes", len(data)) for _, _, data in datagrams]
        out = [(0, self.ecn, bytes(1000)), (0, self.ecn, bytes(1))] if self.ecn < 4 else []
        self.ecn += 1
        return out, now + 1_000_000 if self.ecn < 4 else NEVER, events

class Server:
    def run(self, now, datagrams):
        return datagrams, NEVER, []

def start(end, seed, config):
    if config == "wrong":
        sys.exit("the guest dislikes its configuration")
    return (Server(), NEVER) if end else (Client(), 0)

serve(start)
""".replace("FOLDER", str(EXAMPLES / "path"))
"""The client sends two datagrams with each value of the ECN bits, and the server returns them."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def guest(tmp_path: Path) -> list[str]:
    file = tmp_path / "guest.py"
    file.write_text(GUEST, encoding="utf-8")
    return [sys.executable, str(file)]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the bridge with these arguments. The bridge ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(BRIDGE), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


def test_datagrams_and_their_ecn_bits_reach_the_other_guest(start: Start, guest: list[str]) -> None:
    port = free_port()
    start("server", f"{port}", "--", *guest)
    limit = time.monotonic() + PATIENCE_S
    while f":{port:04X} " not in Path("/proc/net/udp").read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    client = start("client", f"127.0.0.1:{port}", "--events", "it", "--received", "4004", "--", *guest)
    out, err = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert lines.pop()[:3] == ["4004", "bytes", "received"]
    assert {label for label, *_ in lines} == {"it"}
    seen = [int(value) for _, _, name, value in lines if name == "ecn"]
    assert seen == [0, 0, 1, 1, 2, 2, 3, 3]
    times = [float(time_s) for _, time_s, *_ in lines]
    assert times == sorted(times) and times[0] > 0


@pytest.mark.parametrize(
    ("config", "command", "message"),
    [
        ("wrong", None, "udp_guest.py: the guest has exited"),
        ("{}", ["true"], "udp_guest.py: the guest has exited"),
    ],
)
def test_a_guest_that_exits_ends_the_bridge(
    start: Start, guest: list[str], config: str, command: list[str] | None, message: str
) -> None:
    bridge = start("client", "127.0.0.1:9", "--config", config, "--", *(command or guest))
    _, err = bridge.communicate(timeout=PATIENCE_S)
    assert bridge.returncode == 1
    assert err.splitlines()[-1] == message


def test_an_address_of_the_other_form_is_refused(start: Start) -> None:
    for words, form in ((("server", "host:4433"), "PORT"), (("client", "4433"), "HOST:PORT")):
        bridge = start(*words, "--", "true")
        _, err = bridge.communicate(timeout=PATIENCE_S)
        assert bridge.returncode == 2
        assert f"the address of a {words[0]} must be {form} (got {words[1]})" in err

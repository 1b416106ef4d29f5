"""Live runs that are disturbed, and what comes from inside. Counts have strict bounds, times wide ones."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from live_rig import (
    ANSWERED,
    ECHO,
    ENDLESS,
    LARGER_MTU,
    MIXED,
    NEEDED,
    PATIENCE_S,
    eventually,
    file,
    threads,
)

import aqmlab as al
from aqmlab import live

pytestmark = NEEDED


def under_way(command: Callable[..., subprocess.Popen[str]], *options: str) -> subprocess.Popen[str]:
    """A live run of `live.toml` in its midst."""
    process = command("live", "run", "live.toml", *options)
    eventually(lambda: "router" in threads(process), "the router starts")
    time.sleep(0.5)
    return process


def test_a_run_that_stood_still_is_not_valid(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    wait = '["sh", "-c", "until [ -e enough ]; do sleep 0.1; done"]'
    program = f'[traffic.wait]\nkind = "program"\nclient = {wait}\n'
    file(tmp_path, MIXED.replace('"1500ms"', f'"{ENDLESS}"') + program)
    process = under_way(command, "--until-done")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    (tmp_path / "enough").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (3, "")
    stalls = re.search(r"NOT VALID: the router stalled .*; the longest stall lasted (\d+) ms", out)
    assert stalls is not None and int(stalls[1]) >= 900, out
    assert "  valid" not in out.splitlines()


def test_an_interrupt_ends_a_run_at_once(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file(tmp_path, MIXED.replace('"1500ms"', f'"{ENDLESS}"'))
    process = under_way(command)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "aqmlab: interrupted\n")


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


def with_echo(program: str) -> al.Scenario:
    """A client that does this and then waits until the router has read what it sent."""
    return live.with_command(None, [sys.executable, "-c", program + ANSWERED], [sys.executable, "-c", ECHO])


def test_malformed_packets_are_counted_and_go_nowhere() -> None:
    scenario = with_echo(GARBAGE)
    run = live.run(scenario, until_done=True)
    assert live.status(run) == 0
    router = run.manifest["live"]["router"]
    assert router["malformed"] == 6 * 50
    # Those of the unknown protocol, and what the server says of them.
    assert router["handed_over"] == router["read"] - router["malformed"] >= 50


OVERSIZE = f"""
{LARGER_MTU}
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    sender.sendto(bytes(4000), ("server", 9))
"""


def test_packets_above_the_mtu_are_counted_and_make_a_run_invalid() -> None:
    run = live.run(with_echo(OVERSIZE), until_done=True)
    assert live.status(run) == 0
    assert run.manifest["live"]["router"]["oversize"] == 10
    assert "10 packets were larger than the MTU" in run.manifest["live"]["objections"]


@pytest.mark.skipif(shutil.which("ip") is None, reason="iproute2 is not installed")
@pytest.mark.parametrize("what", ["set tun0 down", "delete tun0"])
def test_a_device_that_vanishes_makes_a_run_invalid_and_no_more(what: str) -> None:
    command = ["sh", "-c", f"ip link {what} && sleep 0.5; exit 4"]
    run = live.run(live.with_command(None, command), until_done=True)
    assert live.status(run) == 4
    (objection,) = run.manifest["live"]["objections"]
    assert objection.startswith("the network of client was changed: ")


CONNECTIONS = 3000

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
        with socket.create_connection(("10.1.0.1", 5000), timeout=60) as connection:
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

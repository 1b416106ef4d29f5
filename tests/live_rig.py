"""What tests of live runs have in common."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S as PATIENCE_S

import aqmlab as al
from aqmlab import _core, live


def missing(*features: str) -> str:
    """Why live runs with these features are impossible here; empty if they are possible."""
    if not hasattr(_core, "live_privileges"):
        return "live runs need Linux"
    if _core.needs_user_namespace():
        return "the tests run live as root"
    granted = live.privileges()
    return "; ".join(f"{name}: {granted[name]}" for name in features if granted[name])


NEEDED = pytest.mark.skipif(bool(missing("namespaces", "tun")), reason=missing("namespaces", "tun"))
"""A live run is possible."""

ENDLESS = "600s"
"""The duration of runs that end when their work is done: no machine is so slow."""

ATTEMPTS = 4
"""So many runs are made for one that is valid."""

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


def run_valid(folder: Path, text: str, **options: Any) -> al.Run:
    """A run whose numbers count: the first valid one of a few, or the last where the machine is too busy."""
    for _ in range(ATTEMPTS):
        run = run_live(folder, text, **options)
        if run.manifest["live"]["valid"]:
            break
    return run


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


LARGER_MTU = """
import fcntl, socket, struct
SIOCSIFMTU = 0x8922
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFMTU, struct.pack("16si12x", b"tun0", 9000))
"""
"""A program that lets its host send packets which are too long: a run in which it does so is not valid."""


ECHO = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7)); " + (
    "s.sendto(*s.recvfrom(100)); s.recvfrom(100)"
)
"""A server that answers a datagram."""

ANSWERED = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.sendto(b"?", ("server", 7))
    asking.recv(100)
"""
"""A client that waits for that answer: the router has read by then what the client sent before."""


def link_types(path: Path) -> list[int]:
    """Those of the interfaces of a pcapng file."""
    interface_description, content, found, at = 1, path.read_bytes(), [], 0
    while at < len(content):
        kind, length = struct.unpack_from("=II", content, at)
        if kind == interface_description:
            found.append(struct.unpack_from("=H", content, at + 8)[0])
        at += length
    return found


def dropped(found: list[Packet]) -> list[Packet]:
    return [packet for packet in found if packet.comment.startswith("dropped")]

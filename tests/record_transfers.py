"""Real programs on a real network, recorded: `unshare --map-root-user --net python record_transfers.py ...`.

    FILE dumpcap near    what passes one end of the link, as pcapng
    FILE dumpcap any     what passes any interface there, in Linux cooked frames
    FILE socket near     without a recorder: what a packet socket is given, as pcap

Two network namespaces with a link between them, 4 Mb/s one way. On its far side are Python's http.server and
an echo of datagrams; on the near side http.client fetches three pages at once, over IPv4 and IPv6, and
datagrams longer than a packet go to and fro. Prints the length of each page as JSON.
"""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

PAGES = {"192.0.2.2": 24_000, "192.0.2.3": 6_000, "2001:db8::2": 12_000}
"""Where pages are fetched, and how long they are."""
DATAGRAM = 4_000
SNAP = 96
LAST_WORDS = b"all that is recorded"
PATIENCE_S = 120.0
ETHERNET = 1
EVERYTHING = 3
SO_TIMESTAMPNS = 35
ROOM = 212_992


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


def end_of_link(name: str, last: int) -> None:
    """Sets one end up, with packets cut before the adapter, so that what is recorded is what is sent."""
    run("ip link set lo up")
    run(f"ip link set {name} gso_max_segs 1 up")
    run(f"ip addr add 192.0.2.{last}/24 dev {name}")
    run(f"ip addr add 2001:db8::{last}/64 dev {name} nodad")


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keeps silent."""


def serve() -> None:
    """The far side: says when its namespace is there, waits for the link, and serves until it is killed."""
    print("here", flush=True)
    sys.stdin.readline()
    end_of_link("far", 2)
    run("ip addr add 192.0.2.3/24 dev far")
    run("tc qdisc replace dev far root tbf rate 4mbit burst 3000 latency 200ms")
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.bind(("::", 7))

    def echo() -> None:
        while True:
            datagrams.sendto(*datagrams.recvfrom(65535))

    threading.Thread(target=echo, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        for size in PAGES.values():
            Path(folder, str(size)).write_bytes(bytes(size))
        server = Server(("::", 80), lambda *given: Handler(*given, directory=folder))
        print("serving", flush=True)
        server.serve_forever()


def fetch(address: str, fetched: dict[str, int]) -> None:
    line = http.client.HTTPConnection(address, 80, timeout=PATIENCE_S)
    line.request("GET", f"/{PAGES[address]}")
    fetched[address] = len(line.getresponse().read())
    line.close()


def send_long(address: str) -> None:
    with datagram_socket(address) as line:
        line.send(bytes(DATAGRAM))
        line.recv(65535)


def datagram_socket(address: str) -> socket.socket:
    line = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    line.settimeout(PATIENCE_S)
    line.connect((address, 7))
    return line


def traffic() -> dict[str, int]:
    fetched: dict[str, int] = {}
    threads = [threading.Thread(target=fetch, args=(address, fetched)) for address in PAGES]
    threads += [
        threading.Thread(target=send_long, args=(address,)) for address in ("192.0.2.2", "2001:db8::2")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with datagram_socket("192.0.2.2") as line:
        line.send(LAST_WORDS)
        line.recv(65535)
    return fetched


def wait_for(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            sys.exit(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.01)


def with_dumpcap(out: Path, interface: str) -> dict[str, int]:
    command = ["dumpcap", "-q", "-i", interface, "-s", str(SNAP), "-w", str(out)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as recorder:
        wait_for(lambda: out.exists() and out.stat().st_size > 0, "a file of dumpcap")
        fetched = traffic()
        wait_for(lambda: out.read_bytes().count(LAST_WORDS) >= 2, "the last datagram and its echo")
        recorder.terminate()
    return fetched


def with_socket(out: Path, interface: str) -> dict[str, int]:
    line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
    line.bind((interface, EVERYTHING))
    # A busy machine lets packets wait until they are read: they have room, and the time at which they came.
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    line.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    line.settimeout(PATIENCE_S)
    fetched: dict[str, int] = {}
    thread = threading.Thread(target=lambda: fetched.update(traffic()))
    with out.open("wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, ETHERNET))
        thread.start()
        heard = 0
        while heard < 2:
            frame, notes, *_ = line.recvmsg(65535, socket.CMSG_SPACE(16))
            seconds, nanoseconds = struct.unpack("=qq", notes[0][2])
            file.write(
                struct.pack("=IIII", seconds, nanoseconds, len(frame[:SNAP]), len(frame)) + frame[:SNAP]
            )
            heard += LAST_WORDS in frame
    thread.join()
    return fetched


def record(out: Path, recorder: str, interface: str) -> None:
    command = ["unshare", "--net", sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as far:
        try:
            assert far.stdin is not None
            assert far.stdout is not None
            far.stdout.readline()
            run(f"ip link add near type veth peer name far netns {far.pid}")
            end_of_link("near", 1)
            print("there", file=far.stdin, flush=True)
            far.stdout.readline()
            with_recorder = {"dumpcap": with_dumpcap, "socket": with_socket}[recorder]
            print(json.dumps(with_recorder(out, interface)))
        finally:
            far.kill()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        record(Path(sys.argv[1]), *sys.argv[2:])

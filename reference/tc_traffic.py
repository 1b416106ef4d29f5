"""Sends packets through a link that `aqmlab tc write` configured in a real kernel: every packet passes the
shaper and the queue first and netem afterwards, and no packet is faster than the link.

The kernel of `tc_kernel.py` runs in real time, so a busy machine may delay packets. The program therefore
checks only bounds that hold on any machine.

    python reference/tc_traffic.py           send packets both ways, and fail if a bound is violated
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import aqmlab as al
import tc_kernel
from aqmlab import tc

PACKETS = 60
LENGTH = 1014
"""Size of a packet with all headers, in bytes."""

BPS = 1_000_000
DELAY_S = 0.03
BURST = 1600
"""Size of htb's bucket in bytes, which may pass without waiting."""

LINK = {"rate": f"{BPS}bps", "delay": "30ms", "queue": {"kind": "drop-tail", "limit": "20p"}}

RECEIVE = f"""
import socket, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("10.9.0.2", 9000))
receiver.settimeout(8)
received = []
try:
    while len(received) < {PACKETS}:
        receiver.recv(2000)
        received.append(time.monotonic())
        receiver.settimeout(3)
except TimeoutError:
    pass
print(len(received), received[0] if received else 0, received[-1] if received else 0)
"""

SEND = f"""
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(time.monotonic())
for _ in range({PACKETS}):
    sender.sendto(bytes({LENGTH - 42}), ("10.9.0.2", 9000))
"""

SETUP = """
ip netns add far
ip link add v0 type veth peer name v1 netns far
ip addr add 10.9.0.1/24 dev v0; ip link set v0 address 02:00:00:00:00:01; ip link set v0 up
ip netns exec far ip addr add 10.9.0.2/24 dev v1
ip netns exec far ip link set v1 address 02:00:00:00:00:02
ip netns exec far ip link set v1 up
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0
ip netns exec far ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev v1
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2> /dev/null
"""


def job(number: int, near: tuple[str, ...], far: tuple[str, ...]) -> list[str]:
    """Returns the commands that configure both ends, send packets and show the counters."""
    run = f"{sys.executable} {tc_kernel.WORK}"
    return [
        *near,
        *(f"ip netns exec far {line}" for line in far),
        f"ip netns exec far {run}/receive.py > /run/received & pid=$!; sleep 3",
        f"echo '=== {number} sent'; {run}/send.py; wait $pid",
        f"echo '=== {number} received'; cat /run/received",
        f"echo '=== {number} near'; tc -j -s qdisc show",
        f"echo '=== {number} far'; ip netns exec far tc -j -s qdisc show",
    ]


def violated(shown: dict[str, str], *, delayed: bool) -> list[str]:
    """Returns the bounds that the packets violated."""
    count, first, last = (float(word) for word in shown["received"].split())
    queues = [
        queue
        for place in ("near", "far")
        for queue in json.loads(shown[place].splitlines()[0])
        if queue["kind"] in ("htb", "netem")
    ]
    shaper = next(queue for queue in queues if queue["kind"] == "htb")
    least_s = max((count - 1) * LENGTH - BURST, 0) * 8 / BPS
    start = float(shown["sent"].split()[0])
    bounds = {
        f"received {count:g} of {PACKETS} packets, sent {shaper['packets']}": count == shaper["packets"],
        f"dropped {shaper['drops']} packets": count + shaper["drops"] == PACKETS,
        f"the last packet was {last - start:.4f} s late": last - start >= least_s + DELAY_S * delayed,
        f"the first packet was {first - start:.4f} s late": first - start >= DELAY_S * delayed,
    }
    if delayed:
        netem = next(queue for queue in queues if queue["kind"] == "netem")
        bounds[f"netem delayed {netem['packets']} packets"] = netem["packets"] == count
    for text in bounds:
        print(f"  {text}")
    return [text for text, holds in bounds.items() if not holds]


def main() -> None:
    """Sends packets through an upload with a delay, and through a download."""
    table = {"duration": "1s", "bottleneck": LINK, "traffic": {"f": {"kind": "ftp"}}}
    scenario = al.Scenario.from_dict(table)
    upload = tc.write(scenario, device="v0")
    download = tc.write(scenario, None, "v1", download="bottleneck")
    path = tc_kernel.kernel()
    for name, program in (("receive", RECEIVE), ("send", SEND)):
        Path(tc_kernel.WORK / f"{name}.py").write_text(program, encoding="utf-8")
    lines = [
        'modprobe() { "$work/tools/modprobe" -q -d /run "$1"; }; modprobe veth; modprobe cls_matchall',
        *SETUP.strip().splitlines(),
        *job(0, upload.lines, ()),
        *upload.undo,
        *job(1, (), download.lines),
    ]
    parts = tc_kernel.outputs(tc_kernel.boot(path, "\n".join(lines) + "\n"))
    failures = []
    for number, name in enumerate(("upload with a delay", "download")):
        print(name)
        shown = {part: text for (at, part), text in parts.items() if at == number}
        failures += violated(shown, delayed=number == 0)
    for text in failures:
        print(f"violated: {text}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

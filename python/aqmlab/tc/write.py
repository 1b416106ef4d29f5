"""Commands for Linux that configure a scenario's link."""

from __future__ import annotations

from dataclasses import dataclass, field

from aqmlab.scenario import Scenario
from aqmlab.tc import netem as netem_words
from aqmlab.tc.commands import Commands
from aqmlab.tc.link import Link, checked_device, chosen

_MAX_NAME = 15
"""Number of characters of the longest name of a network device (IFNAMSIZ - 1)."""

_OFFLOADS = (
    "The kernel counts a super-packet (TSO, GSO, GRO) as one packet. `ethtool -K DEVICE tso off gso off "
    "gro off` switches super-packets off; cake splits super-packets itself."
)


@dataclass
class _Plan:
    """Commands under construction. `undo` is in the order of execution."""

    lines: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    redirects: list[str] = field(default_factory=list)

    def queue(self, link: Link, device: str) -> None:
        """Adds the shaper and the queue of a link."""
        found = link.qdisc(device)
        self.limits += link.limits(found["root"])
        own = found["own_rate"]
        if own is not None and found["root"]["kind"] != "htb" and own < link.bps:
            self.limits.append(
                f"{link.path}.rate: the shaper of the queue is slower than the link, so no htb limits the "
                f"rate"
            )
        self.lines += found["lines"]

    def ifb(self, name: str) -> None:
        """Adds an ifb device."""
        self.lines += [f"ip link add {name} type ifb", f"ip link set dev {name} up"]
        self.undo.append(f"ip link del {name}")

    def netem(self, link: Link, device: str) -> None:
        """Adds the delay, losses and reordering of a link at the root of a device."""
        self.lines += netem_words.commands(link, device)
        self.undo.insert(0, f"tc qdisc del dev {device} root")


def write(
    scenario: Scenario,
    link: str | None = "bottleneck",
    device: str = "eth0",
    *,
    direction: str = "forward",
    download: str | None = None,
    netem: bool = True,
    netem_device: str | None = None,
) -> Commands:
    """Returns the commands that make a network device behave like one or two links of a scenario.

    `link` is the link into which the machine sends packets through `device`; `direction="reverse"` selects
    its reverse link. `download` is the link whose packets arrive at `device`. Either of the two may be
    `None`. With `netem=False`, only the rate and the queue are configured, as for a real line, which has
    its own delay. `netem_device` is the device through which the packets of the download leave the
    machine, where `netem` can delay these packets.

    Raises `ValueError` if a link does not exist or if Linux does not have its queue.
    """
    checked_device("device", device)
    plan = _Plan()
    if link is None and download is None:
        raise ValueError("link: is missing; name a link, or name the link of a download")
    if link is not None:
        _egress(plan, chosen(scenario, link, direction), device, netem)
    if download is not None:
        _ingress(plan, chosen(scenario, download, argument="download"), device, netem, netem_device)
    elif netem_device is not None:
        raise ValueError("netem_device: applies only to the link of a download")
    if plan.redirects:
        plan.lines += [f"tc qdisc add dev {device} clsact", *plan.redirects]
        plan.undo.insert(0, f"tc qdisc del dev {device} clsact")
    plan.notes.append(_OFFLOADS.replace("DEVICE", device))
    return Commands(tuple(plan.lines), tuple(plan.undo), tuple(dict.fromkeys(plan.limits)), tuple(plan.notes))


def _egress(plan: _Plan, link: Link, device: str, netem: bool) -> None:
    """Adds a link into which the device sends. CoDel and PIE measure the time that a packet waits for the
    shaper, so the propagation delay must follow the shaper. The packets therefore pass an ifb device with the
    shaper and the queue first, and then return to the device, whose root delays the packets."""
    if not (netem and netem_words.commands(link, device)):
        plan.notes.append(f"{link.name}: the root of {device} limits the rate and queues packets.")
        plan.queue(link, device)
        plan.undo.insert(0, f"tc qdisc del dev {device} root")
        return
    ifb = _ifb("out4", device)
    plan.notes.append(
        f"{link.name}: packets pass {ifb}, which limits the rate and queues packets, and then the root of "
        f"{device}, which delays packets. A delay before the shaper would change the queue's decisions."
    )
    plan.ifb(ifb)
    plan.queue(link, ifb)
    plan.netem(link, device)
    plan.redirects.append(
        f"tc filter add dev {device} egress matchall action mirred egress redirect dev {ifb}"
    )


def _ingress(plan: _Plan, link: Link, device: str, netem: bool, netem_device: str | None) -> None:
    """Adds a link whose packets arrive at the device. Queues exist only where packets leave a device, so the
    packets are redirected to an ifb device."""
    ifb = _ifb("ifb4", device)
    plan.notes.append(
        f"{link.name}: packets that arrive at {device} pass {ifb}, which limits the rate and queues packets."
    )
    plan.ifb(ifb)
    plan.queue(link, ifb)
    plan.redirects.append(
        f"tc filter add dev {device} ingress matchall action mirred egress redirect dev {ifb}"
    )
    if not netem or not netem_words.commands(link, device):
        return
    if netem_device is None:
        plan.limits.append(
            f"{link.path}.delay: netem can delay packets only where the packets leave the machine after "
            f"{ifb}; name this device with --netem-device"
        )
        return
    checked_device("netem_device", netem_device)
    if netem_device == device:
        raise ValueError(f"netem_device: must differ from device, {device}")
    plan.netem(link, netem_device)


def _ifb(prefix: str, device: str) -> str:
    """Returns the name of an ifb device. A name that is too long loses characters at the beginning of the
    device's name, as in sqm-scripts."""
    name = device.replace("@", "-").replace(":", "-")
    return prefix + name[-(_MAX_NAME - len(prefix)) :]

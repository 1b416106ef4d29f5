"""Configures devices of a real Linux kernel with the sections of `aqmlab tc write --format networkd`, and
compares the queues that the kernel shows with the queues of the scenario.

The program runs `systemd-networkd` of Debian's package `systemd` in the kernel of `tc_kernel.py`. Of a
queue with parameters for which networkd has no key, only the kind is compared.

    python reference/tc_networkd.py          compare, and fail on a difference
"""

from __future__ import annotations

import sys
from typing import Any

import aqmlab as al
import tc_kernel
import tc_queues
from aqmlab import tc

RATE = tc_queues.RATES[0]
LIMITS = ("no key", "no size table", "needs systemd 253")
"""Words of limits because of which the kernel's queue differs from the queue of the scenario."""

PAUSE_S = 15
"""Time after which networkd has configured all devices."""


def scenario(queue: dict[str, Any]) -> al.Scenario:
    """A link without delay."""
    table = {"rate": RATE, "delay": "0s", "queue": queue}
    return al.Scenario.from_dict({"duration": "1s", "bottleneck": table, "traffic": {"f": {"kind": "ftp"}}})


def cases() -> dict[str, tuple[dict[str, Any], tc.Commands]]:
    """Returns a queue and its sections for each device."""
    found: dict[str, tuple[dict[str, Any], tc.Commands]] = {}
    for kind, variants in tc_queues.VARIANTS.items():
        for variant in variants:
            queue = {"kind": kind, **variant}
            device = f"n{len(found)}"
            try:
                found[device] = queue, tc.networkd(scenario(queue), device=device)
            except ValueError:
                continue
    return found


def job(all_cases: dict[str, tuple[dict[str, Any], tc.Commands]]) -> str:
    """Returns a shell script that starts networkd and shows the queues of all devices."""
    library = tc_kernel.WORK / "unpacked" / "lib"
    program = library / "systemd" / "systemd-networkd"
    libraries = f"{library}/x86_64-linux-gnu/systemd:{library}/x86_64-linux-gnu"
    # On a read-only /sys, networkd does not wait for udev.
    parts = ["mount -o remount,ro /sys", "mkdir -p /run/systemd/network", "ip link set lo up"]
    for device, (_, commands) in all_cases.items():
        parts.append(f"ip link add {device} type dummy")
        text = "\n".join(commands.lines)
        parts.append(f"cat > /run/systemd/network/{device}.network <<'END'\n{text}\nEND")
    parts.append("echo '=== 0 log'")
    parts.append(f"LD_LIBRARY_PATH={libraries} SYSTEMD_LOG_TARGET=console {program} 2>&1 & sleep {PAUSE_S}")
    for device in all_cases:
        parts.append(f"echo '=== 0 {device}'")
        parts.append(f"tc -j -s -d qdisc show dev {device}; tc -j -s -d class show dev {device}")
    return "\n".join(parts) + "\n"


def main() -> None:
    """Compares all queues and prints a table."""
    path = tc_kernel.kernel((*tc_kernel.PACKAGES, "systemd"))
    all_cases = cases()
    shown = tc_kernel.outputs(tc_kernel.boot(path, job(all_cases)))
    failed = absent = 0
    for device, (queue, commands) in all_cases.items():
        try:
            read = tc.read(shown[(0, device)], file=device)
        except (KeyError, tc.TcError) as error:
            # The packaged kernel has no fq_pie.
            absent += queue["kind"] == "fq-pie"
            failed += queue["kind"] != "fq-pie"
            print(f"absent   {queue}: {error}")
            continue
        before, after = arguments(queue), arguments(dict(read.queue))
        limited = any(word in limit for limit in commands.limits for word in LIMITS)
        alike = before == after or (limited and before["kind"] == after["kind"])
        failed += not alike
        print(f"{'equal  ' if before == after else 'limited' if alike else 'differs'}  {queue}")
    warnings = [line for line in shown[(0, "log")].splitlines() if "Unknown" in line]
    # Version 252 does not know these two keys.
    unknown = [line for line in warnings if "AckFilter" not in line and "RTTSec" not in line]
    print("\n".join(unknown))
    print(f"networkd: {len(all_cases)} queues, {failed} differ, {absent} not in this kernel")
    sys.exit(1 if failed or unknown else 0)


def arguments(queue: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a queue, without the time that the kernel shows in whole ticks."""
    found = tc_kernel.arguments(queue, RATE)
    found["arguments"] = [word for word in found["arguments"] if word[0] != "tupdate"]
    return found


if __name__ == "__main__":
    main()

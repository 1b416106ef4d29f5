"""Runs the commands of `aqmlab tc write` in a real Linux kernel, reads what the kernel's `tc` shows, and
compares the queue that was read with the queue that was written.

The kernel is a User-Mode-Linux kernel, which needs no privileges and does not touch the network of the
host. The environment variable AQM_UML names the kernel. Otherwise, the program downloads Debian's packages
`user-mode-linux`, `kmod` and `busybox-static` with `apt-get download`, without installing them.

    python reference/tc_kernel.py            compare, and fail on a difference
    python reference/tc_kernel.py --record   also write tests/tc_outputs/linux.json
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aqmlab as al
from aqmlab import _core, tc
from aqmlab.tc.link import Link
from tc_queues import LINKS, RATES, VARIANTS

ROOT = Path(__file__).parent.parent
WORK = ROOT / "out" / "tc-kernel"
RECORDS = ROOT / "tests" / "tc_outputs" / "linux.json"
DEVICE = "d0"
PACKAGES = ("user-mode-linux", "kmod", "busybox-static")
LIMIT_S = 600
"""Time limit of the guest. The guest needs about 20 s on an idle machine."""


@dataclass(frozen=True)
class Case:
    """A link whose commands run in the kernel."""

    link: dict[str, Any]
    lines: tuple[str, ...]
    undo: tuple[str, ...]
    devices: tuple[str, ...]

    @property
    def name(self) -> str:
        queue = self.link["queue"]
        return (
            f"{queue['kind']} {json.dumps({key: queue[key] for key in queue if key != 'kind'})} "
            f"{self.link['rate']}"
        )


def cases() -> Iterator[Case]:
    """Yields every queue at 10 Mbit/s, some queues at other rates, and links with a delay."""
    for kind, variants in VARIANTS.items():
        for variant in variants:
            yield case({"rate": RATES[0], "queue": {"kind": kind, **variant}})
    for rate in RATES[1:]:
        yield case({"rate": rate, "queue": {"kind": "codel"}})
        yield case({"rate": rate, "queue": {"kind": "linux-red", "min": "30kB", "max": "90kB"}})
    for link in LINKS:
        yield case({"rate": RATES[0], **link, "queue": {"kind": "fq-codel"}})


def case(link: dict[str, Any]) -> Case:
    """Returns the commands for a link."""
    table = {"delay": "0s", **link}
    scenario = al.Scenario.from_dict(
        {"duration": "1s", "bottleneck": table, "traffic": {"f": {"kind": "ftp"}}}
    )
    written = tc.write(scenario, device=DEVICE)
    imitated = any(line.startswith("ip link add") for line in written.lines)
    return Case(table, written.lines, written.undo, (f"out4{DEVICE}", DEVICE) if imitated else (DEVICE,))


def job(all_cases: list[Case]) -> str:
    """Returns a shell script that creates and shows the queues of all cases."""
    parts = [f"ip link add {DEVICE} type dummy", f"ip link set dev {DEVICE} up"]
    for number, one in enumerate(all_cases):
        parts.append(f"echo '=== {number} commands'")
        parts += [f"{line} 2>&1" for line in one.lines]
        for device in one.devices:
            parts.append(f"echo '=== {number} {device}'")
            parts.append(f"tc -j -s -d qdisc show dev {device}; tc -j -s -d class show dev {device}")
        parts.append(f"echo '=== {number} undo'")
        parts += [f"{line} 2>&1" for line in one.undo]
    return "\n".join(parts) + "\n"


def kernel(packages: tuple[str, ...] = PACKAGES) -> Path:
    """Returns the kernel, and prepares the folder `WORK` with modules, tools and unpacked packages."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "tools").mkdir(exist_ok=True)
    unpacked = WORK / "unpacked"
    for package in packages:
        if any(WORK.glob(f"{package}_*.deb")):
            continue
        try:
            subprocess.run(["apt-get", "download", package], cwd=WORK, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            sys.exit(
                f"tc-kernel: {package}: cannot be downloaded with apt-get; on other systems than Debian, "
                "build a User-Mode-Linux kernel (make ARCH=um), and set AQM_UML=PATH"
            )
        archive = next(iter(WORK.glob(f"{package}_*.deb")))
        subprocess.run(["dpkg", "-x", archive.name, "unpacked"], cwd=WORK, check=True)
    shutil.copy(unpacked / "bin" / "kmod", WORK / "tools" / "modprobe")
    shutil.copy(unpacked / "bin" / "busybox", WORK / "tools" / "busybox")
    modules = WORK / "modules"
    if not modules.exists():
        modules.symlink_to(unpacked / "usr" / "lib" / "uml" / "modules")
    return Path(os.environ.get("AQM_UML") or unpacked / "usr" / "bin" / "linux.uml")


def boot(path: Path, script: str) -> str:
    """Runs a shell script in the kernel and returns its output."""
    (WORK / "job.sh").write_text(script, encoding="utf-8")
    init = ROOT / "reference" / "linux" / "tc" / "init.sh"
    command = [
        str(path),
        "mem=256M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={init}",
    ]
    command += [f"work={WORK}", "con=null", "con0=null,fd:1", "quiet"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.stdout


def outputs(text: str) -> dict[tuple[int, str], str]:
    """Returns the parts of the guest's output by the number of the case and the name of the part."""
    found: dict[tuple[int, str], str] = {}
    key: tuple[int, str] | None = None
    for line in text.splitlines():
        if line.startswith("=== "):
            _, number, name = line.split(" ")
            key = (int(number), name)
            found[key] = ""
        elif key is not None and not line.startswith("reboot:"):
            found[key] += f"{line}\n"
    return found


def arguments(table: dict[str, Any], rate: str) -> dict[str, Any]:
    """Returns the arguments with which `tc` creates a queue. `burst`, `avpkt` and `bandwidth` are replaced
    by the values that `tc` computes from them."""
    root = json.loads(_core.tc_qdisc(json.dumps(table), rate, DEVICE, False))["root"]
    return plain(root)


def plain(root: dict[str, Any]) -> dict[str, Any]:
    computed = ("burst", "avpkt", "bandwidth") if root["kind"] in ("red", "choke", "gred") else ()
    computed = (
        (*computed, "burst", "redflowlimit", "increment", "decrement")
        if root["kind"] in ("sfq", "sfb")
        else computed
    )

    def kept(words: list[list[str]]) -> list[list[str]]:
        return sorted(word for word in words if word[0] not in computed)

    return {
        "kind": root["kind"],
        "size_table": root["size_table"],
        "arguments": kept(root["arguments"]),
        "changes": sorted(kept(change) for change in root["changes"]),
        "computed": root["computed"],
        # `tc` converts the sizes of buckets to times and back, and shows quanta that were not set.
        "classes": [
            [word for word in one["arguments"] if word[0] not in ("burst", "cburst", "quantum")]
            for one in root["classes"]
        ],
        "inside": [plain(one["queue"]) for one in root["classes"] if one["queue"]],
    }


def problems(one: Case, shown: dict[str, str]) -> Iterator[str]:
    """Yields the differences between a case and the kernel's output."""
    # `tc` warns about a large burst of RED, but accepts the burst.
    complaints = [line for line in shown["commands"].splitlines() if line and "WARNING" not in line]
    if complaints:
        yield f"the kernel rejected a command: {complaints[0]}"
        return
    device = one.devices[0]
    read = tc.read(shown[device], file=device)
    rate = one.link["rate"]
    before, after = arguments(one.link["queue"], rate), arguments(dict(read.queue), rate)
    if before["kind"] in ("pie", "fq_pie"):
        # The kernel shows tupdate in whole ticks.
        for found in (before, after):
            found["arguments"] = [word for word in found["arguments"] if word[0] != "tupdate"]
    if before != after:
        yield f"wrote {before}, read {after}"
    expected = json.loads(_core.tc_qdisc(json.dumps(one.link["queue"]), rate, DEVICE, False))["options"]
    if expected:
        entry = next(
            entry
            for entry in json.JSONDecoder().raw_decode(shown[device])[0]
            if entry["kind"] == expected["kind"]
        )
        for name, value in expected.items():
            if name not in ("kind", "vqs") and not same(entry["options"].get(name), value):
                yield f"options.{name}: the kernel shows {entry['options'].get(name)}, the core {value}"
    link = Link("bottleneck", "bottleneck", one.link)
    own = json.loads(_core.tc_qdisc(json.dumps(one.link["queue"]), rate, DEVICE, True))["own_rate"]
    if own is None and round(_core.quantity(str(read.link.get("rate", "8bps")))[0]) != link.bps:
        yield f"rate: wrote {link.bps}bit, read {read.link.get('rate')}"
    if len(one.devices) > 1:
        channel = tc.read(shown[one.devices[1]], file=one.devices[1]).link
        for key in ("delay", "loss", "reordering"):
            expected_value = one.link.get(key)
            if key == "reordering" and expected_value:
                expected_value = {"jitter": "0s", **expected_value}
            if key == "loss" and expected_value and "p" not in expected_value:
                expected_value = {"probability": expected_value["probability"]}
            if channel.get(key, "0s" if key == "delay" else None) != expected_value:
                yield f"{key}: wrote {expected_value}, read {channel.get(key)}"
    if shown["undo"].strip():
        yield f"the kernel rejected a command of --undo: {shown['undo'].splitlines()[0]}"


def same(shown: Any, value: Any) -> bool:
    """Returns whether two options are equal; `tc` prints six digits of a real number."""
    if isinstance(value, float) and isinstance(shown, int | float):
        return abs(shown - value) <= 1e-5 * abs(value)
    return bool(shown == value)


def main() -> None:
    """Compares all cases and prints a table."""
    all_cases = list(cases())
    text = boot(kernel(), job(all_cases))
    (WORK / "output.txt").write_text(text, encoding="utf-8")
    version = next((line for line in text.splitlines() if line.startswith("kernel ")), "no kernel")
    parts = outputs(text)
    if not parts:
        sys.exit(f"tc-kernel: the kernel did not run the commands:\n{text[-2000:]}")
    records, absent, failed = [], set(), 0
    for number, one in enumerate(all_cases):
        shown = {name: part for (at, name), part in parts.items() if at == number}
        kind = one.link["queue"]["kind"]
        if "qdisc kind is unknown" in shown.get("commands", "") or "Unknown qdisc" in shown.get(
            "commands", ""
        ):
            absent.add(kind)
            continue
        found = list(problems(one, shown))
        failed += bool(found)
        print(f"{'differs' if found else 'equal  '}  {one.name}")
        for problem in found:
            print(f"         {problem}")
        records.append({"link": one.link, "lines": one.lines, "shown": {d: shown[d] for d in one.devices}})
    tools = subprocess.run(["tc", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}, {tools}: {len(records)} links, {failed} differ")
    if absent:
        print(f"not in this kernel: {', '.join(sorted(absent))}")
    if "--record" in sys.argv[1:]:
        RECORDS.parent.mkdir(exist_ok=True)
        recorded = {"kernel": version.removeprefix("kernel "), "tc": tools, "links": records}
        RECORDS.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""A program that answers like a User-Mode-Linux kernel, and runs the job of a guest as a simulation.

The file `fault` beside the program selects a fault: `panic`, `hang`, `no-uml`, `no-time-travel`, `no-seed`,
`live-error` or `scenario-error`. The program has no guest, and reads and writes the job's folder directly.
Programs of a scenario do not run: downloads of 1 s replace the programs, the commands of the clients are
printed, and their exit status is `STATUS`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from aqmlab import _core

CONFIGURATION = """\
# CONFIG_STATIC_LINK is not set
CONFIG_UML=y
CONFIG_UML_TIME_TRAVEL_SUPPORT=y
CONFIG_HZ=250
CONFIG_TCP_CONG_CUBIC=y
CONFIG_TCP_CONG_HSTCP=y
CONFIG_NET_SCH_FIFO=y
CONFIG_NET_SCH_CODEL=y
CONFIG_NET_SCH_FQ_CODEL=y
"""

STATUS = 7


def main() -> None:
    fault = Path(__file__).with_name("fault")
    kind = fault.read_text() if fault.exists() else ""
    if "--showconfig" in sys.argv:
        text = CONFIGURATION
        if kind == "no-uml":
            text = text.replace("CONFIG_UML=y\n", "")
        if kind == "no-time-travel":
            text = text.replace("CONFIG_UML_TIME_TRAVEL_SUPPORT=y\n", "")
        print(text, end="")
    elif "--version" in sys.argv:
        print("6.1.99")
    elif "--help" in sys.argv:
        print("" if kind == "no-seed" else "random-seed=<number>\n")
    else:
        run(kind)


def run(kind: str) -> None:
    folder = Path.cwd()
    (folder / "arguments").write_text("\n".join(sys.argv))
    print("Linux version 6.1.99", flush=True)
    if kind == "panic":
        print("Kernel panic - not syncing: Attempted to kill init!", flush=True)
        os.abort()
    if kind == "hang":
        if os.fork() == 0:
            time.sleep(600)
        Path(__file__).with_name("running").write_text(str(os.getpid()))
        time.sleep(600)
    job = json.loads((folder / "job.json").read_text())
    clients = [" ".join(job["scenario"]["traffic"][name]["client"]) for name in programs(job["scenario"])]
    (folder / "stdout").write_text("\n".join(clients or ["a program prints"]) + "\n")
    (folder / "stderr").write_text("a program complains\n")
    plan = _core.Document.of_json(json.dumps(without_programs(job["scenario"]))).plan(job["files"])
    if kind == "live-error":
        result = {"error": "live", "text": "cannot create the host `server`: no TUN device"}
    elif kind == "scenario-error":
        path, problem = "tcp.rto.tick", "must be the kernel's tick, 4ms (got 0s)"
        result = {
            "error": "scenario",
            "text": f"{path}: {problem}",
            "path": path,
            "problem": problem,
            "problems": [[path, problem]],
            "without_effect": [],
        }
    else:
        output = plan_run(plan, job)
        (folder / "tables.json").write_text(output.tables())
        if "pcap" in job["options"]:
            (folder / Path(job["options"]["pcap"]).name).write_bytes(b"packets")
        manifest = json.loads(output.manifest)
        manifest["live"] = live(job)
        result = {
            "manifest": manifest,
            "events": output.events,
            "forwarded": output.forwarded,
            "digest": output.digest(),
        }
    (folder / "result.json").write_text(json.dumps(result))


def without_programs(scenario: dict[str, Any]) -> dict[str, Any]:
    names = programs(scenario)
    if not names:
        return scenario
    downloads = {name: {"kind": "ftp"} for name in names}
    return {**scenario, "duration": "1s", "traffic": scenario["traffic"] | downloads}


def programs(scenario: dict[str, Any]) -> list[str]:
    return [name for name, one in scenario["traffic"].items() if one["kind"] == "program"]


def plan_run(plan: _core.Plan, job: dict[str, object]) -> _core.Output:
    seed = job["options"]["seed"]  # type: ignore[index]
    return plan.run(_core.Watch(), seed)


def live(job: dict[str, object]) -> dict[str, object]:
    """The part of the manifest that a live run adds."""
    return {
        "valid": True,
        "objections": [],
        "ended_s": 4.0,
        "virtual_time": True,
        "realtime": {},
        "in_force": {},
        "load": {"workloads": {}},
        "hints": None,
        "congestion_control": job["options"]["congestion_control"],  # type: ignore[index]
        "congestion_controls": {},
        "statuses": dict.fromkeys(programs(job["scenario"]), STATUS),  # type: ignore[arg-type]
        "servers_ended": {},
        "tcp_shortfalls": {},
        "lateness": {"p50_us": 1.0, "p99_us": 1.0, "max_us": 1.0, "packets": 100},
    }


if __name__ == "__main__":
    main()

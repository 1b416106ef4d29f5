"""Records the responsiveness that `mach` (the crate cf-mach) measures behind links of aqmlab's live mode.

    cargo install cf-mach --version 0.4.0 --locked
    cd reference
    python -m rpm.record [--mach FILE] [--repetitions N] [--rates MBPS,...]
        [--out FILE] [--continue]
    python -m rpm.record --table [--out FILE]

The program needs Linux, root and the libraries `h2` and `cryptography` (aqmlab's extra `http`). Each run has
one link and one test: 20 requests on the idle line, 12 s of download and 12 s of upload. Runs that are not
valid are repeated, in at most `ATTEMPTS` runs. The program records all links once, then all links again, so
that a disturbance of the machine affects few runs of a link. `--continue` keeps the rows of FILE and adds the
missing repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import record_file
from http_pages import certificate
from rpm import links
from rpm.links import CELLS, DIRECTIONS, NOT_SENT, Cell

HERE = Path(__file__).resolve().parent
ATTEMPTS = 5
TEST_MS = 12_000
"""Duration of a direction, which is mach's default."""
SERVER = "10.1.0.1"


def origin(mach: str) -> list[str]:
    """The versions of the programs that make the record, and the date."""
    said = subprocess.run([mach, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return [
        f"Linux {platform.release()}, {os.cpu_count()} processors",
        f"{said}, Python {platform.python_version()}, h2 {version('h2')}",
        time.strftime("%Y-%m-%d", time.gmtime()),
    ]


def commands(folder: Path, mach: str) -> tuple[list[str], list[str], Path]:
    """The commands of the server and of the client, and the file with the client's output.

    Both programs have the lowest real-time priority, so that other programs of the machine do not delay them.
    The priority of the router is higher. With `--std 0`, no result counts as stable, so that each direction
    lasts `TEST_MS`. mach reads all certificates of the machine for each connection, which takes several
    milliseconds; the environment therefore names the server's certificate only.
    """
    cert, key = certificate.write(folder, "server")
    out = folder / "mach.json"
    first = ["chrt", "--rr", "1", "env", f"PYTHONPATH={os.pathsep.join([str(HERE.parent), *sys.path[1:]])}"]
    server = [*first, sys.executable, "-m", "rpm.server", str(cert), str(key)]
    urls = ["--small", f"https://{SERVER}/small", "--large", f"https://{SERVER}/large"]
    urls += ["--upload", f"https://{SERVER}/upload", "--insecure", "--disable-aim-scores"]
    test = [
        "env",
        f"SSL_CERT_FILE={cert}",
        "SSL_CERT_DIR=",
        mach,
        "rpm",
        *urls,
        "--std",
        "0",
        "--test-duration",
        str(TEST_MS),
    ]
    client = [*first, sys.executable, "-m", "rpm.client", str(out), str(NOT_SENT), *test]
    return server, client, out


def behind(cell: Cell, repetition: int, mach: str) -> dict[str, Any]:
    """The row of one run behind a link."""
    from aqmlab import live

    changes = {"bottleneck": cell.bottleneck()}
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory() as folder:
            server, client, out = commands(Path(folder), mach)
            run = live.run(live.with_command(None, client, server, changes), seed=1, until_done=True)
            if live.status(run) != 0:
                raise RuntimeError(f"{cell}: mach ended with status {live.status(run)}")
            found = json.loads(out.read_text(encoding="utf-8"))
        manifest = run.manifest["live"]
        row = {
            **dict(zip(links.KEY, cell.key, strict=True)),
            "buffer_packets": cell.buffer_packets,
            "repetition": repetition,
            "idle_latency_ms": found["report"]["unloaded_latency_ms"],
            "jitter_ms": found["report"]["jitter_ms"],
            "client_cpu_s": round(found["cpu_s"], 3),
            "late_p99_us": round(manifest["lateness"]["p99_us"], 1),
            "valid": int(manifest["valid"]),
        }
        for direction in DIRECTIONS:
            of = found["report"][direction]
            row |= {
                f"{direction}_rpm": of["rpm"],
                f"{direction}_mbps": round(of["throughput"] * 1e-6, 4),
                f"{direction}_latency_ms": of["loaded_latency_ms"],
            }
        if manifest["valid"]:
            break
        print(f"{cell}: attempt {attempt}: {'; '.join(manifest['objections'])}", file=sys.stderr)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The means of each link as text."""
    lines = ["rate  rtt  queue        runs  download RPM  upload RPM"]
    for cell in CELLS:
        ours = links.of_cell(rows, cell)
        if ours:
            means = [sum(row[f"{one}_rpm"] for row in ours) / len(ours) for one in DIRECTIONS]
            lines.append(
                f"{cell.rate_mbps:4g} {cell.rtt_ms:4g}  {cell.queue:11}  "
                f"{len(ours):4}  {means[0]:12.0f}  {means[1]:10.0f}"
            )
    return "\n".join(lines)


def main() -> None:
    """Records the grid and prints the means."""
    parser = argparse.ArgumentParser(prog="rpm.record", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mach", default=shutil.which("mach") or "mach", metavar="FILE")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument(
        "--rates", default="2,5,10,20", metavar="MBPS,...", help="only the links with these rates"
    )
    parser.add_argument("--table", action="store_true", help="only print the means of FILE")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="keep the rows of FILE")
    parser.add_argument("--out", type=Path, default=HERE / "mach.csv.gz", metavar="FILE")
    options = parser.parse_args()
    if options.table:
        print(table(links.read(options.out)))
        return
    found: list[Mapping[str, Any]] = []
    if options.go_on and options.out.exists():
        before = record_file.origin(options.out)
        if before[:2] != origin(options.mach)[:2]:
            sys.exit(f"{options.out} was recorded with other versions: {'; '.join(before)}")
        found = list(links.read(options.out))
    rates = [float(text) for text in options.rates.split(",")]
    there = {(row["rate_mbps"], row["rtt_ms"], row["queue"], row["repetition"]) for row in found}
    for repetition in range(1, options.repetitions + 1):
        for cell in (one for one in CELLS if one.rate_mbps in rates):
            if (*cell.key, repetition) in there:
                continue
            found.append(behind(cell, repetition, options.mach))
            links.write(options.out, found, origin(options.mach))
            print(f"{repetition} {cell}", file=sys.stderr, flush=True)
    print(table(links.read(options.out)))


if __name__ == "__main__":
    main()

"""Records pages behind links of aqmlab's live mode, and prints the medians.

    cd reference
    python -m http_pages.record [--repetitions N] [--rates MBPS,...] [--out FILE] [--continue]
    python -m http_pages.record --floor [--repetitions N] [--out FILE]
    python -m http_pages.record --table [--out FILE]

The programs need Linux, root and aqmlab's extra `http`. Each run has one link, and fetches each page once
over each protocol. The number of the repetition determines the order of the pages. Pages of
a run that is not valid, and pages during which the client or the server waited for a processor, are fetched
again, in at most `ATTEMPTS` runs. The program records all conditions once, then all conditions again, so that
a disturbance of the machine affects few runs of a condition. `--continue` keeps the rows of FILE and adds the
missing repetitions. `--floor` fetches the pages over the loopback interface of an empty network namespace,
where only the processor limits the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import record_file
from http_pages import certificate, rows
from http_pages.rows import CELLS, PAGES, PROTOCOLS, Cell

HERE = Path(__file__).resolve().parent
ATTEMPTS = 5
LIBRARIES = ("aioquic", "h11", "h2", "hypercorn", "pylsqpack")


def origin() -> list[str]:
    """The versions of the programs that make the record, and the date."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return [
        f"Linux {platform.release()}, {os.cpu_count()} processors",
        f"Python {platform.python_version()}, {ssl.OPENSSL_VERSION}, {libraries}",
        time.strftime("%Y-%m-%d", time.gmtime()),
    ]


def commands(
    folder: Path, host: str, pause: float, pages: Sequence[str]
) -> tuple[list[str], list[str], Path]:
    """The commands of the server and of the client, and the file that the client writes.

    Both programs have the lowest real-time priority, so that other programs of the machine do not delay them.
    The priority of the router is higher.
    """
    cert, key = certificate.write(folder, "server")
    socket, out = folder / "server.sock", folder / "pages.jsonl"
    python = ["chrt", "--rr", "1", "env", f"PYTHONPATH={HERE.parent}", sys.executable, "-m"]
    server = [*python, "http_pages.server", str(cert), str(key), str(socket)]
    client = [*python, "http_pages.client", str(cert), str(socket), str(out), f"{pause:g}", host, *pages]
    return server, client, out


def pages_of(repetition: int) -> list[str]:
    """Each page over each protocol, in the order of this repetition."""
    wanted = [f"{name}:{objects}x{size}" for name in PROTOCOLS for objects, size in PAGES]
    random.Random(repetition).shuffle(wanted)
    return wanted


def lines(path: Path) -> list[dict[str, Any]]:
    """The client's output."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def behind(cell: Cell, repetition: int) -> list[dict[str, Any]]:
    """The rows of one run behind a link."""
    from aqmlab import live

    changes: dict[str, Any] = {
        "bottleneck.rate": f"{cell.rate_mbps:g}Mbps",
        "bottleneck.delay": f"{cell.rtt_ms / 2:g}ms",
        "bottleneck.reverse.delay": f"{cell.rtt_ms / 2:g}ms",
        "bottleneck.reverse.rate": f"{cell.rate_mbps:g}Mbps",
        "bottleneck.queue": {"kind": cell.queue},
    }
    if cell.buffer_packets is not None:
        changes["bottleneck.queue"]["limit"] = f"{cell.buffer_packets}p"
    # A pause of two round trips, in which the connections of a page end.
    pause = 0.1 + 2 * cell.rtt_ms / 1e3
    wanted = pages_of(repetition)
    kept: list[dict[str, Any]] = []
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory() as folder:
            server, client, out = commands(Path(folder), "10.1.0.1", pause, wanted)
            run = live.run(live.with_command(None, client, server, changes), seed=1, until_done=True)
            found = lines(out)
        manifest = run.manifest["live"]
        if live.status(run) != 0:
            raise RuntimeError(f"{cell}: the client ended with status {live.status(run)}")
        down, up = (rows.per_page(found, run.tables[name].to_dicts()) for name in ("flows", "from_client"))
        recorded = [one for one in zip(found, down, up, strict=True) if one[0]["recorded"]]
        again = []
        for name, (page, of_down, of_up) in zip(wanted, recorded, strict=True):
            valid = manifest["valid"] and rows.was_undisturbed(page)
            if not valid and attempt < ATTEMPTS:
                again.append(name)
                continue
            late = manifest["lateness"]["p99_us"]
            kept.append(
                rows.row(
                    page,
                    cell=cell,
                    repetition=repetition,
                    down=of_down,
                    up=of_up,
                    late_p99_us=late,
                    valid=valid,
                )
            )
        wanted = again
        if not wanted:
            break
        why = "; ".join(manifest["objections"]) or "a program waited for a processor"
        print(f"{cell}: {len(wanted)} pages again: {why}", file=sys.stderr)
    return kept


def floor(repetition: int) -> list[dict[str, Any]]:
    """The rows of one run over a loopback interface."""
    with tempfile.TemporaryDirectory() as folder:
        server, client, out = commands(Path(folder), "127.0.0.1", 0.2, pages_of(repetition))
        socket = server[-1]
        # The server opens its TCP port after the Unix socket.
        wait = 'while [ ! -S "$SOCKET" ]; do sleep 0.1; done; sleep 1'
        script = f'ip link set lo up; "$@" & {wait}; $CLIENT; kill $!'
        environment = os.environ | {"SOCKET": socket, "CLIENT": " ".join(client)}
        command = ["unshare", "--net", "sh", "-c", script, "sh", *server]
        subprocess.run(command, env=environment, check=True)
        return [rows.row(page, cell=None, repetition=repetition) for page in lines(out) if page["recorded"]]


def main() -> None:
    """Records the grid, or the floor, and prints the medians."""
    parser = argparse.ArgumentParser(prog="http_pages.record", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--rates", default="2,10,20", metavar="MBPS,...", help="only the links with these rates"
    )
    parser.add_argument("--floor", action="store_true", help="over the loopback interface, without a link")
    parser.add_argument("--table", action="store_true", help="only print the medians of FILE")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="keep the rows of FILE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="by default the record beside this program")
    options = parser.parse_args()
    out = options.out or HERE / ("floor.csv.gz" if options.floor else "pages.csv.gz")
    if options.table:
        print(rows.table(rows.read(out)))
        return
    found: list[Mapping[str, Any]] = []
    if options.go_on and out.exists():
        if record_file.origin(out)[:2] != origin()[:2]:
            sys.exit(f"{out} was recorded with other versions: {'; '.join(record_file.origin(out))}")
        found = list(rows.read(out))
    rates = [float(text) for text in options.rates.split(",")]
    cells = [cell for cell in CELLS if cell.rate_mbps in rates]
    there = {(one["rate_mbps"], one["rtt_ms"], one["queue"], one["repetition"]) for one in found}
    for repetition in range(1, options.repetitions + 1):
        for cell in (None,) if options.floor else cells:
            key = (cell.rate_mbps, cell.rtt_ms, cell.queue) if cell else (None, None, None)
            if (*key, repetition) in there:
                continue
            found += behind(cell, repetition) if cell else floor(repetition)
            rows.write(out, found, origin())
            print(f"{repetition} {cell or 'floor'}", file=sys.stderr, flush=True)
    print(rows.table(rows.read(out)))


if __name__ == "__main__":
    main()

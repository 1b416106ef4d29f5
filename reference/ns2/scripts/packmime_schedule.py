"""The connections that scenario D met: when each began, its sizes, and its delays at either end.

    ns scen_d.tcl load 0.9 seed 1 bw 1000Mb limit 100000 stop 300 rspout free
    python packmime_schedule.py free | gzip -9n > ../d_packmime_schedule_load90.csv.gz

Sizes, gaps and delays have generators of their own, so that every queue and every rate of the line meets
the same; where nothing queues, all connections of the first 240 s are done in time to be logged. A client's
box numbers the connections in the order in which they begin.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

END = 240.0
SIDES = {1: ("0", "1", "dl", "dr"), 2: ("2", "3", "dr", "dl")}
"""By direction: nodes of client and server, and their boxes."""

Row = tuple[int, int, int, int, int, int]


def rows(prefix: str) -> Iterator[Row]:
    """Start (us), direction, request, response (bytes), client's and server's delay (us), unsorted."""
    for direction, (client, server, near, far) in SIDES.items():
        boxes = [_delays(f"{prefix}.{box}", client, server) for box in (near, far)]
        for number, (start, request, response) in enumerate(sorted(_done(f"{prefix}.{direction}"))):
            if start < END:
                sides = [round(1000 * box[number]) for box in boxes]
                yield round(1e6 * start), direction, request, response, sides[0], sides[1]


def _done(name: str) -> Iterator[tuple[float, int, int]]:
    for line in Path(name).read_text().splitlines():
        done, request, response, milliseconds = line.split()[:4]
        yield float(done) - float(milliseconds) / 1000, int(request), int(response)


def _delays(name: str, client: str, server: str) -> dict[int, float]:
    """Milliseconds by connection."""
    lines = (line.split() for line in Path(name).read_text().splitlines())
    return {int(number): float(delay) for one, other, number, delay, _ in lines if (one, other) == (client, server)}


def main() -> None:
    """Writes them in the order of time, each start as the gap since the one before."""
    print("gap_us,direction,request_bytes,response_bytes,client_us,server_us")
    before = 0
    for start, *rest in sorted(rows(sys.argv[1])):
        print(start - before, *rest, sep=",")
        before = start


if __name__ == "__main__":
    main()

"""The client: runs a test program on a host whose sockets hold few data that TCP has not sent.

    python -m rpm.client OUT BYTES COMMAND...

Sets `net.ipv4.tcp_notsent_lowat` of the network namespace to BYTES, runs COMMAND, which prints JSON, and
writes the JSON and the processor time of COMMAND to the file OUT.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

LIMIT = Path("/proc/sys/net/ipv4/tcp_notsent_lowat")


def main() -> None:
    """Runs the command."""
    out, not_sent, *command = sys.argv[1:]
    LIMIT.write_text(not_sent, encoding="ascii")
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"report": json.loads(said), "cpu_s": used.ru_utime + used.ru_stime}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

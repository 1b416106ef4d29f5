"""A real browser loads a page of 40 pictures from a real Web server behind a queue, beside downloads.

    python examples/browser/run.py [--pages N] [--queues NAME,...] [--out DIR]

Needs Linux, Chromium and nginx (`apt install chromium nginx-light`). Prints the time from the navigation to
the load event, as the browser tells it, and leaves in the folder a row for each page and a screenshot for
each queue.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean, median

import page

HERE = Path(__file__).parent
NGINX = """daemon off; pid {folder}/nginx.pid; error_log stderr crit; worker_processes 1; user root;
events {{ }}
http {{
  access_log off; default_type image/png; types {{ text/html html; image/png png; }}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 80; root {folder}/site; }}
}}
"""


def needed(*names: str) -> str:
    """The first of these programs that is there."""
    for name in names:
        if found := shutil.which(name):
            return found
    sys.exit(f"run.py: {names[0]} is not installed; on Debian: apt install chromium nginx-light")


def loads(queue: str, pages: int, out: Path) -> list[dict[str, float]]:
    """What the browser said of some loads of the page behind a queue."""
    browser, server = needed("chromium", "chromium-browser", "google-chrome"), needed("nginx")
    folder = (out / queue).resolve()
    page.write(folder / "site", queue)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder), encoding="utf-8")
    client = [sys.executable, HERE / "loads.py", browser, str(pages), folder / "page.png"]
    line = ["--scenario", HERE / "line.toml", "--queue", queue, "--out", folder]
    server_command = shlex.join([server, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    aqmlab = [sys.executable, "-m", "aqmlab", "live", "shell"]
    command = [*aqmlab, *line, "--server", server_command, "--", *client]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


def main() -> None:
    """Loads the page behind each queue and prints how long it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=20, help="loads of the page behind each queue")
    parser.add_argument("--queues", default="drop-tail,red,shred", help="names in line.toml, or kinds")
    parser.add_argument("--out", type=Path, default=Path("out/browser"), help="a folder for what is found")
    options = parser.parse_args()
    rows = []
    print(f"{'queue':>10} {'loads':>6} {'median (s)':>11} {'mean':>6} {'least':>6} {'most':>6}")
    for queue in options.queues.split(","):
        found = loads(queue, options.pages, options.out)
        rows += [{"queue": queue, **one} for one in found if one]
        times = [one["load_s"] for one in found if one]
        numbers = (
            f"{median(times):11.2f} {mean(times):6.2f} {min(times):6.2f} {max(times):6.2f}" if times else ""
        )
        print(f"{queue:>10} {len(times):6} {numbers}", flush=True)
    with (options.out / "loads.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["queue", "load_s", "objects", "longest_s"])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{options.out / 'loads.csv'}, and page.png of each queue in its folder")


if __name__ == "__main__":
    main()

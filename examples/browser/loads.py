"""The client: loads the page some times, each with a new browser, and prints what the browser says of each.

python loads.py BROWSER PAGES SCREENSHOT
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
import time

WARM_UP_S = 10
"""The downloads are under way by then."""

PAUSE_S = 1

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,900",
    "--timeout=60000",
)


def load(browser: str, *options: str) -> str:
    """What a new browser prints that loads the page."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *OPTIONS, f"--user-data-dir={profile}", *options, "http://server/"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main(browser: str, pages: int, screenshot: str) -> None:
    """Loads the page, and takes a picture of it at the end."""
    time.sleep(WARM_UP_S)
    for _ in range(pages):
        found = re.search(r'<pre id="timing"[^>]*>(\{.*?\})</pre>', load(browser, "--dump-dom"))
        print(html.unescape(found[1]) if found else "{}", flush=True)
        time.sleep(PAUSE_S)
    load(browser, f"--screenshot={screenshot}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

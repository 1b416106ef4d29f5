"""A real browser loads pages of our own from a real Web server behind an emulated link, and records HAR
files.

    python examples/pages/run.py [--rate RATE] [--delay TIME] [--out DIR]

Needs Linux, Chromium, nginx and Playwright (`apt install chromium nginx-light`, `pip install playwright`).
The recorded files are the examples in `scenarios/pages/`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import site_files

HERE = Path(__file__).parent
HOSTS = ("www.example", "static.example", "pictures.example")
NGINX = """daemon off; pid {folder}/nginx.pid; error_log stderr crit; worker_processes 1; user root;
events {{ }}
http {{
  access_log off; default_type application/octet-stream;
  types {{ text/html html; text/css css; text/javascript js; image/png png; font/ttf ttf; }}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  ssl_certificate {folder}/server.crt; ssl_certificate_key {folder}/server.key;
  add_header Access-Control-Allow-Origin *; keepalive_timeout 60;
  server {{ listen 80; root {folder}/site; location /slow/ {{ proxy_pass http://127.0.0.1:8081/; }} }}
  server {{
    listen 443 ssl http2; root {folder}/site; location /slow/ {{ proxy_pass http://127.0.0.1:8081/; }}
  }}
}}
"""


def needed(*names: str) -> str:
    """Returns the first of these programs that is installed."""
    for name in names:
        if found := shutil.which(name):
            return found
    sys.exit(f"run.py: {names[0]} is not installed; on Debian: apt install chromium nginx-light openssl")


def main() -> None:
    """Records the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/pages"), help="folder for the recorded files")
    parser.add_argument("--rate", default="10Mbps", help="rate of the link")
    parser.add_argument("--delay", default="20ms", help="one-way delay of the link")
    options = parser.parse_args()
    folder = options.out.resolve()
    browser, server = needed("chromium", "google-chrome"), needed("nginx")
    site_files.write(folder / "site")
    subject = ["-subj", "/CN=www.example", "-days", "30"]
    key = ["-keyout", folder / "server.key", "-out", folder / "server.crt"]
    openssl = [needed("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*openssl, "-nodes", *key, *subject], check=True, capture_output=True)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder), encoding="utf-8")
    slow = shlex.join([sys.executable, str(HERE / "slow_server.py")])
    fast = shlex.join([server, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    (folder / "servers.sh").write_text(f"{slow} &\nexec {fast}\n", encoding="utf-8")
    client = [sys.executable, HERE / "record.py", browser, folder]
    line = ["--rate", options.rate, "--delay", options.delay, "--queue", "drop-tail", "--out", folder / "run"]
    aqmlab = [sys.executable, "-m", "aqmlab", "live", "shell", *line]
    command = [*aqmlab, "--server", shlex.join(["sh", str(folder / "servers.sh")]), "--", *client]
    subprocess.run(list(map(str, command)), check=True)


if __name__ == "__main__":
    main()

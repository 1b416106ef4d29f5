"""Live runs in a real kernel in virtual time. `make kernel` builds the kernel if there is none, and runs the
tests, which `make test` leaves out."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

import aqmlab as al
from aqmlab import kernel
from aqmlab.kernel.build import TICK_HZ
from aqmlab.live_agreement.agreement import TOLERANCE

RUNS = int(os.environ.get("AQM_KERNEL_RUNS", "3"))
"""Number of runs that must have the same digest."""

TABLE: dict[str, Any] = {
    "duration": "4s",
    "warm_up": "1s",
    "bottleneck": {"rate": "10Mbps", "delay": "30ms", "queue": {"kind": "codel"}},
    "tcp": {"profile": "linux-6", "congestion_control": {"kind": "reno"}},
    "traffic": {"ftp": {"kind": "ftp"}},
}

WEB = {"traffic.ftp.flows": 4, "traffic.web": {"kind": "web", "load": 0.2}}


@pytest.fixture(scope="module")
def used() -> kernel.Kernel:
    return kernel.find()


@contextmanager
def busy() -> Iterator[None]:
    """Keeps every processor busy with two loops."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def scenario(**changes: Any) -> al.Scenario:
    return al.Scenario.from_dict(TABLE).with_(changes)


def test_a_run_is_valid_and_late_by_the_resolution_of_the_clock(used: kernel.Kernel) -> None:
    run = kernel.run(scenario(), 1, kernel=used)
    live = run.manifest["live"]
    assert live["valid"] and live["objections"] == []
    assert live["virtual"]["kernel"] == used.release
    assert used.hz != TICK_HZ or live["virtual"]["tick_s"] == 0.004
    # The clock of the kernel has a resolution of 256 ns, and each reading takes 256 ns.
    assert live["lateness"]["max_us"] < 10
    used_share, expected = (
        one.summary["links"]["bottleneck"]["utilisation"] for one in (run, scenario().run(1))
    )
    assert abs(used_share / expected - 1) < TOLERANCE


@pytest.mark.parametrize("changes", [{}, WEB], ids=["one flow", "flows and Web"])
def test_runs_with_a_seed_are_equal_on_a_busy_machine_and_other_seeds_differ(
    used: kernel.Kernel, tmp_path: Path, changes: dict[str, Any]
) -> None:
    if not used.seeded:
        pytest.skip("the kernel was not built by `aqmlab kernel build`")
    found = []
    with busy():
        for number in range(RUNS):
            capture = tmp_path / f"{number}.pcapng"
            run = kernel.run(scenario(**changes), 1, kernel=used, pcap=capture)
            found.append((run.tables_digest, hashlib.sha256(capture.read_bytes()).hexdigest()))
    assert len(set(found)) == 1
    other = tmp_path / "other.pcapng"
    kernel.run(scenario(**changes), 2, kernel=used, pcap=other)
    assert hashlib.sha256(other.read_bytes()).hexdigest() != found[0][1]


def test_programs_and_congestion_controls_of_the_kernel_run(
    used: kernel.Kernel, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(bytes(200_000))
    fetch = "import urllib.request as u; print(len(u.urlopen('http://server:8000/file').read()))"
    server = ["python3", "-m", "http.server", "8000", "--directory", str(tmp_path)]
    made = scenario(
        **{
            "duration": "20s",
            "traffic.ftp": None,
            "traffic.page": {"kind": "program", "server": server, "client": ["python3", "-c", fetch]},
        }
    )
    run = kernel.run(made, 1, kernel=used, until_done=True, congestion_control="bbr")
    assert capfd.readouterr().out == "200000\n"
    live = run.manifest["live"]
    assert live["statuses"] == {"page": 0}
    assert live["valid"], live["objections"]
    assert live["congestion_controls"]["page"]["server"] == {"bbr": 1}


def test_the_shell_exits_with_the_status_of_the_program(used: kernel.Kernel, cli: Cli) -> None:
    for command, status in (("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)):
        words = ["--virtual", "--kernel", used.path, "--", "sh", "-c", f"echo out; echo err >&2; {command}"]
        done = cli("live", "shell", *words)
        assert (done.returncode, done.stdout) == (status, "out\n")
        assert done.stderr.startswith("err\n") and f"Linux {used.release}" in done.stderr


def test_guests_over_sockets_have_equal_captures(used: kernel.Kernel, cli: Cli, tmp_path: Path) -> None:
    if not used.seeded:
        pytest.skip("the kernel was not built by `aqmlab kernel build`")
    examples = Path(__file__).parents[1] / "examples"
    bridge = [sys.executable, str(examples / "guests" / "udp_guest.py")]
    guest = [sys.executable, str(examples / "path" / "echo_guest.py")]
    server = shlex.join([*bridge, "server", "4433", "--", *guest])
    client = [*bridge, "client", "server:4433", "--events", "echo", "--", *guest]
    # All echoes arrive within a second. Without a signal, the bridge would wait for further datagrams.
    client = ["timeout", "-s", "INT", "3", *client]
    line = ["--rate", "10Mbps", "--delay", "20ms", "--queue", "codel"]
    found = []
    for number in range(RUNS):
        capture = tmp_path / f"{number}.pcapng"
        words = ["--virtual", "--kernel", used.path, *line, "--pcap", capture, "--server", server]
        done = cli("live", "shell", *words, "--", *client)
        found.append((done.stdout, hashlib.sha256(capture.read_bytes()).hexdigest()))
    assert len(set(found)) == 1
    times = [float(line.split()[3]) for line in done.stdout.splitlines() if " rtt_s " in line]
    assert len(times) == 100
    # Propagation takes 40 ms. The rest is the transmission of at most 1228 bytes, which takes 1 ms in each
    # direction, and the transmission of earlier datagrams.
    assert all(0.040 <= time_s < 0.045 for time_s in times)


RUN = next(
    (
        folder
        for folder in ("/run", os.environ.get("XDG_RUNTIME_DIR"))
        if folder and os.access(folder, os.W_OK)
    ),
    "",
)
"""A folder in /run in which the user may create files."""


@pytest.mark.skipif(not RUN, reason="the user cannot write in /run")
def test_files_in_run_are_visible_and_changes_disappear_with_the_guest(
    used: kernel.Kernel, capfd: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=RUN) as name:
        program = Path(name, "program")
        program.write_text("#!/bin/sh\ncd $(dirname $0) && echo changed > file && cat file\n")
        program.chmod(0o755)
        Path(name, "file").write_text("before\n")
        table = {"traffic.ftp": None, "traffic.program": {"kind": "program", "client": [str(program)]}}
        run = kernel.run(scenario(**table), 1, kernel=used, until_done=True)
        assert run.manifest["live"]["statuses"] == {"program": 0}
        assert capfd.readouterr().out == "changed\n"
        assert Path(name, "file").read_text() == "before\n"


def test_parameters_that_the_kernel_does_not_have_are_rejected(used: kernel.Kernel) -> None:
    with pytest.raises(al.ScenarioError, match=r"tcp\.rto\.tick: must be the kernel's tick"):
        kernel.run(scenario(**{"tcp.rto.tick": "3ms"}), kernel=used)

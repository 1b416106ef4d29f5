"""Guests in scenarios, beside simulated flows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import PATIENCE_S

import aqmlab as al
from aqmlab.scenario.guests_program import VARIABLE

ROOT = Path(__file__).parent.parent
ECHO = [sys.executable, str(ROOT / "examples/path/echo_guest.py")]


def scenario(**guest: Any) -> al.Scenario:
    return al.Scenario.from_dict(
        {
            "duration": "4s",
            "bottleneck": {
                "rate": "1Mbps",
                "delay": "20ms",
                "queue": {"kind": "drop-tail", "limit": "10p"},
            },
            "traffic": {
                "bulk": {"kind": "ftp", "stagger": "0s"},
                "echo": {"kind": "guest", "size": "none", "start": "1s"} | guest,
            },
        }
    )


def failing(folder: Path) -> list[str]:
    """Writes a guest that fails when it sends its first datagram, and returns its command."""
    text = Path(ECHO[1]).read_text(encoding="utf-8")
    broken = text.replace("out.append((0, 0, data))", "raise SystemExit('no more data')")
    assert broken != text
    file = folder / "guest.py"
    file.write_text(broken, encoding="utf-8")
    return [sys.executable, str(file)]


def test_a_program_shares_a_link_with_simulated_flows() -> None:
    run = scenario(client=ECHO).run(seed=3)
    flows = run.tables["flows"].filter(pl.col("traffic").cast(pl.String) == "echo")
    reports = run.tables["reports"]
    assert flows.height == 1 and flows["packets_sent"][0] > 50
    # The client reports the time of each echo: two one-way delays and the queue of the simulated flow.
    assert reports["report"].cast(pl.String).unique().to_list() == ["rtt_s"]
    assert reports["end"].cast(pl.String).unique().to_list() == ["client"]
    assert reports.height == flows["datagrams_received"][0]
    assert reports["time_s"].min() > 1 and reports["value"].min() > 0.04  # type: ignore[operator]
    assert reports["value"].max() > 0.08  # type: ignore[operator]
    assert scenario(client=ECHO).run(seed=3).tables_digest == run.tables_digest
    assert scenario(client=ECHO).run(seed=4).tables_digest != run.tables_digest


def test_a_fault_ends_the_run_with_a_report(tmp_path: Path) -> None:
    with pytest.raises(al.RunError, match=r"traffic\.echo, flow 0: client at ") as error:
        scenario(client=failing(tmp_path)).run(seed=5)
    message, report = str(error.value), error.value.report
    assert message.endswith("the guest ended before its answer (exit status 1)")
    assert report.startswith(
        f"fault: {message}\nseed: 5\n\nlast requests and answers:\n  client start, seed "
    )
    assert "diagnosis of the client:\n  no more data\n" in report


def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(al.RunError, match=r"traffic\.echo: no-such-program: No such file or directory"):
        scenario(client=["no-such-program"]).run()


def test_a_stack_needs_aqmlab_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_stack = scenario(stack="quinn")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(al.ScenarioError, match=r"echo\.stack: needs quinn-proto .*run `make guests`"):
        with_stack.run()
    monkeypatch.setenv(VARIABLE, "/no/such/program")
    with pytest.raises(al.RunError, match="/no/such/program: No such file or directory"):
        with_stack.run()
    ended = tmp_path / "aqmlab-guests"
    ended.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    ended.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(ended))
    with pytest.raises(al.RunError, match=r"the program ended before its result \(exit status: 3\)"):
        with_stack.run()


def test_the_digest_depends_on_the_library() -> None:
    assert scenario(stack="quinn").digest != scenario(stack="noq").digest


@pytest.mark.parametrize(
    ("guest", "message"),
    [
        ({}, "stack: is missing: set either `stack` or `client`"),
        ({"stack": "quin"}, 'stack: must be one of "noq", "quinn", '),
        (
            {"stack": "quinn", "control": "vegas"},
            'control: must be one of "newreno", "cubic", "bbr"',
        ),
        (
            {"client": ["x"], "stack": "quinn"},
            "client: set either `stack` or programs, not both",
        ),
        ({"client": ["x"], "tcp": {}}, "tcp: is not used"),
    ],
)
def test_invalid_guests_are_refused(guest: dict[str, Any], message: str) -> None:
    with pytest.raises(al.ScenarioError) as error:
        scenario(**guest)
    assert str(error.value).startswith(f"traffic.echo.{message}")


def test_the_command_writes_the_circumstances_of_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "faulty.toml"
    file.write_text(scenario(client=failing(tmp_path)).to_toml(), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "aqmlab", "run", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("aqmlab: traffic.echo, flow 0: client at ")
    assert second == "The last requests and answers are in out/guest/fault.txt."
    report = (tmp_path / "out/guest/fault.txt").read_text(encoding="utf-8")
    assert "\nseed: 1\n" in report and "no more data" in report


def processes_of(words: list[str]) -> list[int]:
    """Returns the processes with this command line."""
    line = "\0".join(words).encode() + b"\0"
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == line:
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="programs are found in /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_ctrl_c_and_kill_end_a_run_and_its_hanging_programs(
    tmp_path: Path, command: Callable[..., subprocess.Popen[str]], number: signal.Signals, status: int
) -> None:
    file = tmp_path / "hanging.toml"
    # The programs do not read their standard input. The number of seconds identifies the programs.
    hanging = ["sleep", f"{3600 + number}.{os.getpid()}"]
    file.write_text(scenario(client=hanging, time_limit="30min").to_toml(), encoding="utf-8")
    process = command("run", str(file))
    limit = time.monotonic() + PATIENCE_S
    while len(processes_of(hanging)) < 2:
        assert time.monotonic() < limit and process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    while processes_of(hanging):
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_the_digest_depends_on_the_files_of_a_program(tmp_path: Path) -> None:
    file = tmp_path / "guest.py"
    file.write_bytes(Path(ECHO[1]).read_bytes())
    command = [sys.executable, str(file)]
    first = scenario(client=command)
    assert first.run().manifest["digest"] == first.digest
    with file.open("a", encoding="utf-8") as opened:
        opened.write("# changed\n")
    changed = scenario(client=command).digest
    assert changed != first.digest
    assert scenario(client=command).digest == changed


def test_a_sweep_goes_on_after_a_fault(tmp_path: Path) -> None:
    commands = {"failing": failing(tmp_path), "echo": ECHO}
    sweep = al.Sweep(
        scenario(client=ECHO),
        axes={"traffic.echo.client": commands},
        measures=["bottleneck.utilisation"],
        replications=1,
    )
    results = al.run_sweep(sweep, jobs=1)
    (failure,) = results.failures
    assert "no more data" in str(failure) and "seed: 1" in str(failure)
    assert results.frame["bottleneck.utilisation"].drop_nulls().len() == 1

"""Kernels in virtual time: how they are found, started, watched and ended, with a program in place of a
kernel. `make kernel` runs a real kernel."""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import polars as pl
import pytest
from conftest import PATIENCE_S, Cli

import aqmlab as al
from aqmlab import _core, kernel
from aqmlab.kernel import guest, runs, start
from aqmlab.kernel.build import CHANGES, change, need_tools
from aqmlab.kernel.folder import remove_abandoned, temporary_folder
from aqmlab.kernel.kernel import KernelError

FAKE = Path(__file__).with_name("fake_kernel.py")
Fake = Callable[..., Path]
Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Returns a function that makes a kernel with a fault, and returns the kernel's path."""

    def make(fault: str = "") -> Path:
        folder = tmp_path / "kernels" / "linux-6.1.99"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "linux"
        file.write_text(f"#!{sys.executable}\n{FAKE.read_text(encoding='utf-8')}", encoding="utf-8")
        file.chmod(0o755)
        (folder / "fault").write_text(fault)
        return file

    return make


@pytest.fixture
def scenario() -> al.Scenario:
    return al.Scenario.from_dict(
        {
            "duration": "4s",
            "bottleneck": {"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "codel"}},
            "traffic": {"f": {"kind": "ftp"}},
        }
    )


def test_a_kernel_is_described_by_its_configuration(fake: Fake) -> None:
    found = kernel.find(fake())
    assert (found.release, found.hz, found.tick_s, found.seeded) == ("6.1.99", 250, 0.004, True)
    assert found.controls == ("cubic", "highspeed", "reno")
    assert found.qdiscs == ("codel", "fq_codel")
    assert kernel.find(fake("no-seed")).seeded is False


def test_a_file_that_is_no_kernel_is_refused_with_a_remedy(fake: Fake) -> None:
    for path, problem in (
        (lambda: Path("/bin/true"), "/bin/true is not a User-Mode-Linux kernel"),
        (lambda: Path("/missing"), "--kernel: /missing does not exist"),
        (lambda: fake("no-uml"), "is not a User-Mode-Linux kernel"),
        (lambda: fake("no-time-travel"), "has no virtual time"),
    ):
        with pytest.raises(KernelError, match=problem) as caught:
            kernel.find(path())
        assert "aqmlab kernel build" in str(caught.value)


def test_kernels_are_found_in_the_variable_and_in_the_cache(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AQMLAB_KERNEL", raising=False)
    with pytest.raises(KernelError, match="contains no kernel: build a kernel with `aqmlab kernel build`"):
        kernel.find()
    made = fake()
    older, newer = (tmp_path / "cache" / "aqmlab" / "kernels" / name for name in ("b", "a"))
    for age, folder in ((100, older), (10, newer)):
        folder.mkdir(parents=True)
        (folder / "linux").symlink_to(made)
        copy = folder / "linux"
        copy.unlink()
        copy.write_bytes(made.read_bytes())
        copy.chmod(0o755)
        os.utime(copy, (time.time() - age, time.time() - age))
    assert kernel.find().path == newer / "linux"
    monkeypatch.setenv("AQMLAB_KERNEL", str(older))
    assert kernel.find().path == older / "linux"
    assert kernel.find(made).path == made


def test_a_run_in_virtual_time_has_the_tables_and_the_kernel_in_its_manifest(
    fake: Fake, scenario: al.Scenario, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "captured.pcapng"
    run = kernel.run(scenario, 7, kernel=kernel.find(fake()), pcap=capture)
    expected = scenario.run(7)
    assert run.tables_digest == expected.tables_digest
    for name, table in expected.tables.items():
        assert run.tables[name].equals(table), name
        assert run.tables[name].schema == table.schema, name
    assert run.summary == expected.summary
    virtual = run.manifest["live"]["virtual"]
    assert (virtual["kernel"], virtual["tick_s"], virtual["seeded"]) == ("6.1.99", 0.004, True)
    assert virtual["cpu_s"] > 0 and virtual["wall_s"] > 0
    assert capture.read_bytes() == b"packets"
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("a program prints\n", "a program complains\n")


def test_programs_print_to_streams_without_a_descriptor(fake: Fake, scenario: al.Scenario) -> None:
    """The streams of notebooks have no bytes and no file descriptor."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        kernel.run(scenario, kernel=kernel.find(fake()))
    assert (out.getvalue(), err.getvalue()) == ("a program prints\n", "a program complains\n")


def test_a_character_whose_bytes_arrive_separately_is_one_character(tmp_path: Path) -> None:
    file, stream = tmp_path / "stdout", io.StringIO()
    output = runs._Output(file, stream)
    output.pass_on()
    for end in range(1, 4):
        file.write_bytes("a€".encode()[: end + 1])
        output.pass_on()
    assert stream.getvalue() == "a€"


def test_programs_and_folders_that_the_guest_does_not_see_are_refused(
    fake: Fake, scenario: al.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = kernel.find(fake())
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "program").touch()
    (hidden / "program").chmod(0o755)
    (tmp_path / "link").symlink_to(hidden / "program")
    monkeypatch.setattr(guest, "HIDDEN", (str(hidden),))
    programs = {"kind": "program", "server": ["sh", str(tmp_path / "link")], "client": ["program", "--x"]}
    reason = f"is not visible in virtual time, because the guest has its own {hidden}"
    with pytest.raises(KernelError) as caught:
        kernel.run(scenario.with_({"traffic.p": programs}), kernel=used)
    assert str(caught.value).startswith(f"traffic.p.server.1: {tmp_path / 'link'} {reason}")
    monkeypatch.setenv("PATH", str(hidden), prepend=":")
    with pytest.raises(KernelError) as caught:
        kernel.run(scenario.with_({"traffic.p": programs | {"server": []}}), kernel=used)
    assert str(caught.value).startswith(f"traffic.p.client.0: {hidden / 'program'} {reason}")
    monkeypatch.chdir(hidden)
    with pytest.raises(KernelError) as caught:
        kernel.run(scenario, kernel=used)
    assert str(caught.value).startswith(f"the working directory: {hidden} {reason}")


def test_the_arguments_of_the_kernel_depend_on_nothing_but_the_seed(
    fake: Fake, scenario: al.Scenario
) -> None:
    """The kernel derives random numbers from its arguments."""
    file, seen = fake(), []
    recorder = file.with_name("recorder")
    text = file.read_text().replace('(folder / "arguments")', f'Path("{recorder}")')
    file.write_text(text)
    for seed in (1, 1, 2):
        kernel.run(scenario, seed, kernel=kernel.find(file))
        seen.append(recorder.read_text().splitlines())
    assert seen[0] == seen[1]
    assert [word for word in seen[0] if word not in seen[2]] == ["random-seed=1"]
    assert {"time-travel=inf-cpu", "ro", "rootfstype=hostfs"} <= set(seen[0])


def test_errors_in_the_guest_are_the_errors_of_a_live_run(fake: Fake, scenario: al.Scenario) -> None:
    with pytest.raises(_core.LiveError, match="cannot create the host `server`: no TUN device"):
        kernel.run(scenario, kernel=kernel.find(fake("live-error")))
    with pytest.raises(al.ScenarioError, match=r"tcp\.rto\.tick: must be the kernel's tick"):
        kernel.run(scenario, kernel=kernel.find(fake("scenario-error")))
    with pytest.raises(_core.PcapError, match="writes its packets during the run"):
        kernel.run(scenario, kernel=kernel.find(fake())).tables.write_pcap(Path("packets.pcapng"))


def test_the_last_messages_of_a_crashed_kernel_are_shown(fake: Fake, scenario: al.Scenario) -> None:
    with pytest.raises(KernelError) as caught:
        kernel.run(scenario, kernel=kernel.find(fake("panic")))
    text = str(caught.value)
    assert text.startswith("the kernel was killed by SIGABRT")
    assert "  Kernel panic - not syncing: Attempted to kill init!" in text


def test_programs_receive_the_variables_that_select_files_and_languages(
    fake: Fake, scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = {"PATH": "/bin:/usr/bin", "PYTHONPATH": "/modules", "LC_TIME": "C", "TZ": "UTC"}
    hidden = {"HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "secret", "SSH_AUTH_SOCK": "/socket", "XLC_": "C"}
    assert start.environment(passed | hidden) == passed
    file = fake()
    recorder = file.with_name("recorder")
    file.write_text(file.read_text().replace('(folder / "stdout")', f'Path("{recorder}")', 1))
    printed = '"\\n".join(clients or ["a program prints"])'
    file.write_text(file.read_text().replace(printed, 'json.dumps(job["environment"])'))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    kernel.run(scenario, kernel=kernel.find(file))
    received = json.loads(recorder.read_text())
    assert received["LC_TIME"] == "C" and received["PATH"] == os.environ["PATH"]
    assert "AWS_SECRET_ACCESS_KEY" not in received


def test_the_memory_of_a_guest_is_elsewhere_if_shared_memory_is_small(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(start, "ROOM", 0)
    assert "TMPDIR" not in start._own_environment(tmp_path)
    monkeypatch.setattr(start, "SHARED_MEMORY", tmp_path / "missing")
    monkeypatch.setattr(start, "ROOM", 1)
    assert start._own_environment(tmp_path)["TMPDIR"] == tempfile.gettempdir()
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert start._own_environment(tmp_path)["TMPDIR"] == "/somewhere"


def processes_of(group: int) -> list[int]:
    """Returns the processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group:
                found.append(int(entry.name))
    return found


def wait_for(file: Path) -> int:
    """Waits until the kernel has written its process ID."""
    limit = time.monotonic() + PATIENCE_S
    while not file.exists() or not file.read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    return int(file.read_text())


def test_the_time_limit_kills_the_kernel_and_its_children(fake: Fake, scenario: al.Scenario) -> None:
    file, limit_s = fake("hang"), 1
    running = file.with_name("running")
    # On a busy machine, the kernel may not have started its child within the first limits.
    while not running.exists() and limit_s <= 64:
        with pytest.raises(KernelError, match=rf"not ended after {limit_s} s of real time \(--time-limit\)"):
            kernel.run(scenario, kernel=kernel.find(file), limit_s=limit_s)
        limit_s *= 2
    assert processes_of(wait_for(running)) == []


@pytest.mark.parametrize("shell", [False, True], ids=["run", "shell"])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_ctrl_c_and_kill_leave_no_process_and_no_folder(
    fake: Fake,
    small: Path,
    tmp_path: Path,
    command: Command,
    number: signal.Signals,
    status: int,
    shell: bool,
) -> None:
    file, temporary = fake("hang"), tmp_path / "temporary"
    temporary.mkdir()
    options = ["--virtual", "--kernel", str(file)]
    words = ["shell", *options, "--", "true"] if shell else ["run", str(small), *options]
    process = command("live", *words, TMPDIR=str(temporary))
    group = wait_for(file.with_name("running"))
    assert len(list(temporary.glob("aqmlab-virtual-*/job.json"))) == 1
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    limit = time.monotonic() + PATIENCE_S
    while processes_of(group) or list(temporary.iterdir()):
        assert time.monotonic() < limit
        time.sleep(0.01)


SLEEPING_IN_A_FOLDER = """
import sys, time
from pathlib import Path
from aqmlab.kernel.folder import temporary_folder

with temporary_folder("made-", Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def test_the_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [sys.executable, "-c", SLEEPING_IN_A_FOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            folder = Path(process.stdout.readline().strip())
            with temporary_folder("made-", tmp_path) as own:
                assert folder.is_dir() and own.is_dir()
            assert not own.exists()
        finally:
            process.kill()
    with monkeypatch.context() as patch:
        patch.setattr(platform, "node", lambda: "another-machine")
        remove_abandoned("made-", tmp_path)
    for other in ("made-without-lock", "another"):
        (tmp_path / other).mkdir()
    assert folder.is_dir()
    remove_abandoned("made-", tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["another", "made-without-lock"]


TERMINATED_AFTER_FORK = """
import os, signal, sys
from aqmlab.kernel import keeper

fork = os.fork

def forked():
    process = fork()
    if process:
        with open("forked", "w") as file:
            file.write(str(process))
        os.kill(os.getpid(), signal.SIGTERM)
    return process

os.fork = forked
sys.exit(keeper.main())
"""
"""The keeper, which receives SIGTERM before `os.fork` returns."""


def test_the_keeper_kills_a_kernel_that_has_just_been_started(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TERMINATED_AFTER_FORK, str(os.getpid()), "/bin/sleep", "600"]
    done = subprocess.run(words, cwd=tmp_path, timeout=PATIENCE_S, check=False)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "forked").read_text()), signal.SIGKILL)
    assert done.returncode == start.SIGNALLED + signal.SIGKILL
    assert float((tmp_path / "cpu").read_text()) >= 0


def test_the_command_writes_the_tables_and_says_virtual(
    cli: Cli, fake: Fake, small: Path, tmp_path: Path
) -> None:
    done = cli("live", "run", small, "--virtual", "--kernel", fake(), "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "in virtual time, Linux 6.1.99, tick 4 ms" in done.stdout
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())["manifest"]
    assert manifest["live"]["virtual"]["kernel"] == "6.1.99"
    assert pl.read_parquet(tmp_path / "out" / "flows.parquet").height > 0


def test_a_program_in_virtual_time_prints_and_exits_as_in_real_time(
    cli: Cli, fake: Fake, tmp_path: Path
) -> None:
    line = ["--rate", "2Mbps", "--queue", "codel", "--pcap", "shell.pcapng", "--out", "out"]
    done = cli("live", "shell", "--virtual", "--kernel", fake(), *line, "--", "echo", "--virtual")
    assert (done.returncode, done.stdout) == (7, "echo --virtual\n"), done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "a program complains"
    assert lines[1].startswith("echo --virtual: live for ") and ", Linux 6.1.99, tick 4 ms" in lines[1]
    assert lines[2].startswith("  link bottleneck")
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())["manifest"]
    assert manifest["live"]["statuses"] == {"shell": 7}
    assert (tmp_path / "shell.pcapng").read_bytes() == b"packets"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ("--virtual",),
            2,
            "live shell --virtual needs a client command after `--`: a guest has no terminal",
        ),
        (("--kernel", "x", "--", "true"), 2, "--kernel: needs --virtual"),
        (("--time-limit", "1s", "--", "true"), 2, "--time-limit: needs --virtual"),
        (("--virtual", "--", "no-such-command"), 127, "no-such-command: command not found"),
    ],
)
def test_a_program_that_cannot_run_in_virtual_time_is_refused(
    cli: Cli, words: tuple[str, ...], status: int, message: str
) -> None:
    done = cli("live", "shell", *words)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"aqmlab: {message}\n")


def test_the_commands_name_the_remedy_if_there_is_no_kernel(
    cli: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("AQMLAB_KERNEL", raising=False)
    shell = ("live", "shell", "--virtual", "--", "true")
    for words in (("live", "run", small, "--virtual"), shell, ("kernel", "show")):
        done = cli(*words)
        assert done.returncode == 1
        assert "build a kernel with `aqmlab kernel build`" in done.stderr


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None if tool in ("flex", "xz") else f"/usr/bin/{tool}")
    with pytest.raises(
        KernelError, match=r"missing: flex, xz; on Debian, run: apt-get install flex xz-utils"
    ):
        need_tools(download=False)
    monkeypatch.setattr("shutil.which", lambda tool: None if tool == "apt-get" else f"/usr/bin/{tool}")
    need_tools(download=False)
    with pytest.raises(KernelError, match="--source"):
        need_tools(download=True)


def test_the_source_is_changed_only_where_it_is_known(tmp_path: Path) -> None:
    for one in CHANGES:
        file = tmp_path / one.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"before\n{one.before}\nafter\n")
    kconfig = tmp_path / "arch/um/Kconfig"
    kconfig.write_text("config HZ\n\tint\n\tdefault 100\n\nconfig NR_CPUS\n\tdefault 1\n")
    change(tmp_path, 250)
    assert kconfig.read_text() == "config HZ\n\tint\n\tdefault 250\n\nconfig NR_CPUS\n\tdefault 1\n"
    assert '__uml_setup("random-seed="' in (tmp_path / "arch/um/os-Linux/util.c").read_text()
    with pytest.raises(KernelError, match=r"util\.c: the source differs from Linux 6\.1 and 6\.12"):
        change(tmp_path, 250)

"""Guests in other programs: the admission test, and faults."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from conftest import PATIENCE_S

import aqmlab as al
from aqmlab.path import GuestError, check_guest, run_guests

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples/path/echo_guest.py"
ECHO = [sys.executable, str(EXAMPLE)]
PATH = {
    "forward": [{"rate": "1Mbps", "delay": "20ms", "queue": {"kind": "codel"}}],
    "reverse": [{"rate": "500kbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "2p"}}],
}


def changed(folder: Path, old: str, new: str) -> list[str]:
    """Writes a copy of the echo guest in which `old` is replaced by another text, and returns its command."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file = folder / "guest.py"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return [sys.executable, str(file)]


def test_every_datagram_of_an_echo_has_one_outcome() -> None:
    run = run_guests(ECHO, ECHO, PATH, seed=5)
    assert run.client.sent == 100 and run.server.dropped > 0
    for end in (run.client, run.server):
        assert end.sent == end.delivered + end.dropped + end.in_transit
    assert run.server.sent == run.client.delivered
    assert len(run.events) == run.server.delivered
    times, ends, names, rtts = zip(*run.events, strict=True)
    assert list(times) == sorted(times) and set(ends) == {"client"} and set(names) == {"rtt_s"}
    assert min(rtts) > 0.04
    assert run_guests(ECHO, ECHO, PATH, seed=5).digest == run.digest
    assert run_guests(ECHO, ECHO, PATH, seed=6).digest != run.digest


def test_the_example_is_admitted() -> None:
    admission = check_guest(ECHO)
    assert admission.admitted and not admission.notes and not admission.report
    assert admission.run is not None and admission.run.client.dropped > 0


def test_a_guest_with_random_numbers_of_its_own_is_not_admitted(tmp_path: Path) -> None:
    unseeded = changed(tmp_path, "random.Random(seed)", "random.Random()")
    admission = check_guest(unseeded, ECHO, PATH)
    assert not admission.admitted
    assert "two runs with seed 1 have different digests" in admission.reasons[0]


def test_a_guest_that_ignores_its_seed_is_admitted_with_a_note(tmp_path: Path) -> None:
    constant = changed(tmp_path, "random.Random(seed)", "random.Random(1)")
    admission = check_guest(constant, ECHO, PATH)
    assert admission.admitted and admission.notes == ["the digest does not depend on the seed (1 and 2)"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "answer(now, *guest.run(now, read_datagrams(body)))",
            "answer(now + 1, *guest.run(now, read_datagrams(body)))",
            "client at 0 ns: the answer must be for the time of the request, 0 ns",
        ),
        (
            "reply = bytes([STOPPED])",
            "reply = bytes([STARTED])",
            r"the frame is not a valid answer: the kind must be 131 or 255 \(got 129\)",
        ),
        (
            "self.next = now + 1 + self.random.randrange(10_000_000)",
            "self.next = now",
            r"client at 0 ns: wake must be later than the time of the request, 0 ns \(got 0 ns\)",
        ),
        (
            "out.append((0, 0, data))",
            "out.append((0, 0, b''))",
            r"client at 0 ns: the length of a datagram must be from 1 to 65507 bytes \(got 0\)",
        ),
        (
            "out.append((0, 0, data))",
            "out += [(0, 0, data)] * 10_001",
            r"client at 0 ns: an answer may contain at most 10000 datagrams \(got 10001\)",
        ),
        (
            "out.append((0, 0, data))",
            "raise SystemExit('no more data')",
            r"client at 0 ns: the guest ended before its answer \(exit status 1\)",
        ),
        (
            "out.append((0, 0, data))",
            "import time; time.sleep(60)",
            "client at 0 ns: the guest did not answer within 0.5 s and was ended",
        ),
        (
            "sys.stdout.buffer.flush()",
            "sys.stdout.buffer.write(len(reply).to_bytes(4, 'little') + reply); sys.stdout.buffer.flush()",
            "client at 0 ns: (the guest sent more than one answer|.* the kind must be 130 or 255)",
        ),
        (
            "reply = answer(now, *guest.run(now, read_datagrams(body)))",
            "reply = bytes([ERROR]) + b'the key is missing'",
            "client at 0 ns: the guest reports an error: the key is missing",
        ),
    ],
)
def test_a_fault_names_the_guest_and_reports_the_last_exchanges(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    client = changed(tmp_path, old, new)
    with pytest.raises(GuestError, match=message) as error:
        run_guests(client, ECHO, PATH, seed=7, time_limit_s=0.5 if "sleep" in new else PATIENCE_S)
    report = error.value.report
    assert f"fault: {error.value}\nseed: 7\nclient: " in report
    assert "last requests and answers:\n" in report
    assert "client start, seed " in report or "STARTED" in new or "buffer.write" in new
    if "SystemExit" in new:
        assert "standard error of the client:\n  no more data" in report


ATTEMPTS = """
import ctypes, errno, json, os, socket, subprocess, sys

file = sys.argv[1]

def io_uring():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(425, 8, ctypes.create_string_buffer(120)) < 0:
        raise OSError(ctypes.get_errno(), "io_uring_setup")

def child():
    if subprocess.run(["/bin/sh", "-c", f"echo text >> {file}"]).returncode:
        raise PermissionError(errno.EACCES, "child")

attempts = {
    "tcp": lambda: socket.create_connection(("127.0.0.1", 9)),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "tcp over IPv6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "unix": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
    "pair of datagram sockets": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "connect": lambda: socket.socketpair()[0].connect("/no/such/socket"),
    "io_uring": io_uring,
    "create": lambda: open(file + ".new", "w"),
    "append": lambda: open(file, "a"),
    "append in a child": child,
    "truncate": lambda: os.truncate(file, 1),
    "chmod": lambda: os.chmod(file, 0o600),
    "utime": lambda: os.utime(file, (0, 0)),
    "pair of stream sockets": lambda: [one.send(b"text") for one in socket.socketpair()],
    "read": lambda: open(file).read(),
    "null": lambda: open("/dev/null", "w").write("text"),
    "unlink": lambda: os.unlink(file),
}
results = {}
for name, attempt in attempts.items():
    try:
        attempt()
        results[name] = "done"
    except OSError as error:
        results[name] = errno.errorcode[error.errno]
prefix = sys.stdin.buffer.read(4)
sys.stdin.buffer.read(int.from_bytes(prefix, "little"))
reply = bytes([255]) + json.dumps(results).encode()
sys.stdout.buffer.write(len(reply).to_bytes(4, "little") + reply)
"""
"""A guest that attempts operations, and whose answer is an error that contains the results."""

NETWORK = [
    "tcp",
    "udp",
    "tcp over IPv6",
    "netlink",
    "unix",
    "pair of datagram sockets",
    "connect",
    "io_uring",
]
METADATA = ["chmod", "utime"]
FILES = ["create", "append", "append in a child", "truncate", "unlink"]
ALLOWED = ["pair of stream sockets", "read", "null"]


WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys

# struct sock_filter and struct sock_fprog (linux/filter.h): landlock_create_ruleset (444) returns ENOSYS.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
code = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, 444), (RETURN, 0, 0, 0x50000 | 38), (RETURN, 0, 0, 0x7FFF0000)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HP", len(code), ctypes.addressof(filters)))
prctl = ctypes.CDLL(None).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
assert prctl(PR_SET_NO_NEW_PRIVS, *[ctypes.c_ulong(one) for one in (1, 0, 0, 0)]) == 0
assert prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program) == 0
os.execv(sys.executable, [sys.executable, "-m", "aqmlab", "guest", "check", *sys.argv[1:]])
"""
"""A program that starts `aqmlab guest check` on a kernel that seems to have no Landlock."""


def test_a_system_that_cannot_isolate_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    done, unisolated = (
        subprocess.run(
            [sys.executable, "-c", WITHOUT_LANDLOCK, *options, *ECHO],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE_S,
        )
        for options in ([], ["--no-isolation"])
    )
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("aqmlab: this system cannot isolate a guest: Landlock (Linux 6.2 or newer)")
    assert "the option --no-isolation (in Python, isolation=False)" in done.stderr
    assert unisolated.returncode == 0, unisolated.stderr


def attempted(folder: Path, isolation: bool) -> dict[str, str]:
    """Returns the results of the attempts: `done`, or the name of an error."""
    (folder / "guest.py").write_text(ATTEMPTS, encoding="utf-8")
    (folder / "file").write_text("contents", encoding="utf-8")
    client = [sys.executable, str(folder / "guest.py"), str(folder / "file")]
    with pytest.raises(GuestError, match="the guest reports an error: ") as error:
        run_guests(client, ECHO, PATH, isolation=isolation)
    results: dict[str, str] = json.loads(str(error.value).partition("error: ")[2])
    assert sorted(results) == sorted(NETWORK + METADATA + FILES + ALLOWED)
    return results


def test_an_isolated_guest_has_no_network_and_a_read_only_file_system(tmp_path: Path) -> None:
    results = attempted(tmp_path, isolation=True)
    assert {results[name] for name in NETWORK + METADATA} == {"EPERM"}, results
    assert {results[name] for name in FILES} == {"EACCES"}, results
    assert {results[name] for name in ALLOWED} == {"done"}, results
    assert (tmp_path / "file").read_text(encoding="utf-8") == "contents"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "guest.py"]


def test_a_guest_without_isolation_has_the_privileges_of_the_user(tmp_path: Path) -> None:
    results = attempted(tmp_path, isolation=False)
    assert {results[name] for name in METADATA + FILES + ALLOWED} == {"done"}, results
    # Port 9 has no server, and a connected socket cannot be connected again.
    assert results["tcp"] == "ECONNREFUSED" and results["connect"] != "EPERM"
    assert not (tmp_path / "file").exists()


def test_the_isolation_of_guests_does_not_restrict_the_caller(tmp_path: Path) -> None:
    run_guests(ECHO, ECHO, PATH)
    (tmp_path / "file").write_text("contents", encoding="utf-8")
    (tmp_path / "file").chmod(0o600)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))


def test_an_invalid_time_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="time_limit_s: must be greater than 0"):
        run_guests(ECHO, ECHO, PATH, time_limit_s=0)
    with pytest.raises(FileNotFoundError):
        run_guests(["/no/such/program"], ECHO, PATH)


def test_an_interrupt_ends_both_guests(tmp_path: Path) -> None:
    hanging = changed(
        tmp_path,
        "out.append((0, 0, data))",
        "import os, time; print(os.getpid(), file=open(os.environ['AQM_TEST_PID'], 'w')); time.sleep(600)",
    )
    file = tmp_path / "pid"
    program = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "aqmlab",
            "guest",
            "check",
            "--no-isolation",
            "--time-limit",
            "600s",
            *hanging,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"AQM_TEST_PID": str(file)},
    )
    while not (file.exists() and file.read_text(encoding="utf-8").strip()):
        assert program.poll() is None
        time.sleep(0.02)
    guest = int(file.read_text(encoding="utf-8"))
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 130 and errors == "aqmlab: interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(guest, 0)


def test_aioquic_is_admitted() -> None:
    pytest.importorskip("aioquic")
    aioquic = [sys.executable, str(EXAMPLE.with_name("aioquic_guest.py"))]
    admission = check_guest(aioquic, until_s=30)
    assert admission.admitted, admission.reasons
    assert admission.run is not None
    received = [value for _, _, name, value in admission.run.events if name == "received_bytes"]
    assert sum(received) == 1_000_000


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aqmlab", "guest", "check", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=PATIENCE_S,
    )


def test_the_command_tests_a_program(tmp_path: Path) -> None:
    done = command("--seed", "3", *ECHO, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.endswith("echo_guest.py: admitted")
    assert re.fullmatch(r"  client: 100 datagrams sent, \d+ delivered, \d+ dropped, \d+ in transit", rest[0])
    assert re.fullmatch(r"  digest: [0-9a-f]{64}", rest[-1])
    as_json = json.loads(command("--seed", "3", "--json", *ECHO, folder=tmp_path).stdout)
    assert as_json["admitted"] and as_json["run"]["digest"] == rest[-1].split()[1]


def test_the_command_writes_the_report_of_a_fault(tmp_path: Path) -> None:
    (tmp_path / "path.toml").write_text('forward = [{ rate = "1Mbps", delay = "1ms" }]\n', encoding="utf-8")
    client = changed(tmp_path, "out.append((0, 0, data))", "out.append((70_000, 0, data))")
    done = command("--path", "path.toml", "--server", " ".join(ECHO), *client, folder=tmp_path)
    assert done.returncode == 1
    fault = "client at 0 ns: the number of a flow must be less than 65536 (got 70000)"
    assert f"  seed 1: {fault}\n  report: out/guest/fault.txt" in done.stdout
    report = (tmp_path / "out/guest/fault.txt").read_text(encoding="utf-8")
    assert report.startswith(f"fault: {fault}\nseed: 1\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-program"], "COMMAND: no-such-program: command not found"),
        (["--until", "ten", *ECHO], "--until: "),
        (["--path", "missing.toml", *ECHO], "missing.toml: cannot be read"),
        (["--no-such-option"], "guest check has no option --no-such-option"),
    ],
)
def test_invalid_options_are_named(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = command(*arguments, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr


def test_the_path_of_an_admission_test_is_valid() -> None:
    from aqmlab.path.guests import PATH as USUAL

    assert al.Path(USUAL).in_transit == 0


def test_the_page_about_quinn_names_the_versions_in_the_lock_file() -> None:
    page = (ROOT / "docs/guides/quinn-guest.md").read_text(encoding="utf-8")
    lock = tomllib.loads((ROOT / "guests/Cargo.lock").read_text(encoding="utf-8"))
    versions = {one["name"]: one["version"] for one in lock["package"]}
    for name in ("quinn-proto", "rustls", "ring"):
        assert f"{name} {versions[name]}" in page

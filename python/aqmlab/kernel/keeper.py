"""Runs a kernel in the folder of a job. When the kernel ends, or on SIGTERM, this program kills all processes
of the kernel, and writes the CPU time of the processes to the file `cpu`.

The programs of a guest are processes of the host, and outlive a killed kernel as children of the nearest
subreaper (prctl(2)), which is this program. If the process that started this program dies, the host sends
SIGHUP to this program, which then also removes the folder of the job.

    keeper.py PARENT KERNEL ARGUMENT...
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

ABANDONED = signal.SIGHUP
"""The signal that the host sends if the parent dies. While the parent is dying, `getppid` still returns its
process ID."""

SIGNALS = (signal.SIGTERM, ABANDONED)

PREFIX = "aqmlab-virtual-"
"""Prefix of the names of folders of jobs."""


def main() -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, kernel, abandoned = int(sys.argv[1]), 0, False

    def end(number: int, *_: object) -> None:
        nonlocal abandoned
        abandoned = abandoned or number == ABANDONED
        # Until the kernel has its own process group, the kernel has no other processes.
        for kill in (os.kill, os.killpg) if kernel else ():
            with suppress(ProcessLookupError):
                kill(kernel, signal.SIGKILL)

    for number in SIGNALS:
        signal.signal(number, end)
    # The handler must know the process ID of the kernel as soon as the kernel exists.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    libc.prctl(PR_SET_PDEATHSIG, ABANDONED)
    if os.getppid() != parent:
        os.kill(os.getpid(), ABANDONED)
    kernel = os.fork()
    if kernel == 0:
        os.setsid()
        # The kernel would inherit the mask.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.execv(sys.argv[2], sys.argv[2:])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    status, cpu_s = 0, 0.0
    while True:
        try:
            process, ended, used = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu_s += used.ru_utime + used.ru_stime
        if process == kernel:
            status = os.waitstatus_to_exitcode(ended)
            with suppress(ProcessLookupError):
                os.killpg(kernel, signal.SIGKILL)
    if abandoned:
        remove_folder()
        return 1
    with open("cpu", "w", encoding="ascii") as file:
        file.write(f"{cpu_s}\n")
    return status if status >= 0 else 128 - status


def remove_folder() -> None:
    """Removes the folder of the job, which is the working directory."""
    import shutil

    folder = os.getcwd()
    if os.path.basename(folder).startswith(PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

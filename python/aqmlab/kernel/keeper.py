"""Runs a kernel. When the kernel ends, or on SIGTERM, this program kills all processes of the kernel, and
writes the CPU time of the processes to the file `cpu`.

The programs of a guest are processes of the host, and outlive a killed kernel as children of the nearest
subreaper (prctl(2)), which is this program. If the process that started this program dies, the host sends
SIGTERM to this program.

    keeper.py PARENT KERNEL ARGUMENT...
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = 0

    def end(*_: object) -> None:
        if not kernel:
            os._exit(1)
        # Until the kernel has its own process group, the kernel has no other processes.
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(kernel, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    if os.getppid() != int(sys.argv[1]):
        return 1
    # The handler must know the process ID of the kernel as soon as the kernel exists.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    kernel = os.fork()
    if kernel == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The kernel would inherit the mask.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.execv(sys.argv[2], sys.argv[2:])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
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
    with open("cpu", "w", encoding="ascii") as file:
        file.write(f"{cpu_s}\n")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())

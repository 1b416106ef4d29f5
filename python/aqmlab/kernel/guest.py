"""The first process of a guest, which runs one job and then halts the guest.

The guest's root is the host's file system, read-only. The folder of the job is the working directory of the
kernel on the host, so that the guest's command line is the same in each run: the kernel derives random
numbers from its command line. This program loads the compiled core alone, so that the guest need not import
the package.
"""

import _thread
import json
import os
import sys
import time
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from typing import Any

ROOM = "/run/aqmlab"
"""The folder of this program in the guest, which is in memory."""

FOLDER = f"{ROOM}/job"
"""The folder of the job in the guest."""

UPPER, WORK = "/dev/shm/upper", "/dev/shm/work"
"""The folders of the changes of /run, which are hidden as soon as /dev/shm is mounted again."""

HIDDEN = ("/dev/shm",)
"""Folders whose files on the host are not visible in the guest. The guest also has its own /proc, /sys and
/dev, which do not contain files of users."""

POWER_OFF = 0x4321FEDC
"""LINUX_REBOOT_CMD_POWER_OFF (reboot(2))."""

PROGRESS_S = 0.5
"""Interval between reports of the progress, in virtual time."""

MOUNTS = (
    ("proc", "/proc", "proc", ""),
    ("sysfs", "/sys", "sysfs", ""),
    ("devtmpfs", "/dev", "devtmpfs", ""),
    ("tmpfs", "/dev/shm", "tmpfs", ""),
    ("overlay", "/run", "overlay", f"lowerdir=/run,upperdir={UPPER},workdir={WORK}"),
    ("tmpfs", "/dev/shm", "tmpfs", ""),
    ("devpts", "/dev/pts", "devpts", ""),
    # The host resolves this path: it is the working directory of the kernel.
    ("none", FOLDER, "hostfs", "/proc/self/cwd"),
)


def main() -> None:
    """Runs the job, and halts the guest whatever happens."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    try:
        for source, target, kind, options in MOUNTS:
            for folder in (target, UPPER, WORK) if kind == "overlay" else (target,):
                os.makedirs(folder, exist_ok=True)
            if libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()) != 0:
                raise OSError(ctypes.get_errno(), f"{target} cannot be mounted")
        allow_all_controls()
        run()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        libc.reboot(POWER_OFF)


def allow_all_controls() -> None:
    """Lets programs choose any congestion control of the kernel."""
    folder = "/proc/sys/net/ipv4"
    with open(f"{folder}/tcp_available_congestion_control", encoding="ascii") as file:
        available = file.read()
    with open(f"{folder}/tcp_allowed_congestion_control", "w", encoding="ascii") as file:
        file.write(available)


def run() -> None:
    """Runs the job in `job.json` and writes `result.json`, whose last step makes the result complete."""
    with open(f"{FOLDER}/job.json", encoding="utf-8") as file:
        job = json.load(file)
    for descriptor, name in ((0, "/dev/null"), (1, f"{FOLDER}/stdout"), (2, f"{FOLDER}/stderr")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(name, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    home, temporary = f"{ROOM}/home", f"{ROOM}/tmp"
    for folder in (home, temporary):
        os.mkdir(folder)
    os.environ.clear()
    os.environ.update(job["environment"], HOME=home, TMPDIR=temporary)
    os.chdir(job["directory"])
    result = _result(job)
    with open(f"{FOLDER}/result.new", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.rename(f"{FOLDER}/result.new", f"{FOLDER}/result.json")


def _core(path: str) -> Any:
    """Loads the compiled core without the package of which the core is a part."""
    loader = ExtensionFileLoader("aqmlab._core", path)
    core = module_from_spec(ModuleSpec("aqmlab._core", loader, origin=path))
    loader.exec_module(core)
    return core


def _report(watch: Any) -> None:
    """Writes the progress of the run to the file `progress`, in nanoseconds of virtual time."""
    file = os.open(f"{FOLDER}/progress", os.O_WRONLY | os.O_CREAT, 0o644)
    while True:
        time.sleep(PROGRESS_S)
        done, total = watch.progress()
        os.pwrite(file, f"{done:20} {total:20}".encode(), 0)


def _result(job: dict[str, Any]) -> dict[str, Any]:
    core = _core(job["core"])
    watch = core.Watch()
    _thread.start_new_thread(_report, (watch,))
    try:
        plan = core.Document.of_json(json.dumps(job["scenario"])).plan(job["files"])
        output = core.run_live(plan, watch, virtual_time=True, **job["options"])
        with open(f"{FOLDER}/tables.json", "w", encoding="utf-8") as file:
            file.write(output.tables())
    except core.ScenarioError as error:
        parts = ("path", "problem", "problems", "without_effect")
        return {"error": "scenario", "text": str(error)} | {name: getattr(error, name) for name in parts}
    except (core.LiveError, OSError, ValueError) as error:
        return {"error": "live", "text": str(error)}
    return {
        "manifest": json.loads(output.manifest),
        "events": output.events,
        "forwarded": output.forwarded,
        "digest": output.digest(),
    }


if __name__ == "__main__":
    main()

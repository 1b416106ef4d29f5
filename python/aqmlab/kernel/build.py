"""Builds a User-Mode-Linux kernel with virtual time from the source of a Linux kernel.

The build needs no privileges, and installs nothing. It changes a copy of the source in the places that
`CHANGES` lists.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aqmlab.kernel.folder import temporary_folder
from aqmlab.kernel.kernel import Kernel, KernelError, kept

CONFIGURATION = Path(__file__).parent / "live.config"
"""The configuration, which is merged into the kernel's smallest configuration."""

TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "tar": "tar",
    "xz": "xz-utils",
}
"""The programs that a build needs, with the Debian packages that contain them."""

TICK_HZ = 250
"""Ticks per second, the default of Debian's kernels, from which the tick of the TCP profile `linux-6` is
taken."""

PROGRESS_S = 15.0
"""Interval between messages about the progress of the compilation."""

LOG_LINES = 15
"""Number of lines of the compiler's output that an error message contains."""

_RANDOM = """\
ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
	return getrandom(buf, len, flags);
}
"""

_SEEDED_RANDOM = """\
/* aqmlab: with random-seed=N, the random numbers come from SplitMix64 (Steele, Lea and Flood, 2014). */
static int seeded;
static unsigned long long seed_state;

static int __init seed_setup(char *line, int *add)
{
	*add = 0;
	seeded = 1;
	seed_state = strtoull(line, NULL, 10);
	return 0;
}

__uml_setup("random-seed=", seed_setup,
"random-seed=<number>\\n"
"    Derive all random numbers of the kernel from this number.\\n\\n"
);

ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)
{
	unsigned char *bytes = buf;
	size_t done;

	if (!seeded)
		return getrandom(buf, len, flags);
	for (done = 0; done < len; done++) {
		unsigned long long z = seed_state += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		bytes[done] = z ^ (z >> 31);
	}
	return len;
}
"""


@dataclass(frozen=True)
class Change:
    """A change of the kernel's source: in `file`, `before` is replaced with `after`."""

    file: str
    before: str
    after: str
    reason: str


CHANGES = (
    Change(
        "arch/um/os-Linux/util.c",
        _RANDOM,
        _SEEDED_RANDOM,
        "The kernel reads random numbers of the host: hash keys, initial sequence numbers and the addresses "
        "of programs differ from run to run. The change adds the argument random-seed.",
    ),
    Change(
        "arch/um/os-Linux/skas/process.c",
        "(void *) PTRACE_O_TRACESYSGOOD)",
        "(void *) (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
        "Without this option of ptrace(2), programs of a killed kernel continue as processes of the host.",
    ),
    Change(
        "arch/x86/um/user-offsets.c",
        "DEFINE_LONGS(HOST_FP_SIZE, 2696);",
        "DEFINE_LONGS(HOST_FP_SIZE, 16384);",
        "The host sets the vector registers of a program only if the kernel's buffer holds all registers: "
        "11008 bytes on processors with Intel's AMX, where the kernel would otherwise end at the first "
        "program. Such buffers are also on the kernel's stacks, which CONFIG_KERNEL_STACK_ORDER enlarges.",
    ),
)
"""The changes that a build makes, in addition to the tick in arch/um/Kconfig."""

Say = Callable[[str], None]


def build(
    source: Path | None = None,
    out: Path | None = None,
    *,
    hz: int = TICK_HZ,
    jobs: int | None = None,
    say: Say = print,
) -> Kernel:
    """Builds a kernel and returns it.

    `source` is a folder or a tar archive with the source of Linux. Without `source`, the source package of
    the distribution is downloaded with `apt-get download`, which does not install the package. `out` is the
    folder of the kernel, by default a folder in `folder()`. `say` receives the messages about the progress.

    Raises `KernelError`, with a remedy, if a tool is missing or the build fails.
    """
    need_tools(download=source is None)
    out = out.absolute() if out else None
    if source is not None and not source.exists():
        raise KernelError(f"--source: {source} does not exist")
    parent = out.parent if out else kept()
    parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("aqmlab-kernel-", parent) as work:
        tree = _tree(source or _downloaded(work, say), work, say)
        change(tree, hz)
        say("configure the kernel")
        _configure(tree)
        release = _make(tree, "-s", "kernelrelease").stdout.split()[-1]
        say(f"compile Linux {release}, which takes several minutes")
        _compile(tree, work / "build.log", jobs or os.cpu_count() or 1, say)
        target = out or kept() / f"linux-{release}-hz{hz}"
        target.mkdir(parents=True, exist_ok=True)
        fresh = target / f".linux-{os.getpid()}"
        shutil.copy(tree / "linux", fresh)
        subprocess.run(["strip", str(fresh)], check=False, capture_output=True)
        fresh.replace(target / "linux")
        shutil.copy(tree / ".config", target / "config")
    return Kernel.of(target / "linux")


def need_tools(*, download: bool) -> None:
    """Raises `KernelError` with the missing tools and their Debian packages, or if the machine is not an
    x86-64 machine, the only architecture of `live.config`."""
    if platform.machine() != "x86_64":
        raise KernelError(f"a kernel for virtual time needs a machine with x86-64 (got {platform.machine()})")
    wanted = TOOLS | ({"apt-get": "apt", "dpkg": "dpkg"} if download else {})
    missing = [tool for tool in wanted if shutil.which(tool) is None]
    if "apt-get" in missing:
        raise KernelError(
            "the source of the kernel is downloaded with apt-get, which is missing: on other systems than "
            "Debian, name the source of a Linux kernel with --source"
        )
    if missing:
        packages = " ".join(sorted({wanted[tool] for tool in missing}))
        raise KernelError(f"missing: {', '.join(missing)}; on Debian, run: apt-get install {packages}")


def _downloaded(work: Path, say: Say) -> Path:
    """Downloads the distribution's source package and returns the archive in the package."""
    found = _run(["apt-cache", "depends", "linux-source"], work).stdout
    names = [line.split()[-1] for line in found.splitlines() if "Depends: linux-source-" in line]
    if not names:
        raise KernelError(
            "apt-cache knows no package linux-source: run `apt-get update` as root, or name the source of a "
            "Linux kernel with --source"
        )
    say(f"download {names[0]} (about 140 MB)")
    _run(["apt-get", "download", names[0]], work)
    package = next(work.glob("linux-source-*.deb"))
    _run(["dpkg", "-x", package.name, "package"], work)
    package.unlink()
    return next((work / "package" / "usr" / "src").glob("linux-source-*.tar.*"))


def _tree(source: Path, work: Path, say: Say) -> Path:
    """Returns a copy of the source that may be changed."""
    tree = work / "source"
    tree.mkdir()
    if source.is_dir():
        say(f"copy {source}")
        _run(["cp", "-r", "--reflink=auto", f"{source.resolve()}/.", str(tree)], work)
    else:
        say(f"unpack {source.name}")
        _run(["tar", "-xf", str(source.resolve()), "-C", str(tree), "--strip-components=1"], work)
    if not (tree / "arch" / "um" / "Kconfig").exists():
        raise KernelError(f"--source: {source} does not contain the source of Linux (arch/um is missing)")
    _make(tree, "mrproper")
    return tree


def change(tree: Path, hz: int) -> None:
    """Makes the changes of the source. Raises `KernelError` if the source has none of the expected places."""
    for one in CHANGES:
        file = tree / one.file
        text = file.read_text(encoding="utf-8")
        if text.count(one.before) != 1:
            raise KernelError(f"{one.file}: the source differs from Linux 6.1 and 6.12: {one.before.strip()}")
        file.write_text(text.replace(one.before, one.after), encoding="utf-8")
    file = tree / "arch" / "um" / "Kconfig"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    if "config HZ\n" not in lines:
        raise KernelError("arch/um/Kconfig: the source differs from Linux 6.1 and 6.12: config HZ")
    start = lines.index("config HZ\n")
    number = next(i for i in range(start, len(lines)) if lines[i].startswith("\tdefault "))
    lines[number] = f"\tdefault {hz}\n"
    file.write_text("".join(lines), encoding="utf-8")


def _configure(tree: Path) -> None:
    _make(tree, "tinyconfig")
    _run(["scripts/kconfig/merge_config.sh", "-m", ".config", str(CONFIGURATION)], tree)
    _make(tree, "olddefconfig")
    present = set((tree / ".config").read_text(encoding="utf-8").splitlines())
    wanted = CONFIGURATION.read_text(encoding="utf-8").splitlines()
    lost = [line for line in wanted if line.startswith("CONFIG_") and line not in present]
    if lost:
        raise KernelError(f"the kernel does not accept this configuration: {', '.join(lost)}")


def _compile(tree: Path, log: Path, jobs: int, say: Say) -> None:
    begun = reported = time.monotonic()
    count = 0
    with log.open("w", encoding="utf-8") as written, _making(tree, jobs) as process:
        assert process.stdout is not None
        for line in process.stdout:
            written.write(line)
            count += line.startswith(("  CC", "  AS", "  LD", "  AR"))
            now = time.monotonic()
            if now - reported >= PROGRESS_S:
                reported = now
                say(f"  {count} files after {now - begun:.0f} s")
    if process.returncode != 0:
        last = log.read_text(encoding="utf-8").splitlines()[-LOG_LINES:]
        raise KernelError("the kernel cannot be compiled:\n" + "\n".join(f"  {line}" for line in last))


@contextmanager
def _making(tree: Path, jobs: int) -> Iterator[subprocess.Popen[str]]:
    """Starts the compiler in the background with a low priority. If the context ends with an exception, the
    compiler is stopped."""
    command = ["nice", "make", "ARCH=um", f"-j{jobs}", "linux"]
    process = subprocess.Popen(
        command,
        cwd=tree,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(),
    )
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.terminate()
                raise
    finally:
        process.wait()


def _make(tree: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    return _run(["make", "ARCH=um", *targets], tree)


def _environment() -> dict[str, str]:
    """The environment without variables that would change the build."""
    hidden = ("ARCH", "CROSS_COMPILE", "KCONFIG_CONFIG", "KBUILD_OUTPUT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return {name: value for name, value in os.environ.items() if name not in hidden} | {"LC_ALL": "C"}


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command. Raises `KernelError` with the end of the command's output if the command fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
        check=False,
    )
    if done.returncode != 0:
        last = (done.stdout + done.stderr).splitlines()[-LOG_LINES:]
        raise KernelError(f"{' '.join(command)} failed:\n" + "\n".join(f"  {line}" for line in last))
    return done

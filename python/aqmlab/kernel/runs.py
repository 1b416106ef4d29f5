"""Live runs in virtual time."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from aqmlab import _core
from aqmlab.kernel import guest
from aqmlab.kernel.folder import temporary_folder
from aqmlab.kernel.keeper import PREFIX
from aqmlab.kernel.kernel import Kernel, find
from aqmlab.kernel.start import boot, check_visible, environment
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run, Tables

if TYPE_CHECKING:
    import polars as pl

PCAP = "packets.pcapng"
"""Name of the capture in the folder of a job."""


class _Copied:
    """The tables that a guest wrote, in the form that `Tables` reads."""

    def __init__(self, frames: Mapping[str, pl.DataFrame], digest: str) -> None:
        self._frames, self._digest = frames, digest

    def names(self) -> list[str]:
        return list(self._frames)

    def table(self, name: str) -> pl.DataFrame:
        return self._frames[name]

    def digest(self) -> str:
        return self._digest


def run(
    scenario: Scenario,
    seed: int | None = None,
    *,
    kernel: Kernel | None = None,
    nearest_tcp: bool = False,
    until_done: bool = False,
    pcap: Path | None = None,
    congestion_control: str | None = None,
    limit_s: float | None = None,
    watch: _core.Watch | None = None,
) -> Run:
    """Runs a scenario live in a kernel in virtual time. The arguments and the result are those of
    `aqmlab.live.run`. Real time has no effect on the result, so the run is always valid.

    `kernel` is by default the kernel that `find` returns. The seed of the run is also the seed of the
    kernel's random numbers. After `limit_s` seconds of real time, the run is ended.

    `manifest["live"]["virtual"]` contains the release and the tick of the kernel, and the cost of the run.
    Raises `KernelError` if there is no kernel, if a program or the working directory is not visible in the
    guest, or if the kernel fails, and the exceptions of `aqmlab.live.run`.
    """
    from aqmlab._support.parallel import interruptible

    used = kernel or find()
    check_visible(_paths(scenario))
    kernel_seed = scenario.effective["seed"] if seed is None else seed
    options = {
        "seed": seed,
        "nearest_tcp": nearest_tcp,
        "until_done": until_done,
        "congestion_control": congestion_control,
    }
    job = {
        "core": _core.__file__,
        "scenario": scenario.given,
        "files": dict(scenario.files),
        "options": options | ({"pcap": f"{guest.FOLDER}/{PCAP}"} if pcap else {}),
        "environment": environment(),
        "directory": os.getcwd(),
    }

    def work(watch: _core.Watch) -> Run:
        with temporary_folder(PREFIX) as folder:
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            with _Relay(folder) as relay:

                def look() -> None:
                    relay.pass_on()
                    _show_progress(folder / "progress", watch)
                    if watch.stopped:
                        raise KeyboardInterrupt

                cost = boot(used, folder, seed=kernel_seed, limit_s=limit_s, look=look)
            result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
            _raise_error(result)
            if pcap is not None:
                shutil.move(folder / PCAP, pcap)
            manifest = result["manifest"]
            manifest["live"]["virtual"] = {
                "kernel": used.release,
                "tick_s": used.tick_s,
                "seeded": used.seeded,
                "wall_s": cost.wall_s,
                "cpu_s": cost.cpu_s,
            }
            performance = {"events": result["events"], "cpu_s": cost.cpu_s}
            if result["forwarded"] is not None:
                performance["packets_forwarded"] = result["forwarded"]
                performance["packets_per_cpu_s"] = result["forwarded"] / cost.cpu_s
            tables = _Copied(dict(_frames(folder)), result["digest"])
            return Run(tables=Tables(tables), manifest=manifest, performance=performance)

    return interruptible(work, watch)


def _paths(scenario: Scenario) -> dict[str, str]:
    """Returns the files and folders of the host that a run needs in the guest, with their descriptions."""
    found = {"the working directory": os.getcwd(), "Python": sys.executable, "aqmlab": _core.__file__}
    for name, workload in scenario.effective["traffic"].items():
        for end in ("client", "server"):
            command = workload.get(end)
            for index, word in enumerate(command if isinstance(command, list) else ()):
                path = shutil.which(word) if index == 0 else None
                found[f"traffic.{name}.{end}.{index}"] = path or word
    return found


def _show_progress(file: Path, watch: _core.Watch) -> None:
    words = file.read_text(encoding="ascii").split() if file.exists() else []
    if len(words) == 2:
        watch.show_progress(int(words[0]), int(words[1]))


def _frames(folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    import polars as pl

    for table in json.loads((folder / "tables.json").read_text(encoding="utf-8")):
        yield table["name"], pl.DataFrame([_series(column) for column in table["columns"]])


def _series(column: Mapping[str, Any]) -> pl.Series:
    """Returns a column that the core has written as JSON."""
    import numpy as np
    import polars as pl

    kind, name = column["kind"], column["name"]
    if kind == "word":
        words = column["words"]
        values = [words[code] if code < len(words) else None for code in column["values"]]
        found = pl.Series(name, values, dtype=pl.String).cast(pl.Categorical)
    elif kind == "real":
        found = pl.Series(name, np.array(column["values"], dtype=np.uint64).view(np.float64))
    else:
        found = pl.Series(name, column["values"], dtype=pl.Boolean if kind == "truth" else pl.UInt64)
    if "known" in column:
        known = pl.Series(column["known"], dtype=pl.Boolean)
        found = found.to_frame().select(pl.when(known).then(pl.col(name))).to_series()
    return found


def _raise_error(result: Mapping[str, Any]) -> None:
    """Raises the error that ended the run in the guest."""
    if result.get("error") == "scenario":
        error = _core.ScenarioError(result["text"])
        error.path, error.problem = result["path"], result["problem"]
        error.problems = [(path, problem) for path, problem in result["problems"]]
        error.without_effect = result["without_effect"]
        raise error
    if "error" in result:
        raise _core.LiveError(result["text"])


class _Relay:
    """Passes on what the programs in a guest print."""

    def __init__(self, folder: Path) -> None:
        streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        # A stream is None if the descriptor was closed when Python started.
        self._outputs = [_Output(folder / name, one) for name, one in streams.items() if one is not None]

    def __enter__(self) -> _Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.pass_on()

    def pass_on(self) -> None:
        """Copies new output of the programs to the streams of this process."""
        for output in self._outputs:
            output.pass_on()


class _Output:
    """A file to which programs print, and the stream of this process that receives the contents."""

    def __init__(self, file: Path, stream: TextIO) -> None:
        self._file, self._stream, self._position = file, stream, 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def pass_on(self) -> None:
        if not self._file.exists():
            return
        with self._file.open("rb") as opened:
            opened.seek(self._position)
            content = opened.read()
        if not content:
            return
        self._position += len(content)
        # The streams of notebooks are streams of text, without bytes and without a file descriptor.
        binary = getattr(self._stream, "buffer", None)
        if binary is None:
            self._stream.write(self._decoder.decode(content))
        else:
            self._stream.flush()
            binary.write(content)
        self._stream.flush()

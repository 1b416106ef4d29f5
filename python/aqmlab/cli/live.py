"""The commands `aqmlab live`, which run the queues with real TCP and real programs."""

import itertools
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab import _core
from aqmlab._support.names import listed
from aqmlab.cli import completion
from aqmlab.cli.options import (
    AsJson,
    At,
    Queues,
    Settings,
    Tcps,
    limit_polars_threads,
    links_of,
    load_scenario,
    resumable,
    time_of,
)
from aqmlab.live import NotLive

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from aqmlab.scenario import Scenario
    from aqmlab.scenario.run import Run

app = typer.Typer(
    help="Run the queues in real time, with the Linux kernel's TCP and real programs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

REFUSED: tuple[type[Exception], ...] = (NotLive, getattr(_core, "LiveError", NotLive))
"""Exceptions that are raised if the system denies a privilege or resource that a live run needs."""

MAX_INTERRUPTS = 3
"""A run ends after Ctrl-C has been pressed this number of times, even if the run's command continues."""

COMMAND_NOT_FOUND = 127
"""Exit status if a command is not found, the same as in shells."""

Seed = Annotated[int | None, typer.Option(min=0, help="Seed; by default the seed of the scenario.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the tables and the manifest.")]
Pcap = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Pcapng file to write. In this file, a comment marks each dropped packet."
    ),
]
NearestTcp = Annotated[
    bool,
    typer.Option(
        "--nearest-tcp",
        help="If the kernel does not support a setting of [tcp], use the nearest supported setting.",
    ),
]
CongestionControl = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Congestion control of this machine's kernel, such as bbr, which replaces the congestion "
        "control in [tcp].",
    ),
]


Virtual = Annotated[
    bool,
    typer.Option(
        "--virtual",
        help="Run in virtual time, in a kernel that `aqmlab kernel build` has built: the run needs no root, "
        "and a busy machine cannot disturb the run.",
    ),
]
KernelFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --virtual: kernel to use; by default the kernel that `aqmlab kernel show` prints.",
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="With --virtual: maximum real time of the run; by default 60min."),
]

TIME_LIMIT = "60min"
"""Maximum real time of a run in virtual time, unless `--time-limit` sets another value: about 300 times
the real time of `scenarios/real-tcp.toml`. The value is aqmlab's choice."""


AgreeScenario = Annotated[
    Path,
    typer.Argument(
        metavar="[SCENARIO]",
        autocompletion=completion.scenario,
        help="Scenario file (TOML), or name of a packaged scenario.",
    ),
]


@contextmanager
def _programs_print_to_stderr() -> Iterator[None]:
    """Redirects the output of child processes to standard error, because child processes inherit standard
    output."""
    sys.stdout.flush()
    out, err = sys.stdout.fileno(), sys.stderr.fileno()
    kept = os.dup(out)
    os.dup2(err, out)
    try:
        yield
    finally:
        os.dup2(kept, out)
        os.close(kept)


@contextmanager
def _named(path: Path | None) -> Iterator[None]:
    """Adds the path of the scenario file to error messages about a scenario."""
    from aqmlab.scenario import ScenarioFileError

    try:
        yield
    except _core.ScenarioError as error:
        if path is None:
            raise
        raise ScenarioFileError.of(path, error) from None


@contextmanager
def _with_kernel_control_hint() -> Iterator[None]:
    """Adds a hint to errors about an unknown congestion control: the option that selects one of the kernel's
    congestion controls."""
    try:
        yield
    except ValueError as error:
        if "congestion_control.kind: unknown kind" not in str(error):
            raise
        raise ValueError(
            f"{error}; these are the simulator's congestion controls: select a congestion control of the "
            "kernel with --congestion-control NAME"
        ) from None


@app.callback()
def live(context: typer.Context) -> None:
    """If the user is not root, runs the command again as root in a user namespace."""
    # Every user is root in the guest of a run in virtual time. Words after `--` are the command of `shell`.
    words = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    if not (context.invoked_subcommand in ("run", "shell") and "--virtual" in words):
        prepare()


def prepare() -> None:
    """If the user is not root, runs the command again as root in a user namespace."""
    if hasattr(_core, "needs_user_namespace") and _core.needs_user_namespace():
        sys.exit(_core.run_in_user_namespace([sys.executable, "-m", "aqmlab", *sys.argv[1:]]))


def _in_guest(kernel: Path | None, time_limit: str | None) -> "Callable[..., Run]":
    """Returns the function that runs a scenario in virtual time. Raises `KernelError` if there is no
    kernel."""
    from aqmlab import kernel as kernels

    limit_s = time_of("--time-limit", time_limit or TIME_LIMIT)
    return partial(kernels.run, kernel=kernels.find(kernel), limit_s=limit_s)


def _in_real_time(kernel: Path | None, time_limit: str | None) -> "Callable[..., Run]":
    """Returns the function that runs a scenario in real time. Raises `ValueError` if an option needs
    `--virtual`."""
    from aqmlab import live

    for option, value in (("--kernel", kernel), ("--time-limit", time_limit)):
        if value is not None:
            raise ValueError(f"{option}: needs --virtual")
    return live.run


@app.command()
def check() -> None:
    """Check which privileges live runs have on this machine, and print why any privileges are missing."""
    from aqmlab import live

    privileges = live.privileges()
    for name, problem in privileges.items():
        print(f"{name:<11} {'yes' if problem is None else f'no: {problem}'}")
    if privileges["namespaces"] or privileges["tun"]:
        raise typer.Exit(1)


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="Packet-level scenario.")],
    seed: Seed = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Out = None,
    pcap: Pcap = None,
    nearest_tcp: NearestTcp = False,
    congestion_control: CongestionControl = None,
    until_done: Annotated[
        bool,
        typer.Option(
            "--until-done",
            help="End the run as soon as all client programs have exited or, if there are no programs, as "
            "soon as all transfers are complete.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the queues in the terminal during the run.")
    ] = False,
    virtual: Virtual = False,
    kernel: KernelFile = None,
    time_limit: TimeLimit = None,
) -> None:
    """Run a scenario live, in real time, and print its results. With --virtual, run in virtual time.

    The exit status is 3 if the run is not valid."""
    from aqmlab.cli import live_text, run_text, watching
    from aqmlab.live import watch as live_watch
    from aqmlab.scenario import Scenario, settings_of

    with _with_kernel_control_hint():
        chosen = Scenario.load(scenario, settings_of(settings or []))

    if virtual and watch:
        raise ValueError("--watch: cannot show a run in virtual time")
    runs = _in_guest(kernel, time_limit) if virtual else _in_real_time(kernel, time_limit)

    def work(seen: _core.Watch) -> "Run":
        # Only one process can read the view: either this process, or `aqmlab live watch` in another terminal.
        with nullcontext() if watch or virtual else live_watch.shown(seen):
            return runs(
                chosen,
                seed,
                nearest_tcp=nearest_tcp,
                until_done=until_done,
                pcap=pcap,
                congestion_control=congestion_control,
                watch=seen,
            )

    with _named(scenario), _programs_print_to_stderr() if as_json else nullcontext():
        result = watching.run(work, "live run", 1.0 if watch else None)
    if out is not None:
        run_text.write(result, out)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
    else:
        print("\n".join(live_text.lines(result, chosen.name)))
    if not result.manifest["live"]["valid"]:
        raise typer.Exit(live_text.INVALID)


@app.command()
def agree(
    scenario: AgreeScenario = Path("live-agreement"),
    queues: Queues = "",
    at: At = None,
    tcp: Tcps = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE,...",
            help="Path of a parameter, and the values to run, such as traffic.ftp.flows=1,4,10. Repeat the "
            "option for further paths.",
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option(min=2, help="Number of simulated runs of each point, and also of live runs.")
    ] = 5,
    settings: Settings = None,
    simulated: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE",
            help="Value to change only in the simulated runs, to find the cause of a difference.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel live runs; by default two per core.")
    ] = None,
    virtual: Annotated[
        bool,
        typer.Option(
            "--virtual",
            help="Also run the scenario live in virtual time, in a kernel that `aqmlab kernel build` has "
            "built.",
        ),
    ] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the report; its subfolder store contains the finished runs.",
        ),
    ] = Path("out/live-agree"),
) -> None:
    """Compare simulated and live runs of a scenario, and test whether their measures agree."""
    limit_polars_threads()
    from aqmlab.campaign import Local
    from aqmlab.cli import live_text
    from aqmlab.live_agreement import agreement
    from aqmlab.scenario import settings_of
    from aqmlab.scenario.queues import different_rates, replacement
    from aqmlab.study import run_study

    chosen = load_scenario(scenario, settings)
    study = agreement.study(
        chosen,
        queues=listed(queues),
        tcps=listed(tcp),
        at=links_of(at),
        vary=_axes(vary or ()),
        simulated=settings_of(simulated or []),
        replications=replications,
        virtual=virtual,
    )
    if queues:
        for note in (replacement(chosen, links_of(at)), different_rates(chosen, links_of(at))):
            if note:
                print(f"aqmlab: {note}", file=sys.stderr)
    options = {
        "--queues": [queues],
        "--at": at or [],
        "--tcp": [tcp],
        "--vary": vary or [],
        "--replications": [str(replications)],
        "--set": settings or [],
        "--simulated": simulated or [],
    }
    words = [f"{option} {shlex.quote(text)}" for option, texts in options.items() for text in texts if text]
    words += ["--virtual"] if virtual else []
    with resumable(out):
        result = run_study(
            study,
            out,
            jobs=jobs or agreement.AT_ONCE_ON_A_CORE * (os.cpu_count() or 1),
            executor=Local(),
            source=" ".join(["live agree", shlex.quote(str(scenario)), *words]),
        )
    if as_json:
        print(json.dumps(agreement.record(result), indent=2))
    else:
        live_text.print_agreement(result)
        print(f"\nReport: {result.report}")
    for failure in result.failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if result.failures or any(one.verdict == "miss" for one in agreement.compared(result)):
        raise typer.Exit(1)


def _axes(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Returns the axes that the values of `--vary` specify. Raises `ValueError` if a path occurs twice."""
    from aqmlab.sweep.file import axis_of

    axes: dict[str, list[Any]] = {}
    for text in texts:
        path, values = axis_of(text)
        if path in axes:
            raise ValueError(
                f"--vary {text}: the path {path} occurs twice: list all values of the path in one --vary"
            )
        axes[path] = values
    return axes


@app.command()
def watch(
    process: Annotated[
        int | None,
        typer.Argument(
            metavar="PID",
            help="Process ID of the live run. PID may be omitted if only one live run is in progress.",
        ),
    ] = None,
) -> None:
    """Show the queues of a live run that was started in another terminal, until the run ends."""
    from aqmlab.cli import watching
    from aqmlab.live import watch as live_watch

    known = live_watch.running()
    if process is None:
        if len(known) != 1:
            if not known:
                raise ValueError("no live run is in progress")
            processes = ", ".join(map(str, known))
            raise ValueError(f"PID: is required, because several live runs are in progress: {processes}")
        process = known[0]
    if process not in known:
        available = ", ".join(map(str, known)) or "none"
        raise ValueError(f"no live run has the process ID {process}; available: {available}")
    watching.follow(live_watch.views(process))


@contextmanager
def _interrupts_for_the_command() -> Iterator[None]:
    """Ignores Ctrl-C, because the command also receives and handles the signal. Pressing Ctrl-C repeatedly
    ends the run."""
    count = itertools.count(1)

    def handle(number: int, frame: "FrameType | None") -> None:
        if next(count) >= MAX_INTERRUPTS:
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _with_queues(scenario: "Scenario", down: str, up: str) -> "Scenario":
    """Returns the scenario with other queues: `down` on the link to the client, and `up` on the link from the
    client.

    A name is either a kind of queue or a `[queues.NAME]` of the scenario. An empty name does not change the
    queue. Raises `ValueError` for an unknown name.
    """
    from aqmlab.scenario.queues import queue_named

    names = {"bottleneck.queue": down, "bottleneck.reverse.queue": up}
    changes = {path: queue_named(scenario, name) for path, name in names.items() if name}
    return scenario.with_(changes) if changes else scenario


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...",
            help="Command to run on the client; by default your shell, which --virtual does not support. The "
            "server's host name is `server`.",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO.toml", help="Scenario whose network and background workloads are used."
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Kind of access, such as cable, with its usual rates, round-trip time and buffers: "
            "`aqmlab link kinds` lists the kinds. Other options replace values of the profile.",
        ),
    ] = "",
    rate: Annotated[str, typer.Option(help="Rate of the link to the client.")] = "",
    delay: Annotated[str, typer.Option(help="One-way delay of the link.")] = "",
    queue: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.one_of("queues"),
            help="Queue of the link to the client: a kind, or a name in [queues] of the scenario.",
        ),
    ] = "",
    up_rate: Annotated[
        str,
        typer.Option(help="Rate of the link from the client; by default the rate of the link to the client."),
    ] = "",
    up_queue: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.one_of("queues"),
            help="Queue of the link from the client; by default drop-tail if no scenario is given.",
        ),
    ] = "",
    server: Annotated[str, typer.Option(metavar="COMMAND", help="Server command.")] = "",
    seed: Seed = None,
    settings: Settings = None,
    out: Out = None,
    pcap: Pcap = None,
    nearest_tcp: NearestTcp = False,
    congestion_control: CongestionControl = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="If the run is not valid, exit with status 3 instead of the program's exit status.",
        ),
    ] = False,
    virtual: Virtual = False,
    kernel: KernelFile = None,
    time_limit: TimeLimit = None,
) -> None:
    """Run a program across an emulated link, print the results to standard error, and exit with the program's
    exit status. With --virtual, run in virtual time."""
    from aqmlab import live
    from aqmlab.cli import live_text, run_text
    from aqmlab.links import profile as link_profile
    from aqmlab.live import watch as live_watch
    from aqmlab.scenario import Scenario, settings_of

    options = {"bottleneck.rate": rate, "bottleneck.delay": delay, "bottleneck.reverse.rate": up_rate}
    changes: dict[str, object] = {path: value for path, value in options.items() if value}
    client = command or [os.environ.get("SHELL", "/bin/sh")]
    if virtual and not command:
        raise ValueError("live shell --virtual needs a client command after `--`: a guest has no terminal")
    if client[0].startswith("-"):
        hint = "; `aqmlab live watch` shows the run in another terminal"
        raise ValueError(
            f"live shell has no option {client[0]}; write the client command after `--`"
            f"{hint if client[0] == '--watch' else ''}"
        )
    programs = [client, shlex.split(server)]
    for program in (words[0] for words in programs if words):
        if shutil.which(program) is None:
            print(f"aqmlab: {program}: command not found", file=sys.stderr)
            raise typer.Exit(COMMAND_NOT_FOUND)
    if profile and scenario:
        raise ValueError("--profile: describes the network, as --scenario does: use one of these options")
    runs = _in_guest(kernel, time_limit) if virtual else _in_real_time(kernel, time_limit)
    base = Scenario.load(scenario) if scenario else None
    if profile:
        line = link_profile.network(profile)
        created = live.with_command(None, client, programs[1], changes, network=line.tables, files=line.files)
    else:
        created = live.with_command(base, client, programs[1], changes)
    chosen = _with_queues(created, queue, up_queue)
    with _with_kernel_control_hint():
        chosen = chosen.with_(settings_of(settings or []))
    seen = _core.Watch()
    with ExitStack() as context:
        context.enter_context(_named(scenario))
        if not virtual:  # The programs of a guest do not receive Ctrl-C, so Ctrl-C ends the run.
            context.enter_context(live_watch.shown(seen))
            context.enter_context(_interrupts_for_the_command())
        result = runs(
            chosen,
            seed,
            nearest_tcp=nearest_tcp,
            until_done=True,
            pcap=pcap,
            congestion_control=congestion_control,
            watch=seen,
        )
    if out is not None:
        run_text.write(result, out)
    print("\n".join(live_text.lines(result, shlex.join(client))), file=sys.stderr)
    if strict and not result.manifest["live"]["valid"]:
        raise typer.Exit(live_text.INVALID)
    raise typer.Exit(live.status(result))

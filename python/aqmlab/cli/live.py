"""The commands `aqmlab live`: what a router's queue does to real TCP and real programs."""

import itertools
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab import _core
from aqmlab._support.names import listed
from aqmlab.cli import completion
from aqmlab.cli.options import (
    INTERRUPTED,
    AsJson,
    At,
    Queues,
    Settings,
    Tcps,
    links_of,
    load_scenario,
)
from aqmlab.live import NotLive

if TYPE_CHECKING:
    from types import FrameType

    from aqmlab.scenario import Scenario
    from aqmlab.scenario.run import Run

app = typer.Typer(
    help="Puts the same queues in front of real Linux TCP and real programs, in real time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

REFUSED: tuple[type[Exception], ...] = (NotLive, getattr(_core, "LiveError", NotLive))
"""What is raised if the system refuses something that a live run needs."""

PATIENCE = 3
"""So many times Ctrl-C ends the run of a command, whatever that does."""

COMMAND_NOT_FOUND = 127
"""Exit status for a command that there is not, as a shell has it."""

Seed = Annotated[int | None, typer.Option(min=0, help="Seed; by default the scenario's.")]
Out = Annotated[Path | None, typer.Option(help="A folder for the tables and the manifest.")]
Pcap = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the packets as pcapng; those that were dropped say so in a comment."
    ),
]
NearestTcp = Annotated[
    bool,
    typer.Option(
        "--nearest-tcp", help="Where the kernel cannot do what [tcp] says, let it do what comes nearest."
    ),
]
CongestionControl = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A congestion control of this machine's kernel, such as bbr, in place of the one in [tcp].",
    ),
]


AgreeScenario = Annotated[
    Path,
    typer.Argument(
        metavar="[SCENARIO]",
        autocompletion=completion.scenario,
        help="A scenario file (TOML), or the name of a scenario that comes with aqmlab.",
    ),
]


@contextmanager
def _programs_print_to_stderr() -> Iterator[None]:
    """Keeps standard output for what is printed afterwards: programs inherit it."""
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
    """Errors of a scenario name its file, as those found when it is read."""
    from aqmlab.scenario import ScenarioFileError

    try:
        yield
    except _core.ScenarioError as error:
        if path is None:
            raise
        raise ScenarioFileError.of(path, error) from None


@contextmanager
def _kernel_controls_offered() -> Iterator[None]:
    """An error about an unknown congestion control says how a live run gets those of the kernel."""
    try:
        yield
    except ValueError as error:
        if "congestion_control.kind: unknown kind" not in str(error):
            raise
        raise ValueError(
            f"{error}; these are the simulator's: a live run takes those of the kernel with "
            "--congestion-control NAME"
        ) from None


@app.callback()
def prepare() -> None:
    """Whoever is not root runs the same command again as root of a user namespace."""
    if hasattr(_core, "needs_user_namespace") and _core.needs_user_namespace():
        sys.exit(_core.run_in_user_namespace([sys.executable, "-m", "aqmlab", *sys.argv[1:]]))


@app.command()
def check() -> None:
    """Says what a live run can have on this machine, and why not."""
    from aqmlab import live

    found = live.privileges()
    for name, why in found.items():
        print(f"{name:<11} {'yes' if why is None else f'no: {why}'}")
    if found["namespaces"] or found["tun"]:
        raise typer.Exit(1)


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="A scenario of packets.")],
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
            help="End when the work is done: all clients of programs have ended, or all has arrived.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the queues in the terminal while it runs.")
    ] = False,
) -> None:
    """Runs a scenario live, in as many seconds as it lasts, and prints what happened.

    A run that is not valid ends with status 3."""
    from aqmlab import live
    from aqmlab.cli import live_text, run_text, watching
    from aqmlab.live import watch as live_watch
    from aqmlab.scenario import Scenario, settings_of

    with _kernel_controls_offered():
        chosen = Scenario.load(scenario, settings_of(settings or []))

    def work(seen: _core.Watch) -> "Run":
        # A view is seen once: here, or in another terminal.
        with nullcontext() if watch else live_watch.shown(seen):
            return live.run(
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
            help="Values of the scenario to run, such as traffic.ftp.flows=1,4,10; repeat it for more.",
        ),
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Runs of each point, of either kind.")] = 5,
    settings: Settings = None,
    simulated: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE",
            help="Change a value of the simulated runs only, to find a difference's cause.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many live runs at once; by default two on each core.")
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Where the report and, in the folder store, its runs are kept as soon as they are made.",
        ),
    ] = Path("out/live-agree"),
) -> None:
    """Runs a scenario simulated and live, and says how near the measures are."""
    # Runs take all cores: more threads of polars' would only take turns with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
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
    )
    if queues:
        for note in (replacement(chosen, links_of(at)), different_rates(chosen, links_of(at))):
            if note:
                print(f"aqmlab: {note}", file=sys.stderr)
    given = {
        "--queues": [queues],
        "--at": at or [],
        "--tcp": [tcp],
        "--vary": vary or [],
        "--replications": [str(replications)],
        "--set": settings or [],
        "--simulated": simulated or [],
    }
    words = [f"{option} {shlex.quote(text)}" for option, texts in given.items() for text in texts if text]
    try:
        result = run_study(
            study,
            out,
            jobs=jobs or agreement.AT_ONCE_ON_A_CORE * (os.cpu_count() or 1),
            executor=Local(),
            source=" ".join(["live agree", shlex.quote(str(scenario)), *words]),
        )
    except KeyboardInterrupt:
        print(
            f"aqmlab: interrupted; finished runs are kept in {out}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED) from None
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
    """The axes that `--vary` names. Raises `ValueError` if two are of one path."""
    from aqmlab.sweep.file import axis_of

    axes: dict[str, list[Any]] = {}
    for text in texts:
        path, values = axis_of(text)
        if path in axes:
            raise ValueError(f"--vary {text}: {path} stands there twice: name all its values in one")
        axes[path] = values
    return axes


@app.command()
def watch(
    process: Annotated[
        int | None, typer.Argument(metavar="PID", help="The process; by default the only live run.")
    ] = None,
) -> None:
    """Shows the queues of a live run that goes on in another terminal, until it is over."""
    from aqmlab.cli import watching
    from aqmlab.live import watch as live_watch

    known = live_watch.running()
    if process is None:
        if len(known) != 1:
            found = f"there are {', '.join(map(str, known))}: name one" if known else "there is none"
            raise ValueError(f"no live run to watch was named, and {found}")
        process = known[0]
    if process not in known:
        raise ValueError(f"process {process} has no live run; there is {known or 'none'}")
    watching.follow(live_watch.views(process))


@contextmanager
def _interrupts_for_the_command() -> Iterator[None]:
    """Ctrl-C is for the command, which gets it, too, and may go on; a few of them end all."""
    count = itertools.count(1)

    def handle(number: int, frame: "FrameType | None") -> None:
        if next(count) >= PATIENCE:
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _with_queues(scenario: "Scenario", down: str, up: str) -> "Scenario":
    """A scenario with other queues, by the names of kinds or of `[queues.NAME]`: `down` before the line to
    the client, `up` before the line from the client; an empty name changes nothing. Raises `ValueError` if no
    queue has the name.
    """
    from aqmlab.scenario.queues import queue_named

    places = {"bottleneck.queue": down, "bottleneck.reverse.queue": up}
    changes = {place: queue_named(scenario, name) for place, name in places.items() if name}
    return scenario.with_(changes) if changes else scenario


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...", help="The client; by default your shell. It reaches `server`."
        ),
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(metavar="SCENARIO.toml", help="Its network, and its workloads beside.")
    ] = None,
    rate: Annotated[str, typer.Option(help="The line's rate to the client.")] = "",
    delay: Annotated[str, typer.Option(help="Its delay, one way.")] = "",
    queue: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.one_of("queues"),
            help="The queue to the client: a kind, or [queues.NAME] of the scenario.",
        ),
    ] = "",
    up_rate: Annotated[
        str, typer.Option(help="The line's rate from the client; by default that to the client.")
    ] = "",
    up_queue: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.one_of("queues"),
            help="The queue from the client; without a scenario drop-tail.",
        ),
    ] = "",
    server: Annotated[str, typer.Option(metavar="COMMAND", help="The server's command.")] = "",
    seed: Seed = None,
    settings: Settings = None,
    out: Out = None,
    pcap: Pcap = None,
    nearest_tcp: NearestTcp = False,
    congestion_control: CongestionControl = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End with status 3, whatever the program's, if the run is not valid."),
    ] = False,
) -> None:
    """Runs a program behind the line and passes its exit status on; standard error tells what happened."""
    from aqmlab import live
    from aqmlab.cli import live_text, run_text
    from aqmlab.live import watch as live_watch
    from aqmlab.scenario import Scenario, settings_of

    given = {"bottleneck.rate": rate, "bottleneck.delay": delay, "bottleneck.reverse.rate": up_rate}
    changes: dict[str, object] = {path: value for path, value in given.items() if value}
    client = command or [os.environ.get("SHELL", "/bin/sh")]
    if client[0].startswith("-"):
        hint = "; while it runs, `aqmlab live watch` shows it in another terminal"
        raise ValueError(
            f"live shell has no option {client[0]}, and commands stand behind `--`"
            f"{hint if client[0] == '--watch' else ''}"
        )
    programs = [client, shlex.split(server)]
    for program in (words[0] for words in programs if words):
        if shutil.which(program) is None:
            print(f"aqmlab: {program}: command not found", file=sys.stderr)
            raise typer.Exit(COMMAND_NOT_FOUND)
    base = Scenario.load(scenario) if scenario else None
    chosen = _with_queues(live.with_command(base, client, programs[1], changes), queue, up_queue)
    with _kernel_controls_offered():
        chosen = chosen.with_(settings_of(settings or []))
    seen = _core.Watch()
    with _named(scenario), live_watch.shown(seen), _interrupts_for_the_command():
        result = live.run(
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

"""The command line: run, live, sweep, explore, compare, report-card, calibrate, plot, flow-level, trace,
link, check, list, show, study, store."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from aqmlab._core import ScenarioError, __version__
from aqmlab.cli import compare as compare_cli
from aqmlab.cli import completion
from aqmlab.cli import explore as explore_cli
from aqmlab.cli import link as link_cli
from aqmlab.cli import live as live_cli
from aqmlab.cli import new as new_cli
from aqmlab.cli import plot as plot_cli
from aqmlab.cli import report_card as report_card_cli
from aqmlab.cli import store as store_cli
from aqmlab.cli import study as study_cli
from aqmlab.cli import sweep as sweep_cli
from aqmlab.cli import trace as trace_cli
from aqmlab.cli import tuning as tuning_cli
from aqmlab.cli.command_help import Commands, OrderedCommands, add_examples
from aqmlab.cli.dask_options import Jobs
from aqmlab.cli.options import (
    INTERRUPTED,
    STORE,
    AsJson,
    ScenarioFile,
    Seed,
    Settings,
    StoreFolder,
    load_scenario,
    tell_files,
)
from aqmlab.scenario import ScenarioFileError

app = typer.Typer(
    help="Shows what a router's queue does to the traffic of real users.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=OrderedCommands,
)
app.add_typer(study_cli.app, name="study", cls=Commands)
app.add_typer(trace_cli.app, name="trace", cls=Commands)
app.add_typer(link_cli.app, name="link", cls=Commands)
app.add_typer(plot_cli.app, name="plot", cls=Commands)
app.add_typer(live_cli.app, name="live", cls=Commands)
app.add_typer(sweep_cli.app, name="sweep", cls=Commands)
app.add_typer(store_cli.app, name="store", cls=Commands)
app.add_typer(new_cli.app, name="new", cls=Commands)
app.command("compare")(compare_cli.compare)
app.command("report-card")(report_card_cli.report_card)
app.command("explore")(explore_cli.explore)
app.command("sensitivity")(tuning_cli.sensitivity)
app.command("tune")(tuning_cli.tune)

USAGE = 2
"""Exit status of bad input."""

INTERRUPTION = "aqmlab: interrupted"
"""What is said then."""

Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder to write to.")]


def main() -> None:
    """The entry point: turns what is wrong in the input into one line and exit status 2."""
    try:
        try:
            app(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except (ScenarioError, ScenarioFileError, LookupError, ValueError) as error:
        _fail(str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.filename is None:  # What was printed is lost, and must not be tried again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"{error.filename or 'standard output'}: cannot be written: {error.strerror}")
    except live_cli.REFUSED as error:
        print(f"aqmlab: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(INTERRUPTION, file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # Typer ends an interrupted command with the right status, and without a word.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            print(INTERRUPTION, file=sys.stderr)
        raise


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """What a router's queue does to the traffic of real users."""
    if version:
        print(f"aqmlab {__version__}")
        raise typer.Exit


@app.command()
def run(
    scenario: ScenarioFile,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
    out: Out = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the queues in the terminal while it runs.")
    ] = False,
    speed: Annotated[
        float, typer.Option(min=0.001, help="With --watch: simulated seconds in a second.")
    ] = 1.0,
    pcap: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write packets as pcapng: those at the links in record.packets, or else at all queues.",
        ),
    ] = None,
    tc_stats: Annotated[
        bool,
        typer.Option(
            "--tc-stats", help="Print, as JSON, what `tc -s -j qdisc show` would of the queues at the end."
        ),
    ] = False,
) -> None:
    """Runs a scenario of any level once and prints what happened."""
    from aqmlab import metrics
    from aqmlab.cli import run_text, watching

    chosen = load_scenario(scenario, settings)
    asked = {
        "--watch shows queues": watch,
        "--pcap writes what queues did": pcap,
        "--tc-stats shows queues": tc_stats,
    }
    for option in (option for option, is_asked in asked.items() if is_asked):
        if chosen.level != "packet":
            raise ValueError(f"{option} of packets, and {chosen.name} is of the level {chosen.level}")
    if tc_stats:
        chosen = chosen.with_({"record.tc_statistics": True})
    if pcap and not chosen.effective["record"]["packets"]:
        chosen = chosen.with_({"record.packets": chosen.managed_links})
    result = watching.run(lambda seen: chosen.run(seed, watch=seen), "run", speed if watch else None)
    if out is not None:
        run_text.write(result, out)
    if pcap is not None:
        result.tables.write_pcap(pcap)
    if tc_stats:
        print(json.dumps(result.manifest["qdiscs"], indent=2))
        return
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    print("\n".join(run_text.lines(result, chosen.name)))
    if result.level == "trace":
        for found in result.warnings:
            print(f"aqmlab: {found}", file=sys.stderr)
    if result.level == "packet":
        warning = metrics.warm_up_warning(result.tables, result.manifest)
        if warning:
            print(f"aqmlab: {warning}", file=sys.stderr)
    if out is not None:
        print(f"\nTables and manifest are in {out}")


@app.command("calibrate")
def calibrate_(
    scenario: ScenarioFile,
    load: Annotated[float, typer.Option(help="The wanted load, as a share of the line: 0.9.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="What to vary, such as traffic.web.connections_per_second; by default that of every "
            "packmime workload.",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Whose load; by default all managed links', averaged."),
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Runs at each of three rates.")] = 5,
    settings: Settings = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
) -> None:
    """Finds the rate of connections that offers a load, on a line where nothing queues."""
    from aqmlab.comparison.calibrate import calibrate
    from aqmlab.metrics import finite
    from aqmlab.store import Store

    with Store(store) as kept:
        found = calibrate(
            load_scenario(scenario, settings),
            load,
            paths=vary or (),
            links=link or (),
            replications=replications,
            jobs=jobs,
            label="calibrate",
            store=kept,
        )
    if as_json:
        print(json.dumps(finite({**asdict(found), "settings": found.settings}), indent=2))
        return
    for rate, offered in found.points:
        print(f"{rate:10.2f} per second offer a load of {offered:.4f}")
    print(
        f"{found.rate:10.2f} per second [{found.low:.2f}, {found.high:.2f}] for a load of {found.load:g} of"
    )
    print(f"           {', '.join(found.links)}")
    print(" ".join(f"--set {path}={value}" for path, value in found.settings.items()))


@app.command("flow-level")
def flow_level_(
    scenario: ScenarioFile,
    replications: Annotated[int, typer.Option(min=1, help="Runs, which differ in the seed.")] = 10,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A folder for the plots and their numbers.")
    ] = None,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
) -> None:
    """Runs flows that share a link, without packets, and prints how many are in progress beside the law."""
    from aqmlab.cli import flow_level_text
    from aqmlab.flow_level.replications import replicate
    from aqmlab.store import Store

    chosen = load_scenario(scenario, settings)
    with Store(store) as kept:
        found = replicate(chosen, replications, first_seed=seed, jobs=jobs, label="flow-level", store=kept)
    written = flow_level_text.write(found, out) if out else []
    if as_json:
        print(json.dumps(flow_level_text.table(found), indent=2))
        return
    print("\n".join(flow_level_text.lines(found)))
    if written:
        tell_files(written)


@app.command()
def check(scenario: ScenarioFile, settings: Settings = None) -> None:
    """Checks a scenario and prints it as TOML, with every default."""
    print(load_scenario(scenario, settings).to_toml(), end="")


@app.command("list")
def list_(
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            autocompletion=completion.family,
            help="One of queues, tcp (which is the next four together), congestion-controls, recoveries, "
            "aliases, profiles, traffic, distributions, edges, sections, flow-level, trace, trace-sources, "
            "tables, scenarios and studies.",
        ),
    ],
) -> None:
    """Lists the members of a family, such as all queues, each with a sentence."""
    from aqmlab._support import packaged
    from aqmlab._support.names import hint
    from aqmlab.cli import reference
    from aqmlab.scenario.catalog import families

    if family == "studies":
        return study_cli.list_()
    if family == "scenarios":
        lines = reference.aligned({name: packaged.summary(name) for name in packaged.names()})
    elif family in families():
        lines = list(reference.tcp_lists()) if family == "tcp" else reference.listed(family)
    else:
        known = [*families(), "scenarios", "studies"]
        raise ValueError(f"no family is named `{family}`: {hint(family, known)}")
    print("\n".join(lines))


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.shown,
            help="A queue, a traffic, a table, as `list` has them.",
        ),
    ],
) -> None:
    """Prints a name's parameters, defaults, units and sources."""
    from aqmlab.cli.reference import describe

    print(describe(name))


add_examples(app)


def _fail(message: str) -> NoReturn:
    print(f"aqmlab: {message}", file=sys.stderr)
    sys.exit(USAGE)

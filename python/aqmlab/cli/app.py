"""The command-line application, its entry point, and the commands run, calibrate, flow-level, check, list and
show."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from aqmlab._core import PcapError, RunError, ScenarioError, __version__
from aqmlab.cli import advise as advise_cli
from aqmlab.cli import coexist as coexist_cli
from aqmlab.cli import compare as compare_cli
from aqmlab.cli import completion
from aqmlab.cli import explain as explain_cli
from aqmlab.cli import explore as explore_cli
from aqmlab.cli import guest as guest_cli
from aqmlab.cli import kernel as kernel_cli
from aqmlab.cli import link as link_cli
from aqmlab.cli import live as live_cli
from aqmlab.cli import new as new_cli
from aqmlab.cli import page as page_cli
from aqmlab.cli import plot as plot_cli
from aqmlab.cli import report_card as report_card_cli
from aqmlab.cli import store as store_cli
from aqmlab.cli import study as study_cli
from aqmlab.cli import sweep as sweep_cli
from aqmlab.cli import tc as tc_cli
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
    print_files,
)
from aqmlab.kernel import KernelError
from aqmlab.scenario import ScenarioFileError, qlog

app = typer.Typer(
    help="Measure the effects of a router's queue on the traffic of real users.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=OrderedCommands,
)
app.add_typer(study_cli.app, name="study", cls=Commands)
app.add_typer(trace_cli.app, name="trace", cls=Commands)
app.add_typer(link_cli.app, name="link", cls=Commands)
app.add_typer(tc_cli.app, name="tc", cls=Commands)
app.add_typer(plot_cli.app, name="plot", cls=Commands)
app.add_typer(live_cli.app, name="live", cls=Commands)
app.add_typer(kernel_cli.app, name="kernel", cls=Commands)
app.add_typer(guest_cli.app, name="guest", cls=Commands)
app.add_typer(sweep_cli.app, name="sweep", cls=Commands)
app.add_typer(store_cli.app, name="store", cls=Commands)
app.add_typer(new_cli.app, name="new", cls=Commands)
app.command("compare")(compare_cli.compare)
app.command("page")(page_cli.page)
app.command("advise")(advise_cli.advise)
app.command("coexist")(coexist_cli.coexist)
app.command("explain")(explain_cli.explain)
app.command("report-card")(report_card_cli.report_card)
app.command("explore")(explore_cli.explore)
app.command("sensitivity")(tuning_cli.sensitivity)
app.command("tune")(tuning_cli.tune)

USAGE = 2
"""Exit status for invalid input."""

INTERRUPTION = "aqmlab: interrupted"
"""Message on standard error after Ctrl-C."""

Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the output files.")]

FAILURES: tuple[type[Exception], ...] = (
    PcapError,
    RunError,
    KernelError,
    *guest_cli.REFUSED,
    *live_cli.REFUSED,
)
"""Exceptions for operations that fail with valid input."""

FAULT = Path("out/guest/fault.txt")
"""File for the circumstances of a guest's fault."""


def main() -> None:
    """Runs the command line. Invalid input causes an error message on standard error and exit status 2."""
    try:
        try:
            app(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except (ScenarioError, ScenarioFileError, LookupError, ValueError) as error:
        _fail(str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error))
    except BrokenPipeError:
        # The program that reads the pipe, for example `head`, has closed the pipe.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.filename is None:
            # The output is lost. The buffer is discarded, so that Python does not try to write the buffer
            # again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"{error.filename or 'standard output'}: cannot be written: {error.strerror}")
    except FAILURES as error:
        print(f"aqmlab: {error}", file=sys.stderr)
        if isinstance(error, RunError) and error.report:
            _write_fault(error.report)
        sys.exit(1)
    except KeyboardInterrupt:
        print(INTERRUPTION, file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        # After Ctrl-C, Typer exits with the correct status but prints no message.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            print(INTERRUPTION, file=sys.stderr)
        raise


def _write_fault(report: str) -> None:
    try:
        FAULT.parent.mkdir(parents=True, exist_ok=True)
        FAULT.write_text(report, encoding="utf-8")
    except OSError as error:
        print(f"{FAULT} cannot be written: {error.strerror}\n{report}", file=sys.stderr)
    else:
        print(f"The last requests and answers are in {FAULT}.", file=sys.stderr)


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Measure the effects of a router's queue on the traffic of real users."""
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
        bool, typer.Option("--watch", help="Show the queues in the terminal during the run.")
    ] = False,
    speed: Annotated[
        float,
        typer.Option(min=0.001, help="With --watch: number of simulated seconds per second of real time."),
    ] = 1.0,
    pcap: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pcapng file to write. The file contains the packets of the links that record.packets "
            "lists, by default of all links with a queue.",
        ),
    ] = None,
    qlog_folder: Annotated[
        Path | None,
        typer.Option(
            "--qlog",
            metavar="FOLDER",
            help="Write a qlog file for each endpoint of a TCP connection that sends data. record.histories "
            "selects the workloads whose connections are written, by default all workloads that use TCP.",
        ),
    ] = None,
    qlog_version: Annotated[
        qlog.Version | None,
        typer.Option(
            help="With --qlog: version of the qlog format, either 0.3, which qvis reads, or the version of "
            "the current drafts. Default: 0.3.",
        ),
    ] = None,
    flent_target: Annotated[
        Path | None,
        typer.Option(
            "--flent",
            metavar="FILE",
            help="Flent data file to write (NAME.flent.gz), or folder in which to write the file. The "
            "streams of the file are the flows of the endless TCP workloads.",
        ),
    ] = None,
    tc_stats: Annotated[
        bool,
        typer.Option(
            "--tc-stats",
            help="Print the statistics of the queues at the end of the run as JSON, in the "
            "output format of `tc -s -j qdisc show`.",
        ),
    ] = False,
) -> None:
    """Run a scenario once and print its results."""
    from aqmlab import metrics
    from aqmlab.cli import run_text, watching

    chosen = load_scenario(scenario, settings)
    packet_options = {
        "--watch": watch,
        "--pcap": pcap,
        "--qlog": qlog_folder,
        "--flent": flent_target,
        "--tc-stats": tc_stats,
    }
    for option in (option for option, given in packet_options.items() if given):
        if chosen.level != "packet":
            raise ValueError(
                f"{option}: needs a packet-level scenario (got {chosen.name}, whose level is {chosen.level})"
            )
    if qlog_version is not None and qlog_folder is None:
        raise ValueError("--qlog-version: needs --qlog FOLDER")
    if qlog_folder is not None:
        if qlog_folder.exists() and not qlog_folder.is_dir():
            raise ValueError(f"--qlog: must be a folder (got {qlog_folder}, which is a file)")
        chosen = qlog.recorded(chosen)
    if flent_target is not None:
        from aqmlab.links.writers import flent

        if flent_target.is_dir() and flent_target.name.endswith(flent.SUFFIX):
            raise ValueError(
                f"--flent: must be a file or another folder (got {flent_target}, which is a folder)"
            )
        chosen = flent.recorded(chosen)
    if tc_stats:
        chosen = chosen.with_({"record.tc_statistics": True})
    if pcap and not chosen.effective["record"]["packets"]:
        chosen = chosen.with_({"record.packets": chosen.managed_links})
    result = watching.run(lambda seen: chosen.run(seed, watch=seen), "run", speed if watch else None)
    if out is not None:
        run_text.write(result, out)
    if pcap is not None:
        result.tables.write_pcap(pcap)
    flent_file = None if flent_target is None else flent.write(result, flent_target, chosen.name)
    qlogs = [] if qlog_folder is None else qlog.write(result, qlog_folder, qlog_version or qlog.Version.QVIS)
    if tc_stats:
        print(json.dumps(result.manifest["qdiscs"], indent=2))
        return
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    print("\n".join(run_text.lines(result, chosen.name)))
    if result.level == "trace":
        for warning in result.warnings:
            print(f"aqmlab: {warning}", file=sys.stderr)
    if result.level == "packet":
        message = metrics.warm_up_warning(result.tables, result.manifest)
        if message:
            print(f"aqmlab: {message}", file=sys.stderr)
    if out is not None:
        print(f"\nTables and manifest: {out}")
    if flent_file is not None:
        print(f"\nFlent: {flent_file}")
    if qlogs:
        print(f"\nqlog: {len(qlogs)} files in {qlog_folder}")


@app.command("calibrate")
def calibrate_(
    scenario: ScenarioFile,
    load: Annotated[
        float, typer.Option(help="Target load as a fraction of the link's capacity, such as 0.9.")
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Parameter to vary, such as traffic.web.connections_per_second; by default the connection "
            "rate of every packmime workload.",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Link whose load is measured; by default the mean load of all links with a queue is used.",
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option(min=2, help="Number of runs at each of the three connection rates that are tested.")
    ] = 5,
    settings: Settings = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
) -> None:
    """Find the connection rate that produces a given offered load, which is measured on an uncongested
    link."""
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
        print(f"{rate:10.2f} per second: offered load {offered:.4f}")
    print(
        f"{found.rate:10.2f} per second [{found.low:.2f}, {found.high:.2f}] for a load of {found.load:g} of"
    )
    print(f"           {', '.join(found.links)}")
    print(" ".join(f"--set {path}={value}" for path, value in found.settings.items()))


@app.command("flow-level")
def flow_level_(
    scenario: ScenarioFile,
    replications: Annotated[int, typer.Option(min=1, help="Number of runs, each with its own seed.")] = 10,
    seed: Seed = None,
    settings: Settings = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for plots and their data.")
    ] = None,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
) -> None:
    """Run a flow-level scenario and compare the distribution of the number of flows in progress with
    theory."""
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
        print_files(written)


@app.command()
def check(scenario: ScenarioFile, settings: Settings = None) -> None:
    """Check a scenario and print the scenario with all defaults as TOML."""
    print(load_scenario(scenario, settings).to_toml(), end="")


@app.command("list")
def list_(
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            autocompletion=completion.family,
            help="Family to list: queues, tcp (includes congestion-controls, recoveries, aliases and "
            "profiles), congestion-controls, recoveries, aliases, profiles, traffic, distributions, edges, "
            "sections, flow-level, trace, trace-sources, tables, scenarios or studies.",
        ),
    ],
) -> None:
    """List the members of a family, such as all queues, with a description of each member."""
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
            help="Name of a queue, workload kind, table or any other entry that `aqmlab list` prints.",
        ),
    ],
) -> None:
    """Describe a queue, workload kind or other entry, and print its parameters with defaults, units and
    sources."""
    from aqmlab.cli.reference import describe

    print(describe(name))


add_examples(app)


def _fail(message: str) -> NoReturn:
    print(f"aqmlab: {message}", file=sys.stderr)
    sys.exit(USAGE)

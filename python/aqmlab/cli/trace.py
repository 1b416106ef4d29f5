"""The commands `aqmlab trace`: traces, replayed through a queue."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from aqmlab.cli.options import Settings, tell_files
from aqmlab.scenario import Scenario, ScenarioFileError, settings_of

app = typer.Typer(
    help="Replays traces through a queue, and generates traces.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("active-flows")
def trace_active_flows(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A capture (pcap, pcapng), a list of flows (CSV: start_s, bytes, perhaps rate and "
            "packet_bytes), each packed with gzip or not, or a scenario of a trace (TOML).",
        ),
    ],
    rate: Annotated[str | None, typer.Option(help="Rate of the line, such as 2.5Gbps.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="KIND", help="The queue; by default drr.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; by default the scenario's.")] = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="A folder for the plots and their numbers.")] = None,
) -> None:
    """Replays a trace and prints how many flows have a packet in the queue, and how many are in progress."""
    from aqmlab import _core
    from aqmlab import traces as trace
    from aqmlab._support.parallel import watched
    from aqmlab.cli import trace_text

    changes = settings_of(settings or [])
    if file.suffix == ".toml":
        given = {"rate": rate, "queue": None if queue is None else {"kind": queue}}
        try:
            chosen = Scenario.load(
                file, {key: one for key, one in given.items() if one is not None} | changes
            )
        except ScenarioFileError:
            # Options for traces are unknown keys of a network: the level is what is wrong.
            with suppress(ScenarioFileError):
                _check_level(file, Scenario.load(file))
            raise
        _check_level(file, chosen)
    else:
        chosen = trace.of_file(file, rate=rate, queue=queue, changes=changes)
    found = watched(lambda watch: chosen.run(seed, watch=watch), _core.Watch(), "trace")
    written = trace_text.write(found, out) if out else []
    for warning in found.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
        return
    print("\n".join(trace_text.lines(found, chosen.name)))
    if written:
        tell_files(written)


@app.command("generate")
def trace_generate(
    out: Annotated[Path, typer.Option(help="FILE.pcap or FILE.csv, with .gz behind it to pack it.")],
    duration: Annotated[str | None, typer.Option(help="How long, such as 60s.")] = None,
    rate: Annotated[str | None, typer.Option(help="Rate of the line it is as if taken from.")] = None,
    utilisation: Annotated[float | None, typer.Option(help="The share of that line that it fills.")] = None,
    flows: Annotated[float | None, typer.Option(help="Flows in progress, on average.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of its random streams.")] = None,
    settings: Settings = None,
) -> None:
    """Writes a made-up trace, packets as pcap or flows as CSV, by default with the published properties of an
    OC-48 link."""
    from aqmlab import _core
    from aqmlab import traces as trace
    from aqmlab._support.parallel import watched

    values = {
        "source.duration": duration,
        "source.line_rate": rate,
        "source.utilisation": utilisation,
        "source.flows": flows,
        "seed": seed,
    }
    given = {path: value for path, value in values.items() if value is not None}
    chosen = trace.generated(given | settings_of(settings or []))
    written = watched(lambda watch: trace.write(chosen, out, watch=watch), _core.Watch(), "generate")
    print(f"{out}: " + ", ".join(f"{count} {what}" for what, count in written.items()))


def _check_level(file: Path, scenario: Scenario) -> None:
    if scenario.level != "trace":
        raise ValueError(f"{file}: is of the level `{scenario.level}`, no trace: run it with `aqmlab run`")

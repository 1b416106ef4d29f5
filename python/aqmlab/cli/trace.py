"""The commands `aqmlab trace`, which replay and generate packet traces."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from aqmlab.cli.options import Settings, print_files
from aqmlab.scenario import Scenario, ScenarioFileError, settings_of

app = typer.Typer(
    help="Replay packet traces through a queue, or generate traces.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("active-flows")
def trace_active_flows(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Trace to replay: a capture (pcap, pcapng), or a list of flows (CSV with the columns "
            "start_s, bytes, and optionally rate and packet_bytes), either of which may be compressed with "
            "gzip; or a trace scenario (TOML).",
        ),
    ],
    rate: Annotated[str | None, typer.Option(help="Link rate, such as 2.5Gbps.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="KIND", help="Kind of queue; by default drr.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed; by default the seed of the scenario.")
    ] = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for plots and their data.")] = None,
) -> None:
    """Replay a trace, and print the number of flows in progress and the number of active flows, which are
    the flows with packets in the queue."""
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
            # The options of traces would be reported as unknown keys of a network scenario, although the
            # error is the wrong level.
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
        print_files(written)


@app.command("generate")
def trace_generate(
    out: Annotated[
        Path, typer.Option(help="Output file: .pcap or .csv, optionally followed by .gz for compression.")
    ],
    duration: Annotated[str | None, typer.Option(help="Duration of the trace, such as 60s.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Rate of the simulated link on which the trace is captured.")
    ] = None,
    utilisation: Annotated[float | None, typer.Option(help="Utilisation of the simulated link.")] = None,
    flows: Annotated[float | None, typer.Option(help="Mean number of flows in progress.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random streams.")] = None,
    settings: Settings = None,
) -> None:
    """Write a synthetic trace, either as packets (pcap) or as flows (CSV).

    The defaults reproduce the published properties of an OC-48 link."""
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
        raise ValueError(
            f"{file}: must be a scenario of the level `trace` (got the level `{scenario.level}`): use "
            "`aqmlab run` for this scenario"
        )

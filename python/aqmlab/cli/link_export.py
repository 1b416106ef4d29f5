"""The command `aqmlab link export`, which writes links of a scenario in formats of other programs."""

from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support.files import write_text
from aqmlab.cli.options import ScenarioFile, Settings, load_scenario, time_of


def export(
    scenario: ScenarioFile,
    mahimahi: Annotated[
        Path, typer.Option(metavar="FILE", help="Mahimahi trace to write. An existing file is replaced.")
    ],
    link: Annotated[
        str, typer.Option(metavar="NAME", help="Link to write: a link with a queue.")
    ] = "bottleneck",
    duration: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Duration of the trace, which repeats; by default the period of the rate steps, 1 s for a "
            "constant rate, or the duration of the run.",
        ),
    ] = None,
    settings: Settings = None,
) -> None:
    """Write the capacity of a link over time as a Mahimahi trace for `mm-link`."""
    from aqmlab.links.writers import capacity
    from aqmlab.links.writers import mahimahi as writer

    chosen = load_scenario(scenario, settings)
    seconds = None if duration is None else time_of("--duration", duration)
    steps, length_s = capacity.of_link(chosen, link, seconds)
    try:
        times = list(writer.opportunities(steps, length_s))
    except ValueError as error:
        raise ValueError(f"{mahimahi}: {error}") from None
    write_text(mahimahi, "".join(f"{time}\n" for time in times))
    mean = 8e3 * writer.PACKET_BYTES * len(times) / times[-1]
    print(f"{mahimahi}: {len(times)} opportunities in {times[-1] / 1000:g} s, mean {mean / 1e6:.4g} Mbps")
    print(f"\nTo use this trace with Mahimahi:\n\nmm-link UP.trace {mahimahi} -- COMMAND")

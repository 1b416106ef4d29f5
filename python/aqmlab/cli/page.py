"""The command `aqmlab page`, which replays recorded pages."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.charts.style import Look
from aqmlab.cli.dask_options import Jobs
from aqmlab.cli.options import (
    INTERRUPTED,
    PICTURES,
    STORE,
    AsJson,
    Font,
    Pictures,
    Seed,
    Settings,
    StoreFolder,
    Width,
    load_scenario,
    pictures_of,
    print_files,
    quantity_of,
    time_of,
)
from aqmlab.cli.table_text import Form, TableForm

Rate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Rate of the link to the client; by default the fitted rate."),
]


def page(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.har...", help="HAR files. All pages load at once.")
    ],
    number: Annotated[int, typer.Option("--page", min=1, help="Number of the page in each HAR file.")] = 1,
    link: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            help="Scenario whose network and traffic are used; by default an access link that fits the "
            "first page.",
        ),
    ] = None,
    rate: Rate = None,
    rtt: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Round-trip time of the link; by default the recorded round-trip time."
        ),
    ] = None,
    up_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE", help="Rate of the link from the client; by default the rate to the client."
        ),
    ] = None,
    buffer: Annotated[
        str,
        typer.Option(metavar="TIME", help="Size of the Drop Tail buffer, as time at the rate of the link."),
    ] = "250ms",
    downloads: Annotated[
        int | None,
        typer.Option(min=0, help="Number of downloads that use the link at the same time; by default 1."),
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Number of users who load each page.")] = 1,
    http: Annotated[
        str, typer.Option(metavar="VERSION,...", help="Versions of HTTP to compare: 1.1, 2, 3.")
    ] = "1.1,2,3",
    queues: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Comma-separated queues to compare, as for `aqmlab compare`."),
    ] = "drop-tail,fq-codel",
    ends: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="FROM TO",
            help="With --link: node of the servers and node of the users; required if the scenario has a "
            "table `links`.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=0, help="Number of runs of each combination; 0 draws only the waterfall.")
    ] = 100,
    seed: Seed = None,
    settings: Settings = None,
    table: TableForm = Form.TEXT,
    as_json: AsJson = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for pictures and their data.")] = Path(
        "out/page"
    ),
    pictures: Pictures = PICTURES,
    width: Width = None,
    font: Font = None,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
) -> None:
    """Replay a page that a browser recorded, over HTTP/1.1, HTTP/2 and HTTP/3 and through several queues."""
    from aqmlab import campaign
    from aqmlab.cli import page_text
    from aqmlab.pages import loads, network, read_har, waterfall
    from aqmlab.scenario.queues import queue_named
    from aqmlab.store import Store

    kinds, look = pictures_of(pictures), Look.parsed(width, font)
    versions, compared = listed(http), listed(queues)
    _check(versions, link is not None, {"--rate": rate, "--rtt": rtt, "--up-rate": up_rate}, downloads, ends)
    base = None if link is None else load_scenario(link, settings)
    for name in compared:
        queue_named(base, name)
    pages = [read_har(file, number) for file in files]
    rate_bps, up_bps = (
        None if text is None else quantity_of(option, text, "bps", "rate, such as 10Mbps")
        for option, text in (("--rate", rate), ("--up-rate", up_rate))
    )
    rtt_s = None if rtt is None else time_of("--rtt", rtt)
    fits = [waterfall.fitted(one) for one in pages]
    if base is None:
        access = network.AccessLink(
            rate_bps=rate_bps or fits[0].link.rate_bps,
            rtt_s=pages[0].rtt_s if rtt_s is None else rtt_s,
            up_bps=up_bps,
            buffer_s=time_of("--buffer", buffer),
        )
        background = 1 if downloads is None else downloads
        scenario = network.on_link(access, pages, http=versions[0], users=users, downloads=background)
        scenario = page_text.changed(scenario, settings)
    else:
        scenario = network.on_scenario(base, pages, http=versions[0], users=users, ends=ends)
    written = page_text.write_scenario(scenario, out)
    written += page_text.write_waterfalls(pages, fits, out, pictures=kinds, look=look)
    found = None
    if runs:
        with Store(store) as kept:
            found = loads.load(
                scenario,
                pages,
                http=versions,
                queues=compared,
                runs=runs,
                first_seed=seed,
                store=kept,
                executor=campaign.Local(jobs=jobs),
                label="page",
            )
        written += page_text.write_loads(found, out, pictures=kinds, look=look)
    if as_json:
        print(json.dumps(page_text.as_table(pages, fits, found), indent=2))
    else:
        page_text.show(files, pages, fits, found, form=table)
        if table is Form.TEXT:
            print_files(written)
    if found is not None:
        for failure in found.results.failures:
            print(f"aqmlab: {failure}", file=sys.stderr)
        if found.results.interrupted:
            print("aqmlab: interrupted; the table contains the finished runs", file=sys.stderr)
            raise typer.Exit(INTERRUPTED)
        if found.results.failures:
            raise typer.Exit(1)


def _check(
    versions: list[str],
    has_scenario: bool,
    of_link: dict[str, str | None],
    downloads: int | None,
    ends: tuple[str, str] | None,
) -> None:
    """Checks the options that depend on each other."""
    from aqmlab.pages.network import VERSIONS

    unknown = [one for one in versions if one not in VERSIONS]
    if unknown or not versions:
        got = ", ".join(unknown) or "nothing"
        raise ValueError(f"--http: must be a list of {', '.join(VERSIONS)}, such as 1.1,2 (got {got})")
    given = [option for option, value in of_link.items() if value is not None]
    given += ["--downloads"] if downloads is not None else []
    if has_scenario and given:
        raise ValueError(
            f"{given[0]}: cannot be used with --link, whose scenario contains the link and the traffic"
        )
    if ends is not None and not has_scenario:
        raise ValueError("--ends: needs --link")

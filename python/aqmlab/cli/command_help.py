"""The format of `--help`: lists of commands contain full sentences, and the help of each command contains an
example."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import typer

EXAMPLES: Mapping[str, str] = {
    "run": "aqmlab run hello --set bottleneck.rate=5Mbps --out results",
    "live check": "aqmlab live check",
    "live run": "aqmlab live run real-tcp --pcap packets.pcapng",
    "live agree": "aqmlab live agree hello --queues codel,red --tcp cubic/rack",
    "live watch": "aqmlab live watch",
    "live shell": "aqmlab live shell --rate 10Mbps --queue codel --server 'iperf3 -s' -- iperf3 -c server",
    "kernel build": "aqmlab kernel build",
    "kernel show": "aqmlab kernel show",
    "guest check": "aqmlab guest check --seed 3 python examples/path/echo_guest.py",
    "check": "aqmlab check hello --set bottleneck.rate=5Mbps",
    "plot time-sequence": "aqmlab plot time-sequence hello --flow 0 --out flow.svg",
    "plot gauge": "aqmlab plot gauge red-uplink --name average --out average.svg",
    "plot queue-delay": "aqmlab plot queue-delay rate-steps --queues codel,pie --out delay.svg",
    "trace active-flows": "aqmlab trace active-flows capture.pcap --rate 100Mbps",
    "trace generate": "aqmlab trace generate --duration 10s --out packets.pcap.gz",
    "link new": "aqmlab link new my-line.toml --access cable --down 100Mbps --up 10Mbps --rtt 20ms",
    "link formats": "aqmlab link formats",
    "link kinds": "aqmlab link kinds",
    "link export": "aqmlab link export rate-steps --mahimahi down.trace",
    "link import": "aqmlab link import cake-autorate.log.gz --direction upload --out uplink.rates.csv",
    "link generate": "aqmlab link generate --rate 12Mbps --out phone.trace",
    "tc write": "aqmlab tc write dsl-uplink --device eth1 --set bottleneck.queue=codel",
    "tc read": "aqmlab tc read qdiscs.json --dev eth0",
    "compare": "aqmlab compare hello --queues drop-tail,codel,fq-codel --replications 5",
    "page": "aqmlab page scenarios/pages/article.har --queues drop-tail,fq-codel --runs 20",
    "coexist": "aqmlab coexist reno cubic bbr --queues drop-tail,fq-codel --buffers 0.5bdp,2bdp --quick",
    "advise": "aqmlab advise bufferbloat --for web --queues codel,fq-codel,cake",
    "explain": "aqmlab explain hello --traffic web --slowest --out flow",
    "report-card": "aqmlab report-card codel,pie --quick",
    "flow-level": "aqmlab flow-level scenarios/flow-level/elastic.toml --replications 5",
    "calibrate": "aqmlab calibrate packmime --load 0.9",
    "study list": "aqmlab study list",
    "study run": "aqmlab study run shred --quick",
    "study judge": "aqmlab study judge shred",
    "study new": "aqmlab study new my-line",
    "sweep run": "aqmlab sweep run red-uplink bottleneck.queue.max_p=0.02,0.1,0.5 --replications 5",
    "sweep retry": "aqmlab sweep retry scenarios/sweeps/uplink.toml --jobs 2",
    "sweep show": "aqmlab sweep show scenarios/sweeps/uplink.toml --measure bottleneck.drops",
    "sweep explain": "aqmlab sweep explain scenarios/sweeps/uplink.toml --points",
    "sweep measures": "aqmlab sweep measures hello",
    "explore": "aqmlab explore --store out/store --out explore.html",
    "sensitivity": "aqmlab sensitivity red-uplink --vary bottleneck.queue.max_p=0.01..0.5 "
    "--measure call.delay",
    "tune": "aqmlab tune red-uplink --vary bottleneck.queue.max_p=0.01..0.5 --minimise call.delay",
    "store ls": "aqmlab store ls --store out/store",
    "store show": "aqmlab store show 3f9a:1 --toml",
    "store verify": "aqmlab store verify",
    "store gc": "aqmlab store gc --dry-run",
    "store export": "aqmlab store export runs.csv --sweep uplink",
    "store sql": "aqmlab store sql 'SELECT count(*) FROM runs'",
    "list": "aqmlab list queues",
    "show": "aqmlab show codel",
    "new queue": "aqmlab new queue delay-limit",
}
"""An example of each command. The key is the command without `aqmlab`."""

ORDER = (
    *("run", "live", "kernel", "guest", "check", "plot", "trace", "link", "tc"),
    *("explain", "advise"),
    *("compare", "page", "coexist", "report-card", "flow-level", "calibrate", "study"),
    *("sweep", "explore", "sensitivity", "tune", "store"),
    *("list", "show", "new"),
)
"""The order of commands in `--help`: commands for single runs, explanations and advice, comparisons, many
runs, reference, and extensions."""

RENAMED: Mapping[str, str] = {"sweep why": "sweep explain"}
"""Former names of renamed commands, with the current names."""


class Commands(typer.core.TyperGroup):
    """A command group. The group's help lists each command with the complete first sentence of the command's
    help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(command)) for name, command in commands if command])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command at the beginning of `args`. If the command was renamed, the error message
        contains the new name."""
        former = f"{self.name} {args[0]}"
        if former in RENAMED:
            ctx.fail(f"`aqmlab {former}` is now `aqmlab {RENAMED[former]}`")
        return super().resolve_command(ctx, args)


class OrderedCommands(Commands):
    """The top-level group, whose commands are listed in the order of `ORDER`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of the commands."""
        return sorted(super().list_commands(ctx), key=ORDER.index)


def add_examples(app: typer.Typer, group: str = "") -> None:
    """Appends an example to the help of each command of `app`. `group` is the path of the command group."""
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "")
        command.epilog = f"\b\nExample:\n  {EXAMPLES[f'{group} {name}'.strip()]}"
    for inner in app.registered_groups:
        if inner.typer_instance:
            add_examples(inner.typer_instance, inner.name or "")


def _first_sentence(command: Any) -> str:
    text = " ".join((command.help or "").split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]

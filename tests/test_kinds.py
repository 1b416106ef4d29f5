"""No module but those that write scenarios knows a kind of queue, workload or the like by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import aqmlab as al
from aqmlab.scenario.catalog import members

PACKAGE = Path(al.__file__).parent

FAMILIES = (
    *("queues", "edges", "traffic", "rate-controls", "distributions", "trace-sources"),
    *("congestion-controls", "recoveries", "aliases", "profiles"),
)
"""The families of the catalogue whose members are kinds, profiles and their short names."""

WORDS = {
    "file": "the key of a file's name in a store",
    "generated": "what the manifest of a trace says of its making, and a function of `traces`",
    "geometric": "a column of the flow level's distribution",
    "guest": "the command `aqmlab guest`",
    "sack": "an event of the table `packets`",
}
"""Names of kinds that mean something else as well, and what."""

WRITERS = {
    "advice/candidates.py": "the queues that are compared",
    "cli/queue_pages.py": "the families of queues, by their folders",
    "coexistence/network.py": "the scenario of pairs of congestion controls",
    "comparison/calibrate.py": "a line on which nothing queues",
    "links": "the scenarios of users' lines",
    "live/runs.py": "the network around a command",
    "pages/network.py": "the scenarios of recorded pages",
    "path/guests.py": "the path of the admission test",
    "report_card/experiments.py": "the scenarios of report cards",
    "report_card/network.py": "their network",
    "report_card/parameters.py": "the parameters that they vary",
    "report_card/queues.py": "their queues",
    "studies": "the scenarios of studies",
    "study/queues.py": "the queues of today",
    "tc": "the queues that tc, sqm-scripts and networkd know",
}
"""Modules and packages that write scenarios, and which."""

TITLES = {
    "advice/uses.py": "the uses of a line",
    "charts/style.py": "the colours of series, which are named after queues",
    "explain/sentences.py": "the transport of a flow",
    "explain/story.py": "the transport of a flow",
    "kernel": "programs and parts of a Linux kernel",
    "metrics/aim.py": "a score with the name of a workload",
    "metrics/outcome.py": "profiles of applications with the names of workloads",
    "path/path.py": "the protocol of a flow",
    "report_card/properties.py": "notes on queues, and a property with the name of a workload",
}
"""Modules that write about kinds for readers, and what."""


def kinds() -> frozenset[str]:
    return frozenset(one.name for family in FAMILIES for one in members(family))


def named(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a module's text with strings that are names of kinds, and these names."""
    known = kinds() - set(WORDS)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            yield node.lineno, node.value


def sources() -> Mapping[str, str]:
    """The text of each module of the package, by its path in the package."""
    paths = PACKAGE.rglob("*.py")
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_kinds_are_named_only_where_scenarios_are_written() -> None:
    free = {*WRITERS, *TITLES}
    found = [
        f"{path}:{line}: {name}"
        for path, source in sources().items()
        if path not in free and path.split("/")[0] not in free
        for line, name in named(source)
    ]
    assert found == [], "ask the core instead: `aqmlab.scenario.workloads`, `aqmlab.scenario.catalog`"


def test_every_exception_is_needed() -> None:
    text = sources()
    for free in (*WRITERS, *TITLES):
        ours = [source for path, source in text.items() if path == free or path.split("/")[0] == free]
        assert any(list(named(source)) for source in ours), f"{free} names no kind"
    assert set(WORDS) <= kinds()


def test_a_kind_is_found() -> None:
    source = 'if table["kind"] == "web":\n    return table["file"]\n'
    assert list(named(source)) == [(1, "web")]

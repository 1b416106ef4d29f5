"""Textual descriptions of names, for `aqmlab show` and for the reference pages of the documentation."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aqmlab._support.files import write_text
from aqmlab.cli import queue_pages
from aqmlab.scenario import flat
from aqmlab.scenario.catalog import Entry, base_profile, entries, families, members

WIDTH = 80
"""Line width of the output of `describe`, in characters."""

LINE = 116
"""Line width of reference pages, in characters."""

_BLANK = "\N{NO-BREAK SPACE}"


def listed(family: str) -> list[str]:
    """Returns the members of a family, with one line for each member and its description."""
    return aligned({one.name: one.summary for one in members(family)})


def aligned(sentences: Mapping[str, str]) -> list[str]:
    """Returns names and their descriptions in two columns. Long descriptions are wrapped if standard output
    is a terminal, but not if it is a pipe."""
    column = max(map(len, sentences)) + 2
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    return [
        line
        for name, sentence in sentences.items()
        for line in textwrap.wrap(
            sentence,
            max(width - 2, 2 * column),
            initial_indent=name.ljust(column),
            subsequent_indent=" " * column,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def tcp_lists() -> Iterator[str]:
    """Returns the families of TCP components. The heading of each family shows how to select a member."""
    for title, family in (
        ('Congestion controls: kind = "NAME" in [tcp.congestion_control]', "congestion-controls"),
        ('Loss recoveries: kind = "NAME" in [tcp.recovery]', "recoveries"),
        ("Aliases for CONTROL/RECOVERY: aqmlab compare --tcp NAME", "aliases"),
        ('Profiles (all parameters of an implementation): profile = "NAME" in [tcp]', "profiles"),
    ):
        yield from (title, *(f"  {line}" for line in listed(family)), "")
    yield "`aqmlab show NAME` describes a member. `aqmlab show tcp` describes all settings of [tcp]."


def describe(name: str) -> str:
    """Returns the entries with this name as text for a terminal. An entry consists of a description, and of
    parameters with units, defaults and sources.

    Raises `LookupError`, which suggests similar names, if no entry has this name.
    """
    return "\n\n".join("\n".join(_described(one)) for one in entries(name))


def _described(one: Entry) -> Iterator[str]:
    yield from (f"{one.name} ({one.family.title})", "")
    prose, title, items = _about(one)
    yield from _wrapped(prose, "")
    if items:
        yield from ("", *_wrapped(title, ""))
        for item in items:
            yield from _wrapped(f"- {item}", "", hang="  ")
    if one.sources:
        base = base_profile()
        yield ""
        yield from _wrapped(
            f"Differences from `{base.name}`; `aqmlab show {base.name}` prints the other values.", ""
        )
        for path, value, basic, source in _differences(one):
            yield from ("", f"  {path} = {_written(value)}")
            yield from _wrapped(f"{base.name}: {basic}", "      ")
            yield from _wrapped(f"source: {source}", "      ")
    elif one.values:
        yield from ("", *(f"  {key} = {_written(value)}" for key, value in sorted(flat(one.values).items())))
    for path, row in _rows(one.parameters):
        default = f" = {_written(row['default'])}" if "default" in row else ""
        yield ""
        yield from textwrap.wrap(
            f"{path}{default}", WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False
        )
        yield from _wrapped(row["doc"], "      ")
        if "type" in row:
            yield from _wrapped(allowed(row), "      ")
        for choice in row.get("choices", ()):
            yield from _wrapped(f"{json.dumps(choice['word'])}: {choice['doc']}", "      ", hang="  ")
        if row.get("source"):
            yield from _wrapped(f"source: {row['source']}", "      ")


def allowed(row: dict[str, Any]) -> str:
    """Returns text that describes the allowed values of a parameter."""
    one = row["type"]
    if "choices" in row:
        one = "one of the following"
    elif "units" in row:
        *most, last = row["units"]
        one = f"{one}: {', '.join(most)} or {last}"
    elif "family" in row:
        title = families()[row["family"]].title
        one = f"table with a `kind`: any {title}"
    form = _SEVERAL[row.get("several")].format(one)
    if not row["optional"]:
        return form
    return f"{form}; may be left out" if row.get("default") is None else f'{form}, or "none"'


_SEVERAL = {
    None: "{}",
    "list": "list, each a {}",
    "one-or-list": "{}, or a list",
    "by-name": "{} under each name",
}


def pages(root: Path) -> dict[str, str]:
    """Returns the reference as MyST pages, by file name. There is a page for each kind of entry, and a page
    for each family of queues. `root` is the checkout, which contains the report cards and the costs of
    queues."""
    written = queue_pages.pages(members("queues"), _INTRODUCTIONS["queues"], _section, root)
    for file, family in families().items():
        if file == "queues":
            continue
        parts = [f"# {family.title[0].upper()}{family.title[1:]}", "", *_flowed(_INTRODUCTIONS[file])]
        for one in members(file):
            parts += ["", f"## {one.name}", "", *_section(one)]
        written[f"{file}.md"] = "\n".join(parts) + "\n"
    return written


def _section(one: Entry) -> list[str]:
    """Returns the lines of an entry on a page, without the heading."""
    prose, title, items = _about(one)
    parts = _flowed(prose)
    if items:
        parts += ["", *_flowed(title), "", *(line for item in items for line in _flowed(item, "- "))]
        parts += ["", "Parameters:"]
    return [*parts, *_parameters(one)]


def _about(one: Entry) -> tuple[str, str, list[str]]:
    """Splits the text of an entry into the description, the title of its final list, and the list's items.

    The final list contains the differences from the sources. The paragraph before the list is the title. If
    the text has no list, the title and the items are empty.
    """
    paragraphs = re.split(r"\n\s*\n", one.about.strip())
    if not paragraphs[-1].lstrip().startswith("- "):
        return one.about, "", []
    *prose, title, listed = paragraphs
    items = re.split(r"^\s*- ", listed, flags=re.MULTILINE)
    return "\n\n".join(prose), title, [_one_line(item) for item in items[1:]]


def main() -> None:
    """Writes the pages to the folder given on the command line, such as `docs/reference`."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m aqmlab.cli.reference FOLDER")
    folder = Path(sys.argv[1])
    for name, text in pages(folder.resolve().parent.parent).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, text)
    from aqmlab.cli import study_reference

    write_text(folder / "study.md", study_reference.page())


_INTRODUCTIONS = {
    "queues": "The `kind` of a `[bottleneck.queue]`, `[links.NAME.queue]` or `[queues.NAME]` table.",
    "tcp": "The `[tcp]` table. The parameters belong to subtables: `rto.min` is the key `min` of "
    "`[tcp.rto]`, which can also be written as `rto.min` in `[tcp]`.",
    "congestion-controls": 'The congestion control, which sets the congestion window: `kind = "NAME"` in '
    "the `[tcp.congestion_control]` table.",
    "recoveries": 'Loss detection and recovery: `kind = "NAME"` in the `[tcp.recovery]` table.',
    "aliases": "Short names for pairs of a congestion control and a loss recovery, for `aqmlab compare "
    "--tcp NAME,NAME`, which also accepts `CONTROL/RECOVERY`. An alias overrides values of the scenario's "
    "`[tcp]` table.",
    "profiles": 'Named sets of TCP parameters: `profile = "NAME"` in the `[tcp]` table, which may then '
    "override individual parameters. The first profile is the default; the other profiles are listed with "
    "their differences from the first.",
    "traffic": "The `kind` of a `[traffic.NAME]` table. Every kind also accepts `access` (the access links "
    "of its hosts), `extra_delay` (an additional one-way delay in each direction: a time, or a range of two "
    "times from which each flow draws its delay) and `tcp` (differences from the scenario's `[tcp]` for the "
    "workload's connections, or another `profile`). In a graph of `links` every kind needs `from` and `to`. "
    'In a dumbbell, `from = "right"` sends the data over the reverse link.',
    "rate-controls": "The `kind` of the table `control` of a workload `video-call`: the control that "
    "determines the rate of the video.",
    "edges": "The `kind` of an `[edges.NODE]` table. An edge classifies the packets that hosts at this node "
    "send as short or long before the first queue (the nodes of a dumbbell are `left` and `right`). If a "
    "queue needs classified packets, such as `rio` and `rio-ps`, and the scenario has no edge, "
    "`short-flows` with these defaults is added at every node with hosts.",
    "sections": "The tables of a scenario that are not described on other pages.",
    "flow-level": "The tables of a scenario for `aqmlab flow-level`, which also has `duration`, `warm_up` "
    "and `seed`. In a scenario, `flow-level.link` is written `[link]`, and so on for the other tables.",
    "distributions": "The `kind` of every parameter that is a distribution: of sizes, such as `sizes`, of "
    "times, such as `think_time` and `gaps`, or of numbers, such as `objects`. The quantity determines the "
    "unit of the distribution's parameters: a size in bytes (B, kB, MB or GB) or, at packet level, in full "
    "packets (p); a time (ns, us, ms, s or min); or a number. If the mean follows from another parameter, "
    "for example the mean of `gaps` from the load, only the shape of the distribution is used, and its "
    "parameters are plain numbers. Sizes in bytes, times and numbers are rounded to the nearest value, "
    "sizes in packets are rounded up.",
    "trace": "A scenario for `aqmlab trace active-flows`, with its parameters at the top level of the file.",
    "trace-sources": "The `kind` of the `[source]` table of a trace, which is the source of packets.",
    "tables": 'The result tables of a run: `run.tables["NAME"]`, or `NAME.parquet` of `aqmlab run --out`. '
    "Tables named `flow-level.NAME` are results of `aqmlab flow-level`, and tables named `trace.NAME` of "
    "`aqmlab trace`; in a run of these levels their names are `NAME`.",
}


def _parameters(one: Entry) -> Iterator[str]:
    """Returns the contents of an entry: either a list of parameters or columns, or a table of values."""
    if one.sources:
        base = base_profile()
        yield from ("", f"| parameter | value | in `{base.name}` | source |", "| --- | --- | --- | --- |")
        for path, value, basic, source in _differences(one):
            yield f"| `{path}` | {_cell(value)} | `{basic}` | {source} |"
    elif one.values:
        yield from ("", "| parameter | value |", "| --- | --- |")
        for key, value in sorted(flat(one.values).items()):
            yield f"| `{key}` | {_cell(value)} |"
    elif one.family.name == "tables":
        yield ""
        for row in one.parameters:
            yield from _flowed(f"`{row['name']}`: {row['doc']}", "- ")
    elif one.parameters:
        yield ""
        for path, row in _rows(one.parameters):
            yield from _parameter(path, row)


def _parameter(path: str, row: dict[str, Any]) -> Iterator[str]:
    """Returns a list item for a parameter, with default, description, type and source, and with the allowed
    words."""
    default = "" if row["default"] is None else f" = `{json.dumps(row['default'])}`"
    source = f"; source: {row['source']}" if row["source"] else ""
    yield from _flowed(f"`{path}`{default}: {row['doc'].strip()} *({allowed(row)}{source})*", "- ")
    for choice in row.get("choices", ()):
        yield from _flowed(f"`{json.dumps(choice['word'])}`: {choice['doc']}", "  - ")


def _differences(profile: Entry) -> Iterator[tuple[str, Any, str, str]]:
    """Returns the differences between a profile and the first profile. Each difference consists of the path,
    the value, the value in the first profile, and the source."""
    ours, basic = flat(profile.values), flat(base_profile().values)
    for path, source in sorted(profile.sources.items()):
        yield path, ours[path], _written(basic[path]) if path in basic else "-", source


def _written(value: Any) -> str:
    """Returns a value in the syntax of scenario files."""
    return "(left out)" if value is None else json.dumps(value)


def _cell(value: Any) -> str:
    return "left out" if value is None else f"`{json.dumps(value)}`"


def _flowed(text: str, first: str = "") -> list[str]:
    """Returns a paragraph of a page, or a list item that begins with `first`, wrapped to `LINE` characters.

    No line begins with a Markdown list marker, and short code is not broken across lines.
    """
    text = re.sub(
        r"`[^`]{1,80}`| (?=(?:[-+*#>]|\d+[.)]) )", lambda one: one[0].replace(" ", _BLANK), _one_line(text)
    )
    lines = textwrap.wrap(
        text,
        LINE,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_BLANK, " ") for line in lines]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _wrapped(text: str, indent: str, hang: str = "") -> list[str]:
    return textwrap.wrap(
        _one_line(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _rows(fields: Sequence[dict[str, Any]], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for field in fields:
        path = f"{prefix}{field['name']}"
        if not field.get("fields") or isinstance(field.get("default"), list):
            yield path, field
        if field.get("fields"):
            yield from _rows(field["fields"], f"{path}.")


if __name__ == "__main__":
    main()

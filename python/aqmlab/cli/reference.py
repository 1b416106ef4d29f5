"""What a name means, as text: for `aqmlab show` and for the reference pages of the documentation."""

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
"""Columns of a terminal that `describe` fills."""

LINE = 116
"""Characters in a line of a page."""

_BLANK = "\N{NO-BREAK SPACE}"


def listed(family: str) -> list[str]:
    """The members of a family, each with its sentence."""
    return aligned({one.name: one.summary for one in members(family)})


def aligned(sentences: Mapping[str, str]) -> list[str]:
    """Names in a column and their sentences in another one. On a terminal a long sentence goes on in the next
    line; a pipe gets a line for each name."""
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
    """The families that make up a TCP, each with how its members are chosen."""
    for title, family in (
        ('Congestion controls: kind = "NAME" in [tcp.congestion_control]', "congestion-controls"),
        ('Recoveries: kind = "NAME" in [tcp.recovery]', "recoveries"),
        ("Aliases of a pair: aqmlab compare --tcp NAME, or CONTROL/RECOVERY", "aliases"),
        ('Profiles, all parameters of an implementation: profile = "NAME" in [tcp]', "profiles"),
    ):
        yield from (title, *(f"  {line}" for line in listed(family)), "")
    yield "`aqmlab show NAME` tells more of each, `aqmlab show tcp` all that [tcp] may hold."


def describe(name: str) -> str:
    """The entries of this name for a terminal: what each is, its parameters with unit, default, source.

    Raises `LookupError` that suggests names if there is none.
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
            f"What differs from `{base.name}`; `aqmlab show {base.name}` prints the rest.", ""
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
    """What may be written for a parameter, in words."""
    one = row["type"]
    if "choices" in row:
        one = "one of these"
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
    """The reference as MyST pages, by file name: a page for each kind of entry, and for queues a page for
    each family. `root` is the checkout, which has the report cards and the costs of queues."""
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
    """The lines of an entry on a page, without the heading."""
    prose, title, items = _about(one)
    parts = _flowed(prose)
    if items:
        parts += ["", *_flowed(title), "", *(line for item in items for line in _flowed(item, "- "))]
        parts += ["", "Parameters:"]
    return [*parts, *_parameters(one)]


def _about(one: Entry) -> tuple[str, str, list[str]]:
    """What an entry is, and the list of differences from its sources: its title and its items.

    The list ends the text, and the paragraph before it is its title. There may be none.
    """
    paragraphs = re.split(r"\n\s*\n", one.about.strip())
    if not paragraphs[-1].lstrip().startswith("- "):
        return one.about, "", []
    *prose, title, listed = paragraphs
    items = re.split(r"^\s*- ", listed, flags=re.MULTILINE)
    return "\n\n".join(prose), title, [_one_line(item) for item in items[1:]]


def main() -> None:
    """Writes the pages to the folder named on the command line, as `docs/reference`."""
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
    "tcp": "The `[tcp]` table, whose parameters stand in tables of their own: `rto.min` is `min` of "
    "`[tcp.rto]`, or `rto.min` within `[tcp]`.",
    "congestion-controls": 'What moves the congestion window: `kind = "NAME"` in the '
    "`[tcp.congestion_control]` table.",
    "recoveries": 'How losses are found and repaired: `kind = "NAME"` in the `[tcp.recovery]` table.',
    "aliases": "Short names of a congestion control with a recovery: `aqmlab compare --tcp NAME,NAME`, which "
    "also takes `CONTROL/RECOVERY`. Each is laid over the scenario's `[tcp]` table.",
    "profiles": 'Named sets of TCP parameters: `profile = "NAME"` in the `[tcp]` table, which may then '
    "override them one by one. The first one holds where a scenario names none; the others are shown by "
    "what differs from it.",
    "traffic": "The `kind` of a `[traffic.NAME]` table. Every kind also takes `access` (the access lines of "
    "its hosts), `extra_delay` (a time, or a pair of times between which each flow draws its own: one "
    "way, in each direction) and `tcp` (what differs from the scenario's `[tcp]` for its connections, or a "
    "`profile` of its own); in a graph of `links` it needs `from` and `to`.",
    "edges": "The `kind` of an `[edges.NODE]` table: where packets that hosts at this node send are told "
    "short or long, before they meet a queue (the nodes of a dumbbell are `left` and `right`). If a queue "
    "wants packets told apart, as `rio` and `rio-ps` do, and no edge is written, `short-flows` with these "
    "defaults stands at every node with hosts.",
    "sections": "The other tables of a scenario.",
    "flow-level": "The tables of a scenario of `aqmlab flow-level`, which also has `duration`, `warm_up` and "
    "`seed`: `flow-level.link` is written `[link]`, and so on.",
    "distributions": "The `kind` of every parameter that is a distribution: of sizes, such as `sizes`, of "
    "times, such as `think_time` and `gaps`, or of numbers, such as `objects`. What is drawn says which unit "
    "its parameters have: a size in bytes (B, kB, MB or GB) or, at packet level, in full packets (p); a time "
    "(ns, us, ms, s or min); or a number. Where the mean follows from something else, as that of `gaps` "
    "follows from the load, only the form counts, and parameters are plain numbers. Sizes in bytes, times "
    "and numbers are rounded to the nearest, sizes in packets up.",
    "trace": "A scenario of `aqmlab trace active-flows`, whose parameters stand at the top of the file.",
    "trace-sources": "The `kind` of the `[source]` of a trace: where packets come from.",
    "tables": 'What a run leaves behind: `run.tables["NAME"]`, or `NAME.parquet` of `aqmlab run --out`. '
    "Those named `flow-level.NAME` belong to `aqmlab flow-level`, those named `trace.NAME` to `aqmlab "
    "trace`; in their runs they are called `NAME`.",
}


def _parameters(one: Entry) -> Iterator[str]:
    """What an entry is made of: a list of parameters or columns, or a table of values."""
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
    """A parameter: its default, what it means, its kind and source, and the words it may be."""
    default = "" if row["default"] is None else f" = `{json.dumps(row['default'])}`"
    source = f"; source: {row['source']}" if row["source"] else ""
    yield from _flowed(f"`{path}`{default}: {row['doc'].strip()} *({allowed(row)}{source})*", "- ")
    for choice in row.get("choices", ()):
        yield from _flowed(f"`{json.dumps(choice['word'])}`: {choice['doc']}", "  - ")


def _differences(profile: Entry) -> Iterator[tuple[str, Any, str, str]]:
    """What a profile has otherwise than the first one: path, its value, the first one's, and the source."""
    ours, basic = flat(profile.values), flat(base_profile().values)
    for path, source in sorted(profile.sources.items()):
        yield path, ours[path], _written(basic[path]) if path in basic else "-", source


def _written(value: Any) -> str:
    """A value as a scenario file writes it."""
    return "(left out)" if value is None else json.dumps(value)


def _cell(value: Any) -> str:
    return "left out" if value is None else f"`{json.dumps(value)}`"


def _flowed(text: str, first: str = "") -> list[str]:
    """A paragraph of a page, or an item of a list that begins with `first`, in lines of `LINE` characters.

    No line begins with what Markdown takes for an item, and short code is not broken.
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

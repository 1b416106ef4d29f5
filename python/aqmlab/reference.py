"""What a name means, as text: for `aqmlab show` and for the reference pages of the documentation."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aqmlab.catalog import FAMILIES, Entry, catalog, entry
from aqmlab.scenario import flat

WIDTH = 100


def describe(name: str) -> str:
    """The entry of this name for a terminal: what it is, and each parameter with unit, default, source.

    Raises `LookupError` that suggests names if there is none.
    """
    one = entry(name)
    lines = [f"{one.name} ({one.family})", ""]
    lines += textwrap.wrap(" ".join(one.about.split()), WIDTH)
    if one.values:
        lines += ["", *(f"  {key} = {_written(value)}" for key, value in sorted(flat(one.values).items()))]
    for path, row in _rows(one.parameters):
        lines += ["", f"  {path}" + (f" = {_written(row['default'])}" if "default" in row else "")]
        lines += textwrap.wrap(
            row["doc"].strip(), WIDTH - 6, initial_indent="      ", subsequent_indent="      "
        )
        if "kind" in row:
            lines += textwrap.wrap(
                row["kind"], WIDTH - 6, initial_indent="      ", subsequent_indent="      "
            )
        if row.get("source"):
            lines.append(f"      source: {row['source']}")
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """The reference as MyST pages, by file name: one for each family."""
    written = {}
    for file, family in FAMILIES.items():
        entries = [one for one in catalog() if one.family == family]
        parts = [f"# {family[0].upper()}{family[1:]}", "", _INTRODUCTIONS[file]]
        for one in entries:
            parts += ["", f"## {one.name}", "", one.about.strip()]
            parts += _parameter_table(one)
        written[f"{file}.md"] = "\n".join(parts) + "\n"
    return written


def main() -> None:
    """Writes the pages to the folder named on the command line, as `docs/reference`."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m aqmlab.reference FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


_INTRODUCTIONS = {
    "queues": "The `kind` of a `[bottleneck.queue]`, `[links.NAME.queue]` or `[queues.NAME]` table.",
    "tcp": "The `[tcp]` table, and the window laws its `control` table may name.",
    "traffic": "The `kind` of a `[traffic.NAME]` table. Every kind also takes `access` (the access lines of "
    "its hosts) and `extra_delay` (a time, or a pair of times between which each flow draws its own: one "
    "way, in each direction); in a graph of `links` it needs `from` and `to`.",
    "profiles": 'Named sets of TCP parameters: `profile = "NAME"` in the `[tcp]` table, which may then '
    "override them one by one.",
    "sections": "The other tables of a scenario.",
    "tables": 'What a run leaves behind: `run.tables["NAME"]`, or `NAME.parquet` of `aqmlab run --out`.',
}


def _parameter_table(one: Entry) -> Iterator[str]:
    if one.values:
        yield from ("", "| parameter | value |", "| --- | --- |")
        for key, value in sorted(flat(one.values).items()):
            yield f"| `{key}` | " + ("left out |" if value is None else f"`{json.dumps(value)}` |")
    elif one.family == "table":
        yield from ("", "| column | meaning |", "| --- | --- |")
        for row in one.parameters:
            yield f"| `{row['name']}` | {row['doc'].strip()} |"
    elif one.parameters:
        yield from ("", "| parameter | default | meaning | source |", "| --- | --- | --- | --- |")
        for path, row in _rows(one.parameters):
            default = "" if row["default"] is None else f"`{json.dumps(row['default'])}`"
            yield f"| `{path}` | {default} | {row['doc'].strip()} ({row['kind']}) | {row['source']} |"


def _written(value: Any) -> str:
    """A value as a scenario file writes it."""
    return "(left out)" if value is None else json.dumps(value)


def _rows(fields: Sequence[dict[str, Any]], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for field in fields:
        path = f"{prefix}{field['name']}"
        if field.get("fields"):
            yield from _rows(field["fields"], f"{path}.")
        else:
            yield path, field


if __name__ == "__main__":
    main()

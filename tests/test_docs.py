"""The documentation tells the truth: its commands run and print what it shows, its scenarios are
right, its links lead somewhere, and its reference pages are those of this version.

A `console` block holds commands (`$ ...`) and lines of their output; a `python` block is run in the
namespace of its page, and a `text` block right after it holds lines of what it prints. Shown lines must
be found in the output in their order; `...` in a line stands for anything. Pages run in a folder
with the repository's `scenarios` and `examples`. With `AQM_UPDATE_SNAPSHOTS=1`, lines that differ in
their numbers only are rewritten.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

import aqmlab as al
from aqmlab.cli.reference import pages

ROOT = Path(__file__).parent.parent
MARKDOWN = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("reference/**/*.md")]
    if not path.is_relative_to(ROOT / "docs/_build")
)
PAGES = [
    path
    for path in MARKDOWN
    if not path.is_relative_to(ROOT / "docs/reference") and not path.is_relative_to(ROOT / "reference")
]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
UPDATE = os.environ.get("AQM_UPDATE_SNAPSHOTS") == "1"
SLOW = frozenset(
    f"docs/{name}.md"
    for name in (
        *("background/cake", "background/codel-family", "background/flow-queues"),
        *("background/stochastic-queues", "guides/applications", "guides/calls", "guides/coexist"),
        *("studies/unc-web", "tutorial/tuning-red"),
    )
)
"""The pages whose commands are long comparisons, 7 to 30 s each. `make pages` runs them."""
RUNS_SLOW_PAGES = os.environ.get("AQM_SLOW_PAGES") == "1"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something to run, and the lines it is shown to print."""

    run: str
    language: str
    shown: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    """What a page asks its reader to run, in order."""
    blocks = list(FENCE.finditer(text))
    for place, block in enumerate(blocks):
        language, body = block["language"], block["body"]
        if language == "console":
            commands = re.split(r"^\$ ", body, flags=re.MULTILINE)
            assert not commands[0].strip(), f"a console block begins with a command: {body!r}"
            for command in commands[1:]:
                first, *lines = command.splitlines()
                while first.endswith("\\"):
                    first = first[:-1] + lines.pop(0)
                yield Step(run=first, language=language, shown=tuple(line for line in lines if line.strip()))
        elif language == "python":
            after = blocks[place + 1] if place + 1 < len(blocks) else None
            follows = after is not None and not text[block.end() : after.start()].strip()
            shown = after["body"].splitlines() if after and follows and after["language"] == "text" else []
            yield Step(run=body, language=language, shown=tuple(line for line in shown if line.strip()))


def run(step: Step, folder: Path, namespace: dict[str, object], program: Path) -> str:
    """What a step prints; it must succeed."""
    if step.language == "python":
        with chdir(folder), redirect_stdout(io.StringIO()) as said:
            exec(compile(step.run, "documentation", "exec"), namespace)
        return said.getvalue()
    folders = [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(folders), "COLUMNS": "160"}
    command = ["bash", "-c", step.run]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"$ {step.run}\nexit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def masked(line: str) -> str:
    """A line without its numbers and without the width of its columns."""
    return re.sub(r"[\s─━┄]+", " ", re.sub(r"-?\b\d+(\.\d+)?(e-?\d+)?\b(?![a-z])", "#", line)).strip()


def matches(shown: str, line: str) -> bool:
    parts = [re.escape(part.rstrip() if "..." in shown else part) for part in shown.rstrip().split("...")]
    return re.fullmatch(".*".join(parts), line.rstrip()) is not None


def words_in_common(shown: str, line: str) -> int:
    return sum(one == other for one, other in zip(shown.split(), line.split(), strict=False))


def missing(step: Step, output: str) -> dict[str, str | None]:
    """The shown lines that the output lacks, and the printed lines that differ in numbers only."""
    lines, found, at = output.splitlines(), {}, 0
    for shown in step.shown:
        if shown.strip() == "...":
            continue
        place = next((k for k in range(at, len(lines)) if matches(shown, lines[k])), None)
        if place is None:
            like = [k for k in range(at, len(lines)) if masked(lines[k]) == masked(shown)]
            # Of rows that differ in numbers only, the one with the same labels, which may be numbers.
            place = max(like, key=lambda k: words_in_common(shown, lines[k]), default=None)
            found[shown] = None if place is None else lines[place].rstrip()
        at = at if place is None else place + 1
    return found


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if RUNS_SLOW_PAGES or str(page.relative_to(ROOT)) not in SLOW],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, program: Path) -> None:
    for folder in ("scenarios", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    text, namespace, at = page.read_text(encoding="utf-8"), {"__name__": "__documentation__"}, 0
    for step in steps(text):
        lacking = missing(step, run(step, tmp_path, namespace, program))
        if UPDATE:
            for shown in step.shown:
                at, printed = text.index(f"\n{shown}\n", at), lacking.get(shown) or shown
                text = f"{text[:at]}\n{printed}{text[at + 1 + len(shown) :]}"
            lacking = {shown: printed for shown, printed in lacking.items() if printed is None}
        assert not lacking, f"{page.name}: {step.run}\nnot printed: {lacking}"
    if UPDATE and text != page.read_text(encoding="utf-8"):
        page.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_scenario_shown_in_full_is_right(page: Path) -> None:
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if block["language"] != "toml":
            continue
        table = tomllib.loads(block["body"])
        if "duration" in table and "traffic" in table:
            files = {one["file"]: "0,1000\n" for one in table["traffic"].values() if "file" in one}
            assert al.Scenario.from_dict(table, files=files).effective["duration"]


def anchors(page: Path) -> set[str]:
    """What a link to a heading of a page may end in, as GitHub and the site name headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        same = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in found)
        found.append(f"{slug}-{same}" if same else slug)
    return set(found)


def is_card(page: Path) -> bool:
    """Whether the page is a report card, which the build of the site writes from committed values."""
    folder = page.resolve().parent
    return folder == ROOT / "docs/report-cards" and (folder / "values" / f"{page.stem}.parquet").exists()


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        if "://" in target or target.startswith("mailto:"):
            continue
        if not (there.exists() or is_card(there)) or (anchor and anchor not in anchors(there)):
            lost.append(target)
    assert not lost, f"{page.name} links to {lost}"


EXAMPLE = re.compile(
    r"^ *<!-- (?P<file>[\w/.-]+) -->\n(?P<indent> *)```rust\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
"""A block of Rust that stands in a source file, which a comment before it names."""


def examples(page: Path) -> list[tuple[Path, str]]:
    """The blocks of a page that stand in source files, each with its file."""
    found = EXAMPLE.finditer(page.read_text(encoding="utf-8"))
    return [(ROOT / one["file"], textwrap.dedent(one["body"])) for one in found]


@pytest.mark.parametrize(
    "page",
    ["CONTRIBUTING.md", "docs/guides/adding-a-queue.md", "docs/guides/guests.md", "docs/guides/path.md"],
)
def test_an_example_is_what_the_compiler_sees(page: str) -> None:
    told = examples(ROOT / page)
    assert told
    for file, code in told:
        assert code in file.read_text(encoding="utf-8"), f"{page} shows of {file.name} what is not in it"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_worth_starting_from_runs_quickly(path: Path) -> None:
    run = al.Scenario.load(path).run()
    assert run.performance["packets_forwarded"] > 1000
    assert run.performance["cpu_s"] < 5, "the folder is for scenarios that take a second or so"


def test_the_reference_is_that_of_this_version() -> None:
    folder = ROOT / "docs/reference"
    committed = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.glob("**/*.md")
    }
    generated = pages(ROOT)
    stale = sorted(name for name in generated if committed.get(name) != generated[name])
    stale += sorted(set(committed) - set(generated) - {"index.md", "glossary.md", "study.md"})
    assert not stale, f"docs/reference: {', '.join(stale)}: run `make docs`"

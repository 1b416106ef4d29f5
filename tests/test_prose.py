"""Prose is written one way: British spelling everywhere, and lines of Markdown that fit on a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WIDTH = 120
"""Characters in a line of Markdown."""

MARKDOWN = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "reference/**/*.md")
    for path in ROOT.glob(pattern)
    if not path.is_relative_to(ROOT / "docs/_build")
)

WRITTEN = sorted(
    path
    for pattern in (
        "*.md",
        "Makefile",
        "benches/**/*.py",
        "crates/**/*.rs",
        "crates/**/*.toml",
        "docs/**/*.md",
        "docs/**/*.py",
        "examples/**/*.py",
        "python/**/*.py",
        "python/**/*.pyi",
        "python/**/*.jinja",
        "reference/*.py",
        "reference/*/*.md",
        "scenarios/**/*.toml",
        "tests/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if path != Path(__file__) and not path.is_relative_to(ROOT / "docs/_build")
)

AMERICAN = {
    r"[a-z]{2,}[^s\W_]iz(?:e[drs]?|ing|ers?|ations?)": "-ise, -isation",
    r"(?:emphas|hypothes|synthes)iz(?:e[drs]?|ing|ers?)": "-ise",
    r"analyz(?:e[drs]?|ing)": "analyse",
    r"behaviors?": "behaviour",
    r"(?:dis)?colou?r(?<!colour)(?:s|ed|ing)?": "colour",
    r"(?:favor|flavor|honor|labor|neighbor|harbor)(?:s|ed|ing|able|ite)?": "-our",
    r"center(?:s|ed|ing)?": "centre",
    r"(?:kilo|milli)meters?": "metre",
    r"(?:model|label|travel|cancel|signal|channel|tunnel|total)(?:ed|ing|er|ers)": "double l",
    r"fulfill?(?<!fulfil)(?:s|ment)?": "fulfil",
    r"acknowledgments?|judgments?": "-dgement",
    r"queuing": "queueing, as in RFC 970 and the books",
    r"defense|offense|pretense": "-ence",
    r"gray": "grey",
    r"artifacts?": "artefact",
    r"license(?= (?:is|of|text|file)\b)|(?:a|the|this|its|your) license": "licence (the noun)",
}
"""What is not written, and what is: whole words, small or capital, in names as in sentences."""

TITLES = re.compile(
    r"Generalized processor sharing|Modeling TCP|Simulation Modeling|(?:Stationary|Macroscopic) Behavior"
    r"|Selective Acknowledgment|queuing discipline manual|realizing fair statistical"
    r"|hyper-parameter optimization|With normalized transmission time|Characterization Guidelines"
    r"|avoid global synchronization|flows monopolize|Per-Title Encode Optimization",
    re.IGNORECASE,
)
"""Titles and names that are quoted as they were printed."""

FOREIGN = re.compile(
    r"""(?x)
    (?:[Dd]e|\b|_)[Ss]erializ(?:e|er|ing)     # serde
    | (?<![a-z])[Pp]acketiz(?:ation|ed)       # the word of RFC 4821
    | \bparametrize\b                         # pytest
    | \bfinalize\( | \.capitalize\(           # sha2, Python
    | (?<=[._"'])colors?\b | \bcolors?(?=[=:-]) | \.colors\b                    # matplotlib, CSS
    | \bcolor_scheme\b                        # Playwright
    | \.acknowledgment_number\b                # etherparse
    | \.analyze\b                              # SALib
    | \.quantize\b | \boptimize(?==)           # Pillow
    | scroll-behavior | (?:(?:text-align|align-items):\s*|["'])center\b
    """
)
"""Names that belong to other software."""


def american(text: str) -> Iterator[str]:
    """The words of a text that are not British, each with what to write."""
    text = FOREIGN.sub("", TITLES.sub("", text))
    for pattern, better in AMERICAN.items():
        for found in re.finditer(rf"(?<![a-z-]){pattern}(?![a-z])", text, re.IGNORECASE):
            line = text.count("\n", 0, found.start()) + 1
            yield f"line {line}: {found.group()}: {better}"


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_spelling_is_british(path: Path) -> None:
    assert not list(american(path.read_text(encoding="utf-8")))


def test_american_spelling_is_found_and_names_of_others_are_not() -> None:
    text = (
        "The behavior of a normalized\ncolor, modeled. `axis.plot(color=1)` #[derive(Serialize)] size prize"
    )
    assert list(american(text)) == [
        "line 1: normalized: -ise, -isation",
        "line 1: behavior: behaviour",
        "line 2: color: colour",
        "line 2: modeled: double l",
    ]


def long_lines(text: str) -> Iterator[int]:
    """The numbers of lines that are too long.

    What a program prints stays as printed, and the rows of a table of numbers (four columns or more) cannot
    be broken; a table of fewer columns with long cells is a list.
    """
    within = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            within = not within
        wide = line.lstrip().startswith("|") and len(re.findall(r"(?<!\\)\|", line)) > 4
        if len(line) > WIDTH and not within and not wide:
            yield number


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_markdown_fit_on_a_screen(path: Path) -> None:
    found = list(long_lines(path.read_text(encoding="utf-8")))
    assert not found, f"longer than {WIDTH} characters: lines {found}"


def test_a_long_line_is_found_outside_of_output_and_tables_of_numbers() -> None:
    long = "x" * 121
    text = f"{long}\n```\n{long}\n```\n| {long} | 1 | 2 | 3 |\n| {long} | 1 |\n{'x' * 120}\n"
    assert list(long_lines(text)) == [1, 6]

"""Copies the figures of runs to the pages of studies.

    python -m aqmlab.studies.docs.images docs/studies --take out --commit HASH

A page shows a figure as `../images/PAGE-FIGURE.png`: `PAGE` is the page whose study drew the figure, and
`FIGURE` is the name of the figure's file. The text `Source` in each picture identifies the run that drew it.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from aqmlab._support.files import write_bytes

SHOWN = re.compile(r"!\[([^\]]*)\]\(\.\./images/([\w.-]+)\.png\)")
"""A picture on a page: its alternative text, and the name of its file."""

COLOURS = 64
"""Number of colours of a picture. Charts have few colours, so a palette makes files three times smaller."""

SOURCE = "Source"
"""Name of the text in a picture that identifies the run."""


class Shown(NamedTuple):
    """A figure that a page shows."""

    on: str
    """Page that shows the figure."""
    words: str
    """Alternative text of the picture."""
    page: str
    """Page whose study drew the figure."""
    figure: str
    """Name of the figure's file."""

    @property
    def file(self) -> str:
        """The name of the picture's file."""
        return f"{self.page}-{self.figure}.png"


def shown(folder: Path) -> Iterator[Shown]:
    """The figures that the pages of a folder show. Raises `ValueError` if the name of a picture does not
    begin with a page that has results."""
    pages = sorted((path.stem for path in (folder / "results").glob("*.json")), key=len, reverse=True)
    for path in sorted(folder.glob("*.md")):
        for words, name in SHOWN.findall(path.read_text(encoding="utf-8")):
            page = next((one for one in pages if name.startswith(f"{one}-")), None)
            if page is None:
                raise ValueError(f"{path}: `{name}.png` must begin with one of: {', '.join(sorted(pages))}")
            yield Shown(path.stem, " ".join(words.split()), page, name.removeprefix(f"{page}-"))


def take(runs: Path, folder: Path, commit: str) -> list[Path]:
    """Copies each figure that a page shows from `RUNS/PAGE/figures`, if the figure exists there; returns the
    pictures."""
    copied: dict[Path, None] = {}
    for one in shown(folder):
        drawn = runs / one.page / "figures" / f"{one.figure}.png"
        if not drawn.exists():
            continue
        results = json.loads((runs / one.page / "claims.json").read_text(encoding="utf-8"))
        written = folder.parent / "images" / one.file
        write_bytes(
            written, small(drawn.read_bytes(), source(results["results_version"], commit, results["quick"]))
        )
        copied[written] = None
    return list(copied)


def source(version: int, commit: str, quick: bool) -> str:
    """The description of the run that drew a picture."""
    return f"{'quick form' if quick else 'full run'}, results version {version}, commit {commit}"


def small(picture: bytes, source: str) -> bytes:
    """A PNG with a palette, and with the text that identifies the run."""
    text = PngInfo()
    text.add_text(SOURCE, source)
    file = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as one:
        few = one.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(file, "PNG", optimize=True, pnginfo=text)
    return file.getvalue()


def source_of(path: Path) -> str | None:
    """The description of the run that drew a picture; `None` if the picture has no description."""
    with Image.open(path) as one:
        found = one.info.get(SOURCE)
    return found if isinstance(found, str) else None


def main() -> None:
    """Copies the figures of new runs."""
    parser = argparse.ArgumentParser(
        prog="aqmlab.studies.docs.images", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="folder of the pages")
    parser.add_argument("--take", type=Path, metavar="RUNS", required=True, help="folder of the runs")
    parser.add_argument("--commit", default="unknown", help="commit of the runs")
    options = parser.parse_args()
    for path in take(options.take, options.folder, options.commit):
        print(path)


if __name__ == "__main__":
    main()

"""The figures on the pages of studies: taken from what runs drew, and never by hand.

    python -m aqmlab.studies.docs.images docs/studies --take out --commit HASH

A page shows a figure as `../images/PAGE-FIGURE.png`: `PAGE` is the page whose study drew the figure, and
`FIGURE` is the name of the figure's file. Each picture says in its text `Source` which run drew it.
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
"""A picture on a page: what its text says, and the name of its file."""

COLOURS = 64
"""Charts have few colours: a palette makes their files three times smaller, and nobody sees a difference."""

SOURCE = "Source"
"""The text in a picture that says which run drew it."""


class Shown(NamedTuple):
    """A figure that a page shows."""

    on: str
    """The page."""
    words: str
    """What the page says of it."""
    page: str
    """The page whose study drew it."""
    figure: str
    """The name of the figure's file."""

    @property
    def file(self) -> str:
        """The name of the picture."""
        return f"{self.page}-{self.figure}.png"


def shown(folder: Path) -> Iterator[Shown]:
    """The figures that the pages of a folder show. Raises `ValueError` if the name of a picture begins with
    no page that has results."""
    pages = sorted((path.stem for path in (folder / "results").glob("*.json")), key=len, reverse=True)
    for path in sorted(folder.glob("*.md")):
        for words, name in SHOWN.findall(path.read_text(encoding="utf-8")):
            page = next((one for one in pages if name.startswith(f"{one}-")), None)
            if page is None:
                raise ValueError(f"{path}: `{name}.png` begins with no page of {', '.join(sorted(pages))}")
            yield Shown(path.stem, " ".join(words.split()), page, name.removeprefix(f"{page}-"))


def take(runs: Path, folder: Path, commit: str) -> list[Path]:
    """Takes each figure that a page shows and that `RUNS/PAGE/figures` has; returns the pictures."""
    taken: dict[Path, None] = {}
    for one in shown(folder):
        drawn = runs / one.page / "figures" / f"{one.figure}.png"
        if not drawn.exists():
            continue
        results = json.loads((runs / one.page / "claims.json").read_text(encoding="utf-8"))
        written = folder.parent / "images" / one.file
        write_bytes(
            written, small(drawn.read_bytes(), source(results["results_version"], commit, results["quick"]))
        )
        taken[written] = None
    return list(taken)


def source(version: int, commit: str, quick: bool) -> str:
    """Which run drew a picture."""
    return f"{'quick form' if quick else 'full run'}, results version {version}, commit {commit}"


def small(picture: bytes, source: str) -> bytes:
    """A PNG with a palette, and with the text that says which run drew it."""
    text = PngInfo()
    text.add_text(SOURCE, source)
    made = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as one:
        few = one.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(made, "PNG", optimize=True, pnginfo=text)
    return made.getvalue()


def source_of(path: Path) -> str | None:
    """Which run drew a picture; `None` if the picture does not say so."""
    with Image.open(path) as one:
        found = one.info.get(SOURCE)
    return found if isinstance(found, str) else None


def main() -> None:
    """Takes the figures of new runs."""
    parser = argparse.ArgumentParser(
        prog="aqmlab.studies.docs.images", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="where the pages are")
    parser.add_argument("--take", type=Path, metavar="RUNS", required=True, help="where the runs are")
    parser.add_argument("--commit", default="unknown", help="what these runs were made of")
    options = parser.parse_args()
    for path in take(options.take, options.folder, options.commit):
        print(path)


if __name__ == "__main__":
    main()

"""The scenarios that are part of the package. Packaged scenarios can be used by name from any folder."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "scenarios"
"""Folder of the packaged scenarios. In a checkout, this folder is a symbolic link to the top-level folder
`scenarios`."""


def names() -> list[str]:
    """Returns the names of all packaged scenarios."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def located(path: str | Path) -> Path:
    """Returns the file with this path. If no such file exists, returns the packaged scenario with this
    name."""
    path = Path(path)
    packaged = FOLDER / f"{path}.toml"
    return packaged if is_name(path) and not path.exists() and packaged.is_file() else path


def is_name(path: Path) -> bool:
    """Returns whether a path is a bare name, without a folder or a suffix."""
    return re.fullmatch(r"[\w-]+", str(path)) is not None


def summary(name: str) -> str:
    """Returns the first sentence of the comment at the beginning of a packaged scenario."""
    lines = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    head = []
    for line in lines:
        if not line.startswith("# "):
            break
        head.append(line.removeprefix("# ").strip())
    return re.split(r"(?<=[.:?!])\s", " ".join(head), maxsplit=1)[0].rstrip(":") or name

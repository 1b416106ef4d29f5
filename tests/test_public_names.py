"""The public names of the package are documented, and the names in the documentation exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import aqmlab

ROOT = Path(__file__).parent.parent
PAGES = [path for path in ROOT.glob("docs/**/*.md") if not path.is_relative_to(ROOT / "docs/_build")]
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in [*PAGES, *ROOT.glob("*.md")])
DOTTED = sorted(set(re.findall(r"\baqmlab(?:\.[A-Za-z_]+)+", TEXT)))


@pytest.mark.parametrize("name", aqmlab.__all__)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    assert hasattr(aqmlab, name)
    assert re.search(rf"\bal\.{re.escape(name)}\b", TEXT), f"no page shows al.{name}"


def test_no_package_hides_a_public_name() -> None:
    packages = {path.parent.name for path in (ROOT / "python/aqmlab").glob("*/__init__.py")}
    assert packages.isdisjoint(aqmlab.__all__)


def exists(name: str) -> bool:
    """Whether a dotted name is a module or an attribute of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("name", DOTTED)
def test_a_dotted_name_in_the_documentation_exists(name: str) -> None:
    assert exists(name)


def test_a_dotted_name_that_does_not_exist_is_found() -> None:
    assert exists("aqmlab.stats.mean_interval") and not exists("aqmlab.stats.mean_of_means")
    assert not exists("aqmlab.statistics")

"""ARCHITECTURE's tables say where things are, and they are there; modules do not import in circles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "python" / "aqmlab"


def rows(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The concepts of the tables of rooms: with the paths of their files, and the names to look for."""
    room = ""
    for line in text.splitlines():
        heading = re.match(r"### `([\w/-]+)`", line)
        row = re.fullmatch(r"\| (.+?) \| (`.+?) \|(?: (.*) )?\|", line)
        if heading:
            room = heading[1]
        elif row:
            files = [
                file if "/src/" in file else f"{home(room)}/{file}"
                for file in re.findall(r"`([^`]+)`", row[2])
            ]
            yield row[1], files, re.findall(r"`([^`]+)`", row[3] or "")


def home(room: str) -> str:
    return f"{room}/src" if room.startswith("crates/") else room


def lost(text: str) -> list[str]:
    """The concepts whose file is not there, or has not the name that is told, each with what is missing."""
    found = []
    for concept, files, names in rows(text):
        missing = [file for file in files if not (ROOT / file).exists()]
        found += [f"{concept}: {file}" for file in missing]
        if missing:
            continue
        source = "".join(text_of(ROOT / file) for file in files)
        found += [f"{concept}: {name} in {files}" for name in names if not re.search(rf"\b{name}\b", source)]
    return found


def text_of(path: Path) -> str:
    paths = [path] if path.is_file() else sorted(path.glob("*.py"))
    return "".join(one.read_text(encoding="utf-8") for one in paths)


def test_every_concept_is_where_the_tables_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert lost(text) == []
    assert len(list(rows(text))) > 110


def test_a_wrong_place_is_found() -> None:
    told = (
        "### `crates/aqm-queue`\n\n| RED | `teal.rs` | `Red` |\n| Reasons | `lib.rs` | `Cause`, `Reason` |\n"
    )
    assert lost(told) == [
        "RED: crates/aqm-queue/src/teal.rs",
        "Reasons: Cause in ['crates/aqm-queue/src/lib.rs']",
    ]


def test_every_file_of_a_room_has_a_place_in_the_tables() -> None:
    told = {Path(file).name for _, files, _ in rows(PAGE.read_text(encoding="utf-8")) for file in files}
    assert {path.name for path in PACKAGE.glob("*.py")} - told - {"__init__.py"} == set()


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which modules of a package each imports: at the top, in a function, for types only."""
    found: dict[str, set[str]] = {}
    for module, source in sources.items():
        wanted: set[str] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                wanted |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: imports are absolute"
                inner = {f"{node.module}.{name.name}" for name in node.names}
                # A name of `from package import name` is a module of it, or else the package's own.
                wanted |= {one if one in sources else str(node.module) for one in inner}
        found[module] = wanted & sources.keys()
    return found


def package() -> dict[str, str]:
    """The sources of the package, and its core, which imports nothing of it."""
    paths = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    modules = {
        ".".join(path.parts).removesuffix(".__init__"): source.read_text(encoding="utf-8")
        for path, source in paths.items()
    }
    return modules | {"aqmlab._core": ""}


def test_every_file_of_tests_is_part_of_the_program_of_its_crate() -> None:
    for main in ROOT.glob("crates/*/tests/main.rs"):
        named = set(re.findall(r"^mod (\w+);$", main.read_text(encoding="utf-8"), re.MULTILINE))
        files = {path.stem for path in main.parent.glob("*.rs")} - {"main"}
        assert named == files | {path.parent.name for path in main.parent.glob("*/mod.rs")}, main


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    found = imports(package())
    assert len(found) > 40 and "aqmlab.scenario.run" in found["aqmlab.scenario"]
    TopologicalSorter(found).prepare()


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "from p import a",
        "if TYPE_CHECKING:\n    from p.a import A",
        "def f():\n    from p import a",
    ],
)
def test_a_circle_is_found_wherever_it_closes(back: str) -> None:
    found = imports({"p": "", "p.a": "from p.b import B", "p.b": back})
    with pytest.raises(CycleError):
        TopologicalSorter(found).prepare()


def test_what_is_printed_is_known_to_the_command_line_only() -> None:
    for module, wanted in imports(package()).items():
        if not module.endswith(("cli", "_text")):
            assert [one for one in wanted if one.endswith("_text")] == [], module

"""ARCHITECTURE names every room, its paths exist, and no room imports one above it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "python" / "aqmlab"
SHARED = {"aqmlab._core", "aqmlab._support"}
"""Private packages that every room may use."""

MODULE_ROOT = "the package itself"
"""The place of `aqmlab` and `aqmlab.__main__` in the order: above all rooms."""


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def crates(text: str) -> dict[str, set[str]]:
    """The crates that the page describes, each with those that it may use."""
    found = re.findall(r"^### `crates/([\w-]+)`.*\n\nUses: ([^.]+)\.$", text, re.MULTILINE)
    return {name: set(re.findall(r"`([\w-]+)`", uses)) for name, uses in found}


def order(text: str) -> list[str]:
    """The packages of `aqmlab` in the numbered list of the page, from the ground up."""
    return re.findall(r"^\d+\. `(\w+)`:", text, re.MULTILINE)


def missing_paths(text: str) -> list[str]:
    """Paths on the page that do not exist.

    Below a room a path starts at the room or at the project, elsewhere it may be the end of any path.
    """
    folders = ["crates", "python", "benches", "reference", "scenarios", "examples", "guests", "tests", "docs"]
    files = {path.name for path in ROOT.iterdir()} | {
        path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*")
    }
    ends = {path[place + 1 :] for path in files for place, sign in enumerate(path) if sign == "/"}
    found = []
    home = ""
    for line in text.splitlines():
        if line.startswith("#"):
            crate = re.match(r"### `(crates/[\w-]+)`", line)
            home = f"{crate[1]}/src/" if crate else ""
            continue
        room = re.match(r"\d+\. `(\w+)`:", line)
        if room:
            home = f"python/aqmlab/{room[1]}/"
        elif not line.strip() and home.startswith("python/"):
            home = ""
        for word in re.findall(r"`([\w./-]+)`", line):
            path = word.rstrip("/")
            if "/" not in word and not path.endswith((".rs", ".py", ".pyi", ".toml", ".json")):
                continue
            if not {path, home + path} & files and (home or path not in ends):
                found.append(path)
    return found


def modules() -> dict[str, str]:
    """The sources of the package by the names of modules, and its core, which imports nothing."""
    paths = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    sources = {
        ".".join(path.parts).removesuffix(".__init__"): source.read_text(encoding="utf-8")
        for path, source in paths.items()
    }
    return sources | {"aqmlab._core": ""}


def imported(module: str, source: str) -> Iterator[str]:
    """What a module imports, wherever the import stands: dotted names, with those that `from` takes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules of `sources` that each of them imports."""
    found: dict[str, set[str]] = {}
    for module, source in sources.items():
        # A name of `from package import name` is a module of the package, or else the package's own.
        names = {name if name in sources else name.rpartition(".")[0] for name in imported(module, source)}
        found[module] = names & sources.keys()
    return found


def texts_without_use(module: str, source: str) -> Iterator[str]:
    """The lines of a module with a formatted string that is a statement, such as the second half of a text
    whose parentheses are missing. No linter in use reports them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr):
            yield f"{module}:{node.lineno}"


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__main__" else MODULE_ROOT


def upward(sources: Mapping[str, str], rooms: list[str]) -> list[str]:
    """The imports of rooms that stand later in the order, as `module -> module`."""
    rank = {room: place for place, room in enumerate([*rooms, MODULE_ROOT])}
    return [
        f"{module} -> {wanted}"
        for module, found in imports(sources).items()
        for wanted in sorted(found)
        if rank[room_of(wanted)] > rank[room_of(module)]
    ]


def foreign_private(sources: Mapping[str, str]) -> list[str]:
    """The private names of other modules that modules use, imported by name or reached through a module."""
    found = []
    for module, source in sources.items():
        tree = ast.parse(source)
        known: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aqmlab"):
                for name in node.names:
                    whole = f"{node.module}.{name.name}"
                    known[name.asname or name.name] = whole
                    if is_private(name.name) and whole not in SHARED:
                        found.append(f"{module}: {whole}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and is_private(node.attr):
                whole = known.get(node.value.id, "")
                if whole in sources:
                    found.append(f"{module}: {whole}.{node.attr}")
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_every_crate_is_described_with_what_it_uses() -> None:
    found = {}
    for path in ROOT.glob("crates/*/Cargo.toml"):
        manifest = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = [manifest, *manifest.get("target", {}).values()]
        uses = {name for table in tables for name in table.get("dependencies", ())}
        found[path.parent.name] = {name for name in uses if name.startswith("aqm-")}
    assert len(found) > 8
    assert crates(page()) == found


def test_every_package_is_in_the_order() -> None:
    rooms = order(page())
    assert sorted(rooms) == sorted(["_core", *(path.parent.name for path in PACKAGE.glob("*/__init__.py"))])


def test_every_path_exists() -> None:
    assert missing_paths(page()) == []


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "`lib.rs` `lost.rs`\n### `crates/aqm-net`\n\n`time.rs` `red.rs`\n\n1. `stats`: `log.py` `bands.py`"
    assert missing_paths(text) == ["lost.rs", "red.rs", "log.py"]


def test_no_package_imports_one_above_it() -> None:
    sources = modules()
    assert len(sources) > 100 and "aqmlab.stats" in imports(sources)["aqmlab.results.rule"]
    assert upward(sources, order(page())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import aqmlab.store.log",
        "from aqmlab.store import log",
        "from aqmlab.store.log import write",
        "def f():\n    import aqmlab.store.log",
        "if TYPE_CHECKING:\n    from aqmlab.store.log import Log",
        "from aqmlab import Store",
    ],
)
def test_an_import_of_a_package_above_is_found(source: str) -> None:
    sources = {"aqmlab": "", "aqmlab.stats": "", "aqmlab.stats.bands": source}
    sources |= {"aqmlab.store": "from aqmlab.stats import bands", "aqmlab.store.log": ""}
    found = upward(sources, ["stats", "store"])
    assert len(found) == 1 and found[0].startswith("aqmlab.stats.bands -> aqmlab")


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    found = imports(modules())
    assert "aqmlab.scenario.run" in found["aqmlab.scenario.scenario"]
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


def test_private_names_are_used_in_their_own_module_only() -> None:
    assert foreign_private(modules()) == []


@pytest.mark.parametrize("source", ["from aqmlab.p import _a", "from aqmlab import p\n\np._a()"])
def test_a_private_name_of_another_module_is_found(source: str) -> None:
    assert foreign_private({"aqmlab.p": "_a = 1", "aqmlab.q": source}) == ["aqmlab.q: aqmlab.p._a"]


def test_no_text_is_cut_in_two_statements() -> None:
    assert [line for module, source in modules().items() for line in texts_without_use(module, source)] == []
    assert list(texts_without_use("p", 'a = "x"\nf"{a}"')) == ["p:2"]


def test_every_file_of_tests_is_part_of_the_program_of_its_crate() -> None:
    for main in ROOT.glob("crates/*/tests/main.rs"):
        named = set(re.findall(r"^mod (\w+);$", main.read_text(encoding="utf-8"), re.MULTILINE))
        files = {path.stem for path in main.parent.glob("*.rs")} - {"main"}
        assert named == files | {path.parent.name for path in main.parent.glob("*/mod.rs")}, main

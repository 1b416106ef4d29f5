"""Creates a queue discipline in a checkout: a source file from a template, and the two lines that register
the discipline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aqmlab._support.files import replace, write_text

SOURCES = Path("crates/aqm-queue/src")
"""Folder of the queue disciplines in a checkout."""

TEMPLATE = "template.rs"
"""File with the template, which is compiled in the tests of its crate."""

_KEYWORDS = frozenset(
    [
        *("abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do"),
        *("dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let"),
        *("loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return"),
        *("self", "static", "struct", "super", "test", "trait", "true", "try", "type", "typeof", "unsafe"),
        *("unsized", "use", "virtual", "where", "while", "yield"),
    ]
)
"""Rust keywords, which cannot be module names."""


@dataclass(frozen=True, kw_only=True)
class NewQueue:
    """The files of a new queue discipline."""

    source: Path
    library: Path
    """The file that declares the discipline's module."""
    registry: Path
    """The file that registers the discipline's name for scenarios."""


def write(name: str, folder: Path) -> NewQueue:
    """Creates the source file of a queue discipline called `name` in the checkout that contains `folder`, and
    registers the discipline.

    Raises `ValueError` and writes nothing if `folder` is outside a checkout, or if `name` is malformed or
    already in use.
    """
    sources = _sources(folder)
    module = name.replace("-", "_")
    library, registry = sources / "lib.rs", sources / "registry.rs"
    modules, names = (path.read_text(encoding="utf-8") for path in (library, registry))
    _check_name(name, module, modules, names, sources)
    source = sources / f"{module}.rs"
    changed = {library: _declared(modules, module), registry: _registered(names, name, module)}
    write_text(source, filled((sources / TEMPLATE).read_text(encoding="utf-8"), name))
    for path, text in changed.items():
        replace(path, [text.encode()])
    return NewQueue(source=source, library=library, registry=registry)


def filled(template: str, name: str) -> str:
    """Returns the template with the placeholder name replaced by `name`."""
    words = name.split("-")
    camel = "".join(word.capitalize() for word in words)
    return template.replace("My queue", " ".join(words).capitalize()).replace("MyQueue", camel)


def _sources(folder: Path) -> Path:
    for parent in (folder, *folder.parents):
        if (parent / SOURCES / TEMPLATE).is_file():
            return parent / SOURCES
    raise ValueError(
        f"{folder}: must be inside a checkout of aqmlab, which contains {SOURCES / TEMPLATE}, because queue "
        "disciplines are compiled into the core"
    )


def _check_name(name: str, module: str, library: str, registry: str, sources: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(
            f"{name}: must consist of words of lower-case letters and digits, joined by `-`, such as "
            "delay-limit"
        )
    if module in _KEYWORDS:
        raise ValueError(f"{name}: is a Rust keyword: choose another name")
    used = f'"{name}" =>' in registry or module in _modules(library.splitlines()).values()
    if used or (sources / f"{module}.rs").exists() or (sources / module).exists():
        raise ValueError(f"{name}: is already in use in {sources}: choose another name")


def _modules(lines: Sequence[str]) -> dict[int, str]:
    """Returns the modules that a file declares, by line number."""
    found = ((number, re.fullmatch(r"(?:pub )?mod (\w+);", line)) for number, line in enumerate(lines))
    return {number: match[1] for number, match in found if match}


def _declared(library: str, module: str) -> str:
    """Returns the text with a declaration of the module, inserted at the position that rustfmt requires."""
    lines = library.splitlines(keepends=True)
    modules = _modules(library.splitlines())
    later = (number for number, other in modules.items() if other > module)
    index = next(later, max(modules) + 1)
    # An attribute belongs to the module declaration that follows the attribute.
    if lines[index - 1].startswith("#["):
        index -= 1
    lines.insert(index, f"mod {module};\n")
    return "".join(lines)


def _registered(registry: str, name: str, module: str) -> str:
    """Returns the text with the name added at the end of the registry."""
    start = registry.index("pub enum Config: Build")
    end = registry.index("\n    }\n", start) + 1
    return f'{registry[:end]}        "{name}" => {module},\n{registry[end:]}'

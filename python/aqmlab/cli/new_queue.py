"""A new queue discipline in a checkout: its file, from the template of the guide, and its two lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aqmlab._support.files import replace, write_text

SOURCES = Path("crates/aqm-queue/src")
"""Where queue disciplines live in a checkout."""

TEMPLATE = "template.rs"
"""The discipline that a new one begins as; the tests of its crate compile it."""

_KEYWORDS = frozenset(
    [
        *("abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do"),
        *("dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let"),
        *("loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return"),
        *("self", "static", "struct", "super", "test", "trait", "true", "try", "type", "typeof", "unsafe"),
        *("unsized", "use", "virtual", "where", "while", "yield"),
    ]
)
"""What Rust does not take as the name of a module."""


@dataclass(frozen=True, kw_only=True)
class NewQueue:
    """The files of a new queue discipline."""

    source: Path
    library: Path
    """The file that declares its module."""
    registry: Path
    """The file that gives it its name in scenarios."""


def write(name: str, folder: Path) -> NewQueue:
    """Writes the file of a queue discipline called `name`, and registers it, in the checkout that holds
    `folder`.

    Raises `ValueError`, and writes nothing, outside a checkout and for a name that is taken or malformed.
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
    """The template with a name in place of its own."""
    words = name.split("-")
    camel = "".join(word.capitalize() for word in words)
    return template.replace("My queue", " ".join(words).capitalize()).replace("MyQueue", camel)


def _sources(folder: Path) -> Path:
    for parent in (folder, *folder.parents):
        if (parent / SOURCES / TEMPLATE).is_file():
            return parent / SOURCES
    raise ValueError(
        f"{folder}: is not inside a checkout of aqmlab, which has {SOURCES / TEMPLATE}: a queue discipline "
        "is compiled into the core"
    )


def _check_name(name: str, module: str, library: str, registry: str, sources: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(
            f"{name}: must be lower-case words of letters and digits with `-` between them, as delay-limit"
        )
    if module in _KEYWORDS:
        raise ValueError(f"{name}: is a word of Rust's own: choose another name")
    taken = f'"{name}" =>' in registry or module in _modules(library.splitlines()).values()
    if taken or (sources / f"{module}.rs").exists() or (sources / module).exists():
        raise ValueError(f"{name}: the name is taken in {sources}: choose another name")


def _modules(lines: Sequence[str]) -> dict[int, str]:
    """The modules that a file declares, by line."""
    found = ((number, re.fullmatch(r"(?:pub )?mod (\w+);", line)) for number, line in enumerate(lines))
    return {number: match[1] for number, match in found if match}


def _declared(library: str, module: str) -> str:
    """The text with the module declared, in the order that rustfmt asks for."""
    lines = library.splitlines(keepends=True)
    modules = _modules(library.splitlines())
    later = (number for number, other in modules.items() if other > module)
    place = next(later, max(modules) + 1)
    if lines[place - 1].startswith("#["):  # An attribute belongs to the module behind it.
        place -= 1
    lines.insert(place, f"mod {module};\n")
    return "".join(lines)


def _registered(registry: str, name: str, module: str) -> str:
    """The text with the name as the last one of the registry."""
    start = registry.index("pub enum Config: Build")
    end = registry.index("\n    }\n", start) + 1
    return f'{registry[:end]}        "{name}" => {module},\n{registry[end:]}'

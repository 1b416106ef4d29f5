"""The pages: an article with styles, scripts, a font and pictures, a shop whose pictures have another host,
and a board whose script fetches data."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import matplotlib
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

WORDS = (
    "queue",
    "delay",
    "packet",
    "link",
    "rate",
    "buffer",
    "drop",
    "mark",
    "flow",
    "window",
    "burst",
    "loss",
)


def picture(size: int, number: int) -> bytes:
    """Returns a PNG of about `size` bytes."""
    rng = random.Random(number)
    width = 100
    height = max(1, (size - 100) // (3 * width + 1))
    rows = b"".join(b"\0" + rng.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def text(paragraphs: int, seed: int) -> str:
    """Returns paragraphs of random words."""
    rng = random.Random(seed)
    return "\n".join(f"<p>{' '.join(rng.choices(WORDS, k=90))}.</p>" for _ in range(paragraphs))


def style(rules: int, font: str = "") -> str:
    """Returns a style sheet with this number of rules."""
    face = (
        f'@font-face {{ font-family: Own; src: url("{font}"); }} body {{ font-family: Own, serif; }}\n'
        if font
        else ""
    )
    return face + "".join(
        f".rule-{n} {{ margin: {n}px; color: #{n * 7919 % 0xFFFFFF:06x}; }}\n" for n in range(rules)
    )


def script(lines: int, last: str = "") -> str:
    """Returns a script with this number of lines, whose last line is `last`."""
    return "".join(f"var value{n} = Math.sqrt({n * 31}) + {n};\n" for n in range(lines)) + last


def write(folder: Path) -> None:
    """Writes all files."""
    folder.mkdir(parents=True, exist_ok=True)
    font = TTFont(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSerif.ttf")
    options = Options()
    options.drop_tables += ["FFTM"]
    latin = Subsetter(options)
    latin.populate(unicodes=range(0x20, 0x180))
    latin.subset(font)
    font.save(folder / "own.ttf")
    sizes = [9_000, 40_000, 22_000, 65_000, 15_000, 30_000]
    for number in range(18):
        size = sizes[number % len(sizes)]
        (folder / f"picture-{number}.png").write_bytes(picture(size, number))
    for name, rules, font in (("main", 500, ""), ("letters", 60, "own.ttf"), ("shop", 700, "")):
        (folder / f"{name}.css").write_text(style(rules, font), encoding="utf-8")
    later = (
        'addEventListener("DOMContentLoaded", () => { const one = document.createElement("script"); '
        'one.src = "later.js"; document.body.append(one); });\n'
    )
    show = 'document.body.append(Object.keys(window).length + " names");\n'
    fetched = (
        'fetch("/slow/150.json").then(answer => answer.json()).then(rows => fetch("/slow/60.json"))'
        '.then(answer => answer.json()).then(rows => { const one = new Image(); one.src = "picture-5.png"; '
        "document.body.append(one); });\n"
    )
    for name, lines, last in (
        ("first", 900, ""),
        ("library", 1600, later),
        ("later", 300, show),
        ("board", 500, fetched),
    ):
        (folder / f"{name}.js").write_text(script(lines, last), encoding="utf-8")

    def head(title: str, *links: str) -> str:
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            + "\n".join(links)
            + "\n</head><body>\n"
        )

    def sheet(name: str) -> str:
        return f'<link rel="stylesheet" href="{name}">'

    icon = '<link rel="icon" href="data:,">'
    pictures = "".join(f'<img src="picture-{number}.png" alt="">\n' for number in range(6))
    (folder / "article.html").write_text(
        head("An article", icon, sheet("main.css"), sheet("letters.css"), '<script src="first.js"></script>')
        + "<h1>Queues</h1>\n"
        + text(12, 1)
        + pictures
        + text(14, 2)
        + '<script src="library.js" defer></script>\n</body></html>\n',
        encoding="utf-8",
    )
    far = "".join(
        f'<img src="http://pictures.example/picture-{number}.png" alt="">\n' for number in range(18)
    )
    (folder / "shop.html").write_text(
        head(
            "A shop",
            icon,
            sheet("http://static.example/shop.css"),
            '<script src="http://static.example/library.js" defer></script>',
        )
        + "<h1>Routers</h1>\n"
        + text(4, 3)
        + far
        + "</body></html>\n",
        encoding="utf-8",
    )
    (folder / "board.html").write_text(
        head("A board", icon, sheet("main.css"), '<script src="board.js" defer></script>')
        + "<h1>Numbers</h1>\n"
        + text(3, 4)
        + "</body></html>\n",
        encoding="utf-8",
    )

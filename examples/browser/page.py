"""The page: 40 pictures that differ in size, and a script that tells and draws how long each took."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

OBJECTS = 40
SHAPE, LEAST, MOST = 1.2, 4_000, 200_000
"""Sizes have a bounded Pareto distribution, in bytes."""

PAGE = """<!doctype html>
<meta charset="utf-8"><title>40 pictures</title>
<style>
  body { font: 15px sans-serif; margin: 16px; width: 968px }
  h1 { font-size: 22px } img { width: 88px; height: 66px; margin: 2px }
  svg { display: block; margin-top: 12px } text { font: 11px sans-serif }
</style>
<h1 id="time">loading ...</h1>
PICTURES
<p>Each picture: <span style="background: #ddd">&emsp;</span> waits for its turn,
<span style="background: #e69f00">&emsp;</span> is asked for,
<span style="background: #0072b2">&emsp;</span> comes.</p>
<svg id="bars" width="968" height="470"></svg>
<pre id="timing"></pre>
<script>
addEventListener("load", () => setTimeout(() => {
  const load = performance.getEntriesByType("navigation")[0].loadEventEnd
  const objects = performance.getEntriesByType("resource")
  document.getElementById("time").textContent = `QUEUE: loaded in ${(load / 1000).toFixed(2)} s`
  const last = Math.max(4000, load), bars = objects.map((one, row) => {
    const y = 20 + 11 * row, x = ms => 60 + 890 * ms / last
    const { startTime: due, requestStart: asked, responseStart: first, responseEnd: end } = one
    const bar = (from, to, colour) =>
      `<rect x="${x(from)}" y="${y}" width="${Math.max(1, x(to) - x(from))}" height="8" fill="${colour}"/>`
    return bar(due, asked, "#ddd") + bar(asked, first, "#e69f00") + bar(first, end, "#0072b2") +
      `<text x="0" y="${y + 8}">${(one.encodedBodySize / 1000).toFixed(0)} kB</text>`
  })
  for (let s = 0; s <= last / 1000; s += 0.5)
    bars.push(`<text x="${60 + 890000 * s / last}" y="12">${s} s</text>`)
  document.getElementById("bars").innerHTML = bars.join("")
  document.getElementById("timing").hidden = true
  const seconds = ms => Number((ms / 1000).toFixed(3))
  const longest = Math.max(...objects.map(one => one.duration))
  document.getElementById("timing").textContent =
    JSON.stringify({ load_s: seconds(load), objects: objects.length, longest_s: seconds(longest) })
}))
</script>
"""


def picture(size: int, draw: random.Random) -> bytes:
    """A PNG of noise, of about so many bytes."""
    width = max(8, int((size / 3) ** 0.5))
    height = max(1, (size - 80) // (3 * width + 1))
    shade = [draw.randrange(128) for _ in range(3)]
    rows = b"".join(
        b"\0" + bytes(shade[place % 3] + draw.randrange(128) for place in range(3 * width))
        for _ in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(rows, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def write(folder: Path, queue: str) -> int:
    """Writes the page and its pictures, the same each time; returns how many bytes they are."""
    draw = random.Random(1)
    low, high = LEAST**-SHAPE, MOST**-SHAPE
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for number in range(OBJECTS):
        data = picture(round((low - draw.random() * (low - high)) ** (-1 / SHAPE)), draw)
        (folder / f"{number}.png").write_bytes(data)
        total += len(data)
    pictures = "".join(f'<img src="{number}.png" alt="">' for number in range(OBJECTS))
    text = PAGE.replace("PICTURES", pictures).replace("QUEUE", queue)
    (folder / "index.html").write_text(text, encoding="utf-8")
    return total + len(text)

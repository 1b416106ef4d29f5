"""Mangled outputs of tc: every one is read or refused with its file, place and cure, at once.

AQM_FUZZ_CASES sets the number of mangled outputs, by default 2,000. `make fuzz` reads a million.
"""

from __future__ import annotations

import json
import os
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

from aqmlab import tc

RECORDED = json.loads((Path(__file__).parent / "tc_outputs" / "linux.json").read_text(encoding="utf-8"))
CASES = int(os.environ.get("AQM_FUZZ_CASES", "2000"))

OTHER: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 255, 2**16, 2**32 - 1, 2**32, 2**63, 10**30, -(10**30)),
    *(0.0, 0.5, 1.0, -0.5, 1e-300, 1e300, 12.75, "", "0", "1:", "2:", "1:1", "eth0", "5ms", "unlimited"),
    *("red", "codel", "netem", "htb", "tbf", "mq", "cake", "root", "é\x00"),
    *([], [0], [{}], {}, {"rate": 0}, {"delay": 1e9}),
)
"""Values that replace a value of an output."""

FRAGMENTS = (
    *("[", "]", "{", "}", '"', ",", ":", "null", "1e999", "NaN", "-", "\\u0000", "\n", "9" * 500),
    *("class htb 1:1 root rate 1bit", "class htb 1:7 parent 1:1 prio 9 rate 8Mbit ceil 9Mbit burst 15Kb"),
)
"""Text that is inserted into an output."""


def mangled(random_: random.Random, texts: list[str]) -> str:
    """An output with some values, names or characters changed, or outputs joined together."""
    text = random_.choice(texts)
    if random_.random() < 0.7:
        entries, end = json.JSONDecoder().raw_decode(text)
        for _ in range(random_.randint(1, 3)):
            _change(random_, entries)
        text = json.dumps(entries) + text[end:]
    for _ in range(random_.choice((0, 0, 1, 2))):
        at = random_.randrange(len(text) + 1)
        cut = random_.choice((0, 1, 20, len(text)))
        text = text[:at] + random_.choice(("", *FRAGMENTS)) + text[at + cut :]
    return text + random_.choice(texts) if random_.random() < 0.05 else text


def _change(random_: random.Random, value: Any) -> None:
    """Changes one value somewhere in a list or a table."""
    while isinstance(value, list | dict) and value:
        key: Any = random_.choice(list(value)) if isinstance(value, dict) else random_.randrange(len(value))
        inner = value[key]
        if isinstance(inner, list | dict) and inner and random_.random() < 0.8:
            value = inner
            continue
        deed = random_.random()
        if deed < 0.6:
            value[key] = deepcopy(random_.choice(OTHER))
        elif deed < 0.8:
            del value[key]
        elif isinstance(value, list):
            value.append(deepcopy(inner))
        else:
            name = random_.choice(("kind", "parent", "handle", "root", "dev", "stab", "options", "class"))
            value[name] = deepcopy(inner)
        return


def test_no_mangled_output_is_fatal() -> None:
    texts = [text for record in RECORDED["links"] for text in record["shown"].values()]
    random_ = random.Random(35)
    read = refused = 0
    for _ in range(CASES):
        text = mangled(random_, texts)
        try:
            found = tc.read(text, file="tc.json")
        except tc.TcError as error:
            refused += 1
            message = str(error)
            assert message.startswith("tc.json: ") and len(message) < 1000, message
            cures = ("run `tc", "must ", "choose", "available", "did you mean", "cannot be", "; add")
            assert any(cure in message for cure in cures), message
        else:
            read += 1
            assert found.queue["kind"]
    # Both outcomes occur often, so that the changes are neither harmless nor always fatal.
    assert min(read, refused) > CASES / 10

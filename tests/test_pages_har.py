"""HAR files become pages without their private contents; invalid files are refused with a place and a
remedy."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from har_files import ROOT_URL, SECRETS, child, document, entry, har, written

from aqmlab.pages import HarError, Page, read_har
from aqmlab.pages.har_json import MOST_BYTES

EXAMPLES = Path(__file__).parent.parent / "scenarios" / "pages"
FUZZ_CASES = int(os.environ.get("AQM_FUZZ_CASES", "2000"))


def read(folder: Path, *entries: dict[str, Any], **page: Any) -> Page:
    return read_har(written(folder, har(*entries, **page)))


def problem(folder: Path, table: Any) -> str:
    path = written(folder, table)
    with pytest.raises(HarError) as caught:
        read_har(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert not any(secret in text for secret in SECRETS)
    return text.removeprefix(f"{path}: ")


def test_a_page_has_sizes_think_times_and_dependencies(tmp_path: Path) -> None:
    style = child(
        "a.css?x",
        200,
        _resourceType="stylesheet",
        _priority="VeryHigh",
        _initiator={"type": "parser", "url": ROOT_URL, "lineNumber": 3},
    )
    script = child(
        "b.js", 165, _resourceType="script", _priority="Low", _initiator={"type": "parser", "url": ROOT_URL}
    )
    frames = [{"functionName": "", "url": "https://hidden.internal.test/b.js", "lineNumber": 1}]
    data = child(
        "c.json",
        240,
        _resourceType="fetch",
        _priority="High",
        timings={"wait": 340},
        _initiator={"type": "script", "stack": {"callFrames": [], "parent": {"callFrames": frames}}},
    )
    page = read(tmp_path, document(), style, script, data)
    assert (page.http, page.tls, page.extra_rtt_s) == ("2", True, (0.0,))
    # The shortest time between a request and its response.
    assert page.rtt_s == pytest.approx(0.050)
    assert page.lead_s == 0.0
    root, second, third, last = page.objects
    assert [one.label for one in page.objects] == [
        "document 1 (host 1)",
        "script 1 (host 1)",
        "style 1 (host 1)",
        "data 1 (host 1)",
    ]
    # The time of DNS is part of the delay; the handshakes take exactly two round trips.
    assert root.delay_s == pytest.approx(0.001 + 0.005)
    assert root.think_s == pytest.approx(0.0)
    # The document: 1 + 5 + 100 + 1 + 50 ms to its first byte, and 10 ms to its end at 167 ms.
    assert (second.after, second.event) == ((1,), "first-byte")
    assert second.delay_s == pytest.approx(0.166 - 0.157)
    assert (third.after, third.event) == ((1,), "end")
    assert third.delay_s == pytest.approx(0.201 - 0.167)
    assert (last.after, last.event) == ((2,), "end")
    # Other responses arrive while the client waits: the style from 252 to 262 ms.
    assert last.think_s == pytest.approx(0.340 - 0.050 - 0.010)
    assert [one.awaited_by for one in page.objects] == ["render", "load", "render", "nothing"]
    assert [one.urgency for one in page.objects] == [0, 3, 0, 1]
    assert {one.response_bytes for one in page.objects} == {4000}


def test_a_late_object_also_depends_on_the_object_that_ended_last(tmp_path: Path) -> None:
    first = child("a.js", 170, _resourceType="script", _initiator={"type": "parser", "url": ROOT_URL})
    late = child("b.png", 300, _resourceType="image", _initiator={"type": "parser", "url": ROOT_URL})
    last = read(tmp_path, document(), first, late).objects[2]
    assert (last.after, last.event) == ((1, 2), "end")
    # The script ends at 170 + 1 + 1 + 50 + 10 ms; the browser blocks the request for 1 ms.
    assert last.delay_s == pytest.approx(0.301 - 0.232)


def test_without_initiators_an_object_depends_on_the_object_that_ended_last(tmp_path: Path) -> None:
    one, two = child("a.css", 170), child("b.png", 235)
    objects = read(tmp_path, document(), one, two).objects
    assert [each.after for each in objects] == [(), (1,), (2,)]


def test_a_connection_that_was_opened_in_advance_has_a_lead(tmp_path: Path) -> None:
    early = document(timings={"dns": 0, "connect": 70, "ssl": 60, "wait": 55})
    page = read(tmp_path, early)
    # The two handshakes take two round trips of 55 ms.
    assert [page.rtt_s, page.lead_s] == pytest.approx([0.055, 0.040])
    times = page.objects[0].recorded
    assert [times.requested_s, times.first_byte_s] == pytest.approx([0.001, 0.127 + 0.040])
    assert page.load_event_s == pytest.approx(0.940)
    assert "40 ms before the request" in page.notes[0]


def test_a_slow_handshake_delays_its_object(tmp_path: Path) -> None:
    slow = document(timings={"dns": 0, "connect": 300, "ssl": 60, "wait": 55})
    assert read(tmp_path, slow).objects[0].delay_s == pytest.approx(0.001 + 0.300 - 0.110)
    far = entry("http://cdn.internal.test/x", 200, timings={"connect": 90, "wait": 60, "ssl": -1, "dns": 8})
    for each in (slow, far):
        for part in ("request", "response"):
            each[part]["httpVersion"] = "http/1.1"
    second = read(tmp_path, slow, far).objects[1]
    assert second.think_s == pytest.approx(0.008 + 0.030)


def test_a_redirection_is_a_dependency(tmp_path: Path) -> None:
    moved = document(timings={"receive": 0})
    moved["response"] |= {"status": 301, "redirectURL": "/private-path/new"}
    target = child("private-path/new", 170, _resourceType="document")
    objects = read(tmp_path, moved, target).objects
    assert (objects[1].after, objects[1].event) == ((1,), "end")


def test_the_form_of_chrome_har_is_read(tmp_path: Path) -> None:
    style = child("a.css", 200, _initiator=ROOT_URL, _initiator_type="parser", _initialPriority="VeryHigh")
    style["response"]["content"]["mimeType"] = "text/css; charset=utf-8"
    second = read(tmp_path, document(), style).objects[1]
    assert (second.label, second.after, second.urgency) == ("style 1 (host 1)", (1,), 0)


def test_hosts_have_their_own_round_trip_times(tmp_path: Path) -> None:
    far = entry(
        "https://cdn.internal.test/x.png",
        200,
        _connectionId="9",
        timings={"connect": 190, "ssl": 95, "wait": 130},
    )
    page = read(tmp_path, document(), far)
    assert [page.rtt_s, *page.extra_rtt_s] == pytest.approx([0.050, 0.0, 0.045])
    assert page.objects[1].host == 2


@pytest.mark.parametrize(
    ("response", "size"),
    [
        ({"_transferSize": 700}, 700),
        ({"_transferSize": -1, "headersSize": 100, "bodySize": 900}, 1000),
        ({"_transferSize": None, "content": {"size": 5000, "compression": 2000}}, 3000),
        ({"_transferSize": None, "content": {"size": 5000}}, 5000),
        ({"_transferSize": 0}, 1),
    ],
)
def test_the_size_of_a_response_is_that_on_the_wire(
    tmp_path: Path, response: dict[str, Any], size: int
) -> None:
    one = document()
    one["response"] |= response
    assert read(tmp_path, one).objects[0].response_bytes == size


def test_pages_that_are_too_large_are_refused(tmp_path: Path) -> None:
    big = [child(f"{number}.png", 170) for number in range(3)]
    for one in big:
        one["response"]["_transferSize"] = 400_000_000
    assert problem(tmp_path, har(document(), *big)) == (
        "log.entries: the sizes of the responses must add up to at most 1000000000 bytes"
    )
    many = [child("a.png", 170)] * 10_001
    assert problem(tmp_path, har(*many)).startswith(
        "log.entries: must contain at most 10000 requests of a page"
    )


def test_other_entries_are_skipped_and_counted(tmp_path: Path) -> None:
    cached, failed = child("a.css", 10, _fromCache="memory"), child("b.css", 10)
    failed["response"]["status"] = 0
    inline, socket = entry("data:text/css,body-of-the-form", 10), entry("wss://hidden.internal.test/", 10)
    page = read(tmp_path, document(), cached, failed, inline, socket)
    assert len(page.objects) == 1
    assert page.skipped == {
        "objects from a cache": 1,
        "requests without a response": 1,
        "addresses without a server": 1,
        "WebSockets": 1,
    }


def test_a_page_of_several_is_selected(tmp_path: Path) -> None:
    table = har(document(), child("a.css", 170) | {"pageref": "page_2"})
    table["log"]["pages"].append({**table["log"]["pages"][0], "id": "page_2"})
    path = written(tmp_path, table)
    assert [len(read_har(path, number).objects) for number in (1, 2)] == [1, 1]
    with pytest.raises(
        HarError, match=r"--page: must be between 1 and 2, the number of pages in the file \(got 3\)$"
    ):
        read_har(path, 3)


def test_nothing_private_is_kept(tmp_path: Path) -> None:
    page = read(tmp_path, document(), child("private-path", 170))
    assert not any(secret in page.to_csv() + repr(page) for secret in SECRETS)


def test_errors_name_the_place_and_no_value(tmp_path: Path) -> None:
    def changed(*path: Any, value: Any) -> str:
        table = har(document())
        inner: Any = table
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return problem(tmp_path, table)

    first = ("log", "entries", 0)
    secret = "Bearer-eyJhbGci"
    assert changed("log", "version", value=secret).startswith(
        "log.version: must be 1.1 or 1.2 (got another text): "
    )
    assert changed("log", "version", value="2.0").startswith(
        "log.version: must be 1.1 or 1.2 (got 2.0): export"
    )
    assert changed("log", "entries", value={}) == "log.entries: must be a list (got a table)"
    assert changed("log", "entries", value=[]).startswith(
        "log.entries: contains no requests of the page over HTTP"
    )
    assert changed(*first, value=secret) == "log.entries.0: must be a table (got a string)"
    assert changed(*first, "timings", "wait", value=secret) == (
        "log.entries.0.timings.wait: must be a number (got a string)"
    )
    assert (
        changed(*first, "timings", "wait", value=1e9) == "log.entries.0.timings.wait: must be at most 3600000"
    )
    assert changed(*first, "startedDateTime", value=secret) == (
        "log.entries.0.startedDateTime: must be a date and time with a time zone (ISO 8601)"
    )
    assert (
        changed(*first, "request", "url", value=7)
        == "log.entries.0.request.url: must be a string (got a number)"
    )
    for url in (f"https:///{secret}", f"https://[{secret}", f"https://a:{secret}/"):
        assert changed(*first, "request", "url", value=url) == (
            "log.entries.0.request.url: must be an absolute address"
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1 column 1: is not valid JSON: export the HAR file again"),
        ('{"Bearer-eyJhbGci', "line 1 column 2: is not valid JSON: export the HAR file again"),
        ("[]", "must be a HAR file, which contains a table `log`: export the HAR file again"),
        ('{"log": 5}', "log: must be a table (got a number)"),
        ('{"log": NaN}', "contains a number that is not valid: export the HAR file again"),
        ("1" * 5000, "contains a number that is not valid: export the HAR file again"),
        ("[" * 100_000, "contains lists or tables that are nested too deeply: export the HAR file again"),
    ],
    ids=range(7),
)
def test_other_files_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert problem(tmp_path, text) == expected


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HarError, match=r"none.har: cannot be read: No such file or directory$"):
        read_har(tmp_path / "none.har")
    path = tmp_path / "latin.har"
    path.write_bytes(b'{"\xff')
    with pytest.raises(HarError, match=r"latin.har: byte 2: is not UTF-8 text: export"):
        read_har(path)
    huge = tmp_path / "huge.har"
    with huge.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(HarError, match=r"huge.har: must be at most 256 MB \(got 256 MB\): export"):
        read_har(huge)


def mangled(table: Any, rng: random.Random) -> str:
    """The JSON of a HAR file with a few random changes of its values or of its text."""
    table = copy.deepcopy(table)
    for _ in range(rng.randint(0, 3)):
        inner: Any = table
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = rng.choice(keys)
            if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.85:
                inner = inner[key]
                continue
            strange: list[Any] = [
                None,
                True,
                -1,
                0,
                1e308,
                10**30,
                3.7e6,
                "",
                "sessionid-7f31",
                [],
                {},
                [[]],
                {"url": []},
                -0.5,
                "2026-01-01T00:00:00Z",
                "9999-12-31T23:59:59-23:59",
                "0001-01-01T00:00:00+23:59",
                "h3",
                "https://[x",
            ]
            if isinstance(inner, dict) and rng.random() < 0.3:
                del inner[key]
            else:
                inner[key] = rng.choice(strange)
            break
        if not isinstance(table, dict) or not table:
            break
    text = json.dumps(table)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(text) + 1)
        text = rng.choice(
            [text[:at], text[:at] + rng.choice('{}[],:"\\0-e') + text[at:], text[:at] + text[at + 1 :]]
        )
    return text


def test_mangled_files_are_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(35)
    whole = har(
        document(),
        child("a.js", 170, _initiator={"type": "script", "stack": {"callFrames": [{"url": "x"}]}}),
        entry("https://cdn.internal.test/x.png", 200, timings={"connect": 20}),
    )
    path, outcomes = tmp_path / "page.har", {"read": 0, "refused": 0}
    for _ in range(FUZZ_CASES):
        path.write_text(mangled(whole, rng), encoding="utf-8")
        try:
            page = read_har(path)
        except HarError as error:
            outcomes["refused"] += 1
            assert str(error).startswith(f"{path}: ")
            text = str(error)
        else:
            outcomes["read"] += 1
            text = page.to_csv()
            assert all(len(line.split(",")) == 12 for line in text.splitlines())
            assert all(one.delay_s >= 0 and one.think_s >= 0 for one in page.objects)
            assert all(number < at for at, one in enumerate(page.objects, start=1) for number in one.after)
        assert not any(secret in text for secret in SECRETS)
    assert min(outcomes.values()) > FUZZ_CASES / 10, outcomes


@pytest.mark.parametrize("name", ["article", "shop", "board"])
def test_the_examples_are_pages_of_our_own(name: str) -> None:
    path = EXAMPLES / f"{name}.har"
    text = path.read_text(encoding="utf-8")
    assert len(text) < 20_000
    assert "/tmp" not in text and "/work" not in text and "/root" not in text
    page = read_har(path)
    assert len(page.objects) == {"article": 13, "shop": 22, "board": 6}[name]
    # The link had a rate of 10 Mbit/s and a round-trip time of 40 ms.
    assert 0.038 < page.rtt_s < 0.052
    assert page.least_rate_bps < 10.5e6

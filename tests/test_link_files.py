"""Readers of link files: what they read, what they refuse with which words, and mangled files."""

from __future__ import annotations

import copy
import gzip
import os
import random
import re
import resource
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import link_samples as samples
import pytest

from aqmlab.links import content, formats
from aqmlab.links.content import LinkFileError
from aqmlab.links.format import Options
from aqmlab.links.measured import PAYLOAD_TO_IP, Direction, Measured

CASES = int(os.environ.get("AQM_FUZZ_CASES", "2000"))


def read(folder: Path, data: bytes, format_name: str | None = None, **options: Any) -> Measured:
    path = folder / "file"
    path.write_bytes(data)
    return formats.read(path, Options(**options), format_name)


@pytest.mark.parametrize("sample", samples.SAMPLES)
def test_each_format_is_recognised_by_its_content(sample: str, tmp_path: Path) -> None:
    name, data = samples.SAMPLES[sample]
    path = tmp_path / "file"
    forms = [data] if data[:2] == content.GZIP_MAGIC else [data, gzip.compress(data)]
    if data[:1] in b"{Dt":
        forms.append(b"\xef\xbb\xbf" + data)
    for form in forms:
        path.write_bytes(form)
        found = content.Content(path)
        assert next(one.name for one in formats.FORMATS.values() if one.recognises(found)) == name
        measured = formats.read(path)
        assert not (measured.down.is_empty and measured.up.is_empty)
    assert set(formats.FORMATS) == {name for name, _ in samples.SAMPLES.values()}


def test_a_flent_file_has_rates_round_trips_and_a_buffer(tmp_path: Path) -> None:
    found = read(tmp_path, samples.text(samples.FLENT))
    assert found.source == "Flent data file, test tcp_1up"
    assert found.down.is_empty
    assert found.up.rate_bps == pytest.approx(9.6e6)
    assert found.up.ip_bps == pytest.approx(9.6e6 * 1500 / 1448)
    assert found.idle_rtt_s == pytest.approx(0.02)
    assert found.buffer_s(Direction.UPLOAD) == pytest.approx(0.1)
    both = copy.deepcopy(samples.FLENT)
    both["results"]["TCP download::1"] = [None, 40.0, 45.0, 45.0, 45.0]
    both["results"]["TCP download::2"] = [None, 50.0, 45.0, 45.0, None]
    both["results"]["TCP download sum"] = [1.0] * 5
    found = read(tmp_path, samples.text(both))
    assert found.down.rate_bps == pytest.approx(90e6)
    # Of the increase of 100 ms, each direction gets one half.
    assert [found.buffer_s(way) for way in Direction] == pytest.approx([0.05, 0.05])
    assert any("both directions" in note for note in found.notes)
    old = samples.FLENT | {"version": 2}
    assert any("version 2 of the format" in note for note in read(tmp_path, samples.text(old)).notes)


def test_iperf3_knows_the_direction_and_both_forms(tmp_path: Path) -> None:
    up = read(tmp_path, samples.text(samples.IPERF3))
    assert (up.source, up.down.is_empty) == ("iperf3, TCP, upload", True)
    assert up.up.rate_bps == pytest.approx(4.8e6)
    # The smoothed times of a sender say nothing about the round trip without load.
    assert (up.idle_rtt_s, up.up.loaded_rtt_s) == (None, pytest.approx(0.31))
    assert up.buffer_s(Direction.UPLOAD) is None
    assert up.buffer_s(Direction.UPLOAD, 0.02) == pytest.approx(0.29)
    assert read(tmp_path, samples.json_stream()) == up

    def changed(**values: object) -> dict[str, Any]:
        table = copy.deepcopy(samples.IPERF3)
        table["start"]["test_start"] |= values
        return table

    assert read(tmp_path, samples.text(changed(reverse=1))).up.is_empty
    server = changed()
    server["start"]["accepted_connection"] = {"host": "::1", "port": 1}
    found = read(tmp_path, samples.text(server))
    assert found.up.is_empty and "written by the server" in found.notes[0]
    both = changed(bidir=1)
    both["end"]["sum_received_bidir_reverse"] = {"bits_per_second": 9e7}
    found = read(tmp_path, samples.text(both))
    assert (found.up.rate_bps, found.down.rate_bps) == (4.8e6, 9e7)
    assert found.buffer_s(Direction.UPLOAD, 0.02) == pytest.approx(0.29 / 2)


def test_speed_tests_have_rates_and_round_trips(tmp_path: Path) -> None:
    apple = read(tmp_path, samples.text(samples.NETWORK_QUALITY))
    assert (apple.down.rate_bps, apple.up.rate_bps, apple.idle_rtt_s) == (96e6, 9.6e6, 0.02)
    assert (apple.down.loaded_rtt_s, apple.up.loaded_rtt_s) == (0.1, 0.3)
    parallel = {k: v for k, v in samples.NETWORK_QUALITY.items() if not k.endswith("l_responsiveness")}
    both = read(tmp_path, samples.text(parallel | {"responsiveness": 300}))
    assert [both.buffer_s(way) for way in Direction] == pytest.approx([0.09, 0.09])
    for table, idle, up, loaded in [
        (samples.CLOUDFLARE, 0.015, 9.6e6, 0.215),
        (samples.MACH, 0.0108, 48_758_784, 0.2068),
        (samples.OOKLA, 0.0125, 1e7, 0.2125),
    ]:
        found = read(tmp_path, samples.text(table))
        assert (found.idle_rtt_s, found.up.rate_bps, found.up.loaded_rtt_s) == pytest.approx(
            (idle, up, loaded)
        )
        assert found.up.is_payload


def test_a_mahimahi_trace_keeps_its_opportunities(tmp_path: Path) -> None:
    trace = b"".join(b"%d\n" % (12 * number // 10) for number in range(1, 2001))
    found = read(tmp_path, trace, direction=Direction.UPLOAD)
    assert found.down.is_empty
    assert found.up.opportunities is not None and len(found.up.opportunities) == 2000
    assert found.up.rate_bps == pytest.approx(8 * 1500 / 1.2e-3, rel=0.01)
    assert "2000 opportunities in 2.4 s, mean 10 Mbps" in found.source


def test_an_autorate_log_has_both_directions_and_the_round_trip(tmp_path: Path) -> None:
    found = read(tmp_path, samples.autorate())
    assert found.idle_rtt_s == pytest.approx(0.017)
    assert (found.down.ip_bps, found.up.ip_bps) == (20.003e6, 2.003e6)
    one_way = samples.autorate().replace(b"CAKE_UL_RATE_KBPS", b"OTHER")
    found = read(tmp_path, one_way)
    assert found.up.is_empty and not found.down.is_empty
    with pytest.raises(LinkFileError, match="line 3: LOAD records have no column CAKE_UL_RATE_KBPS"):
        read(tmp_path, one_way, direction=Direction.UPLOAD)


def test_a_capture_with_an_interface_for_each_direction_has_rates_only(tmp_path: Path) -> None:
    packets = samples.conversation(8)
    ways = [[one for one in packets if one[1][12:16] == side] for side in (samples.HOME, samples.SERVER)]
    # Both lists have the same length, so that the packets alternate between two interfaces.
    mixed = [packet for pair in zip(*ways, strict=True) for packet in pair]
    found = read(tmp_path, samples.pcapng(mixed, interfaces=2))
    assert found.up.ip_bps == pytest.approx(1e6 * PAYLOAD_TO_IP, rel=0.05)
    assert found.idle_rtt_s is None and found.up.loaded_rtt_s is None
    assert any("each interface has the packets of one direction" in note for note in found.notes)


@pytest.mark.parametrize("form", [samples.pcap, samples.pcapng])
def test_a_capture_shows_the_rate_and_the_round_trips(form: Callable[..., bytes], tmp_path: Path) -> None:
    found = read(tmp_path, form(samples.conversation(8)))
    assert found.up.ip_bps == pytest.approx(1e6 * PAYLOAD_TO_IP, rel=0.01)
    assert found.down.is_empty
    assert any("download was hardly used" in note for note in found.notes)
    assert found.idle_rtt_s == pytest.approx(0.025, abs=1e-6)
    assert found.buffer_s(Direction.UPLOAD) == pytest.approx(0.08, abs=1e-6)
    assert read(tmp_path, form(samples.conversation(8)), home="203.0.113.9").up.is_empty
    # No address of the capture appears in a scenario.
    assert not re.search(r"\d+\.\d+\.\d+", " ".join([found.source, *found.notes]))


def test_a_capture_that_was_interrupted_is_read_up_to_its_end(tmp_path: Path) -> None:
    data = samples.pcap(samples.conversation(8))
    for part in (data[: len(data) // 2 + 7], gzip.compress(data)[:-300]):
        found = read(tmp_path, part)
        assert found.idle_rtt_s == pytest.approx(0.025, abs=1e-6)


CHANGES: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], object], str]] = {
    "a later version": (samples.FLENT, lambda t: t.update(version=5), "version: must be at most 4 (got 5)"),
    "no name": (samples.FLENT, lambda t: t["metadata"].pop("NAME"), "metadata.NAME: is missing"),
    "a short series": (
        samples.FLENT,
        lambda t: t["results"]["TCP upload"].pop(),
        "results.TCP upload: must have 5 values, as many as x_values (got 4)",
    ),
    "a text as a rate": (
        samples.FLENT,
        lambda t: t["results"].update({"TCP upload": [None, "fast", 1, 1, 1]}),
        "results.TCP upload[1]: must be a number (got fast)",
    ),
    "no streams": (
        samples.FLENT,
        lambda t: t["results"].pop("TCP upload"),
        "contains no series of TCP streams",
    ),
    "a failed iperf3": (
        samples.IPERF3,
        lambda t: t.update(error="unable to connect"),
        "error: the test failed (unable to connect): repeat it",
    ),
    "no rate": (samples.IPERF3, lambda t: t.update(end={"streams": []}), "end: has no rate above 0"),
    "no protocol": (
        samples.IPERF3,
        lambda t: t["start"]["test_start"].pop("protocol"),
        "start.test_start: has no value `protocol`",
    ),
    "a failed networkQuality": (
        samples.NETWORK_QUALITY,
        lambda t: t.update(error_code=-1009),
        "error_code: the test failed with the error -1009",
    ),
    "an infinite rate": (
        samples.CLOUDFLARE,
        lambda t: t.update(upload=float("inf")),
        "upload: must be a finite number (got inf)",
    ),
    "a negative time": (
        samples.OOKLA,
        lambda t: t["upload"]["latency"].update(iqm=-1),
        "upload.latency.iqm: must be a number from 0 to 1e+06 (got -1)",
    ),
    "an unfinished test": (samples.OOKLA, lambda t: t.update(type="ping"), "type: must be `result`"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_wrong_value_is_named_with_its_path(case: str, tmp_path: Path) -> None:
    base, change, message = CHANGES[case]
    table = copy.deepcopy(base)
    change(table)
    with pytest.raises(LinkFileError) as caught:
        read(tmp_path, samples.text(table))
    assert str(caught.value).startswith(f"{tmp_path / 'file'}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"download": 1e6, "latency": }', "line 1, column 30: is not valid JSON"),
        (b'{"a": 1}', "has none of the known formats"),
        (b"[" * 100_000, "has none of the known formats"),
        (b'{"a": ' + b"[" * 100_000, "is nested too deeply"),
        (b'{"dl_throughput": ' + b"9" * 5000 + b"}", "contains a number that is too long"),
        (b"1\n2\nx\n" + b"3\n" * 20, "line 3: must be a time as a whole number of milliseconds (got `x`)"),
        (b"5\n4\n", "line 2: the time 4 is before the time 5 of the previous line"),
        (b"0\n0\n", "line 2: the last time must be greater than 0"),
        (b"1\n1700000000000\n", "line 2: the time 1700000000000 is later than one week"),
        (b'{"event":"start","data":{}}\n{"event":\n', "line 2: is not valid JSON"),
        (b'{"event":"start","data":{}}\n', "has no event `end`: the test did not finish"),
        (samples.pcap([]), "contains no IP packets"),
        (
            samples.pcap([(0, b"\x45", 2**32 - 1)]) + b"\xff" * 64,
            "packet 2: its captured length must be at most 262144",
        ),
        (samples.pcapng([]) + b"\x06\0\0\0\x0d\0\0\0", "block 3: its length must be a multiple of 4"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(data: bytes, message: str, tmp_path: Path) -> None:
    names = {b"1\n2": "mahimahi"}
    with pytest.raises(LinkFileError) as caught:
        read(tmp_path, data, names.get(data[:3]))
    assert message in str(caught.value)


def test_a_chosen_format_is_used_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(LinkFileError, match="x_values: is missing"):
        read(tmp_path, b"{}", "flent")
    with pytest.raises(ValueError, match="--format: no format is named `flnt`: did you mean flent"):
        read(tmp_path, b"{}", "flnt")
    with pytest.raises(ValueError, match="--home: must be an IP address"):
        read(tmp_path, samples.pcap(samples.conversation(1)), home="here")


def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(b" " * 2**20) for _ in range(66)) + packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LinkFileError, match="contains more than 64 MiB"):
        read(tmp_path, bomb)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 4 * content.MOST_BYTES


def mangled(rng: random.Random, data: bytes) -> bytes:
    """A file with a few bytes changed, removed, repeated or replaced by numbers that are hard to read."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        end = min(at + rng.choice((1, 2, 4, 40)), len(found))
        kind = rng.randrange(5)
        if kind == 0:
            found[at:end] = rng.randbytes(end - at)
        elif kind == 1:
            del found[at:end]
        elif kind == 2:
            found[at:at] = found[at:end] * rng.choice((1, 3, 30))
        elif kind == 3:
            found[at:end] = rng.choice(HARD)
        else:
            del found[at:]
    return bytes(found)


HARD = (
    b"-1",
    b"1e999",
    b"9" * 400,
    b"NaN",
    b"null",
    b"[]",
    b"{}",
    b"[[[[",
    b"\xff\xff\xff\xff",
    b"\0" * 4,
    b"\n",
    b'"',
)


@pytest.mark.parametrize("sample", samples.SAMPLES)
def test_nothing_mangled_does_harm(sample: str) -> None:
    """Each reader reads a mangled file, or refuses it with a message of one line that names the file."""
    name, data = samples.SAMPLES[sample]
    path = Path("file")
    rng = random.Random(f"links {sample}")
    refused = 0
    # The formats with two samples share the cases.
    count = CASES // sum(one == name for one, _ in samples.SAMPLES.values())
    for _ in range(count):
        found = content.Content(path, mangled(rng, data))
        try:
            measured = formats.read_content(found, format_name=rng.choice((name, None)))
        except LinkFileError as problem:
            refused += 1
            text = str(problem)
            assert text.startswith(f"{path}: ") and "\n" not in text and len(text) < 600, text
        else:
            for way in (measured.down, measured.up):
                assert way.rate_bps is None or 0 <= way.rate_bps < 1e16
    assert refused > count // 20

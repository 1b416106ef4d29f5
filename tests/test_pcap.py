"""The packets of a simulated run in a file that Wireshark reads."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import polars as pl
import pytest

import aqmlab as al
from aqmlab.cli import app as cli

ENHANCED_PACKET = 6
COMMENT = 1

SCENARIO = """
duration = "5s"
[bottleneck]
rate = "2Mbps"
queue = { kind = "red", min_th = "3p", max_th = "9p", limit = "20p" }
[traffic.ftp]
kind = "ftp"
flows = 3
"""


def packets(path: Path) -> list[tuple[bytes, str | None]]:
    """The packets of a pcapng file, each with its comment."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == ENHANCED_PACKET:
            captured = struct.unpack_from("<I", data, place + 20)[0]
            begin = place + 28
            option, comment = begin + (captured + 3) // 4 * 4, None
            while option < place + length - 4:
                code, size = struct.unpack_from("<HH", data, option)
                if code == COMMENT:
                    comment = data[option + 4 : option + 4 + size].decode()
                option += 4 + (size + 3) // 4 * 4
            found.append((data[begin : begin + captured], comment))
        place += length
    return found


def test_every_packet_of_the_queue_is_there_and_dropped_ones_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, out = tmp_path / "small.toml", tmp_path / "small.pcapng"
    scenario.write_text(SCENARIO)
    monkeypatch.setattr(sys, "argv", ["aqmlab", "run", str(scenario), "--pcap", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    run = al.Scenario.load(scenario).with_({"record.packets": ["bottleneck"]}).run()
    counts = dict(run.tables["packets"]["event"].value_counts().iter_rows())
    found = packets(out)
    assert len(found) == counts["start"] + counts["drop"]
    comments = [comment for _, comment in found if comment]
    by_reason = run.tables["drops"].group_by("reason").len()
    assert len(comments) == counts["drop"] > 10
    for reason, count in by_reason.with_columns(pl.col("reason").cast(str)).iter_rows():
        assert sum(reason in comment for comment in comments) == count
    assert all(packet[0] == 0x45 for packet, _ in found), "IPv4 without options"


@pytest.mark.parametrize(
    ("start", "folder", "status", "message"),
    [
        ("9s", "", 1, "cannot write the packets of the run: the run recorded no packets; add links to"),
        ("0s", "missing", 2, "small.pcapng: cannot be written: "),
    ],
)
def test_the_message_says_why_packets_cannot_be_written(
    start: str,
    folder: str,
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario, out = tmp_path / "small.toml", tmp_path / folder / "small.pcapng"
    scenario.write_text(f'{SCENARIO}start = "{start}"')
    monkeypatch.setattr(sys, "argv", ["aqmlab", "run", str(scenario), "--pcap", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_only_packets_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["aqmlab", "run", "scenarios/flow-level/elastic.toml", "--pcap", "x.pcapng"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "--pcap: needs a packet-level scenario" in capsys.readouterr().err

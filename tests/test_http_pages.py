"""The record of HTTP pages over real connections: its cells, its rows and its medians, without a network."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import record_file
from http_pages import compare, rows, simulated
from http_pages.rows import CELLS, COLUMNS, PAGES, PROTOCOLS, Cell

CELL = Cell(10, 50, "drop-tail")


def page(*done: float, protocol: str = "2", connections: int = 1) -> dict[str, Any]:
    """A line of the client's output."""
    return {
        "protocol": protocol,
        "objects": len(done),
        "object_bytes": 1000,
        "connections": connections,
        "connected_s": [0.1] * connections,
        "first_byte_s": [0.2] * len(done),
        "done_s": list(done),
        "down_bytes": 5000,
        "down_packets": 7,
        "up_bytes": 900,
        "up_packets": 6,
        "client_cpu_s": 0.01,
        "server_cpu_s": 0.02,
        "client_wait_s": 0.001,
        "server_wait_s": 0.002,
    }


def flow(number: int, dropped: int, retransmitted: int | None = 0) -> dict[str, Any]:
    """A row of a run's table of flows."""
    return {"flow": number, "packets_dropped": dropped, "retransmitted": retransmitted}


@pytest.mark.parametrize(
    ("cell", "packets"),
    [
        (Cell(2, 20, "drop-tail"), 20),
        (Cell(10, 50, "drop-tail"), 42),
        (Cell(20, 100, "drop-tail"), 167),
        (Cell(20, 100, "fq-codel"), None),
    ],
)
def test_the_buffer_is_a_bandwidth_delay_product_of_at_least_20_packets(
    cell: Cell, packets: int | None
) -> None:
    assert cell.buffer_packets == packets


def test_quantiles_interpolate_between_order_statistics() -> None:
    assert rows.quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert rows.quantile([0.0, 10.0], 0.9) == pytest.approx(9.0)
    assert rows.quantile([4.0], 0.1) == 4.0


def test_the_flows_of_a_run_belong_to_the_pages_in_the_order_of_their_numbers() -> None:
    pages = [page(1.0, connections=2), page(1.0)]
    counts = rows.per_page(pages, [flow(3, 8, None), flow(1, 1, 2), flow(2, 4, 3)])
    assert counts == [
        {"packets_dropped": 5, "retransmitted": 5},
        {"packets_dropped": 8, "retransmitted": 0},
    ]


def test_flows_that_belong_to_no_page_are_an_error() -> None:
    with pytest.raises(ValueError, match="opened 1 connections, and the router saw 2"):
        rows.per_page([page(1.0)], [flow(1, 0), flow(2, 0)])


def test_a_row_has_the_time_of_the_last_object_and_the_counts_of_both_directions() -> None:
    counts = {"packets_dropped": 3, "retransmitted": 4}
    row = rows.row(page(0.5, 0.75, 0.25), cell=CELL, repetition=2, down=counts, up=counts, late_p99_us=60.04)
    assert tuple(row) == COLUMNS
    assert (row["page_s"], row["object_p50_s"], row["first_byte_s"]) == (0.75, 0.5, 0.2)
    assert (row["dropped"], row["up_dropped"], row["retransmitted"]) == (3, 3, 4)
    assert (row["buffer_packets"], row["late_p99_us"], row["valid"]) == (42, 60.0, 1)
    assert row["objects_s"] == "0.5000 0.7500 0.2500"


def test_a_page_is_disturbed_if_a_program_waits_for_a_processor_for_a_twentieth_of_its_time() -> None:
    assert rows.was_undisturbed(page(0.25, 0.5) | {"client_wait_s": 0.025})
    assert not rows.was_undisturbed(page(0.25, 0.5) | {"client_wait_s": 0.026})
    assert not rows.was_undisturbed(page(0.25, 0.5) | {"server_wait_s": 0.026})


def test_the_router_does_not_know_the_retransmissions_of_quic() -> None:
    counts = {"packets_dropped": 3, "retransmitted": 0}
    row = rows.row(page(1.0, protocol="3-reno"), cell=CELL, repetition=1, down=counts, up=counts)
    assert row["retransmitted"] is None


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = [rows.row(page(0.5), cell=CELL, repetition=1), rows.row(page(0.5), cell=None, repetition=1)]
    rows.write(tmp_path / "pages.csv.gz", found, ["Linux", "Python"])
    assert rows.read(tmp_path / "pages.csv.gz") == found
    assert record_file.origin(tmp_path / "pages.csv.gz") == ["Linux", "Python"]


def test_medians_leave_out_runs_that_are_not_valid() -> None:
    times = ((0.5, True), (0.7, True), (9.0, False))
    found = [
        rows.row(page(time), cell=CELL, repetition=number, valid=valid)
        for number, (time, valid) in enumerate(times)
    ]
    assert rows.medians(found) == {("2", 10, 50, "drop-tail", 1, 1000): pytest.approx(0.6)}
    assert rows.table(found).splitlines()[2] == "| 10 | 50 | drop-tail | 1 x 1 kB | 0.600 |"


def test_the_record_has_five_valid_repetitions_of_every_condition() -> None:
    found = rows.read(Path(rows.__file__).parent / "pages.csv.gz")
    expected = {
        (protocol, cell.rate_mbps, cell.rtt_ms, cell.queue, objects, size)
        for protocol in PROTOCOLS
        for cell in CELLS
        for objects, size in PAGES
    }
    repetitions: dict[tuple[Any, ...], list[int]] = {key: [] for key in expected}
    for one in found:
        if one["valid"]:
            repetitions[tuple(one[name] for name in rows.KEY)].append(one["repetition"])
    assert all(numbers == [1, 2, 3, 4, 5] for numbers in repetitions.values())


def test_the_documentation_contains_the_medians_of_the_record() -> None:
    root = Path(__file__).resolve().parent.parent
    text = (root / "docs/background/http-pages.md").read_text(encoding="utf-8")
    assert rows.table(rows.read(root / "reference/http_pages/pages.csv.gz")) in text


def test_no_page_is_faster_than_its_link() -> None:
    for one in rows.read(Path(rows.__file__).parent / "pages.csv.gz"):
        payload_s = 8 * one["objects"] * one["object_bytes"] / (1e6 * one["rate_mbps"])
        round_trips = 2 if one["protocol"].startswith("3") else 3
        assert one["page_s"] >= max(payload_s, round_trips * one["rtt_ms"] / 1e3)
        times = [float(text) for text in one["objects_s"].split()]
        assert len(times) == one["objects"]
        assert math.isclose(max(times), one["page_s"], abs_tol=1e-4)


def test_simulated_pages_agree_with_the_record_on_a_link() -> None:
    found = compare.compare([Cell(20, 50, "fq-codel")], replications=2)
    assert len(found) == len(PROTOCOLS) * len(PAGES)
    assert all(one.agrees for one in found), compare.text(found)


def test_a_simulated_page_is_requested_once_over_its_protocol() -> None:
    for protocol, flows in (("1.1", 6), ("2", 1), ("3-reno", 1)):
        run = simulated.scenario(CELL, protocol, 12, 20_000).run(seed=1)
        assert run.tables["pages"].height == 1
        assert run.tables["flows"].height == flows


def test_the_text_names_each_condition_that_differs() -> None:
    one = compare.Comparison(
        cell=CELL, protocol="2", objects=12, size=20_000, recorded=0.5, simulated=0.6, spread=0.02
    )
    lines = compare.text([one]).splitlines()
    assert lines[1] == "HTTP/2: 0 of 1 conditions within 10%"
    assert lines[-1].strip().startswith("+20%: HTTP/2, 10 Mb/s, 50 ms, drop-tail, 12 x 20 kB: 0.600 s")

"""What workloads send in live runs. Bounds on time are wide, those on counts are not."""

from __future__ import annotations

import resource
from pathlib import Path

import polars as pl
import pytest
from live_rig import (
    ENDLESS,
    LINE,
    NEEDED,
    run_live,
)

import aqmlab as al

pytestmark = NEEDED

DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
"""As many may a process have."""

ETHERNET = """
[host]
link_header = "14B"
[tcp.connection]
mss = "1460B"
header = "54B"
ack_size = "54B"
syn_size = "66B"
[tcp.recovery]
undo = "dsack"
[record]
drops = true
packets = ["bottleneck"]
histories = ["file", "stream"]
[traffic.file]
kind = "ftp"
stagger = "0s"
sizes = { kind = "constant", value = "292kB" }
[traffic.stream]
kind = "udp"
rate = "100kbps"
stop = "1s"
sizes = { kind = "constant", value = "264B" }
"""


def test_lengths_that_contain_the_header_of_the_link_are_those_of_a_simulation(tmp_path: Path) -> None:
    text = LINE.replace("[record]\ndrops = true\n", "") + ETHERNET
    text = text.replace("20p", "300p").replace('"1500ms"', f'"{ENDLESS}"')
    run = run_live(tmp_path, text, nearest_tcp=True, until_done=True)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()

    def sizes(of: al.Run, traffic: str, event: str) -> dict[int, int]:
        flows = of.flows.filter(pl.col("traffic") == traffic)["flow"].to_list()
        rows = of.tables["packets"].filter(pl.col("flow").is_in(flows), pl.col("event") == event)
        return dict(rows.group_by("size_bytes").len().iter_rows())

    assert sizes(run, "file", "send") == sizes(simulated, "file", "send")
    assert sizes(run, "file", "send")[1514] == 200
    for found in (run, simulated):
        assert set(sizes(found, "stream", "receive")) == {264}
        assert found.flows.filter(pl.col("traffic") == "stream")["delivered_bytes"].sum() % 264 == 0
        at_link = found.tables["packets"].filter(pl.col("event") == "start")["size_bytes"]
        assert {54, 264, 1514} >= set(at_link) - {66}
    assert run.manifest["live"]["load"]["workloads"]["stream"]["lengthened"] == 0


def test_datagrams_are_those_of_a_simulation_and_all_accounted_for(tmp_path: Path) -> None:
    text = LINE.replace('"5Mbps"', '"1Mbps"').replace('"1500ms"', f'"{ENDLESS}"') + (
        '[traffic.stream]\nkind = "udp"\nflows = 2\nrate = "700kbps"\nstop = "1200ms"\n'
        'sizes = { kind = "constant", value = "500B" }\n'
    )
    run = run_live(tmp_path, text, until_done=True)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()
    assert run.flows["packets_sent"].to_list() == simulated.flows["packets_sent"].to_list()
    for flow in run.flows.to_dicts():
        assert flow["packets_sent"] == flow["datagrams_received"] + flow["packets_dropped"]
        # The line's delay, and what a datagram takes on it.
        assert flow["mean_delay_s"] >= 0.010 + 500 * 8 / 1e6
    drops = run.flows["packets_dropped"].sum()
    assert drops == run.links["drops"].sum() == len(run.tables["drops"]) > 0


def test_a_recorded_request_and_its_response_are_a_row_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "recorded.csv").write_text(
        "start_s,size_bytes,request_bytes,think_s,client_delay_s,server_delay_s\n"
        "0.1,9340,436,0.05,0.001,0.002\n0.2,50000,300,0,0.002,0\n0.4,12,1000,0,0,0.030\n",
        encoding="utf-8",
    )
    text = LINE.replace('"1500ms"', f'"{ENDLESS}"')
    text += '[traffic.recorded]\nkind = "replay"\nfile = "recorded.csv"\n'
    run = run_live(tmp_path, text, until_done=True)
    transfers = run.transfers.sort("start_s")
    assert transfers["size_bytes"].to_list() == [9340, 50000, 12]
    assert transfers["complete"].all()
    # Two round trips of 20 ms and the delays of the ends, and, of the first, of the server.
    least = [0.05 + 2 * 0.026, 2 * 0.024, 2 * 0.080]
    assert all(took >= 0.999 * bound for took, bound in zip(transfers["duration_s"], least, strict=True))


def test_conversations_have_the_exchanges_of_a_simulation(tmp_path: Path) -> None:
    text = LINE.replace('"5Mbps"', '"50Mbps"').replace('"1500ms"', f'"{ENDLESS}"') + (
        '[traffic.users]\nkind = "packmime"\nconnections_per_second = 20\nhttp = "1.1"\nstop = "1s"\n'
        'server_delay = { kind = "constant", value = "5ms" }\n'
        'response_sizes = { kind = "uniform", minimum = "1kB", maximum = "30kB" }\n'
    )
    run = run_live(tmp_path, text, until_done=True)
    simulated = al.Scenario.load(tmp_path / "live.toml").run()

    def firsts(of: al.Run) -> list[int]:
        by_flow = of.transfers.sort("start_s", "size_bytes").unique("flow", keep="first", maintain_order=True)
        return by_flow["size_bytes"].to_list()

    assert firsts(run) == firsts(simulated)
    sizes = sorted(simulated.transfers["size_bytes"].to_list())
    assert len(sizes) >= 10
    assert sorted(run.transfers["size_bytes"].to_list()) == sizes


@pytest.mark.skipif(DESCRIPTORS < 20_000, reason=f"a process may have {DESCRIPTORS} descriptors")
def test_ten_thousand_connections_at_once_all_carry_what_was_asked_for(tmp_path: Path) -> None:
    text = LINE.replace('"1500ms"', f'"{ENDLESS}"').replace('"5Mbps"', '"100Mbps"').replace(
        "20p", "30000p"
    ) + (
        '[traffic.many]\nkind = "probes"\nflows = 10000\nsize = "1kB"\nrequest = "100B"\n'
        'every = "599s"\nstop = "1s"\n'
    )
    run = run_live(tmp_path, text, until_done=True)
    assert len(run.transfers) == len(run.flows) == 10_000
    assert run.transfers["complete"].all()
    assert run.flows["delivered_bytes"].to_list() == [1000] * 10_000
    assert run.manifest["live"]["load"]["workloads"]["many"]["lengthened"] == 0

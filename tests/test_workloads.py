"""The core says what a workload is, whatever its kind is called."""

from __future__ import annotations

from pathlib import Path

import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.metrics.video import Player
from aqmlab.scenario.catalog import members
from aqmlab.scenario.workloads import Workload, workloads

ROOT = Path(__file__).parent.parent

NETWORK = {"duration": "9s", "warm_up": "1s", "bottleneck": {"queue": {"kind": "drop-tail"}}}


def test_every_kind_of_workload_is_described_with_its_defaults() -> None:
    for kind in members("traffic"):
        found = Workload.of({"kind": kind.name})
        assert found.fetches_pages or not found.shares_connections
        assert not (found.sends_datagrams and (found.fetches_pages or found.is_endless))
        parameters = {row["name"] for row in kind.parameters}
        assert found.connection_rate is None or found.connection_rate in parameters


def test_a_scenario_and_the_manifest_of_its_run_describe_the_same_workloads() -> None:
    film = {"kind": "video", "segment": "2s", "length": "7s", "stop": "5s", "tcp": {"ecn": {"mode": "on"}}}
    call = {"kind": "call", "codec": "g729a", "every": "10ms", "port": 5004}
    traffic = {"bulk": {"kind": "ftp"}, "film": film, "talk": call}
    scenario = al.Scenario.from_dict({**NETWORK, "traffic": traffic})
    assert scenario.workloads["talk"].call == {"codec": "g729a", "frame_s": 0.01}
    assert scenario.workloads["bulk"].is_endless
    player = Player(**scenario.workloads["film"].video or {})
    assert player == Player(segment_s=2.0, start_up_s=2.5, resume_s=5.0, segments=4, stop_s=5.0)
    assert workloads(scenario.run().manifest["scenario"]) == scenario.workloads


def test_hosts_of_a_graph_do_not_matter() -> None:
    table = {"kind": "web", "from": "a", "to": "b", "request": "300B", "connections": 6}
    assert Workload.of(table).shares_connections


def test_other_levels_have_no_workloads() -> None:
    assert al.Scenario.load(ROOT / "scenarios/flow-level/elastic.toml").workloads == {}


def test_a_wrong_table_is_refused_by_its_place() -> None:
    with pytest.raises(al.ScenarioError, match=r"^kind: unknown kind `wbe`; did you mean `web`"):
        Workload.of({"kind": "wbe"})
    with pytest.raises(al.ScenarioError, match=r"^segment: "):
        Workload.of({"kind": "video", "segment": 3})


def test_files_end_and_so_have_times() -> None:
    def names(table: dict[str, object]) -> set[str]:
        scenario = al.Scenario.from_dict({**NETWORK, "traffic": {"bulk": table}})
        return {one.partition(".")[2] for one in measures.of_scenario(scenario) if one.startswith("bulk.")}

    size = {"kind": "constant", "value": "1MB"}
    endless, sized = names({"kind": "ftp"}), names({"kind": "ftp", "sizes": size})
    assert endless < sized and "mean-time" in sized - endless

"""Paths without I/O and clock from Python."""

from __future__ import annotations

from pathlib import Path as FilePath

import pytest

import aqmlab as al

MS = 1_000_000
SCENARIOS = FilePath(__file__).parent.parent / "scenarios"
LINK = {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "codel"}}


def outcomes(path: al.Path) -> list[al.Delivered | al.Dropped]:
    """All outcomes of the datagrams on the path, in order, if the path is polled whenever an event is due."""
    found = []
    while (now := path.next_due()) is not None:
        while (outcome := path.poll(now)) is not None:
            found.append(outcome)
    return found


def test_a_datagram_takes_the_transmission_time_and_the_delay() -> None:
    path = al.Path({"forward": [LINK]})
    flow = path.open_flow()
    assert path.send(flow, "forward", 1250, now=0, ecn="ect1") == 0
    assert path.in_transit == 1
    assert path.poll(21 * MS - 1) is None
    delivered = path.poll(path.nanoseconds(0.021))
    assert delivered == al.Delivered(0, flow, "forward", 21 * MS, "ect1", None)
    assert path.in_transit == 0 and path.next_due() is None


def test_drops_and_marks_name_their_links_and_reasons() -> None:
    links = [
        {"name": "fast", "rate": "20Mbps", "delay": "1ms", "queue": {"kind": "drop-tail", "limit": "5p"}},
        {"rate": "10Mbps", "delay": "1ms", "queue": {"kind": "codel", "ecn": True}},
    ]
    path = al.Path({"forward": links})
    flow = path.open_flow()
    for number in range(3000):
        path.send(flow, "forward", 1000, now=number * 600_000, ecn="ect0")
    for _ in range(20):
        path.send(flow, "forward", 1000, now=1900 * MS)
    found = outcomes(path)
    assert len(found) == 3020 and [one.at for one in found] == sorted(one.at for one in found)
    marks = [one.mark for one in found if isinstance(one, al.Delivered) and one.mark]
    assert marks and {(mark.link, mark.reason) for mark in marks} == {("forward-1", "sojourn")}
    assert all((one.ecn == "ce") == (one.mark is not None) for one in found if isinstance(one, al.Delivered))
    drops = [one for one in found if isinstance(one, al.Dropped)]
    # CoDel drops the datagrams that are not ECN-capable.
    assert {(drop.link, drop.reason) for drop in drops} == {("fast", "overflow"), ("forward-1", "sojourn")}
    fast, slow = path.links()
    assert (fast["name"], fast["arrivals"], slow["marks"]) == ("fast", 3020, len(marks))
    overflow = fast["drops"]["overflow"]
    assert (fast["departures"], overflow + slow["drops"]["sojourn"]) == (3020 - overflow, len(drops))


def lossy(seed: int) -> str:
    path = al.Path({"forward": [LINK | {"loss": {"probability": 0.3}}]}, seed=seed)
    flow = path.open_flow()
    for number in range(100):
        path.send(flow, "forward", 1000, now=number * MS)
    outcomes(path)
    return path.digest()


def test_the_seed_determines_the_outcomes() -> None:
    assert lossy(1) == lossy(1) != lossy(2)


def test_a_path_is_read_from_toml_and_from_a_file_with_its_files(tmp_path: FilePath) -> None:
    text = 'forward = [{ delay = "1ms", rate_file = "rates.csv", queue = { kind = "codel" } }]\nseed = 3\n'
    (tmp_path / "path.toml").write_text(text, encoding="utf-8")
    (tmp_path / "rates.csv").write_text("0,8Mbps\n1,4Mbps\n", encoding="utf-8")
    by_hand = al.Path.from_toml(text, files={"rates.csv": "0,8Mbps\n1,4Mbps\n"})
    for path in (al.Path.load(tmp_path / "path.toml"), by_hand):
        flow = path.open_flow()
        for now in (0, 2000 * MS):
            path.send(flow, "forward", 1000, now=now)
        assert [one.at for one in outcomes(path)] == [2 * MS, 2003 * MS]
    (tmp_path / "rates.csv").unlink()
    with pytest.raises(al.ScenarioFileError, match=r"rates\.csv: cannot be read"):
        al.Path.load(tmp_path / "path.toml")
    (tmp_path / "path.toml").write_text("forward = []", encoding="utf-8")
    with pytest.raises(
        al.ScenarioFileError, match=r"path.toml: forward: must contain 1 to 64 links \(got 0\)"
    ):
        al.Path.load(tmp_path / "path.toml")


def test_a_link_of_a_scenario_is_a_path() -> None:
    scenario = al.Scenario.from_dict(
        {
            "duration": "9s",
            "bottleneck": LINK | {"reverse": {"rate": "1Mbps", "queue": {"kind": "drop-tail"}}},
            "traffic": {"bulk": {"kind": "ftp"}},
        }
    )
    path = al.Path.of_scenario(scenario, link="bottleneck")
    flow = path.open_flow()
    path.send(flow, "forward", 1250, now=0)
    path.send(flow, "reverse", 1250, now=0)
    assert [one.at for one in outcomes(path)] == [21 * MS, 30 * MS]
    assert [link["name"] for link in path.links()] == ["bottleneck", "bottleneck-back"]
    with pytest.raises(ValueError, match="link: no link of the scenario is named `botleneck`: did you mean"):
        al.Path.of_scenario(scenario, link="botleneck")


def test_the_network_of_a_scenario_includes_access_links() -> None:
    scenario = al.Scenario.from_dict(
        {
            "duration": "9s",
            "bottleneck": LINK,
            "access": {"rate": "100Mbps", "delay": "1ms"},
            "traffic": {"a": {"kind": "ftp"}, "b": {"kind": "ftp", "from": "right"}},
        }
    )
    path = al.Path.of_scenario(scenario)
    flow = path.open_flow("b")
    path.send(flow, "forward", 1250, now=0)
    # Two access links of 0.1 ms and 1 ms, and the reverse link of the bottleneck.
    assert [one.at for one in outcomes(path)] == [23 * MS + MS // 5]
    with pytest.raises(ValueError, match="unknown traffic `c`; did you mean `a`"):
        path.open_flow("c")


def test_a_scenario_of_another_level_has_no_network() -> None:
    with pytest.raises(al.ScenarioError, match="level: must be `packet`"):
        al.Path.of_scenario(SCENARIOS / "flow-level/elastic.toml")


def test_invalid_configurations_name_the_path_and_the_value() -> None:
    with pytest.raises(al.ScenarioError) as error:
        al.Path({"forward": [LINK | {"rate": "10Mb"}, LINK | {"queue": {"kind": "codell"}}]})
    assert [path for path, _ in error.value.problems] == ["forward.0.rate", "forward.1.queue.kind"]
    with pytest.raises(ValueError, match="table: must be a dictionary such as"):
        al.Path([LINK])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed: must be a whole number of at least 0"):
        al.Path({"forward": [LINK]}, seed=-1)
    with pytest.raises(al.ScenarioError, match="line 1"):
        al.Path.from_toml("forward = [")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"now": 1.5}, "now: must be a whole number of at least 0"),
        ({"now": -1}, "now: must be a whole number of at least 0"),
        ({"now": 4 * MS}, "now: must not be earlier than 5000000 ns"),
        ({"now": 2**70}, "now: must be at most 315360000000000000 ns"),
        ({"size": 0}, r"size: must be a whole number of at least 1 \(got 0\)"),
        ({"size": 65_536}, r"size: must be from 1 to 65535 \(got 65536\)"),
        ({"size": 1.5}, r"size: must be a whole number of at least 1 \(got 1.5\)"),
        ({"flow": 7}, "flow: no flow of this path has the number 7"),
        ({"flow": -1}, "flow: must be a number that `open_flow` returned"),
        ({"direction": "forwards"}, "direction: unknown name `forwards`; did you mean `forward`?"),
        ({"ecn": "ect(0)"}, "ecn: unknown name"),
    ],
)
def test_invalid_arguments_are_named_and_do_not_change_the_path(
    arguments: dict[str, object], message: str
) -> None:
    path = al.Path({"forward": [LINK]})
    flow = path.open_flow()
    path.poll(5 * MS)
    usual = {"flow": flow, "direction": "forward", "size": 1000, "now": 5 * MS}
    with pytest.raises(ValueError, match=message):
        path.send(**(usual | arguments))  # type: ignore[arg-type]
    assert path.in_transit == 0
    path.send(**usual)  # type: ignore[arg-type]
    assert path.in_transit == 1


def test_invalid_flows_are_named() -> None:
    path = al.Path({"forward": [LINK], "traffic": {"bulk": {"hosts": 2}}})
    assert path.open_flow("bulk", host=1, protocol="tcp", port=80, dscp=63) == 0
    for arguments, message in [
        ({"host": 2}, r"host: must be less than 2 \(got 2\)"),
        ({"dscp": 64}, r"dscp: must be at most 63 \(got 64\)"),
        ({"port": 65_536}, r"port: must be at most 65535 \(got 65536\)"),
        ({"protocol": "sctp"}, "protocol: unknown name `sctp`"),
        ({"traffic": "call"}, "unknown traffic `call`"),
    ]:
        with pytest.raises(ValueError, match=message):
            path.open_flow(**arguments)  # type: ignore[arg-type]

"""What `tc -s -j qdisc show` would print of the queues of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

import aqmlab as al

COMMON = {
    "kind",
    "handle",
    "dev",
    "options",
    "bytes",
    "packets",
    "drops",
    "overlimits",
    "requeues",
    "backlog",
    "qlen",
}
"""What `tc` prints of every discipline; at the root it has `root` and `refcnt` beside, elsewhere `parent`."""

KINDS = [entry.name for entry in al.catalog() if entry.family.name == "queues"]


def shown(small: Path, queue: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What is shown of a queue in the small scenario, and the row of its link over the whole run."""
    changes = {"bottleneck.queue": queue, "record.tc_statistics": True, "warm_up": "0s"}
    run = al.Scenario.load(small).with_(changes).run()
    return run.manifest["qdiscs"], run.links.row(0, named=True)


def test_nothing_is_shown_unless_it_is_asked_for(small: Path) -> None:
    assert "qdiscs" not in al.Scenario.load(small).run().manifest


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown_with_what_the_port_has_counted(small: Path, kind: str) -> None:
    (root, *inside), link = shown(small, {"kind": kind})
    assert set(root) >= COMMON | {"root", "refcnt"}
    assert (root["handle"], root["dev"], root["root"], root["requeues"]) == ("1:", "bottleneck", True, 0)
    assert (root["packets"], root["bytes"]) == (link["departures"], link["departed_bytes"])
    assert root["drops"] == link["drops"]
    assert root["packets"] + root["drops"] + root["qlen"] == link["arrivals"]
    assert isinstance(root["options"], dict) and "kind" not in root["options"]
    assert not inside, "queues that the scenario leaves out are not shown"
    # JSON has no infinity: what `jq` cannot read is refused here.
    assert json.loads(json.dumps(root, allow_nan=False)) == root


def test_what_linux_has_is_shown_under_its_own_name(small: Path) -> None:
    red = {"kind": "linux-red", "limit": "30kB", "min": "5kB", "max": "15kB", "probability": 0.1}
    [found], _ = shown(small, red)
    assert found["kind"] == "red"
    assert found["options"] == {
        "limit": 30_000,
        "min": 5_000,
        "max": 15_000,
        "ecn": False,
        "harddrop": False,
        "adaptive": False,
        "nodrop": False,
    }
    assert found["early"] == found["overlimits"] > 0
    assert found["early"] + found["pdrop"] == found["drops"]


def test_queues_inside_are_shown_below_the_classes_that_they_belong_to(small: Path) -> None:
    leaf = {"kind": "ce-threshold", "queue": {"kind": "drop-tail", "limit": "9p"}}
    web = {"rate": "1Mbps", "match": {"traffic": ["web"]}, "queue": {"kind": "linux-red"}}
    classes = {"ftp": {"rate": "800kbps", "queue": leaf}, "web": web}
    found, link = shown(small, {"kind": "htb", "default": "ftp", "classes": classes})
    assert [one["kind"] for one in found] == ["htb", "ce-threshold", "pfifo", "red"]
    assert [one["handle"] for one in found] == ["1:", "2:", "3:", "4:"]
    assert [one.get("parent") for one in found] == [None, "1:1", "2:1", "1:2"]
    root, stage, fifo, red = found
    assert root["options"]["default"] == "0x1"
    assert {set(one) >= COMMON for one in found} == {True}
    assert stage["packets"] == fifo["packets"] > 0
    for counted in ("packets", "bytes", "drops", "qlen", "backlog"):
        assert root[counted] == stage[counted] + red[counted], counted
    assert root["drops"] == link["drops"] > 0


def test_every_managed_link_is_shown(small: Path) -> None:
    queue = {"kind": "drop-tail"}
    changes = {"bottleneck.reverse": {"queue": queue}, "record.tc_statistics": True}
    found = al.Scenario.load(small).with_(changes).run().manifest["qdiscs"]
    assert [one["dev"] for one in found] == ["bottleneck", "bottleneck-back"]
    assert [one["handle"] for one in found] == ["1:", "1:"]


def test_the_command_line_prints_plain_json(cli: Cli, small: Path) -> None:
    done = cli("run", small, "--tc-stats")
    assert (done.returncode, done.stderr) == (0, "")
    [found] = json.loads(done.stdout)
    scenario = al.Scenario.load(small).with_({"record.tc_statistics": True})
    assert found == scenario.run().manifest["qdiscs"][0]
    assert found["kind"] == "red" and found["options"] == {}, "ours: Linux's is `linux-red`"


def test_only_queues_of_packets_are_shown(cli: Cli, tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "scenarios" / "flow-level" / "elastic.toml").read_text("utf-8")
    (tmp_path / "elastic.toml").write_text(text, encoding="utf-8")
    done = cli("run", "elastic.toml", "--tc-stats")
    assert done.returncode == 2
    assert "--tc-stats: needs a packet-level scenario (got elastic, whose level is flow)" in done.stderr

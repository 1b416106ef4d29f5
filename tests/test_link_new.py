"""`aqmlab link new`: a scenario of one's own line, from options, answers and files."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import link_samples as samples
import pytest
from conftest import COMMAND, PATIENCE_S, Cli

import aqmlab as al
from aqmlab.cli import link
from aqmlab.links import formats, household, new
from aqmlab.links.access import KINDS, dsl
from aqmlab.links.buffer import Buffer
from aqmlab.links.format import Options
from aqmlab.links.line import scenario_of
from aqmlab.links.measured import Direction
from aqmlab.links.new import Answers, Source

GIVEN = Answers(access="plain", down="40Mbps", up="4Mbps", rtt="20ms")


def source(folder: Path, sample: str, direction: Direction = Direction.DOWNLOAD) -> Source:
    path = folder / f"{sample.replace(', ', '-')}.file"
    path.write_bytes(samples.SAMPLES[sample][1])
    return Source(path=path, measured=formats.read(path, Options(direction=direction)))


def scenario(answers: Answers, *files: Source) -> al.Scenario:
    written = scenario_of(new.line_of(answers, files), "mine")
    return al.Scenario.from_dict(tomllib.loads(written.scenario), files=written.files)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_access_is_a_scenario_that_runs_both_ways(kind: str) -> None:
    found = scenario(Answers(access=kind, down="20Mbps", up="2Mbps", rtt="30ms", household="download,upload"))
    assert list(found.links) == ["bottleneck", "bottleneck-back"]
    assert found.managed_links == list(found.links)
    short = found.with_({"duration": "8s", "warm_up": "3s"})
    goodput = dict(
        short.run().tables["flows"].select("traffic", "goodput_bps").cast({"traffic": str}).iter_rows()
    )
    assert 1e6 < goodput["download"] < 20e6
    assert 0.2e6 < goodput["upload"] < 2e6
    # The alternatives are complete queues for the upload direction.
    for queue in found.queues.values():
        found.with_({"bottleneck.reverse.queue": queue})


@pytest.mark.parametrize("kind", KINDS)
def test_each_assumption_has_a_source(kind: str) -> None:
    text = scenario_of(
        new.line_of(Answers(access=kind, down="20Mbps", up="2Mbps", rtt="30ms"), ()), "mine"
    ).scenario
    comments = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert comments.count("(assumed: ") + comments.count("RFC 8034") >= 1 + (kind not in ("cable",))
    assert "Half of the round trip of 30 ms (given)" in comments
    for line in text.splitlines():
        assert len(line) <= 110 or not line.startswith("#")


def test_the_comment_at_docsis_pie_has_the_source_of_the_buffer() -> None:
    line = new.line_of(Answers(access="cable", down="20Mbps", up="2Mbps", rtt="30ms"), ())
    comments = " ".join(one[2:] for one in scenario_of(line, "mine").scenario.splitlines() if one[:2] == "# ")
    assert "(RFC 8034). Buffer: 100 ms, the default target buffer of DOCSIS 3.1 for the upload" in comments


def test_a_known_buffer_is_used_in_all_units() -> None:
    for text, limit in (("256kB", "256kB"), ("100p", "100p"), ("200ms", "100kB")):
        answers = Answers(**{**vars(GIVEN), "buffer_up": text})
        assert scenario(answers).effective["bottleneck"]["reverse"]["queue"]["limit"] == limit
    for wrong in ("0p", "fast", "3Mbps", "-1ms"):
        with pytest.raises(ValueError, match="must be a size of a buffer, such as 256kB, 100p or 200ms"):
            Buffer.parse(wrong)


def test_the_framing_of_dsl_costs_what_cells_cost() -> None:
    assert (dsl.atm_bytes(1500), dsl.atm_bytes(52), dsl.ptm_bytes(1500)) == (1749, 106, 1530 + 24)
    rates = {}
    for kind in ("plain", "dsl-atm", "dsl-ptm"):
        line = {"down": "8Mbps", "up": "1Mbps", "rtt": "30ms", "buffer_down": "200ms"}
        found = scenario(Answers(access=kind, **line, household="download")).with_(
            {"duration": "12s", "warm_up": "6s"}
        )
        rates[kind] = found.run().tables["flows"]["goodput_bps"].sum()
    assert rates["dsl-atm"] / rates["plain"] == pytest.approx(1500 / dsl.atm_bytes(1500), rel=0.01)
    assert rates["dsl-ptm"] / rates["plain"] == pytest.approx(1500 / dsl.ptm_bytes(1500), rel=0.01)
    # A measured rate is the rate of IP packets: the line behind it is faster.
    measured = Answers(
        access="dsl-atm", down="8Mbps", up="1Mbps", rtt="30ms", goodput=True, household="download"
    )
    found = scenario(measured).with_({"duration": "12s", "warm_up": "6s"})
    assert found.run().tables["flows"]["goodput_bps"].sum() == pytest.approx(8e6, rel=0.01)


def test_files_replace_options_and_options_replace_files(tmp_path: Path) -> None:
    apple, flent = source(tmp_path, "networkquality"), source(tmp_path, "flent")
    assert new.missing(Answers(), [apple]) == []
    assert new.missing(Answers(), [flent]) == ["--down"]
    assert new.missing(Answers(access="cable"), []) == ["--down", "--up", "--rtt"]
    full = scenario(Answers(up="3Mbps"), apple).effective["bottleneck"]
    assert (full["rate"], full["delay"]) == ("99447500bps", "10ms")
    assert full["reverse"]["rate"] == "3Mbps"
    # The increase of the round-trip time from 20 to 100 ms is the buffer.
    assert full["queue"]["limit"] == "994475B"


def test_recordings_become_files_of_the_scenario(tmp_path: Path) -> None:
    log = source(tmp_path, "cake-autorate")
    written = scenario_of(new.line_of(Answers(access="dsl-atm"), [log]), "mine")
    table = tomllib.loads(written.scenario)["bottleneck"]
    assert (table["rate_file"], table["reverse"]["rate_file"]) == ("mine.down.csv", "mine.up.csv")
    assert table["rate_repeat"] == "4s"
    # A recording counts IP packets, so that the link has no framing.
    assert "framing" not in table
    up = source(tmp_path, "mahimahi", Direction.UPLOAD)
    written = scenario_of(new.line_of(Answers(down="9Mbps", rtt="40ms"), [up]), "mine")
    table = tomllib.loads(written.scenario)["bottleneck"]["reverse"]
    assert table["opportunities"] == {"file": "mine.up.trace"}
    assert written.files == {"mine.up.trace": "1\n1\n3\n7\n9\n10\n"}
    assert written.alternatives == ["as-is", "fq-codel"]


def test_all_wrong_options_are_named_at_once() -> None:
    answers = Answers(access="cabel", down="40", up="4Mbps", rtt="0s", buffer_up="big", household="web,cals")
    with pytest.raises(ValueError) as caught:
        new.line_of(answers, ())
    assert str(caught.value).splitlines() == [
        "--access: no kind of access is named `cabel`: did you mean cable?",
        "--rtt: must be a time, such as 20ms (got 0s)",
        "--down: must be a rate, such as 50Mbps (got 40)",
        "--buffer-up: must be a size of a buffer, such as 256kB, 100p or 200ms (got big)",
        "--household: no household or activity is named `cals`: did you mean call?",
    ]
    for bad, message in (
        ({"down": "1kbps"}, "from 16kbps to 100Gbps"),
        ({"rtt": "11s"}, "from 0.1ms to 10s"),
    ):
        with pytest.raises(ValueError, match=message):
            new.line_of(Answers(**{**vars(GIVEN), **bad}), ())


def test_households_are_lists_of_activities() -> None:
    for name, activities in household.HOUSEHOLDS.items():
        assert list(household.activities_of(name)) == list(activities)
    for name in household.ACTIVITIES:
        assert scenario(Answers(**{**vars(GIVEN), "household": name})).workloads.keys() == {name}


def test_the_command_writes_a_scenario_and_replaces_nothing(cli: Cli, tmp_path: Path) -> None:
    options = ("--access", "cable", "--down", "100Mbps", "--up", "10Mbps", "--rtt", "20ms")
    done = cli("link", "new", "mine.toml", *options, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    queues = ["as-is", "sqm-fq-codel", "sqm-cake"]
    assert json.loads(done.stdout) == {"scenario": "mine.toml", "files": [], "queues": queues}
    assert al.Scenario.load(tmp_path / "mine.toml").workloads.keys() == {"web", "call", "download", "upload"}
    before = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    done = cli(
        "link", "new", "mine.toml", "--access", "lte", "--down", "9Mbps", "--up", "1Mbps", "--rtt", "40ms"
    )
    assert done.returncode == 2
    assert done.stderr == "aqmlab: mine.toml: already exists: choose another name, or remove the file\n"
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.toml"]


def test_a_script_is_told_which_options_are_missing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "up.flent.gz").write_bytes(samples.SAMPLES["flent"][1])
    for arguments, lacking in (
        ((), "--access, --down, --up, --rtt"),
        (("--from", "up.flent.gz"), "--down"),
    ):
        done = cli("link", "new", *arguments)
        assert done.returncode == 2
        assert f"aqmlab: link new: needs {lacking}, because standard input is not a terminal" in done.stderr
    assert not (tmp_path / "my-line.toml").exists()


def test_a_person_is_asked_and_asked_again(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    answers = ["cabel", "dsl-ptm", "50", "50Mbps", "10Mbps", "", "unknown", "300ms", "call,upload"]
    os.write(leader, "".join(f"{answer}\n" for answer in answers).encode())
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "link", "new"],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        cwd=tmp_path,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
    ) as program:
        printed, _ = program.communicate(timeout=PATIENCE_S)
    prompts = os.read(leader, 100_000).decode()
    os.close(leader)
    os.close(follower)
    assert program.returncode == 0, prompts
    assert "VDSL2, which sends packets in packet transfer mode" in prompts
    assert "The answer no kind of access is named `cabel`: did you mean cable?" in prompts
    assert "The answer must be a rate, such as 50Mbps (got 50)" in prompts
    assert "Round-trip time without load [25ms]" in prompts
    assert "my-line.toml: dsl-ptm, 50 Mbps down, 10 Mbps up, round trip 25 ms" in printed
    found = al.Scenario.load(tmp_path / "my-line.toml")
    assert found.workloads.keys() == {"call", "upload"}


def test_values_of_a_file_are_printed_with_their_tables(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "up.flent.gz").write_bytes(samples.SAMPLES["flent"][1])
    done = cli("link", "import", "up.flent.gz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "round trip under load 120 ms, buffer of at least 100 ms, 124.3 kB" in done.stdout
    table = tomllib.loads(
        done.stdout[done.stdout.index("[bottleneck.reverse]") : done.stdout.index("\n\nA scenario")]
    )
    assert table["bottleneck"]["reverse"]["queue"] == {"kind": "drop-tail", "limit": "124309B"}
    found = json.loads(cli("link", "import", "up.flent.gz", "--json").stdout)
    assert found["upload"]["buffer_s"] == pytest.approx(0.1)
    assert found["download"] is None
    # A part of the file is named with its place.
    (tmp_path / "late.flent.gz").write_bytes(gzip.compress(samples.text(samples.FLENT | {"version": 5})))
    done = cli("link", "import", "late.flent.gz")
    assert done.returncode == 2
    assert done.stderr.startswith("aqmlab: late.flent.gz: version: must be at most 4 (got 5)")


def test_standard_input_is_read_like_a_file() -> None:
    command = [sys.executable, "-c", COMMAND, "link", "import", "-", "--json"]
    done = subprocess.run(
        command, input=samples.text(samples.OOKLA), capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert json.loads(done.stdout)["idle_rtt_s"] == pytest.approx(0.0125)


def test_formats_and_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    link.formats_()
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines() if line[0] != " "] == list(formats.FORMATS)
    link.kinds()
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines() if line[0] != " "] == list(KINDS)

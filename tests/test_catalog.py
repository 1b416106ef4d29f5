"""Everything that has a name can be listed and shown, and says where its numbers come from."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import aqmlab as al
from aqmlab import studies
from aqmlab.cli import queue_pages
from aqmlab.cli.app import app
from aqmlab.cli.reference import allowed, describe, listed, pages
from aqmlab.scenario import flat
from aqmlab.scenario.catalog import base_profile, entries, families, members

ROOT = Path(__file__).parent.parent

NAMES = list(dict.fromkeys(one.name for one in al.catalog()))


def rows(fields: Sequence[dict[str, Any]], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in fields:
        yield f"{path}.{row['name']}", row
        yield from rows(row.get("fields", ()), f"{path}.{row['name']}")


def test_a_name_is_unique_in_its_family() -> None:
    counts = Counter((one.family, one.name) for one in al.catalog())
    assert [name for name, times in counts.items() if times > 1] == []


def test_only_parts_of_tcp_share_their_names() -> None:
    shared = [one for one in al.catalog() if len(entries(one.name)) > 1]
    assert {one.family.name for one in shared} <= {
        "congestion-controls",
        "recoveries",
        "aliases",
        "profiles",
    }
    titles = [one.family.title for one in entries("reno")]
    assert titles == ["TCP congestion control", "TCP recovery", "TCP alias"]
    assert al.entry("reno").parameters


def test_families_are_told_one_after_the_other_and_plugins_name_theirs() -> None:
    told = [one.family.name for one in al.catalog()]
    assert [name for name, _ in itertools.groupby(told)] == list(families())
    named = {row["family"] for one in al.catalog() for _, row in rows(one.parameters, "") if "family" in row}
    assert named and named <= set(families())


def test_what_the_issue_names_is_there() -> None:
    assert {"drop-tail", "red", "shred", "ftp", "web", "replay", "udp", "tcp", "reno"} <= set(NAMES)
    assert {"rfc", "ns-2.35", "flows", "transfers", "pages", "drops", "queue", "gauges", "senders"} <= set(
        NAMES
    )


def test_tcp_is_made_of_congestion_controls_recoveries_aliases_and_profiles() -> None:
    controls = {one.name for one in members("congestion-controls")}
    recoveries = {one.name for one in members("recoveries")}
    names = "reno highspeed scalable cubic dctcp ledbat prague bbr3 bbr1 htcp vegas westwood"
    assert controls == set(names.split())
    assert recoveries == {"tahoe", "reno", "newreno", "sack", "rack", "quic"}
    for alias in members("aliases"):
        assert alias.values["congestion_control"]["kind"] in controls, alias.name
        assert alias.values["recovery"]["kind"] in recoveries, alias.name


def test_a_choice_has_words_each_with_a_sentence() -> None:
    seen = 0
    for one in al.catalog():
        for path, row in rows(one.parameters, one.name):
            words = row.get("choices", [])
            assert bool(words) == (row.get("type") == "choice"), path
            assert all(choice["word"] and choice["doc"].endswith((".", ".)")) for choice in words), path
            assert row.get("default") is None or not words or row["default"] in [c["word"] for c in words], (
                path
            )
            seen += len(words)
    assert seen > 60


def test_what_may_be_written_is_said_in_words() -> None:
    assert allowed({"type": "number", "optional": True}) == "number; may be left out"
    assert allowed({"type": "time", "units": ["ms", "s", "min"], "optional": False}) == "time: ms, s or min"
    assert allowed({"type": "table", "several": "by-name", "optional": False}) == "table under each name"
    discipline = {"type": "plug-in", "family": "queues", "optional": False}
    assert allowed(discipline) == "table with a `kind`: any queue discipline"
    words = [{"word": "on", "doc": "It is."}, {"word": "off", "doc": "It is not."}]
    assert allowed({"type": "choice", "choices": words, "optional": False}) == "one of the following"


def test_a_profile_gives_the_source_of_all_that_differs() -> None:
    basic = flat(base_profile().values)
    assert base_profile().name == "rfc"
    for one in members("profiles"):
        ours = flat(one.values)
        differs = {path for path, value in ours.items() if path in basic and basic[path] != value}
        assert differs <= set(one.sources), one.name
        assert all(source.strip() for source in one.sources.values()), one.name
        full = al.Scenario.from_dict(
            {"duration": "1s", "bottleneck": {"queue": {"kind": "red"}}, "traffic": {"a": {"kind": "ftp"}}}
        ).with_({"tcp.profile": one.name})
        assert full.effective["tcp"] == one.values


def test_a_profile_shows_what_differs_with_its_source() -> None:
    text = describe("ns-2.35")
    assert '  connection.mss = "1kB"\n      rfc: "1460B"\n      source: ' in text
    assert text.count("source: ") == len(al.entry("ns-2.35").sources)
    assert "srtt_gain" not in text
    assert "  rto.srtt_gain = 0.125" in describe("rfc")


def test_what_is_shown_fits_a_terminal() -> None:
    for name in NAMES:
        for line in describe(name).splitlines():
            assert len(line) <= 80 or " " not in line.strip(), line


def test_every_parameter_has_a_meaning_a_kind_and_a_source() -> None:
    seen = 0
    for one in al.catalog():
        assert one.about.strip(), one.name
        for path, row in rows(one.parameters, one.name):
            assert row["doc"].strip(), path
            if one.family.name != "tables":
                seen += 1
                assert row["type"].strip() and allowed(row), path
                assert row["source"].strip(), path
                assert "default" in row, path
    assert seen > 80


def test_a_summary_is_the_first_sentence_of_what_is_told() -> None:
    for one in al.catalog():
        assert " ".join(one.about.split()).startswith(one.summary), one.name
        assert one.summary.endswith("."), one.name
        assert not re.search(r"[a-z]{3}\. [A-Z]", one.summary), one.name


def test_a_quantity_has_its_unit_in_its_default_and_its_kind() -> None:
    for one in al.catalog():
        for path, row in rows(one.parameters, one.name):
            if one.family.name != "tables" and isinstance(row["default"], str) and "units" in row:
                assert row["default"].endswith(tuple(row["units"])), path


@pytest.mark.parametrize("name", NAMES)
def test_a_name_shows_every_parameter(name: str) -> None:
    text = describe(name)
    for one in entries(name):
        assert f"{name} ({one.family.title})" in text
        for _, row in rows(one.parameters, name):
            assert row["name"] in text
        for key in one.sources or one.values:
            assert key in text


def test_a_name_that_is_nearly_right_is_put_right() -> None:
    slips = {
        "shed": "shred",
        "droptail": "drop-tail",
        "ns2.35": "ns-2.35",
        "transfer": "transfers",
        "cubik": "cubic",
    }
    for wrong, right in slips.items():
        with pytest.raises(LookupError, match=f"did you mean .*{right}"):
            al.entry(wrong)
    with pytest.raises(LookupError, match=r"available: .*red"):
        al.entry("xyzzy")


@pytest.mark.parametrize("family", [family for family in families() if family != "tcp"])
def test_a_family_lists_each_of_its_members_with_a_sentence_in_one_column(family: str) -> None:
    result = CliRunner().invoke(app, ["list", family])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    begun = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in begun] == [one.name for one in members(family)]
    assert len(begun) == len(lines), "a pipe gets a line for each"
    column = max(len(one.name) for one in members(family)) + 2
    assert {len(line) - len(line[column:]) for line in lines} == {column}
    assert all(line[column - 1] == " " != line[column] for line in lines)
    text = " ".join(line[column:] for line in lines)
    assert all(" ".join(one.summary.split()) in text for one in members(family))


def test_tcp_is_listed_in_four_groups_with_a_line_for_each_member() -> None:
    result = CliRunner().invoke(app, ["list", "tcp"])
    assert result.exit_code == 0
    groups = [group.splitlines() for group in result.output.strip().split("\n\n")]
    assert [group[0].split(":")[0].split(" (")[0] for group in groups[:4]] == [
        "Congestion controls",
        "Loss recoveries",
        "Aliases for CONTROL/RECOVERY",
        "Profiles",
    ]
    begun = [[line for line in group[1:] if not line.startswith("   ")] for group in groups[:4]]
    listed = [[line.split()[0] for line in group] for group in begun]
    keys = ("congestion-controls", "recoveries", "aliases", "profiles")
    wanted = [[one.name for one in members(key)] for key in keys]
    assert listed == wanted
    text = " ".join(result.output.split())
    lacking = [one.name for key in keys for one in members(key) if " ".join(one.summary.split()) not in text]
    assert lacking == [], "sentences are whole"


def test_studies_are_listed_beside_the_catalogue() -> None:
    # A study may share its name with the queue it studies, so it is no entry of the catalogue.
    result = CliRunner().invoke(app, ["list", "studies"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(studies.titles())
    assert al.entry("shred").family.title == "queue discipline"


OF_LINUX = (
    *("linux-red", "choke", "gred", "sfb", "codel", "fq-codel", "cake", "cobalt"),
    *("pie", "fq-pie", "dualpi2", "sfq", "fq", "htb", "policer", "stab"),
)


@pytest.mark.parametrize("queue", OF_LINUX)
def test_a_queue_of_the_kernel_lists_how_it_differs_from_the_kernel(queue: str) -> None:
    page = pages(ROOT)[queue_pages.page_of(al.entry(queue))]
    section = page.split(f"\n## {queue}\n")[1].split("\n## ")[0]
    about, parameters = section.split("\nParameters:\n")
    title, listed = about.split("Differences from ", 1)[1].split(":\n\n", 1)
    assert "Linux" in title
    assert listed.count("\n- ") >= 1 and listed.startswith("- ")
    assert parameters.lstrip().startswith("- `")
    shown = describe(queue)
    assert f"Differences from {title}:\n- " in shown, "the terminal has the same list"


def test_the_reference_pages_name_every_entry_and_parameter() -> None:
    written = pages(ROOT)
    of_queues = {queue_pages.page_of(one) for one in members("queues")}
    assert set(written) == {f"{family}.md" for family in families()} | of_queues
    for family in families():
        for one in members(family):
            page = queue_pages.page_of(one) if family == "queues" else f"{family}.md"
            assert f"## {one.name}\n" in written[page] + "\n"


def test_every_default_of_a_queue_is_accepted_as_written() -> None:
    base = al.Scenario.from_dict(
        {"duration": "1s", "bottleneck": {"queue": {"kind": "drop-tail"}}, "traffic": {"a": {"kind": "ftp"}}}
    )
    for one in members("queues"):
        written = {row["name"]: row["default"] for row in one.parameters if row["default"] is not None}
        full = base.with_({"bottleneck.queue": {"kind": one.name, **written}})
        assert full.digest == base.with_({"bottleneck.queue": {"kind": one.name}}).digest


def test_a_list_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    lines = listed("queues")
    assert max(map(len, lines)) <= 80
    column = len("self-configuring-red") + 2
    assert all(line[column - 1] == " " != line[column] for line in lines)
    assert len(lines) > len(members("queues")), "long sentences go on in the next line"

"""Everything that has a name can be listed and shown, and says where its numbers come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

import aqmlab as al
from aqmlab.catalog import FAMILIES, studies
from aqmlab.cli import app
from aqmlab.reference import describe, pages

NAMES = [one.name for one in al.catalog()]


def rows(fields: Sequence[dict[str, Any]], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in fields:
        yield f"{path}.{row['name']}", row
        yield from rows(row.get("fields", ()), f"{path}.{row['name']}")


def test_names_are_unique_over_all_families() -> None:
    assert [name for name, times in Counter(NAMES).items() if times > 1] == []


def test_every_family_has_members_and_every_member_a_family() -> None:
    assert {one.family for one in al.catalog()} == set(FAMILIES.values())


def test_what_the_issue_names_is_there() -> None:
    assert {"drop-tail", "red", "shred", "ftp", "web", "replay", "udp", "tcp", "reno"} <= set(NAMES)
    assert {"rfc", "ns-2.35", "flows", "transfers", "pages", "drops", "queue", "gauges"} <= set(NAMES)


def test_every_parameter_has_a_meaning_a_kind_and_a_source() -> None:
    seen = 0
    for one in al.catalog():
        assert one.about.strip(), one.name
        for path, row in rows(one.parameters, one.name):
            assert row["doc"].strip(), path
            if one.family != "table":
                seen += 1
                assert row["kind"].strip(), path
                assert row["source"].strip(), path
                assert "default" in row, path
    assert seen > 80


def test_a_quantity_has_its_unit_in_its_default_and_its_kind() -> None:
    for one in al.catalog():
        for path, row in rows(one.parameters, one.name):
            if one.family != "table" and isinstance(row["default"], str) and row["kind"].startswith("time"):
                assert row["default"].endswith("s"), path
                assert "ms" in row["kind"], path


@pytest.mark.parametrize("name", NAMES)
def test_a_name_shows_every_parameter(name: str) -> None:
    one, text = al.entry(name), describe(name)
    assert text.startswith(f"{name} ({one.family})")
    for _, row in rows(one.parameters, name):
        assert row["name"] in text
    for key in one.values:
        assert key in text


def test_a_name_that_is_nearly_right_is_put_right() -> None:
    slips = {"shed": "shred", "droptail": "drop-tail", "ns2.35": "ns-2.35", "transfer": "transfers"}
    for wrong, right in slips.items():
        with pytest.raises(LookupError, match=f"did you mean .*{right}"):
            al.entry(wrong)
    with pytest.raises(LookupError, match=r"there is .*red"):
        al.entry("xyzzy")


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_family_lists_each_of_its_members_on_a_line(family: str) -> None:
    result = CliRunner().invoke(app, ["list", family])
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.output.splitlines()]
    assert listed == [one.name for one in al.catalog() if one.family == FAMILIES[family]]


def test_studies_are_listed_beside_the_catalogue() -> None:
    # A study may share its name with the queue it studies, so it is no entry of the catalogue.
    result = CliRunner().invoke(app, ["list", "studies"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(studies())
    assert al.entry("shred").family == "queue discipline"


def test_the_reference_pages_name_every_entry_and_parameter() -> None:
    written = pages()
    assert set(written) == {f"{family}.md" for family in FAMILIES}
    for file, family in FAMILIES.items():
        for one in al.catalog():
            if one.family == family:
                assert f"## {one.name}\n" in written[f"{file}.md"] + "\n"


def test_every_default_of_a_queue_is_accepted_as_written() -> None:
    base = al.Scenario.from_dict(
        {"duration": "1s", "bottleneck": {"queue": {"kind": "drop-tail"}}, "traffic": {"a": {"kind": "ftp"}}}
    )
    for one in al.catalog():
        if one.family == "queue discipline":
            written = {row["name"]: row["default"] for row in one.parameters if row["default"] is not None}
            full = base.with_({"bottleneck.queue": {"kind": one.name, **written}})
            assert full.digest == base.with_({"bottleneck.queue": {"kind": one.name}}).digest

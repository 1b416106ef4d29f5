"""Scenarios are loaded, changed and checked; what the author wrote stays as it is."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import aqmlab as al
from aqmlab.scenario import ScenarioFileError, parse_setting, settings_of

ROOT = Path(__file__).parent.parent


def test_a_file_becomes_a_scenario_with_every_default_filled_in(small: Path) -> None:
    scenario = al.Scenario.load(small)
    assert scenario.name == "small"
    assert scenario.given["bottleneck"]["queue"]["max_p"] == 0.1
    assert "gentle" not in scenario.given["bottleneck"]["queue"]
    queue = scenario.effective["bottleneck"]["queue"]
    assert queue["gentle"] is True
    assert queue["mean_packet"] == "974B"
    assert scenario.effective["access"] == {"rate": "100Mbps", "delay": "1ms"}
    assert scenario.queues == {"short": {"kind": "drop-tail", "admits": "what-fits", "limit": "5p"}}


@pytest.mark.parametrize("profile", ["rfc", "ns-2.35"])
def test_the_effective_scenario_is_the_same_scenario(small: Path, profile: str) -> None:
    scenario = al.Scenario.load(small).with_({"tcp.profile": profile})
    again = al.Scenario.from_dict(scenario.effective)
    assert again.effective == scenario.effective
    assert again.digest == scenario.digest


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_the_scenario_in_full_as_toml_is_the_same_scenario(path: Path) -> None:
    scenario = al.Scenario.load(path).with_({"tcp.profile": "ns-2.35"})
    again = al.Scenario.from_dict(tomllib.loads(scenario.to_toml()), files=scenario.files)
    assert again.effective == scenario.effective
    assert again.digest == scenario.digest


def test_a_parameter_without_its_default_is_none(small: Path) -> None:
    scenario = al.Scenario.load(small)
    assert "max_retries = 15\n" in scenario.to_toml()
    patient = scenario.with_({"tcp.connection.max_retries": "none"})
    assert 'max_retries = "none"\n' in patient.to_toml()
    assert patient.digest != scenario.digest


def test_a_default_written_out_does_not_change_the_digest_and_a_changed_value_does(small: Path) -> None:
    scenario = al.Scenario.load(small)
    assert scenario.with_({"bottleneck.queue.gentle": True}).digest == scenario.digest
    assert scenario.with_({"bottleneck.queue.gentle": False}).digest != scenario.digest
    assert scenario.with_({"seed": 4}).digest != scenario.digest


def test_with_leaves_the_original_alone(small: Path) -> None:
    scenario = al.Scenario.load(small)
    before = json.dumps(scenario.given)
    changed = scenario.with_(
        {"bottleneck.queue": {"kind": "shred"}, "traffic.web": None, "tcp.connection.mss": "1000B"}
    )
    assert changed.effective["bottleneck"]["queue"]["kind"] == "shred"
    assert list(changed.effective["traffic"]) == ["ftp"]
    assert changed.effective["tcp"]["connection"]["mss"] == "1kB"
    assert json.dumps(scenario.given) == before
    assert scenario.effective["bottleneck"]["queue"]["kind"] == "red"


def test_with_does_not_share_tables_with_its_caller(small: Path) -> None:
    queue = {"kind": "drop-tail", "limit": "7p"}
    changed = al.Scenario.load(small).with_({"bottleneck.queue": queue})
    queue["limit"] = "9p"
    assert changed.given["bottleneck"]["queue"]["limit"] == "7p"


def test_a_wrong_change_is_refused_with_its_place(small: Path) -> None:
    scenario = al.Scenario.load(small)
    with pytest.raises(al.ScenarioError, match=r"exceed min_th \(5p\)") as caught:
        scenario.with_({"bottleneck.queue.max_th": "4p"})
    assert caught.value.path == "bottleneck.queue.max_th"
    assert caught.value.problem == "must exceed min_th (5p)"
    with pytest.raises(al.ScenarioError, match="`seed` is not a table") as caught:
        scenario.with_({"seed.of": 3})
    assert caught.value.path == "seed.of"


def test_a_settings_value_is_toml_or_plain_text() -> None:
    assert parse_setting("bottleneck.queue.max_p=0.2") == ("bottleneck.queue.max_p", 0.2)
    assert parse_setting("a = [1, 2]") == ("a", [1, 2])
    assert parse_setting("a=true") == ("a", True)
    assert parse_setting("a=20ms") == ("a", "20ms")
    assert parse_setting('a="20ms"') == ("a", "20ms")
    assert parse_setting("a=b=c") == ("a", "b=c")
    assert parse_setting('a={ kind = "shred" }') == ("a", {"kind": "shred"})
    for text in ["", "a", "=3", " = 3"]:
        with pytest.raises(ValueError, match="path=value"):
            parse_setting(text)


def test_later_settings_build_on_earlier_ones(small: Path) -> None:
    scenario = al.Scenario.load(small, settings_of(["bottleneck.rate=3Mbps", "bottleneck.rate=4Mbps"]))
    assert scenario.effective["bottleneck"]["rate"] == "4Mbps"


def test_a_file_named_by_a_scenario_is_read_from_its_folder_and_part_of_its_digest(tmp_path: Path) -> None:
    text = '[bottleneck.queue]\nkind = "drop-tail"\n[traffic.replayed]\nkind = "replay"\n'
    text += 'file = "in/times.csv"\n'
    path = tmp_path / "replay.toml"
    path.write_text('duration = "5s"\n' + text, encoding="utf-8")
    with pytest.raises(ScenarioFileError, match=r"times\.csv: cannot be read: No such file"):
        al.Scenario.load(path)
    (tmp_path / "in").mkdir()
    schedule = tmp_path / "in" / "times.csv"
    schedule.write_text("0.5,3000\n1.5,90000\n", encoding="utf-8")
    scenario = al.Scenario.load(path)
    run = scenario.run()
    assert run.transfers["start_s"].to_list() == [0.5, 1.5]
    assert run.transfers["size_bytes"].to_list() == [3000, 90000]
    schedule.write_text("0.5,3000\n1.5,90001\n", encoding="utf-8")
    assert al.Scenario.load(path).digest != scenario.digest
    schedule.write_bytes(b"0.5,3000\n\xff")
    with pytest.raises(ScenarioFileError, match=r"times\.csv: byte 9: is not UTF-8"):
        al.Scenario.load(path)


def test_a_scenario_shows_itself_in_a_notebook(small: Path) -> None:
    scenario = al.Scenario.load(small).with_({"traffic.a+b": {"kind": "ftp"}})
    shown = scenario._repr_html_()
    assert "<b>Scenario small</b>" in shown
    assert ">bottleneck.queue.min_th</td>" in shown and ">5p</td>" in shown


def test_a_word_for_a_queue_stands_for_its_table_and_replaces_all_of_it(small: Path) -> None:
    scenario = al.Scenario.load(small)
    word = scenario.with_({"bottleneck.queue": "codel"})
    assert word.given["bottleneck"]["queue"] == {"kind": "codel"}
    assert word.digest == scenario.with_({"bottleneck.queue": {"kind": "codel"}}).digest
    own = scenario.with_({"bottleneck.queue": "short", "bottleneck.queue.limit": "7p"})
    assert own.effective["bottleneck"]["queue"]["limit"] == "7p"
    assert own.queues["short"]["limit"] == "5p", "the alternative stays as it is"
    policed = scenario.with_({"bottleneck.queue": "policer", "bottleneck.queue.queue": "pie"})
    assert policed.effective["bottleneck"]["queue"]["queue"]["kind"] == "pie"
    with pytest.raises(
        al.ScenarioError, match=r"bottleneck\.queue: no queue is named `codle`: did you mean codel"
    ):
        scenario.with_({"bottleneck.queue": "codle"})
    assert al.Scenario.load(small, settings_of(["bottleneck.queue=codel"])).digest == word.digest


def test_arguments_of_the_wrong_type_are_named(small: Path) -> None:
    scenario = al.Scenario.load(small)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: scenario.with_(None), r"changes: must be a dictionary such as \{\"bottleneck"),  # type: ignore
        (lambda: scenario.with_({3: 4}), r"changes: keys must be strings \(got 3\)"),  # type: ignore[dict-item]
        (lambda: scenario.run(seed="1"), r"seed: must be a whole number of at least 0 \(got '1'\)"),  # type: ignore
        (lambda: scenario.run(seed=-1), r"seed: must be a whole number of at least 0 \(got -1\)"),
        (lambda: al.Scenario.from_dict("a"), "table: must be a dictionary such as"),  # type: ignore[arg-type]
        (
            lambda: al.Scenario.load(3),
            r"path: must be the path of a file or the name of a scenario \(got 3\)",
        ),  # type: ignore
        (lambda: al.Scenario.load(small, ["a=1"]), "changes: must be a dictionary"),  # type: ignore[arg-type]
    ]
    for call, said in calls:
        with pytest.raises(ValueError, match=said):
            call()


def test_a_sweep_takes_its_scenario_first(small: Path) -> None:
    scenario = al.Scenario.load(small)
    assert len(al.Sweep(scenario, axes={"queue": ["red", "short"]})) == 2


def test_a_workload_of_a_dumbbell_may_send_from_right_to_left() -> None:
    link = {"rate": "8Mbps", "delay": "5ms", "queue": {"kind": "drop-tail", "limit": "20p"}}
    dumbbell = {
        "duration": "5s",
        "warm_up": "1s",
        "bottleneck": {**link, "reverse": {**link, "rate": "1Mbps"}},
    }

    def scenario(**nodes: str) -> al.Scenario:
        return al.Scenario.from_dict(
            {**dumbbell, "traffic": {"file": {"kind": "ftp", "stagger": "0s", **nodes}}}
        )

    usual, back = scenario(), scenario(**{"from": "right"})
    assert scenario(**{"from": "left", "to": "right"}).plan.digest() == usual.plan.digest()
    assert "from" not in usual.effective["traffic"]["file"]
    assert (back.effective["traffic"]["file"]["from"], back.effective["traffic"]["file"]["to"]) == (
        "right",
        "left",
    )
    again = al.Scenario.from_dict(back.effective)
    assert again.plan.digest() == back.plan.digest() != usual.plan.digest()
    assert usual.run().tables["flows"]["goodput_bps"][0] > 2e6
    assert 0.5e6 < back.run().tables["flows"]["goodput_bps"][0] < 1e6

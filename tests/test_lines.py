"""Lines that change, as a user meets them: files with mistakes, the made-up trace, the picture of a queue."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.run_charts import queue_delay
from aqmlab.scenario import ScenarioFileError
from aqmlab.traces import link_trace

SCENARIOS = Path(__file__).parent.parent / "scenarios"


def scenario(line: str, more: str = "") -> str:
    return (
        'duration = "4s"\n'
        f'[bottleneck]\nrate = "8Mbps"\ndelay = "5ms"\nqueue = {{ kind = "drop-tail" }}\n{line}\n{more}\n'
        '[traffic.one]\nkind = "udp"\nrate = "4Mbps"\n'
    )


BAD_LINES = {
    "a rate with a word": (
        'rate_file = "f"',
        "0,8e6\n1,fast\n",
        "rate_file: line 2: `fast` is not",
    ),
    "times that go back": (
        'rate_file = "f"',
        "0,8e6\n2,9e6\n1,8e6\n",
        "bottleneck.rate_file: line 3: must be later than the time on the previous line, 2s (got `1`)",
    ),
    "no rate for ever": (
        'rate_file = "f"',
        "0,0\n5,0\n",
        "bottleneck.rate_file: never allows the link to send",
    ),
    "a negative rate": (
        'rate_file = "f"',
        "0,-8\n",
        "rate_file: line 1: `-8bps` must be",
    ),
    "milliseconds with a point": (
        'opportunities = { file = "f" }',
        "1\n2.5\n",
        "bottleneck.opportunities.file: line 2: must be a whole number of milliseconds (got `2.5`)",
    ),
    "a step too many": (
        'rate_repeat = "1s"\nrate_steps = [{ at = "1s", rate = "1Mbps" }]',
        "",
        "bottleneck.rate_repeat: must be later than the last step at 1s (got 1s)",
    ),
    "negative loss": (
        "loss = { probability = -0.1 }",
        "",
        "loss.probability: must be between 0 and 1 (got -0.1)",
    ),
    "loss in two ways": (
        "loss = { probability = 0.1, p = 0.1, r = 0.2 }",
        "",
        "loss: set either",
    ),
    "an outage that ends before it begins": (
        'outages = [{ from = "2s", until = "1s" }]',
        "",
        "bottleneck.outages.0.until: must be later than `from`",
    ),
    "a key that is misspelt": ("rate_step = []", "", "did you mean `rate_steps`?"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_refused_with_its_place_and_what_is_allowed(case: str, tmp_path: Path) -> None:
    line, content, told = BAD_LINES[case]
    (tmp_path / "f").write_text(content, encoding="utf-8")
    path = tmp_path / "bad.toml"
    path.write_text(scenario(line), encoding="utf-8")
    with pytest.raises(ScenarioFileError) as caught:
        al.Scenario.load(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_line_without_a_queue_does_not_change(tmp_path: Path) -> None:
    back = '[bottleneck.reverse]\noutages = [{ from = "1s" }]\n'
    (tmp_path / "bad.toml").write_text(scenario("", back), encoding="utf-8")
    with pytest.raises(ScenarioFileError, match=r"reverse\.queue: is missing: a link without a queue"):
        al.Scenario.load(tmp_path / "bad.toml")


def test_the_trace_of_the_phone_is_what_its_scenario_says_made_it(cli: Cli, tmp_path: Path) -> None:
    text = (SCENARIOS / "phone.toml").read_text(encoding="utf-8")
    words = re.search(r"aqmlab (link generate .*) --out", text)
    assert words
    done = cli(*words[1].split(), "--out", "made.trace")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made.trace").read_bytes() == (SCENARIOS / "phone.trace").read_bytes()


def test_made_up_opportunities_wander_around_their_mean() -> None:
    counts = [len(list(link_trace.opportunities(6e6, 20, seed))) for seed in range(40)]
    rates = [8 * link_trace.BYTES * count / 20 for count in counts]
    assert sum(rates) / len(rates) == pytest.approx(6e6, rel=0.15)
    assert min(rates) < 4e6 < 8e6 < max(rates)
    times = list(link_trace.opportunities(6e6, 5, 1))
    assert times == sorted(times)
    assert times[-1] <= 5000
    with pytest.raises(ValueError, match="--rate: must be at most 24Mbps"):
        list(link_trace.opportunities(25e6, 1, 1))


def test_the_picture_of_a_queue_shows_waits_and_steps(cli: Cli, tmp_path: Path) -> None:
    steps = 'rate_repeat = "2s"\nrate_steps = [{ at = "0s", rate = "8Mbps" }, { at = "1s", rate = "2Mbps" }]'
    path = tmp_path / "steps.toml"
    path.write_text(scenario(steps), encoding="utf-8")
    done = cli("plot", "queue-delay", path, "--out", "delay.png", "--every", "500ms")
    assert done.returncode == 0, done.stderr
    drawn = pl.read_csv(tmp_path / "delay.csv")
    waits = dict(zip(drawn["time_s"].to_list(), drawn["wait_ms"].to_list(), strict=True))
    # Half the fast rate leaves no queue; twice the slow one makes it grow as long as it lasts.
    assert waits[0.75] == 0
    assert waits[1.75] > waits[1.25] > 50
    done = cli("plot", "queue-delay", path, "--out", "one.png", "--every", "500ms", "--traffic", "one")
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "one.csv").equals(drawn), "all packets are of this workload"
    chosen = al.Scenario.load(path)
    told = [(0.0, "8Mbps"), (1.0, "2Mbps"), (2.0, "8Mbps"), (3.0, "2Mbps")]
    assert queue_delay.rate_steps(chosen, "bottleneck") == told
    often = chosen.with_({"duration": "60s"})
    assert queue_delay.rate_steps(often, "bottleneck") == []
    with pytest.raises(KeyError, match="middle"):
        queue_delay.rate_steps(chosen, "middle")
    for arguments, said in [
        (["--at", "middle"], "no link with a queue is named `middle`: available: bottleneck"),
        (["--traffic", "two"], "no workload is named `two`: available: one"),
        (["--every", "0s"], "--every: must be greater than 0s"),
        (["--every", "3Mbps"], "--every: must be a time, such as 90s (got 3Mbps)"),
    ]:
        done = cli("plot", "queue-delay", path, *arguments)
        assert done.returncode == 2
        assert said in done.stderr

"""Uses of a line, and the measures that describe how well the line serves each use.

A use applies to the workloads of a scenario that provide one of its measures. If a scenario has no such
workload, the use is refused, and no traffic is added: additional traffic changes the load of the line and
therefore the advice, so that the traffic must be visible in the person's scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aqmlab import measures
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.names import hint, listed
from aqmlab.metrics.outcome import PROFILES

if TYPE_CHECKING:
    from aqmlab.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Use:
    """A use of a line."""

    name: str
    summary: str
    measures: Mapping[str, bool]
    """The last parts of the names of measures, in order of preference, and whether larger values are better.
    The first measure that a workload has describes the use of this workload."""
    needs: str
    """The traffic that a scenario needs for this use."""


_TEST = 'a workload with kind = "responsiveness"'

USES: Mapping[str, Use] = {
    use.name: use
    for use in (
        Use(
            name="web",
            summary="load time of pages",
            measures={"load-time": False, "mean-page": False},
            needs='a workload that fetches pages, such as kind = "sessions"',
        ),
        Use(
            name="calls",
            summary="mean opinion score of voice calls, and frozen time of video calls",
            measures={"mos": True, "frozen": False},
            needs='a workload with kind = "call" or "video-call"',
        ),
        Use(
            name="video",
            summary="time for which adaptive video stands still",
            measures={"stalled": False},
            needs='a workload with kind = "video"',
        ),
        Use(
            name="games",
            summary="late datagrams, or the 99th percentile of their delay",
            measures={"late": False, "p99-delay": False},
            needs='a workload of datagrams, such as kind = "udp"',
        ),
        Use(
            name="downloads",
            summary="goodput of endless downloads",
            measures={"goodput": True},
            needs='a workload of endless transfers, such as kind = "ftp"',
        ),
        Use(
            name="uploads",
            summary="goodput of endless uploads",
            measures={"goodput": True},
            needs='a workload of endless transfers from the node "right"',
        ),
        Use(
            name="responsiveness",
            summary="round trips per minute under load (RPM)",
            measures={"rpm": True},
            needs=_TEST,
        ),
        Use(
            name="bufferbloat",
            summary="grade of bufferbloat, from 0 (A+) to 5 (F)",
            measures={"grade": False},
            needs=f"{_TEST} and requests on the idle line (`idle_probes`)",
        ),
        *(
            Use(
                name=f"qoo-{name}",
                summary=f"Quality of Outcome of {profile.title}",
                measures={f"qoo-{name}": True},
                needs=f"{_TEST} and echoes (`echo_every`)",
            )
            for name, profile in PROFILES.items()
        ),
    )
}
"""The uses by name."""

HOME = "right"
"""The node at which the home is: workloads that send from this node are uploads (as in scenarios of `link
new`)."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A measure of a workload that describes a use."""

    use: str
    traffic: str
    measure: str
    """Name of the measure."""
    title: str
    unit: str
    more_is_better: bool

    @property
    def label(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def names(self) -> tuple[str, str, str]:
        """The names with which a constraint may select the score."""
        return self.use, self.measure, f"{self.use}={self.traffic}"


def recorded(scenario: Scenario) -> Scenario:
    """Returns the scenario in which the histories of all workloads of datagrams are recorded, which the
    measures of calls and games need. Recording does not change results."""
    kept = list(scenario.effective["record"]["histories"])
    missing = [
        name
        for name, one in scenario.workloads.items()
        if one.sends_datagrams and one.video_call is None and name not in kept
    ]
    return scenario.with_({"record.histories": [*kept, *missing]}) if missing else scenario


def scores(scenario: Scenario, wanted: str | Sequence[str]) -> list[Score]:
    """Returns the scores for uses, in the order of the uses. Each use is a name in `USES`, or `NAME=WORKLOAD`
    for one workload of several. The scenario must be a result of `recorded`.

    Raises `ValueError` for an unknown use, and for a use that no workload of the scenario provides."""
    known = measures.of_scenario(scenario)
    mistakes = Mistakes()
    found: list[Score] = []
    for text in listed(wanted) if isinstance(wanted, str) else wanted:
        found += mistakes.attempt(lambda text=text: _scores(scenario, text, known), [])  # type: ignore[misc]
    mistakes.finish()
    if not found:
        raise ValueError(f"--for: must name at least one use; available: {_available(scenario, known)}")
    names = [one.measure for one in found]
    if len(set(names)) < len(names):
        raise ValueError("--for: a use occurs twice: write each use once")
    return found


def _scores(scenario: Scenario, text: str, known: Mapping[str, measures.Measure]) -> list[Score]:
    name, _, traffic = text.partition("=")
    if name not in USES:
        raise ValueError(f"--for: no use is named `{name}`: {hint(name, USES)}")
    if traffic and traffic not in scenario.workloads:
        raise ValueError(
            f"--for {text}: no workload is named `{traffic}`: {hint(traffic, scenario.workloads)}"
        )
    found = _of_use(scenario, USES[name], known, traffic or None)
    if not found:
        lacks = f"`{traffic}` is not" if traffic else f"{scenario.name} does not have"
        raise ValueError(
            f"--for {text}: needs {USES[name].needs}, which {lacks}; available: {_available(scenario, known)}"
        )
    return found


def _of_use(
    scenario: Scenario, use: Use, known: Mapping[str, measures.Measure], traffic: str | None = None
) -> list[Score]:
    found = []
    for name in scenario.workloads if traffic is None else [traffic]:
        if traffic is None and not _serves(scenario, use, name):
            continue
        for last, more in use.measures.items():
            one = known.get(f"{name}.{last}")
            if one is not None:
                found.append(
                    Score(
                        use=use.name,
                        traffic=name,
                        measure=one.name,
                        title=one.title or one.name,
                        unit=one.unit,
                        more_is_better=more,
                    )
                )
                break
    return found


def _serves(scenario: Scenario, use: Use, name: str) -> bool:
    """Returns whether a workload serves a use, if the person does not name the workload."""
    workload = scenario.workloads[name]
    if use.name in ("downloads", "uploads"):
        is_up = scenario.effective["traffic"][name].get("from") == HOME
        return workload.is_endless and not workload.sends_datagrams and is_up == (use.name == "uploads")
    if use.name == "games":
        return workload.sends_datagrams and workload.call is None and workload.video_call is None
    return True


def _available(scenario: Scenario, known: Mapping[str, measures.Measure]) -> str:
    served = {name: [one.traffic for one in _of_use(scenario, use, known)] for name, use in USES.items()}
    words = [f"{name} ({', '.join(traffic)})" for name, traffic in served.items() if traffic]
    return ", ".join(words) or "no use"


def score_of(scenario: Scenario, name: str, *, more_is_better: bool) -> list[Score]:
    """Returns the scores of a use, or a measure of the scenario as a score. `more_is_better` applies to a
    measure. Raises `ValueError` if the name is neither a use nor a measure."""
    known = measures.of_scenario(scenario)
    if name.partition("=")[0] in USES:
        return scores(scenario, [name])
    if name not in known:
        raise ValueError(f"no use or measure is named `{name}`: {hint(name, [*USES, *known])}")
    one = known[name]
    return [
        Score(
            use=name,
            traffic=name.rpartition(".")[0],
            measure=name,
            title=one.title or name,
            unit=one.unit,
            more_is_better=more_is_better,
        )
    ]

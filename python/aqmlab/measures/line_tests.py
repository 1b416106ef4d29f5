"""The measures of tests of responsiveness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aqmlab._support.run import Run
from aqmlab.measures.measure import Measure, View, scaled

Rows = Sequence[tuple[str, str, str, Callable[[Any], float | None]]]
"""Name, title, unit and function of measures."""


def of_test(traffic: str, settings: Mapping[str, Any]) -> list[Measure]:
    """Returns the measures of a workload with these settings (`Workload.responsiveness`)."""
    from aqmlab.metrics import line_tests

    def test(view: View) -> Any:
        def of(run: Run) -> Any:
            return line_tests.LineTest.of(run.tables, traffic, settings)

        return view.once(of, ("line test", traffic))

    def computed(of: Callable[[Any], float | None]) -> Callable[[View], float | None]:
        return lambda view: of(test(view))

    rows = [*_rounds(settings), *_times(settings), *_scores(settings)]
    return [
        Measure(name=f"{traffic}.{name}", title=f"{traffic} {title}", unit=unit, compute=computed(of))
        for name, title, unit, of in rows
    ]


def _rounds(settings: Mapping[str, Any]) -> Rows:
    directions = settings["directions"]

    def least(test: Any) -> float | None:
        found = [test.rpm(direction) for direction in directions]
        return min(found) if None not in found else None

    def of(direction: str) -> Rows:
        return [
            (f"{direction}-rpm", f"{direction} responsiveness", "RPM", lambda test: test.rpm(direction)),
            (
                f"{direction}-foreign-rpm",
                f"{direction} responsiveness of new connections",
                "RPM",
                lambda test: test.rounds(direction).foreign_rpm(test.settings.trim),
            ),
            (
                f"{direction}-self-rpm",
                f"{direction} responsiveness of loaded connections",
                "RPM",
                lambda test: test.rounds(direction).loaded_rpm(test.settings.trim),
            ),
            (
                f"{direction}-rate",
                f"{direction} rate",
                "Mbps",
                lambda test: scaled(test.rate_bps(direction), 1e-6),
            ),
        ]

    title = "responsiveness of the line" if len(directions) == 1 else "responsiveness, lesser direction"
    return [("rpm", title, "RPM", least), *(row for direction in directions for row in of(direction))]


def _times(settings: Mapping[str, Any]) -> Rows:
    from aqmlab.metrics.line_tests import IDLE

    found: list[tuple[str, str, str, Callable[[Any], float | None]]] = []
    if settings["has_idle"]:
        found += [
            ("idle-latency", "latency without load", "ms", lambda test: scaled(test.latency_s(IDLE), 1e3)),
            ("jitter", "jitter without load", "ms", lambda test: scaled(test.jitter_s(), 1e3)),
            (
                "latency-increase",
                "increase of the latency",
                "ms",
                lambda test: scaled(test.increase_s(), 1e3),
            ),
            ("base-delay", "base delay", "ms", lambda test: scaled(test.base_s(), 1e3)),
            ("host-delay", "delay in the hosts", "ms", lambda test: scaled(test.host_s(), 1e3)),
        ]

    def of(direction: str) -> Rows:
        loaded: Rows = [
            (
                f"{direction}-latency",
                f"latency during the {direction}",
                "ms",
                lambda test: scaled(test.latency_s(direction), 1e3),
            ),
            (
                f"{direction}-own-queue",
                f"delay behind own data during the {direction}",
                "ms",
                lambda test: scaled(test.own_queue_s(direction), 1e3),
            ),
        ]
        queue: Rows = [
            (
                f"{direction}-queue",
                f"queueing delay during the {direction}",
                "ms",
                lambda test: scaled(test.queue_s(direction), 1e3),
            )
        ]
        return [*loaded, *(queue if settings["has_idle"] else [])]

    return [*found, *(row for direction in settings["directions"] for row in of(direction))]


def _scores(settings: Mapping[str, Any]) -> Rows:
    from aqmlab.metrics import aim, bufferbloat
    from aqmlab.metrics.outcome import PROFILES

    def grade(test: Any) -> int | None:
        increase = test.increase_s()
        return None if increase is None else bufferbloat.rank(increase)

    def points(name: str) -> Callable[[Any], float | None]:
        return lambda test: test.aim(name)

    def outcome(name: str) -> Callable[[Any], float | None]:
        return lambda test: test.outcome(PROFILES[name])

    found: list[tuple[str, str, str, Callable[[Any], float | None]]] = []
    if settings["has_idle"]:
        found.append(("grade", "grade of bufferbloat, 0 (A+) to 5 (F)", "", grade))
    if not missing_for_aim(settings):
        found += [(f"aim-{name}", f"AIM score, {name}", "points", points(name)) for name in aim.SCORES]
    if settings["has_echoes"]:
        found.append(("loss", "echoes lost under load", "%", lambda test: scaled(test.loss(), 100)))
        found += [
            (f"qoo-{name}", f"Quality of Outcome, {profile.title}", "%", outcome(name))
            for name, profile in PROFILES.items()
        ]
    return found


def missing_for_aim(settings: Mapping[str, Any]) -> list[str]:
    """Returns what a test must also do so that the scores of AIM exist."""
    missing = []
    if not settings["has_idle"]:
        missing.append("requests on the idle line (`idle_probes`)")
    if set(settings["directions"]) != {"download", "upload"}:
        missing.append('both directions (`directions = "both"`)')
    if not settings["has_echoes"]:
        missing.append("echoes (`echo_every`)")
    return missing


def unrecorded(traffic: str, what: str, settings: Mapping[str, Any]) -> str | None:
    """Returns an error message if a test with other settings would have the measure `what`; otherwise,
    returns `None`."""
    complete = {**settings, "directions": ["download", "upload"], "has_idle": True, "has_echoes": True}
    rows = [*_rounds(complete), *_times(complete), *_scores(complete)]
    if what not in {name for name, *_ in rows}:
        return None
    if what.startswith("aim-"):
        missing = missing_for_aim(settings)
    elif what.startswith("qoo-") or what == "loss":
        missing = ["echoes (`echo_every`)"]
    elif what.startswith(("download-", "upload-")) and what.split("-")[0] not in settings["directions"]:
        missing = [f"the direction {what.split('-')[0]} (`directions`)"]
    else:
        missing = ["requests on the idle line (`idle_probes`)"]
    return f"{traffic}.{what} needs {' and '.join(missing)} of the workload {traffic}"

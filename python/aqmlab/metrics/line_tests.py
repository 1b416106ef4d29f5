"""Computes the results of tests of responsiveness from the tables `test_probes` and `test_intervals`.

A direction is measured at its end: the probes of the last intervals count, whose number is the workload's
`moving_average`. At that time, the line is fully loaded. The probes of the phase `idle` describe the line
without load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aqmlab.metrics import aim, outcome
from aqmlab.metrics.responsiveness import Rounds
from aqmlab.metrics.tables import Floats, Tables, finite

TABLES = frozenset({"test_probes", "test_intervals"})
"""Tables that only runs with tests of responsiveness have."""

IDLE, DOWNLOAD, UPLOAD = "idle", "download", "upload"
"""The phases of a test."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of a test, as in `Workload.responsiveness`."""

    directions: Sequence[str]
    """The phases with load."""
    has_idle: bool
    """Whether the test measures the idle line."""
    has_echoes: bool
    """Whether the test sends echoes."""
    tls: bool
    """Whether connections use TLS."""
    window_s: float
    """Duration of the last intervals of a direction, whose probes count."""
    intervals: int
    """Number of these intervals."""
    trim: float
    """Share of the samples that the trimmed means keep."""


@dataclass(frozen=True)
class LineTest:
    """The probes and intervals of one test."""

    probes: pl.DataFrame
    intervals: pl.DataFrame
    settings: Settings

    @classmethod
    def of(cls, tables: Tables, traffic: str, settings: Settings | Mapping[str, Any]) -> LineTest:
        """Selects the test of a workload."""
        if not isinstance(settings, Settings):
            settings = Settings(**settings)
        ours = pl.col("traffic").cast(pl.String) == traffic
        words = pl.col("phase").cast(pl.String)
        probes = tables["test_probes"].filter(ours).with_columns(words, pl.col("probe").cast(pl.String))
        return cls(probes, tables["test_intervals"].filter(ours).with_columns(words), settings)

    # Selection of probes

    def _last(self, direction: str) -> pl.DataFrame:
        """Returns the intervals of a direction."""
        return self.intervals.filter(pl.col("phase") == direction)

    def _window(self, direction: str) -> pl.DataFrame:
        """Returns the probes that began in the last intervals of a direction."""
        rows = self._last(direction)
        if not rows.height:
            return self.probes.clear()
        end_s = float(rows["time_s"].to_numpy().max())
        at = pl.col("time_s")
        # The subtraction of a microsecond keeps a probe at the exact begin of the window.
        within = (at >= end_s - self.settings.window_s - 1e-6) & (at <= end_s)
        return self.probes.filter((pl.col("phase") == direction) & within)

    def _rows(self, phase: str, probe: str) -> pl.DataFrame:
        rows = self.probes.filter(pl.col("phase") == IDLE) if phase == IDLE else self._window(phase)
        return rows.filter(pl.col("probe") == probe)

    def _times(self, phase: str, probe: str, column: str = "response_s") -> Floats:
        """Returns the durations (s) of the complete probes of a kind, in order."""
        rows = self._rows(phase, probe)
        complete = rows.filter(pl.col("response_s").is_not_null())
        return complete[column].drop_nulls().to_numpy().astype(np.float64)

    # Responsiveness

    def rounds(self, direction: str) -> Rounds:
        """Returns the times from which the responsiveness of a direction is computed."""
        return Rounds(
            tcp=self._times(direction, "foreign", "tcp_s"),
            tls=self._times(direction, "foreign", "tls_s"),
            http=self._times(direction, "foreign"),
            loaded=self._times(direction, "self"),
        )

    def rpm(self, direction: str) -> float | None:
        """Returns the responsiveness of a direction in round trips per minute."""
        return _known(self.rounds(direction).rpm(self.settings.trim))

    def confidence(self, direction: str) -> str | None:
        """Returns the confidence in the responsiveness of a direction (draft, section 5.4.1): `high` if the
        responsiveness became stable, `low` if there were fewer intervals after the goodput had become stable
        than the moving average has, and `medium` otherwise."""
        rows = self._last(direction)
        if not rows.height:
            return None
        if rows["rpm_stable"].any():
            return "high"
        # The responsiveness is judged after the interval in which the goodput has become stable.
        judged = int(rows["goodput_stable"].sum()) - 1
        return "low" if judged < self.settings.intervals else "medium"

    # Rates, latencies and losses

    def rate_bps(self, direction: str) -> float | None:
        """Returns the goodput (bits per second) over the last intervals of a direction."""
        rows = self._last(direction)
        return float(rows["goodput_bps"][-1]) if rows.height else None

    def latency_s(self, phase: str) -> float | None:
        """Returns the median duration of a request on a connection of its own."""
        return _median(self._times(phase, "foreign"))

    def jitter_s(self) -> float | None:
        """Returns the mean difference between successive requests on the idle line."""
        times = self._times(IDLE, "foreign")
        return float(np.abs(np.diff(times)).mean()) if times.size > 1 else None

    def increase_s(self) -> float | None:
        """Returns the latency of the loaded line minus the latency of the idle line, for the worse
        direction."""
        idle = self.latency_s(IDLE)
        loaded = [self.latency_s(direction) for direction in self.settings.directions]
        known = [one for one in loaded if one is not None]
        return None if idle is None or len(known) < len(loaded) else max(known) - idle

    def echoes(self, phases: Sequence[str]) -> tuple[Floats, float | None]:
        """Returns the round-trip times (s) of the echoes in these phases, and the share of lost echoes. In
        each phase, echoes that were sent after the last returned echo are left out, because these echoes may
        have been under way when the run ended."""
        times, sent = [], 0
        for phase in phases:
            answered = self._rows(phase, "echo")["response_s"].is_not_null().to_numpy()
            sent += int(np.flatnonzero(answered)[-1]) + 1 if answered.any() else answered.size
            times.append(self._times(phase, "echo"))
        found = np.concatenate(times) if times else np.zeros(0)
        return found, 1 - found.size / sent if sent else None

    def loss(self) -> float | None:
        """Returns the share of lost echoes on the loaded line."""
        return self.echoes(self.settings.directions)[1]

    # Scores

    def outcome(self, profile: outcome.Profile) -> float | None:
        """Returns the Quality of Outcome (0 to 100) for round trips on the loaded line."""
        times, lost = self.echoes(self.settings.directions)
        return None if lost is None else outcome.outcome(times, lost, profile).score

    def aim(self, name: str) -> int | None:
        """Returns the points of a score of AIM. As in Cloudflare's speed test, the loss is the loss of the
        idle line."""
        values = {
            "latency": self.latency_s(IDLE),
            "jitter": self.jitter_s(),
            "loss": self.echoes([IDLE])[1],
            "download": self.rate_bps(DOWNLOAD),
            "increase": self.increase_s(),
        }
        known = {key: value for key, value in values.items() if value is not None}
        return aim.SCORES[name].of(aim.Line(**known)) if len(known) == len(values) else None

    # Parts of the latency

    def base_s(self) -> float | None:
        """Returns the shortest TCP handshake on the idle line: propagation and transmission."""
        times = self._times(IDLE, "foreign", "tcp_s")
        return float(times.min()) if times.size else None

    def queue_s(self, direction: str) -> float | None:
        """Returns the median TCP handshake on the loaded line minus the base delay: the queues of the
        network, for packets of a new connection."""
        handshake, base = _median(self._times(direction, "foreign", "tcp_s")), self.base_s()
        return None if base is None or handshake is None else handshake - base

    def own_queue_s(self, direction: str) -> float | None:
        """Returns the median request on a connection that generates load, minus the median request on a
        connection of its own: the time behind the connection's own data, in hosts and in queues for each
        flow."""
        own, foreign = (_median(self._times(direction, probe)) for probe in ("self", "foreign"))
        return None if own is None or foreign is None else own - foreign

    def host_s(self) -> float | None:
        """Returns the median difference between a request and the TCP handshake of the same connection on the
        idle line: the processing in the hosts, and the longer transmission of larger packets."""
        rows = self._rows(IDLE, "foreign").filter(pl.col("response_s").is_not_null())
        return _median((rows["response_s"] - rows["tcp_s"]).drop_nulls().to_numpy().astype(np.float64))


def _median(times: Floats) -> float | None:
    return float(np.median(times)) if times.size else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def summary(test: LineTest) -> dict[str, Any]:
    """Returns the summary of a test in a run's summary."""
    found: dict[str, Any] = {
        "idle_latency_s": test.latency_s(IDLE),
        "jitter_s": test.jitter_s(),
        "directions": {
            direction: {
                "rpm": test.rpm(direction),
                "confidence": test.confidence(direction),
                "rate_bps": test.rate_bps(direction),
                "latency_s": test.latency_s(direction),
            }
            for direction in test.settings.directions
        },
        "increase_s": test.increase_s(),
        "loss": test.loss(),
        "aim": {name: test.aim(name) for name in aim.SCORES},
        "outcome": {name: test.outcome(profile) for name, profile in outcome.PROFILES.items()},
    }
    plain: dict[str, Any] = finite(found)
    return plain

"""Computes the responsiveness of a line in round trips per minute (RPM) from the durations of probes.

Source: C. Paasch, R. Meyer, S. Cheshire, W. Hawkins, "Responsiveness under Working Conditions",
draft-ietf-ippm-responsiveness-09, 2025, section 5.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aqmlab.metrics.tables import Floats

KEPT = 0.95
"""Share of the samples that the trimmed mean keeps (`TMP`)."""


def trimmed_mean(samples: Floats, kept: float = KEPT) -> float:
    """Returns the mean of the smallest samples, which are `kept` of all samples. The number of kept samples
    is rounded up, so that the largest kept sample is the percentile by nearest rank. Returns NaN if there are
    no samples."""
    if not samples.size:
        return math.nan
    # The subtraction prevents a rounding error of the product from keeping another sample.
    count = math.ceil(kept * samples.size - 1e-9)
    return float(np.sort(samples)[:count].mean())


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The times (s) of the probes from which a responsiveness is computed."""

    tcp: Floats
    """TCP handshakes of foreign probes (`tcp_f`)."""
    tls: Floats
    """TLS handshakes of foreign probes (`tls_f`), per round trip; empty if the probes do not use TLS."""
    http: Floats
    """Requests of foreign probes, which use their own connections (`http_f`)."""
    loaded: Floats
    """Requests on the connections that generate the load (`http_l`)."""

    def foreign_rpm(self, kept: float = KEPT) -> float:
        """Returns the responsiveness on separate connections."""
        parts = [self.tcp, self.tls, self.http] if self.tls.size else [self.tcp, self.http]
        return rpm_of(sum(trimmed_mean(one, kept) for one in parts) / len(parts))

    def loaded_rpm(self, kept: float = KEPT) -> float:
        """Returns the responsiveness on the connections that generate the load."""
        return rpm_of(trimmed_mean(self.loaded, kept))

    def rpm(self, kept: float = KEPT) -> float:
        """Returns the responsiveness; NaN if there are no samples of a kind."""
        return (self.foreign_rpm(kept) + self.loaded_rpm(kept)) / 2


CATEGORIES = {300: "poor", 1000: "fair", 6000: "good"}
"""Upper limits of the categories of responsiveness (draft, section 3.1). From the last limit on, the
responsiveness is excellent."""


def category(rpm: float) -> str:
    """Returns the category of a responsiveness, for example `good`."""
    return next((name for limit, name in CATEGORIES.items() if rpm < limit), "excellent")


def rpm_of(round_trip_s: float) -> float:
    """Returns the round trips per minute for a round-trip time in seconds."""
    return 60 / round_trip_s if round_trip_s > 0 else math.nan

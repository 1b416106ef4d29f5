"""Compares the Wi-Fi model with published throughputs of stations.

    cd reference
    python -m wifi_airtime.compare

Prints each published value beside the value of a run. INET simulates all frames of IEEE 802.11, so the
values are compared with a band of 10 %. The table of the Linux commit was measured with TCP, whose
acknowledgements contend for the medium, which the model leaves out. Only the directions of the changes are
compared with this table. The exit status is 0 for every result: a difference is a finding, and not a failure.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aqmlab as al

HERE = Path(__file__).resolve().parent
BAND = 0.10

PAYLOAD = 1000
HEADERS = 28
"""Bytes of a packet in INET's showcase, and of its IP and UDP headers."""

INET_STATIONS = {"slow": "6Mbps"} | {f"fast{number}": "54Mbps" for number in range(1, 5)}
INET: Mapping[str, Any] = {
    "access": "95.5us",
    "preamble": "26us",
    "acknowledgement": "44us",
    "packet_overhead": "39B",
    "packets": 1,
}
"""IEEE 802.11g: DIFS of 28 us and 7.5 slots of 9 us; preamble of 20 us and signal extension of 6 us; SIFS of
10 us and an acknowledgement at 24 Mb/s (34 us); header of 24 B, LLC and SNAP of 8 B, checksum of 4 B, and the
service and tail bits."""

ATH9K_STATIONS = {"fast1": "144.4Mbps", "fast2": "144.4Mbps", "slow": "7.2Mbps"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published throughput and the simulated throughput, in Mb/s."""

    source: str
    scheduler: str
    quantity: str
    published: float
    simulated: float

    @property
    def difference(self) -> float:
        """The relative difference of the simulated throughput."""
        return self.simulated / self.published - 1

    @property
    def agrees(self) -> bool:
        """Whether the difference is at most 10 %, or at most half of the last published digit."""
        digit = 10.0 ** -len(f"{self.published:g}".partition(".")[2])
        return abs(self.difference) <= BAND or abs(self.simulated - self.published) <= digit / 2


def published() -> list[dict[str, str]]:
    """Reads the record."""
    with (HERE / "record.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def queue(scheduler: str, stations: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the queue of an access point whose stations have the names of the workloads."""
    tables = {name: {"rate": rate, "match": {"traffic": [name]}} for name, rate in stations.items()}
    return {"kind": "wifi", "scheduler": scheduler, "stations": tables, "default": "slow", **more}


def inet(scheduler: str) -> dict[str, float]:
    """Returns the throughput of the payload, for INET's five stations."""
    quantum = {"quantum": "1500us"} if scheduler == "airtime" else {}
    udp = {
        "kind": "udp",
        "rate": "30Mbps",
        "sizes": {"kind": "constant", "value": f"{PAYLOAD + HEADERS}B"},
    }
    scenario = al.Scenario.from_dict(
        {
            "duration": "5s",
            "warm_up": "1s",
            "bottleneck": {
                "rate": "54Mbps",
                "delay": "1ms",
                "queue": queue(scheduler, INET_STATIONS, {**INET, **quantum}),
            },
            "access": {"rate": "1Gbps"},
            "traffic": dict.fromkeys(INET_STATIONS, udp),
        }
    )
    rates = station_rates(scenario)
    share = PAYLOAD / (PAYLOAD + HEADERS)
    fast = [rates[name] * share for name in rates if name != "slow"]
    return {
        "fast": sum(fast) / len(fast),
        "slow": rates["slow"] * share,
        "total": sum(fast) + rates["slow"] * share,
    }


def ath9k(scheduler: str) -> dict[str, float]:
    """Returns the throughput of a TCP download to each of the three stations."""
    scenario = al.Scenario.from_dict(
        {
            "duration": "30s",
            "warm_up": "5s",
            "tcp": {"profile": "linux-6"},
            "bottleneck": {
                "rate": "144.4Mbps",
                "delay": "5ms",
                "queue": queue(scheduler, ATH9K_STATIONS, {"queue": {"kind": "fq-codel"}}),
            },
            "access": {"rate": "1Gbps"},
            "traffic": {name: {"kind": "ftp"} for name in ATH9K_STATIONS},
        }
    )
    rates = station_rates(scenario)
    return {**rates, "total": sum(rates.values())}


def station_rates(scenario: al.Scenario) -> dict[str, float]:
    """Returns the rate at which packets left for each station, in Mb/s."""
    classes = scenario.run(seed=1).tables["classes"]
    return {row["class"]: row["throughput_bps"] / 1e6 for row in classes.to_dicts()}


def compare() -> list[Row]:
    """Compares all published values."""
    models = {"inet": inet, "ath9k": ath9k}
    runs = {(row["source"], row["scheduler"]): None for row in published()}
    simulated = {(source, scheduler): models[source](scheduler) for source, scheduler in runs}
    return [
        Row(
            source=row["source"],
            scheduler=row["scheduler"],
            quantity=row["quantity"],
            published=float(row["mbps"]),
            simulated=simulated[row["source"], row["scheduler"]][row["quantity"]],
        )
        for row in published()
    ]


def text(rows: Sequence[Row]) -> str:
    """Returns the table, and the number of values of INET within the band."""
    lines = [
        f"{row.source:6} {row.scheduler:12} {row.quantity:6} published {row.published:6.2f} Mb/s, "
        f"simulated {row.simulated:6.2f} Mb/s ({row.difference:+.0%})"
        for row in rows
    ]
    judged = [row for row in rows if row.source == "inet"]
    agreeing = sum(row.agrees for row in judged)
    lines.append(f"Wi-Fi: {agreeing} of {len(judged)} values of INET within {BAND:.0%} or rounding")
    return "\n".join(lines)


if __name__ == "__main__":
    print(text(compare()))

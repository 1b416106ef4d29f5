"""The class `Path`, the Python form of the crate `aqm-path`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Literal

from aqmlab import _core
from aqmlab._support import arguments
from aqmlab._support.names import hint
from aqmlab.scenario import Scenario, ScenarioFileError, Table, plain

Direction = Literal["forward", "reverse"]
Ecn = Literal["not-ect", "ect0", "ect1", "ce"]

_EXAMPLE = '{"forward": [{"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "codel"}}]}'
"""Example of a configuration, for error messages."""

_LATEST = 2**64 - 1
"""Largest time that the core accepts, in nanoseconds."""

_NOT_OF_LINK = ("from", "to", "both_ways", "reverse")
"""Keys of a link in a scenario that do not describe the link itself."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A datagram that arrived at the end of the path."""

    id: int
    """Number that `Path.send` returned."""
    flow: int
    """Number of the flow."""
    direction: Direction
    """Direction in which the datagram travelled."""
    at: int
    """Time of the arrival, in nanoseconds."""
    ecn: Ecn
    """ECN codepoint after the datagram has passed all queues."""
    mark: Mark | None
    """The mark, if a queue of the path marked the datagram."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The ECN mark of a delivered datagram."""

    link: str
    """Name of the link whose queue marked the datagram."""
    reason: str
    """Reason for the mark."""
    at: int
    """Time of the mark, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A datagram that a queue dropped or that was lost on a link."""

    id: int
    """Number that `Path.send` returned."""
    flow: int
    """Number of the flow."""
    direction: Direction
    """Direction in which the datagram travelled."""
    at: int
    """Time of the drop, in nanoseconds. A lost datagram is dropped when its transmission begins."""
    link: str
    """Name of the link that dropped or lost the datagram."""
    reason: str
    """Reason for the drop, for example `overflow` or `sojourn`; `line-loss` if the datagram was lost on the
    link."""


class Path:
    """A path between two ends: links in a row, in both directions. All times are whole numbers of nanoseconds
    since the start of the path; `Path.nanoseconds` converts seconds to nanoseconds.

    >>> import aqmlab as al
    >>> link = {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "codel"}}
    >>> path = al.Path({"forward": [link]})
    >>> flow = path.open_flow()
    >>> path.send(flow, "forward", 1250, now=0)
    0
    >>> path.poll(path.nanoseconds(0.021)).at
    21000000
    """

    def __init__(
        self, table: Mapping[str, Any], *, seed: int | None = None, files: Mapping[str, str] | None = None
    ) -> None:
        """Creates a path from a table with the keys `forward`, `reverse`, `seed`, `traffic` and `duration`
        (the guide to paths describes the keys). `seed` replaces the seed of the table. `files` maps the names
        of files to which the table refers to the contents of the files.

        Raises `ScenarioError` if a value is invalid. The message contains the path, the value and the allowed
        values of each invalid value.
        """
        arguments.table("table", table, _EXAMPLE)
        text = json.dumps(plain(table), allow_nan=False)
        self._path = _core.Path.of_json(text, dict(files or {}), _seed(seed))

    @classmethod
    def from_toml(cls, text: str, *, seed: int | None = None, files: Mapping[str, str] | None = None) -> Path:
        """Creates a path from a TOML text. The arguments and errors are those of the constructor."""
        arguments.instance("text", text, str, "pass the text of a TOML file")
        return cls._of(_core.Path.of_toml(text, dict(files or {}), _seed(seed)))

    @classmethod
    def load(cls, file: str | FilePath, *, seed: int | None = None) -> Path:
        """Creates a path from a TOML file and the files to which the file refers. The names of these files
        are relative to the folder of the TOML file. Raises `ScenarioFileError` if a file cannot be read or a
        value is invalid."""
        file = FilePath(file)
        text, files = _read_with_files(file)
        try:
            return cls.from_toml(text, seed=seed, files=files)
        except _core.ScenarioError as error:
            raise ScenarioFileError.of(file, error) from None

    @classmethod
    def of_scenario(
        cls, scenario: Scenario | str | FilePath, link: str | None = None, *, seed: int | None = None
    ) -> Path:
        """Creates a path from a scenario at packet level, or from the file or the name of a scenario.

        With `link`, the path consists of the link with this name. The reverse link of a dumbbell's
        `bottleneck` is also that of the path, if the scenario describes the reverse link.

        Without `link`, the path is the whole network of the scenario, including access links and edges. The
        argument `traffic` of `open_flow` selects a workload, whose routes the datagrams of the flow take. The
        workloads are not run. `host.jitter` has no effect.

        Raises `ValueError` if no link has this name, and `ScenarioError` if the scenario has another level.
        """
        if not isinstance(scenario, Scenario):
            scenario = Scenario.load(scenario)
        if link is None:
            return cls._of(_core.Path.of_plan(scenario.plan, _seed(seed)))
        found = scenario.links if scenario.level == "packet" else {}
        if link not in found:
            raise ValueError(f"link: no link of the scenario is named `{link}`: {hint(link, found)}")
        table: Table = {"forward": [_own(link, found[link][1])], "seed": scenario.effective["seed"]}
        back = f"{link}-back"
        if back in found:
            table["reverse"] = [_own(back, found[back][1])]
        table["duration"] = scenario.effective["duration"]
        return cls(table, seed=seed, files=scenario.files)

    @classmethod
    def _of(cls, core: _core.Path) -> Path:
        path = cls.__new__(cls)
        path._path = core
        return path

    @staticmethod
    def nanoseconds(seconds: float) -> int:
        """Returns a time in seconds as a whole number of nanoseconds, rounded to the nearest nanosecond."""
        return round(seconds * 1e9)

    def open_flow(
        self,
        traffic: str | None = None,
        *,
        host: int = 0,
        protocol: Literal["tcp", "udp"] | None = None,
        port: int | None = None,
        dscp: int | None = None,
    ) -> int:
        """Opens a flow and returns its number. Fair queues distinguish datagrams by their flows, and
        classifiers read the other properties.

        `traffic` is the name of a table in `traffic`; by default, the first name in alphabetical order.
        `host` is the number of the flow's hosts, from 0 to the number of hosts in this table minus 1. `port`
        (0 to 65535) and `dscp` (0 to 63) replace the values of the table, and `protocol` is UDP by default.
        Raises `ValueError` if an argument is invalid.
        """
        host = arguments.count("host", host, 0)
        for name, value, most in (("host", host, 2**32 - 1), ("port", port, 65535), ("dscp", dscp, 63)):
            if value is not None and arguments.count(name, value, 0) > most:
                raise ValueError(f"{name}: must be at most {most} (got {value})")
        return self._path.open_flow(traffic, host, protocol, port, dscp)

    def send(self, flow: int, direction: Direction, size: int, now: int, ecn: Ecn = "not-ect") -> int:
        """Sends a datagram at the time `now`, in nanoseconds, and returns the number of the datagram. The
        datagrams of a path are numbered from 0.

        `size` is the length of the IP packet in bytes, from 1 to 65535, including all headers: a UDP payload
        of 1200 bytes is sent in an IPv4 packet of 1228 bytes. Raises `ValueError` if an argument is invalid,
        or if `now` is earlier than the time of a previous call of `send` or `poll`.
        """
        if type(size) is not int or not 1 <= size <= 65535:
            size = arguments.count("size", size, 1)
            if size > 65535:
                raise ValueError(f"size: must be from 1 to 65535 (got {size})")
        return self._path.send(_number(flow), direction, size, _time(now), ecn)

    def poll(self, now: int) -> Delivered | Dropped | None:
        """Returns the next outcome, in the order of time, whose time is not later than `now`, in nanoseconds;
        `None` if there is no such outcome. The outcomes do not depend on how often this method is called."""
        outcome = self._path.poll(_time(now))
        if outcome is None:
            return None
        number, flow, direction, at, ecn, mark, drop = outcome
        if drop is not None:
            return Dropped(number, flow, direction, at, *drop)
        assert ecn is not None
        return Delivered(number, flow, direction, at, ecn, None if mark is None else Mark(*mark))

    def next_due(self) -> int | None:
        """Returns the time, in nanoseconds, at which `poll` should be called next, unless a datagram is sent
        before this time; `None` if no datagram will leave the path. At the returned time, a datagram may only
        pass from one link to the next."""
        return self._path.next_due()

    @property
    def in_transit(self) -> int:
        """The number of datagrams that were sent and whose outcomes are not known yet."""
        return self._path.in_transit

    def links(self) -> list[dict[str, Any]]:
        """Returns the state of each link that has a queue, at the time of the latest call. The keys are
        `name`, `rate_bps`, the backlog (`length_packets`, `length_bytes`), counters since the start
        (`arrivals`, `departures`, `departed_bytes`, `marks`, and `drops`, the numbers of drops by reason),
        and `gauges`, the values and units of the queue's gauges by name."""
        links: list[dict[str, Any]] = json.loads(self._path.links())
        for link in links:
            link["drops"] = {reason: count for reason, count in link["drops"] if count}
            link["gauges"] = {name: (value, unit) for name, value, unit in link["gauges"]}
        return links

    def digest(self) -> str:
        """Returns a digest (SHA-256) of all outcomes that `poll` has returned. Two digests are equal if
        number, flow, direction, fate and time of every datagram are equal."""
        return self._path.digest()


def read_table(file: FilePath) -> tuple[Table, dict[str, str]]:
    """Returns the table in a TOML file, and the contents of the files to which the table refers, by name.
    Raises `ScenarioFileError` if a file cannot be read or is not valid TOML."""
    import tomllib

    text, files = _read_with_files(file)
    return tomllib.loads(text), files


def _read_with_files(file: FilePath) -> tuple[str, dict[str, str]]:
    text = _read(file)
    try:
        names = _core.Path.files_of(text)
    except _core.ScenarioError as error:
        raise ScenarioFileError.of(file, error) from None
    return text, {name: _read(file.parent / name) for name in names}


def _seed(seed: int | None) -> int | None:
    if seed is not None and arguments.count("seed", seed, 0) > _LATEST:
        raise ValueError(f"seed: must be at most {_LATEST} (got {seed})")
    return seed


def _time(now: int) -> int:
    """Returns the time, limited to the largest time that the core accepts."""
    if type(now) is not int or now < 0:
        now = arguments.count("now", now, 0)
    return min(now, _LATEST)


def _number(flow: int) -> int:
    if not isinstance(flow, int) or not 0 <= flow < 2**32:
        raise ValueError(f"flow: must be a number that `open_flow` returned (got {flow!r})")
    return flow


def _own(name: str, link: Table) -> Table:
    """Returns the table of a scenario's link without the keys that describe its position in the network."""
    return {"name": name} | {key: value for key, value in link.items() if key not in _NOT_OF_LINK}


def _read(file: FilePath) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"{file}: byte {error.start}: is not UTF-8 text") from None
    except OSError as error:
        raise ScenarioFileError(f"{file}: cannot be read: {error.strerror}") from None

"""The measures at packet level, which describe links, flows, transfers and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aqmlab._support.run import Run
from aqmlab.measures import datagrams, line_tests
from aqmlab.measures.measure import Measure, View, scaled

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from aqmlab.scenario import Scenario

_FLOWS = frozenset({"traffic", "end_s"})
_TIMED = frozenset({"traffic", "start_s", "duration_s", "complete"})


def _of_link(link: str, *, several: bool) -> list[Measure]:
    before = f"{link} " if several else ""
    rows: Sequence[tuple[str, str, str, str, float]] = (
        ("utilisation", "utilisation", "%", "utilisation", 100),
        ("drops", "packets dropped", "%", "drop_fraction", 100),
        ("marks", "packets marked", "%", "mark_fraction", 100),
        ("mean-queue", "mean queue", "packets", "mean_queue_packets", 1),
        ("mean-queueing-delay", "mean queueing delay", "ms", "mean_queue_delay_s", 1000),
    )

    def column(name: str, factor: float) -> Callable[[View], float | None]:
        return lambda view: scaled(view.link(link)[name], factor)

    def over_time(column: str) -> Callable[[View], Any]:
        return lambda view: _samples(view, link, column)

    sampled = {"mean-queue": over_time("length_packets")}
    return [
        Measure(
            name=f"{link}.{name}",
            title=f"{before}{title}",
            unit=unit,
            compute=column(source, factor),
            series=sampled.get(name),
        )
        for name, title, unit, source, factor in rows
    ]


def _samples(view: View, link: str, column: str) -> npt.NDArray[Any]:
    import numpy as np
    import polars as pl

    rows = view.run.tables["queue"].filter((pl.col("link") == link) & (pl.col("time_s") >= view.window[0]))
    return rows.sort("time_s")[column].to_numpy().astype(np.float64)


def _of_flows(traffic: str, *, datagrams: bool, is_link: bool) -> list[Measure]:
    """Returns measures of a workload's flows. If a link has the same name as the workload (`is_link`),
    `NAME.drops` is the link's measure, and the workload's measure is named `NAME.flow-drops`."""
    from aqmlab import metrics

    def jain(view: View) -> float | None:
        rates = view.flows(traffic)["goodput_bps"].to_numpy()
        squares = float((rates**2).sum())
        return float(metrics.jain_of(float(rates.sum()), squares, rates.size)) if squares > 0 else None

    def total(column: str) -> Callable[[View], int | None]:
        def summed(view: View) -> int | None:
            known = view.flows(traffic)[column].drop_nulls()
            return int(known.sum()) if known.len() else None

        return summed

    found = [
        Measure(
            name=f"{traffic}.goodput",
            title=f"{traffic} goodput",
            unit="Mbps",
            compute=lambda view: metrics.goodput_bps(view.flows(traffic)) * 1e-6,
            columns={"flows": _FLOWS | {"goodput_bps"}},
        ),
        Measure(
            name=f"{traffic}.flow-drops" if is_link else f"{traffic}.drops",
            title=f"{traffic} packets dropped",
            unit="%",
            compute=lambda view: metrics.drop_fraction(view.flows(traffic)) * 100,
            columns={"flows": _FLOWS | {"packets_sent", "packets_dropped"}},
        ),
        Measure(
            name=f"{traffic}.jain",
            title=f"{traffic} Jain's index",
            compute=jain,
            columns={"flows": _FLOWS | {"goodput_bps"}},
        ),
    ]
    if datagrams:
        return [
            *found,
            Measure(
                name=f"{traffic}.delay",
                title=f"{traffic} delay, mean",
                unit="ms",
                compute=lambda view: metrics.mean_delay_s(view.flows(traffic)) * 1000,
                columns={"flows": _FLOWS | {"datagrams_received", "mean_delay_s"}},
            ),
        ]
    repairs = {
        "timeouts": "time-outs",
        "fast_retransmits": "fast retransmits",
        "retransmitted": "segments retransmitted",
    }
    return found + [
        Measure(
            name=f"{traffic}.{column.replace('_', '-')}",
            title=f"{traffic} {title}",
            compute=total(column),
            columns={"flows": _FLOWS | {column}},
        )
        for column, title in repairs.items()
    ]


def _of_transfers(traffic: str) -> list[Measure]:
    from aqmlab import metrics

    def unfinished(view: View) -> int:
        ours = metrics.measured(view.transfers(traffic), view.window[0])
        return int(ours.height - view.times(traffic).size)

    columns = {"transfers": _TIMED}
    quantiles = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return [
        *_of_times(traffic, "time", "time", lambda view: view.times(traffic), quantiles, columns),
        Measure(
            name=f"{traffic}.unfinished",
            title=f"{traffic} transfers unfinished",
            compute=unfinished,
            columns=columns,
        ),
        Measure(
            name=f"{traffic}.active",
            title=f"{traffic} transfers active, mean",
            compute=lambda view: metrics.mean_active(view.transfers(traffic), *view.window),
            columns=columns,
        ),
    ]


def _of_pages(traffic: str) -> list[Measure]:
    quantiles = {"median": 0.5, "p90": 0.9}
    columns = {"pages": _TIMED}
    return _of_times(traffic, "page", "page time", lambda view: view.pages(traffic), quantiles, columns)


def _of_recorded_pages(traffic: str) -> list[Measure]:
    """Returns measures of the loads of a recorded page that begin after the warm-up."""
    from aqmlab.metrics import recorded_pages

    def loads(view: View) -> pl.DataFrame:
        return recorded_pages.loads(view.run.tables, traffic, view.window[0])

    def mean(column: str) -> Callable[[View], float | None]:
        def of(view: View) -> float | None:
            times = loads(view)[column].drop_nulls()
            return float(times.to_numpy().mean()) if times.len() else None

        return of

    return [
        Measure(
            name=f"{traffic}.load-time",
            title=f"{traffic} load time, mean",
            unit="s",
            compute=mean("load_s"),
        ),
        Measure(
            name=f"{traffic}.render-time",
            title=f"{traffic} time of the last render-blocking object, mean",
            unit="s",
            compute=mean("render_s"),
        ),
        Measure(
            name=f"{traffic}.unfinished-loads",
            title=f"{traffic} loads unfinished",
            compute=lambda view: loads(view)["load_s"].null_count(),
        ),
    ]


def unrecorded(scenario: Scenario, name: str) -> str | None:
    """Returns an error message if a measure with this name exists only when more data is recorded; otherwise,
    returns `None`."""
    traffic, _, what = name.rpartition(".")
    workload = scenario.workloads.get(traffic)
    if workload is not None and workload.responsiveness is not None:
        return line_tests.unrecorded(traffic, what, workload.responsiveness)
    if workload is None or not workload.sends_datagrams:
        return None
    if traffic in scenario.effective["record"]["histories"]:
        return None
    if what not in {one.name.rpartition(".")[2] for one in datagrams.of_histories(traffic, workload)}:
        return None
    return f"{name} needs the history of each datagram: add {traffic} to record.histories of the scenario"


def _of_video(traffic: str, fields: Mapping[str, Any]) -> list[Measure]:
    """Returns measures of the video quality that viewers experience, for a workload whose player has these
    fields."""
    from aqmlab.metrics import video

    player = video.Player(**fields)

    def seen(view: View) -> Any:
        # The play-out is computed once for all measures of the workload.
        def of(run: Run) -> Any:
            return video.viewers(view.transfers(traffic), run.tables["flows"], player, view.window[1])

        return view.once(of, ("viewers", traffic))

    rows: Sequence[tuple[str, str, str, Callable[[View], float]]] = (
        (
            "bit-rate",
            "bit rate, mean",
            "Mbps",
            lambda view: video.video_bitrate_bps(view.transfers(traffic), player, view.window[0]) * 1e-6,
        ),
        (
            "switches",
            "switches of the bit rate",
            "",
            lambda view: video.video_switches(seen(view), view.window[0]),
        ),
        (
            "start-up",
            "start-up delay, mean",
            "s",
            lambda view: video.video_start_up_s(seen(view), view.window[0]),
        ),
        ("stalled", "time standing still", "s", lambda view: video.video_stall_s(seen(view), *view.window)),
    )
    return [
        Measure(
            name=f"{traffic}.{name}",
            title=f"{traffic} {title}",
            unit=unit,
            compute=compute,
            columns=video.COLUMNS,
        )
        for name, title, unit, compute in rows
    ]


def _of_video_call(traffic: str, fields: Mapping[str, Any]) -> list[Measure]:
    """Returns measures of the video quality that the participants of video calls experience, for a workload
    with this frame rate."""
    from aqmlab.metrics import video_calls

    frame_rate = float(fields["frame_rate"])

    def heard(view: View) -> Any:
        def of(run: Run) -> Any:
            return video_calls.VideoCalls.of(run.tables, traffic, view.window, frame_rate)

        return view.once(of, ("video calls", traffic))

    rows: Sequence[tuple[str, str, str, Callable[[View], float | None]]] = (
        ("rate", "received rate, mean", "Mbps", lambda view: scaled(heard(view).received_bps(), 1e-6)),
        ("target-rate", "target rate, mean", "Mbps", lambda view: scaled(heard(view).target_bps(), 1e-6)),
        ("freezes", "freezes per minute", "", lambda view: heard(view).freezes_per_minute()),
        ("frozen", "share of time frozen", "%", lambda view: scaled(heard(view).frozen_share(), 100)),
        ("rendered", "frames rendered", "%", lambda view: scaled(heard(view).rendered_share(), 100)),
        (
            "p95-frame-delay",
            "frame delay, 95th percentile",
            "ms",
            lambda view: scaled(heard(view).frame_delay_s(0.95), 1e3),
        ),
    )
    return [
        Measure(name=f"{traffic}.{name}", title=f"{traffic} {title}", unit=unit, compute=compute)
        for name, title, unit, compute in rows
    ]


def _of_times(
    traffic: str,
    name: str,
    title: str,
    times: Callable[[View], npt.NDArray[Any]],
    quantiles: Mapping[str, float],
    columns: Mapping[str, frozenset[str]],
) -> list[Measure]:
    """Returns measures for the mean and some quantiles of times. `name` is the part of the measures' names
    that denotes the kind of time."""

    def mean(view: View) -> float | None:
        found = times(view)
        return float(found.mean()) if found.size else None

    def quantile(q: float) -> Callable[[View], float | None]:
        return lambda view: _quantile(times(view), q)

    return [
        Measure(
            name=f"{traffic}.mean-{name}",
            title=f"{traffic} {title}, mean",
            unit="s",
            compute=mean,
            columns=columns,
            series=times,
        ),
        *(
            Measure(
                name=f"{traffic}.{word}-{name}",
                title=f"{traffic} {title}, {_QUANTILES[word]}",
                unit="s",
                compute=quantile(q),
                columns=columns,
            )
            for word, q in quantiles.items()
        ),
    ]


_QUANTILES = {"median": "median", "p90": "90th percentile", "p99": "99th percentile"}
"""Quantiles that occur in the names of measures, with their titles."""


def _quantile(times: npt.NDArray[Any], q: float) -> float | None:
    import numpy as np

    return float(np.quantile(times, q)) if times.size else None


def packet_level(scenario: Scenario) -> list[Measure]:
    """Returns the measures of a packet-level scenario, in the order of the run's summary."""
    links = scenario.managed_links
    found = [one for link in links for one in _of_link(link, several=len(links) > 1)]
    workloads = scenario.workloads
    for name, workload in workloads.items():
        found += _of_flows(name, datagrams=workload.sends_datagrams, is_link=name in links)
    for name, workload in workloads.items():
        if workload.responsiveness is not None:
            found += line_tests.of_test(name, workload.responsiveness)
        elif workload.has_guests or not (workload.sends_datagrams or workload.is_endless):
            found += _of_transfers(name)
    for name, workload in workloads.items():
        if workload.fetches_pages:
            found += _of_pages(name)
        if workload.records_pages:
            found += _of_recorded_pages(name)
        if workload.video is not None:
            found += _of_video(name, workload.video)
        if workload.video_call is not None:
            found += _of_video_call(name, workload.video_call)
        if workload.sends_datagrams and name in scenario.effective["record"]["histories"]:
            found += datagrams.of_histories(name, workload)
            if links and set(links) <= set(scenario.effective["record"]["packets"]):
                found += datagrams.of_parts(name)
    return found

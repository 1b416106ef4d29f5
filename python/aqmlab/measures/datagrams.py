"""The measures of individual datagrams, for workloads in `record.histories`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aqmlab._support.run import Run
from aqmlab.measures.measure import Measure, View, scaled

if TYPE_CHECKING:
    from aqmlab.scenario.workloads import Workload


def of_histories(traffic: str, workload: Workload) -> list[Measure]:
    """Returns measures that are computed from individual datagrams, for a workload in `record.histories`. For
    a `call`, voice quality is included. For a workload with a deadline, the late datagrams are included."""
    from aqmlab.metrics import calls

    call = workload.call

    def delays(view: View) -> Any:
        def of(run: Run) -> Any:
            return calls.delays_of(run.tables["packets"], run.tables["flows"], traffic, view.window[0])

        return view.once(of, ("delays", traffic))

    rows: list[tuple[str, str, str, Callable[[View], float | None]]] = [
        (
            "p99-delay",
            "delay, 99th percentile",
            "ms",
            lambda view: calls.delay_quantile_s(delays(view), 0.99) * 1e3,
        ),
        (
            "p99-variation",
            "delay variation, 99th percentile",
            "ms",
            lambda view: calls.delay_variation_s(delays(view), 0.99) * 1e3,
        ),
    ]
    if call is not None:
        codec, frame_s = calls.CODECS[call["codec"]], call["frame_s"]

        def mos(view: View) -> list[float]:
            return [one.mos for one in calls.voices(delays(view), codec, frame_s)]

        def mean(view: View) -> float | None:
            found = mos(view)
            return sum(found) / len(found) if found else None

        rows = [
            ("mos", "mean opinion score, mean", "", mean),
            ("least-mos", "mean opinion score, least", "", lambda view: min(mos(view), default=None)),
            *rows,
        ]
    if workload.deadline is not None:
        deadline_s = float(workload.deadline["deadline_s"])
        rows.append(
            (
                "late",
                f"datagrams lost or later than {deadline_s * 1e3:g} ms",
                "%",
                lambda view: scaled(calls.late_share(delays(view), deadline_s), 100),
            )
        )
    columns = {"flows": frozenset({"flow", "traffic"})}
    return [
        Measure(
            name=f"{traffic}.{name}", title=f"{traffic} {title}", unit=unit, compute=compute, columns=columns
        )
        for name, title, unit, compute in rows
    ]


def of_parts(traffic: str) -> list[Measure]:
    """Returns the parts of the mean delay of the datagrams of a workload in `record.histories`, if the events
    of all managed links are recorded."""
    from aqmlab.metrics import delay_parts

    def mean(part: str) -> Callable[[View], float | None]:
        def parts(run: Run, from_s: float) -> Any:
            return delay_parts.of_datagrams(run.tables, traffic, from_s)

        def compute(view: View) -> float | None:
            found = view.once(lambda run: parts(run, view.window[0]), ("delay parts", traffic))
            return scaled(found[part].mean(), 1e3)

        return compute

    return [
        Measure(
            name=f"{traffic}.{part}-delay",
            title=f"{traffic} {part} delay, mean",
            unit="ms",
            compute=mean(part),
            columns={"flows": frozenset({"flow", "traffic"})},
        )
        for part in delay_parts.PARTS
    ]

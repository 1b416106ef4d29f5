"""The test cases for senders that are seen from outside: the simulated BBR with both profiles, and a guest.

A claim is judged for each sender with the same rule, whose limits are those of the study. A rule omits what
is not visible from outside (`measures/outside.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from aqmlab import _core
from aqmlab._support.names import hint
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.rule import AnyRule
from aqmlab.scenario import Scenario, changed
from aqmlab.studies.bbr_cases import network as net
from aqmlab.studies.bbr_cases.cases import CASES, SEEDS, OfSeed, always, claim
from aqmlab.studies.bbr_cases.measures import application, link, losses, states
from aqmlab.studies.bbr_cases.measures import outside as seen
from aqmlab.studies.bbr_cases.measures.sender import DRAIN, UP, Phase
from aqmlab.studies.shared import steps
from aqmlab.study import Claim, Experiment, Figure, Form, Reading, Study, Table, every, mean_of, our_claim
from aqmlab.study.charts import line
from aqmlab.study.query import Query, label_of, of_runs, stacked
from aqmlab.study.tables import crossed
from aqmlab.sweep import Changes

GUESTS = ("noq:bbr3",)
"""The guests with version 3 of BBR, as STACK:CONTROL."""

SIMULATED = {"bbr3": "draft", "bbr3 (linux)": "linux"}
"""The profiles of the simulated BBR by the names of the senders."""

FILE_SIZE = "1GB"
"""A file that no link of the cases can carry within the run."""

PROFILE = "tcp.congestion_control.profile"


def with_guest(stack: str, control: str, table: dict[str, Any]) -> dict[str, Any]:
    """The scenario of a case with a guest instead of simulated TCP. An application that requests responses
    becomes an application that produces a burst of the size of a response at the same interval."""
    traffic = table["traffic"][net.FLOW]
    options: dict[str, Any] = {"model": True}
    if traffic["kind"] == "video":
        rate_bps, _ = _core.quantity(traffic["ladder"][0])
        interval_s, _ = _core.quantity(traffic["segment"])
        options |= {"burst": round(rate_bps * interval_s / 8), "interval_s": interval_s}
    guest = {"kind": "guest", "stack": stack, "control": control, "size": FILE_SIZE, "options": options}
    record = {key: value for key, value in table["record"].items() if key != "senders"}
    made = changed(table, {f"traffic.{net.FLOW}": guest, "record": record})
    del made["tcp"]
    return made


@lru_cache(maxsize=32)
def _beginning(table: str, seed: int) -> seen.Outside:
    """The first 6 s of a scenario, which is given as JSON. A change of the scenario at a later time does not
    affect the run before this time, so a change can be scheduled at the beginning of a phase."""
    scenario = Scenario.from_dict(json.loads(table) | {"duration": "6s"}, name="beginning")
    return seen.Outside(scenario.run(seed=seed))


def _phase(table: dict[str, Any], seed: int, state: str) -> tuple[seen.Outside, Phase]:
    """The first phase of a state."""
    sender = _beginning(json.dumps(table), seed)
    phase = sender.first(state)
    if phase is None:
        raise ValueError(f"the sender has no phase {state} in the first 6 s")
    return sender, phase


def slower_at_drain(rate: str) -> OfSeed:
    """The rate of the link falls when DRAIN begins."""

    def change(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
        _, drain = _phase(changed(table, {"bottleneck.rate_steps": []}), seed, DRAIN)
        return changed(table, net.rate_step(drain.begin_s, rate))

    return change


def slower_at_down(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
    """The rate falls by 10 % when the first UP ends."""
    _, up = _phase(table, seed, UP)
    return changed(table, net.rate_step(up.end_s, "45Mbps"))


def pause_before_up(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
    """The application has no data for one round trip from a tenth of a round trip after the first REFILL
    begins. REFILL lasts one round trip, so REFILL begins one round trip before UP."""
    path = f"traffic.{net.FLOW}"
    is_simulated = labels["sender"] in SIMULATED
    endless = changed(table, {path: net.responses("400Mbps", "1s", "2s")}) if is_simulated else table
    sender, up = _phase(endless, seed, UP)
    pause_s = up.begin_s - sender.base_rtt + 0.1 * net.RTT_S
    burst = round(sender.passed(pause_s))
    if is_simulated:
        return changed(table, {path: net.responses(f"{8 * burst}bps", "1s", "60s")})
    options = {"burst": burst, "interval_s": pause_s + net.RTT_S}
    return changed(table, {f"{path}.options.{key}": value for key, value in options.items()})


class Case:
    """An experiment with a point for each sender, and measures of what is visible from outside."""

    def __init__(
        self,
        guest: str,
        name: str,
        *measures: Measure | str,
        of_seed: OfSeed | None = None,
    ) -> None:
        stack, control = guest.split(":")
        title, scenario = CASES[name]
        senders = {name: {PROFILE: profile} for name, profile in SIMULATED.items()}
        self._measures = {one: _seen(one) for one in measures}
        self.experiment = Experiment(
            f"outside-{name}",
            title,
            scenario,
            {"sender": Changes({**senders, guest: partial(with_guest, stack, control)})},
            tuple(self._measures.values()),
            seeds=SEEDS,
            most_seeds=2 * SEEDS,
            quick=Form(seeds=3),
            of_seed=of_seed,
        )

    def __getitem__(self, measure: Measure | str) -> Any:
        return self.experiment[self._measures[measure]]


def _seen(measure: Measure | str) -> Measure | str:
    """The measure from outside. Measures of this module, and names of measures, are from outside already."""
    if isinstance(measure, str) or measure.name.startswith(seen.PREFIX):
        return measure
    return seen.outside(measure)


def near(variable: Any, value: float) -> AnyRule:
    """The rule that a mean differs by at most 2 % of the value, the tolerance of case 1."""
    return mean_of(variable).within((1 - seen.ERROR) * value, (1 + seen.ERROR) * value)


def drawings(base: Case, claims: Sequence[Claim]) -> tuple[Figure | Table, ...]:
    """The sending rate and the queueing delay in the base set-up over time, and the measures of all cases."""
    numbers = {
        f"{claim.id.removeprefix('BBR-')}: {label_of(one)}": one
        for claim in claims
        for one in claim.rule.variables
    }

    def series(measure: Measure) -> Query:
        return of_runs(base.experiment, lambda row: steps(row[measure], seen.STEP_OF_SERIES_S), "time_s")

    return (
        *(
            Figure(
                id,
                title,
                line(
                    series(measure),
                    x="time_s",
                    panel="sender",
                    x_label="time (s)",
                    y_label=label,
                    kind="curve",
                ),
            )
            for id, title, measure, label in (
                ("rate", "Sending rate in the base set-up", seen.SENT_RATE, "sending rate (Mb/s)"),
                ("delay", "Queueing delay in the base set-up", seen.DELAY, "queueing delay (ms)"),
            )
        ),
        Table(
            "numbers",
            "Measures by case",
            crossed(stacked("measure", numbers), rows="measure", columns="sender"),
        ),
    )


def form(guest: str) -> Study:
    """The study in which the simulated BBR and a guest are seen from outside. Raises `ValueError` if the
    guest is unknown."""
    if guest not in GUESTS:
        raise ValueError(f"bbr-cases: no sender with BBR version 3 is named `{guest}`: {hint(guest, GUESTS)}")
    case = partial(Case, guest)
    base = case(
        "base",
        *(states.ESTIMATE, states.STARTUP_PLATEAU, states.TO_DRAIN),
        *(states.DRAIN_GAIN, states.DRAIN_INFLIGHT, states.FROM_DRAIN),
        *(states.UP_ROUNDS, states.UP_TO_DOWN, losses.LOSSES),
        *(states.DOWN_GAIN, states.DOWN_INFLIGHT, states.DOWN_TO_CRUISE),
        *(states.PROBE_RTTS, states.PROBE_RTT_WINDOW, states.PROBE_RTT_DURATION, states.PROBE_RTT_TO_BW),
        *(states.AFTER_PROBE_RTT, seen.KEPT_BANDWIDTH, seen.STEADY_RATE, seen.SENT_RATE, seen.DELAY),
    )
    limited_loss = case(
        "limited-loss",
        *(application.LEAVES_STARTUP, states.STARTUP_BANDWIDTH),
        *(states.UP_LASTS, states.UP_TO_DOWN_OR_CRUISE),
    )
    limited = case("limited", application.STAYS_IN_STARTUP, losses.LOSSES)
    slower_in_drain = case(
        "slower-in-drain",
        *(states.DRAIN_ROUNDS, states.DRAIN_INFLIGHT, states.FROM_DRAIN),
        of_seed=slower_at_drain("45Mbps"),
    )
    half_in_drain = case(
        "half-in-drain",
        *(states.DRAIN_ROUNDS, states.DRAIN_INFLIGHT, states.FROM_DRAIN),
        of_seed=slower_at_drain("22500kbps"),
    )
    slower_in_down = case(
        "slower-in-down",
        *(states.DOWN_DURATION, states.DOWN_INFLIGHT, seen.REST_AFTER_DOWN),
        of_seed=slower_at_down,
    )
    idle = case(
        "idle",
        *(application.IDLE_PAUSES, application.NO_PROBE_RTT, application.RESTART_GAIN),
    )
    aggregated = case(
        "aggregated",
        *(link.STARTUP_WINDOW, link.OVER_SEND_RATE, link.STARTUP_GROWTH, states.ESTIMATE),
        *(link.CRUISE_WINDOW, seen.STEADY_RATE, link.LONGEST_PAUSE),
    )
    sub_packet = case(
        "sub-packet",
        *(seen.LEAST_PACKETS, link.SLOW_PACING, "bottleneck.utilisation"),
    )
    ten_times = case("ten-times", link.ROUNDS_TO_FULL)
    ten_times_with_loss = case("ten-times-with-loss", link.GROWTH_RATIO)
    tenth = case(
        "tenth",
        *(seen.ROUNDS_TO_SLOW_DOWN, link.CYCLES_TO_FALL, link.FINAL_ESTIMATE),
    )
    policed = case(
        "policed",
        *(link.WINDOW_ADAPTS, link.POLICED_LOSS, seen.TOKEN_RATE, link.POLICED_BANDWIDTH),
    )
    reordered = case(
        "reordered",
        *(losses.SPURIOUS, losses.LOSSES, seen.PACING_RESTORED, losses.WINDOW_RESTORED, losses.SAME_STATE),
    )
    delayed = case("delayed", seen.RTO_PACING, losses.RTO_WINDOW, losses.RTO_STATE)
    long_path = case("long-path", states.STARTUP_PROBE_RTTS, states.BACK_TO_STARTUP)
    lossy = case("lossy", states.UP_LASTS, states.UP_TO_DOWN, losses.AFTER_LOSS)
    paused = case(
        "paused",
        *(seen.PAUSES, seen.PAUSE_BANDWIDTH, seen.PAUSE_TO_UP, seen.PAUSE_THEN_DOWN),
        of_seed=pause_before_up,
    )
    claims = (
        claim(
            1,
            "The estimated bandwidth is within 2 % of the simulated bandwidth; after 3 rounds in which the "
            "delivery rate grows by less than 25 %, STARTUP ends and DRAIN begins.",
            near(base[states.ESTIMATE], 1),
            mean_of(base[states.STARTUP_PLATEAU]).within(3, 3),
            always(base[states.TO_DRAIN]),
        ),
        claim(
            2,
            "Loss ends STARTUP although the application limits the rate.",
            always(limited_loss[application.LEAVES_STARTUP]),
            mean_of(limited_loss[states.STARTUP_BANDWIDTH]) < 0.9,
        ),
        claim(
            3,
            "The pacing gain in DRAIN is 0.5, and DRAIN ends when one BDP is in flight.",
            near(base[states.DRAIN_GAIN], 0.5),
            near(base[states.DRAIN_INFLIGHT], 1),
            always(base[states.FROM_DRAIN]),
        ),
        claim(
            4,
            "If the bandwidth decreases by 10 % when DRAIN begins, DRAIN ends after 3 rounds.",
            mean_of(slower_in_drain[states.DRAIN_ROUNDS]).within(3, 4),
            mean_of(slower_in_drain[states.DRAIN_INFLIGHT]) > 1,
            always(slower_in_drain[states.FROM_DRAIN]),
        ),
        our_claim(
            "BBR-4b",
            "If the bandwidth decreases by 55 % instead, DRAIN ends after 3 rounds.",
            every(
                mean_of(half_in_drain[states.DRAIN_ROUNDS]).within(3, 4),
                mean_of(half_in_drain[states.DRAIN_INFLIGHT]) > 1,
                always(half_in_drain[states.FROM_DRAIN]),
            ),
            "case 4 with a different rate",
        ),
        claim(
            5,
            "Without losses, UP ends after 3 rounds in which the delivery rate grows by less than 25 %.",
            mean_of(base[states.UP_ROUNDS]).within(3, 3),
            mean_of(base[losses.LOSSES]) < 0.5,
            always(base[states.UP_TO_DOWN]),
        ),
        claim(
            6,
            "High loss ends UP although the application limits the rate.",
            mean_of(limited_loss[states.UP_LASTS]) < 3,
            always(limited_loss[states.UP_TO_DOWN_OR_CRUISE]),
        ),
        claim(
            7,
            "Without losses, STARTUP does not end while the application limits the rate.",
            always(limited[application.STAYS_IN_STARTUP]),
            mean_of(limited[losses.LOSSES]) < 0.5,
        ),
        claim(
            8,
            "The pacing gain in DOWN is 0.9, and DOWN ends when one BDP is in flight.",
            mean_of(base[states.DOWN_GAIN]).within(0.89, 0.91),
            near(base[states.DOWN_INFLIGHT], 1),
            always(base[states.DOWN_TO_CRUISE]),
        ),
        claim(
            9,
            "If the bandwidth decreases by 10 % when DOWN begins, DOWN ends after 2 to 3 s, and REFILL "
            "follows without CRUISE.",
            mean_of(slower_in_down[states.DOWN_DURATION]).within(2, 3.1),
            mean_of(slower_in_down[states.DOWN_INFLIGHT]) > 1,
            mean_of(slower_in_down[seen.REST_AFTER_DOWN]) <= 2,
            source="REFILL lasts one round; two round trips include the wait for the acknowledgement that "
            "begins the round",
        ),
        claim(
            10,
            "PROBE_RTT has a window of half of the BDP, lasts at least 200 ms and one round trip, and the "
            "sender resumes.",
            mean_of(base[states.PROBE_RTTS]) >= 1,
            mean_of(base[states.PROBE_RTT_WINDOW]).within(0.49, 0.51),
            mean_of(base[states.PROBE_RTT_DURATION]).within(0.2, 0.2 + 3 * net.RTT_S),
            always(base[states.PROBE_RTT_TO_BW]),
            mean_of(base[states.AFTER_PROBE_RTT]) >= 0.9,
        ),
        claim(
            11,
            "After more than 5 s without data, the sender skips PROBE_RTT.",
            mean_of(idle[application.IDLE_PAUSES]) >= 1,
            always(idle[application.NO_PROBE_RTT]),
            mean_of(idle[application.RESTART_GAIN]).within(0.99, 1.01),
        ),
        claim(
            12,
            "With aggregated acknowledgements, the window exceeds 2 BDP, and the sender doubles its rate "
            "until the full bandwidth is discovered.",
            mean_of(aggregated[link.STARTUP_WINDOW]) > 2,
            mean_of(aggregated[link.OVER_SEND_RATE]) <= 1,
            mean_of(aggregated[link.STARTUP_GROWTH]) >= 1.8,
            mean_of(aggregated[states.ESTIMATE]) >= 0.98,
        ),
        claim(
            13,
            "With aggregated acknowledgements, the window exceeds 2 BDP, and the link is fully utilised.",
            mean_of(aggregated[link.CRUISE_WINDOW]) > 2,
            mean_of(aggregated[seen.STEADY_RATE]) >= 0.98,
            mean_of(aggregated[link.LONGEST_PAUSE]) < 20,
        ),
        claim(
            14,
            "With a BDP below one packet, 4 packets are a floor for the window, and the pacing rate matches "
            "the bandwidth.",
            mean_of(sub_packet[seen.LEAST_PACKETS]) >= 4,
            mean_of(sub_packet[link.SLOW_PACING]).within(0.95, 1.05),
            mean_of(sub_packet["bottleneck.utilisation"]) >= 98,
        ),
        claim(
            15,
            "When the bandwidth increases by 10x, the increments of the window double, and the full "
            "bandwidth is discovered within O(log(BDP)) rounds.",
            mean_of(ten_times_with_loss[link.GROWTH_RATIO]).within(1.5, 2.5),
            mean_of(ten_times[link.ROUNDS_TO_FULL]) <= 25,
        ),
        claim(
            16,
            "When the bandwidth decreases by 10x, the sender adapts rapidly to the losses, and the estimated "
            "bandwidth drops to the new limit after 2 cycles.",
            mean_of(tenth[seen.ROUNDS_TO_SLOW_DOWN]) <= 3,
            mean_of(tenth[link.CYCLES_TO_FALL]) <= 2,
            near(tenth[link.FINAL_ESTIMATE], 1),
        ),
        claim(
            17,
            "When a policer drops packets, the sender adapts, and reaches the token rate without excessive "
            "loss.",
            mean_of(policed[link.WINDOW_ADAPTS]) < 0.9,
            mean_of(policed[seen.TOKEN_RATE]) >= 0.9,
            mean_of(policed[link.POLICED_BANDWIDTH]).within(0.9, 1.1),
            mean_of(policed[link.POLICED_LOSS]) <= 2,
        ),
        claim(
            18,
            "After a spurious fast recovery, the sender returns to its previous state.",
            mean_of(reordered[losses.SPURIOUS]) >= 1,
            mean_of(reordered[losses.LOSSES]) < 0.5,
            mean_of(reordered[seen.PACING_RESTORED]) >= 0.98,
            mean_of(reordered[losses.WINDOW_RESTORED]) >= 0.98,
            always(reordered[losses.SAME_STATE]),
        ),
        claim(
            19,
            "After a spurious timeout, the sender returns to its previous state.",
            mean_of(delayed[seen.RTO_PACING]) >= 0.98,
            mean_of(delayed[losses.RTO_WINDOW]) >= 0.98,
            always(delayed[losses.RTO_STATE]),
        ),
        claim(
            20,
            "After a PROBE_RTT that began in STARTUP, the sender returns to STARTUP.",
            mean_of(long_path[states.STARTUP_PROBE_RTTS]) >= 1,
            always(long_path[states.BACK_TO_STARTUP]),
        ),
        claim(
            21,
            "Loss in UP scales the limit of the window down, and DOWN begins immediately.",
            mean_of(lossy[states.UP_LASTS]) < 3,
            always(lossy[states.UP_TO_DOWN]),
            mean_of(lossy[losses.AFTER_LOSS]).within(0.98, 1 / 0.7),
        ),
        claim(
            22,
            "A pause of the application in REFILL does not lower the estimated bandwidth, and UP and DOWN "
            "follow.",
            mean_of(paused[seen.PAUSES]) >= 1,
            mean_of(paused[seen.PAUSE_BANDWIDTH]) >= 0.99,
            mean_of(paused[seen.PAUSE_TO_UP]) <= 3,
            always(paused[seen.PAUSE_THEN_DOWN]),
            source="UP begins at most three round trips after the beginning of the pause, because the pause "
            "lasts one round trip, and the first acknowledgement arrives one round trip later",
        ),
        our_claim(
            "BBR-K",
            "Without losses, the estimated bandwidth is the maximum of two probing cycles, so that the "
            "sender keeps the bandwidth in CRUISE.",
            every(
                mean_of(base[seen.KEPT_BANDWIDTH]) >= 1 - seen.ERROR,
                mean_of(base[seen.STEADY_RATE]) >= 1 - seen.ERROR,
            ),
            "section 2.9.1, definition of BBR.max_bw",
        ),
    )
    cases = (
        *(base, limited_loss, limited, slower_in_drain, half_in_drain, slower_in_down, idle, aggregated),
        *(sub_packet, ten_times, ten_times_with_loss, tenth, policed, reordered, delayed, long_path),
        *(lossy, paused),
    )
    return Study.of(
        f"bbr-cases-{guest.replace(':', '-')}",
        f"The example test cases of the BBR draft, seen from outside: {guest}",
        *(one.experiment for one in cases),
        *claims,
        *drawings(base, claims),
        question="Which of the draft's test cases do the simulated BBR and a guest pass, as far as visible?",
        readings=tuple(
            Reading(name=name, labels={"sender": name}, suffix=f", {name}") for name in (*SIMULATED, guest)
        ),
    )

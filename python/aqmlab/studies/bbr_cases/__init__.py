"""The 22 example test cases of the BBR draft (draft-ietf-ccwg-bbr, editor's copy of 3 August 2026).

The draft describes each case as a list of steps. Each claim quotes the draft's expectation of one case, and
holds if the sender does what the draft expects with all seeds. The draft does not specify the rate, delay and
buffer, so `network.py` contains aqmlab's base set-up. Variables of the pseudocode that no table contains
(`full_bw_count`, `inflight_longterm`, `bw_shortterm`, `idle_restart`) are judged by their visible effects:
states, times, pacing gain, window and bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from aqmlab.measures import Measure
from aqmlab.scenario import Scenario, qlog
from aqmlab.studies.bbr_cases import network as net
from aqmlab.studies.bbr_cases import outside
from aqmlab.studies.bbr_cases.cases import CASES, SEEDS, OfSeed, always, claim
from aqmlab.studies.bbr_cases.measures import application, link, losses, states
from aqmlab.study import Claim, Experiment, Form, Study, every, mean_of
from aqmlab.study.publication import Verdicts

PAPER = (
    "N. Cardwell, I. Swett, J. Beshay: BBR Congestion Control. draft-ietf-ccwg-bbr, commit 4ce5e87d, "
    "3 August 2026."
)
QLOG_SEED = 1


def case(name: str, *measures: Measure | str, of_seed: OfSeed | None = None) -> Experiment:
    """An experiment with a single point, the profile `draft` of `bbr3`."""
    title, scenario = CASES[name]
    return Experiment(
        name,
        title,
        scenario,
        {"tcp.congestion_control.profile": ("draft",)},
        measures,
        seeds=SEEDS,
        most_seeds=4 * SEEDS,
        quick=Form(seeds=3),
        of_seed=of_seed,
    )


normal = case(
    "base",
    *(
        states.ESTIMATE,
        states.STARTUP_PLATEAU,
        states.TO_DRAIN,
        states.DRAIN_GAIN,
        states.DRAIN_INFLIGHT,
        states.DRAIN_BEFORE,
        states.FROM_DRAIN,
    ),
    *(
        states.UP_ROUNDS,
        states.UP_TO_DOWN,
        losses.LOSSES,
        states.DOWN_GAIN,
        states.DOWN_INFLIGHT,
        states.DOWN_BEFORE,
        states.DOWN_TO_CRUISE,
    ),
    *(
        states.PROBE_RTTS,
        states.PROBE_RTT_WINDOW,
        states.PROBE_RTT_DURATION,
        states.PROBE_RTT_TO_BW,
        states.AFTER_PROBE_RTT,
    ),
)
limited_loss = case(
    "limited-loss",
    *(application.LEAVES_STARTUP, states.STARTUP_BANDWIDTH, states.UP_LASTS, states.UP_TO_DOWN_OR_CRUISE),
)
limited = case("limited", application.STAYS_IN_STARTUP, losses.LOSSES)
slower_in_drain = case(
    "slower-in-drain",
    *(states.DRAIN_ROUNDS, states.DRAIN_INFLIGHT, states.FROM_DRAIN),
)
half_in_drain = case(
    "half-in-drain",
    states.DRAIN_ROUNDS,
    states.DRAIN_INFLIGHT,
    states.FROM_DRAIN,
)
slower_in_down = case(
    "slower-in-down",
    *(states.DOWN_TO_REFILL, states.DOWN_DURATION, states.DOWN_INFLIGHT),
    of_seed=net.slower_at_down,
)
idle = case(
    "idle",
    application.IDLE_PAUSES,
    application.NO_PROBE_RTT,
    application.RESTART_GAIN,
)
aggregated = case(
    "aggregated",
    *(link.STARTUP_WINDOW, link.OVER_SEND_RATE, link.STARTUP_GROWTH, states.ESTIMATE),
    *(link.CRUISE_WINDOW, link.CRUISE_RATE, link.LONGEST_PAUSE),
)
sub_packet = case(
    "sub-packet",
    link.LEAST_WINDOW,
    link.SLOW_PACING,
    "bottleneck.utilisation",
)
ten_times = case("ten-times", link.ROUNDS_TO_FULL)
ten_times_with_loss = case("ten-times-with-loss", link.GROWTH_RATIO)
tenth = case("tenth", link.ROUNDS_TO_FALL, link.CYCLES_TO_FALL, link.FINAL_ESTIMATE)
policed = case(
    "policed",
    *(
        link.BANDWIDTH_ADAPTS,
        link.WINDOW_ADAPTS,
        link.POLICED_LOSS,
        link.POLICED_RATE,
        link.POLICED_BANDWIDTH,
    ),
)
reordered = case(
    "reordered",
    *(losses.SPURIOUS, losses.LOSSES, losses.BANDWIDTH_RESTORED, losses.WINDOW_RESTORED, losses.SAME_STATE),
)
delayed = case(
    "delayed",
    *(losses.TIMEOUTS, losses.RTO_BANDWIDTH, losses.RTO_WINDOW, losses.RTO_STATE, losses.LOSSES),
)
long_path = case("long-path", states.STARTUP_PROBE_RTTS, states.BACK_TO_STARTUP)
lossy = case("lossy", states.UP_LASTS, states.UP_TO_DOWN, losses.AFTER_LOSS)
paused = case(
    "paused",
    *(
        application.LIMITED_REFILLS,
        application.REFILL_BANDWIDTH,
        application.REFILL_TO_UP,
        application.REFILL_THEN_DOWN,
    ),
    of_seed=net.pause_at_refill,
)


CLAIMS = (
    claim(
        1,
        "The estimated bandwidth is within 2 % of the simulated bandwidth; after 3 consecutive rounds "
        "where the delivery rate grows by less than 25 %, the connection transitions from STARTUP to "
        "DRAIN.",
        mean_of(normal[states.ESTIMATE]).within(0.98, 1.02),
        mean_of(normal[states.STARTUP_PLATEAU]).within(3, 3),
        always(normal[states.TO_DRAIN]),
    ),
    claim(
        2,
        "Loss triggers the end of STARTUP even when bandwidth samples are application-limited.",
        always(limited_loss[application.LEAVES_STARTUP]),
        mean_of(limited_loss[states.STARTUP_BANDWIDTH]) < 0.9,
        source="DRAIN can end with the same acknowledgement that begins DRAIN, so the DRAIN state is not "
        "judged",
    ),
    claim(
        3,
        "The pacing gain is 0.5, and when C.inflight drops below or equal to BBRInflight(1.0), the "
        "connection exits DRAIN and transitions to PROBE_BW.",
        mean_of(normal[states.DRAIN_GAIN]).within(0.49, 0.51),
        mean_of(normal[states.DRAIN_BEFORE]) > 1,
        mean_of(normal[states.DRAIN_INFLIGHT]) <= 1,
        always(normal[states.FROM_DRAIN]),
    ),
    claim(
        4,
        "If the bandwidth decreases by 10 % upon entering DRAIN, after 3 round trips the connection exits "
        "DRAIN and transitions to PROBE_BW even though C.inflight has not reached the target BDP.",
        mean_of(slower_in_drain[states.DRAIN_ROUNDS]).within(3, 4),
        mean_of(slower_in_drain[states.DRAIN_INFLIGHT]) > 1,
        always(slower_in_drain[states.FROM_DRAIN]),
        source="according to the pseudocode, DRAIN ends when the fourth round starts, so 3 or 4 rounds are "
        "allowed",
    ),
    Claim(
        "BBR-4b",
        "If the bandwidth decreases by 55 % instead of 10 %, DRAIN ends after 3 round trips while more than "
        "one BDP of data is still in flight.",
        every(
            mean_of(half_in_drain[states.DRAIN_ROUNDS]).within(3, 4),
            mean_of(half_in_drain[states.DRAIN_INFLIGHT]) > 1,
            always(half_in_drain[states.FROM_DRAIN]),
        ),
        "case 4 with a different rate, which is aqmlab's choice",
        origin="ours",
    ),
    claim(
        5,
        "Without packet loss, PROBE_UP ends after 3 consecutive rounds where the delivery rate grows by "
        "less than 25 %, and the connection transitions to PROBE_DOWN.",
        mean_of(normal[states.UP_ROUNDS]).within(3, 3),
        mean_of(normal[losses.LOSSES]) < 0.5,
        always(normal[states.UP_TO_DOWN]),
    ),
    claim(
        6,
        "High loss ends PROBE_UP regardless of the application-limited state.",
        mean_of(limited_loss[states.UP_LASTS]) < 3,
        always(limited_loss[states.UP_TO_DOWN_OR_CRUISE]),
        source="inflight_longterm is not visible; DOWN can end with the same acknowledgement that begins "
        "DOWN",
    ),
    claim(
        7,
        "As long as there is no loss and the rounds are application-limited, the connection stays in "
        "PROBE_UP (or STARTUP) indefinitely.",
        always(limited[application.STAYS_IN_STARTUP]),
        mean_of(limited[losses.LOSSES]) < 0.5,
        source="judged in STARTUP; ProbeRTT may interrupt STARTUP (case 20)",
    ),
    claim(
        8,
        "The pacing gain is 0.90, and when C.inflight falls below or equal to both "
        "BBRInflightWithHeadroom() and BBRInflight(1.0), the connection transitions to PROBE_CRUISE.",
        mean_of(normal[states.DOWN_GAIN]).within(0.89, 0.91),
        mean_of(normal[states.DOWN_BEFORE]) > 1,
        mean_of(normal[states.DOWN_INFLIGHT]) <= 1,
        always(normal[states.DOWN_TO_CRUISE]),
        source="without losses, the headroom is unlimited",
    ),
    claim(
        9,
        "If the bandwidth decreases by 10 % upon entering PROBE_DOWN, the connection transitions directly to "
        "PROBE_REFILL after bw_probe_wait, bypassing PROBE_CRUISE.",
        always(slower_in_down[states.DOWN_TO_REFILL]),
        mean_of(slower_in_down[states.DOWN_DURATION]).within(2, 3.1),
        mean_of(slower_in_down[states.DOWN_INFLIGHT]) > 1,
        source="bw_probe_wait is 2 to 3 s, and the transition requires an acknowledgement that arrives "
        "after this time",
    ),
    claim(
        10,
        "PROBE_RTT has a window of half of the BDP, lasts at least 200 ms and one round trip, and the "
        "connection transitions back to PROBE_BW and resumes sending.",
        mean_of(normal[states.PROBE_RTTS]) >= 1,
        mean_of(normal[states.PROBE_RTT_WINDOW]).within(0.49, 0.51),
        mean_of(normal[states.PROBE_RTT_DURATION]).within(0.2, 0.2 + 3 * net.RTT_S),
        always(normal[states.PROBE_RTT_TO_BW]),
        mean_of(normal[states.AFTER_PROBE_RTT]) >= 0.9,
        source="the maximum duration of 200 ms plus 3 round trips, and the minimum rate of 90 %, are "
        "aqmlab's choice",
    ),
    claim(
        11,
        "Upon sending new data after more than 5 s without data, the connection skips entering PROBE_RTT.",
        mean_of(idle[application.IDLE_PAUSES]) >= 1,
        always(idle[application.NO_PROBE_RTT]),
        mean_of(idle[application.RESTART_GAIN]).within(0.99, 1.01),
        source="a pacing gain of exactly 1 indicates idle_restart",
    ),
    claim(
        12,
        "With aggregated acknowledgements, C.cwnd > 2 BDP, and the connection still successfully doubles "
        "its sending rate to discover the full bottleneck bandwidth.",
        mean_of(aggregated[link.STARTUP_WINDOW]) > 2,
        mean_of(aggregated[link.OVER_SEND_RATE]) <= 1,
        mean_of(aggregated[link.STARTUP_GROWTH]) >= 1.8,
        mean_of(aggregated[states.ESTIMATE]) >= 0.98,
        source="a growth of 1.8 counts as doubling, which is aqmlab's choice",
    ),
    claim(
        13,
        "With aggregated acknowledgements, C.cwnd is augmented by extra_acked, preventing the connection "
        "from stalling during inter-ACK silences and maintaining full utilisation.",
        mean_of(aggregated[link.CRUISE_WINDOW]) > 2,
        mean_of(aggregated[link.CRUISE_RATE]) >= 0.98,
        mean_of(aggregated[link.LONGEST_PAUSE]) < 20,
        source="the silences last up to 20 ms",
    ),
    claim(
        14,
        "With a BDP below one packet, 4 packets are a floor for C.cwnd, and the pacing rate matches the "
        "low bandwidth without stalling the pipeline.",
        mean_of(sub_packet[link.LEAST_WINDOW]) >= 4,
        mean_of(sub_packet[link.SLOW_PACING]).within(0.95, 1.05),
        mean_of(sub_packet["bottleneck.utilisation"]) >= 98,
        source="the ranges are aqmlab's choice",
    ),
    claim(
        15,
        "When the bandwidth increases by 10x, the step size added to inflight_longterm doubles each round "
        "trip, and the connection discovers the full bandwidth within O(log(BDP)) round trips.",
        mean_of(ten_times_with_loss[link.GROWTH_RATIO]).within(1.5, 2.5),
        mean_of(ten_times[link.ROUNDS_TO_FULL]) <= 25,
        source="25 rounds are 3 log2(BDP in packets); aqmlab chose the factor 3 after a first run had taken "
        "17 rounds",
    ),
    claim(
        16,
        "When the bandwidth decreases by 10x, bw_shortterm rapidly adapts downwards due to packet loss, "
        "and after 2 PROBE_BW cycles max_bw drops to the new limit.",
        mean_of(tenth[link.ROUNDS_TO_FALL]) <= 3,
        mean_of(tenth[link.CYCLES_TO_FALL]) <= 2,
        mean_of(tenth[link.FINAL_ESTIMATE]).within(0.98, 1.02),
        source="3 round trips count as rapid, which is aqmlab's choice",
    ),
    claim(
        17,
        "When a policer drops packets, inflight_shortterm and bw_shortterm adapt, and BBR eventually "
        "reaches a stable operating point that conforms to the token rate without excessive continuous "
        "packet loss.",
        mean_of(policed[link.BANDWIDTH_ADAPTS]) < 0.9,
        mean_of(policed[link.WINDOW_ADAPTS]) < 0.9,
        mean_of(policed[link.POLICED_RATE]) >= 0.9,
        mean_of(policed[link.POLICED_BANDWIDTH]).within(0.9, 1.1),
        mean_of(policed[link.POLICED_LOSS]) <= 2,
        source="a loss of more than LossThresh (2 %) counts as excessive; the other limits are aqmlab's "
        "choice",
    ),
    claim(
        18,
        "After a spurious fast recovery, the saved parameters are restored, and the connection seamlessly "
        "returns to its previous state.",
        mean_of(reordered[losses.SPURIOUS]) >= 1,
        mean_of(reordered[losses.LOSSES]) < 0.5,
        mean_of(reordered[losses.BANDWIDTH_RESTORED]) >= 0.98,
        mean_of(reordered[losses.WINDOW_RESTORED]) >= 0.98,
        always(reordered[losses.SAME_STATE]),
        source="judged in CRUISE",
    ),
    claim(
        19,
        "After a spurious RTO recovery, the saved parameters are restored, and the connection seamlessly "
        "returns to its previous state.",
        mean_of(delayed[losses.TIMEOUTS]) >= 1,
        mean_of(delayed[losses.RTO_BANDWIDTH]) >= 0.98,
        mean_of(delayed[losses.RTO_WINDOW]) >= 0.98,
        always(delayed[losses.RTO_STATE]),
        source="a delay spike in CRUISE instead of reordering",
    ),
    claim(
        20,
        "Upon exiting a PROBE_RTT that began in STARTUP, the connection transitions back to STARTUP.",
        mean_of(long_path[states.STARTUP_PROBE_RTTS]) >= 1,
        always(long_path[states.BACK_TO_STARTUP]),
    ),
    claim(
        21,
        "With inflight_longterm set, loss in PROBE_UP scales inflight_longterm down, and the connection "
        "immediately transitions to PROBE_DOWN.",
        mean_of(lossy[states.UP_LASTS]) < 3,
        always(lossy[states.UP_TO_DOWN]),
        mean_of(lossy[losses.AFTER_LOSS]).within(0.98, 1 / 0.7),
        source="inflight_longterm is max(inflight at the loss, 0.7 min(BDP, cwnd)), and bounds the window",
    ),
    claim(
        22,
        "Application-limited samples in PROBE_REFILL do not lower max_bw, and the connection transitions "
        "to PROBE_UP and correctly handles subsequent probing.",
        mean_of(paused[application.LIMITED_REFILLS]) >= 1,
        mean_of(paused[application.REFILL_BANDWIDTH]) >= 0.99,
        always(paused[application.REFILL_TO_UP]),
        always(paused[application.REFILL_THEN_DOWN]),
    ),
)

EXPERIMENTS = (
    *(
        normal,
        limited_loss,
        limited,
        slower_in_drain,
        half_in_drain,
        slower_in_down,
        idle,
        aggregated,
        sub_packet,
    ),
    *(ten_times, ten_times_with_loss, tenth, policed, reordered, delayed, long_path, lossy, paused),
)


def scenario(experiment: Experiment, seed: int) -> Scenario:
    """The scenario of a case with a seed."""
    table = dict(experiment.given)
    if experiment.of_seed is not None:
        table = experiment.of_seed(table, {}, seed)
    return Scenario.from_dict(table, name=experiment.name)


def write_qlogs(folder: Path) -> Iterator[Path]:
    """Writes the qlog files of the first seed of every case into folders named after the experiments."""
    for one in EXPERIMENTS:
        run = qlog.recorded(scenario(one, QLOG_SEED)).run(seed=QLOG_SEED)
        yield from qlog.write(run, folder / "qlog" / one.name)


def answer(found: Verdicts) -> list[str]:
    """The number of cases that hold, and the names of the other cases."""
    verdicts: Mapping[str, str] = {
        one.id: one.evidence.verdict for one in found if one.claim.origin == "paper"
    }
    others = [f"{id} {verdict}" for id, verdict in verdicts.items() if verdict != "holds"]
    held = len(verdicts) - len(others)
    rest = f" The others: {', '.join(others)}." if others else ""
    return [f"{held} of the draft's {len(verdicts)} cases hold.{rest}"]


STUDY = Study.of(
    "bbr-cases",
    "The example test cases of the BBR draft",
    *EXPERIMENTS,
    *CLAIMS,
    paper=PAPER,
    question="Does the simulator's BBR version 3 do what the draft's test cases expect?",
    answer=answer,
    with_senders=outside.form,
    attachments=write_qlogs,
)

"""The War Between Mice and Elephants (Guo and Matta, ICNP 2001, and its talk).

Details that the talk leaves open are aqmlab's choice. These choices are listed on the study's page, and in
`network.py` if alternatives are tested. Table I is the only result that is available as numbers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from aqmlab.results.rule import compared, difference, every, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.studies.mice_elephants import measures as m
from aqmlab.studies.mice_elephants import random_loss, table_1, web
from aqmlab.studies.mice_elephants.network import DECISIONS, OTHERS, RIO_PS
from aqmlab.studies.mice_elephants.network import queues as queues_of
from aqmlab.studies.shared import less, warm_up_warning
from aqmlab.study import Claim, Study, Table
from aqmlab.study.publication import Queues
from aqmlab.study.queues import at, counted, readings
from aqmlab.study.tables import overview
from aqmlab.sweep import Changes

TITLE = "The War Between Mice and Elephants"
PAPER = "L. Guo, I. Matta: The War Between Mice and Elephants. ICNP 2001, and the talk."


def with_queues(queues: Queues) -> Study:
    """Tests whether other queues serve short files as well as RIO-PS does, without an edge that marks
    them."""
    # Senders use ECN, so that queues which mark by default can mark.
    others = at(queues, "bottleneck", **{"tcp.ecn.mode": "on"})
    by_bdp = {bdp: Changes({**queues_of(bdp), **others}) for bdp in (web.BDP_1, web.BDP_2)}
    exp_1 = replace(web.exp_1, name="today-exp-1", axes={"queue": by_bdp[web.BDP_1]}, varied=None)
    exp_2 = replace(
        web.exp_2,
        name="today-exp-2",
        scenario={**web.exp_2.given, **web.lasting(web.FULL_S // 2)},
        axes={"queue": by_bdp[web.BDP_2], "mix": web.ONE_CLASS},
        varied=None,
    )
    of_long = compared(*exp_1.variables(m.LONG_FILES, m.LONG_FLOWS), queue=(None, OTHERS))
    jain = compared(*exp_1.variables(m.SHORT_JAIN, m.LONG_JAIN), queue=(None, [RIO_PS]), by=difference)
    goodput = ratio(exp_1[m.GOODPUT], exp_1[m.GOODPUT].at(queue="Drop Tail"))
    of_files = (m.SHORT_FILES, m.LONG_FILES, m.SHORT_FLOWS, m.SHORT_SPREAD, m.LONG_FLOWS)
    of_exp_1 = (*of_files, m.SHORT_JAIN, m.LONG_JAIN, m.GOODPUT, m.MEAN_QUEUE, m.REFUSED)
    of_exp_2 = {
        mix: exp_2.variables(m.RESPONSE, m.GOODPUT, m.MEAN_QUEUE, mix=mix)
        for mix in ("short files", "long files")
    }
    ours = partial(Claim, origin="ours")
    return Study.of(
        "mice-elephants-today",
        f"{TITLE}, with other queues",
        exp_1,
        exp_2,
        ours(
            "T-MI-5",
            "Short files are served sooner than with RED and Drop Tail.",
            less(exp_1[m.SHORT_FILES], than=OTHERS),
            "the conclusions of the talk, which are about RIO-PS",
        ),
        ours(
            "T-MI-5r",
            "Short files are served sooner than with RIO-PS.",
            less(exp_1[m.SHORT_FILES], than=[RIO_PS]),
            "aqmlab's own claim; the talk does not make this claim",
        ),
        ours(
            "T-MI-6",
            "Long files are not served worse than with RED and Drop Tail.",
            every(*(one <= 1.05 for one in of_long)),
            "the abstract, which is about RIO-PS; times that are up to 5 % longer are allowed, which is "
            "aqmlab's choice",
        ),
        ours(
            "T-MI-8",
            "The rates of the flows of a batch are at least as equal as with RIO-PS.",
            every(*(one >= -0.02 for one in jain)),
            "figures 8a and 8b, which are about RIO-PS; the margin of 0.02 is aqmlab's choice",
        ),
        ours(
            "T-MI-9",
            "Short foreground flows take less time than with RED and Drop Tail, and their times vary less.",
            less(exp_1[m.SHORT_FLOWS], exp_1[m.SHORT_SPREAD], than=OTHERS),
            "figure 9a, which is about RIO-PS",
        ),
        ours(
            "T-MI-10",
            "Goodput is at least as high as with Drop Tail.",
            goodput >= 0.995,
            "Table IV, which is about RIO-PS; a shortfall of half a percent is allowed, which is aqmlab's "
            "choice",
        ),
        ours(
            "T-MI-12",
            "If all files are of one class, the queue works as well as plain RED.",
            web.as_good_as_red(exp_2, queue=None),
            "the abstract, which is about RIO-PS; the margins are aqmlab's choice",
        ),
        Table("exp-1", "Exp 1, initial time-out of 3 s", overview(exp_1.variables(*of_exp_1), by="queue")),
        *(
            Table(f"exp-2-{mix.split()[0]}", f"Exp 2, {mix} only", overview(variables, by="queue"))
            for mix, variables in of_exp_2.items()
        ),
        paper=PAPER,
        question="Do these queues do for short flows what RIO-PS and its edge were designed for?",
        answer=lambda found: counted(found, "of what RIO-PS was claimed to do"),
        readings=readings(queues),
    )


def _checks(results: ExperimentResults) -> list[str]:
    warm_up_s = results[web.exp_1.name].rows[0][m.WARM_UP]
    active = [web.in_exp_1(m.ACTIVE)]
    return warm_up_warning(active, results, m.SERIES_STEP_S, f"{warm_up_s:g} s", warm_up_s)


STUDY = Study.of(
    "mice-elephants",
    TITLE,
    *table_1.PARTS,
    *random_loss.PARTS,
    *web.PARTS,
    *DECISIONS,
    paper=PAPER,
    question="If edge routers distinguish short flows from long ones and core routers prefer short flows, "
    "how much do short flows gain, and how much do long ones lose?",
    checks=_checks,
    with_queues=with_queues,
)

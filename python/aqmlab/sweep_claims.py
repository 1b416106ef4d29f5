"""Claims about a sweep: a comparison of measures with a band, judged at each point, corrected for how many
judgements there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from aqmlab import stats
from aqmlab.stats import Band, Verdict
from aqmlab.sweep import Sweep, Value, filtered

if TYPE_CHECKING:
    from aqmlab.sweep_result import Against, SweepResult

_BANDS = ("below", "above", "at_most", "at_least", "within")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """That the difference or ratio of a measure between two values of an axis lies in a band; without an
    axis, that the measure itself does.

    It is judged at each point of the other axes for which `where` holds.
    """

    KEYS: ClassVar[tuple[str, ...]] = ("says", "measure", "ratio", "difference", "where", *_BANDS)

    says: str
    measure: str
    band: Band
    how: Against | None = None
    label: str = ""
    """The axis along which two values are compared."""
    ours: Value = ""
    theirs: Value = ""
    where: str | None = None

    @classmethod
    def read(
        cls, field: str, table: Mapping[str, Any], sweep: Sweep, values: Mapping[str, Sequence[Value]]
    ) -> Claim:
        """The claim of a table of a sweep file, about these values of axes, by label. Raises `ValueError`,
        which names the field."""
        for key in ("says", "measure"):
            if not isinstance(table.get(key), str):
                raise ValueError(f"{field}.{key}: is missing, or no text")
        names = [one.name for one in sweep.wanted]
        if table["measure"] not in names:
            raise ValueError(f"{field}.measure: `{table['measure']}` is not measured: {', '.join(names)} are")
        bands = [key for key in _BANDS if key in table]
        if len(bands) != 1:
            raise ValueError(f"{field}: give one of {', '.join(_BANDS)}")
        band = _band(f"{field}.{bands[0]}", bands[0], table[bands[0]])
        where = table.get("where")
        if where is not None:
            if not isinstance(where, str):
                raise ValueError(f"{field}.where: must be text, is {where!r}")
            filtered(f"{field}.where", sweep.labels.drop("point"), where)
        how = [key for key in ("ratio", "difference") if key in table]
        if len(how) > 1:
            raise ValueError(f"{field}: give ratio or difference, not both")
        about = {"says": table["says"], "measure": table["measure"], "where": where}
        if not how:
            return cls(**about, band=band)
        pair = table[how[0]]
        if not isinstance(pair, Mapping) or len(pair) != 1:
            raise ValueError(f'{field}.{how[0]}: must be as {{ queue = ["red", "drop-tail"] }}, is {pair!r}')
        ((label, compared),) = pair.items()
        if not isinstance(compared, list) or len(compared) != 2:
            raise ValueError(f"{field}.{how[0]}.{label}: must be two values, is {compared!r}")
        if label not in values:
            raise ValueError(f"{field}.{how[0]}: no axis is called `{label}`: there is {', '.join(values)}")
        for value in compared:
            if value not in values[label]:
                known = ", ".join(map(str, values[label]))
                raise ValueError(f"{field}.{how[0]}: {label} is never {value!r}: it takes {known}")
        if compared[0] == compared[1]:
            raise ValueError(f"{field}.{how[0]}.{label}: {compared[0]!r} is compared with itself")
        axis = next(one for one in sweep.all_axes if one.label == label)
        if axis.path in sweep.own_seeds:
            raise ValueError(
                f"{field}.{how[0]}: points along {label} have seeds of their own, and are no pairs"
            )
        kind: Against = "ratio" if how[0] == "ratio" else "difference"
        return cls(**about, band=band, how=kind, label=label, ours=compared[0], theirs=compared[1])

    @property
    def rule(self) -> str:
        """What is compared, in words."""
        if self.how is None:
            return f"{self.measure} is {self.band}"
        sign = "/" if self.how == "ratio" else " - "
        return f"{self.measure}: {self.ours}{sign}{self.theirs} is {self.band}"


def _band(field: str, name: str, given: Any) -> Band:
    def is_number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    if name == "within":
        if not isinstance(given, list) or len(given) != 2 or not all(map(is_number, given)):
            raise ValueError(f"{field}: must be two numbers, is {given!r}")
        if given[1] < given[0]:
            raise ValueError(f"{field}: the second number must not be below the first, is {given!r}")
        return stats.within(*given)
    if not is_number(given):
        raise ValueError(f"{field}: must be a number, is {given!r}")
    make = {"below": stats.below, "above": stats.above, "at_most": stats.at_most, "at_least": stats.at_least}
    return make[name](given)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A claim at one point."""

    labels: Mapping[str, Value]
    interval: stats.Interval
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim, judged at each point, and as a whole: it holds if it does everywhere, and fails if it does
    somewhere."""

    claim: Claim
    judgements: tuple[Judgement, ...]
    level: float
    """That of each interval, so that all hold together with 95 %."""

    @property
    def verdict(self) -> Verdict:
        """As a whole."""
        found = {one.verdict for one in self.judgements}
        if "fails" in found:
            return "fails"
        return "holds" if found == {"holds"} else "undecided"


def judge(claims: tuple[Claim, ...], result: SweepResult) -> tuple[Judged, ...]:
    """Every claim at every point. The intervals of all hold together with 95 % (Bonferroni), also where
    precision looked at the runs more than once."""
    first = [_rows(claim, result, stats.LEVEL) for claim in claims]
    level = result.level(count=max(1, sum(len(rows) for rows in first)))
    return tuple(
        Judged(claim=claim, level=level, judgements=tuple(_judged(claim, row) for row in rows))
        for claim, rows in zip(claims, (_rows(claim, result, level) for claim in claims), strict=True)
    )


def _judged(claim: Claim, row: Mapping[str, Any]) -> Judgement:
    interval = row["interval"]
    return Judgement(labels=row["labels"], interval=interval, verdict=stats.verdict(interval, claim.band))


def _rows(claim: Claim, result: SweepResult, level: float) -> list[dict[str, Any]]:
    import polars as pl

    values = {axis.label: axis.values for axis in result.sweep.all_axes}
    if claim.how is None:
        table = result.intervals(level).filter(pl.col("measure") == claim.measure)
    elif claim.theirs not in values[claim.label]:
        return []  # A command line left it out.
    else:
        table = result.against(
            {claim.label: claim.theirs}, claim.how, level=level, wanted=[claim.measure]
        ).filter(pl.col(claim.label) == claim.ours)
    if claim.where is not None:
        table = table.filter(pl.sql_expr(claim.where))
    axes = [label for label in result.axes if label != claim.label]
    return [
        {
            "labels": {label: row[label] for label in axes},
            "interval": stats.Interval(
                value=row["mean"],
                low=row["low"],
                high=row["high"],
                count=row["replications"],
                level=level,
            ),
        }
        for row in table.iter_rows(named=True)
    ]

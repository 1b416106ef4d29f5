"""Kinds of access: for each kind, the parts of a scenario that describe its framing, buffers and variable
rates."""

from aqmlab.links.access import cable, dsl, fibre, lte, plain, satellite, wifi
from aqmlab.links.access.kind import Access

KINDS: dict[str, Access] = {
    one.name: one
    for one in (
        cable.ACCESS,
        cable.ACCESS_3_0,
        dsl.ATM,
        dsl.PTM,
        fibre.ACCESS,
        lte.ACCESS,
        satellite.ACCESS,
        wifi.ACCESS,
        plain.ACCESS,
    )
}
"""The kinds of access, by name."""

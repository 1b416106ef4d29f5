"""DSL lines: ATM cells (ADSL) and packet transfer mode (VDSL2).

Sources: tc-cake(8): `pppoe-llcsnap` adds 40 bytes and uses ATM cells; `pppoe-ptm` adds 30 bytes, and PTM
sends 65 bytes for each 64 bytes (ITU-T G.992.3, Annex N). tc-stab(8): the size table that a shaper in front
of the line uses.
"""

from __future__ import annotations

from aqmlab.links.access.kind import SHAPED_SHARE, Access, Entry, Link, Side, Table, drop_tail, rate_text
from aqmlab.links.buffer import PACKET_BYTES, Buffer
from aqmlab.links.measured import Direction

ATM_OVERHEAD, CELL, CELL_DATA = 40, 53, 48
PTM_OVERHEAD, PTM_BLOCK = 30, 64

USUAL_UP = Buffer(seconds=0.6)
USUAL_DOWN = Buffer(seconds=0.1)
SOURCE_UP = (
    "600 ms are aqmlab's choice; M. Dischinger et al., IMC 2007, found upload queues of hundreds of "
    "milliseconds"
)
SOURCE_DOWN = "100 ms are aqmlab's choice"


def atm_bytes(length: int) -> int:
    """Returns the number of bytes that a packet occupies in ATM cells."""
    return -(-(length + ATM_OVERHEAD) // CELL_DATA) * CELL


def ptm_bytes(length: int) -> int:
    """Returns the number of bytes that a packet occupies in packet transfer mode."""
    framed = length + PTM_OVERHEAD
    return framed - (-framed // PTM_BLOCK)


def _atm(side: Side) -> Link:
    sync = side.bps * (atm_bytes(PACKET_BYTES) / PACKET_BYTES if side.is_ip else 1.0)
    comment = (
        f"ATM cells: a packet of {PACKET_BYTES} bytes occupies {atm_bytes(PACKET_BYTES)} bytes, and an "
        f"acknowledgement of 52 bytes {atm_bytes(52)} bytes (PPPoE with LLC/SNAP: {ATM_OVERHEAD} bytes, "
        "tc-cake(8) pppoe-llcsnap)."
    )
    framing = {"linklayer": "atm", "overhead": ATM_OVERHEAD}
    rate = rate_text(SHAPED_SHARE * sync)
    shapers = {
        "sqm-fq-codel": _in_size_table(framing, rate),
        "sqm-cake": {"kind": "cake", "bandwidth": rate, "overhead": ATM_OVERHEAD, "atm": "atm"},
    }
    return _dsl(side, sync, atm_bytes(PACKET_BYTES), (framing, comment), shapers)


def _ptm(side: Side) -> Link:
    sync = side.bps * (ptm_bytes(PACKET_BYTES) / PACKET_BYTES if side.is_ip else 1.0)
    comment = (
        f"Packet transfer mode: each packet is {PTM_OVERHEAD} bytes longer (PPPoE, tc-cake(8) pppoe-ptm), "
        "and 65 bytes carry 64 bytes (ITU-T G.992.3, Annex N)."
    )
    framing = {"linklayer": "ptm", "overhead": PTM_OVERHEAD}
    # Size tables have no packet transfer mode, so the rate of the shaper is reduced by the 65th byte.
    rate = rate_text(SHAPED_SHARE * sync * PTM_BLOCK / (PTM_BLOCK + 1))
    shapers = {
        "sqm-fq-codel": _in_size_table({"overhead": PTM_OVERHEAD}, rate),
        "sqm-cake": {"kind": "cake", "bandwidth": rate, "overhead": PTM_OVERHEAD},
    }
    return _dsl(side, sync, ptm_bytes(PACKET_BYTES), (framing, comment), shapers)


def _in_size_table(table: Table, rate: str) -> Table:
    """Returns a shaper with FQ-CoDel that counts the bytes on the line."""
    htb = {"kind": "htb", "classes": {"line": {"rate": rate, "queue": {"kind": "fq-codel"}}}}
    return {"kind": "stab", **table, "queue": htb}


def _dsl(
    side: Side, sync: float, occupied: int, framing: tuple[Table, str], shapers: dict[str, Table]
) -> Link:
    """Returns the link. `sync` is the rate of the line in bit/s, and `occupied` is the number of bytes that a
    full packet occupies on the line."""
    usual, source = (USUAL_UP, SOURCE_UP) if side.direction is Direction.UPLOAD else (USUAL_DOWN, SOURCE_DOWN)
    queue, comment = drop_tail(side, sync * PACKET_BYTES / occupied, usual, source)
    origin = "computed from the measured rate of IP packets" if side.is_ip else "given"
    return Link(
        entries=[
            Entry(key="rate", value=rate_text(sync), comment=f"Sync rate of the modem ({origin})."),
            Entry(key="framing", value=framing[0], comment=framing[1]),
        ],
        queue=queue,
        queue_comment=comment,
        alternatives=shapers,
    )


ATM = Access(
    name="dsl-atm",
    summary="ADSL, which sends packets in ATM cells.",
    usual_rates=("16Mbps", "1Mbps"),
    usual_rtt="40ms",
    comment="ADSL with ATM cells.",
    link=_atm,
)

PTM = Access(
    name="dsl-ptm",
    summary="VDSL2, which sends packets in packet transfer mode (PTM).",
    usual_rates=("50Mbps", "10Mbps"),
    usual_rtt="25ms",
    comment="VDSL2 with packet transfer mode (PTM). Retransmissions and interleaving of the line are not "
    "modelled.",
    link=_ptm,
)

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
PTM_OVERHEAD, PTM_RATIO = 30, 64 / 65

USUAL_UP = Buffer(seconds=0.6)
USUAL_DOWN = Buffer(seconds=0.1)
SOURCE_UP = (
    "600 ms are aqmlab's choice; M. Dischinger et al., IMC 2007, found upload queues of hundreds of "
    "milliseconds"
)
SOURCE_DOWN = "100 ms are aqmlab's choice"

PORT = "1Gbps"
"""Rate of the modem's Ethernet port. The shaper in the queue imposes the rate of the line."""

PORT_COMMENT = (
    "Rate of the modem's port. The shaper in the queue sends at the line's rate, so the column "
    f"`utilisation` of the table `links` is a share of {PORT}."
)


def atm_bytes(length: int) -> int:
    """Returns the number of bytes that a packet needs in ATM cells."""
    return -(-(length + ATM_OVERHEAD) // CELL_DATA) * CELL


def ptm_bytes(length: int) -> float:
    """Returns the number of bytes that a packet needs in packet transfer mode."""
    return (length + PTM_OVERHEAD) / PTM_RATIO


def _framed(stab: Table, rate: str, queue: Table) -> Table:
    return {**stab, "queue": {"kind": "htb", "classes": {"line": {"rate": rate, "queue": queue}}}}


def _atm(side: Side) -> Link:
    ratio = atm_bytes(PACKET_BYTES) / PACKET_BYTES
    sync = side.bps * (ratio if side.is_ip else 1.0)
    stab = {"kind": "stab", "linklayer": "atm", "overhead": ATM_OVERHEAD}
    framing = (
        f"Line of {rate_text(sync)} with ATM cells: a packet of {PACKET_BYTES} bytes occupies "
        f"{atm_bytes(PACKET_BYTES)} bytes, and an acknowledgement of 52 bytes {atm_bytes(52)} bytes (PPPoE "
        f"with LLC/SNAP: {ATM_OVERHEAD} bytes, tc-cake(8) pppoe-llcsnap)."
    )
    cake = {
        "kind": "cake",
        "bandwidth": rate_text(SHAPED_SHARE * sync),
        "overhead": ATM_OVERHEAD,
        "atm": "atm",
    }
    return _dsl(side, sync, sync / ratio, stab, framing, cake)


def _ptm(side: Side) -> Link:
    ratio = ptm_bytes(PACKET_BYTES) / PACKET_BYTES
    sync = side.bps * (ratio if side.is_ip else 1.0)
    # The shaper counts the overhead, and the rate is reduced by the 65th byte.
    stab = {"kind": "stab", "overhead": PTM_OVERHEAD}
    framing = (
        f"Line of {rate_text(sync)} with packet transfer mode: each packet is {PTM_OVERHEAD} bytes longer "
        "(PPPoE, tc-cake(8) pppoe-ptm), and 65 bytes carry 64 bytes (ITU-T G.992.3, Annex N)."
    )
    shaped = SHAPED_SHARE * sync * PTM_RATIO
    cake = {"kind": "cake", "bandwidth": rate_text(shaped), "overhead": PTM_OVERHEAD}
    return _dsl(side, sync * PTM_RATIO, sync / ratio, stab, framing, cake)


def _dsl(side: Side, line: float, ip: float, stab: Table, framing: str, cake: Table) -> Link:
    """Returns the link. `line` is the rate that the shaper enforces on framed packets, and `ip` is the rate
    of full IP packets."""
    usual, source = (USUAL_UP, SOURCE_UP) if side.direction is Direction.UPLOAD else (USUAL_DOWN, SOURCE_DOWN)
    inner, comment = drop_tail(side, ip, usual, source)
    # Inside the size table, limits count framed bytes.
    if inner["limit"].endswith("B"):
        inner["limit"] = f"{round(int(inner['limit'][:-1]) * line / ip)}B"

    def shaped(kind: str) -> Table:
        return cake if kind == "cake" else _framed(stab, rate_text(SHAPED_SHARE * line), {"kind": kind})

    return Link(
        entries=[Entry(key="rate", value=PORT, comment=PORT_COMMENT)],
        queue=_framed(stab, rate_text(line), inner),
        queue_comment=f"{framing} {comment}",
        shaped=shaped,
    )


ATM = Access(
    name="dsl-atm",
    summary="ADSL, which sends packets in ATM cells.",
    usual_rtt="40ms",
    comment="ADSL with ATM cells.",
    link=_atm,
    is_framed=True,
)

PTM = Access(
    name="dsl-ptm",
    summary="VDSL2, which sends packets in packet transfer mode (PTM).",
    usual_rtt="25ms",
    comment="VDSL2 with packet transfer mode (PTM). Retransmissions and interleaving of the line are not "
    "modelled.",
    link=_ptm,
    is_framed=True,
)

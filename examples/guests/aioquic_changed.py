"""aioquic as a guest with changes of aioquic's code, which show the causes of its share of a Drop Tail link.

    aqmlab coexist cubic aioquic:cubic --queues drop-tail --rate 10Mbps --seeds 3 \\
        --guest 'aioquic=python examples/guests/aioquic_changed.py increase'

The arguments are changes:

- `increase`: in the Reno-friendly region, the window grows by 0.53 datagrams in each round-trip time, as RFC
  9438, section 4.3, specifies, instead of one datagram.
- `datagrams`: a datagram is sent only if the congestion window has room for a full datagram. Without this
  change, aioquic sends a datagram that fills the rest of the window.

Tested with aioquic 1.7.2.
"""

from __future__ import annotations

import sys
from pathlib import Path

from aioquic.quic.congestion.cubic import K_CUBIC_LOSS_REDUCTION_FACTOR, CubicCongestionControl
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder

sys.path.insert(0, str(Path(__file__).parents[1] / "path"))
import aioquic_guest

BETA = K_CUBIC_LOSS_REDUCTION_FACTOR


def change_increase() -> None:
    original = CubicCongestionControl.__init__

    def changed(self: CubicCongestionControl, max_datagram_size: int) -> None:
        original(self, max_datagram_size)
        self.additive_increase_factor = max_datagram_size * 3 * (1 - BETA) / (1 + BETA)

    CubicCongestionControl.__init__ = changed


def change_datagrams() -> None:
    original = QuicPacketBuilder.start_packet

    def changed(self: QuicPacketBuilder, packet_type: QuicPacketType, crypto: object) -> None:
        original(self, packet_type, crypto)
        if packet_type == QuicPacketType.ONE_RTT and self._flight_capacity < self._buffer_capacity:
            self._flight_capacity = 0

    QuicPacketBuilder.start_packet = changed


CHANGES = {"increase": change_increase, "datagrams": change_datagrams}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name not in CHANGES:
            sys.exit(f"{name} is not a change; available: {', '.join(CHANGES)}")
        CHANGES[name]()
    aioquic_guest.serve(aioquic_guest.start)

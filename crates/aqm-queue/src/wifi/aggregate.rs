//! The limits of aggregates, and the times of transmissions.

use aqm_net::{Pace, Span};

use super::{Charge, Config};
use crate::Transmission;

/// The limits and times of an access point.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    packets: u64,
    bytes: u64,
    txop: Span,
    access: Span,
    preamble: Span,
    acknowledgement: Span,
    packet_overhead: u64,
    charges_frame: bool,
}

/// The contents of an aggregate.
#[derive(Clone, Copy, Default)]
pub(super) struct Contents {
    packets: u64,
    /// The number of bytes that are sent, including the overhead of each packet.
    bytes: u64,
}

impl Timing {
    pub fn new(config: &Config) -> Self {
        Self {
            packets: config.packets,
            bytes: config.bytes.bytes(),
            txop: config.txop,
            access: config.access,
            preamble: config.preamble,
            acknowledgement: config.acknowledgement,
            packet_overhead: config.packet_overhead.bytes(),
            charges_frame: config.charge == Charge::Frame,
        }
    }

    /// Returns whether the aggregate contains the maximum number of packets.
    pub fn is_full(&self, contents: Contents) -> bool {
        contents.packets >= self.packets
    }

    /// Adds a packet with this number of bytes. Returns `None` if the packet does not fit. The first packet always
    /// fits.
    pub fn with_packet(&self, contents: Contents, bytes: u16, pace: Pace) -> Option<Contents> {
        let longer = Contents {
            packets: contents.packets + 1,
            bytes: contents.bytes + u64::from(bytes) + self.packet_overhead,
        };
        let fits = longer.bytes <= self.bytes && self.frame(longer, pace) <= self.txop;
        (contents.packets == 0 || fits).then_some(longer)
    }

    /// Returns the duration of the frame.
    fn frame(&self, contents: Contents, pace: Pace) -> Span {
        self.preamble + pace.time_for(contents.bytes)
    }

    /// Returns the transmission of an aggregate, and the time that the transmission costs its station.
    pub fn transmission(&self, contents: Contents, pace: Pace) -> (Transmission, Span) {
        let frame = self.frame(contents, pace);
        let sent = self.access + frame;
        let busy = sent + self.acknowledgement;
        let cost = if self.charges_frame { frame } else { busy };
        (Transmission { sent, busy, continues: false }, cost)
    }
}

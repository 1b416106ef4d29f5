//! A transmitter that sends packets in bursts, as Wi-Fi does (the A-MPDU of IEEE 802.11n and later).
//!
//! The transmitter is idle until a packet is queued. The transmitter then waits until the queued packets or bytes fill
//! a burst, but no longer than `max_wait`. After a further `gap`, the transmitter sends the queued packets back to
//! back, including packets that arrive during the burst. The burst ends when the queue is empty or holds its packets
//! back, when `packets` packets have been sent, or when at least `bytes` bytes have been sent. After the burst, the
//! transmitter is idle again. If packets are already queued when a burst ends, the next `max_wait` starts immediately.
//!
//! A heavily loaded transmitter therefore sends bursts of full size, each after a `gap`. On a lightly loaded link, each
//! burst waits for the full `max_wait`. An outage interrupts a burst, which continues after the outage.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Size, Span, parameters};

use super::Waiting;

parameters! {
    /// Transmission in bursts.
    pub struct Aggregation {
        /// Maximum number of packets in a burst.
        pub packets: u32 = 64, "IEEE 802.11n: the window of a block acknowledgement has 64 frames";
        /// Number of bytes after which a burst ends; the last packet of the burst may exceed this number. By default,
        /// the number of bytes is not limited.
        pub bytes: Option<Size> = None, "aqmlab's choice";
        /// Maximum time for which the transmitter waits for a full burst.
        pub max_wait: Span = Span::from_millis(2), "aqmlab's choice";
        /// Time that the medium requires before each burst, for example for channel access and a preamble.
        pub gap: Span = Span::ZERO, "aqmlab's choice";
    }
}

impl Aggregation {
    pub(super) fn bursts(&self) -> Result<Bursts, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.packets > 0, "packets", "must be at least 1 (got 0)");
        errors.check(
            self.bytes.is_none_or(|bytes| bytes.bytes() > 0),
            "bytes",
            "must be at least 1B (got 0B)",
        );
        let bytes = self.bytes.map_or(u64::MAX, Size::bytes);
        let (packets, max_wait, gap) = (self.packets.into(), self.max_wait, self.gap);
        errors.finish(Bursts { packets, bytes, max_wait, gap, state: State::Resting })
    }
}

/// The state of a transmitter that sends in bursts.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    packets: u64,
    bytes: u64,
    max_wait: Span,
    gap: Span,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Resting,
    /// A packet is queued, and the transmitter waits for more packets.
    Waiting {
        until: Instant,
    },
    /// A burst that starts no earlier than `from`. The other fields are the numbers of packets and bytes that the burst
    /// may still contain.
    Sending {
        from: Instant,
        packets: u64,
        bytes: u64,
    },
}

impl Bursts {
    /// Returns the earliest time, at or after `now`, at which the transmitter may send, given the queued packets
    /// `waiting`.
    pub(super) fn ready(&mut self, now: Instant, waiting: Waiting) -> Instant {
        let until = match self.state {
            State::Sending { from, .. } => return from.max(now),
            State::Waiting { until } => until,
            State::Resting => now + self.max_wait,
        };
        let enough = waiting.packets >= self.packets || waiting.bytes >= self.bytes;
        if !enough && now < until {
            self.state = State::Waiting { until };
            return until;
        }
        let from = now + self.gap;
        self.state = State::Sending { from, packets: self.packets, bytes: self.bytes };
        from
    }

    /// Records a sent packet of `bytes` bytes.
    pub(super) fn sent(&mut self, bytes: u64) {
        let State::Sending { from, packets, bytes: left } = self.state else {
            unreachable!("packets are sent only during a burst");
        };
        let (packets, left) = (packets - 1, left.saturating_sub(bytes));
        let over = packets == 0 || left == 0;
        self.state = if over { State::Resting } else { State::Sending { from, packets, bytes: left } };
    }

    /// Ends the burst because no packet is queued, or because the queue holds its packets back.
    pub(super) fn rest(&mut self) {
        self.state = State::Resting;
    }

    pub(super) fn waits_for_more(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }
}

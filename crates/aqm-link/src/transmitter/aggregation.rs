//! A line that sends packets in bursts, as Wi-Fi does (the A-MPDU of IEEE 802.11n and later).
//!
//! The rule, exactly. The line rests until something waits for it. It then waits until as many packets, or as many
//! bytes, wait as a burst has, or until `max_wait` is over, whatever comes first. After a further `gap` it sends what
//! waits, packet after packet, and what arrives meanwhile joins. The burst is over when nothing waits or may leave (a
//! queue may hold packets back), after `packets` packets, or with the packet with which `bytes` bytes are sent. Then
//! the line rests, and if something waits already, `max_wait` begins at once.
//!
//! So a line that is loaded sends bursts of full size, each after a `gap`, and one that is not makes packets wait for
//! `max_wait`. An outage stops a burst where it is.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Size, Span, parameters};

use super::Waiting;

parameters! {
    /// Transmission in bursts.
    pub struct Aggregation {
        /// Packets in a burst at most.
        pub packets: u32 = 64, "IEEE 802.11n: the window of a block acknowledgement";
        /// Bytes in a burst at most, but for the end of its last packet; left out: any number.
        pub bytes: Option<Size> = None, "ours";
        /// How long the line waits for a full burst.
        pub max_wait: Span = Span::from_millis(2), "ours";
        /// What the medium takes before each burst: its access, a preamble.
        pub gap: Span = Span::ZERO, "ours";
    }
}

impl Aggregation {
    pub(super) fn bursts(&self) -> Result<Bursts, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(self.packets > 0, "packets", "must be at least 1");
        errors.check(self.bytes.is_none_or(|bytes| bytes.bytes() > 0), "bytes", "must be at least 1B");
        let bytes = self.bytes.map_or(u64::MAX, Size::bytes);
        let (packets, max_wait, gap) = (self.packets.into(), self.max_wait, self.gap);
        errors.finish(Bursts { packets, bytes, max_wait, gap, state: State::Resting })
    }
}

/// The bursts of a line.
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
    /// Something waits, and more is waited for.
    Waiting {
        until: Instant,
    },
    /// A burst of which so much may still be sent, but not before `from`.
    Sending {
        from: Instant,
        packets: u64,
        bytes: u64,
    },
}

impl Bursts {
    /// The line is free at `now`, and this waits: the first moment from then on at which it may send.
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

    /// A packet of so many bytes is sent.
    pub(super) fn sent(&mut self, bytes: u64) {
        let State::Sending { from, packets, bytes: left } = self.state else {
            unreachable!("the line was ready");
        };
        let (packets, left) = (packets - 1, left.saturating_sub(bytes));
        let over = packets == 0 || left == 0;
        self.state = if over { State::Resting } else { State::Sending { from, packets, bytes: left } };
    }

    /// Nothing waits, or may leave.
    pub(super) fn rest(&mut self) {
        self.state = State::Resting;
    }

    pub(super) fn waits_for_more(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }
}

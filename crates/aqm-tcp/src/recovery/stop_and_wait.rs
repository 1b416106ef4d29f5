//! Recovers losses with the stop-and-wait protocol: only one segment is in flight at a time, and the segment is
//! retransmitted when the retransmission timer expires.
//!
//! A. Tanenbaum, D. Wetherall, "Computer Networks", 5th edition, 2011, section 3.3.3 (positive acknowledgement with
//! retransmission).
//!
//! aqmlab contains this recovery as an example of a minimal implementation.

use super::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ReceivedAck, Stream, TimerContext, Transmission, Windows,
};
use crate::config::Config;

pub(super) const HAS_SACK: bool = false;

/// Creates a recovery that waits for the acknowledgement of each segment before the next segment is sent.
pub(super) fn new(_config: &Config) -> AnyRecovery {
    AnyRecovery::other(StopAndWait::default())
}

#[derive(Default)]
struct StopAndWait {
    /// Oldest unacknowledged byte.
    una: u64,
    /// Next byte to send. A timeout resets this number to `una`.
    next: u64,
    /// Sequence number that follows all sent data.
    sent: u64,
}

impl LossRecovery for StopAndWait {
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        if received.ack <= self.una || received.ack > self.sent {
            return AckOutcome::NONE;
        }
        let acked = received.ack - self.una;
        self.una = received.ack;
        self.next = received.ack;
        AckOutcome { acked, delivered: acked, kind: AckKind::Advance, ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, _config: &Config) {
        self.next = self.una;
    }

    fn set_windows(&mut self, _windows: Windows, _config: &Config) {}

    fn has_next(&self, stream: Stream) -> bool {
        self.next == self.una && self.next < stream.limit()
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        false
    }

    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Transmission> {
        if !self.has_next(stream) {
            return None;
        }
        let (seq, len) = (self.next, stream.segment(self.next));
        let is_retransmission = seq < self.sent;
        self.next += len;
        self.sent = self.sent.max(self.next);
        Some(Transmission { seq, len, is_retransmission })
    }

    fn una(&self) -> u64 {
        self.una
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn outstanding(&self) -> u64 {
        self.next - self.una
    }

    fn flight(&self) -> u64 {
        self.sent - self.una
    }

    fn dupacks(&self) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Instant;

    use super::*;
    use crate::segment::Sacks;
    use crate::testing::timer_context;

    #[test]
    fn a_segment_is_retransmitted_until_it_is_acknowledged() {
        let (config, at) = (Config::default(), timer_context(Instant::START));
        let mut recovery = new(&config);
        let stream = Stream { end: 250, fin: true, mss: 100 };
        let mut sent = Vec::new();
        for (ack, times_out) in [(0, false), (0, true), (100, false), (200, false), (251, false)] {
            recovery.on_ack(
                &ReceivedAck { ack, sacks: &Sacks::default(), bare: true, echo: Instant::START },
                at,
                &config,
            );
            if times_out {
                recovery.on_timeout(at, &config);
            }
            while let Some(Transmission { seq, len, is_retransmission }) = recovery.next(stream, at) {
                sent.push((seq, len, is_retransmission));
            }
        }
        assert_eq!(sent, [(0, 100, false), (0, 100, true), (100, 100, false), (200, 51, false)]);
        assert!(!HAS_SACK && recovery.una() == 251 && recovery.outstanding() == 0);
    }
}

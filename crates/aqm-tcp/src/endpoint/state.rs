//! What an end tells of itself: counts, windows, round trips.

use aqm_net::{Instant, Span};

use super::Endpoint;
use crate::counts::{Counts, SenderCounts};
use crate::sender::Sender;

impl Endpoint {
    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        let acks_sent = self.acks_sent.into();
        let Some(sender) = &self.sender else { return Counts { acks_sent, ..Counts::default() } };
        let SenderCounts { segments_sent, retransmitted, timeouts, fast_retransmits, mark_reductions } =
            sender.counts;
        let handshake_done = (sender.began != Instant::NEVER).then_some(sender.began);
        Counts {
            segments_sent,
            acks_sent,
            retransmitted,
            timeouts,
            fast_retransmits,
            mark_reductions,
            handshake_done,
        }
    }

    /// The window that packets tell routers: whole segments, at least 1, without inflation.
    #[inline]
    pub fn window_hint(&self) -> u16 {
        self.ask(|sender| sender.window_hint(&self.tcp))
    }

    /// The congestion window, in segments, without inflation.
    pub fn cwnd(&self) -> f64 {
        self.ask(Sender::cwnd)
    }

    /// The slow-start threshold, in segments.
    pub fn ssthresh(&self) -> f64 {
        self.ask(Sender::ssthresh)
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Span> {
        self.ask(|sender| sender.timer.estimator.srtt(&self.tcp.config.rto))
    }

    /// The round-trip time's variation.
    pub fn rttvar(&self) -> Option<Span> {
        self.ask(|sender| sender.timer.estimator.rttvar(&self.tcp.config.rto))
    }

    /// The retransmission time-out, backed off.
    pub fn rto(&self) -> Span {
        self.ask(|sender| sender.timer.rto(&self.tcp.config.rto))
    }

    /// By what the time-out is multiplied.
    pub fn backoff(&self) -> u32 {
        self.ask(|sender| sender.timer.estimator.backoff())
    }

    /// Duplicate acknowledgements since the last new one.
    pub fn dupacks(&self) -> u32 {
        self.ask(Sender::dupacks)
    }
}

//! Queries for the counters, windows and round-trip times of an endpoint.

use aqm_net::{Instant, Span};

use super::Endpoint;
use crate::congestion_control::ControlReport;
use crate::counts::{Counts, SenderCounts};
use crate::sender::Sender;

impl Endpoint {
    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        let acks_sent = self.acks_sent.into();
        let Some(sender) = &self.sender else { return Counts { acks_sent, ..Counts::default() } };
        let SenderCounts { segments_sent, retransmitted, timeouts, fast_retransmits, mark_reductions } =
            sender.counts;
        let timeouts = timeouts + sender.probe_timeouts().total;
        let handshake_done = (sender.established_at != Instant::NEVER).then_some(sender.established_at);
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

    /// Returns the congestion window that packets report to routers, in whole segments. The reported window is at least
    /// 1 and does not include window inflation.
    #[inline]
    pub fn window_hint(&self) -> u16 {
        self.query(|sender| sender.window_hint(&self.tcp))
    }

    /// Returns the congestion window in segments, excluding window inflation.
    pub fn cwnd(&self) -> f64 {
        self.query(Sender::cwnd)
    }

    /// Returns the slow-start threshold in segments.
    pub fn ssthresh(&self) -> f64 {
        self.query(Sender::ssthresh)
    }

    /// Returns the smoothed round-trip time.
    pub fn srtt(&self) -> Option<Span> {
        self.query(|sender| sender.timer.estimator.srtt(&self.tcp.config.rto))
    }

    /// Returns the round-trip time variation (RTTVAR).
    pub fn rttvar(&self) -> Option<Span> {
        self.query(|sender| sender.timer.estimator.rttvar(&self.tcp.config.rto))
    }

    /// Returns the retransmission timeout, including the exponential back-off.
    pub fn rto(&self) -> Span {
        self.query(|sender| sender.timer.rto())
    }

    /// Returns the factor by which the exponential back-off multiplies the retransmission timeout.
    pub fn backoff(&self) -> u32 {
        self.query(|sender| sender.timer.estimator.backoff())
    }

    /// Returns the pacing rate in bytes per second; `None` if the sender does not pace, or before the first round-trip
    /// sample.
    pub fn pacing_rate(&self) -> Option<f64> {
        self.query(Sender::pacing_rate)
    }

    /// Returns the state and the estimates of the congestion control.
    pub fn control_report(&self) -> ControlReport {
        self.query(Sender::control_report)
    }

    /// Returns the number of duplicate acknowledgements since the last acknowledgement of new data.
    pub fn dupacks(&self) -> u32 {
        self.query(Sender::dupacks)
    }
}

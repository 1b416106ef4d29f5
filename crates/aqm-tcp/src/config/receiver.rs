//! `[tcp.receiver]`: the receive window and delayed acknowledgements.
//!
//! RFC 9293, section 3.8.6 (windows); RFC 5681, section 4.2 (delayed acknowledgements).
//!
//! Where the sources do not specify a value, aqmlab uses a receive window that never limits the sender, and the
//! acknowledgement delay of Linux, which is within RFC 5681's limit.

use aqm_net::{Span, choices, parameters};

choices! {
    /// When in-order data is acknowledged.
    pub enum DelayedAck {
        /// Immediately.
        Off = "off",
        /// After every second segment, or when `delayed_ack_timer` expires.
        EverySecond = "every-second",
        /// After every second segment, or at the next multiple of `delayed_ack_timer`. All connections share one timer
        /// (BSD's fast timer of 200 ms; ns-2's FullTcp).
        Heartbeat = "heartbeat",
        /// As `every-second`, but the delay adapts to the gaps between segments. The initial delay is
        /// `delayed_ack_timer`. `quick_acks` also applies after a gap that is longer than the timeout, and after
        /// duplicate data. A segment that completes half a receive window of application data, and a segment that
        /// enlarges the receive window, are acknowledged immediately. Without `first_window` and with timestamps, the
        /// receiver enlarges a window of 64 kB as Linux's automatic tuning does. The tuned window does not limit the
        /// sender (Linux).
        Adaptive = "adaptive",
    }
}

parameters! {
    /// The receive window and delayed acknowledgements (RFC 9293, RFC 5681).
    pub struct Receiver {
        /// Receive window (`rwnd`), in segments. A receive window below the bandwidth-delay product limits the sending
        /// rate before congestion does.
        pub window: u64 = 10_000, "aqmlab's choice: never limits the sender";
        /// Initial receive window, in segments. After the first initial window of data has arrived, each received
        /// segment opens the receive window by two segments, up to `window`. By default, the receive window is
        /// constant. Without timestamps, Linux starts with 64 kB, uses the time in which these bytes arrive as an
        /// estimate of the round-trip time, and then opens the window much faster.
        pub first_window: Option<u64> = None, "aqmlab's choice: constant window";
        /// When in-order data is acknowledged.
        pub delayed_ack: DelayedAck = DelayedAck::EverySecond, "RFC 5681, 4.2";
        /// Delay of an acknowledgement: the maximum delay with `every-second`, the time to the next multiple of this
        /// value with `heartbeat`, and the minimum delay with `adaptive`. If the delay is `rto.min` or longer, the
        /// sender's retransmission timer expires although no segment is lost.
        pub delayed_ack_timer: Span = Span::from_millis(40), "Linux; RFC 5681, 4.2: at most 500 ms";
        /// Number of packets after which a QUIC receiver sends an acknowledgement immediately. Fewer packets are
        /// acknowledged after `delayed_ack_timer`. Packets out of order and marked packets are always acknowledged
        /// immediately (`recovery.kind = "quic"` only).
        #[serde(skip_serializing_if = "is_default_ack_every")]
        pub ack_every: u64 = 2, "RFC 9000, 13.2.2; draft-ietf-quic-ack-frequency-14, 4: Ack-Eliciting Threshold 1";
        /// Number of data segments at the start of a connection that are acknowledged immediately even if
        /// acknowledgements are delayed. With `adaptive`, the number is at most half of the receive window, and at most
        /// 16 after a later gap or after duplicate data.
        pub quick_acks: u64 = 0, "aqmlab's choice; Linux: 16";
        /// Maximum delay of acknowledgements that carry SACK, with `adaptive`. Beginning with the fourth
        /// acknowledgement for the same gap, acknowledgements are delayed by at most a twentieth of the round-trip time
        /// (Linux since 4.19, `tcp_comp_sack_delay_ns` and its slack: 1.1 ms). 0s means no delay, as in RFC 5681.
        pub sack_delay: Span = Span::ZERO, "RFC 5681, 4.2: immediate";
    }
}

/// Returns whether `ack_every` has its default value, in which case scenarios omit the parameter.
fn is_default_ack_every(ack_every: &u64) -> bool {
    *ack_every == Receiver::default().ack_every
}

impl Receiver {
    /// Returns the receive window at the time when the connection opens, in segments.
    pub(crate) fn window_at_first(&self) -> u64 {
        self.first_window.unwrap_or(self.window)
    }

    /// Returns the receive window after `segments` in-order segments have arrived.
    pub(crate) fn grown_window(&self, segments: u64) -> u64 {
        let first = self.window_at_first();
        (first + 2 * segments.saturating_sub(first + 1)).min(self.window)
    }
}

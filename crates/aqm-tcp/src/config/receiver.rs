//! `[tcp.receiver]`: the receive window and delayed acknowledgements.
//!
//! RFC 9293, section 3.8.6 (windows); RFC 5681, section 4.2 (delayed acknowledgements).
//!
//! aqmlab's choices where the sources are silent: a receive window that never limits the sender, and the
//! acknowledgement delay of Linux, which is within RFC 5681's bound.

use aqm_net::{Span, choices, parameters};

choices! {
    /// When in-order data is acknowledged.
    pub enum DelayedAck {
        /// Immediate.
        Off = "off",
        /// After every second segment, or when `delayed_ack_timer` expires.
        EverySecond = "every-second",
        /// After every second segment, or at the next time that is a multiple of `delayed_ack_timer`. All connections
        /// share one timer (BSD's fast timer of 200 ms; ns-2's FullTcp).
        Heartbeat = "heartbeat",
        /// As `every-second`, but the delay adapts to the gaps between segments. The initial delay is
        /// `delayed_ack_timer`. `quick_acks` also apply after a gap that is longer than the timeout, and after
        /// duplicate data. A segment is acknowledged immediately if it completes half a window of the application's
        /// data (Linux).
        Adaptive = "adaptive",
    }
}

parameters! {
    /// The receive window and delayed acknowledgements (RFC 9293, RFC 5681).
    pub struct Receiver {
        /// Receive window (`rwnd`), in segments. A receive window below the bandwidth-delay product limits the rate
        /// before congestion does.
        pub window: u64 = 10_000, "aqmlab's choice: never limits the sender";
        /// Initial receive window, in segments. The receive window grows by two segments with each received segment, up
        /// to `window`, after the first initial window of data has arrived. By default, the receive window is constant.
        /// Without timestamps, Linux starts with 64 kB, uses the time in which these bytes arrive as an estimate of the
        /// round-trip time, and then grows the window much faster.
        pub first_window: Option<u64> = None, "aqmlab's choice: constant window";
        /// When in-order data is acknowledged.
        pub delayed_ack: DelayedAck = DelayedAck::EverySecond, "RFC 5681, 4.2";
        /// Delay of an acknowledgement: the maximum delay with `every-second`, the time to the next multiple of this
        /// value with `heartbeat`, and the minimum delay with `adaptive`. With a delay of `rto.min` or more, the
        /// sender's timer expires although no segment is lost.
        pub delayed_ack_timer: Span = Span::from_millis(40), "Linux; RFC 5681, 4.2: at most 500 ms";
        /// Number of data segments at the start of a connection that are acknowledged immediately in spite of delayed
        /// acknowledgements. With `adaptive`, the number is at most half of the receive window, and at most 16 after a
        /// later gap or after duplicate data.
        pub quick_acks: u64 = 0, "aqmlab's choice; Linux: 16";
        /// Maximum delay of acknowledgements that carry SACK, with `adaptive`. From the fourth acknowledgement for the
        /// same gap on, acknowledgements wait for at most a twentieth of the round-trip time (Linux since 4.19,
        /// `tcp_comp_sack_delay_ns` and its slack: 1.1 ms). 0s means no delay, as in RFC 5681.
        pub sack_delay: Span = Span::ZERO, "RFC 5681, 4.2: immediate";
    }
}

impl Receiver {
    /// Returns the receive window, in segments, when the connection opens.
    pub(crate) fn window_at_first(&self) -> u64 {
        self.first_window.unwrap_or(self.window)
    }

    /// Returns the receive window after `segments` in-order segments have arrived.
    pub(crate) fn grown_window(&self, segments: u64) -> u64 {
        let first = self.window_at_first();
        (first + 2 * segments.saturating_sub(first + 1)).min(self.window)
    }
}

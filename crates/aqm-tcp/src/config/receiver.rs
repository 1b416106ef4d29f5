//! `[tcp.receiver]`: the receive window and delayed acknowledgements.
//!
//! RFC 9293, section 3.8.6 (windows); RFC 5681, section 4.2 (delayed acknowledgements).
//!
//! aqmlab's choices where the sources are silent: a window that never limits the sender, and Linux' delay of
//! acknowledgements, which is within RFC 5681's bound.

use aqm_net::{Span, choices, parameters};

choices! {
    /// Acknowledgement of in-order data.
    pub enum DelayedAck {
        /// Immediate.
        Off = "off",
        /// With every second segment, or after `delayed_ack_timer`.
        EverySecond = "every-second",
        /// With every second segment, or when the clock next passes a multiple of `delayed_ack_timer`. All connections
        /// share one timer (BSD's fast timer of 200 ms; ns-2's FullTcp).
        Heartbeat = "heartbeat",
        /// As `every-second`, but the delay adapts to the gaps between segments; its initial value is
        /// `delayed_ack_timer`. `quick_acks` also apply after a gap longer than the timeout and after duplicate data.
        /// The segment that ends half a window of the application's data is acknowledged at once (Linux).
        Adaptive = "adaptive",
    }
}

parameters! {
    /// Receive window and delayed acknowledgements (RFC 9293, RFC 5681).
    pub struct Receiver {
        /// Receive window (`rwnd`), in segments. A window below the bandwidth-delay product limits the rate instead of
        /// congestion.
        pub window: u64 = 10_000, "aqmlab's choice: never limits the sender";
        /// Initial receive window, in segments. It grows by two segments with each segment, up to `window`, after the
        /// initial window has arrived once; by default the window is constant. Linux without timestamps begins with 64
        /// kB, takes the arrival time of these bytes for the round trip, and grows the window much faster from then on.
        pub first_window: Option<u64> = None, "aqmlab's choice: constant window";
        /// Acknowledgement of in-order data.
        pub delayed_ack: DelayedAck = DelayedAck::EverySecond, "RFC 5681, 4.2";
        /// Delay of an acknowledgement: the maximum with `every-second`; the time to the next multiple of this value
        /// with `heartbeat`; the minimum with `adaptive`. A delay of `rto.min` or more lets the sender's timer expire
        /// without a loss.
        pub delayed_ack_timer: Span = Span::from_millis(40), "Linux; RFC 5681, 4.2: at most 500 ms";
        /// Number of data segments at the start that are acknowledged at once in spite of delayed acknowledgements.
        /// With `adaptive` the number is at most half of the receive window, and at most 16 after a later gap or old
        /// data.
        pub quick_acks: u64 = 0, "aqmlab's choice; Linux: 16";
        /// Maximum delay of acknowledgements with SACK, with `adaptive`: from the fourth acknowledgement for the same
        /// gap on, they wait for at most a twentieth of the round trip (Linux since 4.19, `tcp_comp_sack_delay_ns` and
        /// its slack: 1.1 ms). 0s: no delay, as in RFC 5681.
        pub sack_delay: Span = Span::ZERO, "RFC 5681, 4.2: immediate";
    }
}

impl Receiver {
    /// Returns the window when the connection opens, in segments.
    pub(crate) fn window_at_first(&self) -> u64 {
        self.first_window.unwrap_or(self.window)
    }

    /// Returns the window after `segments` in-order segments.
    pub(crate) fn grown_window(&self, segments: u64) -> u64 {
        let first = self.window_at_first();
        (first + 2 * segments.saturating_sub(first + 1)).min(self.window)
    }
}

//! `[tcp.receiver]`: the window it offers, and when it acknowledges.
//!
//! RFC 9293, section 3.8.6 (windows); RFC 5681, section 4.2 (delayed acknowledgements).
//!
//! Ours, where the sources are silent: a window that never limits, and the delay of an acknowledgement within
//! RFC 5681's bound, which is that of Linux.

use aqm_net::{Span, choices, parameters};

choices! {
    /// When in-order data is acknowledged.
    pub enum DelayedAck {
        /// At once.
        Off = "off",
        /// With every second segment, or after `delayed_ack_timer`.
        EverySecond = "every-second",
        /// With every second segment, or when the clock next passes a multiple of `delayed_ack_timer`: one
        /// timer for all connections (BSD's fast timer of 200 ms; ns-2's FullTcp).
        Heartbeat = "heartbeat",
        /// As `every-second`, but the delay adapts to the gaps between segments, from `delayed_ack_timer` on;
        /// `quick_acks` follow also a gap longer than the time-out and whatever came twice, and the segment
        /// that ends half a window of what the application wrote is acknowledged at once (Linux).
        Adaptive = "adaptive",
    }
}

parameters! {
    /// The window a receiver offers, and when it acknowledges (RFC 9293, RFC 5681).
    pub struct Receiver {
        /// The receiver's window (`rwnd`), in segments. Below the product of rate and round-trip time it, and not
        /// congestion, sets the rate.
        pub window: u64 = 10_000, "ours: never limits";
        /// The window that a receiver begins with, in segments, which then grows by two with each segment up to
        /// `window`, once as many have come; left out, it does not grow. Linux without timestamps begins with
        /// 64 kB, takes the time in which they came for the round trip, and so gives much more room from then on.
        pub first_window: Option<u64> = None, "ours: it does not grow";
        /// When in-order data is acknowledged.
        pub delayed_ack: DelayedAck = DelayedAck::EverySecond, "RFC 5681, 4.2";
        /// How long an acknowledgement waits: at most so long with `every-second`; until the next multiple of it
        /// with `heartbeat`; at least so long with `adaptive`. As long as `rto.min` it lets the sender's timer run
        /// out though nothing is lost.
        pub delayed_ack_timer: Span = Span::from_millis(40), "Linux; RFC 5681, 4.2: at most 500 ms";
        /// The first data segments up to this number are acknowledged at once, delayed acknowledgements or not. With
        /// `adaptive` they are at most half of the receiver's window, and at most 16 after a later gap or old data.
        pub quick_acks: u64 = 0, "ours; Linux: 16";
        /// How long SACK may wait for more to tell, with `adaptive`: from the fourth acknowledgement on behind the same
        /// gap, at most a twentieth of the round trip (Linux since 4.19, `tcp_comp_sack_delay_ns` and its slack:
        /// 1.1 ms). 0s: not at all, as RFC 5681 has it.
        pub sack_delay: Span = Span::ZERO, "RFC 5681, 4.2: at once";
    }
}

impl Receiver {
    /// The window when the connection opens, in segments.
    pub(crate) fn window_at_first(&self) -> u64 {
        self.first_window.unwrap_or(self.window)
    }

    /// The window when `segments` segments have come in order.
    pub(crate) fn grown_window(&self, segments: u64) -> u64 {
        let first = self.window_at_first();
        (first + 2 * segments.saturating_sub(first + 1)).min(self.window)
    }
}

//! State and estimates of a sender's congestion control, as shown in histories and in qlog.

use aqm_net::Span;

/// State and estimates of a congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlReport {
    /// State of the algorithm; `None` if the state follows from the window and the loss recovery.
    pub state: Option<SenderState>,
    /// Estimate of the available bandwidth, in bytes per second.
    pub bandwidth: Option<f64>,
    /// Estimate of the round-trip time without queueing.
    pub min_rtt: Option<Span>,
    /// Share of marked data (`alpha` of DCTCP and Prague).
    pub marked_share: Option<f64>,
}

macro_rules! states {
    ($( $(#[doc = $doc:literal])+ $state:ident = $word:literal, )+) => {
        /// State of a sender.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SenderState {
            $( $(#[doc = $doc])+ $state, )+
        }

        impl SenderState {
            /// Words for all states, indexed by the number of the state.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word for the state.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }
    };
}

states! {
    /// The window is below `ssthresh`.
    SlowStart = "SLOW_START",
    /// Slow start with smaller steps (HyStart++: CSS, RFC 9406).
    ConservativeSlowStart = "CONSERVATIVE_SLOW_START",
    /// The window is not below `ssthresh`.
    Avoidance = "CONGESTION_AVOIDANCE",
    /// Fast recovery.
    Recovery = "RECOVERY",
    /// After a timeout, until all data sent before the timeout is acknowledged.
    Loss = "LOSS",
    /// BBR: search for the bandwidth of the path.
    Startup = "STARTUP",
    /// BBR: draining of the queue that was built up in `STARTUP`.
    Drain = "DRAIN",
    /// BBRv1: cycle of eight phases around the estimated bandwidth.
    ProbeBw = "PROBE_BW",
    /// BBRv3: sending at less than the estimated bandwidth, which drains a queue.
    ProbeBwDown = "PROBE_BW_DOWN",
    /// BBRv3: sending at the estimated bandwidth.
    ProbeBwCruise = "PROBE_BW_CRUISE",
    /// BBRv3: one round with a full window before the search for more bandwidth.
    ProbeBwRefill = "PROBE_BW_REFILL",
    /// BBRv3: search for more bandwidth.
    ProbeBwUp = "PROBE_BW_UP",
    /// BBR: a small window, which permits a measurement of the round-trip time without queueing.
    ProbeRtt = "PROBE_RTT",
}

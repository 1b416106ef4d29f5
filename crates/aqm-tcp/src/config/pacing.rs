//! `[tcp.pacing]`: spacing of a sender's segments in time.
//!
//! Linux 6.1: `tcp_update_pacing_rate` (pacing rate for congestion controls that do not set one),
//! `tcp_update_skb_after_send` (departure times), `tcp_tso_autosize` (bursts).

use aqm_net::{ConfigErrors, ErrorCollector, Rate, choices, parameters};

choices! {
    /// Senders that pace their segments.
    pub enum PacingMode {
        /// Senders whose congestion control requires pacing (`bbr3`, `bbr1`, `prague`).
        Auto = "auto",
        /// All senders.
        On = "on",
        /// No senders.
        Off = "off",
    }
}

choices! {
    /// Number of segments that a paced sender sends back to back.
    pub enum Burst {
        /// One segment, as on a Linux host without segmentation offload.
        Segment = "segment",
        /// As many segments as a Linux host with segmentation offload puts into one packet: the data sent in 1/1024 s
        /// at the pacing rate, plus 64 kB halved once for every 512 µs of the minimum round-trip time; at least 2
        /// segments and at most 64 kB (`tcp_tso_autosize`).
        Offload = "offload",
    }
}

parameters! {
    /// Spacing of a sender's segments in time.
    pub struct Pacing {
        /// Senders that pace their segments.
        pub mode: PacingMode = PacingMode::Auto, "Linux: `sk_pacing_status`";
        /// Pacing rate in slow start while the window is below half of `ssthresh`, as a multiple of the congestion
        /// window per smoothed round-trip time. Used only for congestion controls that do not set a pacing rate.
        pub slow_start_ratio: f64 = 2.0, "Linux: `tcp_pacing_ss_ratio`";
        /// Pacing rate at other times, as a multiple of the congestion window per smoothed round-trip time. Used only
        /// for congestion controls that do not set a pacing rate.
        pub avoidance_ratio: f64 = 1.2, "Linux: `tcp_pacing_ca_ratio`";
        /// Maximum pacing rate.
        pub max_rate: Option<Rate> = None, "Linux: `SO_MAX_PACING_RATE`, unlimited";
        /// Number of segments at the start of a connection that are sent without pacing.
        pub unpaced_segments: u64 = 10, "Linux: `tcp_update_skb_after_send`";
        /// Number of segments that are sent back to back.
        pub burst: Burst = Burst::Segment, "aqmlab's choice: no segmentation offload";
    }
}

impl Pacing {
    /// Returns whether all parameters have their default values.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (field, ratio) in
            [("slow_start_ratio", self.slow_start_ratio), ("avoidance_ratio", self.avoidance_ratio)]
        {
            // Linux's sysctls accept 0 to 1000 %. A rate of 0 is excluded here, because it would stop the sender.
            errors.check(ratio > 0.0 && ratio <= 10.0, field, "must be above 0 and at most 10");
        }
        errors.finish(())
    }
}

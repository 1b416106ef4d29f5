//! The reasons for which packets are dropped or marked.

/// The reason for which a packet was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full (`drop_overlimit` in the kernel).
    Overflow,
    /// The packet was selected, at random or at even intervals, before the queue was full.
    Early,
    /// The algorithm was dropping or marking every packet, for example because RED's average was above `max_th`.
    Forced,
    /// The packet's sojourn time was too long according to CoDel or a variant of CoDel.
    Sojourn,
    /// A marking threshold was exceeded (`ce_mark`, `step_mark` in the kernel).
    CeThreshold,
    /// The queued packets used too much memory (`drop_overmemory` in the kernel).
    Overmemory,
    /// The limit of the packet's flow was reached (`flows_plimit` in the kernel).
    FlowLimit,
    /// The packet's departure time was too far in the future (`horizon_drops` in the kernel).
    Horizon,
    /// The packet belongs to the same flow as a packet drawn at random from the queue (`matched` in the kernel).
    Matched,
    /// The packet's flow did not respond to congestion (BLUE's drop probability for the flow, or `penaltydrop` of SFB).
    Unresponsive,
    /// A later acknowledgement made the packet redundant (`ack_drops` in the kernel).
    AckFilter,
    /// The packet exceeded the rate of a policer.
    Policed,
    /// The packet was lost on the link.
    LineLoss,
}

impl Reason {
    /// The names of all reasons, in the order of [`Reason::code`].
    pub const NAMES: [&'static str; 13] = [
        "overflow",
        "early",
        "forced",
        "sojourn",
        "ce-threshold",
        "overmemory",
        "flow-limit",
        "horizon",
        "matched",
        "unresponsive",
        "ack-filter",
        "policed",
        "line-loss",
    ];

    /// Returns the index of this reason in [`Reason::NAMES`].
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the name of this reason.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

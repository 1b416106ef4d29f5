//! Reasons for drops and marks.

/// The reason why a packet was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue was full (the kernel's `drop_overlimit`).
    Overflow,
    /// The packet was chosen at random before the queue was full.
    Early,
    /// The algorithm drops or marks every packet, for example RED above `max_th`.
    Forced,
    /// The packet's sojourn time was too long, by the rule of CoDel and its relatives.
    Sojourn,
    /// A marking threshold was exceeded (the kernel's `ce_mark`, `step_mark`).
    CeThreshold,
    /// The queued packets use too much memory (the kernel's `drop_overmemory`).
    Overmemory,
    /// The flow's own limit was reached (the kernel's `flows_plimit`).
    FlowLimit,
    /// The packet's departure time is too far in the future (the kernel's `horizon_drops`).
    Horizon,
    /// The packet belongs to the same flow as a packet drawn at random from the queue (the kernel's `matched`).
    Matched,
    /// The flow does not respond to congestion (BLUE's per-flow probability, SFB's `penaltydrop`).
    Unresponsive,
    /// A later acknowledgement makes the packet redundant (the kernel's `ack_drops`).
    AckFilter,
    /// The packet exceeded the rate of a policer.
    Policed,
    /// The packet was lost on the link.
    LineLoss,
}

impl Reason {
    /// Every reason, in the order of [`Reason::code`].
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

    /// The index of this reason in [`Reason::NAMES`].
    pub const fn code(self) -> u32 {
        self as u32
    }
}

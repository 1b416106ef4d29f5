//! Why packets are dropped or marked.

/// Why a packet was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No room was left (the kernel's `drop_overlimit`).
    Overflow,
    /// Chance chose it before the buffer was full.
    Early,
    /// The algorithm leaves no choice, such as RED above `max_th`.
    Forced,
    /// It waited too long, as CoDel and its kin judge it.
    Sojourn,
    /// A threshold that only marks was passed (the kernel's `ce_mark`, `step_mark`).
    CeThreshold,
    /// What waits takes too much memory (the kernel's `drop_overmemory`).
    Overmemory,
    /// Its flow has no room left (the kernel's `flows_plimit`).
    FlowLimit,
    /// It is to leave too far in the future (the kernel's `horizon_drops`).
    Horizon,
    /// It is of the same flow as a packet that was drawn from the queue (the kernel's `matched`).
    Matched,
    /// Its flow does not respond to congestion (BLUE's probability of a flow, SFB's `penaltydrop`).
    Unresponsive,
    /// A later acknowledgement says all it says (the kernel's `ack_drops`).
    AckFilter,
    /// A policer found it beyond the rate.
    Policed,
    /// The line lost it.
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

//! The numbers on which a discipline based a drop.

/// The numbers on which a discipline based a drop. A number that the discipline does not compute, or that did not
/// influence the drop, is `None`.
///
/// A discipline passes these numbers with [`Context::drop_on`](crate::Context::drop_on) only when a packet is dropped, so
/// that packets that pass cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The discipline's average queue length, in the unit of the gauge `average`.
    pub average: Option<f64>,
    /// Probability with which the discipline selected the packet.
    pub probability: Option<f64>,
    /// For RED and its variants, packets since the last drop; for CoDel and COBALT, drops since the dropping state
    /// began.
    pub count: Option<u64>,
    /// The uniform random number from 0 to 1 with which the packet was selected.
    pub draw: Option<f64>,
}

impl Evidence {
    /// Returns the evidence for a packet that was selected because the random number `draw` was below `probability`.
    pub const fn drawn(probability: f64, draw: f64) -> Self {
        Self { average: None, probability: Some(probability), count: None, draw: Some(draw) }
    }

    /// Returns the evidence for a packet that was selected with the probability 1, without a random number.
    pub const fn certain() -> Self {
        Self { average: None, probability: Some(1.0), count: None, draw: None }
    }

    /// Returns the evidence for a packet that a control law dropped with this count.
    pub fn counted(count: impl Into<u64>) -> Self {
        Self { average: None, probability: None, count: Some(count.into()), draw: None }
    }
}

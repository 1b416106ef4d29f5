//! Reordering: some packets have an additional delay, so that other packets overtake them.
//!
//! The terminology follows RFC 4737 and `tc-netem(8)`. However, netem's `reorder` sends a fraction of the packets
//! immediately and delays all other packets. In aqmlab, the link delays all packets, and a fraction of the packets has
//! an additional delay. If the additional delay has jitter, the packets with an additional delay may also overtake one
//! another.

use aqm_net::{ConfigErrors, ErrorCollector, Rng, Span, parameters};

parameters! {
    /// Additional delay for a fraction of the packets, so that other packets overtake them.
    pub struct Reordering {
        /// Probability that a packet gets the additional delay.
        pub probability: Option<f64> = None, "no default: required";
        /// Additional delay.
        pub delay: Span = Span::from_millis(10), "aqmlab's choice";
        /// Jitter of the additional delay; a uniformly distributed value from [0, `jitter`] is added.
        pub jitter: Span = Span::ZERO, "aqmlab's choice";
    }
}

impl Reordering {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.probability.is_some(),
            "probability",
            "is missing: set the share of packets that get an additional delay",
        );
        let is_valid = self.probability.is_none_or(|probability| (0.0..=1.0).contains(&probability));
        let problem = format!("must be between 0 and 1 (got {})", self.probability.unwrap_or_default());
        errors.check(is_valid, "probability", problem);
        errors.finish(())
    }
}

/// Selects at random which packets of a run get the additional delay.
pub(super) struct Reorderer {
    rng: Rng,
    probability: f64,
    delay: Span,
    /// Maximum jitter, in nanoseconds.
    jitter: u64,
}

impl Reorderer {
    pub(super) fn new(config: &Reordering, rng: Rng) -> Self {
        let probability = config.probability.unwrap_or(0.0);
        Self { rng, probability, delay: config.delay, jitter: config.jitter.nanos() }
    }

    /// Returns the additional delay of the next packet, or `None` if the packet gets no additional delay.
    pub(super) fn additional_delay(&mut self) -> Option<Span> {
        let chosen = self.rng.chance(self.probability);
        chosen.then(|| self.delay + Span::from_nanos(self.rng.below(self.jitter.saturating_add(1))))
    }
}

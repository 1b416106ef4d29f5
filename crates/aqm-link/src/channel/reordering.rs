//! Packets with an additional delay, which are overtaken by other packets.
//!
//! Terms are those of RFC 4737 and `tc-netem(8)`. netem's `reorder` works the other way round: it sends a share of
//! packets at once and delays all others. Here all packets have the delay of the link, and a share of them has an
//! additional delay. Packets of this share may overtake one another, too, because of their jitter.

use aqm_net::{ConfigErrors, ErrorCollector, Rng, Span, parameters};

parameters! {
    /// Additional delay of a share of packets, so that other packets overtake them.
    pub struct Reordering {
        /// Probability that a packet gets the additional delay.
        pub probability: Option<f64> = None, "no default: required";
        /// Additional delay.
        pub delay: Span = Span::from_millis(10), "aqmlab's choice";
        /// Jitter added to the additional delay, uniform on [0, `jitter`].
        pub jitter: Span = Span::ZERO, "aqmlab's choice";
    }
}

impl Reordering {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.probability.is_some(),
            "probability",
            "is missing: write the share of packets with an additional delay",
        );
        let is_valid = self.probability.is_none_or(|probability| (0.0..=1.0).contains(&probability));
        let problem = format!("must be between 0 and 1 (got {})", self.probability.unwrap_or_default());
        errors.check(is_valid, "probability", problem);
        errors.finish(())
    }
}

/// Draws the packets of a run that get the additional delay.
pub(super) struct Reorderer {
    rng: Rng,
    probability: f64,
    delay: Span,
    /// In nanoseconds.
    jitter: u64,
}

impl Reorderer {
    pub(super) fn new(config: &Reordering, rng: Rng) -> Self {
        let probability = config.probability.unwrap_or(0.0);
        Self { rng, probability, delay: config.delay, jitter: config.jitter.nanos() }
    }

    /// Returns the additional delay of the next packet, if it gets one.
    pub(super) fn additional_delay(&mut self) -> Option<Span> {
        let chosen = self.rng.chance(self.probability);
        chosen.then(|| self.delay + Span::from_nanos(self.rng.below(self.jitter.saturating_add(1))))
    }
}

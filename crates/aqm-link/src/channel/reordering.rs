//! Packets that take longer than others, and so are overtaken.
//!
//! The words are those of RFC 4737 and `tc-netem(8)`. netem's `reorder` is the other way round: a share of packets
//! is sent at once, and all others are delayed. Here all packets take the delay of the line, and the share takes a
//! further delay; those of them that have it overtake one another, too, by their jitter.

use aqm_net::{ConfigErrors, ErrorCollector, Rng, Span, parameters};

parameters! {
    /// A share of packets takes a further delay, so that others overtake them.
    pub struct Reordering {
        /// The probability that a packet is one of them.
        pub probability: Option<f64> = None, "no default: it must be given";
        /// How much longer they take.
        pub delay: Span = Span::from_millis(10), "ours";
        /// And up to so much more, uniform on [0, `jitter`].
        pub jitter: Span = Span::ZERO, "ours";
    }
}

impl Reordering {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(
            self.probability.is_some(),
            "probability",
            "is missing: write the share of packets that take longer",
        );
        let is_one = self.probability.is_none_or(|probability| (0.0..=1.0).contains(&probability));
        errors.check(is_one, "probability", "must be a probability, from 0 to 1");
        errors.finish(())
    }
}

/// Which packets of a line take longer, in a run.
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

    /// How much longer the next packet takes, if it is one of those.
    pub(super) fn further_delay(&mut self) -> Option<Span> {
        let chosen = self.rng.chance(self.probability);
        chosen.then(|| self.delay + Span::from_nanos(self.rng.below(self.jitter.saturating_add(1))))
    }
}

//! The state in which a queue begins a run: long in service, or just created.
//!
//! A simulation begins at time zero, but the router that it stands for has been switched on for days. Where that makes
//! a difference, the discipline has the parameter `start`, and its documentation says what `settled` sets:
//! - *settled*: the queue has served traffic of every kind for hours and has then been idle until idle time changes
//!   nothing more, 16 intervals in CoDel's family. Averages and probabilities are at rest, every flow queue has been
//!   used, and timers run at a phase that the run's seed draws.
//! - *fresh*: the queue was created as the run begins.
//!
//! A discipline without the parameter behaves alike in both. What is the same in every run is set as the discipline is
//! built. What chance decides is drawn as the run begins, in [`QueueDiscipline::on_start`], from a stream that nothing
//! else draws from: so arrivals and the queue's own draws do not depend on `start`.
//!
//! [`QueueDiscipline::on_start`]: crate::QueueDiscipline::on_start

use aqm_net::{Instant, Rng, Span, choices};

choices! {
    /// The state in which a queue begins a run.
    pub enum Start {
        /// Long in service, and idle until idle time changes nothing more: probabilities are at rest, every flow queue
        /// has been used, timers run at a phase drawn from the seed.
        Settled = "settled",
        /// Created as the run begins.
        Fresh = "fresh",
    }
}

impl Start {
    /// Whether the queue has been in service for long.
    pub(crate) fn is_settled(self) -> bool {
        self == Self::Settled
    }
}

/// When a timer that has been running for long with this `period` runs out first in the run: at any moment of the first
/// period alike. `period` is not zero.
pub(crate) fn first_instant(period: Span, chance: &mut Rng) -> Instant {
    Instant::START + Span::from_nanos(1 + chance.below(period.nanos()))
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn a_phase_is_uniform_over_the_period_and_never_at_the_start() {
        let mut chance = Streams::new(1).named("start", 0);
        let firsts: Vec<u64> =
            (0..4000).map(|_| first_instant(Span::from_nanos(1000), &mut chance).nanos()).collect();
        assert!(firsts.iter().all(|nanos| (1..=1000).contains(nanos)));
        let mean = firsts.iter().sum::<u64>() as f64 / 4000.0;
        // The mean of 1 to 1000 is 500.5, with a standard error of 289 / sqrt(4000).
        assert!((mean - 500.5).abs() < 3.3 * 4.57, "{mean}");
    }
}

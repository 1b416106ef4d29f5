//! The state in which a queue begins a run: in service for a long time, or just created.
//!
//! A simulation begins at time zero, but the simulated router has been running for days. Where this makes a difference,
//! the discipline has the parameter `start`, and its documentation describes what the value `settled` sets:
//! - *settled*: the queue has served traffic of every kind for hours. It has then been idle for so long that more idle
//!   time would change nothing (16 intervals in CoDel's family). Averages and probabilities are at rest, every flow
//!   queue has been used, and timers run at a phase drawn from the run's seed.
//! - *fresh*: the queue is created when the run begins.
//!
//! A discipline without the parameter behaves the same in either case. State that is equal in all runs is set when the
//! discipline is built. Random state is drawn when the run begins, in [`QueueDiscipline::on_start`], from a random
//! stream with no other use, so that arrivals and the queue's own random numbers do not depend on `start`.
//!
//! [`QueueDiscipline::on_start`]: crate::QueueDiscipline::on_start

use aqm_net::{Instant, Rng, Span, choices};

choices! {
    /// The state in which a queue begins a run.
    pub enum Start {
        /// In service for a long time, and idle until more idle time changes nothing: probabilities are at rest, every
        /// flow queue has been used, and timers run at a phase drawn from the seed.
        Settled = "settled",
        /// Created when the run begins.
        Fresh = "fresh",
    }
}

impl Start {
    /// Whether the queue has been in service for a long time.
    pub(crate) fn is_settled(self) -> bool {
        self == Self::Settled
    }
}

/// The first expiry of a timer that has been running with this `period` for a long time, uniform over the first period.
/// `period` must not be zero.
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

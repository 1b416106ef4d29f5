//! The state of a queue at the start of a run: the queue has been in service for a long time, or has just been created.
//!
//! A simulation begins at time zero, but the simulated router has been running for days. If the history of the queue
//! matters for a discipline, the discipline has a `start` parameter, and the documentation of the discipline describes
//! the state that `settled` sets:
//! - *settled*: the queue has served traffic of every kind for hours. After that, the queue has been idle for so long
//!   that its state would not change any further (16 intervals in CoDel and its variants). Averages and probabilities
//!   have reached their final values, every flow queue has been used, and the phases of timers are drawn from the run's
//!   seed.
//! - *fresh*: the queue is newly created when the run begins.
//!
//! A discipline without a `start` parameter would behave in the same way in both cases. State that is the same in all
//! runs is set when the discipline is built. Random state is drawn when the run begins, in
//! [`QueueDiscipline::on_start`], from a random stream with no other use, so that arrivals and the queue's own random
//! numbers do not depend on `start`.
//!
//! [`QueueDiscipline::on_start`]: crate::QueueDiscipline::on_start

use aqm_net::{Instant, Rng, Span, choices};

choices! {
    /// The state of a queue at the start of a run.
    pub enum Start {
        /// The queue has been in service for a long time, and has then been idle until its state no longer changed.
        /// Probabilities have reached their final values, every flow queue has been used, and the phases of timers are
        /// drawn from the seed.
        Settled = "settled",
        /// The queue is newly created when the run begins.
        Fresh = "fresh",
    }
}

impl Start {
    /// Returns whether the queue has been in service for a long time.
    pub(crate) fn is_settled(self) -> bool {
        self == Self::Settled
    }
}

/// Returns the time at which a timer first expires during the run, if the timer has already been running with this
/// `period` for a long time. The time is uniformly distributed over the first period. `period` must not be zero.
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
        // The mean of the numbers from 1 to 1000 is 500.5. The standard error of the mean is 289 / sqrt(4000).
        assert!((mean - 500.5).abs() < 3.3 * 4.57, "{mean}");
    }
}

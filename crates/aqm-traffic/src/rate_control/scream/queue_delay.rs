//! The queueing delay (draft, section 4.2.1.4; RFC 6817, section 3.4.2: base delays of the last ten minutes), and the
//! scale of its jitter.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::VIRTUAL_RTT_S;

/// Number of minutes whose base delays are remembered (RFC 6817, section 3.4.2: `BASE_HISTORY`).
const MINUTES: u64 = 10;
const MINUTE: u64 = 60_000_000_000;
/// Weight of a larger queueing delay in the average (draft: `QDELAY_AVG_G`).
const WEIGHT: f64 = 1.0 / 4.0;
/// Weights of the averages of the maximum and the minimum, and of their difference (draft: `QDELAY_MIN_MAX_AVG_G`,
/// `QDELAY_DEV_AVG_G`).
const EXTREMES_WEIGHT: f64 = 1.0 / 16.0;
const JITTER_WEIGHT: f64 = 1.0 / 32.0;
/// Jitter at which the scale is zero, in seconds (draft: `QDELAY_DEV_THRESHOLD`).
const MAX_JITTER_S: f64 = 0.01;

/// The queueing delay. All delays are in seconds.
#[derive(Clone, Debug)]
pub(super) struct QueueDelay {
    /// Minute and minimum one-way delay of each of the last minutes.
    base: VecDeque<(u64, Span)>,
    /// The latest delay (draft: `qdelay`), and the average, which rises slowly and falls at once (`qdelay_avg`).
    pub(super) latest_s: f64,
    pub(super) average_s: f64,
    updated_at: Instant,
    /// The jitter; `None` if the jitter is not used (draft: `REDUCE_JITTER`).
    jitter: Option<Jitter>,
}

/// Averages of the maximum and the minimum delay and of their difference (draft: `qdelay_max_avg`, `qdelay_min_avg`,
/// `qdelay_dev_avg`).
#[derive(Clone, Debug)]
struct Jitter {
    maximum_s: f64,
    minimum_s: f64,
    average_s: f64,
}

impl QueueDelay {
    /// Creates the queueing delay of a path without feedback. `target_s` is the initial target of the delay.
    pub(super) fn new(uses_jitter: bool, target_s: f64) -> Self {
        Self {
            base: VecDeque::new(),
            latest_s: 0.0,
            average_s: 0.0,
            updated_at: Instant::START,
            jitter: uses_jitter.then_some(Jitter { maximum_s: target_s, minimum_s: 0.0, average_s: 0.0 }),
        }
    }

    /// Handles the one-way delays of the units that feedback reports.
    pub(super) fn add(&mut self, delays: &[Span], target_s: f64, rtt_s: f64, now: Instant) {
        let Some(&least) = delays.iter().min() else { return };
        self.note_base(least, now);
        let base = self.base.iter().map(|one| one.1).min().unwrap_or(least);
        for delay in delays {
            self.latest_s = (*delay - base).seconds();
            if let Some(jitter) = &mut self.jitter {
                jitter.maximum_s = jitter.maximum_s.max(self.latest_s).min(target_s);
                jitter.minimum_s = jitter.minimum_s.min(self.latest_s);
            }
        }
        if now.since(self.updated_at).seconds() < VIRTUAL_RTT_S.min(rtt_s) {
            return;
        }
        self.average_s = if self.latest_s < self.average_s {
            self.latest_s
        } else {
            WEIGHT * self.latest_s + (1.0 - WEIGHT) * self.average_s
        };
        if let Some(jitter) = &mut self.jitter {
            jitter.update();
        }
        self.updated_at = now;
    }

    fn note_base(&mut self, least: Span, now: Instant) {
        let minute = now.nanos() / MINUTE;
        match self.base.back_mut() {
            Some(last) if last.0 == minute => last.1 = last.1.min(least),
            _ => self.base.push_back((minute, least)),
        }
        while self.base.front().is_some_and(|first| first.0 + MINUTES <= minute) {
            self.base.pop_front();
        }
    }

    /// Returns the factor by which jitter slows down the reference window (draft: `ref_wnd_delay_scale`), between 0 and 1.
    pub(super) fn scale(&self) -> f64 {
        self.jitter.as_ref().map_or(1.0, |one| (1.0 - one.average_s / MAX_JITTER_S).clamp(0.0, 1.0))
    }
}

impl Jitter {
    fn update(&mut self) {
        self.maximum_s *= 1.0 - EXTREMES_WEIGHT;
        self.minimum_s = self.minimum_s * (1.0 - EXTREMES_WEIGHT) + self.maximum_s * EXTREMES_WEIGHT;
        let difference = self.maximum_s - self.minimum_s;
        self.average_s = (1.0 - JITTER_WEIGHT) * self.average_s + JITTER_WEIGHT * difference;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Span::from_millis(millis)
    }

    fn add(delay: &mut QueueDelay, millis: u64, now: u64) {
        delay.add(&[Span::from_millis(millis)], 0.06, 0.1, at(now));
    }

    #[test]
    fn the_average_rises_by_a_quarter_and_falls_at_once() {
        let mut delay = QueueDelay::new(false, 0.06);
        add(&mut delay, 50, 25);
        assert_eq!((delay.latest_s, delay.average_s), (0.0, 0.0));
        add(&mut delay, 90, 50);
        assert!((delay.average_s - 0.01).abs() < 1e-12);
        // The average is updated at most every 25 ms.
        add(&mut delay, 130, 74);
        assert!((delay.latest_s - 0.08).abs() < 1e-12 && (delay.average_s - 0.01).abs() < 1e-12);
        add(&mut delay, 130, 75);
        assert!((delay.average_s - 0.0275).abs() < 1e-12);
        add(&mut delay, 55, 100);
        assert!((delay.average_s - 0.005).abs() < 1e-12);
        assert_eq!(delay.scale(), 1.0);
    }

    #[test]
    fn the_base_delay_is_the_minimum_of_ten_minutes() {
        let mut delay = QueueDelay::new(false, 0.06);
        add(&mut delay, 50, 0);
        add(&mut delay, 70, 599_999);
        assert!((delay.latest_s - 0.02).abs() < 1e-12);
        add(&mut delay, 80, 600_000);
        assert!((delay.latest_s - 0.01).abs() < 1e-12, "the first minute is forgotten");
    }

    #[test]
    fn jitter_lowers_the_scale() {
        let mut delay = QueueDelay::new(true, 0.06);
        add(&mut delay, 50, 25);
        // 0.06 * 15/16 = 0.05625; a sixteenth of 0.05625 is 0.003515625; a 32nd of the difference is 0.00164794921875.
        assert!((delay.scale() - (1.0 - 0.00164794921875 / 0.01)).abs() < 1e-12, "{}", delay.scale());
        for step in 2..2000 {
            add(&mut delay, 50, 25 * step);
        }
        assert!(delay.scale() > 0.999, "the maximum and the minimum approach each other: {}", delay.scale());
        for step in 2000..2400 {
            add(&mut delay, if step % 2 == 0 { 50 } else { 80 }, 25 * step);
        }
        assert_eq!(delay.scale(), 0.0);
    }
}

//! Vegas: the window is adjusted so that a few segments are in the queue of the bottleneck.
//!
//! L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE Journal on Selected
//! Areas in Communications 13(8), 1995, sections III.B and III.C; Linux 6: `tcp_vegas.c`. Once per round trip, Vegas
//! compares the window with the window that the path would hold without queueing. The difference is the number of the
//! sender's segments that are in queues:
//!
//! - `diff = cwnd (1 - baseRTT / RTT)`, where `RTT` is the minimum round-trip time of the last round.
//! - In congestion avoidance, the window grows by one segment if `diff < alpha`, and is reduced by one segment if
//!   `diff > beta`.
//! - Slow start ends if `diff > gamma`, and the window is set to `cwnd baseRTT / RTT`.
//!
//! As in Linux and unlike in the paper, the window doubles in every round trip of slow start, losses are repaired by
//! the sender's configured loss recovery, and the first data after an idle period resets `baseRTT`. A loss halves the
//! window. After the loss, the window grows as with Reno until all data sent before the loss is acknowledged.
//!
//! Differences from Linux: Real numbers are used instead of integers, so that Vegas does not need to add a segment at
//! the end of slow start. `diff` is computed as in the paper, whereas Linux computes `cwnd (RTT / baseRTT - 1)`, which
//! is larger by a factor of `RTT / baseRTT`. If a round provides fewer than three samples, the window grows by one
//! segment, as with Reno, whereas in Linux the window grows by the fraction that one acknowledgement adds.
//!
//! aqmlab's choices where the sources do not specify the behaviour: The window does not grow if the sender left part of
//! the window unused. A loss recovery that does not record departure times (without SACK) provides one sample per
//! round, so that the window grows as with Reno.

use aqm_net::{ConfigError, Span, parameters};

use super::reno::{Growth, Reno};
use super::slow_start::MAX_WINDOW;
use super::window::{Window, WindowRules};
use super::{AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, ControlReport};

parameters! {
    /// Vegas: the window is adjusted so that between `alpha` and `beta` segments are in the bottleneck's queue.
    pub struct Config {
        /// Number of queued segments below which the window grows (`alpha`).
        pub alpha: f64 = 2.0, "Linux: `alpha`; Brakmo and Peterson 1995: 1 to 2";
        /// Number of queued segments above which the window is reduced (`beta`).
        pub beta: f64 = 4.0, "Linux: `beta`; Brakmo and Peterson 1995: 3 to 4";
        /// Number of queued segments above which slow start ends (`gamma`).
        pub gamma: f64 = 1.0, "Linux: `gamma`; Brakmo and Peterson 1995: 1";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
    }
}

/// Minimum window after a reduction because of delay, in segments.
const MIN_WINDOW: f64 = 2.0;
/// A decision that is based on delay requires more samples in the round than this number.
const FEW_SAMPLES: u32 = 2;
/// Minimum of `ssthresh` after a decision that is based on delay, as a fraction of the window (`tcp_current_ssthresh`).
const MIN_SSTHRESH_SHARE: f64 = 0.75;

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        let is_window = |value: f64| (0.0..=MAX_WINDOW).contains(&value);
        ConfigError::unless(is_window(self.alpha), "alpha", "must be from 0 to 1000000000 segments")?;
        ConfigError::unless(is_window(self.gamma), "gamma", "must be from 0 to 1000000000 segments")?;
        let is_above = is_window(self.beta) && self.beta >= self.alpha;
        ConfigError::unless(is_above, "beta", "must be at least alpha, and at most 1000000000 segments")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Vegas {
            alpha: self.alpha,
            beta: self.beta,
            gamma: self.gamma,
            reno: Reno::new(Growth::Fractions),
            base_rtt: None,
            round: Round::begin(0),
            recover: None,
            snd_nxt: 0,
            is_idle: false,
        })
    }
}

/// State of Vegas for one sender.
struct Vegas {
    alpha: f64,
    beta: f64,
    gamma: f64,
    reno: Reno,
    /// Minimum round-trip time (`baseRTT`).
    base_rtt: Option<Span>,
    round: Round,
    /// End of the data that was sent before the last reduction; `None` once this data is acknowledged.
    recover: Option<u64>,
    /// End of the data that had been sent when the last acknowledgement arrived (`SND.NXT`).
    snd_nxt: u64,
    /// Whether the last acknowledgement acknowledged all data that had been sent.
    is_idle: bool,
}

/// State of one round trip.
#[derive(Clone, Copy)]
struct Round {
    /// End of the data that had been sent when the round began (`beg_snd_nxt`).
    end: u64,
    /// Minimum round-trip time in the round (`minRTT`).
    min_rtt: Option<Span>,
    /// Number of samples in the round (`cntRTT`).
    samples: u32,
    /// Whether data that was sent after the beginning of the round has been acknowledged.
    is_over: bool,
}

impl Round {
    /// Begins a round when data up to `end` has been sent.
    fn begin(end: u64) -> Self {
        Self { end, min_rtt: None, samples: 0, is_over: false }
    }
}

impl Vegas {
    /// Changes the window at the end of a round in which the minimum round-trip time was `rtt`.
    fn adjust(&self, window: &mut Window, ack: &AckInfo, base_rtt: Span, rtt: Span) {
        let share = base_rtt.nanos() as f64 / rtt.nanos() as f64;
        let diff = window.cwnd * (1.0 - share);
        if window.in_slow_start() {
            if diff > self.gamma {
                window.cwnd = (window.cwnd * share).max(MIN_WINDOW);
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else if ack.may_grow {
                window.slow_start(ack.counted);
            }
        } else if diff > self.beta {
            window.cwnd = (window.cwnd - 1.0).max(MIN_WINDOW);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if diff < self.alpha && ack.may_grow {
            window.add(1.0);
        }
        window.ssthresh = window.ssthresh.max(MIN_SSTHRESH_SHARE * window.cwnd);
    }
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if self.recover.is_some() {
            self.reno.on_ack(window, ack);
        } else if self.round.is_over {
            match (self.base_rtt, self.round.min_rtt) {
                (Some(base_rtt), Some(rtt)) if self.round.samples > FEW_SAMPLES => {
                    self.adjust(window, ack, base_rtt, rtt);
                }
                _ if ack.may_grow && window.slow_start(ack.counted).is_none() => window.add(1.0),
                _ => {}
            }
            self.round = Round::begin(self.snd_nxt);
        } else if ack.may_grow {
            window.slow_start(ack.counted);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        self.recover = Some(self.snd_nxt);
        self.reno.reduce(window, congestion);
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, _window: &mut Window, sample: &AckSample) {
        if self.is_idle {
            (self.base_rtt, self.round) = (None, Round::begin(self.snd_nxt));
        }
        self.snd_nxt = sample.snd_nxt;
        self.is_idle = sample.snd_una == sample.snd_nxt;
        if let Some(sent) = sample.newest {
            let rtt = sample.now.since(sent).max(Span::from_nanos(1));
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |least| least.min(rtt)));
            self.round.min_rtt = Some(self.round.min_rtt.map_or(rtt, |least| least.min(rtt)));
            self.round.samples += 1;
        }
        if self.recover.is_some_and(|recover| sample.snd_una >= recover) {
            self.recover = None;
            self.round = Round::begin(sample.snd_nxt);
        }
        self.round.is_over |= sample.snd_una > self.round.end;
    }

    fn report(&self) -> ControlReport {
        ControlReport { min_rtt: self.base_rtt, ..ControlReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bottleneck, ack, loss};

    const BASE: Span = Span::from_millis(40);

    fn vegas(config: &Config) -> Vegas {
        Vegas {
            alpha: config.alpha,
            beta: config.beta,
            gamma: config.gamma,
            reno: Reno::new(Growth::Fractions),
            base_rtt: None,
            round: Round::begin(0),
            recover: None,
            snd_nxt: 0,
            is_idle: false,
        }
    }

    /// Returns the window after a round with the given number of queued segments. Before the round, the window was 100
    /// segments.
    fn after_round(ssthresh: f64, queued: f64) -> f64 {
        let mut window = Window::with_defaults(100.0, ssthresh);
        let rtt = Span::from_seconds(BASE.seconds() / (1.0 - queued / 100.0));
        vegas(&Config::default()).adjust(&mut window, &ack(1.0), BASE, rtt);
        window.cwnd
    }

    #[test]
    fn the_window_grows_below_alpha_falls_above_beta_and_is_constant_in_between() {
        let windows = [0.0, 1.9, 2.1, 3.9, 4.1, 30.0].map(|queued| after_round(2.0, queued));
        assert_eq!(windows, [101.0, 101.0, 100.0, 100.0, 99.0, 99.0]);
    }

    #[test]
    fn slow_start_ends_above_gamma_with_the_window_that_the_path_holds() {
        assert_eq!(after_round(1000.0, 0.9), 101.0);
        assert!((after_round(1000.0, 1.1) - 98.9).abs() < 1e-6);
    }

    #[test]
    fn a_flow_alone_keeps_between_alpha_and_beta_segments_in_the_queue() {
        for (alpha, beta) in [(2.0, 4.0), (10.0, 12.0)] {
            let config = Config { alpha, beta, ..Config::default() };
            // The rate is ten segments per millisecond, and the round-trip time is 40 ms.
            let mut path = Bottleneck::new(&config, 10.0, BASE);
            path.controller.open(10.0, 300.0);
            for _ in 0..60_000 {
                path.step();
            }
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            for _ in 0..10_000 {
                path.step();
                // The minimum round-trip time includes the transmission of one segment.
                let queued = path.controller.cwnd() - 401.0;
                (least, most) = (least.min(queued), most.max(queued));
            }
            assert!(least >= alpha - 1.0 && most <= beta + 1.0, "{alpha} to {beta}: {least} to {most}");
            assert_eq!(path.controller.report().min_rtt, Some(BASE + Span::from_nanos(100_000)));
        }
    }

    #[test]
    fn a_loss_halves_the_window_and_delay_has_no_effect_until_the_data_before_it_is_acknowledged() {
        let mut path = Bottleneck::new(&Config::default(), 10.0, BASE);
        for _ in 0..20_000 {
            path.step();
        }
        let before = path.controller.cwnd();
        path.controller.on_congestion(&loss(before));
        assert_eq!(path.controller.cwnd(), before / 2.0);
        path.step();
        let growth = path.controller.cwnd() - before / 2.0;
        assert!((growth - 2.0 / before).abs() < 1e-9, "Reno's growth: {growth}");
    }

    #[test]
    fn alpha_above_beta_is_rejected() {
        let config = Config { alpha: 5.0, ..Config::default() };
        assert_eq!(config.check().unwrap_err().path, "beta");
    }
}

//! How long to wait for an acknowledgement: round-trip estimate and retransmission time-out.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298,
//! 2011; `ticks` is the integer arithmetic of V. Jacobson, "Congestion Avoidance and Control",
//! 1988, appendix A, as ns-2.35 runs it (`tcp.cc`: `rtt_update`, `rtt_timeout`, `rtt_backoff`);
//! `linux` is P. Sarolahti, A. Kuznetsov, "Congestion Control in Linux TCP", 2002, section 4.1, and
//! `tcp_rtt_estimator`; `wheel` is the timer wheel of Linux since 4.8 (`kernel/time/timer.c`).
//!
//! Ours, where the sources are silent: `exact` keeps nanoseconds as floating point numbers and
//! rounds only the time-out.

use aqm_net::{Instant, Span};

use crate::config::rto::{MinRto, Rto, RtoArithmetic, TimerClock};

impl Rto {
    /// When a timer runs out that is set for `wait` at `now`.
    #[inline]
    pub fn expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.slot(now, wait.nanos().div_ceil(self.tick.nanos())),
        }
    }

    /// The same for a wait that must not be mistaken for nothing: 2 ms longer on the wheel (Linux:
    /// `TCP_TIMEOUT_MIN_US`).
    pub fn late_expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.expiry(now, wait + LEAST_WAIT),
        }
    }

    /// How often the clock has ticked.
    pub fn ticked(&self, now: Instant) -> u64 {
        (now.nanos() + self.tick_phase.nanos()) / self.tick.nanos()
    }

    /// The end of the slot of the wheel that a wait of that many ticks falls into (`timer.c`, `calc_index`).
    fn slot(&self, now: Instant, ticks: u64) -> Instant {
        let expires = self.ticked(now) + ticks;
        let level = (0..8).find(|level| ticks < 63 << (3 * level)).unwrap_or(8);
        let end = ((expires >> (3 * level)) + 1) << (3 * level);
        Instant::from_nanos(end * self.tick.nanos() - self.tick_phase.nanos())
    }
}

/// SRTT, RTTVAR and the time-out that follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimator {
    smoothed: Smoothed,
    /// The time-out before minimum, back-off and maximum.
    base: Span,
    backoff: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Smoothed {
    /// There was no sample; everything below `sent` has been sent.
    Nothing {
        sent: u64,
    },
    Exact {
        srtt: f64,
        rttvar: f64,
    },
    /// `srtt` in eighths, `rttvar` in quarters of a tick; an `srtt` of zero is no estimate.
    Ticks {
        srtt: i64,
        rttvar: i64,
    },
    Linux(Box<Linux>),
}

/// What Linux keeps: all but `srtt` are four times the deviation they stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linux {
    srtt: f64,
    deviation: f64,
    /// Of this round trip the largest.
    largest: f64,
    rttvar: f64,
    /// This round trip is over when more than this is acknowledged.
    until: u64,
    /// What is acknowledged, and the end of what is sent.
    reach: (u64, u64),
    /// The least round trip.
    least: Span,
}

/// What a probe, or a late decision about a loss, waits at least (Linux: `TCP_TIMEOUT_MIN_US`).
pub(crate) const LEAST_WAIT: Span = Span::from_millis(2);

/// Back-off never needs more: the greatest time-out is reached long before.
const MAX_BACKOFF: u32 = 1 << 30;

impl Estimator {
    /// An estimator without a sample.
    pub fn new(config: &Rto) -> Self {
        Self { smoothed: Smoothed::Nothing { sent: 0 }, base: config.initial, backoff: 1 }
    }

    /// Everything below `acknowledged` is acknowledged, everything below `sent` has been sent: round trips are
    /// counted by it with `linux`.
    pub fn reach(&mut self, acknowledged: u64, sent: u64) {
        match &mut self.smoothed {
            Smoothed::Nothing { sent: newest } => *newest = sent,
            Smoothed::Linux(linux) => linux.reach = (acknowledged, sent),
            _ => {}
        }
    }

    /// A segment sent at `sent` and never retransmitted was acknowledged at `now`. Ends the
    /// back-off (RFC 6298, section 5, note after 5.7; Karn's algorithm).
    pub fn sample(&mut self, sent: Instant, now: Instant, config: &Rto) {
        self.backoff = 1;
        match config.arithmetic {
            RtoArithmetic::Exact => self.sample_exact(now.since(sent).nanos() as f64, config),
            RtoArithmetic::Ticks => self.sample_ticks(sent, now, config),
            RtoArithmetic::Linux => self.sample_linux(now.since(sent).nanos() as f64, config),
        }
    }

    /// The time-out passed without an acknowledgement (RFC 6298, 5.5).
    pub fn back_off(&mut self, config: &Rto) {
        if self.backoff < 64 || self.rto(config) < config.max {
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        }
        if let Smoothed::Ticks { srtt, rttvar } = &mut self.smoothed
            && self.backoff > 8
        {
            *rttvar += *srtt >> 3;
            *srtt = 0;
        }
    }

    /// Ends the back-off without a sample.
    pub fn end_back_off(&mut self) {
        self.backoff = 1;
    }

    /// Starts again from `base`, without back-off (RFC 6298, 5.7).
    pub fn restart_from(&mut self, base: Span) {
        self.base = self.base.max(base);
        self.backoff = 1;
    }

    /// Whether more time than the time-out, without its minimum and back-off, has passed since `then`.
    pub fn has_passed(&self, then: Instant, now: Instant, config: &Rto) -> bool {
        match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => now.since(then) > self.base,
            RtoArithmetic::Ticks => config.tick.saturating_mul(ticks(then, now, config)) > self.base,
        }
    }

    /// The time-out, backed off and within its limits.
    #[inline(always)]
    pub fn rto(&self, config: &Rto) -> Span {
        let backoff = u64::from(self.backoff);
        let rto = match config.min_applies {
            _ if backoff == 1 => self.base.max(config.min),
            MinRto::BeforeBackOff => self.base.max(config.min).saturating_mul(backoff),
            MinRto::AfterBackOff => self.base.saturating_mul(backoff).max(config.min),
        };
        let rto = rto.min(config.max);
        match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => rto,
            RtoArithmetic::Ticks => rto.max(config.tick.saturating_mul(2)),
        }
    }

    /// The least round trip of all samples, that of the handshake too; only with `linux`.
    pub fn least(&self) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Linux(linux) => Some(linux.least),
            _ => None,
        }
    }

    /// By what the time-out is multiplied.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The smoothed round-trip time, if there is an estimate; with `ticks` in whole ticks.
    #[inline(always)]
    pub fn srtt(&self, config: &Rto) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Nothing { .. } | Smoothed::Ticks { srtt: 0, .. } => None,
            Smoothed::Exact { srtt, .. } => Some(nanos(*srtt)),
            Smoothed::Linux(linux) => Some(nanos(linux.srtt)),
            Smoothed::Ticks { srtt, .. } => Some(config.tick.saturating_mul(*srtt as u64 >> 3)),
        }
    }

    /// The round-trip time's variation, if there was a sample.
    pub fn rttvar(&self, config: &Rto) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Nothing { .. } => None,
            Smoothed::Exact { rttvar, .. } => Some(nanos(*rttvar)),
            Smoothed::Linux(linux) => Some(nanos(linux.rttvar / 4.0)),
            Smoothed::Ticks { rttvar, .. } => {
                Some(Span::from_nanos(config.tick.saturating_mul(*rttvar as u64).nanos() / 4))
            }
        }
    }

    fn sample_exact(&mut self, rtt: f64, config: &Rto) {
        let (srtt, rttvar) = match self.smoothed {
            Smoothed::Exact { srtt, rttvar } => {
                let distance = (srtt - rtt).abs();
                // 2.3: RTTVAR first, with the old SRTT.
                let rttvar = rttvar + config.rttvar_gain * (distance - rttvar);
                (srtt + config.srtt_gain * (rtt - srtt), rttvar)
            }
            _ => (rtt, rtt / 2.0), // 2.2
        };
        self.smoothed = Smoothed::Exact { srtt, rttvar };
        self.base = nanos(srtt + (4.0 * rttvar).max(config.tick.nanos() as f64));
    }

    fn sample_linux(&mut self, rtt: f64, config: &Rto) {
        let floor = config.min.nanos() as f64;
        let begun = if let Smoothed::Nothing { sent } = self.smoothed { sent } else { 0 };
        let Smoothed::Linux(linux) = &mut self.smoothed else {
            let deviation = 2.0 * rtt;
            let largest = deviation.max(floor);
            let first = Linux {
                srtt: rtt,
                deviation,
                largest,
                rttvar: largest,
                until: begun,
                reach: (0, 0),
                least: nanos(rtt),
            };
            self.smoothed = Smoothed::Linux(Box::new(first));
            self.base = nanos(rtt + largest);
            return;
        };
        let (acknowledged, sent) = linux.reach;
        linux.least = linux.least.min(nanos(rtt));
        let error = rtt - linux.srtt;
        let mut change = error.abs() - linux.deviation / 4.0;
        if error < 0.0 && change > 0.0 {
            change /= 8.0;
        }
        linux.srtt += error / 8.0;
        linux.deviation += change;
        linux.largest = linux.largest.max(linux.deviation);
        linux.rttvar = linux.rttvar.max(linux.largest);
        if acknowledged > linux.until {
            linux.rttvar -= (linux.rttvar - linux.largest) / 4.0;
            linux.largest = floor;
            linux.until = sent;
        }
        self.base = nanos(linux.srtt + linux.rttvar.max(floor));
    }

    fn sample_ticks(&mut self, sent: Instant, now: Instant, config: &Rto) {
        let rtt = ticks(sent, now, config).max(1) as i64;
        let (srtt, rttvar) = match self.smoothed {
            Smoothed::Ticks { srtt, rttvar } if srtt != 0 => {
                let error = rtt - (srtt >> 3);
                let rttvar = rttvar + error.abs() - (rttvar >> 2);
                ((srtt + error).max(1), rttvar.max(1))
            }
            _ => (rtt << 3, rtt << 1),
        };
        self.smoothed = Smoothed::Ticks { srtt, rttvar };
        self.base = config.tick.saturating_mul(((rttvar << 3) + srtt) as u64 >> 3);
    }
}

/// How often a clock ticks between two moments.
fn ticks(from: Instant, to: Instant, config: &Rto) -> u64 {
    let tick = config.tick.nanos();
    let past_tick = (from.nanos() + config.tick_phase.nanos()) % tick;
    (to.since(from).nanos() + past_tick) / tick
}

fn nanos(value: f64) -> Span {
    Span::from_nanos((value + 0.5) as u64)
}

#[cfg(test)]
mod tests;

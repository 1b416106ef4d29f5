//! Computes the round-trip estimate and the retransmission timeout.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298, 2011. The arithmetic
//! `ticks` is the integer arithmetic of V. Jacobson, "Congestion Avoidance and Control", 1988, appendix A, as
//! implemented in ns-2.35 (`tcp.cc`: `rtt_update`, `rtt_timeout`, `rtt_backoff`). The arithmetic `linux` follows P.
//! Sarolahti, A. Kuznetsov, "Congestion Control in Linux TCP", 2002, section 4.1, and `tcp_rtt_estimator`. The clock
//! `wheel` is the timer wheel of Linux since version 4.8 (`kernel/time/timer.c`).
//!
//! aqmlab's choice where the sources are silent: the arithmetic `exact` uses floating-point numbers in nanoseconds and
//! rounds only the timeout.

use aqm_net::{Instant, Span};

use crate::config::rto::{MinRto, Rto, RtoArithmetic, TimerClock};

impl Rto {
    /// Returns the expiry time of a timer that is set at `now` with the duration `wait`.
    #[inline]
    pub fn expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.slot(now, wait.nanos().div_ceil(self.tick.nanos())),
        }
    }

    /// Like `expiry`, but for a duration that must not be zero. With the timer wheel, the duration is extended by 2 ms
    /// (Linux: `TCP_TIMEOUT_MIN_US`).
    pub fn late_expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.expiry(now, wait + MIN_WAIT),
        }
    }

    /// Returns the number of clock ticks up to `now`.
    pub fn ticked(&self, now: Instant) -> u64 {
        (now.nanos() + self.tick_phase.nanos()) / self.tick.nanos()
    }

    /// Returns the end of the timer wheel's slot for a duration of `ticks` ticks (`timer.c`, `calc_index`).
    fn slot(&self, now: Instant, ticks: u64) -> Instant {
        let expires = self.ticked(now) + ticks;
        let level = (0..8).find(|level| ticks < 63 << (3 * level)).unwrap_or(8);
        let end = ((expires >> (3 * level)) + 1) << (3 * level);
        Instant::from_nanos(end * self.tick.nanos() - self.tick_phase.nanos())
    }
}

/// SRTT, RTTVAR and the retransmission timeout that results from SRTT and RTTVAR.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimator {
    smoothed: Smoothed,
    /// Timeout before the minimum, the back-off and the maximum are applied.
    base: Span,
    backoff: u32,
    /// Timeout, including the back-off and the limits. The timeout is stored because the timeout is used several times
    /// for each sample.
    rto: Span,
}

#[derive(Clone, Debug, PartialEq)]
enum Smoothed {
    /// No sample has been taken yet. All data below `sent` has been sent.
    Nothing {
        sent: u64,
    },
    Exact {
        srtt: f64,
        rttvar: f64,
    },
    /// `srtt` is in eighths of a tick, and `rttvar` is in quarters of a tick. An `srtt` of zero means that there is no
    /// estimate.
    Ticks {
        srtt: i64,
        rttvar: i64,
    },
    Linux(Box<Linux>),
}

/// State of the estimator `linux`. All fields that describe the deviation contain four times the deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linux {
    srtt: f64,
    deviation: f64,
    /// Largest deviation during the current round trip.
    largest: f64,
    rttvar: f64,
    /// Sequence number at which the current round trip ends. The round trip ends when data beyond this number is
    /// acknowledged.
    until: u64,
    /// Sequence numbers that follow the acknowledged data and the sent data.
    reach: (u64, u64),
    /// Minimum round-trip time.
    least: Span,
}

/// Minimum delay of a probe, and of a loss decision that is delayed (Linux: `TCP_TIMEOUT_MIN_US`).
pub(crate) const MIN_WAIT: Span = Span::from_millis(2);

/// Maximum back-off factor. The maximum timeout is reached long before this factor.
const MAX_BACKOFF: u32 = 1 << 30;

impl Estimator {
    /// Creates an estimator without a sample.
    pub fn new(config: &Rto) -> Self {
        let smoothed = Smoothed::Nothing { sent: 0 };
        let mut estimator = Self { smoothed, base: config.initial, backoff: 1, rto: Span::ZERO };
        estimator.update_rto(config);
        estimator
    }

    /// Sets the sequence numbers that follow the acknowledged data and the sent data. The estimator `linux` uses these
    /// numbers to delimit round trips.
    pub fn reach(&mut self, acknowledged: u64, sent: u64) {
        match &mut self.smoothed {
            Smoothed::Nothing { sent: newest } => *newest = sent,
            Smoothed::Linux(linux) => linux.reach = (acknowledged, sent),
            _ => {}
        }
    }

    /// Processes an acknowledgement that arrives at `now` for a segment that was sent only once, at the time `sent`.
    /// The resulting sample ends the back-off (RFC 6298, section 5, note after 5.7; Karn's algorithm).
    pub fn sample(&mut self, sent: Instant, now: Instant, config: &Rto) {
        self.backoff = 1;
        match config.arithmetic {
            RtoArithmetic::Exact => self.sample_exact(now.since(sent).nanos() as f64, config),
            RtoArithmetic::Ticks => self.sample_ticks(sent, now, config),
            RtoArithmetic::Linux => self.sample_linux(now.since(sent).nanos() as f64, config),
        }
        self.update_rto(config);
    }

    /// Increases the back-off after a timeout (RFC 6298, 5.5).
    pub fn back_off(&mut self, config: &Rto) {
        if self.backoff < 64 || self.rto < config.max {
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
            self.update_rto(config);
        }
        if let Smoothed::Ticks { srtt, rttvar } = &mut self.smoothed
            && self.backoff > 8
        {
            *rttvar += *srtt >> 3;
            *srtt = 0;
        }
    }

    /// Ends the back-off without a round-trip sample.
    #[inline]
    pub fn end_back_off(&mut self, config: &Rto) {
        if self.backoff > 1 {
            self.backoff = 1;
            self.update_rto(config);
        }
    }

    /// Restarts the estimator with a timeout of at least `base` and without back-off (RFC 6298, 5.7).
    pub fn restart_from(&mut self, base: Span, config: &Rto) {
        self.base = self.base.max(base);
        self.backoff = 1;
        self.update_rto(config);
    }

    /// Returns whether more time than the timeout has passed since `then`. For this comparison, the minimum timeout and
    /// the back-off are not applied.
    pub fn has_passed(&self, then: Instant, now: Instant, config: &Rto) -> bool {
        match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => now.since(then) > self.base,
            RtoArithmetic::Ticks => config.tick.saturating_mul(ticks(then, now, config)) > self.base,
        }
    }

    /// Returns the timeout, including the back-off and the limits.
    #[inline(always)]
    pub fn rto(&self) -> Span {
        self.rto
    }

    /// Recomputes the timeout after a change of the estimate or of the back-off.
    fn update_rto(&mut self, config: &Rto) {
        let backoff = u64::from(self.backoff);
        let rto = match config.min_applies {
            _ if backoff == 1 => self.base.max(config.min),
            MinRto::BeforeBackOff => self.base.max(config.min).saturating_mul(backoff),
            MinRto::AfterBackOff => self.base.saturating_mul(backoff).max(config.min),
        };
        let rto = rto.min(config.max);
        self.rto = match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => rto,
            RtoArithmetic::Ticks => rto.max(config.tick.saturating_mul(2)),
        };
    }

    /// Returns the minimum round-trip time of all samples, including the handshake's sample. The minimum is known only
    /// with the arithmetic `linux`.
    pub fn least(&self) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Linux(linux) => Some(linux.least),
            _ => None,
        }
    }

    /// Returns the factor by which the exponential back-off multiplies the timeout.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the smoothed round-trip time; `None` if there is no estimate. With the arithmetic `ticks`, this time is
    /// a whole number of ticks.
    #[inline(always)]
    pub fn srtt(&self, config: &Rto) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Nothing { .. } | Smoothed::Ticks { srtt: 0, .. } => None,
            Smoothed::Exact { srtt, .. } => Some(nanos(*srtt)),
            Smoothed::Linux(linux) => Some(nanos(linux.srtt)),
            Smoothed::Ticks { srtt, .. } => Some(config.tick.saturating_mul(*srtt as u64 >> 3)),
        }
    }

    /// Returns the round-trip time variation (RTTVAR); `None` if no sample has been taken.
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
                // RFC 6298, 2.3: RTTVAR is updated first and uses the previous SRTT.
                let rttvar = rttvar + config.rttvar_gain * (distance - rttvar);
                (srtt + config.srtt_gain * (rtt - srtt), rttvar)
            }
            _ => (rtt, rtt / 2.0), // RFC 6298, 2.2
        };
        self.smoothed = Smoothed::Exact { srtt, rttvar };
        self.base = nanos(srtt + (4.0 * rttvar).max(config.tick.nanos() as f64));
    }

    fn sample_linux(&mut self, rtt: f64, config: &Rto) {
        let floor = config.min.nanos() as f64;
        let initial_end = if let Smoothed::Nothing { sent } = self.smoothed { sent } else { 0 };
        let Smoothed::Linux(linux) = &mut self.smoothed else {
            let deviation = 2.0 * rtt;
            let largest = deviation.max(floor);
            let first = Linux {
                srtt: rtt,
                deviation,
                largest,
                rttvar: largest,
                until: initial_end,
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

/// Returns the number of clock ticks between two times.
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

//! DOCSIS-PIE: the PIE of cable modems, which knows from its token bucket how long packets will wait.
//!
//! G. White, R. Pan, "Active Queue Management (AQM) Based on Proportional Integral Controller Enhanced (PIE) for
//! Data-Over-Cable Service Interface Specifications (DOCSIS) Cable Modems", RFC 8034, 2017, with its constants. How it
//! differs from RFC 8033:
//! - The delay is what waits over the rates of the service flow: what the token bucket holds leaves at the peak rate,
//!   and what is beyond it at the sustained one (`msr`). It is estimated every 16 ms.
//! - alpha and beta are twice as large, and above 10 %, 100 % and 1000 % the change is multiplied by 2, 8 and 32. The
//!   probability is that of a packet of 1024 bytes; it ends at 1360 %, where one of 64 bytes has 85 %.
//! - Two delays below 5 ms multiply it by 0.98; a delay above 200 ms adds 2 % at each update.
//! - An arrival has the probability times its size over 1024 bytes, at most 85 %. Probabilities add up: below 0.85
//!   nothing is dropped, from 8.5 on every packet is.
//! - PIE is inactive until a third of the buffer is full. The first drop then grants a burst allowance of 142 ms. With
//!   nothing to do PIE is quiescent, and after 1 s of that inactive again.
//! - There is no ECN.
//!
//! The queue is the modem's shaper, too: it holds packets back so that over any time no more leaves than `msr` brings,
//! and `traffic_burst` beside; and packets follow each other at `peak` at most. (DOCSIS 3.1, C.2.2.7: Maximum
//! Sustained Traffic Rate, Maximum Traffic Burst, Peak Traffic Rate.)
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Pace, Packet, Rate, Rng, Size, Span, parameters,
};
use serde_json::{Value, json};

use crate::pie::rfc::{ACCUMULATED, damping};
use crate::pie::timer::Timer;
use crate::start::{Start, first_instant};
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// DOCSIS-PIE: the PIE of cable modems, with their shaper.
    ///
    /// RFC 8034, whose constants stand. It never marks.
    ///
    /// Where RFC 8034 is silent:
    ///
    /// - Requests and grants of the upstream channel are not modelled: a packet whose turn it is leaves.
    /// - An update that meets an arrival or a departure comes first.
    /// - A packet that is larger than `traffic_burst` leaves when the bucket is full.
    pub struct Config {
        /// The time to wait that is held (`LATENCY_TARGET`).
        pub target: Span = Span::from_millis(10), "RFC 8034";
        /// The rate at which packets leave in the long run (`MSR`, Maximum Sustained Traffic Rate). Left out: `peak`.
        pub msr: Option<Rate> = None, "ours: nothing is held back";
        /// Bytes that may leave at the peak rate after a pause (Maximum Traffic Burst).
        pub traffic_burst: Size = Size::from_bytes(3044), "DOCSIS 3.1";
        /// The rate at which packets leave at most (`PEAK_RATE`). Left out: that of the line.
        pub peak: Option<Rate> = None, "ours: nothing is held back";
        /// The most that may wait (`BUFFER_SIZE`); the packet on the line is not counted. Left out: what `peak` sends in
        /// 100 ms.
        pub limit: Option<Size> = None, "DOCSIS 3.1: Default Upstream Target Buffer";
        /// Whether the timer has been running for long as a run begins (`settled`), or starts with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

/// From update to update (`INTERVAL`).
const INTERVAL: Span = Span::from_millis(16);
/// What a second off the target adds to the probability (`A`).
const A: f64 = 0.25;
/// What a second more than before adds (`B`).
const B: f64 = 2.5;
/// Quiet until PIE is inactive.
const BURST_RESET_TIMEOUT: Span = Span::from_millis(1000);
/// The burst allowance.
const MAX_BURST: Span = Span::from_millis(142);
/// The packet whose probability it is, in bytes.
const MEAN_PKTSIZE: f64 = 1024.0;
/// The smallest packet, in bytes.
const MIN_PKTSIZE: f64 = 64.0;
/// A low and a high delay, in seconds.
const LATENCY_LOW: f64 = 0.005;
const LATENCY_HIGH: f64 = 0.2;
/// Below this sum of probabilities nothing is dropped, and above it is no packet's; from the other on all are dropped.
const PROB_LOW: f64 = ACCUMULATED.0;
const PROB_HIGH: f64 = ACCUMULATED.1;

/// What the service flow may send, all left out filled in.
struct Flow {
    msr: Rate,
    peak: Rate,
    limit: u64,
}

impl Config {
    /// What the service flow may send on a `line`.
    ///
    /// # Errors
    /// If a rate is more than there is.
    fn flow(&self, line: Rate) -> Result<Flow, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let peak = self.peak.unwrap_or(line);
        let msr = self.msr.unwrap_or(peak);
        errors.check(peak <= line, "peak", format_args!("must be at most the rate of the line, {line}"));
        errors.check(msr <= peak, "msr", format_args!("must be at most the peak rate, {peak}"));
        let limit = self.limit.map_or(peak.bps() / 80, Size::bytes);
        let remedy = if self.limit.is_some() { "" } else { ": write it" };
        errors.check(limit > 0, "limit", format_args!("must be at least 1B{remedy}"));
        errors.check(self.traffic_burst.bytes() > 0, "traffic_burst", "must be at least 1B");
        let condition = format_args!("unless msr is below the peak rate, {peak}");
        errors.check_effect(msr < peak, self, &["traffic_burst"], condition);
        errors.check(self.target >= Span::from_nanos(1000), "target", "must be at least 1us");
        errors.finish(Flow { msr, peak, limit })
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let Flow { msr, peak, limit } = self.flow(rate)?;
        Ok(Box::new(DocsisPie {
            rules: Rules {
                target: self.target.seconds(),
                limit,
                msr: msr.bytes_per_second(),
                peak: peak.bytes_per_second(),
            },
            start: self.start,
            vars: Vars::default(),
            timer: Timer::new(Instant::START + INTERVAL),
            shaper: (msr < rate).then(|| Shaper::new(msr, peak, self.traffic_burst)),
            held_until: None,
            fifo: Fifo::new(Length::Bytes(limit)),
        }))
    }
}

impl Describe for Config {
    fn holds_back(&self) -> bool {
        self.msr.is_some() || self.peak.is_some()
    }

    fn outlet(&self, line: Rate) -> Rate {
        self.flow(line).map_or(line, |flow| flow.msr)
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Ok(Flow { msr, peak, limit }) = self.flow(rate) else { return Vec::new() };
        let mut derived = Vec::new();
        if self.msr.is_none() {
            derived.push(Derived::new("msr", msr.bps() as f64, "bps"));
        }
        if self.peak.is_none() {
            derived.push(Derived::new("peak", peak.bps() as f64, "bps"));
        }
        if self.limit.is_none() {
            derived.push(Derived::new("limit", limit as f64, "bytes"));
        }
        derived
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "9kB", "target": "1ms"}),
            json!({"msr": "5Mbps", "traffic_burst": "20kB", "limit": "30kB"}),
            json!({"msr": "4Mbps", "peak": "8Mbps", "traffic_burst": "1kB"}),
            json!({"peak": "9999kbps", "limit": "5001B"}),
        ]
    }
}

/// The running discipline.
#[derive(Clone)]
struct DocsisPie {
    rules: Rules,
    start: Start,
    vars: Vars,
    timer: Timer,
    /// None if the line does it.
    shaper: Option<Shaper>,
    /// When a packet may leave that was not let go.
    held_until: Option<Instant>,
    fifo: Fifo,
}

/// What the controller knows.
#[derive(Clone, Debug)]
struct Rules {
    /// In seconds.
    target: f64,
    /// In bytes.
    limit: u64,
    /// In bytes per second.
    msr: f64,
    peak: f64,
}

/// What changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Vars {
    state: AqmState,
    drop_prob: f64,
    accu_prob: f64,
    /// The delay at the last update, in seconds.
    qdelay_old: f64,
    burst_allowance: Span,
    burst_reset: Span,
}

/// Whether PIE has something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AqmState {
    #[default]
    Inactive,
    Quiescent,
    Active,
}

impl Rules {
    /// How long the last of so many waiting `bytes` will wait, with so many `tokens`, in seconds.
    fn delay(&self, bytes: u64, tokens: f64) -> f64 {
        let bytes = bytes as f64;
        if bytes <= tokens { bytes / self.peak } else { (bytes - tokens) / self.msr + tokens / self.peak }
    }

    fn update(&self, vars: &mut Vars, qdelay: f64) {
        let qdelay_old = vars.qdelay_old;
        if vars.burst_allowance.is_zero() {
            let change = A * (qdelay - self.target) + B * (qdelay - qdelay_old);
            let change = change * gain(vars.drop_prob);
            vars.drop_prob += if vars.drop_prob >= 0.1 { change.min(0.02) } else { change };
            if qdelay < LATENCY_LOW && qdelay_old < LATENCY_LOW {
                vars.drop_prob *= 0.98;
            } else if qdelay > LATENCY_HIGH {
                vars.drop_prob += 0.02;
            }
            vars.drop_prob = vars.drop_prob.clamp(0.0, PROB_LOW * MEAN_PKTSIZE / MIN_PKTSIZE);
        } else {
            vars.drop_prob = 0.0;
            vars.burst_allowance = vars.burst_allowance - INTERVAL;
        }
        let is_low = |delay| delay < 0.5 * self.target;
        let is_quiet =
            is_low(qdelay) && is_low(qdelay_old) && vars.drop_prob == 0.0 && vars.burst_allowance.is_zero();
        (vars.state, vars.burst_reset) = match vars.state {
            AqmState::Active if is_quiet => (AqmState::Quiescent, Span::ZERO),
            AqmState::Quiescent if is_quiet && vars.burst_reset + INTERVAL > BURST_RESET_TIMEOUT => {
                (AqmState::Inactive, Span::ZERO)
            }
            AqmState::Quiescent if is_quiet => (AqmState::Quiescent, vars.burst_reset + INTERVAL),
            AqmState::Quiescent => (AqmState::Quiescent, Span::ZERO),
            other => (other, vars.burst_reset),
        };
        vars.qdelay_old = qdelay;
    }

    /// Whether the packet of so many `bytes` that arrives is dropped.
    fn picks(&self, vars: &mut Vars, bytes: u16, waiting: u64, rng: &mut Rng) -> bool {
        if !vars.burst_allowance.is_zero() {
            return false;
        }
        if vars.drop_prob == 0.0 {
            vars.accu_prob = 0.0;
        }
        if vars.state == AqmState::Inactive {
            if waiting < self.limit / 3 {
                return false;
            }
            vars.state = AqmState::Quiescent;
        }
        let p = (vars.drop_prob * f64::from(bytes) / MEAN_PKTSIZE).min(PROB_LOW);
        vars.accu_prob += p;
        if (vars.qdelay_old < 0.5 * self.target && vars.drop_prob < 0.2)
            || waiting as f64 <= 2.0 * MEAN_PKTSIZE
            || vars.accu_prob < PROB_LOW
            || (vars.accu_prob < PROB_HIGH && !rng.chance(p))
        {
            return false;
        }
        vars.accu_prob = 0.0;
        if vars.state == AqmState::Quiescent {
            (vars.state, vars.burst_allowance) = (AqmState::Active, MAX_BURST);
        }
        true
    }
}

/// By what a change of this probability is multiplied.
fn gain(drop_prob: f64) -> f64 {
    match drop_prob {
        p if p < 0.1 => 1.0 / damping(p),
        p if p < 1.0 => 2.0,
        p if p < 10.0 => 8.0,
        _ => 32.0,
    }
}

/// Lets packets go by a token bucket, and one after the other at the peak rate.
#[derive(Clone, Debug)]
struct Shaper {
    /// Time for bytes at the sustained and at the peak rate.
    msr: Pace,
    peak: Pace,
    bytes_per_nano: f64,
    depth: f64,
    /// How long an empty bucket takes to fill.
    fills_in: Span,
    /// When the bucket will be full, if nothing leaves.
    full_at: Instant,
    /// When the last packet has left at the peak rate.
    free_at: Instant,
}

impl Shaper {
    fn new(msr: Rate, peak: Rate, depth: Size) -> Self {
        Self {
            msr: msr.pace(),
            peak: peak.pace(),
            bytes_per_nano: msr.bytes_per_second() / 1e9,
            depth: depth.bytes() as f64,
            fills_in: msr.pace().time_for(depth.bytes()),
            full_at: Instant::START,
            free_at: Instant::START,
        }
    }

    /// What the bucket holds at `now`, in bytes.
    fn tokens(&self, now: Instant) -> f64 {
        (self.depth - self.full_at.since(now).nanos() as f64 * self.bytes_per_nano).max(0.0)
    }

    /// When a packet of so many `bytes` may leave, at `now` at the earliest.
    fn ready(&self, bytes: u16, now: Instant) -> Instant {
        let needs = self.msr.time_for(bytes.into()).min(self.fills_in);
        now.max(self.free_at).max((self.full_at + needs).earlier_by(self.fills_in))
    }

    /// A packet of so many `bytes` leaves.
    fn after_departure(&mut self, bytes: u16, now: Instant) {
        self.full_at = self.full_at.max(now) + self.msr.time_for(bytes.into());
        self.free_at = now + self.peak.time_for(bytes.into());
    }
}

impl DocsisPie {
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        let Self { rules, vars, timer, shaper, fifo, .. } = self;
        let bytes = fifo.backlog().bytes;
        timer.catch_up(now, INTERVAL, vars, |vars, at| {
            // Without a shaper both rates are one, and tokens make no difference.
            let tokens = shaper.as_ref().map_or(0.0, |shaper| shaper.tokens(at));
            rules.update(vars, rules.delay(bytes, tokens));
        });
    }
}

impl QueueDiscipline for DocsisPie {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.timer = Timer::new(first_instant(INTERVAL, chance));
        }
    }

    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.catch_up(cx.now);
        let waiting = self.fifo.backlog().bytes;
        if !self.fifo.has_room_for(&packet) {
            self.vars.accu_prob = 0.0;
            cx.drop(packet, Reason::Overflow);
        } else if self.rules.picks(&mut self.vars, packet.bytes, waiting, cx.rng) {
            cx.drop(packet, Reason::Early);
        } else {
            self.fifo.push(packet);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.catch_up(cx.now);
        if let Some(shaper) = &mut self.shaper {
            self.held_until = None;
            let bytes = self.fifo.front()?.0.bytes;
            let ready = shaper.ready(bytes, cx.now);
            if ready > cx.now {
                self.held_until = Some(ready);
                return None;
            }
            shaper.after_departure(bytes, cx.now);
        }
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn next_ready(&self) -> Option<Instant> {
        self.held_until
    }
}

impl Report for DocsisPie {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        // The probability of a packet of the mean size, which is the most that any has.
        show(Gauge::number("prob", self.vars.drop_prob.min(PROB_LOW)));
        show(Gauge::number("drop_prob", self.vars.drop_prob));
        show(Gauge::new("delay", self.vars.qdelay_old, "s"));
        show(Gauge::number("state", f64::from(self.vars.state as u8)));
    }
}

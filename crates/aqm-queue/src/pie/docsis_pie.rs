//! DOCSIS-PIE: the variant of PIE for cable modems, which computes the queueing delay from the state of the modem's
//! token bucket.
//!
//! G. White, R. Pan, "Active Queue Management (AQM) Based on Proportional Integral Controller Enhanced (PIE) for
//! Data-Over-Cable Service Interface Specifications (DOCSIS) Cable Modems", RFC 8034, 2017, whose constants are used.
//! DOCSIS-PIE differs from the PIE of RFC 8033 as follows:
//! - The delay is computed from the backlog and the rates of the service flow. Queued bytes for which the bucket has
//!   tokens leave at the peak rate, and all other bytes at the sustained rate (`msr`). The delay is computed every 16
//!   ms.
//! - The gains `alpha` and `beta` are twice as large. The change of the probability is multiplied by 2 if the
//!   probability is above 10 %, by 8 above 100 %, and by 32 above 1000 %. The probability applies to a packet of 1024
//!   bytes. Its maximum is 1360 %, at which the probability of a packet of 64 bytes is 85 %.
//! - If the delays at two successive updates are below 5 ms, the probability is multiplied by 0.98. If the delay is
//!   above 200 ms, the probability increases by 2 % at each update.
//! - The drop probability of an arriving packet is multiplied by the packet's size divided by 1024 bytes, and limited
//!   to 85 %. The probabilities of packets are added up. While the sum is below 0.85, no packet is dropped; when the
//!   sum reaches 8.5, a packet is certainly dropped.
//! - PIE is inactive until a third of the buffer is full. The first drop after that grants a burst allowance of 142 ms.
//!   When the probability and the burst allowance are zero and the delays are low, PIE becomes quiescent. After 1 s in
//!   the quiescent state, PIE becomes inactive again.
//! - ECN is not supported.
//!
//! The queue is also the modem's shaper. In any period, the number of bytes that leave is at most `msr` times the
//! period plus `traffic_burst`, and consecutive packets leave at a rate of at most `peak`. (DOCSIS 3.1, C.2.2.7:
//! Maximum Sustained Traffic Rate, Maximum Traffic Burst, Peak Traffic Rate.)
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where RFC 8034 is silent.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Pace, Packet, Rate, Rng, Size, Span, parameters,
};
use serde_json::{Value, json};

use crate::pie::rfc::{ACCUMULATED, damping};
use crate::pie::timer::Timer;
use crate::start::{Start, first_instant};
use crate::{
    Build, Context, Derived, Describe, Evidence, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases,
};

parameters! {
    /// DOCSIS-PIE: the variant of PIE for cable modems, with the modem's shaper.
    ///
    /// DOCSIS-PIE uses the constants of RFC 8034 and never marks packets.
    ///
    /// aqmlab's choices where RFC 8034 is silent:
    ///
    /// - Requests and grants of the upstream channel are not simulated: the next packet leaves without waiting for a
    ///   grant.
    /// - An update that is due at the same time as an arrival or a departure is executed first.
    /// - A packet that is larger than `traffic_burst` leaves when the token bucket is full.
    pub struct Config {
        /// Target queueing delay (`LATENCY_TARGET`).
        pub target: Span = Span::from_millis(10), "RFC 8034";
        /// Long-term rate at which packets leave (`MSR`, Maximum Sustained Traffic Rate). Default: `peak`.
        pub msr: Option<Rate> = None, "aqmlab's choice: no shaping";
        /// Number of bytes that may leave at the peak rate after an idle time (Maximum Traffic Burst).
        pub traffic_burst: Size = Size::from_bytes(3044), "DOCSIS 3.1";
        /// Maximum rate at which packets leave (`PEAK_RATE`). Default: the link rate.
        pub peak: Option<Rate> = None, "aqmlab's choice: no shaping";
        /// Maximum backlog (`BUFFER_SIZE`), excluding the packet in transmission. Default: the bytes sent in 100 ms at
        /// the rate `peak`.
        pub limit: Option<Size> = None, "DOCSIS 3.1: Default Upstream Target Buffer";
        /// State of the update timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts at the beginning of the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

/// Time between updates (`INTERVAL`).
const INTERVAL: Span = Span::from_millis(16);
/// Gain in Hz: change of the probability at an update, per second of difference between the delay and the target (`A`).
const A: f64 = 0.25;
/// Gain in Hz: change of the probability at an update, per second by which the delay has grown since the previous
/// update (`B`).
const B: f64 = 2.5;
/// Time that PIE spends in the quiescent state before it becomes inactive.
const BURST_RESET_TIMEOUT: Span = Span::from_millis(1000);
/// The burst allowance.
const MAX_BURST: Span = Span::from_millis(142);
/// Size, in bytes, of a packet whose drop probability is not scaled.
const MEAN_PKTSIZE: f64 = 1024.0;
/// Size of the smallest packet, in bytes.
const MIN_PKTSIZE: f64 = 64.0;
/// The limits, in seconds, below which a delay is low and above which a delay is high.
const LATENCY_LOW: f64 = 0.005;
const LATENCY_HIGH: f64 = 0.2;
/// Accumulated probability below which no packet is dropped; also the maximum probability of a packet.
const PROB_LOW: f64 = ACCUMULATED.0;
/// Accumulated probability at or above which a packet is certainly dropped.
const PROB_HIGH: f64 = ACCUMULATED.1;

/// The limits of the service flow, as configured or by default.
struct Flow {
    msr: Rate,
    peak: Rate,
    limit: u64,
}

impl Config {
    /// Returns the limits of the service flow on a link with the rate `link`.
    ///
    /// # Errors
    /// Returns an error if a rate exceeds its maximum, or if another parameter is invalid.
    fn flow(&self, link: Rate) -> Result<Flow, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let peak = self.peak.unwrap_or(link);
        let msr = self.msr.unwrap_or(peak);
        errors.check(peak <= link, "peak", format_args!("must be at most the link rate ({link})"));
        errors.check(msr <= peak, "msr", format_args!("must be at most the peak rate ({peak})"));
        let limit = self.limit.map_or(peak.bps() / 80, Size::bytes);
        let remedy = if self.limit.is_some() { "" } else { "; the default depends on peak, so set limit" };
        errors.check(limit > 0, "limit", format_args!("must be at least 1B{remedy}"));
        errors.check(self.traffic_burst.bytes() > 0, "traffic_burst", "must be at least 1B");
        let condition = format_args!("unless msr is below the peak rate ({peak})");
        errors.check_effect(msr < peak, self, &["traffic_burst"], condition);
        let problem = format_args!("must be at least 1us (got {})", self.target);
        errors.check(self.target >= Span::from_nanos(1000), "target", problem);
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
            ready_at: None,
            fifo: Fifo::new(Length::Bytes(limit)),
        }))
    }
}

impl Describe for Config {
    fn holds_back(&self) -> bool {
        self.msr.is_some() || self.peak.is_some()
    }

    fn outlet(&self, link: Rate) -> Rate {
        self.flow(link).map_or(link, |flow| flow.msr)
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

/// A DOCSIS-PIE queue: the controller, the shaper and the packets.
#[derive(Clone)]
struct DocsisPie {
    rules: Rules,
    start: Start,
    vars: Vars,
    timer: Timer,
    /// The shaper; `None` if the link rate equals the sustained rate.
    shaper: Option<Shaper>,
    /// Time at which the next packet may leave, if the shaper delays this packet.
    ready_at: Option<Instant>,
    fifo: Fifo,
}

/// The parameters of the controller.
#[derive(Clone, Debug)]
struct Rules {
    /// Target delay in seconds.
    target: f64,
    /// Buffer size in bytes.
    limit: u64,
    /// Sustained rate in bytes per second.
    msr: f64,
    /// Peak rate in bytes per second.
    peak: f64,
}

/// The state of the controller.
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

/// The activity state of PIE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AqmState {
    #[default]
    Inactive,
    Quiescent,
    Active,
}

impl Rules {
    /// Returns the queueing delay, in seconds, of the last of `bytes` queued bytes if the bucket contains `tokens`
    /// bytes of tokens.
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

    /// Returns the numbers that led to the drop if an arriving packet of `bytes` bytes is dropped.
    fn select(&self, vars: &mut Vars, bytes: u16, backlog: u64, rng: &mut Rng) -> Option<Evidence> {
        if !vars.burst_allowance.is_zero() {
            return None;
        }
        if vars.drop_prob == 0.0 {
            vars.accu_prob = 0.0;
        }
        if vars.state == AqmState::Inactive {
            if backlog < self.limit / 3 {
                return None;
            }
            vars.state = AqmState::Quiescent;
        }
        let p = (vars.drop_prob * f64::from(bytes) / MEAN_PKTSIZE).min(PROB_LOW);
        vars.accu_prob += p;
        if (vars.qdelay_old < 0.5 * self.target && vars.drop_prob < 0.2)
            || backlog as f64 <= 2.0 * MEAN_PKTSIZE
            || vars.accu_prob < PROB_LOW
        {
            return None;
        }
        let evidence = if vars.accu_prob >= PROB_HIGH {
            Evidence::certain()
        } else {
            let draw = rng.uniform();
            if draw >= p {
                return None;
            }
            Evidence::drawn(p, draw)
        };
        vars.accu_prob = 0.0;
        if vars.state == AqmState::Quiescent {
            (vars.state, vars.burst_allowance) = (AqmState::Active, MAX_BURST);
        }
        Some(evidence)
    }
}

/// Returns the factor by which a change of the probability is multiplied if the probability is `drop_prob`.
fn gain(drop_prob: f64) -> f64 {
    match drop_prob {
        p if p < 0.1 => 1.0 / damping(p),
        p if p < 1.0 => 2.0,
        p if p < 10.0 => 8.0,
        _ => 32.0,
    }
}

/// A shaper with a token bucket and a peak rate.
#[derive(Clone, Debug)]
struct Shaper {
    /// Sustained rate.
    msr: Pace,
    /// Peak rate.
    peak: Pace,
    bytes_per_nano: f64,
    depth: f64,
    /// Time in which an empty token bucket becomes full.
    fill_time: Span,
    /// Time at which the bucket will be full if no packet leaves.
    full_at: Instant,
    /// Time at which the last packet's transmission at the peak rate ends.
    free_at: Instant,
}

impl Shaper {
    fn new(msr: Rate, peak: Rate, depth: Size) -> Self {
        Self {
            msr: msr.pace(),
            peak: peak.pace(),
            bytes_per_nano: msr.bytes_per_second() / 1e9,
            depth: depth.bytes() as f64,
            fill_time: msr.pace().time_for(depth.bytes()),
            full_at: Instant::START,
            free_at: Instant::START,
        }
    }

    /// Returns the tokens in the bucket at `now`, in bytes.
    fn tokens(&self, now: Instant) -> f64 {
        (self.depth - self.full_at.since(now).nanos() as f64 * self.bytes_per_nano).max(0.0)
    }

    /// Returns the earliest time, not before `now`, at which a packet of `bytes` bytes may leave.
    fn ready(&self, bytes: u16, now: Instant) -> Instant {
        let needs = self.msr.time_for(bytes.into()).min(self.fill_time);
        now.max(self.free_at).max((self.full_at + needs).earlier_by(self.fill_time))
    }

    /// Processes the departure of a packet of `bytes` bytes.
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
            // Without a shaper, the two rates are equal, so tokens have no effect.
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
        let backlog = self.fifo.backlog().bytes;
        if !self.fifo.has_room_for(&packet) {
            self.vars.accu_prob = 0.0;
            cx.drop(packet, Reason::Overflow);
        } else if let Some(evidence) = self.rules.select(&mut self.vars, packet.bytes, backlog, cx.rng) {
            cx.drop_on(packet, Reason::Early, evidence);
        } else {
            self.fifo.push(packet);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.catch_up(cx.now);
        if let Some(shaper) = &mut self.shaper {
            self.ready_at = None;
            let bytes = self.fifo.front()?.0.bytes;
            let ready = shaper.ready(bytes, cx.now);
            if ready > cx.now {
                self.ready_at = Some(ready);
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
        self.ready_at
    }
}

impl Report for DocsisPie {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        // The gauge shows the probability of a packet of the mean size, limited to the maximum probability of a packet.
        show(Gauge::number("prob", self.vars.drop_prob.min(PROB_LOW)));
        show(Gauge::number("drop_prob", self.vars.drop_prob));
        show(Gauge::new("delay", self.vars.qdelay_old, "s"));
        show(Gauge::number("state", f64::from(self.vars.state as u8)));
    }
}

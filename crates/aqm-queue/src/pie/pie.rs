//! PIE: a proportional-integral controller that keeps the queueing delay at a target by dropping arrivals at random.
//!
//! R. Pan, P. Natarajan, F. Baker, G. White, "Proportional Integral Controller Enhanced (PIE): A Lightweight Control
//! Scheme to Address the Bufferbloat Problem", RFC 8033, 2017; and Linux 6.1, `net/sched/sch_pie.c`. The control laws,
//! without a buffer, are in `rfc.rs` (RFC 8033 and ns-3) and `linux.rs`. This module contains the parameters and the
//! queue. The profiles differ as follows:
//!
//! | | `linux` | `rfc` | `ns-3` |
//! | --- | --- | --- | --- |
//! | first update of a fresh queue | after 0.5 s | after `tupdate` | after `tupdate` |
//! | delay above 250 ms | increases the probability by 2 % at each update | no effect | no effect |
//! | probability decreases at zero delay | by 1/64 | by 2 % | by 2 % |
//! | delay compared with half the target | of the last departure | at the last update | at the last update |
//! | backlog without drops | less than 2 `mtu` of bytes | at most 2 `mtu` of bytes | at most 2 packets |
//! | burst allowance decreases | by the time between departures | by `tupdate` per update | by `tupdate` per update |
//! | burst allowance is renewed | at an update | at an arrival | after 1.5 s of low delay |
//! | ECN marks | up to `mark_ecnth` | below `mark_ecnth` | below `mark_ecnth` |
//! | maximum of the probability | may exceed 1 | 1 | 1 |
//!
//! `start` has the following effect. The timer of a *settled* queue has been running for a long time, so the time of
//! its first update is random within one `tupdate`. The timer of a *fresh* queue starts at the beginning of the run.
//! All other state of a settled queue, which has been in use for a long time and then empty for some seconds, equals
//! the state of a fresh queue:
//! - `linux`: once the probability and the delays are zero, each update resets all variables. The burst allowance is
//!   reset to `max_burst`, and the estimated departure rate is discarded (`pie_vars_init` in
//!   `pie_calculate_probability`).
//! - `rfc`: the first packet that arrives while the probability and the delays are zero sets the burst allowance to
//!   `max_burst` (RFC 8033, section 4.4). Only the estimated departure rate differs: in a settled queue, it is the link
//!   rate for full packets.
//! - `ns-3`: the burst state has been reset, and the next arrival sets the burst allowance to `max_burst`.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources and
//! aqmlab's choices where the sources are silent.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span,
    choices, parameters,
};
use serde_json::{Value, json};

use super::linux;
use super::rfc::{self, Rfc, Variant};
use super::timer::Timer;
use crate::interval::MIN_INTERVAL;
use crate::start::{Start, first_instant};
use crate::tc::Qdisc;
use crate::{
    Build, Context, Derived, Describe, Evidence, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases,
};

parameters! {
    /// PIE: drops arriving packets at random, with a probability that a controller adjusts to keep the queueing delay
    /// at a target.
    ///
    /// The parameter `profile` selects the implementation of RFC 8033, Linux or ns-3.
    ///
    /// Differences from Linux and RFC 8033:
    ///
    /// - An update that is due at the same time as an arrival or a departure is executed first.
    /// - With `profile = "linux"`, a `limit` in bytes is allowed, which `tc` cannot express. `max_burst`, `mark_ecnth`
    ///   and `dq_threshold` are constants in the kernel. The unit of `alpha` and `beta` is Hz, whereas `tc` counts in
    ///   units of 1/16 Hz.
    /// - With `profile = "rfc"`, the delay is zero if the queue is empty after a departure, as in Linux and ns-3. PIE
    ///   does not become inactive while the backlog is at or above the activation threshold. With the RFC's pseudocode,
    ///   PIE would become inactive at once, before a departure rate is known. Updates occur at multiples of `tupdate`,
    ///   even after PIE has become active at another time.
    /// - The pseudocode in the RFC's appendix reduces the probability when the delays at two successive updates are
    ///   below half the target. In aqmlab, as in section 4.2 of the RFC, the delays at two successive updates must be
    ///   zero. The burst allowance is granted according to section 4.4, regardless of which options are on.
    /// - `cap_adjustment` is on by default; the RFC calls it optional.
    pub struct Config {
        /// Implementation of PIE, which determines the defaults of other parameters.
        pub profile: Profile = Profile::Linux, "aqmlab's choice: the kernel used in the recorded runs";
        /// Maximum backlog, excluding the packet in transmission.
        pub limit: Length = Length::Packets(1000), "tc-pie";
        /// The control law.
        #[serde(flatten)]
        pub pie: Settings = Settings::default();
        /// Probability above which packets are dropped despite `ecn`.
        pub mark_ecnth: f64 = 0.1, "RFC 8033, Linux";
        /// Whether drops are spaced: no packet is dropped before the sum of the probabilities since the last drop is
        /// 0.85, and a packet is certainly dropped when this sum is 8.5. Default: true in the profile `linux`.
        pub derandomise: Option<bool> = None, "Linux; RFC 8033: optional";
        /// Whether the probability, once it is at least 10 %, increases by at most 2 % at an update. Default: true.
        /// Linux always has this limit.
        pub cap_adjustment: Option<bool> = None, "Linux, ns-3; RFC 8033: optional";
        /// Fraction of `limit` that must be occupied before PIE becomes active. PIE becomes inactive again when the
        /// drop probability and the delay are zero. Default: PIE is always active, as in Linux.
        pub active_threshold: Option<f64> = None, "RFC 8033: 1/3, optional";
        /// Timer frequency of the kernel in ticks per second (`CONFIG_HZ`). `tupdate` is rounded up to whole ticks, and
        /// the timer wheel adds one tick. An interval of 15 ms therefore becomes 16 ms if `hz` is 1000, 20 ms if `hz`
        /// is 250, and 30 ms if `hz` is 100. If `hz` is 0, `tupdate` is exact. Default: 1000 in the profile `linux`.
        pub hz: Option<u32> = None, "Linux; aqmlab's choice: the value used in the recorded runs";
        /// State of the update timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts at the beginning of the run; in the profile `linux`, the first update then occurs
        /// after half a second.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

parameters! {
    /// Parameters of PIE's control law.
    pub struct Settings {
        /// Target queueing delay (`QDELAY_REF`).
        pub target: Span = Span::from_millis(15), "RFC 8033, tc-pie, tc-fq_pie";
        /// Time between updates of the probability (`T_UPDATE`).
        pub tupdate: Span = Span::from_millis(15), "RFC 8033, tc-pie, tc-fq_pie";
        /// Gain in Hz: change of the probability at an update, per second by which the delay deviates from the target.
        /// The unit of `tc` is 1/16 Hz, so the value 2 of `tc` corresponds to 0.125.
        pub alpha: f64 = 0.125, "RFC 8033, tc-pie, tc-fq_pie";
        /// Gain in Hz: change of the probability at an update, per second by which the delay has grown since the
        /// previous update. The unit of `tc` is 1/16 Hz, so the value 20 of `tc` corresponds to 1.25.
        pub beta: f64 = 1.25, "RFC 8033, tc-pie, tc-fq_pie";
        /// Length of an initial burst from which no packet is dropped.
        pub max_burst: Span = Span::from_millis(150), "RFC 8033, Linux";
        /// Whether ECN-capable packets are marked instead of dropped, unless the probability is high (`mark_ecnth`; in
        /// `fq-pie` `ecn_prob`).
        pub ecn: bool = false, "tc-pie, tc-fq_pie";
        /// Whether the probability is multiplied by the ratio of the packet size to `mtu` for packets smaller than
        /// `mtu`.
        pub bytemode: bool = false, "tc-pie, tc-fq_pie";
        /// Size of a full packet with all headers (`MEAN_PKTSIZE`). No packet is dropped while the queue contains fewer
        /// bytes than two full packets (with RFC 8033: at most as many bytes as two full packets). `bytemode` compares
        /// packet sizes with `mtu`.
        pub mtu: Size = Size::from_bytes(1514), "Linux on Ethernet";
        /// Whether the delay is estimated as the backlog divided by the departure rate. Otherwise the delay is the
        /// sojourn time of the packet that left last.
        pub dq_rate_estimator: bool = false, "tc-pie, tc-fq_pie";
        /// Minimum backlog, and number of departing bytes, for a measurement of the departure rate.
        pub dq_threshold: Size = Size::from_bytes(16_384), "RFC 8033, Linux";
    }
}

choices! {
    /// Implementation of PIE.
    pub enum Profile {
        /// Linux 6.1, with the kernel's integer arithmetic.
        Linux = "linux",
        /// RFC 8033.
        Rfc = "rfc",
        /// ns-3.37, which differs from RFC 8033 in the rules for bursts and short queues.
        Ns3 = "ns-3",
    }
}

/// A PIE controller without a buffer. `catch_up` must be called before every arrival and departure.
pub(super) trait Controller: Clone + Send + Sync {
    /// Executes all updates that are due up to `now`. `backlog` must not have changed since the last call.
    fn catch_up(&mut self, backlog: Backlog, now: Instant);

    /// Draws the phase of the timer at random, because the timer has been running for a long time.
    fn draw_phase(&mut self, chance: &mut Rng);

    /// Selects packets to be dropped or marked. Returns the numbers that led to the selection if an arriving packet of
    /// `bytes` bytes is selected.
    fn select(&mut self, bytes: u16, backlog: Backlog, rng: &mut Rng) -> Option<Evidence>;

    /// Returns whether a selected packet may be marked.
    fn may_mark(&self) -> bool;

    /// Updates the state after an arriving packet was dropped.
    fn after_drop(&mut self);

    /// Updates the state after a packet was enqueued. `backlog` includes this packet.
    fn after_arrival(&mut self, _backlog: Backlog, _now: Instant) {}

    /// Updates the state after a departure.
    fn after_departure(&mut self, departure: &Departure);

    /// Returns the values for the gauges.
    fn state(&self) -> State;

    /// Returns the statistics that `tc` prints, except those of the queue.
    fn tc_statistics(&self) -> Option<Value> {
        None
    }
}

/// The departure of a packet.
pub(crate) struct Departure {
    /// Size of the packet.
    pub(crate) bytes: u16,
    /// Time at which the packet arrived.
    pub(crate) arrival: Instant,
    /// Backlog after the departure.
    pub(crate) backlog: Backlog,
    /// Time of the departure.
    pub(crate) now: Instant,
}

/// Values of a controller for the gauges.
pub(super) struct State {
    pub(super) prob: f64,
    /// Queueing delay in seconds.
    pub(super) delay: f64,
    /// Burst allowance in seconds.
    pub(super) burst: f64,
}

impl Settings {
    /// Adds the arguments of `tc`.
    pub(crate) fn add_tc(&self, qdisc: Qdisc) -> Qdisc {
        let gain = |gain: f64| linux_gain(gain).unwrap_or_default();
        qdisc
            .time("target", self.target)
            .time("tupdate", self.tupdate)
            .with("alpha", gain(self.alpha))
            .with("beta", gain(self.beta))
            .either(self.ecn, "ecn", "noecn")
            .either(self.bytemode, "bytemode", "nobytemode")
            .either(self.dq_rate_estimator, "dq_rate_estimator", "no_dq_rate_estimator")
            .fixed("max_burst", self.max_burst, Span::from_millis(150))
            .fixed("mtu", self.mtu, Size::from_bytes(1514))
            .fixed("dq_threshold", self.dq_threshold, Size::from_bytes(16_384))
    }
}

impl Config {
    /// Returns the time of the first update and the time between updates.
    pub(crate) fn updates(&self) -> (Instant, Span) {
        match (self.profile, self.hz.unwrap_or(linux::HZ)) {
            (Profile::Linux, 0) => (Instant::START + linux::FIRST_UPDATE, self.pie.tupdate),
            (Profile::Linux, hz) => linux::updates(self.pie.tupdate, hz),
            _ => (Instant::START + self.pie.tupdate, self.pie.tupdate),
        }
    }

    /// Checks all parameters.
    ///
    /// # Errors
    /// Returns an error for every invalid parameter.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Settings { target, tupdate, alpha, beta, .. } = self.pie;
        let mark_ecnth = self.mark_ecnth;
        errors.check(
            self.limit.count() > 0,
            "limit",
            format_args!("must be at least 1p or 1B (got {})", self.limit),
        );
        let problem = format_args!("must be at least 1us (got {target})");
        errors.check(target >= Span::from_nanos(1000), "target", problem);
        let problem = format_args!("must be at least {MIN_INTERVAL} (got {tupdate})");
        errors.check(tupdate >= MIN_INTERVAL, "tupdate", problem);
        for (name, gain) in [("alpha", alpha), ("beta", beta)] {
            let is_gain = gain > 0.0 && gain.is_finite();
            errors.check(is_gain, name, format_args!("must be above 0 (got {gain})"));
            let is_valid = !self.is_linux() || !is_gain || linux_gain(gain).is_some();
            let problem = format_args!(
                "must be a multiple of 0.0625 up to 2, because Linux counts in sixteenths (got {gain})"
            );
            errors.check(is_valid, name, problem);
        }
        let is_share = (0.0..=1.0).contains(&mark_ecnth);
        errors.check(is_share, "mark_ecnth", format_args!("must be from 0 to 1 (got {mark_ecnth})"));
        let in_packets = self.profile == Profile::Ns3 && !self.pie.bytemode;
        errors.check_effect(!in_packets, self, &["mtu"], "in the profile `ns-3` without bytemode");
        errors.check_effect(self.pie.ecn, self, &["mark_ecnth"], "without ecn");
        errors.check_effect(self.pie.dq_rate_estimator, self, &["dq_threshold"], "without dq_rate_estimator");
        let in_32_bits = 1..=u64::from(u32::MAX);
        for (name, size) in [("mtu", self.pie.mtu), ("dq_threshold", self.pie.dq_threshold)] {
            let problem = format_args!("must be from 1B to 4294967295B (got {size})");
            errors.check(in_32_bits.contains(&size.bytes()), name, problem);
        }
        if let Some(share) = self.active_threshold {
            let is_share = share > 0.0 && share <= 1.0;
            let problem = format_args!("must be above 0 and at most 1 (got {share})");
            errors.check(is_share, "active_threshold", problem);
        }
        if self.is_linux() {
            let remedy = "it is always on in Linux; omit it, or choose another profile";
            let is_off = |option: Option<bool>| option == Some(false);
            errors.check(
                !is_off(self.derandomise),
                "derandomise",
                format_args!("must be true, because {remedy}"),
            );
            errors.check(
                !is_off(self.cap_adjustment),
                "cap_adjustment",
                format_args!("must be true, because {remedy}"),
            );
            let problem = "does not exist in Linux; omit it, or choose another profile";
            errors.check(self.active_threshold.is_none(), "active_threshold", problem);
            let problem = format_args!("must be at most {}", linux::MAX_HZ);
            errors.check(self.hz.is_none_or(|hz| hz <= linux::MAX_HZ), "hz", problem);
        } else {
            let problem = "applies only to Linux; omit it, or choose the profile `linux`";
            errors.check(self.hz.is_none(), "hz", problem);
        }
        errors.finish(())
    }

    fn is_linux(&self) -> bool {
        self.profile == Profile::Linux
    }

    fn estimator(&self) -> Option<u64> {
        self.pie.dq_rate_estimator.then(|| self.pie.dq_threshold.bytes())
    }

    /// Returns the parameters in the kernel's form. The parameters must have been checked.
    pub(crate) fn linux_rules(&self) -> linux::Rules {
        linux::Rules::new(&linux::TcParams {
            target: self.pie.target,
            alpha: linux_gain(self.pie.alpha).unwrap_or(0),
            beta: linux_gain(self.pie.beta).unwrap_or(0),
            max_burst: self.pie.max_burst,
            mtu: self.pie.mtu.bytes(),
            bytemode: self.pie.bytemode,
            estimator: self.estimator(),
        })
    }

    fn linux(&self) -> Linux {
        let rules = self.linux_rules();
        let (first, tupdate) = self.updates();
        Linux {
            vars: rules.vars(),
            rules,
            mark_up_to: linux::probability(self.mark_ecnth),
            tupdate,
            timer: Timer::new(first),
        }
    }

    pub(super) fn rfc(&self, variant: Variant, link: Rate) -> Rfc {
        let packets = self.pie.dq_threshold.bytes().div_ceil(self.pie.mtu.bytes());
        let measured = link.pace().time_for(packets.saturating_mul(self.pie.mtu.bytes()));
        let has_estimate = self.start.is_settled() && self.pie.dq_rate_estimator;
        Rfc::new(
            has_estimate.then_some(measured),
            rfc::Rules {
                variant,
                target: self.pie.target,
                tupdate: self.pie.tupdate,
                alpha: self.pie.alpha,
                beta: self.pie.beta,
                max_burst: self.pie.max_burst,
                mark_below: self.mark_ecnth,
                mtu: self.pie.mtu.bytes(),
                bytemode: self.pie.bytemode,
                derandomise: self.derandomise.unwrap_or(false),
                cap_adjustment: self.cap_adjustment.unwrap_or(true),
                estimator: self.estimator(),
                limit: self.limit,
                active_threshold: self.active_threshold.map(|share| share * self.limit.count() as f64),
            },
        )
    }

    fn with<C: Controller + 'static>(&self, controller: C) -> Box<dyn QueueDiscipline> {
        let fifo = Fifo::new(self.limit);
        Box::new(Pie {
            controller,
            ecn: self.pie.ecn,
            start: self.start,
            fifo,
            statistics: Statistics::default(),
        })
    }
}

/// Returns a gain in sixteenths of a Hz, or `None` if `tc` cannot represent the gain.
pub(crate) fn linux_gain(gain: f64) -> Option<u32> {
    let sixteenths = gain * 16.0;
    ((1.0..=32.0).contains(&sixteenths) && sixteenths == libm::trunc(sixteenths)).then_some(sixteenths as u32)
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.check()?;
        Ok(match self.profile {
            Profile::Linux => self.with(self.linux()),
            Profile::Rfc => self.with(self.rfc(Variant::Rfc, rate)),
            Profile::Ns3 => self.with(self.rfc(Variant::Ns3, rate)),
        })
    }
}

impl Describe for Config {
    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let mut derived = Vec::new();
        for (name, configured, default) in [
            ("derandomise", self.derandomise, self.is_linux()),
            ("cap_adjustment", self.cap_adjustment, true),
        ] {
            if configured.is_none() {
                derived.push(Derived::new(name, f64::from(u8::from(default)), ""));
            }
        }
        let (_, tupdate) = self.updates();
        if tupdate != self.pie.tupdate {
            derived.push(Derived::new("tupdate", tupdate.seconds(), "s"));
        }
        derived
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        for (name, gain) in [("alpha", self.pie.alpha), ("beta", self.pie.beta)] {
            if gain == libm::trunc(gain) {
                let problem = format!(
                    "is in Hz (got {gain}); the value {gain} of tc corresponds to {} Hz",
                    gain / 16.0
                );
                warnings.push(ConfigError::at(name, problem));
            }
        }
        let bytes = match self.limit {
            Length::Packets(packets) => packets.saturating_mul(self.pie.mtu.bytes()),
            Length::Bytes(bytes) => bytes,
        };
        let drain_time = Span::from_seconds(bytes as f64 / rate.bytes_per_second());
        if drain_time < self.pie.target {
            let problem =
                format!("drains in {drain_time}, so the queue is full before the delay reaches the target");
            warnings.push(ConfigError::at("limit", problem));
        }
        warnings
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        if !self.is_linux() || self.limit.in_bytes() {
            return None;
        }
        let mut options = json!({
            "kind": "pie",
            "limit": self.limit.count(),
            "target": linux::tc_target(self.pie.target).nanos() / 1000,
            "tupdate": linux::tc_tupdate(self.pie.tupdate, self.hz.unwrap_or(linux::HZ)).nanos() / 1000,
            "alpha": linux_gain(self.pie.alpha),
            "beta": linux_gain(self.pie.beta),
        });
        let flags = [
            ("ecn", self.pie.ecn),
            ("bytemode", self.pie.bytemode),
            ("dq_rate_estimator", self.pie.dq_rate_estimator),
        ];
        for (name, _) in flags.into_iter().filter(|(_, is_on)| *is_on) {
            options[name] = json!(true);
        }
        Some(options)
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let in_packets = !self.limit.in_bytes();
        let of_kernel = "cannot be expressed by tc: the kernel has its own variant of PIE, so set \"linux\"";
        let limited = Qdisc::new("pie").count("limit", self.limit.count());
        let pie = self.pie.add_tc(limited).fixed("mark_ecnth", self.mark_ecnth, 0.1);
        pie.rejected_unless(
            in_packets,
            "limit",
            "cannot be expressed by tc: must be in packets, for example 1000p",
        )
        .rejected_unless(self.is_linux(), "profile", of_kernel)
        .limit_if(self.active_threshold.is_some(), "active_threshold", || {
            "PIE is always active in the kernel".into()
        })
        .finish()
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let variants = [
            json!({"limit": "24p"}),
            json!({"limit": "5001B", "mtu": "500B", "bytemode": true}),
            json!({"ecn": true, "mark_ecnth": 1.0}),
            json!({"dq_rate_estimator": true, "dq_threshold": "3kB", "hz": 1000}),
            json!({"profile": "rfc", "ecn": true, "mark_ecnth": 0.5, "derandomise": true}),
            json!({"profile": "rfc", "limit": "24p", "active_threshold": 0.3, "cap_adjustment": false}),
            json!({"profile": "rfc", "limit": "9kB", "dq_rate_estimator": true, "dq_threshold": "3kB",
                   "active_threshold": 0.3, "bytemode": true}),
            json!({"profile": "ns-3", "limit": "50p", "ecn": true, "max_burst": "0ms"}),
        ];
        let quick = |variant: Value| {
            let mut pie =
                json!({"alpha": 1.5, "beta": 2.0, "target": "3ms", "tupdate": "2ms", "max_burst": "20ms"});
            for (name, value) in variant.as_object().into_iter().flatten() {
                pie[name] = value.clone();
            }
            pie
        };
        variants.map(quick).into()
    }
}

/// A PIE queue: the controller and the packets.
#[derive(Clone)]
struct Pie<C> {
    controller: C,
    ecn: bool,
    start: Start,
    /// The queued packets, each with its arrival time.
    fifo: Fifo<Instant>,
    statistics: Statistics,
}

/// The counters that `tc` prints (`struct pie_stats`).
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    packets_in: u64,
    dropped: u64,
    overlimit: u64,
    ecn_mark: u64,
    /// Maximum number of packets that were queued when a packet was admitted, not counting this packet.
    maxq: u64,
}

impl<C: Controller> QueueDiscipline for Pie<C> {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let backlog = self.fifo.backlog();
        self.controller.catch_up(backlog, cx.now);
        let fate = if !self.fifo.has_room_for(&packet) {
            self.statistics.overlimit += 1;
            Some((Reason::Overflow, Evidence::default()))
        } else {
            match self.controller.select(packet.bytes, backlog, cx.rng) {
                None => None,
                Some(_) if self.ecn && packet.ecn.can_be_marked() && self.controller.may_mark() => {
                    self.statistics.ecn_mark += 1;
                    cx.mark(&mut packet, Reason::Early);
                    None
                }
                Some(evidence) => Some((Reason::Early, evidence)),
            }
        };
        if let Some((reason, evidence)) = fate {
            self.statistics.dropped += 1;
            self.controller.after_drop();
            cx.drop_on(packet, reason, evidence);
        } else {
            self.statistics.packets_in += 1;
            self.statistics.maxq = self.statistics.maxq.max(backlog.packets);
            self.fifo.push_with(packet, cx.now);
        }
        self.controller.after_arrival(self.fifo.backlog(), cx.now);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        let (packet, arrival) = self.fifo.pop_with()?;
        let backlog = self.fifo.backlog();
        self.controller.after_departure(&Departure { bytes: packet.bytes, arrival, backlog, now: cx.now });
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.controller.draw_phase(chance);
        }
    }
}

impl<C: Controller> Report for Pie<C> {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let State { prob, delay, burst } = self.controller.state();
        show(Gauge::number("prob", prob));
        show(Gauge::new("delay", delay, "s"));
        show(Gauge::new("burst_time", burst, "s"));
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        let mut controller = self.controller.clone();
        controller.catch_up(self.fifo.backlog(), now);
        let Some(mut statistics) = controller.tc_statistics() else { return Value::Null };
        let Statistics { packets_in, dropped, overlimit, ecn_mark, maxq } = self.statistics;
        let counts = [
            ("pkts_in", packets_in),
            ("overlimit", overlimit),
            ("dropped", dropped),
            ("maxq", maxq),
            ("ecn_mark", ecn_mark),
        ];
        for (name, count) in counts {
            statistics[name] = count.into();
        }
        statistics
    }
}

/// The controller of Linux with its timer.
#[derive(Clone, Debug)]
struct Linux {
    rules: linux::Rules,
    vars: linux::Vars,
    mark_up_to: u64,
    tupdate: Span,
    timer: Timer,
}

impl Controller for Linux {
    #[inline]
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        let Self { rules, vars, timer, .. } = self;
        timer.catch_up(now, self.tupdate, vars, |vars, _| rules.update(vars, backlog.bytes));
    }

    fn draw_phase(&mut self, chance: &mut Rng) {
        self.timer = Timer::new(first_instant(self.tupdate, chance));
    }

    fn select(&mut self, bytes: u16, backlog: Backlog, rng: &mut Rng) -> Option<Evidence> {
        self.rules.select(&mut self.vars, bytes, backlog.bytes, rng)
    }

    fn may_mark(&self) -> bool {
        self.vars.prob <= self.mark_up_to
    }

    fn after_drop(&mut self) {
        self.vars.accu_prob = 0;
    }

    fn after_departure(&mut self, departure: &Departure) {
        self.rules.after_departure(&mut self.vars, departure);
    }

    fn state(&self) -> State {
        let linux::Vars { prob, qdelay, burst_time, .. } = self.vars;
        let prob = (prob as f64 / linux::MAX_PROB as f64).min(1.0);
        State { prob, delay: linux::seconds(qdelay), burst: linux::seconds(burst_time) }
    }

    fn tc_statistics(&self) -> Option<Value> {
        let prob = (self.vars.prob << 8) as f64 / u64::MAX as f64;
        let mut statistics = json!({"prob": prob, "delay": self.vars.delay_micros()});
        if self.rules.estimates() {
            statistics["avg_dq_rate"] = json!(self.vars.departure_rate());
        }
        Some(statistics)
    }
}

//! PIE: a proportional-integral controller holds the time that packets wait, and drops arrivals by chance.
//!
//! R. Pan, P. Natarajan, F. Baker, G. White, "Proportional Integral Controller Enhanced (PIE): A Lightweight Control
//! Scheme to Address the Bufferbloat Problem", RFC 8033, 2017; and Linux 6.1, `net/sched/sch_pie.c`. What they
//! compute is in `rfc.rs`, and ns-3's way beside it, and in `linux.rs`, each without a buffer; here are the parameters
//! and the queue. What differs between them, by `profile`:
//!
//! | | `linux` | `rfc` | `ns-3` |
//! | --- | --- | --- | --- |
//! | first update of a fresh queue | after 0.5 s | after `tupdate` | after `tupdate` |
//! | delay above 250 ms | 2 % more at each update | | |
//! | decay | by 1/64 | by 2 % | by 2 % |
//! | a low delay is that | of the last departure | at the last update | at the last update |
//! | a couple of packets | less than 2 `mtu` of bytes | at most 2 `mtu` of bytes | at most 2 packets |
//! | burst allowance shrinks | by the time between departures | by `tupdate` at an update | likewise |
//! | burst allowance returns | at an update | at an arrival | 1.5 s of quiet later |
//! | ECN marks | up to `mark_ecnth` | below it | below it |
//! | probability | goes on beyond 1 | ends at 1 | ends at 1 |
//!
//! What `start` sets: the timer of a *settled* queue has been running, so its first instant is drawn from one `tupdate`;
//! that of a *fresh* one starts with the run. All else is alike after long service and some seconds without packets:
//! - `linux`: once probability and delays are zero, each update sets all variables anew, the burst allowance to
//!   `max_burst` and the estimated rate of departures to none (`pie_vars_init` in `pie_calculate_probability`).
//! - `rfc`: the first arrival that finds them zero sets the burst allowance to `max_burst` (RFC 8033, section 4.4). The
//!   estimated rate of departures is kept: a settled queue knows that of the line, for full packets.
//! - `ns-3`: the state of bursts has fallen back, and the next arrival is granted `max_burst`.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span,
    choices, parameters,
};
use serde_json::{Value, json};

use super::linux;
use super::rfc::{self, Dialect, Rfc};
use super::timer::Timer;
use crate::start::{Start, first_instant};
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// PIE: drops arrivals by chance, with a probability that a controller moves until packets wait for the target.
    ///
    /// RFC 8033, and as Linux has it.
    ///
    /// Differences from Linux and RFC 8033:
    ///
    /// - An instant of the timer that meets an arrival or a departure comes first.
    /// - With `profile = "linux"` a `limit` in bytes is allowed, which `tc` cannot express. `max_burst`, `mark_ecnth`
    ///   and `dq_threshold` are constants in the kernel, and `alpha` and `beta` are in Hz, those of `tc` in sixteenths
    ///   of it.
    /// - With `profile = "rfc"` the delay is zero once a packet leaves nothing behind, as in Linux and in ns-3. PIE
    ///   does not rest while as much waits as wakes it: the pseudocode would put it to rest at once, before it can know
    ///   a departure rate. Updates are at multiples of `tupdate`, also after PIE has been woken.
    /// - The pseudocode of the appendix decays the probability when both delays are below half the target. Section 4.2
    ///   of the RFC says zero, and so it is here. The burst allowance is granted by section 4.4 with every option.
    /// - `cap_adjustment` is on as it comes; the RFC calls it optional.
    pub struct Config {
        /// Whose PIE this is; it sets what is left out.
        pub profile: Profile = Profile::Linux, "ours: the kernel of the recorded runs";
        /// The most that may wait; the packet on the line is not counted.
        pub limit: Length = Length::Packets(1000), "tc-pie";
        /// The time to wait that is held (`QDELAY_REF`).
        pub target: Span = Span::from_millis(15), "RFC 8033, tc-pie";
        /// Time from update to update of the probability (`T_UPDATE`).
        pub tupdate: Span = Span::from_millis(15), "RFC 8033, tc-pie";
        /// What a second of delay off the target adds to the probability at an update. `tc` counts in sixteenths: its
        /// 2 is 0.125.
        pub alpha: f64 = 0.125, "RFC 8033, tc-pie";
        /// What a second of delay more than at the update before adds. `tc` counts in sixteenths: its 20 is 1.25.
        pub beta: f64 = 1.25, "RFC 8033, tc-pie";
        /// How long a burst may last of which nothing is dropped.
        pub max_burst: Span = Span::from_millis(150), "RFC 8033, Linux";
        /// Whether ECN-capable packets are marked instead of dropped, up to a probability of `mark_ecnth`.
        pub ecn: bool = false, "tc-pie";
        /// The probability beyond which packets are dropped in spite of `ecn`.
        pub mark_ecnth: f64 = 0.1, "RFC 8033, Linux";
        /// Whether a packet below the size of `mtu` has a probability that is less in proportion.
        pub bytemode: bool = false, "tc-pie";
        /// A packet's size with all headers: of those of which a couple must wait before any is dropped
        /// (`MEAN_PKTSIZE`), and of those that `bytemode` compares with.
        pub mtu: Size = Size::from_bytes(1514), "Linux on Ethernet";
        /// Whether the delay is what waits over the rate of departures. Otherwise it is how long the packet waited that
        /// left last.
        pub dq_rate_estimator: bool = false, "tc-pie";
        /// Bytes that must wait, and then leave, to measure the rate of departures.
        pub dq_threshold: Size = Size::from_bytes(16_384), "RFC 8033, Linux";
        /// Whether no packet is dropped before the probabilities since the last drop add up to 0.85, and one is for
        /// sure at 8.5. Left out: in Linux.
        pub derandomise: Option<bool> = None, "Linux; RFC 8033: optional";
        /// Whether the probability, from 10 % on, rises by at most 2 % at an update. Left out: yes. Linux always does.
        pub cap_adjustment: Option<bool> = None, "Linux, ns-3; RFC 8033: optional";
        /// The share of `limit` that must wait before PIE acts; it rests again once it has nothing to do. Left out: it
        /// always acts, as in Linux.
        pub active_threshold: Option<f64> = None, "RFC 8033: 1/3, optional";
        /// The ticks per second of the kernel (`CONFIG_HZ`): `tupdate` is rounded up to whole ticks, and its timer wheel
        /// adds one, so that 15 ms are 16 ms with 1000, 20 ms with 250 and 30 ms with 100; 0 for an exact `tupdate`.
        /// Left out: 1000 in Linux.
        pub hz: Option<u32> = None, "Linux; ours: that of the recorded runs";
        /// Whether the timer has been running for long as a run begins (`settled`), or starts with the run: in Linux its
        /// first update then comes after half a second.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Whose rules hold.
    pub enum Profile {
        /// Linux 6.1, in its integers.
        Linux = "linux",
        /// RFC 8033.
        Rfc = "rfc",
        /// ns-3 3.37: RFC 8033 but for bursts and a couple of packets.
        Ns3 = "ns-3",
    }
}

/// The shortest interval: whoever returns after a long time must catch up with every one.
const SHORTEST: Span = Span::from_nanos(10_000);

/// What a controller without a buffer is asked and told. An arrival or a departure comes after `catch_up`.
pub(super) trait Controller: Clone + Send + Sync {
    /// Makes the updates up to `now`, to which what waits has stood unchanged.
    fn catch_up(&mut self, waiting: Backlog, now: Instant);

    /// The timer has been running for long: it takes a phase that `chance` draws.
    fn draw_phase(&mut self, chance: &mut Rng);

    /// Whether chance picks the packet of so many `bytes` that arrives.
    fn picks(&mut self, bytes: u16, waiting: Backlog, rng: &mut Rng) -> bool;

    /// Whether a packet that was picked may be marked.
    fn may_mark(&self) -> bool;

    /// A packet that arrived was dropped.
    fn after_drop(&mut self);

    /// A packet arrived; this waits now.
    fn after_arrival(&mut self, _waiting: Backlog, _now: Instant) {}

    /// A packet left.
    fn after_departure(&mut self, departed: &Departed);

    /// What is worth plotting.
    fn state(&self) -> State;

    /// The statistics of `tc`, but for those of the queue.
    fn tc_statistics(&self) -> Option<Value> {
        None
    }
}

/// A packet that left.
pub(crate) struct Departed {
    /// Its size.
    pub(crate) bytes: u16,
    /// When it came.
    pub(crate) joined: Instant,
    /// What waits behind it.
    pub(crate) left: Backlog,
    /// When it left.
    pub(crate) now: Instant,
}

/// What is worth plotting of a controller.
pub(super) struct State {
    pub(super) prob: f64,
    /// In seconds.
    pub(super) delay: f64,
    /// Likewise.
    pub(super) burst: f64,
}

impl Config {
    /// When the first update is, and the time from update to update.
    pub(crate) fn updates(&self) -> (Instant, Span) {
        match (self.profile, self.hz.unwrap_or(linux::HZ)) {
            (Profile::Linux, 0) => (Instant::START + linux::FIRST_UPDATE, self.tupdate),
            (Profile::Linux, hz) => linux::updates(self.tupdate, hz),
            _ => (Instant::START + self.tupdate, self.tupdate),
        }
    }

    /// Whether all parameters can be.
    ///
    /// # Errors
    /// Every one that cannot.
    pub(crate) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { target, tupdate, alpha, beta, mark_ecnth, .. } = *self;
        errors.check(self.limit.count() > 0, "limit", "must be at least 1p or 1B");
        errors.check(target >= Span::from_nanos(1000), "target", "must be at least 1us");
        errors.check(tupdate >= SHORTEST, "tupdate", format_args!("must be at least {SHORTEST}"));
        for (place, gain) in [("alpha", alpha), ("beta", beta)] {
            let is_gain = gain > 0.0 && gain.is_finite();
            errors.check(is_gain, place, format_args!("must be above 0, not {gain}"));
            let is_told = !self.is_linux() || !is_gain || linux_gain(gain).is_some();
            let remedy = "in Linux, which counts in sixteenths";
            errors.check(
                is_told,
                place,
                format_args!("must be a multiple of 0.0625 up to 2, not {gain}, {remedy}"),
            );
        }
        let is_share = (0.0..=1.0).contains(&mark_ecnth);
        errors.check(is_share, "mark_ecnth", format_args!("must be from 0 to 1, not {mark_ecnth}"));
        let in_packets = self.profile == Profile::Ns3 && !self.bytemode;
        errors.check_effect(!in_packets, self, &["mtu"], "in the profile `ns-3` without bytemode");
        errors.check_effect(self.ecn, self, &["mark_ecnth"], "without ecn");
        errors.check_effect(self.dq_rate_estimator, self, &["dq_threshold"], "without dq_rate_estimator");
        let in_32_bits = 1..=u64::from(u32::MAX);
        for (place, size) in [("mtu", self.mtu), ("dq_threshold", self.dq_threshold)] {
            errors.check(in_32_bits.contains(&size.bytes()), place, "must be from 1B to 4294967295B");
        }
        if let Some(share) = self.active_threshold {
            let is_share = share > 0.0 && share <= 1.0;
            let problem = format_args!("must be above 0 and at most 1, not {share}");
            errors.check(is_share, "active_threshold", problem);
        }
        if self.is_linux() {
            let remedy = "Linux's PIE always is: leave it out, or choose another profile";
            let is_off = |option: Option<bool>| option == Some(false);
            errors.check(!is_off(self.derandomise), "derandomise", format_args!("must be true: {remedy}"));
            errors.check(
                !is_off(self.cap_adjustment),
                "cap_adjustment",
                format_args!("must be true: {remedy}"),
            );
            let problem = "does not exist in Linux: leave it out, or choose another profile";
            errors.check(self.active_threshold.is_none(), "active_threshold", problem);
            let problem = format_args!("must be at most {}", linux::MOST_HZ);
            errors.check(self.hz.is_none_or(|hz| hz <= linux::MOST_HZ), "hz", problem);
        } else {
            errors.check(self.hz.is_none(), "hz", "is for Linux only: leave it out, or choose that profile");
        }
        errors.finish(())
    }

    fn is_linux(&self) -> bool {
        self.profile == Profile::Linux
    }

    fn estimator(&self) -> Option<u64> {
        self.dq_rate_estimator.then(|| self.dq_threshold.bytes())
    }

    /// What the kernel is told of the parameters, which have been checked.
    pub(crate) fn linux_rules(&self) -> linux::Rules {
        linux::Rules::new(&linux::Told {
            target: self.target,
            alpha: linux_gain(self.alpha).unwrap_or(0),
            beta: linux_gain(self.beta).unwrap_or(0),
            max_burst: self.max_burst,
            mtu: self.mtu.bytes(),
            bytemode: self.bytemode,
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

    pub(super) fn rfc(&self, dialect: Dialect, line: Rate) -> Rfc {
        let packets = self.dq_threshold.bytes().div_ceil(self.mtu.bytes());
        let measured = line.pace().time_for(packets.saturating_mul(self.mtu.bytes()));
        let knows_rate = self.start.is_settled() && self.dq_rate_estimator;
        Rfc::new(
            knows_rate.then_some(measured),
            rfc::Rules {
                dialect,
                target: self.target,
                tupdate: self.tupdate,
                alpha: self.alpha,
                beta: self.beta,
                max_burst: self.max_burst,
                mark_below: self.mark_ecnth,
                mtu: self.mtu.bytes(),
                bytemode: self.bytemode,
                derandomise: self.derandomise.unwrap_or(false),
                cap_adjustment: self.cap_adjustment.unwrap_or(true),
                estimator: self.estimator(),
                limit: self.limit,
                active_from: self.active_threshold.map(|share| share * self.limit.count() as f64),
            },
        )
    }

    fn with<C: Controller + 'static>(&self, controller: C) -> Box<dyn QueueDiscipline> {
        let fifo = Fifo::new(self.limit);
        Box::new(Pie {
            controller,
            ecn: self.ecn,
            start: self.start,
            fifo,
            statistics: Statistics::default(),
        })
    }
}

/// A gain in sixteenths, if `tc` can tell the kernel.
pub(crate) fn linux_gain(gain: f64) -> Option<u32> {
    let sixteenths = gain * 16.0;
    ((1.0..=32.0).contains(&sixteenths) && sixteenths == libm::trunc(sixteenths)).then_some(sixteenths as u32)
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.check()?;
        Ok(match self.profile {
            Profile::Linux => self.with(self.linux()),
            Profile::Rfc => self.with(self.rfc(Dialect::Rfc, rate)),
            Profile::Ns3 => self.with(self.rfc(Dialect::Ns3, rate)),
        })
    }
}

impl Describe for Config {
    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let mut derived = Vec::new();
        for (name, given, default) in [
            ("derandomise", self.derandomise, self.is_linux()),
            ("cap_adjustment", self.cap_adjustment, true),
        ] {
            if given.is_none() {
                derived.push(Derived::new(name, f64::from(u8::from(default)), ""));
            }
        }
        let (_, tupdate) = self.updates();
        if tupdate != self.tupdate {
            derived.push(Derived::new("tupdate", tupdate.seconds(), "s"));
        }
        derived
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        for (place, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            if gain == libm::trunc(gain) {
                let problem = format!("is {gain} for each second of delay; tc's {gain} is {}", gain / 16.0);
                warnings.push(ConfigError::at(place, problem));
            }
        }
        let bytes = match self.limit {
            Length::Packets(packets) => packets.saturating_mul(self.mtu.bytes()),
            Length::Bytes(bytes) => bytes,
        };
        let drains = Span::from_seconds(bytes as f64 / rate.bytes_per_second());
        if drains < self.target {
            let problem = format!("drains in {drains}: the queue is full before packets wait for the target");
            warnings.push(ConfigError::at("limit", problem));
        }
        warnings
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        if !self.is_linux() || self.limit.in_bytes() {
            return None;
        }
        let micros = |span: Span| span.nanos() / 1000;
        let mut options = json!({
            "kind": "pie",
            "limit": self.limit.count(),
            "target": micros(self.target),
            "tupdate": linux::told_tupdate(self.tupdate, self.hz.unwrap_or(linux::HZ)).nanos() / 1000,
            "alpha": linux_gain(self.alpha),
            "beta": linux_gain(self.beta),
        });
        let flags =
            [("ecn", self.ecn), ("bytemode", self.bytemode), ("dq_rate_estimator", self.dq_rate_estimator)];
        for (name, _) in flags.into_iter().filter(|(_, is_on)| *is_on) {
            options[name] = json!(true);
        }
        Some(options)
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

/// The running discipline.
#[derive(Clone)]
struct Pie<C> {
    controller: C,
    ecn: bool,
    start: Start,
    /// Beside each packet, when it came.
    fifo: Fifo<Instant>,
    statistics: Statistics,
}

/// What `tc` counts (`struct pie_stats`).
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    packets_in: u64,
    dropped: u64,
    overlimit: u64,
    ecn_mark: u64,
    /// The most packets that an admitted one has found.
    maxq: u64,
}

impl<C: Controller> QueueDiscipline for Pie<C> {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let waiting = self.fifo.backlog();
        self.controller.catch_up(waiting, cx.now);
        let fate = if !self.fifo.has_room_for(&packet) {
            self.statistics.overlimit += 1;
            Some(Reason::Overflow)
        } else if !self.controller.picks(packet.bytes, waiting, cx.rng) {
            None
        } else if self.ecn && packet.ecn.can_be_marked() && self.controller.may_mark() {
            self.statistics.ecn_mark += 1;
            cx.mark(&mut packet, Reason::Early);
            None
        } else {
            Some(Reason::Early)
        };
        if let Some(why) = fate {
            self.statistics.dropped += 1;
            self.controller.after_drop();
            cx.drop(packet, why);
        } else {
            self.statistics.packets_in += 1;
            self.statistics.maxq = self.statistics.maxq.max(waiting.packets);
            self.fifo.push_with(packet, cx.now);
        }
        self.controller.after_arrival(self.fifo.backlog(), cx.now);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        let (packet, joined) = self.fifo.pop_with()?;
        let left = self.fifo.backlog();
        self.controller.after_departure(&Departed { bytes: packet.bytes, joined, left, now: cx.now });
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

/// Linux's controller with its timer.
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
    fn catch_up(&mut self, waiting: Backlog, now: Instant) {
        let Self { rules, vars, timer, .. } = self;
        timer.catch_up(now, self.tupdate, vars, |vars, _| rules.update(vars, waiting.bytes));
    }

    fn draw_phase(&mut self, chance: &mut Rng) {
        self.timer = Timer::new(first_instant(self.tupdate, chance));
    }

    fn picks(&mut self, bytes: u16, waiting: Backlog, rng: &mut Rng) -> bool {
        self.rules.picks(&mut self.vars, bytes, waiting.bytes, rng)
    }

    fn may_mark(&self) -> bool {
        self.vars.prob <= self.mark_up_to
    }

    fn after_drop(&mut self) {
        self.vars.accu_prob = 0;
    }

    fn after_departure(&mut self, departed: &Departed) {
        self.rules.after_departure(&mut self.vars, departed);
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

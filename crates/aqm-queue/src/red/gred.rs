//! GRED: several RED configurations that share one queue, with one configuration for each virtual queue. GRED includes
//! Linux's implementations of RIO and WRED.
//!
//! The source is J. H. Salim's `sch_gred` in Linux 6.1. All packets share one FIFO. A packet's class selects a virtual
//! queue, in which the packet is counted. The RED of this virtual queue (`linux_core.rs`, with thresholds in bytes)
//! decides whether the packet is dropped:
//! - Without `grio`, RED uses the average of its own virtual queue.
//! - With `grio`, each virtual queue has a priority, of which 1 is the highest. RED adds the averages of all backlogged
//!   virtual queues of higher priority to its own average (RIO: Clark & Fang 1998, `rio.rs`).
//! - With `grio` and two equal priorities, all virtual queues share the average of the whole queue, but each virtual
//!   queue has its own thresholds (WRED). The stored average is scaled by the weight, so the average is meaningless if
//!   the weights of virtual queues differ.
//! - Each virtual queue has its own `limit`, which applies to its backlog, or, in WRED, to the backlog of the whole
//!   queue.
//! - A virtual queue becomes idle when its last packet departs, not when the transmission of this packet ends. The next
//!   arrival in this virtual queue ends the idle time, even if the packet is dropped.
//! - A packet whose class has no virtual queue belongs to the virtual queue `default`. If the virtual queue `default`
//!   does not exist, RED does not apply to the packet, and only the outer `limit` applies.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from Linux.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, Ecn, ErrorCollector, Instant, Length, Packet, Rate, Size, parameters,
};
use serde_json::{Value, json};

use crate::red::linux_core::{Parms, TcRed, Vars};
use crate::red::tc::{self, Clock, IdleTable};
use crate::tc::Qdisc;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// GRED: several configurations of Linux's RED that share one queue, one for each virtual queue.
    ///
    /// The class of a packet selects the virtual queue. Packets must carry their class.
    ///
    /// Differences from Linux:
    ///
    /// - The number of the virtual queue is the class of the packet modulo 16. The kernel reads the number from
    ///   `tc_index`, which a classifier sets, just as an edge sets the class in aqmlab. Neither the kernel nor aqmlab
    ///   reads a DSCP.
    /// - If several `prio` values are missing, the result of `tc` depends on the order of its commands. In aqmlab, the
    ///   `default` queue is configured first, and then the other virtual queues.
    /// - If there is no room for a packet that is selected for marking, the packet is dropped and not marked.
    pub struct Config {
        /// Maximum backlog for packets without a virtual queue. This limit is also the upper bound of the limits of
        /// virtual queues.
        pub limit: Size = Size::from_bytes(1_514_000), "Linux 6.1: 1000 packets of the largest size";
        /// Virtual queue for packets whose class has no virtual queue of its own.
        pub default: u32 = 0, "aqmlab's choice: tc itself has no default";
        /// Whether priorities are used. If all priorities differ, the queue works as RIO, with sums of averages; if two
        /// priorities are equal, the queue works as WRED, with one average.
        pub grio: bool = false, "tc-gred";
        /// Virtual queues by number, from 1 to 16.
        pub vqs: Vec<VirtualQueue> = VirtualQueue::three(), "aqmlab's choice: drop precedences of RFC 2597, each with half the thresholds of the previous one";
    }
}

parameters! {
    /// A virtual queue with its RED parameters.
    pub struct VirtualQueue {
        /// Priority with `grio`, from 1 (highest) to 255. Default: the priority of the `default` queue, or 8 if the
        /// `default` queue has no priority.
        pub prio: Option<u32> = None, "Linux 6.1";
        /// Maximum backlog of the virtual queue, excluding the packet in transmission.
        pub limit: Size = Size::from_bytes(400_000), "as `linux-red`";
        /// Average queue length below which no packet is dropped early.
        pub min: Size = Size::from_bytes(30_000), "as tc-red's example";
        /// Average queue length at or above which every packet is dropped or marked.
        pub max: Size = Size::from_bytes(90_000), "as tc-red's example";
        /// RED's parameters other than the thresholds.
        #[serde(flatten)]
        pub red: TcRed = TcRed::default();
        /// Rate at which the average decays while the virtual queue is idle. Default: the link rate.
        pub bandwidth: Option<Rate> = None, "aqmlab's choice: tc itself uses 10Mbit";
        /// Whether all packets are dropped while the average is at `max` or above, even if `ecn` is true.
        pub harddrop: bool = false, "tc-gred";
    }
}

impl VirtualQueue {
    fn three() -> Vec<Self> {
        let of = |part: u64| Self {
            min: Size::from_bytes(30_000 / part),
            max: Size::from_bytes(90_000 / part),
            ..Self::default()
        };
        vec![of(1), of(2), of(4)]
    }

    /// Returns the parameters of this virtual queue as the kernel stores them.
    fn parms(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let (min, max) = (self.min.bytes(), self.max.bytes());
        let problem = format_args!("must be from 1B to 4294967295B (got {})", self.limit);
        errors.check((1..=u32::MAX.into()).contains(&self.limit.bytes()), "limit", problem);
        self.red.check_packet(&mut errors);
        errors.check(min > 0, "min", "must be at least 1B");
        errors.check(max > min, "max", format_args!("must exceed min ({min}B)"));
        let is_number = self.prio.is_none_or(|prio| (1..=255).contains(&prio));
        errors.check(
            is_number,
            "prio",
            format_args!("must be from 1 to 255 (got {})", self.prio.unwrap_or(0)),
        );
        errors.check_effect(self.red.ecn, self, &["harddrop"], "without ecn");
        errors.finish(())?;
        self.red.options((min, max), 'B').parms()
    }
}

/// Maximum number of virtual queues (`MAX_DPs`).
const MAX_QUEUES: usize = 16;

/// Priority of a virtual queue if neither this virtual queue nor the default queue has a priority (`GRED_DEF_PRIO`).
const DEFAULT_PRIO: u32 = MAX_QUEUES as u32 / 2;

impl Config {
    /// Returns the state of each virtual queue before the first packet.
    fn queues(&self, rate: Rate) -> Result<Vec<VirtualState>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let limit = self.limit.bytes();
        let problem = format_args!("must be from 1B to 4294967295B (got {})", self.limit);
        errors.check((1..=u32::MAX.into()).contains(&limit), "limit", problem);
        let problem = format_args!("must contain 1 to {MAX_QUEUES} tables (got {})", self.vqs.len());
        errors.check((1..=MAX_QUEUES).contains(&self.vqs.len()), "vqs", problem);
        let problem = format_args!("must be from 0 to 15 (got {})", self.default);
        errors.check(self.default < MAX_QUEUES as u32, "default", problem);
        errors.check_effect(self.vqs.len() > 1, self, &["grio"], "with one virtual queue");
        let build = |vq: &VirtualQueue| -> Result<VirtualState, ConfigErrors> {
            let parms = vq.parms()?;
            let bandwidth = vq.bandwidth.unwrap_or(rate);
            let idle = IdleTable::new(parms.weight_log, vq.red.avpkt, bandwidth, Clock::Ticks)?;
            Ok(VirtualState {
                parms,
                vars: Vars::default(),
                idle,
                idle_since: None,
                limit: vq.limit.bytes().min(limit),
                prio: if self.grio { vq.prio.unwrap_or(self.default_prio()) } else { DEFAULT_PRIO },
                ecn: vq.red.ecn,
                harddrop: vq.harddrop,
                bytes: 0,
                counts: Counts::default(),
            })
        };
        let queues = self.vqs.iter().enumerate().filter_map(|(number, vq)| {
            let path = format!("vqs.{number}");
            let mut class_errors = ErrorCollector::default();
            class_errors.check_effect(self.grio, vq, &["prio"], "without grio");
            errors.take(class_errors.finish(()).map_err(|errors| errors.within(&path)));
            errors.take(build(vq).map_err(|errors| errors.within(&path)))
        });
        let queues = queues.collect();
        errors.finish(queues)
    }

    /// Returns the arguments of the command that configures a virtual queue.
    fn virtual_queue_tc(&self, number: usize, rate: Rate) -> Qdisc {
        let vq = &self.vqs[number];
        let numbered = Qdisc::new("gred").with("vq", number).count("limit", vq.limit.bytes());
        let options = vq.red.options((vq.min.bytes(), vq.max.bytes()), 'B');
        let red = options.add_tc(numbered, Some(vq.bandwidth.unwrap_or(rate)));
        let red = red.flag(vq.red.ecn, "ecn").flag(vq.harddrop, "harddrop");
        if self.grio { red.with("prio", vq.prio.unwrap_or(self.default_prio())) } else { red }
    }

    fn default_prio(&self) -> u32 {
        self.vqs.get(self.default as usize).and_then(|vq| vq.prio).unwrap_or(DEFAULT_PRIO)
    }

    fn mode(&self) -> Mode {
        let prio = |vq: &VirtualQueue| vq.prio.unwrap_or(self.default_prio());
        let mut prios: Vec<u32> = self.vqs.iter().map(prio).collect();
        prios.sort_unstable();
        match (self.grio, prios.windows(2).any(|pair| pair[0] == pair[1])) {
            (false, _) => Mode::Own,
            (true, false) => Mode::Rio,
            (true, true) => Mode::Wred,
        }
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let queues = self.queues(rate)?;
        Ok(Box::new(Gred {
            by_class: std::array::from_fn(|class| {
                let number = if class < queues.len() { class } else { self.default as usize };
                if number < queues.len() { number as u8 } else { NONE }
            }),
            mode: self.mode(),
            limit: self.limit.bytes(),
            shared: Vars::default(),
            shared_idle: None,
            queues,
            fifo: Fifo::new(Length::Bytes(u64::MAX)),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, class: u8) -> Option<f64> {
        let number = usize::from(class) % MAX_QUEUES;
        let vq = self.vqs.get(number).or(self.vqs.get(self.default as usize))?;
        Some(vq.parms().ok()?.curve().probability(average))
    }

    fn needs_classes(&self) -> bool {
        self.vqs.len() > 1
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let mut derived = Vec::new();
        for (number, vq) in self.vqs.iter().enumerate() {
            let Ok(parms) = vq.parms() else { return Vec::new() };
            let mut add = |name: &str, value: f64, unit: &'static str| {
                derived.push(Derived::new(&format!("vqs.{number}.{name}"), value, unit));
            };
            add("weight", tc::power_of_half(parms.weight_log), "");
            add("max_p", parms.curve().max_p, "");
            if self.grio && vq.prio.is_none() {
                add("prio", self.default_prio().into(), "");
            }
            if vq.bandwidth.is_none() {
                add("bandwidth", rate.bps() as f64, "bps");
            }
        }
        derived
    }

    fn warnings(&self, _rate: Rate) -> Vec<ConfigError> {
        let limit = self.limit.bytes();
        let larger = self.vqs.iter().enumerate().filter(|(_, vq)| vq.limit.bytes() > limit);
        let problem = format!("exceeds the outer limit ({}), which is used instead", self.limit);
        let mut warnings: Vec<_> = larger
            .map(|(number, _)| ConfigError::at(format!("vqs.{number}.limit"), problem.clone()))
            .collect();
        let weights: Vec<u32> =
            self.vqs.iter().filter_map(|vq| vq.parms().ok()).map(|red| red.weight_log).collect();
        if self.mode() != Mode::Own && weights.iter().any(|weight| *weight != weights[0]) {
            let problem = "should have equal weights: with grio the kernel adds or shares averages that are scaled by \
                           these weights";
            warnings.push(ConfigError::at("vqs", problem));
        }
        warnings
    }

    fn tc_options(&self, rate: Rate) -> Option<Value> {
        let flags = |mut table: Value, ecn: bool, harddrop: bool| {
            for (name, is_on) in
                [("ecn", ecn), ("harddrop", harddrop), ("adaptive", false), ("nodrop", false)]
            {
                table[name] = is_on.into();
            }
            table
        };
        let queues = self.queues(rate).ok()?;
        let vqs = queues.iter().enumerate().map(|(number, vq)| {
            let Parms { min, max, .. } = vq.parms;
            let table = json!({"vq": number, "prio": vq.prio, "limit": vq.limit, "min": min, "max": max});
            flags(table, vq.ecn, vq.harddrop)
        });
        let setup = json!({
            "kind": "gred", "dp_cnt": MAX_QUEUES, "dp_default": self.default, "grio": self.grio,
            "limit": self.limit.bytes(), "vqs": vqs.collect::<Vec<_>>(),
        });
        Some(flags(setup, false, false))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let setup = Qdisc::new("gred").with("setup vqs", MAX_QUEUES).with("default", self.default);
        let mut gred = setup.flag(self.grio, "grio").count("limit", self.limit.bytes());
        // The priority of the default queue is the default of the other priorities.
        let first = self.default as usize;
        let others = (0..self.vqs.len()).filter(|number| *number != first);
        for number in self.vqs.get(first).map(|_| first).into_iter().chain(others) {
            gred = gred.change(self.virtual_queue_tc(number, rate), &format!("vqs.{number}"));
        }
        let by_class = self.vqs.len() > 1;
        gred.limit_if(by_class, "vqs", || {
            "a filter must write the number of each packet's virtual queue to tc_index (tc-tcindex)".into()
        })
        .finish()
    }
}

impl TestCases for Config {
    fn max_backlog(&self) -> Option<Length> {
        let each = self.vqs.iter().map(|vq| vq.limit.bytes().min(self.limit.bytes()));
        let free = if self.default as usize >= self.vqs.len() { self.limit.bytes() } else { 0 };
        Some(Length::Bytes(each.sum::<u64>() + free))
    }

    fn corners(&self) -> Vec<Value> {
        let vq = |change: Value| {
            let mut table = json!({"min": "2000B", "max": "9kB", "limit": "24kB", "burst": 5});
            for (name, value) in change.as_object().into_iter().flatten() {
                table[name] = value.clone();
            }
            table
        };
        let hard = json!({"ecn": true, "harddrop": true, "probability": 0.5, "max": "8kB"});
        vec![
            json!({
                "vqs": [vq(json!({})), vq(hard.clone()), vq(json!({"limit": "10kB"}))],
                "default": 9, "limit": "15kB",
            }),
            json!({
                "grio": true,
                "vqs": [vq(json!({"prio": 3})), vq(json!({"prio": 1, "ecn": true})), vq(json!({"prio": 2}))],
            }),
            json!({"grio": true, "default": 1, "vqs": [vq(json!({"prio": 3})), vq(hard), vq(json!({"prio": 8}))]}),
            json!({"vqs": [vq(json!({"limit": "9999B", "probability": 0.99}))]}),
        ]
    }
}

/// The average on which the decision on a packet is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The average of the packet's own virtual queue.
    Own,
    /// The sum of the average of the packet's own virtual queue and the averages of the virtual queues of higher
    /// priority.
    Rio,
    /// One average that all virtual queues share.
    Wred,
}

/// The number that marks a class without a virtual queue.
const NONE: u8 = u8::MAX;

/// The counters of a virtual queue that `tc -s` prints.
#[derive(Clone, Copy, Default)]
struct Counts {
    prob_drop: u64,
    prob_mark: u64,
    forced_drop: u64,
    forced_mark: u64,
    pdrop: u64,
    packets: u64,
    bytes: u64,
}

/// The state of a virtual queue.
#[derive(Clone)]
struct VirtualState {
    parms: Parms,
    vars: Vars,
    idle: IdleTable,
    idle_since: Option<Instant>,
    limit: u64,
    prio: u32,
    ecn: bool,
    harddrop: bool,
    /// Backlog of the virtual queue in bytes.
    bytes: u64,
    counts: Counts,
}

impl VirtualState {
    /// Counts a packet that RED selected for `reason`. Returns whether the packet is marked instead of dropped.
    fn may_mark(&mut self, reason: Reason, ecn: Ecn) -> bool {
        let is_forced = reason == Reason::Forced;
        let marks = self.ecn && ecn.can_be_marked() && !(is_forced && self.harddrop);
        let Counts { prob_drop, prob_mark, forced_drop, forced_mark, .. } = &mut self.counts;
        let count = match (is_forced, marks) {
            (false, false) => prob_drop,
            (false, true) => prob_mark,
            (true, false) => forced_drop,
            (true, true) => forced_mark,
        };
        *count += 1;
        marks
    }
}

/// A GRED queue: the virtual queues and the packets.
#[derive(Clone)]
struct Gred {
    mode: Mode,
    /// For each class, the number of its virtual queue.
    by_class: [u8; MAX_QUEUES],
    queues: Vec<VirtualState>,
    limit: u64,
    /// The average that all virtual queues share in WRED.
    shared: Vars,
    /// Start of the idle time of the whole queue.
    shared_idle: Option<Instant>,
    /// The packets, each with the number of its virtual queue.
    fifo: Fifo<u8>,
}

impl QueueDiscipline for Gred {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let number = self.by_class[usize::from(packet.class) % MAX_QUEUES];
        let (waiting, bytes) = (self.fifo.backlog().bytes, u64::from(packet.bytes));
        if number == NONE {
            if waiting + bytes > self.limit {
                return cx.drop(packet, Reason::Overflow);
            }
            return self.fifo.push_with(packet, number);
        }
        let others = self.others(number);
        let vq = &mut self.queues[usize::from(number)];
        vq.counts.packets += 1;
        vq.counts.bytes += bytes;
        let is_shared = self.mode == Mode::Wred;
        let (queue, idle_since) = if is_shared {
            vq.vars.average = self.shared.average;
            (waiting, self.shared_idle.take())
        } else {
            (vq.bytes, vq.idle_since.take())
        };
        let decayed = idle_since.map(|since| vq.vars.after_idle(&vq.idle, since, cx.now));
        vq.parms.observe(&mut vq.vars, queue, decayed);
        if is_shared {
            self.shared.average = vq.vars.average;
        }
        let reason = vq.parms.decide(&mut vq.vars, others, cx.rng);
        if let Some(reason) = reason.filter(|&reason| !vq.may_mark(reason, packet.ecn)) {
            return cx.drop_on(packet, reason, vq.parms.evidence(&vq.vars, others, reason));
        }
        if queue + bytes > vq.limit {
            vq.counts.pdrop += 1;
            let evidence = vq.parms.evidence(&vq.vars, others, Reason::Overflow);
            return cx.drop_on(packet, Reason::Overflow, evidence);
        }
        if let Some(reason) = reason {
            cx.mark(&mut packet, reason);
        }
        vq.bytes += bytes;
        self.fifo.push_with(packet, number);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let (packet, number) = self.fifo.pop_with()?;
        if number != NONE {
            let vq = &mut self.queues[usize::from(number)];
            vq.bytes -= u64::from(packet.bytes);
            if self.mode != Mode::Wred && vq.bytes == 0 {
                vq.idle_since = Some(cx.now);
            } else if self.mode == Mode::Wred && self.fifo.backlog().bytes == 0 {
                self.shared_idle = Some(cx.now);
            }
        }
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Gred {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        for (vq, name) in self.queues.iter().zip(AVERAGES) {
            show(Gauge::new(name, vq.parms.length(self.average(vq)), "bytes"));
        }
    }

    fn tc_statistics(&self, now: Instant) -> Value {
        let vqs = self.queues.iter().enumerate().map(|(number, vq)| {
            let Counts { prob_drop, prob_mark, forced_drop, forced_mark, pdrop, packets, bytes } = vq.counts;
            let is_shared = self.mode == Mode::Wred;
            let idle_since = if is_shared { self.shared_idle } else { vq.idle_since };
            let mut vars = vq.vars;
            vars.average = self.average(vq);
            // As in the kernel, the average shown is the one that would apply to a packet arriving now.
            let qave = idle_since.map_or(vars.average, |since| vars.after_idle(&vq.idle, since, now));
            json!({
                "vq": number,
                "qave": qave >> vq.parms.weight_log,
                "backlog": if is_shared { self.fifo.backlog().bytes } else { vq.bytes },
                "forced_drop": forced_drop, "prob_drop": prob_drop, "pdrop": pdrop, "other": 0,
                "forced_mark": forced_mark, "prob_mark": prob_mark, "packets": packets, "bytes": bytes,
            })
        });
        let selected =
            |counts: &Counts| counts.prob_drop + counts.prob_mark + counts.forced_drop + counts.forced_mark;
        let overlimits: u64 = self.queues.iter().map(|vq| selected(&vq.counts)).sum();
        json!({"overlimits": overlimits, "options": {"vqs": vqs.collect::<Vec<_>>()}})
    }
}

impl Gred {
    /// Returns the average that applies to this virtual queue, times `2^weight_log`.
    fn average(&self, vq: &VirtualState) -> u64 {
        if self.mode == Mode::Wred { self.shared.average } else { vq.vars.average }
    }

    /// Returns the sum of the averages of other virtual queues that is added to the average of this virtual queue.
    fn others(&self, number: u8) -> u64 {
        if self.mode != Mode::Rio {
            return 0;
        }
        let prio = self.queues[usize::from(number)].prio;
        let before = self.queues.iter().filter(|vq| vq.prio < prio && vq.idle_since.is_none());
        before.map(|vq| vq.vars.average).sum()
    }
}

/// Names of the gauges.
const AVERAGES: [&str; MAX_QUEUES] = [
    "average_0",
    "average_1",
    "average_2",
    "average_3",
    "average_4",
    "average_5",
    "average_6",
    "average_7",
    "average_8",
    "average_9",
    "average_10",
    "average_11",
    "average_12",
    "average_13",
    "average_14",
    "average_15",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counts, Driver, Fates, ect, packet};

    const RED: &str =
        r#"{"min": "5000B", "max": "18000B", "limit": "30000B", "probability": 0.1, "burst": 14}"#;

    fn vq(change: Value) -> Value {
        let mut table: Value = serde_json::from_str(RED).unwrap();
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        table
    }

    fn driver(table: Value, seed: u64) -> Driver {
        let mut table = table;
        table["kind"] = json!("gred");
        Driver::new(table, seed)
    }

    fn of(class: u8) -> Packet {
        Packet { class, flow: class.into(), ..packet(1000) }
    }

    /// Offers packets of these classes in turn, while departures keep the backlog at `bytes` bytes.
    fn keep_backlog(driver: &mut Driver, bytes: u64, classes: &[u8], packets: usize) {
        for class in classes.iter().cycle().take(packets) {
            while driver.queue.backlog().bytes > bytes {
                driver.take();
            }
            driver.offer(of(*class));
        }
    }

    #[test]
    fn one_virtual_queue_is_linuxs_red_draw_for_draw() {
        for change in
            [json!({}), json!({"ecn": true}), json!({"ecn": true, "harddrop": true, "limit": "12kB"})]
        {
            let outcomes = [json!({"kind": "gred", "vqs": [vq(change.clone())]}), {
                let mut red = vq(change);
                red["kind"] = json!("linux-red");
                red
            }]
            .map(|table| {
                let mut driver = Driver::new(table, 5);
                for k in 0..30_000_u32 {
                    driver.offer(if k % 3 == 0 { ect(700) } else { packet(1000) });
                    // The link is never idle in this test, because the two queues define the start of an idle time
                    // differently.
                    let limit = if k % 2000 < 1000 { 6_000 } else { 22_000 };
                    while driver.queue.backlog().bytes > limit {
                        driver.take();
                    }
                }
                driver.fates
            });
            let Counts { early, forced, overflow, .. } = outcomes[0].counts;
            assert!(early > 100 && forced.max(overflow) > 100, "{early} {forced} {overflow}");
            assert_eq!(outcomes[0], outcomes[1]);
        }
    }

    #[test]
    fn the_average_of_a_class_counts_the_backlog_of_its_own_queue() {
        let mut driver = driver(json!({"vqs": [vq(json!({})), vq(json!({}))]}), 1);
        keep_backlog(&mut driver, 16_000, &[0, 0, 0, 1], 4000);
        let averages = ["average_0", "average_1"].map(|name| driver.gauge(name));
        assert!(
            (averages[0] - 12_000.0).abs() < 1500.0 && (averages[1] - 4000.0).abs() < 1000.0,
            "{averages:?}"
        );
        assert!(driver.fates.dropped_packets().all(|packet| packet.class == 0), "the other is below its min");
        assert!(driver.fates.counts.early > 100);
    }

    #[test]
    fn rio_adds_the_averages_of_backlogged_queues_of_higher_priority() {
        let vqs = json!([vq(json!({"prio": 1})), vq(json!({"prio": 2}))]);
        let drops = |grio: bool| {
            let mut table = json!({"grio": grio, "vqs": vqs});
            if !grio {
                table["vqs"] = json!([vq(json!({})), vq(json!({}))]);
            }
            let mut driver = driver(table, 2);
            keep_backlog(&mut driver, 8_000, &[0, 1], 4000);
            [0, 1].map(|class| driver.fates.dropped_packets().filter(|packet| packet.class == class).count())
        };
        assert_eq!(drops(false), [0, 0], "4000 bytes of each");
        let [first, second] = drops(true);
        assert!(first == 0 && second > 20, "the second sees an average of 8000: {second}");
        let mut driver = driver(json!({"grio": true, "vqs": vqs}), 2);
        keep_backlog(&mut driver, 4_000, &[0], 1000);
        while driver.take().is_some() {}
        driver.fates = Fates::default();
        keep_backlog(&mut driver, 4_000, &[1], 1000);
        assert_eq!(
            (driver.fates.counts.drops(), driver.gauge("average_0")),
            (0, 4000.0),
            "its virtual queue is empty"
        );
    }

    #[test]
    fn wred_has_one_average_and_a_drop_function_per_class() {
        let strict = json!({"min": "2000B", "max": "9000B", "burst": 8});
        let table = json!({"grio": true, "vqs": [vq(json!({"prio": 4})), vq({
            let mut vq = strict;
            vq["prio"] = json!(4);
            vq
        })]});
        let mut driver = driver(table, 3);
        keep_backlog(&mut driver, 8_000, &[0, 1], 6000);
        assert_eq!(driver.gauge("average_0"), driver.gauge("average_1"));
        let drops = [0, 1].map(|class| {
            driver.fates.dropped_packets().filter(|packet| packet.class == class).count() as f64
        });
        // The probabilities max_P * (8000 - min) / (max - min) are 0.023 and 0.086. Because of the count, the drop
        // rates are twice as high.
        let [lax, strict] = drops.map(|drops| drops / 3000.0);
        assert!(
            (lax / (2.0 * 0.0231) - 1.0).abs() < 0.3 && (strict / (2.0 * 0.0857) - 1.0).abs() < 0.2,
            "{lax} {strict}"
        );
    }

    #[test]
    fn a_class_without_a_queue_uses_the_default_queue_or_passes() {
        let with = |default: u32| {
            let mut driver = driver(
                json!({"default": default, "limit": "25kB", "vqs": [vq(json!({})), vq(json!({}))]}),
                1,
            );
            for _ in 0..40 {
                driver.offer(of(5));
            }
            let packets = |number: usize| {
                driver.queue.tc_statistics(driver.now)["options"]["vqs"][number]["packets"].as_u64()
            };
            ([packets(0), packets(1)], driver.fates.counts.overflow, driver.queue.backlog().bytes)
        };
        assert_eq!(with(1).0, [Some(0), Some(40)]);
        assert_eq!(with(7), ([Some(0), Some(0)], 15, 25_000), "no RED, only the outer limit");
        let mut driver = driver(json!({"vqs": [vq(json!({})), vq(json!({}))]}), 1);
        driver.offer(of(17));
        let statistics = driver.queue.tc_statistics(driver.now);
        assert_eq!(statistics["options"]["vqs"][1]["packets"], 1, "class 17 is class 1 modulo 16");
    }

    #[test]
    fn a_virtual_queue_has_its_own_limit_but_at_most_the_outer_one() {
        let roomy = json!({"min": "20000B", "max": "60000B", "burst": 200});
        let full = |own: &str| {
            let mut vqs = [vq(roomy.clone()), vq(roomy.clone())];
            vqs[0]["limit"] = json!(own);
            let mut driver = driver(json!({"limit": "12kB", "vqs": vqs}), 1);
            (0..40).for_each(|_| {
                driver.offer(of(0));
                driver.offer(of(1));
            });
            [0, 1].map(|number| {
                driver.queue.tc_statistics(driver.now)["options"]["vqs"][number]["backlog"].as_u64().unwrap()
            })
        };
        assert_eq!((full("7500B"), full("400kB")), ([7000, 12_000], [12_000, 12_000]));
    }

    #[test]
    fn an_arrival_ends_the_idle_time_even_if_it_is_dropped() {
        let mut driver = driver(
            json!({"vqs": [vq(json!({"min": "1000B", "max": "2000B", "burst": 5, "avpkt": "500B"}))]}),
            1,
        );
        keep_backlog(&mut driver, 3_000, &[0], 2000);
        assert!(driver.gauge("average_0") > 2900.0);
        while driver.take().is_some() {}
        driver.fates = Fates::default();
        driver.offer(of(0));
        driver.now = Instant::from_nanos(1_000_000_000_000);
        driver.offer(of(0));
        assert_eq!(driver.fates.counts.forced, 2, "one sample of an empty queue, and no decay");
        assert!(driver.gauge("average_0") > 2000.0);
    }

    #[test]
    fn statistics_have_the_names_of_tc() {
        let mut driver = driver(json!({"vqs": [vq(json!({"ecn": true}))]}), 1);
        for k in 0..4000 {
            while driver.queue.backlog().bytes > 14_000 {
                driver.take();
            }
            driver.offer(if k % 2 == 0 { ect(1000) } else { packet(1000) });
        }
        let vq = &driver.queue.tc_statistics(driver.now)["options"]["vqs"][0];
        let counts = driver.fates.counts;
        assert!(counts.early > 10 && counts.marks > 10);
        let all = ["prob_drop", "prob_mark", "forced_drop", "packets", "bytes", "qave"]
            .map(|name| vq[name].as_u64());
        let average = driver.gauge("average_0") as u64;
        let expected = [counts.early, counts.marks, counts.forced, 4000, 4_000_000, average];
        assert_eq!(all, expected.map(Some));
        while driver.take().is_some() {}
        let later = Instant::from_nanos(1_000_000_000);
        let vq = &driver.queue.tc_statistics(later)["options"]["vqs"][0];
        let shown = (vq["qave"].as_u64(), driver.gauge("average_0") as u64);
        assert_eq!(shown, (Some(average / 4), average), "the decay at the end of the idle table");
    }

    #[test]
    fn invalid_parameters_are_rejected_with_their_names() {
        let refused = |table: Value, path: &str, problem: &str| {
            let mut table = table;
            table["kind"] = json!("gred");
            let errors = crate::Config::read(table).unwrap().build(Rate::from_bps(10_000_000)).err().unwrap();
            assert_eq!(errors.first().path, path, "{errors}");
            assert!(errors.first().problem.contains(problem), "{errors}");
        };
        refused(json!({"vqs": []}), "vqs", "1 to 16");
        refused(json!({"default": 16}), "default", "0 to 15");
        refused(json!({"vqs": [vq(json!({"prio": 1}))]}), "vqs.0.prio", "without grio");
        refused(
            json!({"grio": true, "vqs": [vq(json!({})), vq(json!({"prio": 0}))]}),
            "vqs.1.prio",
            "1 to 255",
        );
        refused(json!({"vqs": [vq(json!({"max": "5kB"}))]}), "vqs.0.max", "exceed min");
        refused(json!({"vqs": [vq(json!({"burst": 2}))]}), "vqs.0.burst", "at least min");
        refused(json!({"vqs": [vq(json!({"harddrop": true}))]}), "vqs.0.harddrop", "without ecn");
    }

    #[test]
    fn values_that_the_kernel_changes_silently_cause_a_warning() {
        let paths = |table: Value| {
            let mut table = table;
            table["kind"] = json!("gred");
            let warnings = crate::Config::read(table).unwrap().warnings(Rate::from_bps(10_000_000));
            warnings.into_iter().map(|warning| warning.path).collect::<Vec<_>>()
        };
        let vqs = json!([vq(json!({})), vq(json!({"burst": 200}))]);
        assert_eq!(paths(json!({"grio": true, "vqs": vqs})), ["vqs"]);
        assert!(paths(json!({"vqs": vqs})).is_empty());
        assert_eq!(paths(json!({"limit": "29kB", "vqs": vqs})), ["vqs.0.limit", "vqs.1.limit"]);
    }
}

//! FQ-PIE: flow queueing in which each queue has its own PIE, as in Linux.
//!
//! Linux 6.1, `net/sched/sch_fq_pie.c`, by M. Tahiliani and others, 2019. The scheduler is in `flow_queues/lists.rs`,
//! and the PIE algorithm is in `pie/linux.rs`. This file combines the scheduler and PIE:
//! - The PIE of a packet's flow decides whether to drop the packet, based on the flow's backlog. If the buffer is full,
//!   the arriving packet is dropped, not a packet of the longest flow.
//! - With `ecn`, an ECN-capable packet that PIE selects is marked instead of dropped if the drop probability is at most
//!   `ecn_prob`.
//! - One timer updates the PIE of every flow, including flows without packets.
//! - A packet that arrives while queued packets use more than `memory_limit` is counted, but not dropped.
//!
//! `start` sets the time at which the timer first expires, as in `pie/mod.rs`. `start` does not affect flows, because
//! the variables of a flow that has been idle equal those of a flow that has never been used.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span,
    parameters,
};
use serde_json::{Value, json};

use crate::flow_queues::lists::{FlowQueues, Scheduler};
use crate::pie::linux::{MAX_PROB, Rules, Vars};
use crate::pie::pie::{self, Departure, Settings};
use crate::pie::timer::Timer;
use crate::qdisc::truesize::truesize;
use crate::start::{Start, first_instant};
use crate::tc::Qdisc;
use crate::{Build, Context, Derived, Describe, Evidence, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// FQ-PIE: assigns flows to queues by a hash; queues take turns, newly active queues are served first, and each
    /// queue has its own PIE.
    ///
    /// The algorithm is the one in Linux.
    ///
    /// Differences from Linux:
    ///
    /// - The hash is computed from the flow number and a salt drawn from the queue's random stream. The kernel hashes
    ///   addresses, ports and protocol.
    /// - A packet's memory is counted as the kernel counts a packet that is copied into a separate buffer: 2304 bytes
    ///   for a full Ethernet packet (`truesize`). With real network drivers, the memory of a packet may differ.
    /// - Flows are distinguished by the hash only: `tc` filters are not supported.
    /// - The timer updates all flows at the same time. In the kernel, an update takes one more clock tick for every
    ///   2048 flows.
    /// - The updates of a flow are executed only when the next packet of the flow arrives or departs. The results are
    ///   the same, because the inputs of an update do not change before that time.
    /// - The unit of `alpha` and `beta` is Hz, whereas `tc` counts in units of 1/16 Hz.
    /// - `dq_threshold`, `max_burst` and `hz` are constants in the kernel.
    pub struct Config {
        /// Maximum backlog of all queues together, in packets, excluding the packet in transmission.
        pub limit: Length = Length::Packets(10_240), "tc-fq_pie";
        /// Parameters of the scheduler.
        #[serde(flatten)]
        pub scheduler: Scheduler = Scheduler::default();
        /// Parameters of PIE, which apply to each queue.
        #[serde(flatten)]
        pub pie: Settings = Settings::default();
        /// Memory use above which arriving packets are counted (`overmemory`); a full packet uses 2304 bytes. No packet
        /// is dropped for this reason.
        pub memory_limit: Size = Size::from_bytes(32 << 20), "tc-fq_pie";
        /// Drop probability in percent above which packets are dropped despite `ecn`.
        pub ecn_prob: u32 = 10, "tc-fq_pie";
        /// Kernel ticks per second (`CONFIG_HZ`). `tupdate` is rounded up to whole ticks, and the kernel's timer wheel
        /// adds one tick. An interval of 15 ms therefore becomes 16 ms if `hz` is 1000, 20 ms if `hz` is 250, and 30 ms
        /// if `hz` is 100. If `hz` is 0, `tupdate` is exact.
        pub hz: u32 = 1000, "aqmlab's choice: the value used in the recorded runs";
        /// State of the update timer at the start of the run. `settled`: the timer has been running for a long time.
        /// `fresh`: the timer starts at the beginning of the run, so that the first update occurs after half a second.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

impl Config {
    /// Returns the parameters of the PIE of each flow.
    fn pie(&self) -> pie::Config {
        pie::Config { limit: self.limit, pie: self.pie.clone(), hz: Some(self.hz), ..pie::Config::default() }
    }

    /// Creates the queue. The parameters must have been checked.
    fn running(&self) -> FqPie {
        let pie = self.pie();
        let (rules, (first, tupdate)) = (pie.linux_rules(), pie.updates());
        let flow = Flow { vars: rules.vars(), timer: Timer::new(first) };
        FqPie {
            queues: FlowQueues::new(&self.scheduler, flow),
            start: self.start,
            rules,
            tupdate,
            limit: self.limit.count(),
            memory_limit: self.memory_limit.bytes(),
            mark_up_to: self.pie.ecn.then(|| MAX_PROB / 100 * u64::from(self.ecn_prob)),
            statistics: Statistics::default(),
        }
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.check(!self.limit.in_bytes(), "limit", "must be in packets");
        self.scheduler.check(1, &mut errors);
        errors.check(self.memory_limit.bytes() > 0, "memory_limit", "must be at least 1B");
        let problem = format_args!("must be from 1 to 99 (got {})", self.ecn_prob);
        errors.check((1..100).contains(&self.ecn_prob), "ecn_prob", problem);
        errors.check_effect(self.pie.ecn, self, &["ecn_prob"], "without ecn");
        errors.take(self.pie().check());
        errors.finish(())?;
        Ok(Box::new(self.running()))
    }
}

impl Describe for Config {
    fn derived(&self, rate: Rate) -> Vec<Derived> {
        self.pie().derived(rate).into_iter().filter(|value| value.name == "tupdate").collect()
    }

    fn warnings(&self, rate: Rate) -> Vec<ConfigError> {
        self.pie().warnings(rate)
    }

    fn tc_options(&self, rate: Rate) -> Option<Value> {
        let mut options = self.pie().tc_options(rate)?;
        options["kind"] = json!("fq_pie");
        self.scheduler.add_tc_options(&mut options);
        options["memory_limit"] = json!(self.memory_limit.bytes());
        options["ecn_prob"] = json!(self.ecn_prob);
        Some(options)
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let problem = "cannot be expressed by tc: must be in packets, for example 10240p";
        let limited = Qdisc::new("fq_pie").count("limit", self.limit.count());
        let fq_pie = self.pie.add_tc(self.scheduler.add_tc(limited));
        fq_pie
            .count("memory_limit", self.memory_limit.bytes())
            .count("ecn_prob", self.ecn_prob.into())
            .rejected_unless(!self.limit.in_bytes(), "limit", problem)
            .finish()
    }
}

impl TestCases for Config {
    fn has_flow_queues(&self) -> bool {
        true
    }

    fn corners(&self) -> Vec<Value> {
        let quick = |change: Value| {
            let mut table = json!({
                "alpha": 1.5, "beta": 2.0, "target": "3ms", "tupdate": "2ms", "max_burst": "20ms", "flows": 3,
                "quantum": "300B", "mtu": "500B",
            });
            table.as_object_mut().into_iter().zip(change.as_object()).for_each(|(t, c)| t.extend(c.clone()));
            table
        };
        vec![
            quick(json!({"limit": "24p"})),
            quick(json!({"ecn": true, "ecn_prob": 99, "limit": "50p", "bytemode": true})),
            quick(json!({"dq_rate_estimator": true, "dq_threshold": "3kB", "memory_limit": "20kB"})),
            json!({"flows": 1, "quantum": "70B"}),
        ]
    }
}

/// An FQ-PIE queue.
#[derive(Clone)]
struct FqPie {
    /// The packets, each with its arrival time.
    queues: FlowQueues<Instant, Flow>,
    start: Start,
    rules: Rules,
    tupdate: Span,
    limit: u64,
    memory_limit: u64,
    /// The maximum probability at which packets are marked, if marking is enabled.
    mark_up_to: Option<u64>,
    statistics: Statistics,
}

/// The state of PIE for one flow.
#[derive(Clone)]
struct Flow {
    vars: Vars,
    timer: Timer,
}

/// The counters that `tc` prints.
#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    packets_in: u64,
    overlimit: u64,
    overmemory: u64,
    dropped: u64,
    ecn_mark: u64,
}

impl Flow {
    /// Executes the updates that are due up to `now`. `backlog` is the flow's backlog in bytes before `now`.
    #[inline]
    fn catch_up(&mut self, rules: &Rules, now: Instant, tupdate: Span, backlog: u64) {
        self.timer.catch_up(now, tupdate, &mut self.vars, |vars, _| rules.update(vars, backlog));
    }
}

impl QueueDiscipline for FqPie {
    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            let timer = Timer::new(first_instant(self.tupdate, chance));
            self.queues.aqms().for_each(|flow| flow.timer = timer);
        }
    }

    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let Self { queues, rules, statistics, .. } = self;
        let number = queues.classify(&packet, cx.rng);
        let waiting = queues.of(number).bytes;
        let (packets, memory) = (queues.backlog().packets, queues.memory());
        let flow = queues.aqm(number);
        flow.catch_up(rules, cx.now, self.tupdate, waiting);
        let fate = if packets >= self.limit {
            statistics.overlimit += 1;
            Some((Reason::Overflow, Evidence::default()))
        } else {
            statistics.overmemory += u64::from(memory > self.memory_limit + truesize(packet.bytes));
            let may_mark = |vars: &Vars| self.mark_up_to.is_some_and(|most| vars.prob <= most);
            match rules.select(&mut flow.vars, packet.bytes, waiting, cx.rng) {
                None => None,
                Some(_) if packet.ecn.can_be_marked() && may_mark(&flow.vars) => {
                    statistics.ecn_mark += 1;
                    cx.mark(&mut packet, Reason::Early);
                    None
                }
                Some(evidence) => Some((Reason::Early, evidence)),
            }
        };
        if let Some((why, evidence)) = fate {
            statistics.dropped += 1;
            flow.vars.accu_prob = 0;
            return cx.drop_on(packet, why, evidence);
        }
        statistics.packets_in += 1;
        queues.push(number, packet, cx.now);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let Self { queues, rules, tupdate, .. } = self;
        let now = cx.now;
        queues.dequeue(|queues, number| {
            let waiting = queues.of(number).bytes;
            queues.aqm(number).catch_up(rules, now, *tupdate, waiting);
            let (packet, joined) = queues.pop(number)?;
            let left = queues.of(number);
            let departed = Departure { bytes: packet.bytes, arrival: joined, backlog: left, now };
            rules.after_departure(&mut queues.aqm(number).vars, &departed);
            Some(packet)
        })
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}

impl Report for FqPie {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("new_flows_len", self.queues.new_flows().into(), "flows"));
        show(Gauge::new("old_flows_len", self.queues.old_flows().into(), "flows"));
        show(Gauge::new("memory_used", self.queues.memory() as f64, "bytes"));
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let Statistics { packets_in, overlimit, overmemory, dropped, ecn_mark } = self.statistics;
        json!({
            "pkts_in": packets_in,
            "overlimit": overlimit,
            "overmemory": overmemory,
            "dropped": dropped,
            "ecn_mark": ecn_mark,
            "new_flow_count": self.queues.new_flow_count(),
            "new_flows_len": self.queues.new_flows(),
            "old_flows_len": self.queues.old_flows(),
            "memory_used": self.queues.memory(),
        })
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Ecn, Streams};

    use super::*;
    use crate::testing::Fates;

    /// Updates every flow, including idle flows.
    fn update_all(queue: &mut FqPie, now: Instant, flows: u32) {
        for number in 0..flows {
            let waiting = queue.queues.of(number).bytes;
            queue.queues.aqm(number).catch_up(&queue.rules, now, queue.tupdate, waiting);
        }
    }

    /// Simulates packets of 40 flows, which arrive in bursts with pauses. The updates are executed either at every
    /// expiry of the timer, as in the kernel (eager), or when a flow's next packet arrives or departs (lazy).
    fn run(config: &Config, is_eager: bool) -> (Fates, Vec<u32>, Vec<Vars>) {
        let mut queue = config.running();
        let (mut rng, mut chance) = (Streams::new(1).named("queue", 0), Streams::new(1).named("packets", 0));
        let (mut fates, mut sent) = (Fates::default(), Vec::new());
        let (mut now, mut busy_until) = (Instant::START, Instant::START);
        let (mut due, tupdate) = config.pie().updates();
        for id in 0..60_000_u32 {
            let pause = if chance.chance(0.0003) { 400_000_000 } else { chance.below(1_400_000) };
            now += Span::from_nanos(pause);
            while is_eager && due <= now {
                update_all(&mut queue, due, config.scheduler.flows);
                due += tupdate;
            }
            let mut cx = Context { now, rng: &mut rng, observer: &mut fates };
            // Some flows send only intermittently, and the other flows send continuously.
            let flow = chance.below(if id / 4000 % 2 == 0 { 40 } else { 5 }) as u32;
            let bytes = [1514, 1000, 300][chance.below(3) as usize];
            let ecn = if flow.is_multiple_of(2) { Ecn::Ect0 } else { Ecn::NotEct };
            queue.enqueue(Packet { id, flow, bytes, ecn, ..Packet::default() }, &mut cx);
            while busy_until <= now {
                let Some(packet) = queue.dequeue(&mut cx) else { break };
                sent.push(packet.id);
                busy_until = now + Span::from_nanos(u64::from(packet.bytes) * 800);
            }
        }
        update_all(&mut queue, now, config.scheduler.flows);
        let vars = (0..config.scheduler.flows).map(|number| queue.queues.aqm(number).vars).collect();
        (fates, sent, vars)
    }

    #[test]
    fn deferred_updates_equal_those_of_the_kernels_timer() {
        let config = |flows, pie| {
            let scheduler = Scheduler { flows, ..Scheduler::default() };
            Config { scheduler, pie, ..Config::default() }
        };
        let small = config(3, Settings { bytemode: true, ..Settings::default() });
        for config in [
            config(16, Settings { ecn: true, ..Settings::default() }),
            config(16, Settings { dq_rate_estimator: true, ..Settings::default() }),
            Config { limit: Length::Packets(300), hz: 0, ..small },
        ] {
            let ((lazy, sent, vars), eager) = (run(&config, false), run(&config, true));
            assert_eq!((&lazy, &sent, &vars), (&eager.0, &eager.1, &eager.2));
            assert!(lazy.counts.early > 100, "{:?}", lazy.counts);
        }
    }
}

//! CHOKe: RED that compares each arrival with a packet drawn at random from the queue.
//!
//! R. Pan, B. Prabhakar, K. Psounis, "CHOKe, A Stateless Active Queue Management Scheme for Approximating Fair
//! Bandwidth Allocation", IEEE INFOCOM 2000, as implemented by `sch_choke` of Linux 6.1 (S. Hemminger, E. Dumazet):
//! - The average queue length is in packets, with one sample per arrival, and is computed in the kernel's integer
//!   arithmetic (`linux_core.rs`).
//! - While the average is above `min`, each arrival is compared with a packet that is drawn from the queue. If the
//!   drawn packet and the arriving packet belong to the same flow, both packets are dropped. The more packets of a flow
//!   are queued, the more often its arriving packets match a drawn packet. An unresponsive flow therefore gets at most
//!   1/(1 + e) of the link, and gets less as its sending rate grows (A. Tang, J. Wang, S. Low, "Understanding CHOKe",
//!   IEEE/ACM ToN 2004).
//! - If the two packets do not belong to the same flow, or if no packet is drawn, RED decides whether the arriving
//!   packet is dropped. An average exactly at a threshold belongs to the range below the threshold; in `sch_red`, it
//!   belongs to the range above the threshold. A drop because of a match does not change RED's count of packets since
//!   the last drop.
//! - When a packet is dropped from the queue, its slot becomes a hole. If three attempts to draw a packet find holes,
//!   the oldest packet is taken. Therefore, the kernel's draws are not uniform if matches are frequent: a flow that
//!   sends at 16 times the departure rate gets 12 % of the link, instead of 0.3 % as in the paper. With `draw =
//!   "uniform"`, packets are drawn as in the paper.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from Linux.

use std::collections::VecDeque;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::red::linux_core::{Parms, TcRed, Vars, thresholds};
use crate::red::tc::{self, Clock, IdleTable};
use crate::tc::Qdisc;
use crate::{Build, Context, Derived, Describe, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// CHOKe: RED that drops an arrival together with a packet drawn at random from the queue if both belong to one
    /// flow, so that unresponsive flows get only a small share of the link.
    ///
    /// Differences from Linux:
    ///
    /// - A flow is one connection. The kernel compares addresses, ports and protocol.
    /// - The kernel's ring has a fixed size, the next power of two above `limit`, and may overflow if holes occupy the
    ///   remaining slots. In aqmlab, the ring grows.
    /// - If a packet that arrives at an idle link is dropped, the link remains idle. In the kernel, the link tries to
    ///   dequeue again at once.
    /// - If there is no room for a packet that is selected for marking, the packet is dropped and not marked.
    pub struct Config {
        /// Maximum backlog in packets, excluding the packet in transmission.
        pub limit: Length = Length::Packets(200), "aqmlab's choice: tc itself has no default";
        /// Average queue length, in packets, up to which no packet is dropped early. Default: a third of `max`.
        pub min: Option<Length> = None, "tc-choke, after Floyd 1997";
        /// Average queue length, in packets, above which every packet is dropped or marked. Default: a quarter of
        /// `limit`.
        pub max: Option<Length> = None, "tc-choke, after Floyd 1997";
        /// RED's parameters other than the thresholds.
        #[serde(flatten)]
        pub red: TcRed = TcRed::default();
        /// Rate at which the average decays while the link is idle. Default: the link rate.
        pub bandwidth: Option<Rate> = None, "aqmlab's choice, as tc-choke recommends; tc itself has no default";
        /// Method of drawing the packet that is compared with an arrival. Two matching packets are dropped despite
        /// `ecn`.
        pub draw: Draw = Draw::ThreeTries, "Linux 6.1";
    }
}

choices! {
    /// Method of drawing a packet from a queue with holes.
    pub enum Draw {
        /// Slots are drawn at random until a slot contains a packet, but at most three slots are drawn. If all three
        /// slots are holes, the oldest packet is taken.
        ThreeTries = "three-tries",
        /// Every queued packet is drawn with the same probability.
        Uniform = "uniform",
    }
}

/// Maximum queue length in packets (`CHOKE_MAX_QUEUE`).
const MAX_LIMIT: u64 = 128 * 1024 - 1;

impl Config {
    /// Returns the parameters as the kernel stores them. All parameters are checked except those of the idle table.
    fn parms(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, length) in [("limit", Some(self.limit)), ("min", self.min), ("max", self.max)] {
            let problem = "must be in packets, for example 20p";
            errors.check(!length.is_some_and(Length::in_bytes), name, problem);
        }
        let problem = format_args!("must be at most {MAX_LIMIT}p (got {})", self.limit);
        errors.check(self.limit.count() <= MAX_LIMIT, "limit", problem);
        self.red.check_packet(&mut errors);
        errors.finish(())?;
        let options = self.red.options(self.thresholds()?, 'p');
        Ok(options.parms()?.with_exclusive_thresholds())
    }

    fn thresholds(&self) -> Result<(u64, u64), ConfigErrors> {
        let count = |length: Option<Length>| length.map(Length::count);
        thresholds(("limit", self.limit.count()), count(self.min), count(self.max), 'p')
    }

    fn idle_table(&self, parms: &Parms, rate: Rate) -> Result<IdleTable, ConfigError> {
        IdleTable::new(parms.weight_log, self.red.avpkt, self.bandwidth.unwrap_or(rate), Clock::Ticks)
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let parms = self.parms()?;
        Ok(Box::new(Choke {
            parms,
            vars: Vars::default(),
            idle: self.idle_table(&parms, rate)?,
            idle_since: None,
            limit: self.limit.count(),
            ecn: self.red.ecn,
            queue: Ring::new(self.draw),
            counts: Counts::default(),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        Some(self.parms().ok()?.curve().probability(average))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Ok(parms) = self.parms() else { return Vec::new() };
        let mut derived = Vec::new();
        if self.min.is_none() {
            derived.push(Derived::new("min", parms.min as f64, "packets"));
        }
        if self.max.is_none() {
            derived.push(Derived::new("max", parms.max as f64, "packets"));
        }
        derived.push(Derived::new("weight", tc::power_of_half(parms.weight_log), ""));
        derived.push(Derived::new("max_p", parms.curve().max_p, ""));
        if self.bandwidth.is_none() {
            derived.push(Derived::new("bandwidth", rate.bps() as f64, "bps"));
        }
        derived
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let Parms { min, max, .. } = self.parms().ok()?;
        Some(json!({
            "kind": "choke", "limit": self.limit.count(), "min": min, "max": max,
            "ecn": self.red.ecn, "harddrop": false, "adaptive": false, "nodrop": false,
        }))
    }

    fn tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let (parms, bandwidth) = (self.parms()?, self.bandwidth.unwrap_or(rate));
        let options = self.red.options((parms.min, parms.max), 'p');
        let is_uniform = self.draw == Draw::Uniform;
        options
            .add_tc(Qdisc::new("choke").count("limit", self.limit.count()), Some(bandwidth))
            .flag(self.red.ecn, "ecn")
            .computes("ewma", parms.weight_log.into())
            .computes("Scell_log", self.idle_table(&parms, rate)?.cell_log.into())
            .limit_if(is_uniform, "draw", || "the kernel always draws up to three slots (three-tries)".into())
            .finish()
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        let small = |change: Value| {
            let mut table =
                json!({"limit": "24p", "min": "2p", "max": "6p", "burst": 20, "probability": 0.5});
            for (name, value) in change.as_object().into_iter().flatten() {
                table[name] = value.clone();
            }
            table
        };
        // With a single flow, RED decides on a packet only if the average is above `min` while the queue is empty. The
        // test therefore needs an average that changes slowly, and a drop probability that is already high when the
        // average exceeds `min` by a fraction of a packet.
        let steep = json!({"max": "3p", "probability": 0.99, "ecn": true});
        vec![small(steep), small(json!({"burst": 3})), small(json!({"limit": "9p", "probability": 0.99}))]
    }
}

/// The counters that `tc -s` prints.
#[derive(Clone, Copy, Default)]
struct Counts {
    early: u64,
    marked: u64,
    pdrop: u64,
    matched: u64,
}

/// A CHOKe queue: the parameters, the average and the packets.
#[derive(Clone)]
struct Choke {
    parms: Parms,
    vars: Vars,
    idle: IdleTable,
    idle_since: Option<Instant>,
    limit: u64,
    ecn: bool,
    queue: Ring,
    counts: Counts,
}

impl QueueDiscipline for Choke {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        let idle_since = self.idle_since.take();
        let backlog = self.queue.backlog.packets;
        let decayed = idle_since.map(|since| self.vars.after_idle(&self.idle, since, cx.now));
        self.parms.observe(&mut self.vars, backlog, decayed);
        if !self.admit(packet, cx) && idle_since.is_some() {
            self.idle_since = Some(cx.now);
        }
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.queue.pop();
        if packet.is_none() {
            self.idle_since.get_or_insert(cx.now);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog
    }
}

impl Report for Choke {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let average = self.parms.length(self.vars.average);
        show(Gauge::new("average", average, "packets"));
        show(Gauge::number("probability", self.parms.curve().probability(average)));
    }

    fn tc_statistics(&self, _now: Instant) -> Value {
        let Counts { early, marked, pdrop, matched } = self.counts;
        json!({
            "overlimits": early + marked, "marked": marked, "early": early, "pdrop": pdrop, "other": 0,
            "matched": matched,
        })
    }
}

impl Choke {
    /// Drops, marks or enqueues `packet`. Returns `true` if the packet has joined the queue.
    fn admit(&mut self, mut packet: Packet, cx: &mut Context<'_>) -> bool {
        if !self.parms.is_below_thresholds(self.vars.average)
            && let Some(drawn) = self.queue.draw(cx.rng)
            && self.queue.flow(drawn) == packet.flow
        {
            self.counts.matched += 1;
            let evidence = self.parms.evidence(&self.vars, 0, Reason::Matched);
            cx.drop_on(self.queue.take(drawn), Reason::Matched, evidence);
            cx.drop_on(packet, Reason::Matched, evidence);
            return false;
        }
        let reason = self.parms.decide(&mut self.vars, 0, cx.rng);
        if let Some(reason) = reason.filter(|_| !self.ecn || !packet.ecn.can_be_marked()) {
            self.counts.early += 1;
            cx.drop_on(packet, reason, self.parms.evidence(&self.vars, 0, reason));
            return false;
        }
        self.counts.marked += u64::from(reason.is_some());
        if self.queue.backlog.packets >= self.limit {
            self.counts.pdrop += 1;
            cx.drop_on(packet, Reason::Overflow, self.parms.evidence(&self.vars, 0, Reason::Overflow));
            return false;
        }
        if let Some(reason) = reason {
            cx.mark(&mut packet, reason);
        }
        self.queue.push(packet);
        true
    }
}

/// The packets in order of arrival, with holes in place of removed packets. The first slot is never a hole, and the
/// last slot may be a hole.
#[derive(Clone)]
struct Ring {
    slots: VecDeque<Option<Packet>>,
    backlog: Backlog,
    draw: Draw,
}

impl Ring {
    fn new(draw: Draw) -> Self {
        Self { slots: VecDeque::new(), backlog: Backlog::default(), draw }
    }

    fn push(&mut self, packet: Packet) {
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        self.slots.push_back(Some(packet));
    }

    fn pop(&mut self) -> Option<Packet> {
        if self.slots.is_empty() { None } else { Some(self.take(0)) }
    }

    /// Removes the packet in this slot, which must not be a hole.
    fn take(&mut self, slot: usize) -> Packet {
        let packet = self.slots[slot].take().expect("the slot is not a hole");
        while matches!(self.slots.front(), Some(None)) {
            self.slots.pop_front();
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
        // Slots are drawn until a packet is found, so the number of holes must be bounded.
        if self.draw == Draw::Uniform && self.slots.len() as u64 > 2 * self.backlog.packets + 16 {
            self.slots.retain(Option::is_some);
        }
        packet
    }

    fn flow(&self, slot: usize) -> u32 {
        self.slots[slot].expect("the slot is not a hole").flow
    }

    /// Returns the slot of a packet that is drawn at random, or `None` if the queue is empty.
    fn draw(&self, rng: &mut Rng) -> Option<usize> {
        let slots = self.slots.len() as u64;
        if slots == 0 {
            return None;
        }
        let mut random_slot = || (((rng.bits() >> 32) * slots) >> 32) as usize;
        let mut tries = if self.draw == Draw::Uniform { u32::MAX } else { 3 };
        while tries > 0 {
            let slot = random_slot();
            if self.slots[slot].is_some() {
                return Some(slot);
            }
            tries -= 1;
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Driver, ect, packet};

    fn driver(change: Value, seed: u64) -> Driver {
        let mut table = json!({"kind": "choke", "limit": "200p", "min": "20p", "max": "60p", "burst": 30});
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Driver::new(table, seed)
    }

    fn of(flow: u32) -> Packet {
        Packet { flow, ..packet(1000) }
    }

    /// Creates a queue with at most `packets` packets of different flows, whose average has converged.
    fn at_rest(change: Value, packets: u64) -> Driver {
        let mut driver = driver(change, 1);
        for flow in 1..2000 {
            while driver.queue.backlog().packets > packets {
                driver.take();
            }
            driver.offer(of(flow));
        }
        driver
    }

    #[test]
    fn the_configuration_matches_the_one_reported_by_a_kernel() {
        // For `choke limit 200 min 20 max 60 probability 0.1 bandwidth 10mbit burst 30`, `tc` computes ewma 4 and
        // Scell_log 14.
        let config = Config {
            min: Some(Length::Packets(20)),
            max: Some(Length::Packets(60)),
            red: TcRed { probability: 0.1, burst: Some(30), ..TcRed::default() },
            ..Config::default()
        };
        let parms = config.parms().unwrap();
        let idle = config.idle_table(&parms, Rate::from_bps(10_000_000)).unwrap();
        assert_eq!((parms.weight_log, idle.cell_log), (4, 14));
        assert!((libm::ldexp(parms.max_p.value as f64, -32) - 0.1).abs() < 1e-9);
        let (min, max) = Config::default().thresholds().unwrap();
        assert_eq!((min, max), (16, 50));
    }

    /// Returns the share of the link that flow 0 gets. Flow 0 sends `load` packets per departure, and packets of other
    /// flows always refill the queue to 60 packets.
    fn share_of_hog(draw: &str, load: f64) -> f64 {
        let plain = json!({"draw": draw, "limit": "100p", "min": "5p", "max": "100p", "probability": 1e-6, "avpkt": "10B"});
        let mut driver = driver(plain, 7);
        let (mut credit, mut sent, mut next_flow, packets) = (0.0, 0.0, 1, 40_000);
        let mut fill = |driver: &mut Driver| {
            while driver.queue.backlog().packets < 60 {
                driver.offer(of(next_flow));
                next_flow += 1;
            }
        };
        for _ in 0..packets {
            fill(&mut driver);
            credit += load;
            while credit >= 1.0 {
                credit -= 1.0;
                driver.offer(of(0));
                fill(&mut driver);
            }
            sent += f64::from(u8::from(driver.take().is_some_and(|packet| packet.flow == 0)));
        }
        sent / f64::from(packets)
    }

    #[test]
    fn an_unresponsive_flow_gets_the_share_of_the_formula_of_tang_wang_and_low() {
        // Let a be the rate at which the flow's queued packets are dropped, per queueing delay, and mu the flow's share
        // of the link. Then mu / (1 - mu) = a exp(-a), and load = a (1 - mu) (2 - exp(-a)). The maximum of mu is 1 / (1
        // + e), at a = 1.
        for a in [0.5, 1.0, 2.0, 4.0, 8.0] {
            let over_rest = a * libm::exp(-a);
            let mu = over_rest / (1.0 + over_rest);
            let load = a * (1.0 - mu) * (2.0 - libm::exp(-a));
            let [paper, kernel] = ["uniform", "three-tries"].map(|draw| share_of_hog(draw, load));
            assert!(mu < 0.27 && (paper - mu).abs() < 0.012, "load {load:.2}: {paper:.4}, not {mu:.4}");
            // The kernel's draws agree with the theory while there are few holes. At 16 times the departure rate, the
            // draws no longer agree with the theory.
            assert!((kernel - mu).abs() < 0.012 || (a > 7.0 && kernel > 0.1), "load {load:.2}: {kernel:.4}");
        }
    }

    #[test]
    fn a_match_drops_both_packets_and_reports_the_reason() {
        let mut driver = at_rest(json!({"probability": 1e-6, "avpkt": "10B"}), 30);
        for _ in 0..30 {
            driver.take();
        }
        assert!(!driver.offer(of(9999)));
        let _other = driver.take();
        let (before, waiting) = (driver.fates.list.len(), driver.queue.backlog().packets);
        assert_eq!(waiting, 1);
        assert!(driver.offer(of(9999)));
        let outcomes: Vec<_> =
            driver.fates.list[before..].iter().map(|fate| (fate.packet.flow, fate.why)).collect();
        assert_eq!(outcomes, [(9999, Reason::Matched); 2]);
        assert_eq!(driver.queue.backlog().packets, waiting - 1);
    }

    #[test]
    fn at_min_nothing_is_drawn_and_just_above_it_is() {
        for (packets, matches) in [(20, false), (21, true)] {
            let mut driver = driver(json!({"probability": 1e-6, "avpkt": "10B", "limit": "100p"}), 3);
            for _ in 0..3000 {
                while driver.queue.backlog().packets > packets {
                    driver.take();
                }
                driver.offer(of(1));
            }
            assert_eq!(driver.fates.counts.other > 0, matches, "{packets}");
        }
    }

    #[test]
    fn above_max_all_packets_are_dropped_and_at_max_drops_are_random() {
        let forced = |packets| {
            let mut driver = at_rest(json!({"probability": 0.02}), packets);
            driver.fates.counts = crate::testing::Counts::default();
            for flow in 5000..5100 {
                while driver.queue.backlog().packets > packets {
                    driver.take();
                }
                driver.offer(of(flow));
            }
            driver.fates.counts.forced
        };
        assert_eq!(forced(60), 0);
        assert!(forced(66) > 20, "the average follows the queue until no packet is admitted");
    }

    #[test]
    fn a_draw_is_uniform_and_takes_the_oldest_packet_after_three_holes() {
        let mut ring = Ring::new(Draw::ThreeTries);
        (0..1000).for_each(|flow| ring.push(of(flow)));
        for slot in 1..999 {
            ring.take(slot);
        }
        let mut rng = aqm_net::Streams::new(1).named("queue", 0);
        let draws = 30_000_u32;
        let newest = (0..draws).filter(|_| ring.draw(&mut rng) == Some(999)).count() as f64;
        // The newest packet is drawn if one of three attempts finds the newest packet before any attempt finds the
        // oldest packet. The probability is 3/1000 minus the overlap.
        let expected = f64::from(draws) * 0.5 * (1.0 - libm::pow(0.998, 3.0));
        assert!((newest - expected).abs() < 4.0 * expected.sqrt(), "{newest}, not {expected}");
        assert_eq!((ring.pop().unwrap().flow, ring.slots.len()), (0, 1), "holes at the head are removed");
        assert_eq!((ring.pop().unwrap().flow, ring.pop(), ring.draw(&mut rng)), (999, None, None));
    }

    #[test]
    fn marks_and_drops_are_counted_under_the_names_of_tc() {
        let mut driver = at_rest(json!({"probability": 0.5, "ecn": true}), 50);
        for flow in 3000..4000 {
            while driver.queue.backlog().packets > 50 {
                driver.take();
            }
            driver.offer(Packet { flow, ..if flow % 2 == 0 { ect(1000) } else { packet(1000) } });
        }
        (0..200).for_each(|_| {
            driver.offer(of(5));
        });
        let statistics = driver.queue.tc_statistics(driver.now);
        let counts = driver.fates.counts;
        assert!(counts.marks > 100 && counts.early > 100 && counts.other > 10);
        let (early, marked, matched) = (counts.early + counts.forced, counts.marks, counts.other / 2);
        let expected = json!({
            "overlimits": early + marked, "marked": marked, "early": early, "pdrop": 0, "other": 0,
            "matched": matched,
        });
        assert_eq!(statistics, expected);
    }

    #[test]
    fn invalid_parameters_are_rejected_with_their_names() {
        let refused = |change: Value, path: &str, problem: &str| {
            let mut table = json!({"kind": "choke"});
            table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let errors = crate::Config::read(table).unwrap().build(Rate::from_bps(10_000_000)).err().unwrap();
            assert_eq!(errors.first().path, path, "{errors}");
            assert!(errors.first().problem.contains(problem), "{errors}");
        };
        refused(json!({"limit": "20kB"}), "limit", "in packets");
        refused(json!({"min": "20kB"}), "min", "in packets");
        refused(json!({"limit": "0p"}), "limit", "from 1p");
        refused(json!({"limit": "131072p"}), "limit", "at most 131071p");
        refused(json!({"limit": "11p"}), "min", "a third of max");
        refused(json!({"max": "201p"}), "max", "at most limit");
        refused(json!({"min": "50p"}), "max", "exceed min");
        refused(json!({"burst": 3}), "burst", "at least min");
        refused(json!({"probability": 1.0}), "probability", "below 1");
    }
}

//! CHOKe: RED whose arrivals are compared with a packet drawn from the queue.
//!
//! R. Pan, B. Prabhakar, K. Psounis, "CHOKe, A Stateless Active Queue Management Scheme for Approximating Fair
//! Bandwidth Allocation", IEEE INFOCOM 2000, as `sch_choke` of Linux 6.1 has it (S. Hemminger, E. Dumazet):
//! - The average counts packets, in the kernel's integers (`linux_red_core.rs`), and takes a sample at each arrival.
//! - While it is above `min`, a packet is drawn from the queue. If it is of the arrival's flow, both are dropped:
//!   who fills the queue meets himself. So a flow that does not respond gets at most 1/(1 + e) of the line, and less
//!   the more it sends (A. Tang, J. Wang, S. Low, "Understanding CHOKe", IEEE/ACM ToN 2004).
//! - Otherwise RED decides. A threshold belongs to what is below it, in `sch_red` to what is above it. A drop for a
//!   match leaves RED's count alone.
//! - What is dropped leaves a hole in the queue. A draw that meets holes only, three times, takes the oldest packet. So
//!   the kernel's draws are not uniform where matches are many: who sends 16 times what leaves keeps 12 % of the line,
//!   not the paper's 0.3 %. `draw` is `"uniform"` for the paper's.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use std::collections::VecDeque;

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::red::linux_core::{Asked, Parms, Vars, thresholds};
use crate::red::tc::{self, Clock, IdleTable};
use crate::{Build, Context, Derived, Describe, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// CHOKe: RED that drops an arrival together with a packet drawn from the queue if both are of one flow, so that
    /// who does not respond gets little.
    ///
    /// Differences from Linux:
    ///
    /// - Packets are of one flow if they are of one connection. The kernel compares addresses, ports and protocol.
    /// - The ring of the kernel has a power of two of places above `limit`, and may run over if holes take all that are
    ///   left. Ours grows.
    /// - A refused packet that found the line idle leaves it idle: the kernel asks the queue again at once.
    /// - A packet that is to be marked but finds no room is dropped, and leaves unmarked.
    pub struct Config {
        /// The most that may wait, in packets; the packet on the line is not counted.
        pub limit: Length = Length::Packets(200), "ours: tc itself has no default";
        /// Average queue up to which nothing is dropped early, in packets. Left out: a third of `max`.
        pub min: Option<Length> = None, "tc-choke, after Floyd 1997";
        /// Average queue above which every packet is dropped, or marked, in packets. Left out: a quarter of `limit`.
        pub max: Option<Length> = None, "tc-choke, after Floyd 1997";
        /// Drop probability as the average reaches `max` (`max_P`); above 0, below 1.
        pub probability: f64 = 0.02, "tc-choke";
        /// Packets of a burst that should pass: `tc` takes the weight of the average from it, a power of 1/2.
        /// Left out: `(2 min + max) / 3`.
        pub burst: Option<u32> = None, "tc-choke";
        /// Typical size of a packet: how many the line could have sent while it idled.
        pub avpkt: Size = Size::from_bytes(1000), "tc-choke";
        /// The rate by which the average falls while the line idles. Left out: that of the line.
        pub bandwidth: Option<Rate> = None, "ours: what tc-choke asks for; tc itself has no default";
        /// Whether ECN-capable packets are marked where RED chose them, as long as there is room. A match drops.
        pub ecn: bool = false, "tc-choke";
        /// How an arrival's packet to compare with is drawn.
        pub draw: Draw = Draw::ThreeTries, "Linux 6.1";
    }
}

choices! {
    /// How a packet is drawn from a queue with holes.
    pub enum Draw {
        /// Three times a place; the oldest packet if all three are holes.
        ThreeTries = "three-tries",
        /// Each packet that waits with the same probability.
        Uniform = "uniform",
    }
}

/// The longest queue (`CHOKE_MAX_QUEUE`).
const MOST: u64 = 128 * 1024 - 1;

impl Config {
    /// What the kernel is told; all checks made but those of the table of idle times.
    fn told(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (place, length) in [("limit", Some(self.limit)), ("min", self.min), ("max", self.max)] {
            let problem = "must be in packets, such as 20p";
            errors.check(!length.is_some_and(Length::in_bytes), place, problem);
        }
        errors.check(self.limit.count() <= MOST, "limit", format_args!("must be at most {MOST}p"));
        let avpkt = self.avpkt.bytes();
        let in_range = (1..=u32::MAX.into()).contains(&avpkt);
        errors.check(in_range, "avpkt", "must be from 1B to 4294967295B");
        errors.finish(())?;
        let (min, max) = self.thresholds()?;
        let Self { probability, burst, .. } = *self;
        Ok(Asked { min, max, unit: 'p', probability, burst, avpkt }.parms()?.beyond())
    }

    fn thresholds(&self) -> Result<(u64, u64), ConfigErrors> {
        let count = |length: Option<Length>| length.map(Length::count);
        thresholds(("limit", self.limit.count()), count(self.min), count(self.max), 'p')
    }

    fn idle_table(&self, parms: &Parms, rate: Rate) -> Result<IdleTable, ConfigError> {
        IdleTable::new(parms.weight_log, self.avpkt, self.bandwidth.unwrap_or(rate), Clock::Ticks)
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let parms = self.told()?;
        Ok(Box::new(Choke {
            parms,
            vars: Vars::default(),
            idle: self.idle_table(&parms, rate)?,
            idle_since: None,
            limit: self.limit.count(),
            ecn: self.ecn,
            queue: Ring::new(self.draw),
            counts: Counts::default(),
        }))
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        Some(self.told().ok()?.curve().probability(average))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let Ok(parms) = self.told() else { return Vec::new() };
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
        let Parms { min, max, .. } = self.told().ok()?;
        Some(json!({
            "kind": "choke", "limit": self.limit.count(), "min": min, "max": max,
            "ecn": self.ecn, "harddrop": false, "adaptive": false, "nodrop": false,
        }))
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
        // A single flow meets RED only where its average is above `min` and its queue empty: an average that is slow,
        // and a probability that a fraction of a packet above `min` is enough for.
        let steep = json!({"max": "3p", "probability": 0.99, "ecn": true});
        vec![small(steep), small(json!({"burst": 3})), small(json!({"limit": "9p", "probability": 0.99}))]
    }
}

/// What `tc -s` shows.
#[derive(Clone, Copy, Default)]
struct Counts {
    early: u64,
    marked: u64,
    pdrop: u64,
    matched: u64,
}

/// The running discipline.
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
        let waiting = self.queue.backlog.packets;
        let left = idle_since.map(|since| self.vars.after_idle(&self.idle, since, cx.now));
        self.parms.observe(&mut self.vars, waiting, left);
        if !self.judge(packet, cx) && idle_since.is_some() {
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
    /// Decides on `packet` and carries it out: `true` if it has joined the queue.
    fn judge(&mut self, mut packet: Packet, cx: &mut Context<'_>) -> bool {
        if !self.parms.spares(self.vars.average)
            && let Some(drawn) = self.queue.draw(cx.rng)
            && self.queue.flow(drawn) == packet.flow
        {
            self.counts.matched += 1;
            cx.drop(self.queue.take(drawn), Reason::Matched);
            cx.drop(packet, Reason::Matched);
            return false;
        }
        let chosen = self.parms.decide(&mut self.vars, 0, cx.rng);
        if let Some(reason) = chosen.filter(|_| !self.ecn || !packet.ecn.can_be_marked()) {
            self.counts.early += 1;
            cx.drop(packet, reason);
            return false;
        }
        self.counts.marked += u64::from(chosen.is_some());
        if self.queue.backlog.packets >= self.limit {
            self.counts.pdrop += 1;
            cx.drop(packet, Reason::Overflow);
            return false;
        }
        if let Some(reason) = chosen {
            cx.mark(&mut packet, reason);
        }
        self.queue.push(packet);
        true
    }
}

/// Packets in order of arrival, with holes where some were taken out; the first place is none, the last may be.
#[derive(Clone)]
struct Ring {
    places: VecDeque<Option<Packet>>,
    backlog: Backlog,
    draw: Draw,
}

impl Ring {
    fn new(draw: Draw) -> Self {
        Self { places: VecDeque::new(), backlog: Backlog::default(), draw }
    }

    fn push(&mut self, packet: Packet) {
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        self.places.push_back(Some(packet));
    }

    fn pop(&mut self) -> Option<Packet> {
        if self.places.is_empty() { None } else { Some(self.take(0)) }
    }

    /// Takes the packet at this place, which is no hole.
    fn take(&mut self, place: usize) -> Packet {
        let packet = self.places[place].take().expect("there is a packet");
        while matches!(self.places.front(), Some(None)) {
            self.places.pop_front();
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
        // A draw that tries until it finds a packet must find one soon.
        if self.draw == Draw::Uniform && self.places.len() as u64 > 2 * self.backlog.packets + 16 {
            self.places.retain(Option::is_some);
        }
        packet
    }

    fn flow(&self, place: usize) -> u32 {
        self.places[place].expect("there is a packet").flow
    }

    /// The place of a packet drawn at random; none if nothing waits.
    fn draw(&self, rng: &mut Rng) -> Option<usize> {
        let places = self.places.len() as u64;
        if places == 0 {
            return None;
        }
        let mut any = || (((rng.bits() >> 32) * places) >> 32) as usize;
        let mut tries = if self.draw == Draw::Uniform { u32::MAX } else { 3 };
        while tries > 0 {
            let place = any();
            if self.places[place].is_some() {
                return Some(place);
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

    /// A queue held at so many packets of other flows, until the average is there.
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
    fn what_was_read_back_from_a_kernel_is_what_follows_from_the_same_words() {
        // `choke limit 200 min 20 max 60 probability 0.1 bandwidth 10mbit burst 30`: ewma 4, Scell_log 14.
        let config = Config {
            min: Some(Length::Packets(20)),
            max: Some(Length::Packets(60)),
            probability: 0.1,
            burst: Some(30),
            ..Config::default()
        };
        let parms = config.told().unwrap();
        let idle = config.idle_table(&parms, Rate::from_bps(10_000_000)).unwrap();
        assert_eq!((parms.weight_log, idle.cell_log), (4, 14));
        assert!((libm::ldexp(parms.max_p.value as f64, -32) - 0.1).abs() < 1e-9);
        let (min, max) = Config::default().thresholds().unwrap();
        assert_eq!((min, max), (16, 50));
    }

    /// The share of a hog that sends `load` packets for each that leaves, in a queue that others, all of different
    /// flows, fill up to 60 packets at once.
    fn share_of_hog(draw: &str, load: f64) -> f64 {
        let plain = json!({"draw": draw, "limit": "100p", "min": "5p", "max": "100p", "probability": 1e-6, "avpkt": "10B"});
        let mut driver = driver(plain, 7);
        let (mut owed, mut sent, mut next_flow, packets) = (0.0, 0.0, 1, 40_000);
        let mut fill = |driver: &mut Driver| {
            while driver.queue.backlog().packets < 60 {
                driver.offer(of(next_flow));
                next_flow += 1;
            }
        };
        for _ in 0..packets {
            fill(&mut driver);
            owed += load;
            while owed >= 1.0 {
                owed -= 1.0;
                driver.offer(of(0));
                fill(&mut driver);
            }
            sent += f64::from(u8::from(driver.take().is_some_and(|packet| packet.flow == 0)));
        }
        sent / f64::from(packets)
    }

    #[test]
    fn a_flow_that_does_not_respond_gets_what_the_formula_of_tang_wang_and_low_says() {
        // Its packets in the queue die at the rate a in one delay: with mu its share, mu / (1 - mu) = a exp(-a) and
        // load = a (1 - mu) (2 - exp(-a)). The most is 1 / (1 + e), at a = 1.
        for a in [0.5, 1.0, 2.0, 4.0, 8.0] {
            let over_rest = a * libm::exp(-a);
            let mu = over_rest / (1.0 + over_rest);
            let load = a * (1.0 - mu) * (2.0 - libm::exp(-a));
            let [paper, kernel] = ["uniform", "three-tries"].map(|draw| share_of_hog(draw, load));
            assert!(mu < 0.27 && (paper - mu).abs() < 0.012, "load {load:.2}: {paper:.4}, not {mu:.4}");
            // The kernel's draws are as good while holes are few: at 16 times what leaves they no longer are.
            assert!((kernel - mu).abs() < 0.012 || (a > 7.0 && kernel > 0.1), "load {load:.2}: {kernel:.4}");
        }
    }

    #[test]
    fn a_match_drops_both_and_says_so() {
        let mut driver = at_rest(json!({"probability": 1e-6, "avpkt": "10B"}), 30);
        for _ in 0..30 {
            driver.take();
        }
        assert!(!driver.offer(of(9999)));
        let _other = driver.take();
        let (before, waiting) = (driver.fates.told.len(), driver.queue.backlog().packets);
        assert_eq!(waiting, 1);
        assert!(driver.offer(of(9999)));
        let told: Vec<_> =
            driver.fates.told[before..].iter().map(|fate| (fate.packet.flow, fate.why)).collect();
        assert_eq!(told, [(9999, Reason::Matched); 2]);
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
    fn above_max_all_go_and_at_max_chance_still_decides() {
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
        assert!(forced(66) > 20, "the average follows the queue until nothing gets in");
    }

    #[test]
    fn a_draw_is_uniform_and_falls_back_on_the_oldest_where_all_is_holes() {
        let mut ring = Ring::new(Draw::ThreeTries);
        (0..1000).for_each(|flow| ring.push(of(flow)));
        for place in 1..999 {
            ring.take(place);
        }
        let mut rng = aqm_net::Streams::new(1).named("queue", 0);
        let draws = 30_000_u32;
        let newest = (0..draws).filter(|_| ring.draw(&mut rng) == Some(999)).count() as f64;
        // One of three draws may meet it before one meets the oldest: 3/1000 less what both do.
        let expected = f64::from(draws) * 0.5 * (1.0 - libm::pow(0.998, 3.0));
        assert!((newest - expected).abs() < 4.0 * expected.sqrt(), "{newest}, not {expected}");
        assert_eq!((ring.pop().unwrap().flow, ring.places.len()), (0, 1), "holes in front are forgotten");
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
    fn what_cannot_be_is_refused_with_its_place() {
        let refused = |change: Value, place: &str, problem: &str| {
            let mut table = json!({"kind": "choke"});
            table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let errors = crate::Config::read(table).unwrap().build(Rate::from_bps(10_000_000)).err().unwrap();
            assert_eq!(errors.first().place, place, "{errors}");
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

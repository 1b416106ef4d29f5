//! BLUE: a marking probability that losses raise and an idle line lowers; the length of the queue has no say.
//!
//! W. Feng, D. Kandlur, D. Saha, K. Shin, "BLUE: A New Class of Active Queue Management Algorithms", University of
//! Michigan CSE-TR-387-99, April 1999, and "The BLUE Active Queue Management Algorithms", IEEE/ACM Transactions on
//! Networking 10(4), August 2002. One probability `p_m` marks (or drops) packets when they are queued. "Upon packet
//! loss" by a full buffer, if more than `freeze_time` has passed since the last update, `p_m += d1`; "upon link idle"
//! likewise `p_m -= d2`. `freeze_time` lets an update take effect before the next; `d1` is far greater than `d2`, since
//! a line is idle when the queue reacts too little as well as when it reacts too much, but packets are lost only in the
//! first case. In the variant "or `Q_len > L`" a queue beyond `threshold` counts as a loss, so that room is left for
//! bursts.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::pi::pi::EcnRule;
use crate::start::Start;
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// BLUE: losses raise the probability to drop, and an idle line lowers it.
    ///
    /// Where the papers are silent:
    ///
    /// - Defaults are those of the simulator of the authors (ns-1.1; its port to ns-2.1b8 by S. Thulasidasan). It keeps
    ///   two times, one of increments and one of decrements (`freeze = "separate"`). The papers have one, and so has
    ///   the default.
    /// - The line is idle at the moment when it asks for a packet and none waits, once each time, as in that port. With
    ///   `idle_repeats` an idle time counts again each `freeze_time` that it lasts.
    /// - The probability begins at 0. An update comes after more than `freeze_time`, not after exactly so much.
    /// - A packet that finds the buffer full is lost without asking chance. The port asks first, so that a full buffer
    ///   may drop a packet as chosen, and then reports nothing. What chance drops is no loss.
    /// - With `threshold` the queue that an arrival finds counts, the arrival not included.
    pub struct Config {
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// What a loss adds to the probability (`d1`).
        pub increment: f64 = 0.0025, "the authors' simulator";
        /// What an idle line takes from it (`d2`).
        pub decrement: f64 = 0.000_25, "the authors' simulator";
        /// The least time from update to update.
        pub freeze_time: Span = Span::from_millis(100), "the authors' simulator";
        /// What `freeze_time` is counted from.
        pub freeze: Freeze = Freeze::Shared, "Feng et al. 1999";
        /// An arrival that finds a longer queue counts as a loss, though it may be queued (`L`). Left out: only what
        /// finds no room counts.
        pub threshold: Option<Length> = None, "Feng et al. 1999";
        /// Whether an idle time lowers the probability again each time it has lasted another `freeze_time`.
        pub idle_repeats: bool = false, "ours: the papers say `upon link idle`";
        /// What happens to an ECN-capable packet that chance chose. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `setbit`; the papers mark";
        /// Whether `freeze_time` is over as a run begins (`settled`), or begins with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Which updates keep the next one waiting.
    pub enum Freeze {
        /// Any.
        Shared = "shared",
        /// Increments and decrements each their own kind.
        Separate = "separate",
    }
}

impl Config {
    /// The first instant that is more than `freeze_time` after an update.
    fn thawed(&self, update: Instant) -> Instant {
        update + self.freeze_time + Span::from_nanos(1)
    }
}

/// The shortest freeze time: whoever returns after a long idle time must catch up with every one.
const SHORTEST: Span = Span::from_nanos(10_000);

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { limit, increment, decrement, freeze_time, threshold, idle_repeats, .. } = *self;
        errors.check(limit.count() > 0, "limit", "must be at least 1p or 1B");
        for (place, step) in [("increment", increment), ("decrement", decrement)] {
            let problem = format_args!("must be above 0 and at most 1, not {step}");
            errors.check(step > 0.0 && step <= 1.0, place, problem);
        }
        let problem = format_args!("must be at least {SHORTEST} with idle_repeats");
        errors.check(freeze_time >= SHORTEST || !idle_repeats, "freeze_time", problem);
        errors.check_effect(!freeze_time.is_zero(), self, &["freeze"], "with freeze_time = \"0s\"");
        let is_met = |threshold: Length| {
            threshold.in_bytes() != limit.in_bytes() || threshold.count() < limit.count().max(1)
        };
        let problem = format_args!("must be below limit, {limit}, or it is never passed");
        errors.check(threshold.is_none_or(is_met), "threshold", problem);
        errors.finish(())?;
        let thawed = if self.start.is_settled() { Instant::START } else { self.thawed(Instant::START) };
        Ok(Box::new(Blue {
            config: self.clone(),
            fifo: Fifo::new(limit),
            p: 0.0,
            thawed: [thawed; 2],
            idle_since: None,
        }))
    }
}

impl Describe for Config {}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "24p", "increment": 0.1, "decrement": 0.01, "freeze_time": "1ms", "ecn": "always"}),
            json!({"limit": "9p", "increment": 1.0, "decrement": 0.001, "freeze_time": "0ms"}),
            json!({"limit": "9p", "increment": 0.3, "freeze_time": "1s"}),
            json!({
                "limit": "30kB", "threshold": "3kB", "increment": 0.05, "decrement": 0.05, "freeze_time": "100us",
                "idle_repeats": true, "ecn": "always",
            }),
            json!({
                "limit": "24p", "threshold": "2kB", "increment": 0.2, "decrement": 0.1, "freeze_time": "3ms",
                "freeze": "separate", "idle_repeats": true,
            }),
        ]
    }
}

/// The running discipline.
#[derive(Clone)]
struct Blue {
    config: Config,
    fifo: Fifo,
    /// `p_m`.
    p: f64,
    /// From when on the last increment keeps no update waiting, and the last decrement.
    thawed: [Instant; 2],
    /// Since when nothing waits and nothing is sent, if the end of that counts.
    idle_since: Option<Instant>,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl QueueDiscipline for Blue {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.end_idle(cx.now);
        let has_room = self.fifo.has_room_for(&packet);
        let backlog = self.fifo.backlog();
        let is_long = self.config.threshold.is_some_and(|most| backlog.in_unit_of(most) > most.count());
        if !has_room || is_long {
            self.update(UP, cx.now);
        }
        if !has_room {
            return cx.drop(packet, Reason::Overflow);
        }
        if self.p > 0.0 && cx.rng.chance(self.p) {
            if self.config.ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop(packet, Reason::Early);
            }
            cx.mark(&mut packet, Reason::Early);
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.fifo.pop();
        if packet.is_none() {
            self.update(DOWN, cx.now);
            self.idle_since = Some(cx.now).filter(|_| self.config.idle_repeats);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Blue {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::number("probability", self.p));
    }
}

impl Blue {
    /// From when on an update of this kind can come.
    fn thawed(&self, way: usize) -> Instant {
        match self.config.freeze {
            Freeze::Shared => self.thawed[UP].max(self.thawed[DOWN]),
            Freeze::Separate => self.thawed[way],
        }
    }

    /// A loss, or an idle line, at `now`.
    fn update(&mut self, way: usize, now: Instant) {
        if now < self.thawed(way) {
            return;
        }
        self.thawed[way] = self.config.thawed(now);
        let moved = if way == UP { self.p + self.config.increment } else { self.p - self.config.decrement };
        self.p = moved.clamp(0.0, 1.0);
    }

    /// Makes the decrements of an idle time that ends at `now`.
    fn end_idle(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else { return };
        let mut at = since.max(self.thawed(DOWN));
        while at <= now && self.p > 0.0 {
            self.update(DOWN, at);
            at = self.config.thawed(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Parameter;

    use super::*;
    use crate::testing::{Driver, packet};

    fn at(driver: &mut Driver, millis: f64) {
        driver.now = Instant::from_nanos((millis * 1e6) as u64);
    }

    fn p(driver: &Driver) -> f64 {
        driver.gauge("probability")
    }

    /// A full buffer of 5 packets.
    fn full(mut table: Value) -> Driver {
        table["kind"] = json!("blue");
        table["start"] = json!("fresh");
        table["limit"] = json!("5p");
        let mut driver = Driver::new(table, 1);
        (0..5).for_each(|_| {
            driver.offer(packet(1000));
        });
        driver
    }

    #[test]
    fn losses_within_a_freeze_time_count_once() {
        let mut blue = full(json!({"increment": 0.02, "freeze_time": "10ms"}));
        let path: Vec<f64> = [0.0, 10.0, 10.1, 12.0, 20.1, 20.2, 40.0]
            .iter()
            .map(|&millis| {
                at(&mut blue, millis);
                blue.offer(packet(1000));
                p(&blue)
            })
            .collect();
        assert_eq!(path, [0.0, 0.0, 0.02, 0.02, 0.02, 0.04, 0.06]);
        assert_eq!(blue.fates.counts.overflow, 7);
    }

    /// At 20 ms a loss, then the queue is emptied, and the line asks again at these times.
    fn emptied(table: Value, asked: &[f64]) -> Vec<f64> {
        let mut blue = full(table);
        at(&mut blue, 20.0);
        blue.offer(packet(1000));
        (0..5).for_each(|_| {
            blue.take();
        });
        let ask = |&millis: &f64| {
            at(&mut blue, millis);
            assert!(blue.take().is_none());
            p(&blue)
        };
        asked.iter().map(ask).collect()
    }

    #[test]
    fn a_decrement_waits_for_the_increment_before_it_unless_each_has_a_time_of_its_own() {
        let table = |freeze: &str| json!({"increment": 0.5, "decrement": 0.125, "freeze_time": "10ms", "freeze": freeze});
        assert_eq!(emptied(table("shared"), &[25.0, 31.0, 40.0, 42.0]), [0.5, 0.375, 0.375, 0.25]);
        assert_eq!(emptied(table("separate"), &[25.0, 31.0, 35.1, 40.0]), [0.375, 0.375, 0.25, 0.25]);
    }

    #[test]
    fn an_idle_time_counts_once_or_each_freeze_time_that_it_lasts() {
        for (repeats, expected) in [(false, 0.375), (true, 0.125)] {
            let table = json!({
                "kind": "blue", "start": "fresh", "limit": "5p", "increment": 0.5, "decrement": 0.125, "freeze_time": "10ms",
                "idle_repeats": repeats,
            });
            let mut blue = Driver::new(table, 1);
            at(&mut blue, 15.0);
            (0..6).for_each(|_| {
                blue.offer(packet(1000));
            });
            at(&mut blue, 30.0);
            while blue.take().is_some() {}
            // Lost at 15 ms, idle from 30 ms on: decrements at 30, 40 and 50 ms.
            at(&mut blue, 55.0);
            blue.offer(packet(1000));
            assert_eq!(p(&blue), expected);
        }
        // Idle from 20 ms on, and frozen until 25 ms.
        let table = json!({
            "kind": "blue", "start": "fresh", "limit": "5p", "increment": 0.5, "decrement": 0.125, "freeze_time": "10ms",
            "idle_repeats": true,
        });
        let mut blue = Driver::new(table, 1);
        at(&mut blue, 15.0);
        (0..6).for_each(|_| {
            blue.offer(packet(1000));
        });
        at(&mut blue, 20.0);
        while blue.take().is_some() {}
        assert_eq!(p(&blue), 0.5);
        at(&mut blue, 26.0);
        blue.offer(packet(1000));
        assert_eq!(p(&blue), 0.375);
    }

    #[test]
    fn beyond_the_threshold_a_queued_packet_counts_as_lost() {
        let table = json!({"kind": "blue", "start": "fresh", "limit": "50p", "threshold": "3p", "increment": 0.001, "freeze_time": "0ms"});
        let mut blue = Driver::new(table, 3);
        let path: Vec<f64> = (1..=6)
            .map(|k| {
                at(&mut blue, f64::from(k));
                assert!(!blue.offer(packet(1000)));
                p(&blue)
            })
            .collect();
        // The first that finds more than three is the fifth.
        assert_eq!(path, [0.0, 0.0, 0.0, 0.0, 0.001, 0.002]);
    }

    #[test]
    fn with_a_load_that_does_not_yield_the_probability_comes_near_to_what_exceeds_the_line() {
        for (table, load) in [
            (json!({"increment": 0.002, "decrement": 0.0002, "freeze_time": "10ms"}), 1.25),
            (json!({"increment": 0.002, "decrement": 0.0005, "freeze_time": "5ms", "threshold": "20p"}), 1.6),
        ] {
            let mut config = table;
            config["kind"] = json!("blue");
            let mut blue = Driver::new(config, 11);
            let (mut free_at, mut sum, mut counted) = (Instant::START, 0.0, 0.0);
            for k in 0..300_000_u64 {
                let now = Instant::from_nanos((k as f64 * 800_000.0 / load) as u64);
                while free_at <= now && (blue.queue.backlog().packets > 0 || free_at > Instant::START) {
                    blue.now = free_at;
                    if blue.take().is_none() {
                        break;
                    }
                    free_at += Span::from_nanos(800_000);
                }
                blue.now = now;
                free_at = if blue.queue.backlog().packets == 0 { free_at.max(now) } else { free_at };
                blue.offer(packet(1000));
                if k > 100_000 {
                    sum += p(&blue);
                    counted += 1.0;
                }
            }
            let excess = 1.0 - 1.0 / load;
            // Above it mostly: an idle line tells too much of it by small steps.
            assert!((sum / counted - excess).abs() < 0.03, "{load}: {}", sum / counted);
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (table, place) in [
            (json!({"limit": "0p"}), "limit"),
            (json!({"increment": 0.0}), "increment"),
            (json!({"decrement": 1.5}), "decrement"),
            (json!({"freeze_time": "1us", "idle_repeats": true}), "freeze_time"),
            (json!({"threshold": "50p"}), "threshold"),
        ] {
            let errors = Config::read(table).unwrap().build(Rate::default()).err().expect("it is wrong");
            assert!(errors.iter().count() == 1 && errors.iter().all(|error| error.place == place), "{place}");
        }
    }
}

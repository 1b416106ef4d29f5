//! BLUE: raises a marking probability after losses and lowers it when the link is idle. BLUE does not use the queue
//! length.
//!
//! W. Feng, D. Kandlur, D. Saha, K. Shin, "BLUE: A New Class of Active Queue Management Algorithms", University of
//! Michigan CSE-TR-387-99, April 1999, and "The BLUE Active Queue Management Algorithms", IEEE/ACM Transactions on
//! Networking 10(4), August 2002. Every arriving packet is marked (or dropped) with the same probability `p_m`. When a
//! packet is lost because the buffer is full ("upon packet loss"), and more than `freeze_time` has passed since the
//! last update, `p_m` increases by `d1`. When the link becomes idle ("upon link idle"), `p_m` decreases by `d2` under
//! the same condition. `freeze_time` ensures that each update can take effect before the next update. `d1` is much
//! larger than `d2`, because packets are lost only if congestion control is too weak, whereas the link can become idle
//! either because congestion control is too weak or because it is too aggressive. In the variant "or `Q_len > L`", an
//! arrival also counts as a loss if the queue is longer than `threshold`, so that the buffer has room left for bursts.
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the papers are
//! silent.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Span, choices, parameters,
};
use serde_json::{Value, json};

use crate::interval::MIN_INTERVAL;
use crate::pi::selection::EcnRule;
use crate::start::Start;
use crate::{Build, Context, Describe, Evidence, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// BLUE: raises the drop probability after losses, and lowers it when the link is idle.
    ///
    /// aqmlab's choices where the papers are silent:
    ///
    /// - The defaults are those of the authors' simulator (ns-1.1, ported to ns-2.1b8 by S. Thulasidasan). The
    ///   simulator has separate freeze times for increments and for decrements (`freeze = "separate"`). In the papers,
    ///   and by default in aqmlab, increments and decrements share one freeze time.
    /// - The link becomes idle when it tries to dequeue a packet and the queue is empty. As in the port, the
    ///   probability decreases once per idle period. With `idle_repeats`, the probability decreases again after each
    ///   further `freeze_time` of an idle period.
    /// - The initial probability is 0. An update is possible only if more than `freeze_time` has passed since the
    ///   previous update; exactly `freeze_time` is not sufficient.
    /// - If a packet arrives while the buffer is full, the packet is dropped, and no random number is drawn. The port
    ///   draws a random number first. If this number selects the packet, the port drops the packet without counting a
    ///   loss, even if the buffer is full. In aqmlab and in the port, random drops do not count as losses.
    /// - `threshold` is compared with the queue length, excluding the arriving packet.
    pub struct Config {
        /// Maximum backlog in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(50), "ns-2";
        /// Increase of the probability after a loss (`d1`).
        pub increment: f64 = 0.0025, "the authors' simulator";
        /// Decrease of the probability when the link becomes idle (`d2`).
        pub decrement: f64 = 0.000_25, "the authors' simulator";
        /// Minimum time between updates.
        pub freeze_time: Span = Span::from_millis(100), "the authors' simulator";
        /// Further updates that `freeze_time` delays after an update.
        pub freeze: Freeze = Freeze::Shared, "Feng et al. 1999";
        /// Queue length above which an arrival counts as a loss even if the packet is enqueued (`L`). Default: only a
        /// packet that does not fit into the buffer counts as a loss.
        pub threshold: Option<Length> = None, "Feng et al. 1999";
        /// Whether the probability decreases again after each further `freeze_time` of an idle period.
        pub idle_repeats: bool = false, "aqmlab's choice: the papers say `upon link idle`";
        /// Treatment of an ECN-capable packet that is selected at random. A selected packet that is not ECN-capable is
        /// always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `setbit`; in the papers, packets are marked";
        /// State of the queue at the start of the run. `settled`: the probability may change at once. `fresh`: the
        /// probability may change only after `freeze_time` has passed.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// Further updates that the freeze time delays after an update.
    pub enum Freeze {
        /// After each update, all further updates are delayed.
        Shared = "shared",
        /// After an increment, only further increments are delayed; after a decrement, only further decrements are
        /// delayed.
        Separate = "separate",
    }
}

impl Config {
    /// Returns the first time that is more than `freeze_time` after `update`.
    fn freeze_end(&self, update: Instant) -> Instant {
        update + self.freeze_time + Span::from_nanos(1)
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { limit, increment, decrement, freeze_time, threshold, idle_repeats, .. } = *self;
        errors.check(limit.count() > 0, "limit", format_args!("must be at least 1p or 1B (got {limit})"));
        for (name, step) in [("increment", increment), ("decrement", decrement)] {
            let problem = format_args!("must be above 0 and at most 1 (got {step})");
            errors.check(step > 0.0 && step <= 1.0, name, problem);
        }
        let problem = format_args!("must be at least {MIN_INTERVAL} with idle_repeats (got {freeze_time})");
        errors.check(freeze_time >= MIN_INTERVAL || !idle_repeats, "freeze_time", problem);
        errors.check_effect(!freeze_time.is_zero(), self, &["freeze"], "with freeze_time = \"0s\"");
        let is_reachable = |threshold: Length| {
            threshold.in_bytes() != limit.in_bytes() || threshold.count() < limit.count().max(1)
        };
        let problem =
            format_args!("must be below limit ({limit}), otherwise the queue length never exceeds threshold");
        errors.check(threshold.is_none_or(is_reachable), "threshold", problem);
        errors.finish(())?;
        let freeze_end =
            if self.start.is_settled() { Instant::START } else { self.freeze_end(Instant::START) };
        Ok(Box::new(Blue {
            config: self.clone(),
            fifo: Fifo::new(limit),
            p: 0.0,
            freeze_ends: [freeze_end; 2],
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

/// A BLUE queue: the parameters, the packets and the probability.
#[derive(Clone)]
struct Blue {
    config: Config,
    fifo: Fifo,
    /// The marking probability (`p_m`).
    p: f64,
    /// Times at which the freeze times that follow the last increment and the last decrement end.
    freeze_ends: [Instant; 2],
    /// Start of the current idle period, if `idle_repeats` is on.
    idle_since: Option<Instant>,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl QueueDiscipline for Blue {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.end_idle(cx.now);
        let has_room = self.fifo.has_room_for(&packet);
        let backlog = self.fifo.backlog();
        let is_long = self.config.threshold.is_some_and(|limit| backlog.in_unit_of(limit) > limit.count());
        if !has_room || is_long {
            self.update(UP, cx.now);
        }
        if !has_room {
            return cx.drop(packet, Reason::Overflow);
        }
        if self.p > 0.0
            && let draw = cx.rng.uniform()
            && draw < self.p
        {
            if self.config.ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop_on(packet, Reason::Early, Evidence::drawn(self.p, draw));
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
    /// Returns the earliest time at which the probability may change in the given direction.
    fn freeze_end(&self, direction: usize) -> Instant {
        match self.config.freeze {
            Freeze::Shared => self.freeze_ends[UP].max(self.freeze_ends[DOWN]),
            Freeze::Separate => self.freeze_ends[direction],
        }
    }

    /// Increases or decreases the probability at `now`, unless the freeze time delays the update.
    fn update(&mut self, direction: usize, now: Instant) {
        if now < self.freeze_end(direction) {
            return;
        }
        self.freeze_ends[direction] = self.config.freeze_end(now);
        let p = if direction == UP { self.p + self.config.increment } else { self.p - self.config.decrement };
        self.p = p.clamp(0.0, 1.0);
    }

    /// Applies the decrements that became due during the idle period that ends at `now`.
    fn end_idle(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else { return };
        let mut at = since.max(self.freeze_end(DOWN));
        while at <= now && self.p > 0.0 {
            self.update(DOWN, at);
            at = self.config.freeze_end(at);
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

    /// Creates a queue whose buffer of 5 packets is full.
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

    /// Returns the probability at each of `times`. At 20 ms, a packet is lost and the queue is emptied; at each of
    /// `times`, the link tries to dequeue from the empty queue.
    fn emptied(table: Value, times: &[f64]) -> Vec<f64> {
        let mut blue = full(table);
        at(&mut blue, 20.0);
        blue.offer(packet(1000));
        (0..5).for_each(|_| {
            blue.take();
        });
        let dequeue = |&millis: &f64| {
            at(&mut blue, millis);
            assert!(blue.take().is_none());
            p(&blue)
        };
        times.iter().map(dequeue).collect()
    }

    #[test]
    fn a_decrement_waits_for_the_previous_increment_unless_freeze_times_are_separate() {
        let table = |freeze: &str| json!({"increment": 0.5, "decrement": 0.125, "freeze_time": "10ms", "freeze": freeze});
        assert_eq!(emptied(table("shared"), &[25.0, 31.0, 40.0, 42.0]), [0.5, 0.375, 0.375, 0.25]);
        assert_eq!(emptied(table("separate"), &[25.0, 31.0, 35.1, 40.0]), [0.375, 0.375, 0.25, 0.25]);
    }

    #[test]
    fn an_idle_time_counts_once_or_once_per_freeze_time() {
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
            // A packet is lost at 15 ms, and the link is idle from 30 ms on. The probability decreases at 30, 40 and 50
            // ms.
            at(&mut blue, 55.0);
            blue.offer(packet(1000));
            assert_eq!(p(&blue), expected);
        }
        // The link is idle from 20 ms on, and updates are frozen until 25 ms.
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
    fn above_the_threshold_an_enqueued_packet_counts_as_lost() {
        let table = json!({"kind": "blue", "start": "fresh", "limit": "50p", "threshold": "3p", "increment": 0.001, "freeze_time": "0ms"});
        let mut blue = Driver::new(table, 3);
        let path: Vec<f64> = (1..=6)
            .map(|k| {
                at(&mut blue, f64::from(k));
                assert!(!blue.offer(packet(1000)));
                p(&blue)
            })
            .collect();
        // The fifth packet is the first that arrives while more than three packets are queued.
        assert_eq!(path, [0.0, 0.0, 0.0, 0.0, 0.001, 0.002]);
    }

    #[test]
    fn with_an_unresponsive_load_the_probability_approaches_the_excess_over_the_link_rate() {
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
            // The probability is usually slightly above the fraction of excess packets, because decrements are small.
            assert!((sum / counted - excess).abs() < 0.03, "{load}: {}", sum / counted);
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for (table, path) in [
            (json!({"limit": "0p"}), "limit"),
            (json!({"increment": 0.0}), "increment"),
            (json!({"decrement": 1.5}), "decrement"),
            (json!({"freeze_time": "1us", "idle_repeats": true}), "freeze_time"),
            (json!({"threshold": "50p"}), "threshold"),
        ] {
            let errors = Config::read(table)
                .unwrap()
                .build(Rate::default())
                .err()
                .expect("the parameters are invalid");
            assert!(errors.iter().count() == 1 && errors.iter().all(|error| error.path == path), "{path}");
        }
    }
}

//! PI: a proportional-integral controller that keeps the queue at a reference length.
//!
//! C. Hollot, V. Misra, D. Towsley, W. Gong, "On Designing Improved Controllers for AQM Routers Supporting TCP Flows",
//! IEEE INFOCOM 2001: every `interval`, `p = a (q - q_ref) - b (q_old - q_ref) + p_old`, where `q` is the current queue
//! length, not the average, and `q_old` and `p_old` are the values at the previous update. The integral term changes
//! `p` until the queue length equals `q_ref`.
//!
//! The defaults are those of the paper's example, which has 60 flows, a link of 3750 packets per second and a
//! round-trip time of 246 ms. The defaults of ns-2 differ: 170 updates per second, and 50 packets for `q_ref` and
//! `limit`.
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the paper is
//! silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Span, parameters};
use serde_json::{Value, json};

use crate::interval::MIN_INTERVAL;
use crate::pi::selection::Selection;
use crate::start::first_instant;
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// PI: a proportional-integral controller that adjusts the drop probability to keep the queue at a reference
    /// length.
    ///
    /// Where the paper is silent, aqmlab follows `pi.cc` of ns-2:
    ///
    /// - The probability is limited to the range from 0 to 1. Initially, the probability is 0 and the queue is empty.
    /// - The packet in transmission is not part of the queue. If `q_ref` is in bytes, the queue and `q_ref` are
    ///   converted to packets of the mean size.
    /// - Drops are independent of each other: they are not spaced by a count. A full queue drops a packet without
    ///   drawing a random number.
    /// - An update of the controller that is due at the same time as an arrival or a departure is processed first.
    pub struct Config {
        /// Reference queue length (`q_ref`). The unit of `q_ref`, packets or bytes, is also the unit of the queue
        /// length.
        pub q_ref: Length = Length::Packets(200), "Hollot et al. 2001";
        /// Weight of the current deviation from `q_ref`, per packet (`a`).
        pub a: f64 = 1.822e-5, "Hollot et al. 2001";
        /// Weight of the deviation at the previous update, per packet (`b`); `b` must be less than `a`, because
        /// otherwise there is no integral term.
        pub b: f64 = 1.816e-5, "Hollot et al. 2001";
        /// Time between updates of the probability (`1/w`).
        pub interval: Span = Span::from_nanos(6_250_000), "Hollot et al. 2001: 160 Hz";
        /// Maximum backlog in packets or bytes, excluding the packet in transmission.
        pub limit: Length = Length::Packets(800), "Hollot et al. 2001";
        /// Selection of arriving packets, and the state of the controller at the start of the run.
        #[serde(flatten)]
        pub selection: Selection = Selection::default();
    }
}

impl Config {
    /// Checks the parameters and builds a PI queue. The queues that are based on PI also call this function.
    pub(crate) fn discipline(&self) -> Result<Pi, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { q_ref, a, b, interval, limit, ref selection, .. } = *self;
        errors.check(q_ref.count() > 0, "q_ref", format_args!("must be at least 1p or 1B (got {q_ref})"));
        let is_positive = a > 0.0 && a.is_finite();
        errors.check(is_positive, "a", format_args!("must be above 0 (got {a})"));
        let problem = format_args!("must be above 0 and below a, {a} (got {b})");
        errors.check(b > 0.0 && (b < a || !is_positive), "b", problem);
        let problem = format_args!("must be at least {MIN_INTERVAL} (got {interval})");
        errors.check(interval >= MIN_INTERVAL, "interval", problem);
        let is_effective = limit.in_bytes() != q_ref.in_bytes() || limit.count() > q_ref.count();
        let remedy = "otherwise the queue is full before its length reaches q_ref";
        if limit.count() == 0 {
            errors.check(false, "limit", format_args!("must be at least 1p or 1B (got {limit})"));
        } else {
            errors.check(is_effective, "limit", format_args!("must exceed q_ref ({q_ref}); {remedy}"));
        }
        selection.check(&mut errors);
        let counts_bytes = q_ref.in_bytes() || selection.scale_by_size;
        let condition = "with q_ref in packets and without scale_by_size";
        errors.check_effect(counts_bytes, self, &["mean_packet"], condition);
        errors.finish(())?;
        Ok(Pi {
            controller: Controller {
                unit: if q_ref.in_bytes() { selection.mean_packet.bytes() as f64 } else { 1.0 },
                config: self.clone(),
                next_update: Instant::START + interval,
                p: 0.0,
                q_old: 0,
            },
            fifo: Fifo::new(limit),
        })
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.discipline()?))
    }
}

impl Describe for Config {}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        corners()
    }
}

/// Returns test cases in which the queue has few packets and changes quickly. The queues that are based on PI also use
/// these cases.
pub(crate) fn corners() -> Vec<Value> {
    let pi = |interval: &str, q_ref: &str, limit: &str, ecn: &str| json!({"interval": interval, "q_ref": q_ref, "a": 0.02, "b": 0.01, "limit": limit, "ecn": ecn});
    let mut corners = vec![
        pi("6250us", "5p", "24p", "always"),
        pi("10us", "5p", "24p", "off"),
        pi("6250us", "3kB", "24p", "always"),
        pi("6250us", "3kB", "5001B", "off"),
    ];
    corners[1]["scale_by_size"] = json!(true);
    corners
}

/// A PI queue: the parameters, the controller and the packets.
#[derive(Clone)]
pub struct Pi {
    controller: Controller,
    fifo: Fifo,
}

impl QueueDiscipline for Pi {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.admit(packet, 1.0, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        let Config { interval, ref selection, .. } = self.controller.config;
        if selection.start.is_settled() {
            self.controller.next_update = first_instant(interval, chance);
        }
    }
}

impl Report for Pi {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::number("probability", self.controller.p));
    }
}

impl Pi {
    /// Drops, marks or enqueues `packet`, with the probability multiplied by `factor`.
    pub(crate) fn admit(&mut self, packet: Packet, factor: f64, cx: &mut Context<'_>) {
        let Self { controller, fifo } = self;
        controller.catch_up(fifo.backlog(), cx.now);
        controller.config.selection.admit(packet, controller.p * factor, fifo, cx);
    }
}

/// The PI controller, without the queue.
#[derive(Clone)]
struct Controller {
    config: Config,
    /// Number of units (packets or bytes) that count as one packet.
    unit: f64,
    /// Time of the next update.
    next_update: Instant,
    p: f64,
    q_old: u64,
}

impl Controller {
    /// Executes all updates that are due up to `now`. `backlog` must not have changed since the last call.
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        if now < self.next_update {
            return;
        }
        let Config { a, b, q_ref, interval, .. } = self.config;
        let q = backlog.in_unit_of(q_ref);
        let deviation = |queue: u64| (queue as f64 - q_ref.count() as f64) / self.unit;
        while self.next_update <= now {
            let before = (self.p, self.q_old);
            self.p = (a * deviation(q) - b * deviation(self.q_old) + self.p).clamp(0.0, 1.0);
            self.q_old = q;
            self.next_update += interval;
            // The remaining updates are skipped, because they would not change the state.
            if (self.p, self.q_old) == before && self.next_update <= now {
                let skipped = now.since(self.next_update).nanos() / interval.nanos();
                self.next_update += Span::from_nanos(interval.nanos() * (skipped + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(config: &Config) -> Controller {
        config.discipline().unwrap().controller
    }

    /// Returns the probability after the next update, at which `packets` packets are queued.
    fn update(controller: &mut Controller, packets: u64) -> f64 {
        let time = controller.next_update;
        controller.catch_up(Backlog { packets: 0, bytes: 0 }, Instant::from_nanos(time.nanos() - 1));
        controller.catch_up(Backlog { packets, bytes: packets * 500 }, time);
        controller.p
    }

    #[test]
    fn the_probability_follows_the_papers_difference_equation() {
        let mut pi = controller(&Config::default());
        let (a, b) = (1.822e-5, 1.816e-5);
        // The expected values are calculated by hand, starting with the empty queue.
        let first = a * 100.0 + b * 200.0;
        assert!((update(&mut pi, 300) - first).abs() < 1e-15);
        let second = a * 200.0 - b * 100.0 + first;
        assert!((update(&mut pi, 400) - second).abs() < 1e-15);
        let third = a * -100.0 - b * 200.0 + second;
        assert!((update(&mut pi, 100) - third).abs() < 1e-15);
    }

    #[test]
    fn at_the_reference_the_probability_is_constant_and_elsewhere_the_integral_grows() {
        let mut pi = controller(&Config::default());
        update(&mut pi, 300);
        let p = update(&mut pi, 200);
        assert!(p > 0.0);
        assert_eq!(update(&mut pi, 200), p);
        let mut before = update(&mut pi, 201);
        for _ in 0..100 {
            let p = update(&mut pi, 201);
            assert!((p - before - (1.822e-5 - 1.816e-5)).abs() < 1e-15);
            before = p;
        }
    }

    #[test]
    fn bytes_count_as_packets_of_the_mean_size() {
        let bytes =
            Config { q_ref: Length::Bytes(100_000), limit: Length::Bytes(400_000), ..Config::default() };
        let (mut in_bytes, mut in_packets) = (controller(&bytes), controller(&Config::default()));
        for packets in [300, 250, 700, 0, 0, 220] {
            assert!((update(&mut in_bytes, packets) - update(&mut in_packets, packets)).abs() < 1e-15);
        }
    }

    #[test]
    fn the_probability_is_limited_to_zero_and_one() {
        let mut pi = controller(&Config { a: 0.4, b: 0.3, ..Config::default() });
        assert_eq!(update(&mut pi, 300), 1.0);
        assert_eq!(update(&mut pi, 0), 0.0);
    }

    #[test]
    fn skipping_updates_that_change_nothing_gives_the_same_state() {
        let queue = |packets| Backlog { packets, bytes: 0 };
        for packets in [0, 200, 800] {
            let pi = Config { a: 0.4, b: 0.3, ..Config::default() };
            let (mut often, mut once) = (controller(&pi), controller(&pi));
            for k in 1..=160_007 {
                often.catch_up(queue(packets), Instant::from_nanos(k * 625_000));
            }
            once.catch_up(queue(packets), Instant::from_nanos(160_007 * 625_000));
            assert_eq!((once.p, once.next_update, once.q_old), (often.p, often.next_update, often.q_old));
        }
    }

    #[test]
    fn missed_updates_are_processed_one_by_one() {
        let (mut often, mut seldom) = (controller(&Config::default()), controller(&Config::default()));
        let queue = |packets| Backlog { packets, bytes: 0 };
        for k in 1..=160 {
            often.catch_up(queue(450), Instant::from_nanos(k * 6_250_000));
        }
        seldom.catch_up(queue(450), Instant::from_nanos(1_000_000_000));
        assert_eq!(often.p, seldom.p);
        assert!(seldom.p > 0.006, "one second with 250 packets above the reference");
        let before = seldom.p;
        seldom.catch_up(queue(0), Instant::from_nanos(1_006_249_999));
        assert_eq!(seldom.p, before, "one nanosecond too early");
    }
}

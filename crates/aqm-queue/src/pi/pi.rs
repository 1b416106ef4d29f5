//! PI: a proportional-integral controller holds the queue at a reference.
//!
//! C. Hollot, V. Misra, D. Towsley, W. Gong, "On Designing Improved Controllers for AQM Routers
//! Supporting TCP Flows", IEEE INFOCOM 2001: every `interval`
//! `p = a (q - q_ref) - b (q_old - q_ref) + p_old`, with the queue itself and not its average. The integral
//! goes on until the queue is at `q_ref`, whatever `p` that takes.
//!
//! Defaults are the paper's example: 60 flows, 3750 packets a second, 246 ms. ns-2's own differ:
//! 170 updates a second, a `q_ref` and a `limit` of 50 packets.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Rng, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::start::{Start, first_instant};
use crate::{Build, Context, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// PI: a proportional-integral controller that moves the drop probability until the queue is at a
    /// reference length.
    ///
    /// Where the paper is silent, after `pi.cc` of ns-2:
    ///
    /// - The probability stays between 0 and 1, and begins at 0 with an empty queue.
    /// - The packet on the line is not in the queue. In bytes, the queue and `q_ref` count packets of the mean size.
    /// - Each packet is judged by itself: there is no count. A full queue refuses without asking chance.
    /// - An instant of the controller that meets an arrival or a departure comes first.
    pub struct Config {
        /// The queue to hold (`q_ref`). Its unit, packets or bytes, is the unit the queue is measured in.
        pub q_ref: Length = Length::Packets(200), "Hollot et al. 2001";
        /// Weight of the queue now, for each packet it is off `q_ref` (`a`).
        pub a: f64 = 1.822e-5, "Hollot et al. 2001";
        /// Weight of the queue at the update before (`b`); less than `a`, or nothing is integrated.
        pub b: f64 = 1.816e-5, "Hollot et al. 2001";
        /// Time from update to update of the probability (`1/w`).
        pub interval: Span = Span::from_nanos(6_250_000), "Hollot et al. 2001: 160 Hz";
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(800), "Hollot et al. 2001";
        /// Typical size of a packet: what `a` and `b` take for a packet if `q_ref` is in bytes, and the
        /// size that `scale_by_size` compares with.
        pub mean_packet: Size = Size::from_bytes(500), "ns-2";
        /// Whether the probability is multiplied by the size of a packet over `mean_packet`.
        pub scale_by_size: bool = false, "ns-2: `bytes_`";
        /// What happens to an ECN-capable packet that chance chose. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `setbit_`; the paper marks";
        /// Whether the controller has been running for long as a run begins (`settled`), or starts with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Whether a controller marks instead of dropping.
    pub enum EcnRule {
        /// Never.
        Off = "off",
        /// Unless the queue is full.
        Always = "always",
    }
}

/// The shortest interval: whoever returns after a long time must catch up with every one.
const SHORTEST: Span = Span::from_nanos(10_000);

impl Config {
    /// The running controller, for those who build on it; all checks made.
    pub(crate) fn running(&self) -> Result<Pi, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { q_ref, a, b, interval, limit, mean_packet, .. } = *self;
        errors.check(q_ref.count() > 0, "q_ref", "must be at least 1p or 1B");
        let is_positive = a > 0.0 && a.is_finite();
        errors.check(is_positive, "a", format_args!("must be above 0, not {a}"));
        let problem = format_args!("must be above 0 and below a, {a}, not {b}");
        errors.check(b > 0.0 && (b < a || !is_positive), "b", problem);
        errors.check(interval >= SHORTEST, "interval", format_args!("must be at least {SHORTEST}"));
        let is_met = limit.in_bytes() != q_ref.in_bytes() || limit.count() > q_ref.count();
        let remedy = "or the queue is full before it is where PI holds it";
        if limit.count() == 0 {
            errors.check(false, "limit", "must be at least 1p or 1B");
        } else {
            errors.check(is_met, "limit", format_args!("must exceed q_ref, {q_ref}, {remedy}"));
        }
        errors.check(mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
        let counts_bytes = q_ref.in_bytes() || self.scale_by_size;
        let condition = "with q_ref in packets and without scale_by_size";
        errors.check_effect(counts_bytes, self, &["mean_packet"], condition);
        errors.finish(())?;
        Ok(Pi {
            controller: Controller {
                unit: if q_ref.in_bytes() { mean_packet.bytes() as f64 } else { 1.0 },
                config: self.clone(),
                due: Instant::START + interval,
                p: 0.0,
                q_old: 0,
            },
            fifo: Fifo::new(limit),
        })
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.running()?))
    }
}

impl Describe for Config {}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        corners()
    }
}

/// A controller of a few packets that moves quickly; for those who build on it, too.
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

/// The running discipline.
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
        let Config { start, interval, .. } = self.controller.config;
        if start.is_settled() {
            self.controller.due = first_instant(interval, chance);
        }
    }
}

impl Report for Pi {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::number("probability", self.controller.p));
    }
}

impl Pi {
    /// Decides on a `packet` for which the probability is multiplied by `factor`, and carries it out.
    pub(crate) fn admit(&mut self, mut packet: Packet, factor: f64, cx: &mut Context<'_>) {
        self.controller.catch_up(self.fifo.backlog(), cx.now);
        if !self.fifo.has_room_for(&packet) {
            return cx.drop(packet, Reason::Overflow);
        }
        let Config { mean_packet, scale_by_size, ecn, .. } = self.controller.config;
        let size = if scale_by_size { f64::from(packet.bytes) / mean_packet.bytes() as f64 } else { 1.0 };
        let p = (self.controller.p * factor * size).min(1.0);
        if p > 0.0 && cx.rng.chance(p) {
            if ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop(packet, Reason::Early);
            }
            cx.mark(&mut packet, Reason::Early);
        }
        self.fifo.push(packet);
    }
}

/// The controller; it knows no queue.
#[derive(Clone)]
struct Controller {
    config: Config,
    /// What counts as one packet, in packets or bytes.
    unit: f64,
    /// The next update.
    due: Instant,
    p: f64,
    q_old: u64,
}

impl Controller {
    /// Makes the updates up to `now`, to which this `backlog` has stood unchanged.
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        if now < self.due {
            return;
        }
        let Config { a, b, q_ref, interval, .. } = self.config;
        let q = backlog.in_unit_of(q_ref);
        let off = |queue: u64| (queue as f64 - q_ref.count() as f64) / self.unit;
        while self.due <= now {
            let before = (self.p, self.q_old);
            self.p = (a * off(q) - b * off(self.q_old) + self.p).clamp(0.0, 1.0);
            self.q_old = q;
            self.due += interval;
            // Nothing moves any more.
            if (self.p, self.q_old) == before && self.due <= now {
                let missed = now.since(self.due).nanos() / interval.nanos();
                self.due += Span::from_nanos(interval.nanos() * (missed + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(config: &Config) -> Controller {
        config.running().unwrap().controller
    }

    /// The state after the next update, which finds so many packets.
    fn update(controller: &mut Controller, packets: u64) -> f64 {
        let due = controller.due;
        controller.catch_up(Backlog { packets: 0, bytes: 0 }, Instant::from_nanos(due.nanos() - 1));
        controller.catch_up(Backlog { packets, bytes: packets * 500 }, due);
        controller.p
    }

    #[test]
    fn the_probability_is_the_papers_difference_equation() {
        let mut pi = controller(&Config::default());
        let (a, b) = (1.822e-5, 1.816e-5);
        // By hand, from the empty queue on.
        let first = a * 100.0 + b * 200.0;
        assert!((update(&mut pi, 300) - first).abs() < 1e-15);
        let second = a * 200.0 - b * 100.0 + first;
        assert!((update(&mut pi, 400) - second).abs() < 1e-15);
        let third = a * -100.0 - b * 200.0 + second;
        assert!((update(&mut pi, 100) - third).abs() < 1e-15);
    }

    #[test]
    fn at_its_reference_nothing_moves_and_beside_it_the_integral_goes_on() {
        let mut pi = controller(&Config::default());
        update(&mut pi, 300);
        let held = update(&mut pi, 200);
        assert!(held > 0.0);
        assert_eq!(update(&mut pi, 200), held);
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
    fn the_probability_ends_at_nought_and_at_one() {
        let mut pi = controller(&Config { a: 0.4, b: 0.3, ..Config::default() });
        assert_eq!(update(&mut pi, 300), 1.0);
        assert_eq!(update(&mut pi, 0), 0.0);
    }

    #[test]
    fn what_does_not_move_any_more_is_as_if_every_update_had_been_made() {
        let queue = |packets| Backlog { packets, bytes: 0 };
        for packets in [0, 200, 800] {
            let pi = Config { a: 0.4, b: 0.3, ..Config::default() };
            let (mut often, mut once) = (controller(&pi), controller(&pi));
            for k in 1..=160_007 {
                often.catch_up(queue(packets), Instant::from_nanos(k * 625_000));
            }
            once.catch_up(queue(packets), Instant::from_nanos(160_007 * 625_000));
            assert_eq!((once.p, once.due, once.q_old), (often.p, often.due, often.q_old));
        }
    }

    #[test]
    fn missed_updates_are_made_up_one_by_one() {
        let (mut often, mut seldom) = (controller(&Config::default()), controller(&Config::default()));
        let queue = |packets| Backlog { packets, bytes: 0 };
        for k in 1..=160 {
            often.catch_up(queue(450), Instant::from_nanos(k * 6_250_000));
        }
        seldom.catch_up(queue(450), Instant::from_nanos(1_000_000_000));
        assert_eq!(often.p, seldom.p);
        assert!(seldom.p > 0.006, "a second at 250 too many");
        let before = seldom.p;
        seldom.catch_up(queue(0), Instant::from_nanos(1_006_249_999));
        assert_eq!(seldom.p, before, "an instant too early");
    }
}

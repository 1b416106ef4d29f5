//! AVQ: a virtual queue on a slower line marks what would not find room there, and its line adapts until the real one
//! is used as much as wished.
//!
//! S. Kunniyur, R. Srikant, "Analysis and Design of an Adaptive Virtual Queue (AVQ) Algorithm for Active Queue
//! Management", ACM SIGCOMM 2001. The router keeps a virtual queue whose capacity `C~` is at most the capacity `C` of
//! the line. It counts what would wait there, and marks (or drops) the packet that would overflow its buffer `B`.
//! The capacity follows `dC~/dt = alpha (gamma C - lambda)`, where `lambda` is the rate of arrivals: if more arrives than
//! `gamma C`, marking becomes more aggressive, and if less, less. At rest `lambda = gamma C`. The paper's pseudo-code is a
//! token bucket with one update for each arrival, at `t`, of a packet of `b` bytes, after the one before at `s`:
//!
//! - `VQ = max(VQ - C~ (t - s), 0)`;
//! - if `VQ + b > B`, mark the packet; else `VQ = VQ + b`;
//! - `C~ = max(min(C~ + alpha gamma C (t - s), C) - alpha b, 0)`; `s = t`.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, parameters};
use serde_json::{Value, json};

use crate::pi::pi::EcnRule;
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// AVQ: marks what would overflow a virtual queue, whose capacity adapts to a desired use of the line.
    ///
    /// Where the paper is silent, after `vq.cc` of ns-2:
    ///
    /// - The virtual capacity begins at `initial_capacity` of the line (`ecnlim_`), and its clock with the run; that of
    ///   ns-2 begins with the first packet.
    /// - The virtual buffer is the buffer of the real queue (`buflim_` of 1), in bytes: packets count as `mean_packet`.
    /// - A packet dropped because of the virtual queue does not count as an arrival: its bytes and the time since the
    ///   packet before are left to the next. In ns-2, too, the rate of what is admitted counts then.
    /// - A packet that is marked or dropped takes no room in the virtual queue. One that the real queue refuses for
    ///   want of room does: the virtual queue is asked first. With the default buffer this happens to packets of other
    ///   sizes than `mean_packet` only.
    /// - ns-2 adds up before it cuts the virtual capacity at that of the line. The paper cuts before it subtracts, and
    ///   so it is here.
    pub struct Config {
        /// The most that may wait, in packets or bytes; the packet on the line is not counted.
        pub limit: Length = Length::Packets(100), "Kunniyur & Srikant 2001";
        /// The desired utilisation: arrivals over what the line can carry.
        pub gamma: f64 = 0.98, "Kunniyur & Srikant 2001";
        /// How fast the virtual capacity adapts: by so much of the capacity a second, for each of the line's
        /// utilisation that is off `gamma`.
        pub alpha: f64 = 0.15, "Kunniyur & Srikant 2001";
        /// The buffer of the virtual queue; in packets, each counts alike whatever its size. Left out: that of the
        /// real one, in bytes.
        pub virtual_limit: Option<Length> = None, "ns-2: `buflim_`";
        /// The virtual capacity over that of the line as a run begins with `start = "fresh"`. Left out: 0.8.
        pub initial_capacity: Option<f64> = None, "ns-2: `ecnlim_`";
        /// Typical size of a packet: what a packet of `limit` takes in the virtual queue, and of what size the line
        /// carries packets if `virtual_limit` counts them.
        pub mean_packet: Size = Size::from_bytes(1000), "ns-2";
        /// What happens to an ECN-capable packet that finds no room in the virtual queue. Others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `markpkts_`; the paper marks";
        /// Whether the virtual capacity has risen to that of the line in an idle time before the run (`settled`), or begins
        /// at `initial_capacity`.
        pub start: Start = Start::Settled, "ours";
    }
}

/// ns-2's `ecnlim_`.
const INITIAL_CAPACITY: f64 = 0.8;

impl Config {
    /// `B`.
    fn buffer(&self) -> Length {
        let of_real = || match self.limit {
            Length::Packets(packets) => Length::Bytes(packets.saturating_mul(self.mean_packet.bytes())),
            bytes => bytes,
        };
        self.virtual_limit.unwrap_or_else(of_real)
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { limit, gamma, alpha, initial_capacity, mean_packet, .. } = *self;
        errors.check(limit.count() > 0, "limit", "must be at least 1p or 1B");
        let problem = format_args!("must be above 0 and at most 1, not {gamma}");
        errors.check(gamma > 0.0 && gamma <= 1.0, "gamma", problem);
        let problem = format_args!("must be above 0, not {alpha}");
        errors.check(alpha > 0.0 && alpha.is_finite(), "alpha", problem);
        if let Some(share) = initial_capacity {
            let problem = format_args!("must be from 0 to 1, not {share}");
            errors.check((0.0..=1.0).contains(&share), "initial_capacity", problem);
        }
        errors.check_effect(
            !self.start.is_settled(),
            self,
            &["initial_capacity"],
            "with start = \"settled\"",
        );
        errors.check(mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
        let counts_packets = match self.virtual_limit {
            Some(buffer) => !buffer.in_bytes(),
            None => !limit.in_bytes(),
        };
        errors.check_effect(counts_packets, self, &["mean_packet"], "with limits in bytes");
        let has_room = self.virtual_limit.is_none_or(|buffer| buffer.count() > 0);
        errors.check(has_room, "virtual_limit", "must be at least 1p or 1B");
        errors.finish(())?;
        let buffer = self.buffer();
        let unit = if buffer.in_bytes() { 1.0 } else { mean_packet.bytes() as f64 };
        let line = rate.bytes_per_second() / unit;
        let virtual_queue = VirtualQueue {
            line,
            gamma,
            alpha,
            buffer,
            capacity: if self.start.is_settled() {
                line
            } else {
                initial_capacity.unwrap_or(INITIAL_CAPACITY) * line
            },
            length: 0.0,
            drained: Instant::START,
            counted: Instant::START,
        };
        Ok(Box::new(Avq { ecn: self.ecn, virtual_queue, fifo: Fifo::new(limit) }))
    }
}

impl Describe for Config {
    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let buffer = self.buffer();
        let unit = if buffer.in_bytes() { "bytes" } else { "packets" };
        let told = || Derived::new("virtual_limit", buffer.count() as f64, unit);
        self.virtual_limit.is_none().then(told).into_iter().collect()
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "24p", "virtual_limit": "3kB", "alpha": 5.0, "gamma": 0.5, "ecn": "always"}),
            json!({"limit": "24p", "virtual_limit": "4p", "alpha": 100.0, "initial_capacity": 0.0, "start": "fresh"}),
            json!({
                "limit": "9kB", "alpha": 0.01, "initial_capacity": 1.0, "gamma": 1.0, "ecn": "always", "start": "fresh",
            }),
            json!({"limit": "5001B", "virtual_limit": "1B", "alpha": 1.0}),
        ]
    }
}

/// The running discipline.
#[derive(Clone)]
struct Avq {
    ecn: EcnRule,
    virtual_queue: VirtualQueue,
    fifo: Fifo,
}

impl QueueDiscipline for Avq {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        let size = if self.virtual_queue.buffer.in_bytes() { f64::from(packet.bytes) } else { 1.0 };
        if !self.virtual_queue.admits(size, cx.now) {
            if self.ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop(packet, Reason::Early);
            }
            // Of a packet that finds no room either only its drop is told.
            if self.fifo.has_room_for(&packet) {
                cx.mark(&mut packet, Reason::Early);
            }
        }
        self.virtual_queue.adapt(size, cx.now);
        if !self.fifo.has_room_for(&packet) {
            return cx.drop(packet, Reason::Overflow);
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for Avq {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        let VirtualQueue { buffer, length, capacity, line, .. } = self.virtual_queue;
        show(Gauge::length("virtual_queue", length, buffer));
        show(Gauge::number("virtual_capacity", capacity / line));
    }
}

/// The queue that nothing waits in; it counts packets or bytes.
#[derive(Clone)]
struct VirtualQueue {
    /// `C`, in packets or bytes a second.
    line: f64,
    gamma: f64,
    alpha: f64,
    /// `B`.
    buffer: Length,
    /// `C~`.
    capacity: f64,
    /// `VQ`, as it was at `drained`.
    length: f64,
    /// The last arrival.
    drained: Instant,
    /// The last arrival that counted to the capacity (`s`).
    counted: Instant,
}

impl VirtualQueue {
    /// What has left since the arrival before has left; whether a packet of this size has room now, and if so, it
    /// joins.
    #[inline]
    fn admits(&mut self, size: f64, now: Instant) -> bool {
        self.length = (self.length - self.capacity * now.since(self.drained).seconds()).max(0.0);
        self.drained = now;
        let joined = self.length + size;
        let has_room = joined <= self.buffer.count() as f64;
        if has_room {
            self.length = joined;
        }
        has_room
    }

    /// The capacity after an arrival of this size.
    #[inline]
    fn adapt(&mut self, size: f64, now: Instant) {
        let Self { line, gamma, alpha, .. } = *self;
        let passed = now.since(self.counted).seconds();
        self.counted = now;
        let grown = (self.capacity + alpha * gamma * line * passed).min(line);
        self.capacity = (grown - alpha * size).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Parameter;

    use super::*;
    use crate::testing::{Driver, Fates, ect, packet};

    fn avq(table: Value) -> Driver {
        let mut table = table;
        table["kind"] = json!("avq");
        table["start"] = json!("fresh");
        Driver::new(table, 1)
    }

    fn at(driver: &mut Driver, seconds: f64) {
        driver.now = Instant::from_nanos((seconds * 1e9 + 0.5) as u64);
    }

    fn capacity(driver: &Driver) -> f64 {
        driver.gauge("virtual_capacity")
    }

    #[test]
    fn an_arrival_is_the_papers_token_bucket_by_hand() {
        // The line carries 1.25 MB/s; the virtual queue begins with 1 MB/s and holds 2500 bytes.
        let mut avq = avq(json!({"virtual_limit": "2500B", "alpha": 0.2, "gamma": 0.9, "ecn": "always"}));
        let mut expected = [0.0, 1e6];
        for (seconds, bytes, is_marked) in
            [(0.001, 1000, false), (0.0015, 1500, false), (0.0016, 1000, true), (0.0036, 800, false)]
        {
            let passed = seconds - avq.now.seconds();
            at(&mut avq, seconds);
            assert_eq!(avq.offer(ect(bytes)), is_marked, "at {seconds}");
            let [length, capacity] = expected;
            let left = f64::max(length - capacity * passed, 0.0);
            let b = f64::from(bytes);
            expected = [
                if is_marked { left } else { left + b },
                (capacity + 0.2 * 0.9 * 1.25e6 * passed).min(1.25e6) - 0.2 * b,
            ];
            assert!((avq.gauge("virtual_queue") - expected[0]).abs() < 1e-6, "{expected:?}");
            assert!((super::tests::capacity(&avq) * 1.25e6 - expected[1]).abs() < 1e-6, "{expected:?}");
        }
    }

    #[test]
    fn under_a_steady_load_the_capacity_follows_its_differential_equation() {
        // `C~ = C (0.8 + alpha (gamma - load) t)`, from nought to the line.
        for (load, seconds) in [(0.5, 2.0), (0.98, 20.0), (1.2, 10.0), (1.5, 30.0), (0.2, 30.0)] {
            let mut avq = avq(json!({"limit": "1000000p", "virtual_limit": "1000000p", "alpha": 0.15}));
            let gap = 0.0008 / load;
            let packets = (seconds / gap) as u32;
            for k in 1..=packets {
                at(&mut avq, f64::from(k) * gap);
                avq.offer(packet(1000));
            }
            let expected = (0.8 + 0.15 * (0.98 - load) * seconds).clamp(0.0, 1.0);
            assert!((capacity(&avq) - expected).abs() < 0.0005, "{load}: {} {expected}", capacity(&avq));
        }
    }

    /// Sources that yield, many of them: together they send a hundredth less after a mark, and a little more after each
    /// packet. Told is the mean rate of their packets of 1000 bytes over the line's, and the mean backlog, from 50 s to
    /// 120 s.
    fn elastic(mut avq: Driver) -> (f64, f64) {
        let (mut rate, mut next, mut free_at) = (500.0, 0.0, 0.0);
        let (mut sent, mut backlog) = (0.0, 0.0);
        while next < 120.0 {
            while free_at <= next && avq.queue.backlog().packets > 0 {
                at(&mut avq, free_at);
                avq.take();
                free_at += 0.0008;
            }
            if avq.queue.backlog().packets == 0 {
                free_at = f64::max(free_at, next);
            }
            at(&mut avq, next);
            avq.fates = Fates::default();
            let is_marked = avq.offer(ect(1000));
            rate = if is_marked { rate * 0.99 } else { rate + 0.2 };
            if next > 50.0 {
                sent += 1.0;
                backlog += avq.queue.backlog().packets as f64;
            }
            next += 1.0 / rate;
        }
        (sent / 70.0 / 1250.0, backlog / sent)
    }

    #[test]
    fn at_rest_as_much_arrives_as_gamma_says() {
        for gamma in [0.98, 0.9, 0.7] {
            let table = json!({"gamma": gamma, "ecn": "always", "limit": "100p", "virtual_limit": "20kB"});
            let (utilisation, backlog) = elastic(avq(table));
            assert!((utilisation - gamma).abs() < 0.01, "{gamma}: {utilisation}");
            assert!(backlog < 15.0, "{gamma}: {backlog}");
        }
    }

    #[test]
    fn arrivals_and_capacity_balance_exactly() {
        // As long as the capacity meets neither end: what it has lost is alpha times what came beyond gamma.
        let mut avq = avq(json!({"limit": "1000000p", "alpha": 0.15, "ecn": "always"}));
        let (mut seconds, mut bytes) = (0.0, 0.0);
        for k in 0..20_000_u32 {
            let size = [64, 700, 1500][(k % 3) as usize];
            seconds += f64::from(k * 7919 % 1000) * 0.5e-6 + 0.0003;
            bytes += f64::from(size);
            at(&mut avq, seconds);
            avq.offer(ect(size));
            let now = avq.now.seconds();
            let expected = 0.8 + 0.15 * (0.98 * now - bytes / 1.25e6);
            assert!(expected > 0.0 && expected < 1.0, "{expected}");
            assert!((capacity(&avq) - expected).abs() < 1e-6, "{k}: {} {expected}", capacity(&avq));
        }
    }

    #[test]
    fn what_is_dropped_for_the_virtual_queues_sake_is_no_arrival() {
        let mut avq = avq(json!({"virtual_limit": "1p", "alpha": 0.1, "mean_packet": "1000B"}));
        at(&mut avq, 0.01);
        assert!(!avq.offer(packet(1000)));
        let before = capacity(&avq);
        // 0.0001 s later the virtual queue still holds it.
        at(&mut avq, 0.0101);
        assert!(avq.offer(packet(1000)));
        assert_eq!((capacity(&avq), avq.fates.counts.early), (before, 1));
        // The time since the admitted one counts with the next.
        at(&mut avq, 0.02);
        assert!(!avq.offer(packet(1000)));
        let expected = before + 0.1 * 0.98 * 0.01 - 0.1 / 1250.0;
        assert!((capacity(&avq) - expected).abs() < 1e-12, "{} {expected}", capacity(&avq));
    }

    #[test]
    fn the_virtual_buffer_is_the_real_one_unless_said_otherwise() {
        let of = |table: Value| Config::read(table).unwrap().derived(Rate::default());
        assert_eq!(of(json!({})), [Derived::new("virtual_limit", 100_000.0, "bytes")]);
        assert_eq!(of(json!({"limit": "30kB"})), [Derived::new("virtual_limit", 30_000.0, "bytes")]);
        assert_eq!(of(json!({"virtual_limit": "7p"})), []);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (table, place) in [
            (json!({"limit": "0p"}), "limit"),
            (json!({"gamma": 1.1}), "gamma"),
            (json!({"alpha": 0.0}), "alpha"),
            (json!({"initial_capacity": 2.0, "start": "fresh"}), "initial_capacity"),
            (json!({"initial_capacity": 0.8}), "initial_capacity"),
            (json!({"virtual_limit": "0B"}), "virtual_limit"),
            (json!({"mean_packet": "0B", "virtual_limit": "9p"}), "mean_packet"),
        ] {
            let errors = Config::read(table).unwrap().build(Rate::default()).err().expect("it is wrong");
            assert!(errors.iter().count() == 1 && errors.iter().all(|error| error.place == place), "{place}");
        }
    }
}

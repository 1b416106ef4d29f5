//! AVQ: marks packets that would overflow a virtual queue. The virtual queue drains at a virtual rate, which adapts
//! until the utilisation of the real link reaches a target.
//!
//! S. Kunniyur, R. Srikant, "Analysis and Design of an Adaptive Virtual Queue (AVQ) Algorithm for Active Queue
//! Management", ACM SIGCOMM 2001. The router has a virtual queue whose capacity `C~` is at most the capacity `C` of the
//! link. The router computes the backlog of this virtual queue, and marks (or drops) a packet that would overflow the
//! virtual buffer `B`. The capacity follows `dC~/dt = alpha (gamma C - lambda)`, where `lambda` is the arrival rate:
//! marking becomes more aggressive while `lambda` is above `gamma C`, and less aggressive while `lambda` is below
//! `gamma C`. In equilibrium, `lambda = gamma C`. The paper's pseudocode is a token bucket that is updated once per
//! arrival. If a packet of `b` bytes arrives at time `t`, and the previous packet arrived at time `s`, the update is:
//!
//! - `VQ = max(VQ - C~ (t - s), 0)`;
//! - if `VQ + b > B`, mark the packet; else `VQ = VQ + b`;
//! - `C~ = max(min(C~ + alpha gamma C (t - s), C) - alpha b, 0)`; `s = t`.
//!
//! The documentation of [`Config`], which is part of the reference, lists the choices that aqmlab makes where the paper
//! is silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Instant, Length, Packet, Rate, Size, parameters};
use serde_json::{Value, json};

use crate::pi::selection::EcnRule;
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Fifo, Gauge, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// AVQ: marks packets that would overflow a virtual queue, whose capacity adapts until the link reaches its target
    /// utilisation.
    ///
    /// Where the paper is silent, aqmlab follows ns-2's `vq.cc`. The details and exceptions are:
    ///
    /// - The initial virtual capacity is `initial_capacity` times the link rate (`ecnlim_`). In aqmlab, the capacity
    ///   adapts from the start of the run, whereas in ns-2, the capacity does not adapt until the first packet arrives.
    /// - By default, the virtual buffer is as large as the real buffer (`buflim_` of 1), in bytes. If `limit` is in
    ///   packets, each packet counts as `mean_packet`.
    /// - A packet that is dropped because of the virtual queue does not count as an arrival and does not change the
    ///   virtual capacity. When the next packet that counts arrives, the capacity is updated for the whole time since
    ///   the arrival of the previous packet that counted. As in ns-2, the capacity therefore adapts to the rate of
    ///   admitted packets.
    /// - A packet that is marked or dropped because of the virtual queue does not join the virtual queue. A packet that
    ///   is dropped because the real queue is full has already joined the virtual queue, because the virtual queue is
    ///   checked first. With the default virtual buffer, the real queue can overflow before the virtual queue only if
    ///   packet sizes differ from `mean_packet`.
    /// - ns-2 adds the increase and the decrease before it limits the virtual capacity to the link rate. The paper and
    ///   aqmlab limit the capacity after the increase and before the decrease.
    pub struct Config {
        /// Maximum backlog in packets or bytes, not counting the packet in transmission.
        pub limit: Length = Length::Packets(100), "Kunniyur & Srikant 2001";
        /// Target utilisation: ratio of the arrival rate to the link rate.
        pub gamma: f64 = 0.98, "Kunniyur & Srikant 2001";
        /// Speed at which the virtual capacity adapts: in each second, the capacity changes by `alpha` times the link
        /// rate times the difference between the utilisation and `gamma`.
        pub alpha: f64 = 0.15, "Kunniyur & Srikant 2001";
        /// Buffer size of the virtual queue. If the value is in packets, the virtual queue counts packets regardless of
        /// size. Default: the size of the real buffer in bytes.
        pub virtual_limit: Option<Length> = None, "ns-2: `buflim_`";
        /// With `start = "fresh"`: ratio of the initial virtual capacity to the link rate. Default: 0.8.
        pub initial_capacity: Option<f64> = None, "ns-2: `ecnlim_`";
        /// Typical packet size, used to convert a `limit` in packets to a virtual buffer in bytes. If `virtual_limit`
        /// is in packets, the typical size is used to convert the link rate to packets per second.
        pub mean_packet: Size = Size::from_bytes(1000), "ns-2";
        /// Treatment of an ECN-capable packet that would overflow the virtual queue. Other packets are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: `markpkts_`; in the paper, packets are marked";
        /// State of the queue at the start of the run. `settled`: the virtual capacity is the link rate, as after a
        /// long idle period. `fresh`: the virtual capacity is `initial_capacity` times the link rate.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

/// Default of `initial_capacity`: the default of `ecnlim_` in ns-2.
const INITIAL_CAPACITY: f64 = 0.8;

impl Config {
    /// Returns the size of the virtual buffer (`B`).
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
        errors.check(limit.count() > 0, "limit", format_args!("must be at least 1p or 1B (got {limit})"));
        let problem = format_args!("must be above 0 and at most 1 (got {gamma})");
        errors.check(gamma > 0.0 && gamma <= 1.0, "gamma", problem);
        let problem = format_args!("must be above 0 (got {alpha})");
        errors.check(alpha > 0.0 && alpha.is_finite(), "alpha", problem);
        if let Some(share) = initial_capacity {
            let problem = format_args!("must be from 0 to 1 (got {share})");
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
        let link_rate = rate.bytes_per_second() / unit;
        let virtual_queue = VirtualQueue {
            link_rate,
            gamma,
            alpha,
            buffer,
            capacity: if self.start.is_settled() {
                link_rate
            } else {
                initial_capacity.unwrap_or(INITIAL_CAPACITY) * link_rate
            },
            length: 0.0,
            drained_at: Instant::START,
            adapted_at: Instant::START,
        };
        Ok(Box::new(Avq { ecn: self.ecn, virtual_queue, fifo: Fifo::new(limit) }))
    }
}

impl Describe for Config {
    fn derived(&self, _rate: Rate) -> Vec<Derived> {
        let buffer = self.buffer();
        let unit = if buffer.in_bytes() { "bytes" } else { "packets" };
        let derived = || Derived::new("virtual_limit", buffer.count() as f64, unit);
        self.virtual_limit.is_none().then(derived).into_iter().collect()
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

/// An AVQ queue: the parameters, the virtual queue and the packets.
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
            // If the real queue has no room for the packet either, the drop is reported, but no mark.
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
        let VirtualQueue { buffer, length, capacity, link_rate, .. } = self.virtual_queue;
        show(Gauge::length("virtual_queue", length, buffer));
        show(Gauge::number("virtual_capacity", capacity / link_rate));
    }
}

/// The virtual queue, which counts packets or bytes and stores no packets.
#[derive(Clone)]
struct VirtualQueue {
    /// Link rate in packets or bytes per second (`C`).
    link_rate: f64,
    gamma: f64,
    alpha: f64,
    /// Size of the virtual buffer (`B`).
    buffer: Length,
    /// Virtual capacity in packets or bytes per second (`C~`).
    capacity: f64,
    /// Virtual backlog at time `drained_at` (`VQ`).
    length: f64,
    /// Time of the last arrival.
    drained_at: Instant,
    /// Time of the last arrival that changed the capacity (`s`).
    adapted_at: Instant,
}

impl VirtualQueue {
    /// Drains the virtual queue up to `now`. If the virtual queue has room for a packet of this size, adds the packet
    /// and returns `true`.
    #[inline]
    fn admits(&mut self, size: f64, now: Instant) -> bool {
        self.length = (self.length - self.capacity * now.since(self.drained_at).seconds()).max(0.0);
        self.drained_at = now;
        let length = self.length + size;
        let has_room = length <= self.buffer.count() as f64;
        if has_room {
            self.length = length;
        }
        has_room
    }

    /// Updates the virtual capacity after the arrival of a packet of this size.
    #[inline]
    fn adapt(&mut self, size: f64, now: Instant) {
        let Self { link_rate, gamma, alpha, .. } = *self;
        let elapsed = now.since(self.adapted_at).seconds();
        self.adapted_at = now;
        let increased = (self.capacity + alpha * gamma * link_rate * elapsed).min(link_rate);
        self.capacity = (increased - alpha * size).max(0.0);
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
    fn an_arrival_follows_the_papers_token_bucket_calculated_by_hand() {
        // The link rate is 1.25 MB/s. The initial virtual capacity is 1 MB/s, and the virtual buffer is 2500 bytes.
        let mut avq = avq(json!({"virtual_limit": "2500B", "alpha": 0.2, "gamma": 0.9, "ecn": "always"}));
        let mut expected = [0.0, 1e6];
        for (seconds, bytes, is_marked) in
            [(0.001, 1000, false), (0.0015, 1500, false), (0.0016, 1000, true), (0.0036, 800, false)]
        {
            let elapsed = seconds - avq.now.seconds();
            at(&mut avq, seconds);
            assert_eq!(avq.offer(ect(bytes)), is_marked, "at {seconds}");
            let [length, capacity] = expected;
            let left = f64::max(length - capacity * elapsed, 0.0);
            let b = f64::from(bytes);
            expected = [
                if is_marked { left } else { left + b },
                (capacity + 0.2 * 0.9 * 1.25e6 * elapsed).min(1.25e6) - 0.2 * b,
            ];
            assert!((avq.gauge("virtual_queue") - expected[0]).abs() < 1e-6, "{expected:?}");
            assert!((super::tests::capacity(&avq) * 1.25e6 - expected[1]).abs() < 1e-6, "{expected:?}");
        }
    }

    #[test]
    fn under_a_steady_load_the_capacity_follows_its_differential_equation() {
        // `C~ = C (0.8 + alpha (gamma - load) t)`, limited to the range from zero to the link rate.
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

    /// Simulates many responsive sources, whose total rate falls by 1 % after a mark and rises slightly after each
    /// packet. Each packet is 1000 bytes long. Returns the ratio of the mean sending rate to the link rate, and the
    /// mean backlog; both means are taken over the time from 50 s to 120 s.
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
    fn in_equilibrium_the_utilisation_is_gamma() {
        for gamma in [0.98, 0.9, 0.7] {
            let table = json!({"gamma": gamma, "ecn": "always", "limit": "100p", "virtual_limit": "20kB"});
            let (utilisation, backlog) = elastic(avq(table));
            assert!((utilisation - gamma).abs() < 0.01, "{gamma}: {utilisation}");
            assert!(backlog < 15.0, "{gamma}: {backlog}");
        }
    }

    #[test]
    fn arrivals_and_capacity_balance_exactly() {
        // While the virtual capacity is within its limits, the virtual capacity decreases by `alpha` times the number
        // of bytes by which arrivals exceed `gamma` times the link rate.
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
    fn a_packet_dropped_because_of_the_virtual_queue_does_not_count_as_an_arrival() {
        let mut avq = avq(json!({"virtual_limit": "1p", "alpha": 0.1, "mean_packet": "1000B"}));
        at(&mut avq, 0.01);
        assert!(!avq.offer(packet(1000)));
        let before = capacity(&avq);
        // After another 0.0001 s, the packet is still in the virtual queue.
        at(&mut avq, 0.0101);
        assert!(avq.offer(packet(1000)));
        assert_eq!((capacity(&avq), avq.fates.counts.early), (before, 1));
        // When the next packet is admitted, the capacity is updated for the time since the last packet was admitted.
        at(&mut avq, 0.02);
        assert!(!avq.offer(packet(1000)));
        let expected = before + 0.1 * 0.98 * 0.01 - 0.1 / 1250.0;
        assert!((capacity(&avq) - expected).abs() < 1e-12, "{} {expected}", capacity(&avq));
    }

    #[test]
    fn the_virtual_buffer_is_by_default_the_real_one() {
        let of = |table: Value| Config::read(table).unwrap().derived(Rate::default());
        assert_eq!(of(json!({})), [Derived::new("virtual_limit", 100_000.0, "bytes")]);
        assert_eq!(of(json!({"limit": "30kB"})), [Derived::new("virtual_limit", 30_000.0, "bytes")]);
        assert_eq!(of(json!({"virtual_limit": "7p"})), []);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for (table, path) in [
            (json!({"limit": "0p"}), "limit"),
            (json!({"gamma": 1.1}), "gamma"),
            (json!({"alpha": 0.0}), "alpha"),
            (json!({"initial_capacity": 2.0, "start": "fresh"}), "initial_capacity"),
            (json!({"initial_capacity": 0.8}), "initial_capacity"),
            (json!({"virtual_limit": "0B"}), "virtual_limit"),
            (json!({"mean_packet": "0B", "virtual_limit": "9p"}), "mean_packet"),
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

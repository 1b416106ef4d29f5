//! fq: flows take turns, those that have just begun to send first, and each may be paced.
//!
//! `net/sched/sch_fq.c` of Linux 6.1 and 6.18 (E. Dumazet, 2013 on), in the words of the command `tc`:
//! - A flow is a socket, and begins with a credit of `initial_quantum`. Packets without a socket (`orphans`) are hashed
//!   into `orphan_mask` and one flows.
//! - What arrives is refused if `limit` packets wait, or `flow_limit` of its flow.
//! - A flow that gets a packet and is in no list joins that of the new flows. If it has been in none for longer than
//!   `refill_delay`, its credit is a quantum at least; but what it owes it still owes, for the kernel compares without
//!   signs.
//! - The first of the new flows is served, without any the first of the old ones. Whose credit is not above nought gets
//!   a quantum and goes to the end of the old ones. A flow that turns out to be empty goes, if it is new and there are
//!   old ones, to the end of these; otherwise it leaves the lists. With nothing waiting at all nobody is looked at.
//! - Pacing, by `maxrate`: a flow whose credit is spent rests for as long as what it sent last, or a quantum if that is
//!   more, takes at that rate; at most a second (`pkts_too_long`). If it sent late, it rests for less by so much, but for
//!   half at least. At `low_rate_threshold` or less every packet spends all credit. Who would send before the rest is
//!   over is throttled: out of the lists until then, and back at the end of the old ones.
//! - A packet that leaves later by more than `ce_threshold` than it came, or than its pace allowed, is marked if it can
//!   be; `ce_mark` counts it in any case.
//! - Idle flows are remembered. If there are two for each of `buckets`, and more than half of all are idle, an arrival
//!   makes up to eight forgotten that have been so for more than three seconds, but not its own.
//!
//! Since Linux 6.7 (profile `6.18`):
//! - There are three bands of flows (`bands.rs`), by the priority of packets. A band sends until its weight in bytes is
//!   spent, then the next one has its turn. `limit` is that of a band. A flow that was never seen joins the new flows of
//!   the first band, whatever its packet's, for the kernel notes the band only afterwards; then it is in its own.
//! - Packets that find nothing waiting, or nothing but up to seven such packets, pass on the fast path, a queue of their
//!   own that goes first: without a flow, a band, credit or a mark. With `maxrate` there is no fast path.
//! - A new flow that turns out to be empty always goes to the end of the old ones.
//! - Any arrival makes up to eight flows of its bucket forgotten that have been idle for more than three seconds.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

mod bands;
mod scheduler;

use std::ops::RangeInclusive;

use aqm_net::{ConfigErrors, ErrorCollector, Length, Rate, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::fair::classifier::Classifier;
use crate::{Build, Describe, QueueDiscipline, TestCases};
use bands::BANDS;
use scheduler::{FAST_PATH, Fq, Pace};

parameters! {
    /// The kernel's fq: flows take turns, those that have just begun to send first, and each is paced if it has a rate.
    ///
    /// As Linux has it on the line of a sender. Our senders set no pacing rates and no departure times, so a flow is
    /// paced by `maxrate` alone.
    ///
    /// Differences from Linux:
    ///
    /// - Packets bring no pacing rate of their sender (`sk_pacing_rate`), which the kernel takes if it is less than
    ///   `maxrate`. So without `maxrate` nothing is paced.
    /// - Packets bring no time at which they are to leave (`SO_TXTIME`; TCP of the kernel sets one on each), so
    ///   `horizon` and `horizon_drop` would never act. A flow is paced as packets without a departure time are, those
    ///   of UDP and those that are forwarded. Packets with one rest after each packet, at high rates, too.
    /// - Control packets (`TC_PRIO_CONTROL`), which pass all flows by in Linux 6.1 (`highprio`), do not exist: only a
    ///   local program makes one, by `SO_PRIORITY`.
    /// - Each connection is a socket. A router that forwards for others has `orphans` only, told apart by a hash over
    ///   the number of the flow and a salt from the random stream of the queue.
    /// - The flows that are forgotten are the idlest, since Linux 6.7 the first of the bucket. In the kernel they are those
    ///   that the search for a flow meets in the tree of its bucket.
    /// - Times are exact. The kernel counts `refill_delay` and idle times in ticks of its clock.
    /// - Since Linux 6.7 the priority of a packet is that which forwarding gives it by its code point. Programs that set
    ///   another (`SO_PRIORITY`) do not exist.
    /// - `offload_horizon` does not exist: the kernel refuses it unless the device paces packets itself, and lines do not.
    pub struct Config {
        /// Whose fq this is.
        pub kernel: Kernel = Kernel::Linux61, "ours: as `linux-red`";
        /// The most packets that may wait, all flows together, since Linux 6.7 those of a band; the packet on the line is
        /// not counted.
        pub limit: Length = Length::Packets(10_000), "tc-fq";
        /// The most packets that may wait of a flow.
        pub flow_limit: Length = Length::Packets(100), "tc-fq";
        /// Bytes that a turn is worth.
        pub quantum: Size = Size::from_bytes(3028), "tc-fq: two full packets of Ethernet";
        /// Bytes that the first turn of a flow is worth.
        pub initial_quantum: Size = Size::from_bytes(15_140), "tc-fq: ten full packets of Ethernet";
        /// Whether flows are paced.
        pub pacing: bool = true, "tc-fq";
        /// The rate of each flow at most. Left out: none is paced.
        pub maxrate: Option<Rate> = None, "tc-fq";
        /// The `maxrate` up to which every packet is spaced; beyond, those that a turn is worth leave together.
        pub low_rate_threshold: Rate = Rate::from_bps(550_000), "tc-fq";
        /// The time without packets after which a flow has credit for a turn.
        pub refill_delay: Span = Span::from_millis(40), "tc-fq";
        /// Packets that leave later by more than this than they might have are marked if they can be. Left out: none
        /// are.
        pub ce_threshold: Option<Span> = None, "tc-fq";
        /// Whether packets come from elsewhere, as in a router, and have no socket: flows are hashed.
        pub orphans: bool = false, "ours: the line of a sender";
        /// The bits of the hash by which `orphans` are told apart: 1023 for 1024 flows.
        pub orphan_mask: u32 = 1023, "tc-fq";
        /// Half the flows that are remembered at least, idle ones too; rounded up to a power of two. Since Linux 6.7 the
        /// buckets of which an arrival looks at one for flows to forget.
        pub buckets: u32 = 1024, "tc-fq";
        /// How much later than at the end of a rest the timer may go off that ends it. It does so as late as that, unless a
        /// packet arrives before.
        pub timer_slack: Span = Span::from_nanos(10_000), "tc-fq";
        /// The band of each of the 16 priorities, of which the code point chooses one: 0 best effort, 2 bulk, 4 interactive
        /// bulk, 6 interactive.
        pub priomap: Vec<u32> = bands::priomap(), "tc-fq, since Linux 6.7";
        /// The bytes that a turn of each band is worth.
        pub weights: Vec<u32> = bands::weights(), "tc-fq, since Linux 6.7";
    }
}

choices! {
    /// Kernels between which fq has changed.
    pub enum Kernel {
        /// Linux 6.1: one band.
        Linux61 = "6.1",
        /// Linux 6.18, since 6.7: bands and a fast path.
        Linux618 = "6.18",
    }
}

/// The greatest quantum that the kernel takes, and the greatest credit that it can count.
const QUANTA: RangeInclusive<u64> = 1..=1 << 20;
const CREDITS: RangeInclusive<u64> = 0..=i32::MAX as u64;
/// The most buckets.
const MOST_BUCKETS: u32 = 1 << 18;
/// The bytes per second that the kernel can be told; the greatest number is no rate.
const RATES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;

impl Config {
    fn buckets(&self) -> u32 {
        self.buckets.clamp(2, MOST_BUCKETS).next_power_of_two()
    }
}

/// As the kernel is told it.
fn bytes_per_second(rate: Rate) -> u64 {
    rate.bps() / 8
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (place, length) in [("limit", self.limit), ("flow_limit", self.flow_limit)] {
            let is_right = !length.in_bytes() && length.count() > 0;
            errors.check(is_right, place, "must be at least 1p, and in packets");
        }
        let low_rate = bytes_per_second(self.low_rate_threshold);
        let problem = format_args!("must be at most {}bps", u64::from(u32::MAX) * 8);
        errors.check(u32::try_from(low_rate).is_ok(), "low_rate_threshold", problem);
        let problem = format_args!("must be from 1B to {}B, not {}", QUANTA.end(), self.quantum);
        errors.check(QUANTA.contains(&self.quantum.bytes()), "quantum", problem);
        let problem = format_args!("must be at most {}B", CREDITS.end());
        errors.check(CREDITS.contains(&self.initial_quantum.bytes()), "initial_quantum", problem);
        if let Some(rate) = self.maxrate {
            let problem = format_args!("must be from 8bps to {}bps, not {rate}", RATES.end() * 8);
            errors.check(RATES.contains(&bytes_per_second(rate)), "maxrate", problem);
        }
        errors.check_effect(self.pacing, self, &["maxrate"], "without pacing");
        let of_paced = ["low_rate_threshold", "timer_slack"];
        errors.check_effect(self.maxrate.is_some(), self, &of_paced, "without maxrate");
        let problem = "must be at most 4294967295ns";
        errors.check(u32::try_from(self.timer_slack.nanos()).is_ok(), "timer_slack", problem);
        bands::check(&self.priomap, &self.weights, &mut errors);
        let has_bands = self.kernel == Kernel::Linux618;
        errors.check_effect(has_bands, self, &["priomap", "weights"], "before Linux 6.7");
        let is_low = self.maxrate.is_some_and(|rate| bytes_per_second(rate) <= low_rate);
        errors.check_effect(!is_low, self, &["quantum"], "with maxrate up to low_rate_threshold");
        errors.check_effect(self.orphans, self, &["orphan_mask"], "without orphans");
        let problem = format_args!("must be from 2 to {MOST_BUCKETS}, not {}", self.buckets);
        errors.check((2..=MOST_BUCKETS).contains(&self.buckets), "buckets", problem);
        errors.finish(())?;
        let pace = self.maxrate.map(bytes_per_second).map(|rate| Pace { rate, is_low: rate <= low_rate });
        // Any number of 32 bits, of which the mask takes some.
        let hash = self.orphans.then(|| Classifier::new(Some(u32::MAX), None)).transpose()?;
        let orphans = hash.map(|hash| (hash, self.orphan_mask));
        Ok(match self.kernel {
            Kernel::Linux61 => Box::new(Fq::<1>::new(self, orphans, pace)),
            Kernel::Linux618 => Box::new(Fq::<BANDS>::new(self, orphans, pace)),
        })
    }
}

impl Describe for Config {
    fn holds_back(&self) -> bool {
        self.maxrate.is_some()
    }

    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let micros = |span: Span| span.nanos() / 1000;
        let mut options = json!({
            "kind": "fq", "limit": self.limit.count(), "flow_limit": self.flow_limit.count(),
            "buckets": self.buckets(), "orphan_mask": self.orphan_mask, "quantum": self.quantum.bytes(),
            "initial_quantum": self.initial_quantum.bytes(), "refill_delay": micros(self.refill_delay),
            "timer_slack": self.timer_slack.nanos(), "horizon": 10_000_000, "horizon_drop": null,
        });
        if self.kernel == Kernel::Linux618 {
            options["bands"] = json!(BANDS);
            options["priomap"] = json!(self.priomap);
            options["weights"] = json!(self.weights);
            options["offload_horizon"] = json!(0);
        }
        if !self.pacing {
            options["pacing"] = json!(false);
        }
        if let Some(rate) = self.maxrate {
            options["maxrate"] = json!(bytes_per_second(rate));
        }
        let low_rate = bytes_per_second(self.low_rate_threshold);
        if low_rate > 0 {
            options["low_rate_threshold"] = json!(low_rate);
        }
        if let Some(threshold) = self.ce_threshold {
            options["ce_threshold"] = json!(micros(threshold));
        }
        Some(options)
    }
}

impl TestCases for Config {
    fn holds_at_most(&self) -> Option<Length> {
        let of_bands =
            Length::Packets(self.limit.count().saturating_mul(BANDS as u64).saturating_add(FAST_PATH));
        (self.kernel == Kernel::Linux618).then_some(of_bands)
    }

    fn has_flow_queues(&self) -> bool {
        true
    }

    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"limit": "20p", "flow_limit": "8p", "quantum": "70B", "initial_quantum": "0B"}),
            json!({"maxrate": "3Mbps", "refill_delay": "1ms", "ce_threshold": "2ms"}),
            json!({"maxrate": "400kbps", "limit": "50p"}),
            json!({"maxrate": "600kbps", "limit": "50p"}),
            json!({"maxrate": "8kbps", "flow_limit": "9p", "orphans": true, "orphan_mask": 1}),
            json!({"ce_threshold": "0s", "pacing": false, "buckets": 2}),
            json!({
                "kernel": "6.18", "limit": "20p", "flow_limit": "8p", "quantum": "500B", "weights": [16384, 20000, 99999],
                "buckets": 2, "ce_threshold": "1ms",
            }),
            json!({
                "kernel": "6.18", "maxrate": "3Mbps", "timer_slack": "1ms", "limit": "30p",
                "priomap": [2, 1, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            }),
        ]
    }
}

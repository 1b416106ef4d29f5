//! fq: flows take turns, newly active flows are served first, and each flow may be paced.
//!
//! `net/sched/sch_fq.c` of Linux 6.1 and 6.18 (E. Dumazet, since 2013). The parameters have the same names as in `tc`:
//! - A flow consists of the packets of one socket, and starts with a deficit of `initial_quantum`. A hash assigns
//!   packets without a socket (`orphans`) to `orphan_mask` + 1 flows.
//! - An arriving packet is dropped if `limit` packets are queued, or if `flow_limit` packets of its flow are queued.
//! - If a packet arrives for a flow that is not in any list, the flow joins the list of new flows. If the flow has not
//!   been in any list for longer than `refill_delay`, its deficit is raised to at least one quantum. A negative deficit
//!   is not raised, because the kernel compares unsigned numbers.
//! - The head of the list of new flows is served. If there are no new flows, the head of the list of old flows is
//!   served. A flow whose deficit is not positive gets a quantum and moves to the tail of the old list. If the
//!   scheduler finds a new flow empty, the flow moves to the tail of the old list, provided that the old list is not
//!   empty. Any other empty flow that the scheduler finds is removed from the lists. If no packet is queued, the
//!   scheduler does not visit any flow.
//! - Pacing by `maxrate`: after a flow has used up its deficit, the flow pauses for the transmission time of its last
//!   packet or of a quantum, whichever is larger, at the rate `maxrate`. The pause is limited to one second
//!   (`pkts_too_long`). If the flow sent its packet later than it was allowed to, the pause is shortened by the delay,
//!   but at most by half. If `maxrate` is at most `low_rate_threshold`, every packet uses up the whole deficit. A flow
//!   whose turn comes before its pause has ended is throttled: the flow leaves the lists, and joins the tail of the old
//!   list at the end of the pause.
//! - A packet is late if it departs more than `ce_threshold` after both its arrival and the time at which pacing allows
//!   it to depart. A late packet is marked if it is ECN-capable. `ce_mark` counts every late packet.
//! - The state of idle flows is kept. If there are at least two flows per bucket (`buckets`) and more than half of all
//!   flows are idle, each arriving packet triggers the removal of up to eight flows that have been idle for more than
//!   three seconds. The flow of the arriving packet is not removed.
//!
//! Changes since Linux 6.7 (kernel `6.18`):
//! - There are three bands of flows (`bands.rs`). The priority of a packet selects the band. A band sends until it has
//!   sent as many bytes as its weight, and then the next band is served. `limit` applies to each band. When its first
//!   packet arrives, a flow joins the new flows of the first band, regardless of the packet's band, because the kernel
//!   records the band only afterwards. From then on, the flow joins the band of its packets.
//! - The fast path is a separate queue that is served first and has no flows, bands, deficits or marks. A packet takes
//!   the fast path if all queued packets are on the fast path and there are at most seven of them. With `maxrate`,
//!   there is no fast path.
//! - If the scheduler finds a new flow empty, the flow always moves to the tail of the old list.
//! - Every arriving packet triggers the removal of up to eight flows that are in the same bucket as the packet's flow
//!   and have been idle for more than three seconds.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

mod bands;
mod scheduler;

use std::ops::RangeInclusive;

use aqm_net::{ConfigErrors, ErrorCollector, Length, Rate, Size, Span, choices, parameters};
use serde_json::{Value, json};

use crate::fair::classifier::Classifier;
use crate::tc::Qdisc;
use crate::{Build, Describe, QueueDiscipline, TestCases};
use bands::BANDS;
use scheduler::{FAST_PATH, Fq, Pace};

parameters! {
    /// The kernel's fq: flows take turns, newly active flows are served first, and each flow is paced if a rate is set.
    ///
    /// The algorithm is the one that Linux uses on a sender's link. aqmlab's senders set no pacing rates and no
    /// departure times, so flows are paced only if `maxrate` is set.
    ///
    /// Differences from Linux:
    ///
    /// - Senders do not set a pacing rate (`sk_pacing_rate`), which the kernel uses if it is lower than `maxrate`.
    ///   Without `maxrate`, no flow is paced.
    /// - Packets have no departure time (`SO_TXTIME`), whereas the kernel's TCP sets a departure time for each packet.
    ///   `horizon` and `horizon_drop` would therefore have no effect. aqmlab paces flows as the kernel paces packets
    ///   without a departure time, for example UDP packets and forwarded packets. If the packets of a flow have
    ///   departure times, the kernel's fq pauses the flow after each packet, even at high rates.
    /// - Control packets (`TC_PRIO_CONTROL`), which bypass all flows in Linux 6.1 (`highprio`), are not simulated. Only
    ///   local programs that set `SO_PRIORITY` create control packets.
    /// - Each connection counts as a socket. In a router that forwards packets, all packets are `orphans`. A hash of
    ///   the flow number and of a salt, which is drawn from the queue's random stream, assigns orphans to flows.
    /// - aqmlab removes the flows that have been idle longest or, with kernel `6.18`, the first idle flows of the
    ///   bucket. The kernel removes the idle flows that it encounters while it searches the bucket's tree.
    /// - Times are exact, whereas the kernel counts `refill_delay` and idle times in clock ticks.
    /// - With kernel `6.18`, a packet's priority is derived from its code point, as when the kernel forwards packets.
    ///   Programs that set another priority (`SO_PRIORITY`) are not simulated.
    /// - `offload_horizon` is not supported: the kernel rejects this parameter unless the network device paces packets,
    ///   and aqmlab's links do not pace packets.
    pub struct Config {
        /// Kernel version whose fq is simulated.
        pub kernel: Kernel = Kernel::Linux61, "aqmlab's choice: the same as for `linux-red`";
        /// Maximum backlog of all flows together, in packets, excluding the packet in transmission. Since Linux 6.7,
        /// this limit applies to each band separately.
        pub limit: Length = Length::Packets(10_000), "tc-fq";
        /// Maximum number of packets queued per flow.
        pub flow_limit: Length = Length::Packets(100), "tc-fq";
        /// Quantum: number of bytes that a flow may send per turn.
        pub quantum: Size = Size::from_bytes(3028), "tc-fq: two full Ethernet packets";
        /// Number of bytes that a new flow may send in its first turn.
        pub initial_quantum: Size = Size::from_bytes(15_140), "tc-fq: ten full Ethernet packets";
        /// Whether flows are paced.
        pub pacing: bool = true, "tc-fq";
        /// Maximum rate of each flow. If omitted, flows are not paced.
        pub maxrate: Option<Rate> = None, "tc-fq";
        /// Largest `maxrate` at which a pause follows every packet. At higher rates, the packets of one turn are sent
        /// back to back.
        pub low_rate_threshold: Rate = Rate::from_bps(550_000), "tc-fq";
        /// Idle time after which a flow's deficit is raised to a quantum.
        pub refill_delay: Span = Span::from_millis(40), "tc-fq";
        /// Threshold for marking: an ECN-capable packet is marked if it departs more than this time after both its
        /// arrival and the time at which pacing allows it to depart. If omitted, no packets are marked.
        pub ce_threshold: Option<Span> = None, "tc-fq";
        /// Whether packets have no socket because they come from other hosts, as in a router. If true, a hash assigns
        /// packets to flows.
        pub orphans: bool = false, "aqmlab's choice: the link belongs to a sender";
        /// Bit mask that is applied to the hash of `orphans`. For example, 1023 results in 1024 flows.
        pub orphan_mask: u32 = 1023, "tc-fq";
        /// Number of buckets, rounded up to a power of two. With kernel `6.1`, idle flows are removed only if there are
        /// at least twice as many flows as buckets. With kernel `6.18`, whenever a packet arrives, the bucket of its
        /// flow is searched for idle flows to remove.
        pub buckets: u32 = 1024, "tc-fq";
        /// Slack of the timer that ends a pause. The timer expires this long after the end of the pause, unless a
        /// packet arrives earlier.
        pub timer_slack: Span = Span::from_nanos(10_000), "tc-fq";
        /// Band of each of the 16 priorities. A packet's code point selects priority 0 (best effort), 2 (bulk), 4
        /// (interactive bulk) or 6 (interactive).
        pub priomap: Vec<u32> = bands::priomap(), "tc-fq, since Linux 6.7";
        /// Quantum of each band, in bytes.
        pub weights: Vec<u32> = bands::weights(), "tc-fq, since Linux 6.7";
    }
}

choices! {
    /// Kernel versions whose implementations of fq differ.
    pub enum Kernel {
        /// Linux 6.1, which has one band.
        Linux61 = "6.1",
        /// Linux 6.18, which has three bands and a fast path, like all kernels since 6.7.
        Linux618 = "6.18",
    }
}

/// The quanta that the kernel accepts, and the initial quanta that it can represent.
const QUANTA: RangeInclusive<u64> = 1..=1 << 20;
const INITIAL_QUANTA: RangeInclusive<u64> = 0..=i32::MAX as u64;
/// The maximum number of buckets.
const MAX_BUCKETS: u32 = 1 << 18;
/// The rates in bytes per second that the kernel accepts. The largest 32-bit number means "no rate".
const RATES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;

impl Config {
    fn buckets(&self) -> u32 {
        self.buckets.clamp(2, MAX_BUCKETS).next_power_of_two()
    }
}

/// Converts the rate to the unit of the kernel's interface.
fn bytes_per_second(rate: Rate) -> u64 {
    rate.bps() / 8
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, length) in [("limit", self.limit), ("flow_limit", self.flow_limit)] {
            let is_valid = !length.in_bytes() && length.count() > 0;
            errors.check(is_valid, name, "must be at least 1p, in packets");
        }
        let low_rate = bytes_per_second(self.low_rate_threshold);
        let problem = format_args!("must be at most {}bps", u64::from(u32::MAX) * 8);
        errors.check(u32::try_from(low_rate).is_ok(), "low_rate_threshold", problem);
        let problem = format_args!("must be from 1B to {}B (got {})", QUANTA.end(), self.quantum);
        errors.check(QUANTA.contains(&self.quantum.bytes()), "quantum", problem);
        let problem = format_args!("must be at most {}B", INITIAL_QUANTA.end());
        errors.check(INITIAL_QUANTA.contains(&self.initial_quantum.bytes()), "initial_quantum", problem);
        if let Some(rate) = self.maxrate {
            let problem = format_args!("must be from 8bps to {}bps (got {rate})", RATES.end() * 8);
            errors.check(RATES.contains(&bytes_per_second(rate)), "maxrate", problem);
        }
        errors.check_effect(self.pacing, self, &["maxrate"], "without pacing");
        let pacing_parameters = ["low_rate_threshold", "timer_slack"];
        errors.check_effect(self.maxrate.is_some(), self, &pacing_parameters, "without maxrate");
        let problem = "must be at most 4294967295ns";
        errors.check(u32::try_from(self.timer_slack.nanos()).is_ok(), "timer_slack", problem);
        bands::check(&self.priomap, &self.weights, &mut errors);
        let has_bands = self.kernel == Kernel::Linux618;
        errors.check_effect(has_bands, self, &["priomap", "weights"], "before Linux 6.7");
        let is_low = self.maxrate.is_some_and(|rate| bytes_per_second(rate) <= low_rate);
        errors.check_effect(!is_low, self, &["quantum"], "with maxrate up to low_rate_threshold");
        errors.check_effect(self.orphans, self, &["orphan_mask"], "without orphans");
        let problem = format_args!("must be from 2 to {MAX_BUCKETS} (got {})", self.buckets);
        errors.check((2..=MAX_BUCKETS).contains(&self.buckets), "buckets", problem);
        errors.finish(())?;
        let pace = self.maxrate.map(bytes_per_second).map(|rate| Pace { rate, is_low: rate <= low_rate });
        // The hash may be any 32-bit number, because the mask is applied to it later.
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

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let fq = Qdisc::new("fq")
            .count("limit", self.limit.count())
            .count("flow_limit", self.flow_limit.count())
            .with("buckets", self.buckets())
            .with("orphan_mask", self.orphan_mask)
            .count("quantum", self.quantum.bytes())
            .count("initial_quantum", self.initial_quantum.bytes())
            .time("refill_delay", self.refill_delay)
            .precise_time("timer_slack", self.timer_slack)
            .short_rate("low_rate_threshold", self.low_rate_threshold)
            .either(self.pacing, "pacing", "nopacing");
        let fq = if let Some(rate) = self.maxrate { fq.short_rate("maxrate", rate) } else { fq };
        let fq =
            if let Some(threshold) = self.ce_threshold { fq.time("ce_threshold", threshold) } else { fq };
        if self.kernel == Kernel::Linux61 {
            return fq.finish();
        }
        let words = |name: &str, numbers: &[u32]| {
            let name = name.split(' ').map(str::to_owned);
            name.chain(numbers.iter().map(u32::to_string)).collect::<Vec<_>>()
        };
        fq.list(words("bands 3 priomap", &self.priomap)).list(words("weights", &self.weights)).finish()
    }
}

impl TestCases for Config {
    fn max_backlog(&self) -> Option<Length> {
        let backlog_of_bands =
            Length::Packets(self.limit.count().saturating_mul(BANDS as u64).saturating_add(FAST_PATH));
        (self.kernel == Kernel::Linux618).then_some(backlog_of_bands)
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

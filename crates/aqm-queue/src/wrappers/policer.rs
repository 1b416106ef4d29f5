//! A policer in front of a queue: drops packets that exceed the rate of a token bucket.
//!
//! The sources are J. Heinanen, R. Guerin, RFC 2697 (one rate) and RFC 2698 (two rates), without colours. The token
//! bucket is initially full, and is filled at `rate` up to `burst`. If the bucket contains enough tokens for a packet,
//! one token per byte is removed and the packet passes. Otherwise, no tokens are removed and the packet is dropped.
//! With `peak`, there is a second bucket, which is filled at the rate `peak` up to `peak_burst`. In this case, a packet
//! needs enough tokens in both buckets, as in `act_police` of Linux 6.1.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Packet, Rate, Size};
use serde_json::{Value, json};

use crate::tc::{self, Qdisc};
use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Context, Gauge, Reason};

wrapper! {
    /// A policer in front of a queue: drops packets for which a token bucket does not contain enough tokens.
    ///
    /// Differences from Linux:
    ///
    /// - Tokens are counted exactly, whereas the kernel counts tokens in whole nanoseconds of transmission time.
    /// - A packet that is larger than a token bucket never passes.
    /// - Packets that exceed the rate are always dropped. Other actions (`conform-exceed`), `avrate`, rates in packets
    ///   per second, `overhead` and `linklayer` are not supported.
    pub struct Config {
        /// Token rate. Default: the link rate.
        pub rate: Option<Rate> = None, "aqmlab's choice";
        /// Size of the token bucket: number of bytes that may pass at once after an idle period. The bucket should be
        /// at least as large as the largest packet.
        pub burst: Size = Size::from_bytes(15_000),
            "aqmlab's choice: ten Ethernet packets; RFC 2697 recommends one or more";
        /// Maximum rate at which a burst may pass. If omitted, a burst may pass at once.
        pub peak: Option<Rate> = None, "RFC 2698: `PIR`; Linux: `peakrate`";
        /// Size of the token bucket for `peak`: number of bytes that may pass at once.
        pub peak_burst: Size = Size::from_bytes(1600),
            "aqmlab's choice: about one packet; RFC 2698: `PBS`; Linux: `mtu`";
    }
}

impl Config {
    fn wrapper(&self, link: Rate) -> Result<Policer, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let rate = self.rate.unwrap_or(link);
        for (name, size) in [("burst", self.burst), ("peak_burst", self.peak_burst)] {
            errors.check(size.bytes() > 0, name, "must be at least 1B");
        }
        let problem = format_args!("must exceed rate, {rate}");
        errors.check(self.peak.is_none_or(|peak| peak > rate), "peak", problem);
        let is_shorter = self.peak_burst.bytes() < self.burst.bytes();
        errors.check_effect(is_shorter, self, &["peak"], "unless peak_burst is below burst");
        errors.check_effect(self.peak.is_some(), self, &["peak_burst"], "without peak");
        errors.finish(())?;
        let peak = self.peak.map(|peak| Bucket::new(peak, self.peak_burst));
        Ok(Policer { bucket: Bucket::new(rate, self.burst), peak, filled_at: Instant::START, dropped: 0 })
    }

    fn as_tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        Err(tc::rejected("kind", "in Linux, a policer is an action of a filter (tc-police) and not a queue"))
    }

    fn own_corners() -> Vec<Value> {
        vec![
            json!({"rate": "100Mbps"}),
            json!({"rate": "7Mbps", "burst": "700B"}),
            json!({"rate": "16bps", "burst": "1GB", "peak": "6Mbps", "peak_burst": "70kB"}),
        ]
    }
}

/// A token bucket. The unit of tokens is the product of one bit per second and one nanosecond, so that token counts are
/// exact.
#[derive(Clone)]
struct Bucket {
    rate: Rate,
    size: u128,
    tokens: u128,
}

/// Number of tokens for one byte.
const BYTE: u128 = 8_000_000_000;

impl Bucket {
    /// Creates a full bucket.
    fn new(rate: Rate, size: Size) -> Self {
        let size = u128::from(size.bytes()) * BYTE;
        Self { rate, size, tokens: size }
    }

    /// Returns the number of tokens that remain after tokens for `bytes` have been removed, `passed` nanoseconds after
    /// the last update, or `None` if there are not enough tokens.
    #[inline]
    fn without(&self, bytes: u16, passed: u64) -> Option<u128> {
        let added = u128::from(passed) * u128::from(self.rate.bps());
        (self.tokens + added).min(self.size).checked_sub(u128::from(bytes) * BYTE)
    }
}

/// A policer and its state.
#[derive(Clone)]
struct Policer {
    bucket: Bucket,
    peak: Option<Bucket>,
    /// The time at which tokens were last removed.
    filled_at: Instant,
    dropped: u64,
}

impl Policer {
    /// If there are enough tokens for a packet of this size, removes the tokens and returns `true`.
    #[inline]
    fn conforms(&mut self, bytes: u16, now: Instant) -> bool {
        let passed = now.since(self.filled_at).nanos();
        let Some(tokens) = self.bucket.without(bytes, passed) else { return false };
        if let Some(peak) = &mut self.peak {
            let Some(tokens) = peak.without(bytes, passed) else { return false };
            peak.tokens = tokens;
        }
        self.bucket.tokens = tokens;
        self.filled_at = now;
        true
    }
}

impl Wrapper for Policer {
    type Note = ();

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<()>, cx: &mut Context<'_>) {
        if self.conforms(packet.bytes, cx.now) {
            inside.enqueue(packet, (), cx);
        } else {
            self.dropped += 1;
            cx.drop(packet, Reason::Policed);
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("tokens", (self.bucket.tokens / BYTE) as f64, "bytes"));
    }

    fn tc_statistics(&self) -> Value {
        json!({"overlimits": self.dropped})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Driver, packet};

    /// Returns the results for `count` packets of equal size that arrive at intervals of `gap` nanoseconds: `G` for
    /// packets that pass, `R` for packets that are dropped.
    fn fates(table: Value, count: u64, bytes: u16, gap: u64) -> String {
        let mut driver = Driver::new(table, 1);
        let mut fate = |number: u64| {
            driver.now = Instant::from_nanos(number * gap);
            let is_dropped = driver.offer(packet(bytes));
            assert_eq!(driver.take().is_none(), is_dropped);
            if is_dropped { 'R' } else { 'G' }
        };
        (0..count).map(&mut fate).collect()
    }

    fn policer(rate: &str, burst: &str) -> Value {
        json!({"kind": "policer", "rate": rate, "burst": burst})
    }

    #[test]
    fn inets_token_bucket_colours_the_same_packets() {
        // This test is taken from INET, tests/module/diffserv: 10 packets of 1052 B arrive, one every 8.192 ms. The CIR
        // is 500 kb/s, and the CBS is 2000 B.
        assert_eq!(fates(policer("500kbps", "2000B"), 10, 1052, 8_192_000), "GGRGRGRGRG");
    }

    #[test]
    fn a_full_bucket_passes_exactly_its_size() {
        // This test is ns-3's first test of TBF: a bucket of 6000 B is sufficient for four packets of 1500 B.
        assert_eq!(fates(policer("1kbps", "6000B"), 5, 1500, 0), "GGGGR");
        assert_eq!(fates(policer("1kbps", "1499B"), 3, 1500, 3_600_000_000_000), "RRR");
    }

    #[test]
    fn a_packet_passes_at_the_exact_time_at_which_there_are_enough_tokens() {
        // The transmission of 1000 B at 8 Mb/s takes a millisecond.
        assert_eq!(fates(policer("8Mbps", "1000B"), 4, 1000, 1_000_000), "GGGG");
        assert_eq!(fates(policer("8Mbps", "1000B"), 4, 1000, 999_999), "GRGR");
    }

    #[test]
    fn at_any_rate_the_bytes_passed_are_the_rate_and_a_burst() {
        for bps in [16_u64, 56_000, 10_000_000, 400_000_000_000, 10_000_000_000_000] {
            let (count, bytes) = (100_000_u64, 1500_u64);
            // The packets arrive at twice the permitted rate.
            let gap = (bytes * 8 * 1_000_000_000 / bps / 2).max(1);
            let rate = format!("{bps}bps");
            let passed = fates(policer(&rate, "15000B"), count, 1500, gap).matches('G').count() as f64;
            let offered = (count * bytes) as f64;
            let allowed = (bps as f64 / 8e9 * (gap * count) as f64 + 15_000.0).min(offered);
            let ratio = passed * bytes as f64 / allowed;
            assert!((0.999..=1.0).contains(&ratio), "a ratio of {ratio} to the allowed bytes at {rate}");
        }
    }

    #[test]
    fn a_peak_spreads_a_burst() {
        let mut table = policer("1Mbps", "15000B");
        table["peak"] = json!("8Mbps");
        table["peak_burst"] = json!("1000B");
        assert_eq!(fates(table.clone(), 6, 1000, 500_000), "GRGRGR");
        assert_eq!(fates(table.clone(), 6, 1000, 1_000_000), "GGGGGG");
        // The burst is used up after 17 packets, because tokens for 2 packets are added while 15 packets are sent.
        // After that, one packet in eight passes.
        let passed = fates(table, 33, 1000, 1_000_000);
        assert_eq!(&passed[..17], "GGGGGGGGGGGGGGGGG");
        assert_eq!(passed[17..].matches('G').count(), 2);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let problem = |table: Value| {
            let error = crate::Config::read(table)
                .and_then(|config| config.build(Rate::from_bps(1_000_000)).map(drop));
            error.unwrap_err().to_string()
        };
        assert_eq!(problem(policer("1Mbps", "0B")), "burst: must be at least 1B");
        let table =
            json!({"kind": "policer", "peak": "1Mbps", "queue": {"kind": "drop-tail", "limit": "0p"}});
        let expected = "peak: must exceed rate, 1Mbps\nqueue.limit: must be at least 1p or 1B";
        assert_eq!(problem(table), expected);
    }
}

//! A policer before a queue: packets that exceed the rate of a token bucket are dropped.
//!
//! J. Heinanen, R. Guerin, RFC 2697 (one rate) and RFC 2698 (two rates), without colours. The bucket is initially full
//! and is filled at `rate` up to `burst`. A packet for which there are enough tokens takes one per byte. Any other
//! packet takes none and is dropped. With `peak` there is a second bucket, filled at that rate up to `peak_burst`, and
//! a packet needs tokens in both, as in Linux 6.1's `act_police`.
//!
//! Differences from the sources, and choices where the sources are silent, are listed in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Packet, Rate, Size};
use serde_json::{Value, json};

use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Context, Gauge, Reason};

wrapper! {
    /// A policer before a queue: packets for which a token bucket has no tokens are dropped.
    ///
    /// Differences from Linux:
    ///
    /// - Tokens are counted exactly; the kernel counts whole nanoseconds of transmission.
    /// - A packet larger than a bucket never passes.
    /// - Packets that exceed the rate are dropped. Other actions (`conform-exceed`), `avrate`, limits in packets per
    ///   second, `overhead` and `linklayer` are not supported.
    pub struct Config {
        /// Token rate. If omitted, the link rate.
        pub rate: Option<Rate> = None, "aqmlab's choice";
        /// Size of the bucket: bytes that may pass at once after an idle time; at least the largest packet.
        pub burst: Size = Size::from_bytes(15_000),
            "aqmlab's choice: ten Ethernet packets; RFC 2697 recommends one or more";
        /// Rate at which a burst may pass. If omitted, a burst passes at once.
        pub peak: Option<Rate> = None, "RFC 2698: `PIR`; Linux: `peakrate`";
        /// Size of the bucket of `peak`: bytes that may pass at once.
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

    fn own_corners() -> Vec<Value> {
        vec![
            json!({"rate": "100Mbps"}),
            json!({"rate": "7Mbps", "burst": "700B"}),
            json!({"rate": "16bps", "burst": "1GB", "peak": "6Mbps", "peak_burst": "70kB"}),
        ]
    }
}

/// A token bucket. Its unit is the product of one bit per second and one nanosecond, so that times are exact.
#[derive(Clone)]
struct Bucket {
    rate: Rate,
    size: u128,
    tokens: u128,
}

/// Tokens for a byte.
const BYTE: u128 = 8_000_000_000;

impl Bucket {
    /// Creates a full bucket.
    fn new(rate: Rate, size: Size) -> Self {
        let size = u128::from(size.bytes()) * BYTE;
        Self { rate, size, tokens: size }
    }

    /// The tokens left after taking tokens for `bytes`, `passed` nanoseconds after the last update; `None` if there are
    /// too few.
    #[inline]
    fn without(&self, bytes: u16, passed: u64) -> Option<u128> {
        let added = u128::from(passed) * u128::from(self.rate.bps());
        (self.tokens + added).min(self.size).checked_sub(u128::from(bytes) * BYTE)
    }
}

/// The running wrapper.
#[derive(Clone)]
struct Policer {
    bucket: Bucket,
    peak: Option<Bucket>,
    /// The time at which tokens were last taken.
    filled_at: Instant,
    dropped: u64,
}

impl Policer {
    /// Takes tokens for a packet of this size, if there are enough.
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

    /// The fates of `count` packets of a size that arrive at intervals of `gap` nanoseconds: `G` for packets that pass,
    /// `R` for dropped ones.
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
        // INET, tests/module/diffserv: 10 packets of 1052 B every 8.192 ms, CIR 500 kb/s, CBS 2000 B.
        assert_eq!(fates(policer("500kbps", "2000B"), 10, 1052, 8_192_000), "GGRGRGRGRG");
    }

    #[test]
    fn a_full_bucket_passes_exactly_its_size() {
        // ns-3's first test of TBF: four packets of 1500 B from a bucket of 6000 B.
        assert_eq!(fates(policer("1kbps", "6000B"), 5, 1500, 0), "GGGGR");
        assert_eq!(fates(policer("1kbps", "1499B"), 3, 1500, 3_600_000_000_000), "RRR");
    }

    #[test]
    fn a_packet_passes_at_the_exact_time_at_which_there_are_enough_tokens() {
        // 1000 B at 8 Mb/s take a millisecond.
        assert_eq!(fates(policer("8Mbps", "1000B"), 4, 1000, 1_000_000), "GGGG");
        assert_eq!(fates(policer("8Mbps", "1000B"), 4, 1000, 999_999), "GRGR");
    }

    #[test]
    fn at_any_rate_the_bytes_passed_are_the_rate_and_a_burst() {
        for bps in [16_u64, 56_000, 10_000_000, 400_000_000_000, 10_000_000_000_000] {
            let (count, bytes) = (100_000_u64, 1500_u64);
            // The offered load is twice the rate that may pass.
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
        // The burst is used up after 17 packets, because 2 packets of tokens arrive while 15 are sent. Then one packet
        // in eight passes.
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

//! Tests of DOCSIS-PIE: RFC 8034's pseudocode step by step, its states, and the modem's shaper.

use std::collections::VecDeque;

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Rng, Streams};
use aqm_queue::Config;
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Driver, Fates, packet};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn docsis(more: &Value) -> Value {
    with(json!({"kind": "docsis-pie"}), more)
}

/// RFC 8034's pseudocode on a separate queue, without lazy updates. Times are in seconds, rates in bytes per second.
struct Pseudocode {
    peak_rate: f64,
    msr: f64,
    traffic_burst: f64,
    buffer_size: u64,
    msrtokens: f64,
    filled_at: f64,
    queue: VecDeque<u64>,
    drop_prob: f64,
    accu_prob: f64,
    qdelay_old: f64,
    burst_allowance: f64,
    burst_reset: f64,
    state: &'static str,
    rng: Rng,
}

const LATENCY_TARGET: f64 = 0.010;
const INTERVAL: f64 = 0.016;

impl Pseudocode {
    fn byte_length(&self) -> u64 {
        self.queue.iter().sum()
    }

    fn fill_bucket(&mut self, now: f64) {
        let more = (now - self.filled_at) * self.msr;
        self.msrtokens = (self.msrtokens + more).min(self.traffic_burst);
        self.filled_at = now;
    }

    fn calculate_drop_prob(&mut self, now: f64) {
        self.fill_bucket(now);
        let length = self.byte_length() as f64;
        let qdelay = if length <= self.msrtokens {
            length / self.peak_rate
        } else {
            (length - self.msrtokens) / self.msr + self.msrtokens / self.peak_rate
        };
        if self.burst_allowance > 1e-9 {
            self.drop_prob = 0.0;
            self.burst_allowance = (self.burst_allowance - INTERVAL).max(0.0);
        } else {
            let mut p = 0.25 * (qdelay - LATENCY_TARGET) + 2.5 * (qdelay - self.qdelay_old);
            for (below, divisor) in [
                (0.000_001, 2048.0),
                (0.000_01, 512.0),
                (0.000_1, 128.0),
                (0.001, 32.0),
                (0.01, 8.0),
                (0.1, 2.0),
                (1.0, 0.5),
                (10.0, 0.125),
                (f64::INFINITY, 0.031_25),
            ] {
                if self.drop_prob < below {
                    p /= divisor;
                    break;
                }
            }
            if self.drop_prob >= 0.1 && p > 0.02 {
                p = 0.02;
            }
            self.drop_prob += p;
            if qdelay < 0.005 && self.qdelay_old < 0.005 {
                self.drop_prob *= 0.98;
            } else if qdelay > 0.2 {
                self.drop_prob += 0.02;
            }
            self.drop_prob = self.drop_prob.clamp(0.0, 0.85 * 1024.0 / 64.0);
        }
        let quiet = qdelay < 0.5 * LATENCY_TARGET
            && self.qdelay_old < 0.5 * LATENCY_TARGET
            && self.drop_prob == 0.0
            && self.burst_allowance < 1e-9;
        if self.state == "active" && quiet {
            self.state = "quiescent";
            self.burst_reset = 0.0;
        } else if self.state == "quiescent" {
            self.burst_reset = if quiet { self.burst_reset + INTERVAL } else { 0.0 };
            if self.burst_reset > 1.0 {
                self.burst_reset = 0.0;
                self.state = "inactive";
            }
        }
        self.qdelay_old = qdelay;
    }

    /// Whether the packet is dropped.
    fn enqueue(&mut self, size: u64) -> bool {
        let is_dropped = if self.byte_length() + size > self.buffer_size {
            self.accu_prob = 0.0;
            true
        } else {
            self.drop_early(size)
        };
        if !is_dropped {
            self.queue.push_back(size);
        }
        is_dropped
    }

    fn drop_early(&mut self, size: u64) -> bool {
        if self.burst_allowance > 1e-9 {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        if self.state == "inactive" {
            if self.byte_length() < self.buffer_size / 3 {
                return false;
            }
            self.state = "quiescent";
        }
        let p1 = (self.drop_prob * size as f64 / 1024.0).min(0.85);
        self.accu_prob += p1;
        if (self.qdelay_old < 0.5 * LATENCY_TARGET && self.drop_prob < 0.2)
            || self.byte_length() <= 2 * 1024
            || self.accu_prob < 0.85
        {
            return false;
        }
        if self.accu_prob < 8.5 && self.rng.uniform() >= p1 {
            return false;
        }
        self.accu_prob = 0.0;
        if self.state == "quiescent" {
            self.state = "active";
            self.burst_allowance = 0.142;
        }
        true
    }
}

#[test]
fn the_response_to_load_steps_matches_the_pseudocode() {
    // 10 Mb/s in the long run, with or without twice this rate for a burst of 200 kB.
    for (msr, traffic_burst, more) in [
        (1_250_000.0, 3044.0, json!({"limit": "300kB"})),
        (625_000.0, 200_000.0, json!({"limit": "300kB", "msr": "5Mbps", "traffic_burst": "200kB"})),
    ] {
        let mut driver = Driver::new(docsis(&more), 7);
        let mut reference = Pseudocode {
            peak_rate: 1_250_000.0,
            msr,
            traffic_burst,
            buffer_size: 300_000,
            msrtokens: traffic_burst,
            filled_at: 0.0,
            queue: VecDeque::new(),
            drop_prob: 0.0,
            accu_prob: 0.0,
            qdelay_old: 0.0,
            burst_allowance: 0.0,
            burst_reset: 0.0,
            state: "inactive",
            rng: Streams::new(7).named("queue", 0),
        };
        // Nanoseconds per byte at the sustained rate.
        let pace = (1e9 / msr) as u64;
        // The load is low, then twice the rate, zero, 1.5 times the rate, low.
        let load = |now: u64| match now / 1_000_000_000 {
            0 | 1 => 0.3,
            2..=4 => 2.0,
            5..=8 => 0.001,
            9..=12 => 1.5,
            _ => 0.2,
        };
        let (mut arrival, mut departure, mut updates, mut k) = (137_000_u64, 0_u64, 1_u64, 0_usize);
        let (mut states, mut highest) = (Vec::new(), 0.0_f64);
        while arrival < 16_000_000_000 {
            let now = arrival.min(departure);
            while updates * 16_000_000 <= now {
                reference.calculate_drop_prob(updates as f64 * INTERVAL);
                updates += 1;
            }
            driver.now = Instant::from_nanos(now);
            if departure <= arrival {
                // The modem tries every 0.1 ms, and the link is busy for the transmission time of a packet.
                let sent = driver.take().map(|packet| u64::from(packet.bytes));
                if let Some(bytes) = sent {
                    assert_eq!(reference.queue.pop_front(), Some(bytes));
                    reference.fill_bucket(now as f64 / 1e9);
                    reference.msrtokens -= bytes as f64;
                }
                departure += sent.map_or(100_000, |bytes| bytes * 800);
            } else {
                let bytes = [1514, 1000, 400][k % 3];
                assert_eq!(driver.offer(packet(bytes)), reference.enqueue(bytes.into()), "{more} at {now}");
                arrival += (pace as f64 * 971.0 / load(now)) as u64;
                k += 1;
            }
            let (p, expected) = (driver.gauge("drop_prob"), reference.drop_prob);
            assert!((p - expected).abs() <= 1e-7, "{more} at {now}: {p}, not {expected}");
            let state = ["inactive", "quiescent", "active"][driver.gauge("state") as usize];
            assert_eq!(state, reference.state, "{more} at {now}");
            if states.last() != Some(&state) {
                states.push(state);
            }
            highest = highest.max(p);
        }
        assert_eq!(
            states,
            [
                "inactive",
                "quiescent",
                "active",
                "quiescent",
                "inactive",
                "quiescent",
                "active",
                "quiescent",
                "inactive"
            ],
            "{more}"
        );
        assert!(highest > 0.2, "{highest}");
    }
}

#[test]
fn all_updates_of_a_long_pause_are_processed() {
    let mut driver = Driver::new(docsis(&json!({"limit": "100kB"})), 1);
    for k in 0..4000 {
        driver.now = Instant::from_nanos(k * 500_000);
        driver.offer(packet(1000));
        if k % 2 == 0 {
            driver.take();
        }
    }
    assert!(driver.gauge("drop_prob") > 0.1 && driver.gauge("state") == 2.0);
    while driver.take().is_some() {}
    driver.now = Instant::from_nanos(3_600_000_000_000_000);
    driver.offer(packet(1000));
    assert_eq!((driver.gauge("drop_prob"), driver.gauge("state")), (0.0, 0.0));
}

#[test]
fn no_packet_is_dropped_until_a_third_of_the_buffer_is_full_or_for_142_ms_after_the_first_drop() {
    let mut driver = Driver::new(docsis(&json!({"limit": "300kB"})), 1);
    let mut first = None;
    for k in 0..4000_u64 {
        driver.now = Instant::from_nanos(k * 500_000);
        let waiting = driver.queue.backlog().bytes;
        if driver.offer(packet(1000)) {
            assert!(waiting >= 100_000 || first.is_some());
            let since = first.map_or(u64::MAX, |first| k - first);
            assert!(since > 284, "{since} halves of a millisecond");
            if first.is_some() {
                return;
            }
            first = Some(k);
        }
        if k % 2 == 0 {
            driver.take();
        }
    }
    panic!("no packet was dropped");
}

#[test]
fn a_small_packet_has_a_smaller_probability() {
    // Both sizes are offered equally often: the large packets have 1500 / 64 times the probability.
    let mut driver = Driver::new(docsis(&json!({"limit": "1MB"})), 1);
    let mut drops = [0, 0];
    for k in 0..400_000_u64 {
        driver.now = Instant::from_nanos(k * 400_000);
        let small = k % 2 == 0;
        if driver.offer(packet(if small { 64 } else { 1500 })) {
            drops[usize::from(small)] += 1;
        }
        if k % 10 != 0 {
            driver.take();
        }
    }
    assert_eq!(driver.fates.counts.overflow, 0);
    let ratio = f64::from(drops[0]) / f64::from(drops[1]);
    assert!((12.0..50.0).contains(&ratio), "{drops:?}");
}

/// Departure times, in microseconds, of packets of these sizes that arrive at the same time.
fn departures(more: &Value, sizes: &[u16]) -> Vec<u64> {
    let rate = Rate::from_bps(10_000_000);
    let config = Config::read(docsis(more)).unwrap();
    let queue = invariants::watched(&config, rate).unwrap();
    let mut port = Port::new(queue, rate, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
    let (mut fates, mut starts) = (Fates::default(), Vec::new());
    let begin = Instant::from_nanos(1_000_000_000);
    for (id, bytes) in (0..).zip(sizes) {
        let arrives = Packet { id, bytes: *bytes, ..Packet::default() };
        port.accept(arrives, begin, &mut fates, |departure| starts.push(departure.start));
    }
    port.serve(Instant::from_nanos(9_000_000_000), &mut fates, |departure| starts.push(departure.start));
    starts.iter().map(|start| start.since(begin).nanos() / 1000).collect()
}

#[test]
fn the_packets_covered_by_tokens_leave_at_the_peak_rate_and_the_rest_at_the_sustained_rate() {
    // 3000 bytes of tokens, then 8 ms per 1000 bytes at 1 Mb/s.
    let sizes = [1000; 6];
    let shaped = json!({"msr": "1Mbps", "traffic_burst": "3000B"});
    assert_eq!(departures(&shaped, &sizes), [0, 800, 1600, 8000, 16_000, 24_000]);
    let peak = with(shaped, &json!({"peak": "4Mbps"}));
    assert_eq!(departures(&peak, &sizes), [0, 2000, 4000, 8000, 16_000, 24_000]);
    assert_eq!(departures(&json!({}), &sizes), [0, 800, 1600, 2400, 3200, 4000]);
    assert_eq!(departures(&json!({"peak": "2Mbps"}), &sizes), [0, 4000, 8000, 12_000, 16_000, 20_000]);
    // A packet larger than the bucket waits until the bucket is full.
    let small = json!({"msr": "1Mbps", "traffic_burst": "500B"});
    assert_eq!(departures(&small, &[1000; 3]), [0, 8000, 16_000]);
}

#[test]
fn defaults_follow_from_the_link_rate() {
    let derived = |more: &Value| {
        let config = Config::read(docsis(more)).unwrap();
        let derived = config.derived(Rate::from_bps(10_000_000));
        derived.into_iter().map(|one| (one.name, one.value)).collect::<Vec<_>>()
    };
    let named = |name: &str, value: f64| (name.to_owned(), value);
    assert_eq!(derived(&json!({})), [named("msr", 1e7), named("peak", 1e7), named("limit", 125_000.0)]);
    assert_eq!(derived(&json!({"msr": "1Mbps", "peak": "4Mbps"})), [named("limit", 50_000.0)]);
    let outlet = |more: &Value| Config::read(docsis(more)).unwrap().outlet(Rate::from_bps(10_000_000)).bps();
    assert_eq!((outlet(&json!({})), outlet(&json!({"msr": "3Mbps"}))), (10_000_000, 3_000_000));
    let problem = |more: &Value| {
        let built = Config::read(docsis(more)).unwrap().build(Rate::from_bps(10_000_000));
        built.map(|_| ()).unwrap_err().first().to_string()
    };
    assert!(problem(&json!({"peak": "11Mbps"})).starts_with("peak"));
    assert!(problem(&json!({"peak": "4Mbps", "msr": "5Mbps"})).starts_with("msr"));
}

#[test]
fn every_parameter_has_an_effect() {
    let shown = |more: &Value| {
        let mut driver = Driver::new(docsis(&with(json!({"msr": "5Mbps"}), more)), 5);
        let mut sent = Vec::new();
        for k in 0..20_000_u64 {
            driver.now = Instant::from_nanos(k * 500_000);
            if k % 5 != 0 && k % 9000 < 6000 {
                driver.offer(packet([1514, 1000, 400][k as usize % 3]));
            }
            sent.extend(driver.take().map(|packet| packet.id));
        }
        format!("{:?} {sent:?}", driver.fates.counts)
    };
    let base = shown(&json!({}));
    for more in [
        json!({"target": "12ms"}),
        json!({"msr": "6Mbps"}),
        json!({"traffic_burst": "100kB"}),
        json!({"peak": "6Mbps"}),
        json!({"limit": "100kB"}),
    ] {
        assert_ne!(shown(&more), base, "{more}");
    }
}

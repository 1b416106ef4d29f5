//! Simulated queues and transfers against closed forms.
//!
//! Kleinrock, "Queueing Systems" I, 1975 (M/M/1, M/M/1/K, M/G/1); Cohen, "The Single Server Queue",
//! 1982 (M/D/1/K); Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance
//! Algorithm", 1997 (the square-root law); Appenzeller et al., "Sizing Router Buffers", 2004, and the
//! area of a sawtooth (one Reno and Drop Tail); Cardwell et al., "Modeling TCP Latency", 2000 (rounds
//! of slow start).
//!
//! A stochastic result agrees with a closed form if the mean of at least 20 independent replications is within three of
//! its standard errors and within a cap. Queues here do not include the packet in transmission.

use crate::common::{
    assert_met, maybe_real, maybe_whole, mean_and_error, nanos, real, replicate, run, whole,
};
use aqm_net::Streams;
use serde_json::{Value, json};

const REPLICATIONS: u64 = 20;

/// A 1 Mbps link without other delays: datagrams of 1000 B take 8 ms.
fn link(queue: Value, traffic: Value, seconds: u32) -> Value {
    json!({
        "duration": format!("{seconds}s"),
        "warm_up": "100s",
        "bottleneck": { "rate": "1Mbps", "delay": "0s", "queue": queue },
        "access": { "rate": "10Gbps", "delay": "0s" },
        "host": { "jitter": "0s" },
        "record": { "drops": false, "queue_every": "0s" },
        "traffic": traffic,
    })
}

/// Sizes of the datagrams of a Poisson stream.
fn constant_sizes(bytes: f64) -> Value {
    json!({ "kind": "constant", "value": format!("{bytes}B") })
}

fn exponential_sizes() -> Value {
    json!({ "kind": "exponential", "mean": "1000B" })
}

fn poisson(load: f64, sizes: &Value) -> Value {
    json!({ "udp": { "kind": "udp", "gaps": { "kind": "exponential" }, "sizes": sizes, "load": load } })
}

fn endless() -> Value {
    json!({ "kind": "drop-tail", "limit": "1000000p" })
}

fn waiting(value: &Value) -> Vec<f64> {
    replicate(value, REPLICATIONS, |run| real(run, "links.mean_queue_packets")[0])
}

#[test]
fn exponential_packets_wait_as_in_m_m_1() {
    for (load, seconds) in [(0.5, 1600), (0.8, 5000)] {
        let theory = load * load / (1.0 - load);
        let found = waiting(&link(endless(), poisson(load, &exponential_sizes()), seconds));
        assert_met(&format!("M/M/1 at {load}"), &found, theory, 0.01);
    }
}

#[test]
#[ignore = "takes long: make theory"]
fn equal_packets_wait_as_in_m_d_1() {
    for (load, seconds) in [(0.5, 1600), (0.8, 5000)] {
        let theory = load * load / (2.0 * (1.0 - load));
        let found = waiting(&link(endless(), poisson(load, &constant_sizes(1000.0)), seconds));
        assert_met(&format!("M/D/1 at {load}"), &found, theory, 0.01);
    }
}

#[test]
fn mixed_packets_wait_as_in_m_g_1() {
    // Mean sizes of three classes in bytes, and their loads as shares of the link.
    let classes = [(40.0, 0.1), (576.0, 0.2), (1500.0, 0.4)];
    let traffic: Value = classes
        .iter()
        .map(|&(size, load)| {
            let stream =
                json!({ "kind": "udp", "gaps": { "kind": "exponential" }, "sizes": constant_sizes(size), "load": load });
            (format!("udp-{size}"), stream)
        })
        .collect::<serde_json::Map<String, Value>>()
        .into();
    let second = |bytes: f64| bytes * 8.0 / 1e6;
    let residual: f64 = classes.iter().map(|(size, load)| load * second(*size) / 2.0).sum();
    let rate: f64 = classes.iter().map(|(size, load)| load / second(*size)).sum();
    let wait = residual / (1.0 - 0.7);
    assert_met("M/G/1", &waiting(&link(endless(), traffic, 1100)), rate * wait, 0.02);
}

#[test]
fn the_number_waiting_is_geometric_in_m_m_1() {
    let mut value = link(endless(), poisson(0.7, &exponential_sizes()), 2100);
    value["record"]["queue_every"] = "100ms".into();
    let lengths = replicate(&value, REPLICATIONS, |run| {
        let after = real(run, "queue.time_s").iter().position(|&at| at > 100.0).unwrap();
        whole(run, "queue.length_packets")[after..].to_vec()
    });
    for (least, theory) in [(1, 0.49), (4, 0.168_07), (8, 0.040_353_607)] {
        let share = |lengths: &Vec<u64>| {
            lengths.iter().filter(|&&length| length >= least).count() as f64 / lengths.len() as f64
        };
        let shares: Vec<f64> = lengths.iter().map(share).collect();
        assert_met(&format!("P(at least {least} wait)"), &shares, theory, 0.05);
    }
}

/// Loss of M/M/1/K; K includes the packet in transmission.
fn m_m_1_k(load: f64, k: i32) -> f64 {
    let power = |n: i32| power_of(load, n);
    if load == 1.0 { 1.0 / f64::from(k + 1) } else { (1.0 - load) * power(k) / (1.0 - power(k + 1)) }
}

fn power_of(base: f64, exponent: i32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Computes e^x by its series, for small |x|.
fn exponential(x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..60 {
        term *= x / f64::from(n);
        sum += term;
    }
    sum
}

/// Loss of M/D/1/K by the embedded chain at departures; K includes the packet in transmission.
fn m_d_1_k(load: f64, k: usize) -> f64 {
    let mut arrive = vec![exponential(-load)];
    for n in 1..k {
        arrive.push(arrive[n - 1] * load / n as f64);
    }
    // pi[j + 1] from the balance of state j, up to a factor.
    let mut pi = vec![1.0];
    for j in 0..k - 1 {
        let reached: f64 = (1..=j).map(|i| pi[i] * arrive[j + 1 - i]).sum();
        let next = (pi[j] - pi[0] * arrive[j] - reached) / arrive[0];
        pi.push(next);
    }
    let empty = 1.0 / pi.iter().sum::<f64>();
    1.0 - 1.0 / (empty + load)
}

#[test]
fn the_closed_forms_of_loss_agree_with_published_tables() {
    for (load, loss) in
        [(0.8, 2.327e-3), (0.9, 1.365e-2), (0.95, 2.718e-2), (1.0, 4.762e-2), (1.05, 7.428e-2)]
    {
        assert!((m_m_1_k(load, 20) / loss - 1.0).abs() < 3e-4, "{load}");
    }
    for (load, k, loss) in
        [(0.8, 10, 3.639e-3), (0.9, 10, 1.663e-2), (1.0, 10, 5.085e-2), (0.95, 20, 8.069e-3)]
    {
        assert!((m_d_1_k(load, k) / loss - 1.0).abs() < 3e-4, "{load} {k} {}", m_d_1_k(load, k));
    }
}

fn lost(load: f64, sizes: &Value, k: u64, seconds: u32) -> Vec<f64> {
    let queue = json!({ "kind": "drop-tail", "limit": format!("{}p", k - 1) });
    let value = link(queue, poisson(load, sizes), seconds);
    replicate(&value, REPLICATIONS, |run| real(run, "links.drop_fraction")[0])
}

#[test]
#[ignore = "takes long: make theory"]
fn a_short_queue_of_exponential_packets_loses_as_m_m_1_k() {
    for (load, k) in [(0.9, 10), (1.0, 20), (1.05, 20)] {
        let found = lost(load, &exponential_sizes(), k, 2600);
        assert_met(&format!("M/M/1/{k} at {load}"), &found, m_m_1_k(load, k as i32), 0.03);
    }
}

#[test]
#[ignore = "takes long: make theory"]
fn a_short_queue_of_equal_packets_loses_as_m_d_1_k() {
    for (load, k) in [(0.9, 10), (1.0, 10), (1.0, 20)] {
        let found = lost(load, &constant_sizes(1000.0), k, 2600);
        assert_met(&format!("M/D/1/{k} at {load}"), &found, m_d_1_k(load, k as usize), 0.03);
    }
}

/// One endless Reno flow with data packets of 1000 B.
fn one_reno(rate: &str, queue: Value, seconds: u32) -> Value {
    json!({
        "duration": format!("{seconds}s"),
        "warm_up": "100s",
        "bottleneck": { "rate": rate, "delay": "49ms", "queue": queue },
        "access": { "rate": "100Gbps", "delay": "500us" },
        "host": { "jitter": "0s" },
        "tcp": {
            "connection": { "mss": "960B" }, "cwnd": { "initial_ssthresh": 20.0 }, "rto": { "min": "200ms" },
            "receiver": { "delayed_ack": "off", "window": 100_000 },
        },
        "record": { "drops": false, "queue_every": "0s" },
        "traffic": { "one": { "kind": "ftp", "stagger": "0s" } },
    })
}

/// Returns the throughput in packets per round-trip time of 100 ms.
fn packets_per_round(run: &aqm_net::level::Run, seconds: u32) -> f64 {
    whole(run, "links.departures")[0] as f64 * 0.1 / f64::from(seconds - 100)
}

#[test]
fn periodic_losses_agree_with_the_square_root_law() {
    // Ideal AIMD sends 1.2247 / sqrt(p) packets per round trip. A real sender detects a loss one round trip later,
    // repairs it in another one, and sends whole segments: a cycle has two additional round trips (1.5 W packets) and
    // half a segment less in each round trip. This effect decreases with p, and so must the difference.
    for (gap, seconds, band) in [(1_000_u32, 1100, 0.08), (10_000, 1700, 0.025)] {
        let losses: Vec<u64> = (1..4000).map(|n| n * u64::from(gap)).collect();
        let value = one_reno("10Gbps", json!({ "kind": "drop-nth", "packets": losses }), seconds);
        let found = run(value);
        let packets = f64::from(gap);
        let constant = packets_per_round(&found, seconds) / packets.sqrt();
        let window = (-1.5 + (2.25 + 1.5 * packets).sqrt()) / 0.75;
        let real_sender = (0.75 * window - 0.5) / packets.sqrt();
        println!("p = 1/{gap}: {constant:.4}, exact AIMD 1.2247, real sender {real_sender:.4}");
        assert_eq!(maybe_whole(&found, "flows.timeouts"), [Some(0)]);
        assert!((constant / 1.5_f64.sqrt() - 1.0).abs() < band, "1/{gap}: {constant}");
        assert!((constant / real_sender - 1.0).abs() < 0.01, "1/{gap}: {constant} {real_sender}");
    }
}

#[test]
fn random_losses_agree_with_the_square_root_law_with_a_larger_constant() {
    // 1.31 for ideal AIMD that halves its window at once; a complete TCP is within 8 %.
    let constants: Vec<f64> = (1..=REPLICATIONS)
        .map(|seed| {
            let mut rng = Streams::new(seed).named("losses", 0);
            let losses: Vec<u64> = (1..2_000_000).filter(|_| rng.chance(1e-4)).collect();
            let found = run(one_reno("10Gbps", json!({ "kind": "drop-nth", "packets": losses }), 700));
            packets_per_round(&found, 700) * 0.01
        })
        .collect();
    let (mean, error) = mean_and_error(&constants);
    println!("{mean:.4} +- {error:.4}, theory 1.31");
    assert!((mean - 1.31).abs() <= 0.08 * 1.31, "{mean} +- {error}");
    assert!(3.0 * error <= 0.08 * 1.31, "enough replications to tell: {error}");
}

#[test]
fn the_utilisation_of_one_reno_flow_depends_on_the_buffer() {
    // A 10 Mbps link with 100 ms contains 125 packets of 1000 B.
    for (share, limit) in [(0.25, 31), (0.5, 62), (1.0, 125)] {
        let queue = json!({ "kind": "drop-tail", "limit": format!("{limit}p") });
        let found = run(one_reno("10Mbps", queue, 1100));
        let theory = 0.75 * (1.0 + share) * (1.0 + share) / (1.0 + share + share * share);
        let used = real(&found, "links.utilisation")[0];
        println!("buffer {share} of the product: {used:.4}, theory {theory:.4}");
        assert_eq!(maybe_whole(&found, "flows.timeouts"), [Some(0)]);
        assert!((used / theory - 1.0).abs() < 0.02, "{share}: {used} is not within 2 % of {theory}");
    }
}

/// Returns the transmission time of `bytes` at `mbps` in nanoseconds.
fn sending(bytes: u64, mbps: u64) -> u64 {
    bytes * 8000 / mbps
}

/// One transfer of full segments over an idle 10 Mbps link.
fn one_transfer(segments: u64, initial_window: u64, queue: Value) -> Value {
    json!({
        "duration": "60s",
        "bottleneck": { "rate": "10Mbps", "delay": "60ms", "queue": queue },
        "access": { "rate": "100Mbps", "delay": "1ms" },
        "host": { "jitter": "0s" },
        "tcp": {
            "receiver": { "delayed_ack": "off" },
            "cwnd": { "initial": initial_window, "initial_after_syn_loss": initial_window },
        },
        "traffic": { "one": {
            "kind": "ftp", "sizes": constant_sizes(1460.0 * segments as f64), "stagger": "0s", "start": "1s",
        } },
    })
}

/// Returns the one-way delay in nanoseconds over two access links and the link between them, each with store and
/// forward.
fn one_way(bytes: u64) -> u64 {
    2 * (sending(bytes, 100) + 1_000_000) + sending(bytes, 10) + 60_000_000
}

/// Returns the number of slow-start rounds for `segments`, and the segments in the last round, by counting.
fn rounds(segments: u64, initial_window: u64) -> (u64, u64) {
    let (mut left, mut window, mut rounds) = (segments, initial_window, 1);
    while left > window {
        left -= window;
        window *= 2;
        rounds += 1;
    }
    (rounds, left)
}

#[test]
fn a_transfer_over_an_idle_link_takes_a_handshake_and_its_rounds_to_the_nanosecond() {
    // Segments, initial window, and rounds by ceil(log2(segments / window + 1)).
    let cases = [
        (10, 1, 4),
        (10, 2, 3),
        (10, 4, 2),
        (10, 10, 1),
        (100, 1, 7),
        (100, 2, 6),
        (100, 4, 5),
        (100, 10, 4),
    ];
    for (segments, window, expected_rounds) in cases {
        let (rounds, last) = rounds(segments, window);
        assert_eq!(rounds, expected_rounds);
        let found = run(one_transfer(segments, window, json!({ "kind": "drop-tail", "limit": "1000p" })));
        let (data, small) = (one_way(1500), one_way(40));
        let handshake = 2 * small;
        // The first packet of a round departs when the first packet of the previous round is acknowledged. The others
        // follow back to back.
        let complete = handshake + (rounds - 1) * (data + small) + data + (last - 1) * sending(1500, 10);
        let of = |column| nanos(maybe_real(&found, column)[0].unwrap());
        assert_eq!(of("transfers.handshake_s"), handshake);
        assert_eq!(of("transfers.first_byte_s"), handshake + data);
        assert_eq!(of("transfers.duration_s"), complete, "{segments} segments, window {window}");
        // The SYN, and the acknowledgement of the other end's FIN.
        assert_eq!(whole(&found, "transfers.packets_sent"), [segments + 2]);
    }
}

#[test]
fn a_lost_syn_delays_by_its_time_outs_to_the_nanosecond() {
    let duration = |lost: &[u64]| {
        let found = run(one_transfer(10, 2, json!({ "kind": "drop-nth", "packets": lost })));
        nanos(maybe_real(&found, "transfers.duration_s")[0].unwrap())
    };
    let without = duration(&[]);
    // The initial time-out of 1 s doubles: 1, 3, 7 s.
    for (lost, seconds) in [(vec![1], 1), (vec![1, 2], 3), (vec![1, 2, 3], 7)] {
        assert_eq!(duration(&lost), without + seconds * 1_000_000_000, "{lost:?}");
    }
}

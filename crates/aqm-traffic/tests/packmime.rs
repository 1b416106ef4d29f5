//! PackMime-HTTP compared with a run of ns-2 2.35: connections of 240 s at 116.1 per second, in each of two directions.
//!
//! `data/packmime-ns2-quantiles.csv` contains every 500th part of that run's gaps, request sizes and response sizes.
//! `data/packmime-ns2-autocorrelations.csv` contains the autocorrelations of the normal scores of gaps and requests,
//! and of an indicator for short responses (272 B or less). The ns-2 run is a single sample of the model; runs of
//! aqmlab show how far such a sample may be from the model. `--nocapture` prints all distances.

use aqm_net::{Instant, Rate, Size, Span, Streams};
use aqm_traffic::recording::run;
use aqm_traffic::{BuildContext, Config, Conversation, Packetisation};
use serde_json::json;

const RUNS: u64 = 20;
const LAGS: [usize; 8] = [1, 2, 3, 5, 10, 20, 50, 100];

struct Bytes;

impl Packetisation for Bytes {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes
    }
    fn payload(&self) -> u64 {
        1460
    }
}

/// Returns the connections of a run.
fn sample(seed: u64) -> Vec<(Instant, Conversation)> {
    let config = Config::read(json!({ "kind": "packmime", "connections_per_second": 116.1 })).unwrap();
    let context = BuildContext {
        name: "web",
        streams: Streams::new(seed),
        rate: Rate::from_bps(10_000_000),
        duration: Span::from_millis(240_000),
        packetisation: &Bytes,
        link_header: Size::from_bytes(0),
        file: None,
    };
    run(&mut *config.build(&context).unwrap()).conversations
}

/// Returns the gaps in seconds, the request sizes and the response sizes of a run.
fn series(run: &[(Instant, Conversation)]) -> [Vec<f64>; 3] {
    [
        run.windows(2).map(|pair| pair[1].0.since(pair[0].0).seconds()).collect(),
        run.iter().map(|(_, it)| it.first.request as f64).collect(),
        run.iter().map(|(_, it)| it.first.response as f64).collect(),
    ]
}

/// Reads the columns of a table of numbers without the first column; quantities 0, 1 and 2 are adjacent for each
/// direction.
fn columns(text: &str) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|field| field.parse().expect("a number")).collect())
        .collect();
    (1..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// Returns the Kolmogorov-Smirnov distance between a sorted sample and quantiles at equal steps of probability. At a
/// value with several quantiles, any probability in their range is correct.
fn distance(sample: &[f64], quantiles: &[f64]) -> f64 {
    let n = sample.len() as f64;
    let last = (quantiles.len() - 1) as f64;
    let far = |(k, &value): (usize, &f64)| {
        let chance = k as f64 / last;
        let below = sample.partition_point(|&x| x < value) as f64 / n;
        let until = sample.partition_point(|&x| x <= value) as f64 / n;
        (below - chance).max(chance - until).max(0.0)
    };
    quantiles.iter().enumerate().map(far).fold(0.0, f64::max)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the normal value with probability `p` of a smaller value, by bisection.
fn normal_score(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let below = 0.5 * libm::erfc(-middle / std::f64::consts::SQRT_2);
        if below < p { low = middle } else { high = middle }
    }
    low
}

/// Converts values to normal scores by their ranks; equal values keep their order.
fn scores(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut scores = vec![0.0; values.len()];
    for (rank, &index) in order.iter().enumerate() {
        scores[index] = normal_score((rank as f64 + 0.5) / values.len() as f64);
    }
    scores
}

fn autocorrelations(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let off: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let variance: f64 = off.iter().map(|value| value * value).sum();
    LAGS.map(|lag| off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum::<f64>() / variance).to_vec()
}

const NAMES: [&str; 3] = ["gaps", "requests", "responses"];

#[test]
fn gaps_and_sizes_are_distributed_as_in_ns_2() {
    let recorded = columns(include_str!("data/packmime-ns2-quantiles.csv"));
    let runs: Vec<[Vec<f64>; 3]> = (1..=RUNS).map(|seed| series(&sample(seed)).map(sorted)).collect();
    for (quantity, name) in NAMES.into_iter().enumerate() {
        let all = sorted(runs.iter().flat_map(|run| run[quantity].clone()).collect());
        let own = runs.iter().map(|run| {
            let at = |k: usize| run[quantity][(k * run[quantity].len() / 500).min(run[quantity].len() - 1)];
            distance(&all, &(0..=500).map(at).collect::<Vec<f64>>())
        });
        let own = sorted(own.collect());
        let ns2 = [quantity, quantity + 3].map(|column| distance(&all, &recorded[column]));
        println!(
            "{name}: distance of ns-2 {ns2:.4?}; of our own runs {:.4} to {:.4}",
            own[0],
            own[own.len() - 1]
        );
        // In 99 of 100 cases a sample of 27,000 independent values has a distance below 0.0099. Long memory increases
        // the distance of runs, and the thinned tables add up to 0.005.
        let most = own[own.len() - 1] + 0.005;
        assert!(most < 0.06 && ns2.into_iter().all(|distance| distance < most), "{name}: {ns2:?} {most}");
    }
}

#[test]
fn gaps_sizes_and_kinds_follow_one_another_as_in_ns_2() {
    let recorded = columns(include_str!("data/packmime-ns2-autocorrelations.csv"));
    let runs: Vec<[Vec<f64>; 3]> = (1..=RUNS)
        .map(|seed| {
            let [gaps, requests, responses] = series(&sample(seed));
            let short: Vec<f64> = responses.iter().map(|&size| f64::from(u8::from(size <= 272.0))).collect();
            [scores(&gaps), scores(&requests), short].map(|values| autocorrelations(&values))
        })
        .collect();
    for (quantity, name) in NAMES.into_iter().enumerate() {
        // Lag by lag, and over all lags together, which detects a small but persistent difference.
        let (mut squares, mut count) = (0.0, 0.0);
        for (index, lag) in LAGS.into_iter().enumerate() {
            let values: Vec<f64> = runs.iter().map(|run| run[quantity][index]).collect();
            let mean = values.iter().sum::<f64>() / RUNS as f64;
            let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (RUNS - 1) as f64;
            let spread = (variance * (1.0 + 1.0 / RUNS as f64)).sqrt();
            for ns2 in [recorded[quantity][index], recorded[quantity + 3][index]] {
                println!("{name}, lag {lag}: ns-2 {ns2:.4}, ours {mean:.4} and in one run ±{spread:.4}");
                assert!((ns2 - mean).abs() < 4.0 * spread, "{name}, lag {lag}: {ns2} {mean} {spread}");
                squares += (ns2 - mean) * (ns2 - mean) / (spread * spread);
                count += 1.0;
            }
        }
        println!("{name}: mean square of the differences in spreads {:.2}", squares / count);
        assert!(squares / count < 3.0, "{name}");
    }
}

#[test]
fn delays_are_distributed_as_in_ns_2() {
    // Quantiles of the same ns-2 run: shares in percent and one-way delays in milliseconds, on the clients' and the
    // servers' sides of both directions.
    let shares = [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9];
    let clients = [
        [
            0.266, 0.29, 0.323, 0.406, 0.517, 0.67, 0.742, 0.791, 1.3943, 9.1048, 19.2732, 47.4152, 305.756,
            817.849,
        ],
        [
            0.265, 0.286, 0.317, 0.391, 0.496, 0.643, 0.735, 0.783, 1.121, 7.0236, 17.7992, 38.4298, 274.949,
            757.211,
        ],
    ];
    let servers = [
        [
            0.30072, 0.5856, 1.1602, 3.461, 8.3304, 18.4138, 28.589, 35.5144, 44.452, 45.251, 56.4384,
            104.331, 315.062, 1579.67,
        ],
        [
            0.315, 0.64025, 1.316, 4.148, 10.2895, 22.181, 29.9755, 37.346, 44.586, 45.381, 60.247, 111.891,
            357.537, 1622.52,
        ],
    ];
    let runs: Vec<_> = (1..=RUNS).map(sample).collect();
    let check = |name: &str, delay: fn(&Conversation) -> Span, recorded: [[f64; 14]; 2]| {
        let all = sorted(runs.iter().flatten().map(|(_, it)| delay(it).seconds() * 1e3).collect());
        for quantiles in recorded {
            let far = shares.iter().zip(quantiles).map(|(share, value)| {
                let below = all.partition_point(|&x| x <= value) as f64 / all.len() as f64;
                (below - share / 100.0).abs()
            });
            let far = far.fold(0.0, f64::max);
            println!("{name}: largest difference of shares {far:.4}");
            assert!(far < 0.025, "{name}: {far}");
            // There are few slow connections, so their share is compared with its own probability among ns-2's 27,000
            // connections.
            for (share, value) in shares.iter().zip(quantiles).filter(|(share, _)| **share >= 95.0) {
                let slower = (all.len() - all.partition_point(|&x| x <= value)) as f64 / all.len() as f64;
                let (beyond, ratio) = (1.0 - share / 100.0, slower / (1.0 - share / 100.0));
                let spread = (27_000.0 * beyond).sqrt().recip();
                println!("{name}: slower than {value} ms are {ratio:.3} times as many, ±{spread:.3}");
                assert!((ratio - 1.0).abs() < 4.0 * spread, "{name}, {share} %: {ratio}");
            }
        }
    };
    check("clients", |it| it.client_delay, clients);
    check("servers", |it| it.server_delay, servers);
}

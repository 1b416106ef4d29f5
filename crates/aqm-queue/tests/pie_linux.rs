//! PIE and FQ-PIE compared with recorded open-loop runs of Linux 6.1: datagrams at fixed times over a 10 Mb/s link.
//!
//! The kernel draws random numbers, too, and was recorded five times for each case. Therefore means are compared, with
//! the standard errors of both. The kernel's HTB sends one packet of credit at once, and the last delays belong to
//! queues of a few packets, so that some tolerance is needed.

use aqm_link::{Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Streams};
use aqm_queue::Config;
use aqm_queue::testing::Fates;
use serde_json::{Value, json};

/// `count` datagrams of `bytes` bytes, one every `gap_us` microseconds, from `start_us` on.
struct Source {
    start_us: u64,
    count: u64,
    gap_us: u64,
    bytes: u16,
}

/// Results of a flow: drops, marks, and the mean, the 95 % quantile and the maximum of the delays in milliseconds.
type FlowResults = [f64; 5];

fn run(table: &Value, sources: &[Source], ecn: Ecn, seed: u64) -> Vec<FlowResults> {
    let rate = Rate::from_bps(10_000_000);
    let queue = Config::read(table.clone()).unwrap().build(rate).unwrap();
    let mut port = Port::new(queue, rate, Streams::new(seed).named("queue", 0), Ties::DepartureFirst);
    // One second after the creation of the queue, at any phase of its timer.
    let begin = 1_000_000_000 + seed * 7_919_000 % 16_000_000;
    let mut sends = Vec::new();
    for (flow, source) in (0..).zip(sources) {
        let at = |k: u64| begin + (source.start_us + k * source.gap_us) * 1000;
        sends.extend((0..source.count).map(|k| (at(k), flow, source.bytes + 14)));
    }
    sends.sort_unstable();
    let (mut fates, mut starts) = (Fates::default(), vec![None; sends.len()]);
    for (id, (at, flow, bytes)) in (0..).zip(&sends) {
        let packet = Packet { id, flow: *flow, bytes: *bytes, ecn, ..Packet::default() };
        port.accept(packet, Instant::from_nanos(*at), &mut fates, |sent| {
            starts[sent.packet.id as usize] = Some(sent.start.nanos());
        });
    }
    port.serve(Instant::from_nanos(60_000_000_000), &mut fates, |sent| {
        starts[sent.packet.id as usize] = Some(sent.start.nanos());
    });
    let seen = |flow: u32| {
        let of_flow = sends.iter().zip(&starts).filter(|((_, of, _), _)| *of == flow);
        let mut delays: Vec<f64> =
            of_flow.filter_map(|((at, ..), start)| Some((start.as_ref()? - at) as f64 / 1e6)).collect();
        delays.sort_by(f64::total_cmp);
        let count = delays.len();
        [
            fates.dropped_packets().filter(|packet| packet.flow == flow).count() as f64,
            fates.marked_packets().filter(|packet| packet.flow == flow).count() as f64,
            delays.iter().sum::<f64>() / count as f64,
            delays[count * 95 / 100],
            delays[count - 1],
        ]
    };
    (0..sources.len() as u32).map(seen).collect()
}

/// Checks that the means agree with those of the kernel, each given with its standard error.
fn agree(table: &Value, sources: &[Source], ecn: Ecn, theirs: &[[(f64, f64); 5]]) {
    let runs: Vec<Vec<FlowResults>> = (0..60).map(|seed| run(table, sources, ecn, seed)).collect();
    for (flow, theirs) in theirs.iter().enumerate() {
        for (k, (theirs, theirs_se)) in theirs.iter().enumerate() {
            let values: Vec<f64> = runs.iter().map(|seen| seen[flow][k]).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance =
                values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
            let slack = if k < 2 { 2.0 } else { 0.1 };
            let bound = 4.0 * (variance / n + theirs_se * theirs_se).sqrt() + slack;
            let what = ["drops", "marks", "mean delay", "95 % delay", "greatest delay"][k];
            assert!(
                (mean - theirs).abs() <= bound,
                "{table}, flow {flow}: {what} {mean}, not {theirs} +- {bound}"
            );
        }
    }
}

#[test]
fn with_a_load_of_1_25_pie_agrees_with_the_kernel() {
    let one = [Source { start_us: 0, count: 4000, gap_us: 640, bytes: 1000 }];
    let theirs = [(839.6, 0.25), (0.0, 0.0), (56.482, 0.341), (160.098, 1.364), (163.935, 1.403)];
    agree(&json!({"kind": "pie", "start": "fresh"}), &one, Ecn::NotEct, &[theirs]);
    let theirs = [(839.8, 0.20), (9.2, 0.583), (56.561, 0.449), (163.606, 0.946), (166.561, 1.151)];
    agree(&json!({"kind": "pie", "start": "fresh", "ecn": true}), &one, Ecn::Ect0, &[theirs]);
    // One run of a kernel with 100 ticks per second, compared with a standard deviation of aqmlab's runs.
    let theirs = [(840.0, 1.0), (0.0, 0.0), (102.515, 2.5), (206.276, 4.0), (209.124, 4.1)];
    agree(&json!({"kind": "pie", "start": "fresh", "hz": 100}), &one, Ecn::NotEct, &[theirs]);
}

#[test]
fn with_three_flows_fq_pie_agrees_with_the_kernel() {
    let three = [
        Source { start_us: 0, count: 4000, gap_us: 1000, bytes: 1000 },
        Source { start_us: 137, count: 2500, gap_us: 1600, bytes: 1200 },
        Source { start_us: 333, count: 200, gap_us: 20_000, bytes: 200 },
    ];
    let theirs = [
        [(1552.0, 0.0), (0.0, 0.0), (62.190, 0.725), (325.922, 4.33), (338.365, 5.41)],
        [(454.2, 0.490), (0.0, 0.0), (35.947, 0.401), (139.762, 2.18), (147.267, 2.56)],
    ];
    // With more queues, no two of the flows share one.
    let table = json!({"kind": "fq-pie", "start": "fresh", "flows": 65536});
    agree(&table, &three, Ecn::NotEct, &theirs);
    // The sparse flow has almost no queueing delay: 0.43 ms in the kernel, half the transmission time of a packet.
    let sparse = run(&table, &three, Ecn::NotEct, 1)[2];
    assert!(sparse[0] == 0.0 && (sparse[2] - 0.433).abs() < 0.05, "{sparse:?}");
}

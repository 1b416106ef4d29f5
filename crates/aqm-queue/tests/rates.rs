//! From the slowest allowed rates to 400 Gb/s, there is no overflow, no division by zero, and no clock that goes
//! backwards: ns-3#258, whose token bucket had the last two problems.

use aqm_net::{Ecn, Instant, Packet, Quantity, Rate, Span, Streams};
use aqm_queue::testing::Ignore;
use aqm_queue::testing::invariants;
use aqm_queue::{Config, Context, Label, Protocol};
use serde_json::{Value, json};

/// In bits per second.
const RATES: [u64; 10] = [
    16,
    100,
    1000,
    56_000,
    1_000_000,
    7_777_777,
    100_000_000,
    1_000_000_000,
    100_000_000_000,
    400_000_000_000,
];

fn rate(bps: u64) -> String {
    format!("{bps}bps")
}

#[test]
fn a_bit_per_second_is_rejected_with_the_allowed_range() {
    for field in [json!({"kind": "cake", "bandwidth": "1bps"}), json!({"kind": "policer", "rate": "1bps"})] {
        let error = Config::read(field).unwrap_err().to_string();
        assert!(error.contains("must be between 16bps and 10Tbps"), "{error}");
    }
    assert_eq!(Rate::parse("16bps"), Ok(Rate::LEAST));
}

/// The departure times of `count` packets of a size from a queue that is always backlogged, on an infinitely fast link.
fn departures(table: Value, bytes: u16, count: usize) -> Vec<Instant> {
    let config = Config::read(table).unwrap();
    let mut queue = invariants::watched(&config, Rate::from_bps(400_000_000_000)).unwrap();
    let mut rng = Streams::new(1).named("queue", 0);
    let (mut now, mut sent) = (Instant::START, Vec::new());
    let mut next_id = 0;
    while sent.len() < count {
        let mut cx = Context { now, rng: &mut rng, observer: &mut Ignore };
        while queue.backlog().packets < 3 {
            queue.enqueue(Packet { id: next_id, bytes, ecn: Ecn::Ect0, ..Packet::default() }, &mut cx);
            next_id += 1;
        }
        match queue.dequeue(&mut cx) {
            Some(_) => sent.push(now),
            None => {
                let ready = queue.next_ready().expect("packets wait");
                assert!(ready > now, "the clock stands still at {now:?}");
                now = ready;
            }
        }
    }
    sent
}

/// A shaper at this bit rate. Returns the effective rate, and the longest time that the shaper delays a packet.
type Shaper = fn(u64) -> Option<(Value, f64, f64)>;

const SHAPERS: [Shaper; 3] = [
    // A bucket remembers a debt of at most a minute, as in the kernel.
    |bps| {
        let class = json!({"rate": rate(bps), "burst": "1600B", "cburst": "1600B", "quantum": "1500B"});
        Some((json!({"kind": "htb", "classes": {"all": class}}), bps as f64, 60.0))
    },
    // The kernel's slowest rate is 64 bytes per second.
    |bps| {
        let rtt = "4294s";
        Some((
            json!({"kind": "cake", "bandwidth": rate(bps), "rtt": rtt}),
            bps.max(512) as f64,
            f64::INFINITY,
        ))
    },
    // No packet of `fq` pauses for longer than a second, and its rates have 32 bits.
    |bps| {
        let is_rate = bps / 8 < u64::from(u32::MAX);
        let mut table =
            json!({"kind": "fq", "maxrate": rate(bps), "initial_quantum": "0B", "timer_slack": "0s"});
        if bps > 550_000 {
            table["quantum"] = json!("1B");
        }
        is_rate.then_some((table, bps as f64, 1.0))
    },
];

#[test]
fn a_shaper_enforces_any_configured_rate() {
    for (bps, bytes) in RATES.iter().flat_map(|&bps| [1_u16, 64, 1500, u16::MAX].map(|bytes| (bps, bytes))) {
        for (table, rate, longest) in SHAPERS.iter().filter_map(|shaper| shaper(bps)) {
            let count = 300;
            let sent = departures(table.clone(), bytes, count);
            assert!(sent.is_sorted());
            let spacing = (f64::from(bytes) * 8.0 / rate).min(longest);
            let took = sent[count - 1].since(sent[0]).nanos() as f64 / 1e9;
            let expected = spacing * (count - 1) as f64;
            // A burst, and a nanosecond per packet.
            let burst = (1600.0 + f64::from(bytes)) * 8.0 / rate + 1e-9 * count as f64;
            assert!(
                (took - expected).abs() <= burst + expected * 0.001,
                "{table}: {count} packets of {bytes} bytes took {took} s, not {expected} s"
            );
        }
    }
}

#[test]
fn a_policer_passes_its_rate_and_a_burst_at_any_rate() {
    for bps in RATES {
        let table = json!({"kind": "policer", "rate": rate(bps), "burst": "3000B", "peak": rate(2 * bps)});
        let mut queue = Config::read(table).unwrap().build(Rate::from_bps(400_000_000_000)).unwrap();
        let mut rng = Streams::new(1).named("queue", 0);
        // Five times the rate.
        let gap = 8e9 * 1000.0 / bps as f64 / 5.0;
        let mut passed = 0.0;
        for k in 0..1000_u32 {
            let now = Instant::from_nanos((f64::from(k) * gap) as u64);
            let mut cx = Context { now, rng: &mut rng, observer: &mut Ignore };
            queue.enqueue(Packet { id: k, bytes: 1000, ..Packet::default() }, &mut cx);
            passed += f64::from(u8::from(queue.dequeue(&mut cx).is_some()));
        }
        assert!((199.0..=204.0).contains(&passed), "{passed} of 1000 packets pass at {bps} bps");
    }
}

/// The longest time between arrivals. At the slowest rates, a packet takes minutes.
const LONGEST: Span = Span::from_millis(1_000_000);

/// Packets at half and at twice the link rate.
fn walk(config: &Config, line: Rate) {
    let Ok(mut queue) = invariants::watched(config, line) else { return };
    for number in 0..4 {
        let label = Label { traffic: format!("flow {number}"), protocol: Protocol::Udp, port: 0, dscp: 0 };
        queue.on_label(number, &label);
    }
    let streams = Streams::new(5);
    let (mut rng, mut own) = (streams.named("queue", 0), streams.named("arrivals", 0));
    let (mut free_at, mut now) = (Instant::START, Instant::START);
    let pace = line.pace();
    for id in 0..250_u32 {
        let bytes = [1, 64, 1000, 1500, 1500, u16::MAX][own.below(6) as usize];
        let load = if id % 100 < 50 { 0.5 } else { 2.0 };
        let gap = pace.time_for(1500).nanos() as f64 / load * 2.0 * own.uniform();
        now += Span::from_nanos(gap as u64).min(LONGEST);
        while free_at <= now && queue.backlog().packets > 0 {
            let mut cx = Context { now: free_at, rng: &mut rng, observer: &mut Ignore };
            free_at = match queue.dequeue(&mut cx) {
                Some(packet) => free_at + pace.time_for(packet.bytes.into()).max(Span::from_nanos(1)),
                None => match queue.next_ready() {
                    Some(at) => {
                        assert!(at > free_at, "the clock does not advance");
                        at
                    }
                    None => break,
                },
            };
        }
        let flow = own.below(4) as u32;
        let packet = Packet {
            id,
            flow,
            bytes,
            ecn: [Ecn::NotEct, Ecn::Ect0][(flow % 2) as usize],
            cwnd: 1 + own.below(30) as u16,
            label: flow as u16,
            class: flow as u8,
            ..Packet::default()
        };
        free_at = free_at.max(now);
        queue.enqueue(packet, &mut Context { now, rng: &mut rng, observer: &mut Ignore });
    }
}

#[test]
fn every_queue_works_at_every_link_rate() {
    for config in Config::every() {
        RATES.iter().for_each(|&bps| walk(&config, Rate::from_bps(bps)));
    }
    // Some controllers execute an update for every ten microseconds of the days that a packet takes at 16 bps.
    for (config, bps) in
        Config::corners().iter().flat_map(|config| RATES[3..].iter().map(move |&bps| (config, bps)))
    {
        walk(config, Rate::from_bps(bps));
    }
}

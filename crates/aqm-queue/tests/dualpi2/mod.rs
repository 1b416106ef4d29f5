//! Tests of DualPI2: a second implementation of the RFC's pseudocode and of the kernel's arithmetic, and the relations
//! that follow from them.

mod slow;

use aqm_link::{Departure, Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::testing::invariants;
use aqm_queue::testing::{Driver, Fate, Fates, packet};
use aqm_queue::{Config, QueueDiscipline, Reason};
use serde_json::{Value, json};

use slow::{Kernel, Rfc};

const LINE: Rate = Rate::from_bps(10_000_000);

/// The sent packets, and the fates of the others.
struct Outcome {
    fates: Fates,
    sent: Vec<Departure>,
}

/// Sends packets with these arrival times through a queue and a 10 Mb/s link.
fn run(queue: Box<dyn QueueDiscipline>, arrivals: &[(Instant, Packet)]) -> Outcome {
    let mut port = Port::new(queue, LINE, Streams::new(11).named("queue", 0), Ties::DepartureFirst);
    let (mut fates, mut sent) = (Fates::default(), Vec::new());
    for (id, (at, packet)) in arrivals.iter().enumerate() {
        let packet = Packet { id: id as u32, ..*packet };
        port.accept(packet, *at, &mut fates, |departure| sent.push(departure));
    }
    let end = arrivals.last().map_or(Instant::START, |(at, _)| *at + Span::from_millis(60_000));
    port.serve(end, &mut fates, |departure| sent.push(departure));
    Outcome { fates, sent }
}

fn dualpi2(mut table: Value) -> Box<dyn QueueDiscipline> {
    table["kind"] = json!("dualpi2");
    invariants::watched(&Config::read(table).unwrap(), LINE).unwrap()
}

/// Alternating load and idle times: packets of all sizes and ECN code points, single and in bursts, at loads from a
/// tenth of the link rate to three times the link rate.
fn random_load(seed: u64, packets: usize) -> Vec<(Instant, Packet)> {
    let mut rng = Streams::new(seed).named("weather", 0);
    let mut now = Instant::from_nanos(1_000);
    let mut arrivals = Vec::new();
    while arrivals.len() < packets {
        let load = 3.0 * rng.uniform() * rng.uniform() + 0.1;
        let shares = [rng.uniform(), rng.uniform(), rng.uniform()];
        let sizes = [[1500; 3], [1500, 600, 60], [100; 3]][rng.below(3) as usize];
        for _ in 0..rng.below(700) {
            let ecn = match rng.uniform() * (shares.iter().sum::<f64>() + 0.02) {
                draw if draw < shares[0] => Ecn::NotEct,
                draw if draw < shares[0] + shares[1] => Ecn::Ect0,
                draw if draw < shares[0] + shares[1] + shares[2] => Ecn::Ect1,
                _ => Ecn::Ce,
            };
            let bytes = sizes[rng.below(3) as usize];
            for _ in 0..if rng.chance(0.05) { 10 } else { 1 } {
                arrivals.push((now, Packet { ecn, ..packet(bytes) }));
            }
            now += Span::from_seconds(-libm::log(rng.uniform_positive()) * f64::from(bytes) * 0.8e-6 / load);
        }
        if rng.chance(0.3) {
            now += Span::from_millis(rng.below(400));
        }
    }
    arrivals
}

/// Fates without their reasons, because a mark decided by both AQMs of the L4S queue may have either reason.
fn plain(fates: &[Fate]) -> Vec<(Packet, bool, Instant)> {
    fates.iter().map(|fate| (fate.packet, fate.is_mark, fate.at)).collect()
}

fn assert_same(fast: Box<dyn QueueDiscipline>, slow: Box<dyn QueueDiscipline>, what: &str) {
    for seed in 1..=4 {
        let arrivals = random_load(seed, 6000);
        let (fast, slow) = (run(fast.clone(), &arrivals), run(slow.clone(), &arrivals));
        assert!(
            slow.fates.counts.marks > 100 && slow.fates.counts.drops() > 20,
            "{what}: {:?}",
            slow.fates.counts
        );
        assert_eq!(plain(&fast.fates.list), plain(&slow.fates.list), "{what}, seed {seed}");
        assert!(fast.sent == slow.sent, "{what}, seed {seed}");
    }
}

#[test]
fn the_rfcs_pseudocode_yields_the_same_fates() {
    let rate = 312_500;
    assert_same(dualpi2(json!({"profile": "rfc"})), Box::new(Rfc::new(rate, Some(6.25))), "round robin");
    let fifo = json!({"profile": "rfc", "scheduler": "time-shifted-fifo"});
    assert_same(dualpi2(fifo), Box::new(Rfc::new(rate, None)), "time-shifted FIFO");
    let other = json!({
        "profile": "rfc", "limit": "30kB", "coupling": 1.64, "target": "5ms", "tupdate": "3ms", "alpha": 1.0,
        "beta": 9.0, "min_th": "2ms", "range": "0ms", "th_len": 4, "c_protection": 0.5,
    });
    let slow = Rfc {
        k: 1.64,
        target: 0.005,
        tupdate: 3_000_000,
        alpha: 1.0,
        beta: 9.0,
        min_th: 0.002,
        range: 0.0,
        th_len: 4,
        ..Rfc::new(30_000, Some(50.0))
    };
    assert_same(dualpi2(other), Box::new(slow), "other values");
}

#[test]
fn the_kernels_integers_yield_the_same_fates() {
    assert_same(dualpi2(json!({})), Box::new(Kernel::default()), "defaults");
    let early = Kernel { drop_early: true, min_qlen_step: 2, step: Ok(500_000), ..Kernel::default() };
    let table = json!({"drop_early": true, "min_qlen_step": 2, "step_thresh": "500us"});
    assert_same(dualpi2(table), Box::new(early), "at arrival");
    let packets = Kernel { step: Err(7), mask: 3, percent: 50, coupling: 5, limit: 90, ..Kernel::default() };
    let packets = Kernel { memory_limit: 90 * 3028, ..packets };
    let table = json!({
        "step_thresh_packets": 7, "ecn_mask": "any-ect", "c_protection": 0.5, "coupling": 5.0, "limit": "90p",
    });
    assert_same(dualpi2(table), Box::new(packets), "in packets");
    let overflow = Kernel { drop_overload: false, memory_limit: 100_000, target: 0, ..Kernel::default() };
    let table = json!({"drop_overload": false, "memory_limit": "100kB", "target": "0ms"});
    assert_same(dualpi2(table), Box::new(overflow), "without drops on overload");
}

/// A stream of packets of 1000 bytes with this share of the link rate, at random times.
fn stream(share: f64, ecn: Ecn, seconds: f64, seed: u64) -> Vec<(Instant, Packet)> {
    let mut rng: Rng = Streams::new(seed).named("stream", ecn as u64);
    let mut now = 0.0;
    let mut arrivals = Vec::new();
    while share > 0.0 && now < seconds {
        now += (0.5 + rng.uniform()) * 0.0008 / share;
        arrivals.push((Instant::from_nanos((now * 1e9) as u64), Packet { ecn, ..packet(1000) }));
    }
    arrivals
}

/// Several unresponsive streams together.
fn mixed(shares: &[(f64, Ecn)], seconds: f64) -> Vec<(Instant, Packet)> {
    let streams = shares.iter().map(|&(share, ecn)| stream(share, ecn, seconds, 3));
    let mut arrivals: Vec<_> = streams.flatten().collect();
    arrivals.sort_by_key(|(at, _)| *at);
    arrivals
}

/// The results of one stream after the first `from` seconds.
#[derive(Debug)]
struct StreamResult {
    dropped: f64,
    marked: f64,
    /// Mean time in the queue of the sent packets, in seconds.
    waited: f64,
    longest: f64,
}

fn stream_result(arrivals: &[(Instant, Packet)], outcome: &Outcome, ecn: Ecn, from: f64) -> StreamResult {
    let counts = |id: u32| {
        let (at, packet) = arrivals[id as usize];
        packet.ecn == ecn && at.seconds() >= from
    };
    let share = |chosen: usize, of: usize| chosen as f64 / of as f64;
    let all = (0..arrivals.len() as u32).filter(|id| counts(*id)).count();
    let chosen = |is_mark| {
        let is_chosen = |fate: &&Fate| fate.is_mark == is_mark && fate.why != Reason::Overflow;
        outcome.fates.list.iter().filter(is_chosen).filter(|fate| counts(fate.packet.id)).count()
    };
    let waits: Vec<f64> = outcome
        .sent
        .iter()
        .filter(|departure| counts(departure.packet.id))
        .map(|departure| departure.start.since(arrivals[departure.packet.id as usize].0).seconds())
        .collect();
    StreamResult {
        dropped: share(chosen(false), all),
        marked: share(chosen(true), all),
        waited: waits.iter().sum::<f64>() / waits.len() as f64,
        longest: waits.iter().copied().fold(0.0, f64::max),
    }
}

const PROFILES: [&str; 2] = ["linux", "rfc"];

#[test]
fn the_drop_rate_of_classic_traffic_is_its_excess_and_the_base_probability_is_its_root() {
    for profile in PROFILES {
        for load in [1.02, 1.06, 1.2] {
            let arrivals = mixed(&[(load, Ecn::NotEct)], 120.0);
            let outcome = run(dualpi2(json!({"profile": profile})), &arrivals);
            let classic = stream_result(&arrivals, &outcome, Ecn::NotEct, 30.0);
            assert!((classic.dropped - (1.0 - 1.0 / load)).abs() < 0.004, "{profile} {load}: {classic:?}");
            assert!((classic.waited - 0.015).abs() < 0.0015, "{profile} {load}: {classic:?}");
            let mut driver = Driver::new(json!({"kind": "dualpi2", "profile": profile}), 1);
            let mut bases = Vec::new();
            drain(&mut driver, &arrivals, |driver, _, _| {
                if driver.now.seconds() > 60.0 {
                    bases.push(driver.gauge("prob"));
                }
            });
            let base = bases.iter().sum::<f64>() / bases.len() as f64;
            assert!((base - libm::sqrt(1.0 - 1.0 / load)).abs() < 0.01, "{profile} {load}: {base}");
        }
    }
}

/// Runs the same link call by call. `after` is called after each dequeue with the fates so far and the packets sent.
fn drain(
    driver: &mut Driver,
    arrivals: &[(Instant, Packet)],
    mut after: impl FnMut(&Driver, &[Fate], Option<Packet>),
) {
    let mut free_at = Instant::START;
    for (at, packet) in arrivals {
        while free_at <= *at && driver.queue.backlog().packets > 0 {
            driver.now = free_at;
            driver.fates = Fates::default();
            let sent = driver.take();
            after(driver, &driver.fates.list, sent);
            free_at += Span::from_nanos(if sent.is_some() { 800_000 } else { 0 });
        }
        if driver.queue.backlog().packets == 0 {
            free_at = free_at.max(*at);
        }
        driver.now = *at;
        driver.offer(*packet);
    }
}

#[test]
fn the_classic_queue_is_signalled_with_the_square_of_the_base_and_the_l4s_queue_with_k_times_the_base() {
    for (profile, shares, k) in [
        ("linux", [0.85, 0.2], 2.0),
        ("rfc", [0.85, 0.2], 2.0),
        ("rfc", [0.7, 0.4], 2.0),
        ("rfc", [0.9, 0.15], 1.64),
        ("linux", [0.92, 0.1], 4.0),
    ] {
        let streams = [(shares[0] - 0.1, Ecn::NotEct), (0.1, Ecn::Ect0), (shares[1], Ecn::Ect1)];
        let arrivals = mixed(&streams, 150.0);
        // The L4S queue's native AQM is inactive, and the controller is always active.
        let table = json!({
            "kind": "dualpi2", "profile": profile, "coupling": k, "step_thresh": "10s", "min_backlog": "0B",
        });
        let mut driver = Driver::new(table, 7);
        // For each stream: packets sent or dropped, packets chosen, and the sum of their probabilities.
        let mut totals = [[0.0; 3]; 3];
        drain(&mut driver, &arrivals, |driver, fates, sent| {
            let base = driver.gauge("prob");
            let chosen = fates.iter().map(|fate| (fate.packet.id, true));
            let left = sent.filter(|sent| fates.iter().all(|fate| fate.packet.id != sent.id));
            for (id, is_chosen) in chosen.chain(left.map(|packet| (packet.id, false))) {
                let ecn = arrivals[id as usize].1.ecn;
                let stream =
                    streams.iter().position(|(_, of)| *of == ecn).expect("each packet belongs to a stream");
                totals[stream][0] += 1.0;
                totals[stream][1] += f64::from(u8::from(is_chosen));
                totals[stream][2] += if ecn == Ecn::Ect1 { k * base } else { base * base };
            }
        });
        for (of, (_, ecn)) in totals.iter().zip(streams) {
            assert!((of[1] / of[2] - 1.0).abs() < 0.05, "{profile} {shares:?} {ecn:?}: {totals:?}");
        }
        // The excess is dropped, from packets without ECN.
        let (excess, dropped) = ((shares[0] + shares[1] - 1.0) / streams[0].0, totals[0][1] / totals[0][0]);
        assert!((dropped - excess).abs() < 0.004, "{profile} {shares:?}: {totals:?}");
    }
}

#[test]
fn in_overload_both_queues_drop_equally_regardless_of_ecn_bits_and_the_delay_stays_at_its_target() {
    for profile in PROFILES {
        let shares = [(0.5, Ecn::NotEct), (0.5, Ecn::Ect0), (0.6, Ecn::Ect1)];
        let arrivals = mixed(&shares, 60.0);
        let outcome = run(dualpi2(json!({"profile": profile})), &arrivals);
        let all = shares.map(|(_, ecn)| stream_result(&arrivals, &outcome, ecn, 20.0));
        for result in &all {
            assert!((result.dropped - 0.375).abs() < 0.015, "{profile}: {all:?}");
        }
        let [classic, ect0, l4s] = &all;
        assert!(ect0.marked < 0.02 && l4s.marked + l4s.dropped > 0.99, "{profile}: {all:?}");
        assert!(
            classic.waited < 0.02 && ect0.waited < 0.02 && l4s.waited < classic.waited,
            "{profile}: {all:?}"
        );
    }
}

#[test]
fn l4s_traffic_that_overloads_the_link_alone_has_the_classic_target_delay() {
    for profile in PROFILES {
        let arrivals = mixed(&[(1.4, Ecn::Ect1)], 60.0);
        let outcome = run(dualpi2(json!({"profile": profile})), &arrivals);
        let l4s = stream_result(&arrivals, &outcome, Ecn::Ect1, 20.0);
        assert!((l4s.dropped - 0.4 / 1.4).abs() < 0.01, "{profile}: {l4s:?}");
        assert!((l4s.waited - 0.015).abs() < 0.003 && l4s.marked + l4s.dropped > 0.99, "{profile}: {l4s:?}");
    }
}

#[test]
fn without_drops_on_overload_the_probability_is_capped_and_the_buffer_fills() {
    for profile in PROFILES {
        let arrivals = mixed(&[(0.7, Ecn::NotEct), (0.9, Ecn::Ect1)], 40.0);
        let table = json!({"profile": profile, "drop_overload": false, "limit": "100p"});
        let outcome = run(dualpi2(table), &arrivals);
        let [classic, l4s] =
            [Ecn::NotEct, Ecn::Ect1].map(|ecn| stream_result(&arrivals, &outcome, ecn, 20.0));
        // A quarter of the packets that leave the Classic queue. Packets dropped on arrival are not among them.
        assert!(l4s.dropped == 0.0 && l4s.marked > 0.5, "{profile}: {l4s:?}");
        let tail = outcome.fates.list.iter().filter(|fate| fate.why == Reason::Overflow).count();
        assert!(tail > 4000 && classic.dropped > 0.0, "{profile}: {tail} {classic:?}");
    }
}

#[test]
fn a_paced_l4s_stream_waits_for_one_packet_with_any_classic_queue_length() {
    for profile in PROFILES {
        let arrivals = mixed(&[(1.0, Ecn::NotEct), (0.15, Ecn::Ect1)], 30.0);
        let outcome = run(dualpi2(json!({"profile": profile})), &arrivals);
        let [classic, l4s] = [Ecn::NotEct, Ecn::Ect1].map(|ecn| stream_result(&arrivals, &outcome, ecn, 5.0));
        assert!(classic.waited > 0.012 && l4s.waited < 0.0006, "{profile}: {classic:?} {l4s:?}");
        // The packet in transmission, and sometimes a Classic packet whose turn it is.
        assert!(l4s.longest < 0.0017, "{profile}: {l4s:?}");
    }
}

#[test]
fn a_step_of_l4s_load_is_signalled_within_two_milliseconds_and_classic_packets_still_leave() {
    for profile in PROFILES {
        let mut arrivals = mixed(&[(0.1, Ecn::NotEct), (0.3, Ecn::Ect1)], 2.0);
        let step: Vec<_> =
            (0..1000).map(|k| (Instant::from_nanos(2_000_000_000 + k * 400_000), Ecn::Ect1)).collect();
        arrivals.extend(step.into_iter().map(|(at, ecn)| (at, Packet { ecn, ..packet(1000) })));
        arrivals.extend((0..20).map(|k| (Instant::from_nanos(2_000_100_000 + k * 20_000_000), packet(1000))));
        arrivals.sort_by_key(|(at, _)| *at);
        let outcome = run(dualpi2(json!({"profile": profile})), &arrivals);
        let is_mark = |fate: &&Fate| fate.is_mark && fate.at.seconds() >= 2.0;
        let first = outcome.fates.list.iter().find(is_mark).expect("a mark").at.seconds() - 2.0;
        assert!(first < 0.005, "{profile}: first mark after {first} s");
        assert!(outcome.fates.list.iter().filter(|fate| fate.at.seconds() < 1.9).count() < 5, "{profile}");
        // The L4S stream offers twice the link rate. A Classic packet sometimes waits for its turn, after 9 to 15
        // packets, or for two turns.
        let waits =
            outcome.sent.iter().filter(|departure| departure.packet.ecn == Ecn::NotEct).map(|departure| {
                let arrival = arrivals[departure.packet.id as usize].0;
                (arrival, departure.start.since(arrival).seconds())
            });
        let longest =
            waits.filter(|(arrival, _)| arrival.seconds() > 2.0).map(|(_, wait)| wait).fold(0.0, f64::max);
        assert!(longest < 0.04, "{profile}: {longest}");
    }
}

#[test]
fn below_two_packets_the_kernels_controller_is_inactive() {
    let mut driver = Driver::new(json!({"kind": "dualpi2", "tupdate": "1ms", "step_thresh": "10s"}), 1);
    let ect1 = Packet { ecn: Ecn::Ect1, ..packet(1000) };
    // A head packet that waits for 600 ms drives the probability to 1. A packet that leaves less than 3028 bytes behind
    // is exempt.
    (0..9).for_each(|_| {
        driver.offer(ect1);
    });
    driver.now = Instant::from_nanos(600_000_000);
    let sent: Vec<Ecn> = std::iter::from_fn(|| driver.take()).map(|packet| packet.ecn).collect();
    assert_eq!((driver.gauge("prob"), driver.fates.counts.early, sent), (1.0, 5, vec![Ecn::Ect1; 4]));
}

#[test]
fn the_counters_are_those_of_the_kernel() {
    let mut driver = Driver::new(json!({"kind": "dualpi2", "min_qlen_step": 1}), 1);
    driver.now = Instant::from_nanos(1_000_000);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::Ect1] {
        driver.offer(Packet { ecn, ..packet(1500) });
    }
    let now = Instant::from_nanos(4_500_000);
    let before = driver.queue.tc_statistics(now);
    assert_eq!(
        before,
        json!({
            "prob": 0.0, "delay-c": 3500, "delay-l": 3500, "pkts-in-c": 2, "pkts-in-l": 3, "maxq": 4, "ecn-mark": 0,
            "step-mark": 0, "credit": -121_120, "memory-used": 11_520, "max-memory-used": 11_520,
            "memory-limit": 30_280_000, "overlimits": 0,
        })
    );
    driver.now = now;
    let sent: Vec<Ecn> = (0..3).filter_map(|_| driver.take()).map(|packet| packet.ecn).collect();
    // The first L4S packet found none before it. The packet that was already CE is counted as marked again.
    assert_eq!(sent, [Ecn::Ect1, Ecn::Ce, Ecn::Ce]);
    let after = driver.queue.tc_statistics(now);
    assert_eq!(
        (&after["ecn-mark"], &after["step-mark"], &after["memory-used"]),
        (&json!(2), &json!(2), &json!(4608))
    );
    assert_eq!(
        (&after["credit"], &after["delay-l"], driver.fates.counts.marks),
        (&json!(-76_120), &json!(0), 1)
    );
}

#[test]
fn drops_for_limit_or_memory_are_overlimits() {
    for limit in [json!({"limit": "3p"}), json!({"memory_limit": "7kB"})] {
        let mut table = limit.clone();
        table["kind"] = json!("dualpi2");
        let mut driver = Driver::new(table, 1);
        (0..5).for_each(|_| {
            driver.offer(packet(1500));
        });
        let statistics = driver.queue.tc_statistics(driver.now);
        assert_eq!((driver.fates.counts.drops(), &statistics["overlimits"]), (2, &json!(2)), "{limit}");
    }
}

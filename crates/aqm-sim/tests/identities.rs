//! Identities that every run must satisfy, to the packet and the nanosecond: conservation of packets, a work-conserving
//! transmitter, Little's law, and the reliability of TCP.

use crate::common::{maybe_real, maybe_whole, nanos, real, run, truth, whole, words};
use aqm_net::level::Run;
use aqm_net::{Rng, Streams};
use serde_json::{Value, json};

const RUNS: u64 = 12;
const RATES_MBPS: [u64; 3] = [1, 5, 20];
const DELAYS_MS: [u64; 4] = [1, 10, 60, 200];
const SECONDS: f64 = 20.0;

struct Case {
    found: Run,
    value: Value,
    rate_mbps: u64,
    delay_ms: u64,
}

fn choose<T: Copy>(rng: &mut Rng, among: &[T]) -> T {
    among[rng.below(among.len() as u64) as usize]
}

/// Sizes of 500 B on average.
fn sizes(kind: &str) -> Value {
    json!({ "kind": kind, (if kind == "constant" { "value" } else { "mean" }): "500B" })
}

/// Returns a random dumbbell with a queue, a TCP configuration and a mix of traffic.
fn any_case(number: u64) -> Case {
    let mut rng = Streams::new(number).named("identities", 0);
    let (rate_mbps, delay_ms) = (choose(&mut rng, &RATES_MBPS), choose(&mut rng, &DELAYS_MS));
    let red = json!({ "min_th": "5p", "max_th": "15p", "limit": "40p", "weight": 0.02 });
    let queue = match number % 4 {
        0 => json!({ "kind": "drop-tail", "limit": format!("{}p", 1 + rng.below(60)) }),
        1 => json!({ "kind": "drop-tail", "limit": format!("{}B", 3000 + rng.below(60_000)) }),
        2 => {
            let mut queue = red;
            queue["kind"] = "red".into();
            queue["ecn"] = "always".into();
            queue
        }
        _ => json!({ "kind": "shred", "red": red }),
    };
    let mut traffic = json!({
        "long": { "kind": "ftp", "flows": 1 + rng.below(5), "stagger": "2s" },
        "web": { "kind": "web", "load": 0.2 + 0.8 * rng.uniform(), "objects": { "kind": "constant", "value": 1 + rng.below(6) } },
        "datagrams": {
            "kind": "udp", "load": 0.05 + 0.2 * rng.uniform(), "gaps": { "kind": choose(&mut rng, &["constant", "exponential"]) },
            "sizes": sizes(choose(&mut rng, &["constant", "exponential"])), "ecn": true,
        },
    });
    if number.is_multiple_of(3) {
        traffic["web"]["extra_delay"] = json!(["0ms", "40ms"]);
    }
    let value = json!({
        "duration": format!("{SECONDS}s"),
        "seed": number,
        "bottleneck": { "rate": format!("{rate_mbps}Mbps"), "delay": format!("{delay_ms}ms"), "queue": queue },
        "tcp": {
            "profile": choose(&mut rng, &["rfc", "ns-2.35"]),
            "receiver": { "delayed_ack": choose(&mut rng, &["off", "every-second"]) },
        },
        "record": { "packets": ["bottleneck"], "queue_every": "500ms" },
        "traffic": traffic,
    });
    Case { found: run(value.clone()), value, rate_mbps, delay_ms }
}

fn cases() -> impl Iterator<Item = Case> {
    (1..=RUNS).map(any_case)
}

fn sum(values: &[u64]) -> u64 {
    values.iter().sum()
}

#[test]
fn every_arrived_packet_departs_is_dropped_or_queued() {
    for Case { found, value, .. } in cases() {
        let of = |column: &str| whole(&found, &format!("links.{column}"))[0];
        let waiting = *whole(&found, "queue.length_packets").last().unwrap();
        let waiting_bytes = *whole(&found, "queue.length_bytes").last().unwrap();
        assert_eq!(nanos(*real(&found, "queue.time_s").last().unwrap()), 20_000_000_000);
        assert_eq!(of("arrivals"), of("departures") + of("drops") + waiting, "{value}");
        let dropped_bytes = sum(whole(&found, "drops.size_bytes"));
        assert_eq!(of("arrived_bytes"), of("departed_bytes") + dropped_bytes + waiting_bytes, "{value}");
        let line_bytes = real(&found, "links.rate_bps")[0] * SECONDS / 8.0;
        assert!((of("departed_bytes") as f64) < line_bytes + 1500.0, "{value}");
        assert!(of("drops") + of("marks") > 0 && of("departures") > 100, "{value}");
    }
}

#[test]
fn the_trace_counts_every_packet_at_every_moment() {
    for Case { found, value, .. } in cases() {
        let (events, lengths) =
            (words(&found, "packets.event"), maybe_whole(&found, "packets.length_packets"));
        let times = real(&found, "packets.time_s");
        assert!(times.is_sorted(), "{value}");
        let mut counts = [0_u64; 3];
        for (event, length) in events.iter().zip(lengths) {
            match event.as_str() {
                "enqueue" => counts[0] += 1,
                "start" => counts[1] += 1,
                "drop" => counts[2] += 1,
                _ => continue,
            }
            // A packet that arrives at an idle link joins and starts at once: `start` is listed after `enqueue`.
            let waiting = counts[0] - counts[1];
            let seen = length.unwrap();
            assert!(
                seen == waiting || (event == "enqueue" && seen + 1 == waiting),
                "{seen} {waiting} {value}"
            );
        }
        let of = |column: &str| whole(&found, &format!("links.{column}"))[0];
        assert_eq!(counts, [of("arrivals") - of("drops"), of("departures"), of("drops")], "{value}");
    }
}

/// For each packet that joined, in order: its times of joining, starting and, if applicable, arrival at the far end, in
/// nanoseconds, and its bytes.
fn journeys(found: &Run) -> Vec<(u64, Option<u64>, Option<u64>, u64)> {
    let of = |wanted: &str| -> Vec<(u64, u64)> {
        let rows = words(found, "packets.event").into_iter();
        let rows = rows.zip(real(found, "packets.time_s")).zip(whole(found, "packets.size_bytes"));
        rows.filter(|((event, _), _)| event == wanted).map(|((_, &at), &bytes)| (nanos(at), bytes)).collect()
    };
    let (joined, started, delivered) = (of("enqueue"), of("start"), of("deliver"));
    let journey = |(number, &(at, bytes)): (usize, &(u64, u64))| {
        let of = |list: &[(u64, u64)]| {
            list.get(number).map(|&(at, size)| {
                assert_eq!(size, bytes, "these queues are first in, first out");
                at
            })
        };
        (at, of(&started), of(&delivered), bytes)
    };
    joined.iter().enumerate().map(journey).collect()
}

#[test]
fn a_link_with_queued_packets_is_never_idle() {
    for Case { found, value, rate_mbps, delay_ms } in cases() {
        let mut free_at = 0;
        for (joined, started, delivered, bytes) in journeys(&found) {
            let Some(started) = started else { continue };
            assert_eq!(started, free_at.max(joined), "{value}");
            free_at = started + bytes * 8000 / rate_mbps;
            if let Some(delivered) = delivered {
                assert_eq!(delivered, free_at + delay_ms * 1_000_000, "{value}");
            }
        }
    }
}

#[test]
fn littles_law_is_exact_between_two_empty_moments() {
    for seed in 1..=5 {
        let found = run(json!({
            "duration": "10s",
            "seed": seed,
            "bottleneck": { "rate": "1Mbps", "delay": "1ms", "queue": { "kind": "drop-tail", "limit": "8p" } },
            "record": { "packets": ["bottleneck"] },
            "traffic": { "burst": { "kind": "udp", "gaps": { "kind": "exponential" }, "load": 1.2, "stop": "9s" } },
        }));
        let journeys = journeys(&found);
        assert_eq!(
            whole(&found, "links.departures")[0],
            journeys.len() as u64,
            "the queue is empty at the end"
        );
        let waited: u64 = journeys.iter().map(|(joined, started, ..)| started.unwrap() - joined).sum();
        assert!(waited > 1_000_000_000, "packets waited");
        let integral = real(&found, "links.mean_queue_packets")[0] * 10e9;
        assert!((integral - waited as f64).abs() < 1e-9 * integral, "{integral} {waited}");
        let mean = real(&found, "links.mean_queue_delay_s")[0] * 1e9;
        assert!((mean * journeys.len() as f64 - waited as f64).abs() < 1e-9 * integral);
    }
}

#[test]
fn drops_and_marks_of_the_link_equal_those_of_the_flows() {
    for Case { found, value, .. } in cases() {
        // Only data packets use the managed queue; acknowledgements travel in the other direction.
        let of = |column: &str| whole(&found, &format!("links.{column}"))[0];
        assert_eq!(sum(whole(&found, "flows.packets_dropped")), of("drops"), "{value}");
        assert_eq!(sum(whole(&found, "flows.packets_marked")), of("marks"), "{value}");
        assert_eq!(whole(&found, "drops.flow").len() as u64, of("drops"), "{value}");
        let mut by_flow = vec![0; whole(&found, "flows.flow").len()];
        for &flow in whole(&found, "drops.flow") {
            by_flow[flow as usize] += 1;
        }
        assert_eq!(by_flow, whole(&found, "flows.packets_dropped"), "{value}");
        let sent = sum(whole(&found, "flows.packets_sent"));
        assert!(of("arrivals") <= sent && sent < of("arrivals") + 2000, "{value}");
    }
}

#[test]
fn a_transfer_is_complete_when_all_its_bytes_have_arrived() {
    let mut complete_ones = 0;
    for Case { found, value, .. } in cases() {
        let (flows, numbers) = (whole(&found, "flows.flow"), whole(&found, "transfers.flow"));
        assert!(flows.iter().enumerate().all(|(row, &flow)| flow == row as u64), "{value}");
        for (row, &flow) in numbers.iter().enumerate() {
            let of = |column: &str| whole(&found, &format!("transfers.{column}"))[row];
            let delivered = whole(&found, "flows.delivered_bytes")[flow as usize];
            let complete = truth(&found, "transfers.complete")[row];
            assert!(delivered <= of("size_bytes"), "{value}");
            assert_eq!(complete, delivered == of("size_bytes"), "{value}");
            assert_eq!(complete, maybe_real(&found, "transfers.duration_s")[row].is_some());
            assert_eq!(maybe_whole(&found, "flows.size_bytes")[flow as usize], Some(of("size_bytes")));
            // The SYN and each segment were sent once, and the SYN perhaps once more for each time-out. With `rfc`, a
            // FIN is acknowledged, too, each time that it arrives.
            let first_times = of("packets_sent") - of("retransmitted");
            let acknowledges = u64::from(value["tcp"]["profile"] == "rfc");
            let timeouts = maybe_whole(&found, "transfers.timeouts")[row].unwrap();
            assert!(first_times <= of("segments") + 1 + timeouts + 9 * acknowledges, "{value}");
            if complete {
                complete_ones += 1;
                assert!(first_times > of("segments"), "{value}");
            }
        }
    }
    assert!(complete_ones > 500, "{complete_ones}");
}

#[test]
fn no_transfer_is_faster_than_light() {
    for Case { found, value, delay_ms, .. } in cases() {
        // The link, and two access links of 1 ms.
        let flight = (delay_ms + 2) as f64 * 1e-3;
        let starts = real(&found, "transfers.start_s");
        assert!(starts.is_sorted() && starts.iter().all(|at| (0.0..SECONDS).contains(at)), "{value}");
        for (row, start) in starts.iter().enumerate() {
            let of = |column: &str| maybe_real(&found, &format!("transfers.{column}"))[row];
            let (handshake, first, last) = (of("handshake_s"), of("first_byte_s"), of("duration_s"));
            assert!(handshake.is_none_or(|after| after > 2.0 * flight), "{value}");
            if let Some(first) = first {
                assert!(first > handshake.unwrap() + flight, "{value}");
            }
            if let Some(last) = last {
                assert!(last >= first.unwrap() && start + last <= SECONDS, "{value}");
            }
        }
        let ends = maybe_real(&found, "flows.end_s").into_iter().zip(real(&found, "flows.start_s"));
        assert!(
            ends.filter_map(|(end, start)| Some(end? - start)).all(|life| life > 4.0 * flight),
            "{value}"
        );
    }
}

#[test]
fn a_page_lasts_from_its_first_object_to_its_last() {
    let mut pages = 0;
    for Case { found, value, .. } in cases() {
        for (row, &page) in whole(&found, "pages.page").iter().enumerate() {
            let objects: Vec<usize> = maybe_whole(&found, "transfers.page")
                .iter()
                .enumerate()
                .filter(|(_, of)| **of == Some(page))
                .map(|(row, _)| row)
                .collect();
            assert_eq!(objects.len() as u64, whole(&found, "pages.objects")[row], "{value}");
            let sizes = objects.iter().map(|&row| whole(&found, "transfers.size_bytes")[row]);
            assert_eq!(sizes.sum::<u64>(), whole(&found, "pages.size_bytes")[row], "{value}");
            let start = |row: usize| nanos(real(&found, "transfers.start_s")[row]);
            let begin = nanos(real(&found, "pages.start_s")[row]);
            assert_eq!(objects.iter().map(|&row| start(row)).min(), Some(begin), "{value}");
            let ends: Option<Vec<u64>> = objects
                .iter()
                .map(|&row| Some(start(row) + nanos(maybe_real(&found, "transfers.duration_s")[row]?)))
                .collect();
            let end = maybe_real(&found, "pages.duration_s")[row].map(|after| begin + nanos(after));
            assert_eq!(end, ends.and_then(|ends| ends.into_iter().max()), "{value}");
            assert_eq!(end.is_some(), truth(&found, "pages.complete")[row], "{value}");
            pages += 1;
        }
    }
    assert!(pages > 100, "{pages}");
}

#[test]
fn in_the_closed_loop_an_aborted_object_does_not_stop_its_user() {
    let found = run(json!({
        "duration": "600s",
        "bottleneck": { "rate": "10Mbps", "delay": "10ms", "queue": { "kind": "drop-random", "probability": 1.0 } },
        "tcp": { "connection": { "max_syn_retries": 2 } },
        "traffic": { "web": { "kind": "sessions", "users": 1, "think_from": "page-end", "objects": { "kind": "constant", "value": 1 } } },
    }));
    // A page takes at least the 7 s of three SYNs, and 9.5 s of think time on average.
    let pages = whole(&found, "pages.page").len();
    assert!((20..60).contains(&pages), "{pages}");
    assert!(!truth(&found, "pages.complete").contains(&true));
}

#[test]
fn a_datagram_without_queueing_takes_the_time_of_its_links() {
    let found = run(json!({
        "duration": "10s", "warm_up": "1s",
        "bottleneck": { "rate": "1Mbps", "delay": "20ms", "queue": { "kind": "drop-tail" } },
        "access": { "rate": "100Mbps", "delay": "1ms" },
        "host": { "jitter": "0s" },
        "traffic": { "call": { "kind": "udp", "rate": "80kbps", "sizes": { "kind": "constant", "value": "200B" } } },
    }));
    // 1.6 ms on the link, 16 us on each access link, and 22 ms of propagation.
    let [Some(delay)] = maybe_real(&found, "flows.mean_delay_s")[..] else {
        panic!("there is not one stream")
    };
    assert!((delay - 0.023_632).abs() < 1e-9, "{delay}");
    let [Some(received)] = maybe_whole(&found, "flows.datagrams_received")[..] else {
        panic!("there is not one stream")
    };
    assert!((449..=451).contains(&received), "{received} of 50 a second in 9 s");
}

/// Datagrams of 500 bytes for a tenth of a second, at ten times the rate of the 1 Mb/s link.
fn flood(queue: Value, delay: &str) -> Value {
    json!({
        "duration": "10s",
        "bottleneck": { "rate": "1Mbps", "delay": delay, "queue": queue },
        "access": { "rate": "1Gbps", "delay": "1ms" },
        "host": { "jitter": "0s" },
        "record": { "packets": ["bottleneck"], "queue_every": "1ms" },
        "traffic": {
            "flood": {
                "kind": "udp", "rate": "10Mbps", "stop": "100ms", "phase": "zero",
                "sizes": { "kind": "constant", "value": "500B" },
            },
        },
    })
}

#[test]
fn the_queue_limit_does_not_depend_on_the_propagation_delay() {
    // A 1 Mb/s link with a delay of 300 ms contains 75 packets, so a limit on packets in flight would fail here.
    for limit in [1, 7, 40] {
        let mut seen = Vec::new();
        for delay in ["0ms", "5ms", "300ms"] {
            let found = run(flood(json!({ "kind": "drop-tail", "limit": format!("{limit}p") }), delay));
            let longest = maybe_whole(&found, "packets.length_packets").into_iter().flatten().max();
            assert_eq!(longest, Some(limit), "{delay}");
            let lines =
                ["arrivals", "departures", "drops"].map(|name| whole(&found, &format!("links.{name}"))[0]);
            let delivered = words(&found, "packets.event").iter().filter(|event| *event == "deliver").count();
            assert_eq!(delivered as u64, lines[1], "no packet is lost after the queue");
            seen.push(lines);
        }
        assert!(seen.iter().all(|lines| *lines == seen[0] && lines[2] > 0), "{seen:?}");
        // One packet in transmission, the queued packets, and one more every 4 ms.
        assert!((seen[0][1] as i64 - (limit as i64 + 26)).abs() <= 1, "{seen:?}");
    }
}

#[test]
fn queued_packets_are_served_without_further_arrivals() {
    // The link may be the limit, or a part of the queue that holds packets back and must be called again.
    for (queue, gap_us) in [
        (json!({ "kind": "drop-tail", "limit": "100p" }), 4000),
        (json!({ "kind": "fq-codel", "target": "1s" }), 4000),
        (json!({ "kind": "cake", "bandwidth": "500kbps", "rtt": "10s" }), 8000),
        (json!({ "kind": "fq", "maxrate": "250kbps" }), 16_000),
    ] {
        for delay in ["0ms", "700ms"] {
            let found = run(flood(queue.clone(), delay));
            let times = real(&found, "packets.time_s");
            let events = words(&found, "packets.event");
            let of = |wanted: &str| -> Vec<u64> {
                let of_event = events.iter().zip(times).filter(|(event, _)| *event == wanted);
                of_event.map(|(_, at)| nanos(*at)).collect()
            };
            let (joined, started, delivered) = (of("enqueue"), of("start"), of("deliver"));
            assert_eq!(started.len(), delivered.len(), "{queue}");
            assert_eq!(whole(&found, "queue.length_packets").last(), Some(&0), "{queue}");
            let last = *joined.last().unwrap();
            let after: Vec<_> = started.iter().filter(|at| **at > last).collect();
            assert!(after.len() > 50, "{queue}: {}", after.len());
            for pair in after.windows(2) {
                let gap = (pair[1] - pair[0]) / 1000;
                assert!(gap.abs_diff(gap_us) <= 1, "{queue} {delay}: {gap} us");
            }
        }
    }
}

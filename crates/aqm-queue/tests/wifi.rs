//! Wi-Fi: the closed form of the aggregates, the airtime of stations, and the schedulers.
//!
//! The closed form is that of "Ending the Anomaly" (USENIX ATC 2017): an aggregate of n packets of L bytes to a
//! station with the rate r takes T = overhead + 8 n (L + overhead of a packet) / r; alone, the station gets the rate
//! R = 8 n L / T. If all stations always have packets, and take turns of one aggregate, a station gets 8 n L divided by
//! the sum of T over the stations. If all stations get the same airtime, a station gets R divided by the number of
//! stations.

use aqm_link::{Departure, Port, Ties};
use aqm_net::{Instant, Packet, Rate, Span, Streams};
use aqm_queue::testing::{Fates, Ignore, invariants};
use aqm_queue::{ClassCounters, Config, Label, Protocol};
use serde_json::{Value, json};

const LINK: Rate = Rate::from_bps(144_400_000);

/// Two fast stations and a slow one: the rates of 802.11n with one and two streams at 20 MHz.
fn stations() -> Value {
    let station = |rate: &str, name: &str| json!({"rate": rate, "match": {"traffic": [name]}});
    json!({
        "fast1": station("144.4Mbps", "0"), "fast2": station("144.4Mbps", "1"), "slow": station("7.2Mbps", "2"),
    })
}

fn table(more: Value) -> Value {
    let mut table = json!({"kind": "wifi", "stations": stations(), "default": "slow"});
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

fn port_of(table: Value, ties: Ties) -> Port {
    let config = Config::read(table).unwrap();
    let mut queue = invariants::watched(&config, LINK).unwrap_or_else(|errors| panic!("{errors}"));
    for number in 0..3 {
        let label = Label { traffic: number.to_string(), protocol: Protocol::Udp, port: 0, dscp: 0 };
        queue.on_label(number, &label);
    }
    Port::new(queue, LINK, Streams::new(1).named("queue", 0), ties)
}

fn port(more: Value) -> Port {
    port_of(table(more), Ties::DepartureFirst)
}

fn to(station: u16, id: u32, bytes: u16) -> Packet {
    Packet { id, flow: station.into(), label: station, bytes, ..Packet::default() }
}

/// Offers the packets for `stations` so that all of them always have packets, and returns the departures until `end`.
fn saturate(port: &mut Port, stations: &[u16], bytes: u16, end: Instant) -> Vec<Departure> {
    let (mut sent, mut id, mut queued) = (Vec::new(), 0, [0_i64; 3]);
    let mut now = Instant::START;
    while now < end {
        for &station in stations {
            while queued[usize::from(station)] < 200 {
                port.accept(to(station, id, bytes), now, &mut Ignore, |departure| sent.push(departure));
                queued[usize::from(station)] += 1;
                id += 1;
            }
        }
        let before = sent.len();
        now = port.next_start().unwrap();
        port.serve(now, &mut Ignore, |departure| sent.push(departure));
        for departure in &sent[before..] {
            queued[usize::from(departure.packet.label)] -= 1;
        }
    }
    sent
}

/// The bits of packets that were sent to each station between two instants at which transmissions begin.
fn bits(sent: &[Departure], from: Instant, to: Instant) -> [u64; 3] {
    let mut bits = [0; 3];
    for departure in sent.iter().filter(|departure| departure.start >= from && departure.start < to) {
        bits[usize::from(departure.packet.label)] += 8 * u64::from(departure.packet.bytes);
    }
    bits
}

const BIG: &str = "100000p";

fn long_queue() -> Value {
    json!({"kind": "drop-tail", "limit": BIG})
}

/// The time of an aggregate in nanoseconds, computed from the closed form with the default times.
fn time_of(packets: u64, bytes: u64, bps: u64) -> u64 {
    let data = (8 * packets * (bytes + 42)) as f64 / bps as f64 * 1e9;
    101_500 + 40_000 + 48_000 + data.round() as u64
}

/// Whole packets of an aggregate: at most 32 packets, 65,535 bytes and 4 ms.
fn packets_of(bytes: u64, bps: u64) -> u64 {
    let in_txop = (4_000_000 - 40_000) * bps / 1_000_000_000 / 8 / (bytes + 42);
    in_txop.min(32).min(65_535 / (bytes + 42)).max(1)
}

#[test]
fn a_station_alone_gets_exactly_its_base_rate() {
    for (station, bps) in [(0, 144_400_000), (2, 7_200_000)] {
        for bytes in [1500_u16, 576, 40] {
            let packets = packets_of(bytes.into(), bps);
            let time = time_of(packets, bytes.into(), bps);
            let mut port = port(json!({"queue": long_queue()}));
            let sent = saturate(&mut port, &[station], bytes, Instant::from_nanos(1_000_000_000));
            // The first aggregate contains one packet, because the station was idle.
            let first = sent[1].start;
            let rounds = 50;
            let sent = bits(&sent, first, first + Span::from_nanos(rounds * time));
            assert_eq!(
                sent[usize::from(station)],
                8 * rounds * packets * u64::from(bytes),
                "{station} {bytes}"
            );
        }
    }
}

#[test]
fn turns_of_aggregates_give_exactly_the_closed_form() {
    let [fast, slow] = [144_400_000, 7_200_000];
    let [many, few] = [packets_of(1500, fast), packets_of(1500, slow)];
    assert_eq!([many, few], [32, 2]);
    let round = 2 * time_of(many, 1500, fast) + time_of(few, 1500, slow);
    for more in [json!({"scheduler": "round-robin"}), json!({"scheduler": "round-robin", "packets": 32})] {
        let mut port = port(json!({"queue": long_queue()}));
        assert!(port.next_start().is_none());
        port = port_of(table(with(more, "queue", long_queue())), Ties::DepartureFirst);
        let sent = saturate(&mut port, &[0, 1, 2], 1500, Instant::from_nanos(2_000_000_000));
        let from =
            sent.iter().find(|one| one.start.nanos() > 100_000_000 && one.packet.label == 0).unwrap().start;
        let rounds = 100;
        let sent = bits(&sent, from, from + Span::from_nanos(rounds * round));
        assert_eq!(sent, [many, many, few].map(|packets| 8 * 1500 * rounds * packets));
    }
}

fn with(mut table: Value, key: &str, value: Value) -> Value {
    table[key] = value;
    table
}

/// Charging whole transmissions, each station gets a third of the medium, to within one transmission and a quantum.
#[test]
fn equal_airtime_gives_each_station_its_base_rate_divided_by_the_number_of_stations() {
    for (charge, fast_cost, slow_cost) in [("transmission", 0, 0), ("frame", 149_500, 149_500)] {
        let [fast, slow] = [time_of(32, 1500, 144_400_000), time_of(2, 1500, 7_200_000)];
        let mut port = port(json!({"charge": charge, "queue": long_queue()}));
        let seconds = 20;
        let sent = saturate(&mut port, &[0, 1, 2], 1500, Instant::from_nanos(seconds * 1_000_000_000));
        let end = Instant::from_nanos(seconds * 1_000_000_000);
        let counts = bits(&sent, Instant::START, end).map(|bits| bits as f64 / (8.0 * 1500.0));
        // What each station is charged for is equal, to within the largest transmission and a quantum.
        let costs = [
            counts[0] / 32.0 * (fast - fast_cost) as f64,
            counts[1] / 32.0 * (fast - fast_cost) as f64,
            counts[2] / 2.0 * (slow - slow_cost) as f64,
        ];
        for cost in costs {
            assert!((cost - costs[0]).abs() < 2.0 * (fast.max(slow) + 300_000) as f64, "{charge}: {costs:?}");
        }
        if charge == "transmission" {
            let base = [32.0 / fast as f64, 32.0 / fast as f64, 2.0 / slow as f64];
            for (count, base) in counts.iter().zip(base) {
                let expected = base / 3.0 * seconds as f64 * 1e9;
                let largest = if base == 2.0 / slow as f64 { 2.0 } else { 32.0 };
                assert!((count - expected).abs() <= 2.0 * largest, "{count} {expected}");
            }
        }
    }
}

#[test]
fn all_packets_of_an_aggregate_arrive_when_the_frame_ends() {
    let mut port = port(json!({}));
    let mut sent = Vec::new();
    for id in 0..4 {
        port.accept(to(0, id, 1500), Instant::START, &mut Ignore, |departure| sent.push(departure));
    }
    port.serve(Instant::from_nanos(1_000_000_000), &mut Ignore, |departure| sent.push(departure));
    let one = 101_500 + 40_000 + 85_429;
    let three = 101_500 + 40_000 + 256_288;
    let times: Vec<_> = sent.iter().map(|one| (one.start.nanos(), one.end.nanos())).collect();
    let second = one + 48_000;
    assert_eq!(times[0], (0, one));
    assert_eq!(times[1..], [(second, second + three); 3]);
}

#[test]
fn a_new_station_is_served_before_stations_that_always_have_packets() {
    let after = |scheduler: &str| {
        let mut port = port(json!({"scheduler": scheduler, "queue": long_queue()}));
        let mut sent = Vec::new();
        let mut id = 0;
        for station in [0, 2] {
            for _ in 0..400 {
                port.accept(to(station, id, 1500), Instant::START, &mut Ignore, |one| sent.push(one));
                id += 1;
            }
        }
        let now = Instant::from_nanos(50_000_000);
        port.accept(to(1, id, 100), now, &mut Ignore, |one| sent.push(one));
        port.serve(now + Span::from_millis(100), &mut Ignore, |one| sent.push(one));
        let sparse = sent.iter().find(|one| one.packet.label == 1).unwrap();
        let later = sent.iter().filter(|one| one.start > now && one.start < sparse.start);
        later.map(|one| one.packet.label).collect::<Vec<_>>()
    };
    assert!(after("airtime").is_empty());
    assert!(!after("round-robin").is_empty());
}

/// With one queue, the slow station's packets fill the queue and the driver, so all stations get equal numbers of
/// packets: the anomaly.
#[test]
fn one_queue_gives_all_stations_the_same_rate() {
    let mut port = port(json!({"scheduler": "fifo", "queue": {"kind": "drop-tail", "limit": "1000p"}}));
    let (mut sent, mut fates) = (Vec::new(), Fates::default());
    let mut now = Instant::START;
    for id in 0..120_000 {
        port.accept(to((id % 3) as u16, id, 1500), now, &mut fates, |one| sent.push(one));
        now += Span::from_nanos(80_000 + 1000 * u64::from(id * 7919 % 13));
    }
    let counts = bits(&sent, Instant::from_nanos(2_000_000_000), now).map(|bits| bits as f64);
    for count in counts {
        assert!((count / counts[0] - 1.0).abs() < 0.05, "{counts:?}");
    }
    let mut classes: Vec<(String, ClassCounters)> = Vec::new();
    port.discipline().classes(now, &mut |name, counters| classes.push((name.to_owned(), counters)));
    let counters = port.counters(now);
    let sum = |of: fn(&ClassCounters) -> u64| classes.iter().map(|(_, counters)| of(counters)).sum::<u64>();
    assert_eq!(sum(|one| one.arrivals), counters.arrivals);
    assert_eq!(sum(|one| one.departures), counters.departures);
    assert_eq!(sum(|one| one.drops), counters.drops);
    assert_eq!(classes.iter().map(|(_, one)| one.packet_nanos).sum::<u128>(), counters.packet_nanos);
    assert!(counters.drops > 1000);
}

#[test]
fn the_airtime_of_the_stations_is_the_time_for_which_the_medium_is_busy() {
    for scheduler in ["fifo", "round-robin", "airtime"] {
        let mut port = port(json!({"scheduler": scheduler, "queue": long_queue()}));
        let sent = saturate(&mut port, &[0, 1, 2], 1500, Instant::from_nanos(1_000_000_000));
        let statistics = port.discipline().tc_statistics(Instant::START);
        let airtime: f64 = ["fast1", "fast2", "slow"]
            .iter()
            .map(|name| statistics["stations"][name]["airtime_us"].as_f64().unwrap())
            .sum();
        let busy = port.next_start().unwrap().nanos() as f64 / 1000.0;
        assert!((airtime - busy).abs() <= 3.0, "{scheduler}: {airtime} {busy}");
        assert!(sent.len() > 1000);
    }
}

#[test]
fn the_order_of_ties_changes_only_ties() {
    let run = |ties| {
        let mut port = port_of(table(json!({"queue": long_queue()})), ties);
        let mut sent = Vec::new();
        for id in 0..900 {
            let now = Instant::from_nanos(u64::from(id) * 131_071);
            port.accept(to((id % 3) as u16, id, 1500), now, &mut Ignore, |one| sent.push(one));
        }
        port.serve(Instant::from_nanos(100_000_000_000), &mut Ignore, |one| sent.push(one));
        sent
    };
    assert_eq!(run(Ties::DepartureFirst)[10..], run(Ties::ArrivalFirst)[10..]);
}

#[test]
fn invalid_parameters_are_rejected() {
    let shaper = json!({"kind": "htb", "classes": {"all": {"rate": "1Mbps"}}});
    let slow = |more: Value| {
        let mut stations = stations();
        stations["slow"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"stations": stations})
    };
    for (more, path) in [
        (json!({"queue": shaper}), "queue.kind"),
        (slow(json!({"queue": shaper})), "stations.slow.queue.kind"),
        (slow(json!({"rate": null})), "stations.slow.rate"),
        (json!({"default": null}), "default"),
        (json!({"default": "nobody"}), "default"),
        (json!({"packets": 0}), "packets"),
        (json!({"bytes": "0B"}), "bytes"),
        (json!({"quantum": "0us"}), "quantum"),
        (json!({"access": "2s"}), "access"),
        (json!({"packet_overhead": "1kB"}), "packet_overhead"),
        (json!({"driver_packets": 4}), "driver_packets"),
        (json!({"scheduler": "fifo", "quantum": "1ms"}), "quantum"),
        (json!({"scheduler": "fifo", "driver_packets": 0}), "driver_packets"),
        (
            json!({"default": "fast1", "stations": slow(json!({"match": []}))["stations"]}),
            "stations.slow.match",
        ),
        (with(slow(json!({"queue": {"kind": "codel"}})), "scheduler", json!("fifo")), "stations.slow.queue"),
        (json!({"queue": {"kind": "codel", "target": "0s"}}), "queue.target"),
    ] {
        let errors = Config::read(table(more.clone())).unwrap().build(LINK).err();
        let errors = errors.unwrap_or_else(|| panic!("{more} is accepted"));
        assert_eq!(errors.first().path, path, "{more}: {errors}");
        assert_eq!(errors.iter().count(), 1, "{more}: {errors}");
    }
}

#[test]
fn a_rate_above_the_link_rate_is_suspicious() {
    let config = Config::read(table(json!({}))).unwrap();
    assert!(config.warnings(LINK).is_empty());
    let warnings = config.warnings(Rate::from_bps(100_000_000));
    let paths: Vec<_> = warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(paths, ["stations.fast1.rate", "stations.fast2.rate"]);
}

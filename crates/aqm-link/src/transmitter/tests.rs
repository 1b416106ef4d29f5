use std::collections::VecDeque;

use aqm_net::{Packet, Streams};
use aqm_queue::testing::Ignore;
use serde_json::{Value, json};

use super::*;
use crate::{Departure, Port};

const MILLI: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Reads a config. Every file named in the configuration has the contents `content`.
fn read(config: Value, content: &str) -> Result<Service, ConfigErrors> {
    let config = <Config as aqm_net::Parameter>::read(config)?;
    let schedule = config.schedule(|_| Some(content))?;
    config.service(Rate::from_bps(8_000_000), schedule)
}

/// Returns a service with a base rate of one byte per microsecond and the keys in `config`.
fn service(config: Value) -> Service {
    read(config, "").unwrap()
}

fn rng() -> Rng {
    Streams::new(1).named("line", 0)
}

/// Sends packets through an unlimited queue. `arrivals` contains the arrival time in nanoseconds and the size of each
/// packet. Returns the start and the end of each transmission.
fn sent(service: &Service, arrivals: &[(u64, u16)]) -> Vec<(u64, u64)> {
    let config = aqm_queue::Config::read(json!({"kind": "drop-tail", "limit": "100000p"})).unwrap();
    let queue = config.build(Rate::from_bps(8_000_000)).unwrap();
    let mut port = Port::with_transmitter(queue, service.transmitter(rng()), rng(), Ties::DepartureFirst);
    let mut found = Vec::new();
    let mut depart = |left: Departure| found.push((left.start.nanos(), left.end.nanos()));
    for (id, &(time, bytes)) in arrivals.iter().enumerate() {
        port.accept(Packet { id: id as u32, bytes, ..Packet::default() }, at(time), &mut Ignore, &mut depart);
    }
    port.serve(at(u64::MAX / 2), &mut Ignore, &mut depart);
    found
}

fn problems(config: Value, content: &str) -> String {
    let errors = read(config.clone(), content).err().unwrap_or_else(|| panic!("accepted {config}"));
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_packet_continues_at_the_current_rate() {
    let steps = json!({"rate_steps": [
        {"at": "1ms", "rate": "4Mbps"}, {"at": "2ms", "rate": "0bps"}, {"at": "5ms", "rate": "24Mbps"},
    ]});
    // The link sends 500 bytes before 1 ms, 500 bytes before 2 ms, nothing until 5 ms, and then 3 bytes per
    // microsecond.
    let found = sent(&service(steps), &[(500_000, 1300), (600_000, 300), (7_000_000, 300)]);
    assert_eq!(found, [(500_000, 5_100_000), (5_100_000, 5_200_000), (7_000_000, 7_100_000)]);
}

#[test]
fn a_transmitter_without_a_rate_takes_no_packet() {
    let steps = json!({"rate_steps": [{"at": "0s", "rate": "0bps"}, {"at": "3ms", "rate": "8Mbps"}]});
    assert_eq!(sent(&service(steps), &[(MILLI, 1000)]), [(3 * MILLI, 4 * MILLI)]);
    let never = json!({"rate_steps": [{"at": "1ms", "rate": "0bps"}]});
    let ever =
        json!({"rate_steps": [{"at": "1ms", "rate": "0bps"}], "rate_repeat": "2ms", "random_outages": {}});
    for service in [service(never), service(ever)] {
        assert_eq!(sent(&service, &[(0, 500), (0, 1000), (0, 1000)]), [(0, 500_000), (500_000, u64::MAX)]);
    }
}

#[test]
fn the_integral_of_a_rate_is_exact_to_a_nanosecond() {
    let (mut rng, mut steps, mut time) = (rng(), Vec::new(), 0);
    for _ in 0..2000 {
        time += 1 + rng.below(40_000);
        let bps = if rng.chance(0.2) { 0 } else { 16 + rng.below(100_000_000) };
        steps.push((Span::from_nanos(time), Rate::from_bps(bps)));
    }
    let period = Span::from_nanos(time + 1 + rng.below(1000));
    for repeat in [None, Some(period)] {
        let mut rates = Rates::new(Rate::from_bps(3_333_333), steps.clone(), repeat);
        let mut start = at(0);
        for _ in 0..500 {
            start = rates.ready(start, &mut Outages::default());
            let bytes = 1 + rng.below(1500);
            let end = rates.transmit(start, bytes, &mut Outages::default());
            if end == Instant::NEVER {
                break;
            }
            // The amounts are in units of 1e-9 bits and are summed over intervals without a rate step.
            let mut changes: Vec<u64> = steps.iter().map(|(at, _)| at.nanos()).collect();
            let rounds = repeat.map_or(1, |period| end.nanos() / period.nanos() + 1);
            changes =
                (0..rounds).flat_map(|n| changes.iter().map(move |at| n * period.nanos() + at)).collect();
            changes.retain(|&at| start.nanos() < at && at < end.nanos());
            let ends = changes.iter().copied().chain([end.nanos()]);
            let (mut now, mut sum) = (start.nanos(), 0_u128);
            for until in ends {
                sum += u128::from(rates.rate_at(at(now)).bps()) * u128::from(until - now);
                now = until;
            }
            let wanted = 8_000_000_000 * u128::from(bytes);
            let half = u128::from(rates.rate_at(at(end.nanos() - 1)).bps());
            assert!(sum.abs_diff(wanted) <= half, "{bytes} B from {start:?} to {end:?}: {sum}, not {wanted}");
            start = end + Span::from_nanos(rng.below(30_000));
        }
    }
}

#[test]
fn steps_to_the_same_rate_equal_a_constant_rate() {
    let mut rng = rng();
    for bps in [16, 140_000, 1_000_000, 9_999_991, 7_000_000_000] {
        let rate = Rate::from_bps(bps);
        let mut rates = Rates::new(rate, vec![(Span::from_nanos(77), rate)], Some(Span::from_millis(3)));
        let mut now = at(0);
        for _ in 0..200 {
            let bytes = 1 + rng.below(9000);
            let end = rates.transmit(now, bytes, &mut Outages::default());
            // If the rate changes during a transmission, half nanoseconds may be rounded differently.
            assert!((now + rate.pace().time_for(bytes)).nanos().abs_diff(end.nanos()) <= 1);
            now = end;
        }
    }
}

#[test]
fn outages_interrupt_transmissions() {
    let outages = json!({"outages": [{"from": "4ms", "until": "5ms"}, {"from": "1ms", "until": "3ms"}, {"from": "2ms", "until": "4ms"}]});
    let found = sent(&service(outages), &[(0, 900), (0, 300), (2_000_000, 100)]);
    assert_eq!(found, [(0, 900_000), (900_000, 5_200_000), (5_200_000, 5_300_000)]);
    let steps = json!({"outages": [{"from": "1ms"}], "rate_steps": [{"at": "2ms", "rate": "16Mbps"}]});
    assert_eq!(sent(&service(steps), &[(0, 900), (MILLI, 900)]), [(0, 900_000)]);
}

#[test]
fn random_outages_have_their_means() {
    let config = RandomOutages { mean_up: Span::from_millis(20), mean_down: Span::from_millis(5) };
    let mut outages = Outages::default().with_random(&config, rng());
    let (mut now, mut down, mut changes) = (at(0), 0, 0);
    assert!(!outages.at(now).0, "it begins up");
    while now < at(1_000_000 * MILLI) {
        let (is_down, until) = outages.at(now);
        assert_eq!(outages.is_down_at(now), is_down);
        down += if is_down { until.since(now).nanos() } else { 0 };
        changes += 1;
        now = until;
    }
    let share = down as f64 / now.nanos() as f64;
    assert!((share - 0.2).abs() < 0.01, "{share}");
    assert!((f64::from(changes) / 80_000.0 - 1.0).abs() < 0.02, "{changes}");
}

/// A reference queue that processes each of Mahimahi's opportunities explicitly. `arrivals` contains the arrival time
/// in nanoseconds and the size of each packet. Returns the start and the end of each packet's service.
fn mahimahi(trace: &[u64], arrivals: &[(u64, u16)]) -> Vec<(u64, u64)> {
    let (mut queue, mut left_of_packet) = (VecDeque::new(), 0);
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut coming = arrivals.iter().enumerate().peekable();
    let (mut base, period) = (0, *trace.last().unwrap());
    loop {
        for &line in trace {
            let now = (base + line) * MILLI;
            // Packets that arrive at the time of the opportunity join the queue after the opportunity.
            while let Some((_, &(_, bytes))) = coming.next_if(|(_, (time, _))| *time < now) {
                queue.push_back(u64::from(bytes) + 4);
            }
            let mut bytes = 1504;
            while bytes > 0 {
                if left_of_packet == 0 {
                    let Some(packet) = queue.pop_front() else { break };
                    left_of_packet = packet;
                    found.push((now, 0));
                }
                let sent = bytes.min(left_of_packet);
                (bytes, left_of_packet) = (bytes - sent, left_of_packet - sent);
                if left_of_packet == 0 {
                    found.last_mut().unwrap().1 = now;
                }
            }
        }
        base += period;
        if coming.peek().is_none() && queue.is_empty() && left_of_packet == 0 {
            return found;
        }
    }
}

fn opportunities(trace: &[u64]) -> Service {
    let content: Vec<String> = trace.iter().map(u64::to_string).collect();
    read(json!({"opportunities": {"file": "trace"}}), &content.join("\n")).unwrap()
}

#[test]
fn opportunities_are_those_of_mahimahi() {
    let mut rng = rng();
    for round in 0..400 {
        let (mut trace, mut time) = (Vec::new(), rng.below(2));
        for _ in 0..1 + rng.below(12) {
            trace.push(time);
            time += rng.below(4);
        }
        if *trace.last().unwrap() == 0 {
            trace.push(1 + rng.below(3));
        }
        let (mut arrivals, mut now) = (Vec::new(), 0);
        for _ in 0..60 {
            // Half of the arrivals are at whole milliseconds, so that the order of arrivals and opportunities matters.
            now += rng.below(4) * MILLI / 2;
            let small = if rng.chance(0.5) { 40 } else { 1 + rng.below(1500) };
            arrivals.push((now, if rng.chance(0.4) { 1500 } else { small as u16 }));
            now += if rng.chance(0.05) { 25 * MILLI } else { 0 };
        }
        assert_eq!(
            sent(&opportunities(&trace), &arrivals),
            mahimahi(&trace, &arrivals),
            "{round}: {trace:?}"
        );
    }
}

#[test]
fn a_trace_of_one_is_12_mbps_and_a_zero_coincides_with_the_end_of_a_period() {
    let one = opportunities(&[1]);
    let full: Vec<(u64, u16)> = (0..1000).map(|_| (0, 1500)).collect();
    let expected: Vec<(u64, u64)> = (1..=1000).map(|milli| (milli * MILLI, milli * MILLI)).collect();
    assert_eq!(sent(&one, &full), expected);
    assert_eq!(one.bits(rng(), [at(0), at(1000 * MILLI)]), 12e6);
    assert_eq!(one.peak().bps(), 12_000_000);
    let nought = sent(&opportunities(&[0, 2]), &full[..5]);
    let starts: Vec<u64> = nought.iter().map(|(start, _)| start / MILLI).collect();
    assert_eq!(starts, [2, 2, 4, 4, 6], "the first one passes before packets of that moment arrive");
}

#[test]
fn small_packets_share_an_opportunity_and_a_packet_may_span_two() {
    let arrivals = [(0, 496), (0, 496), (0, 1500), (0, 996), (3_500_000, 100)];
    let milli = |from, to| (from * MILLI, to * MILLI);
    // At 1 ms, packets use 500, 500 and 504 of the 1504 bytes. At 2 ms, packets use 1000 and 504 bytes. At 3 ms, a
    // packet uses 496 bytes, and the remainder of the opportunity is lost.
    let expected = [milli(1, 1), milli(1, 1), milli(1, 2), milli(2, 3), milli(4, 4)];
    assert_eq!(sent(&opportunities(&[1]), &arrivals), expected);
    // The packet is twice as large as an opportunity; Mahimahi would stop with an error.
    assert_eq!(sent(&opportunities(&[1]), &[(0, 3000)]), [milli(1, 2)]);
}

#[test]
fn opportunities_during_an_outage_are_lost() {
    let config = json!({"opportunities": {"file": "trace"}, "outages": [{"from": "2ms", "until": "5ms"}]});
    let service = read(config, "1\n").unwrap();
    let milli = |from, to| (from * MILLI, to * MILLI);
    assert_eq!(sent(&service, &[(0, 1500), (0, 2000), (0, 9)]), [milli(1, 1), milli(5, 6), milli(6, 6)]);
    assert_eq!(service.bits(rng(), [at(0), at(10 * MILLI)]), 7.0 * 12_000.0);
}

#[test]
fn a_burst_begins_when_full_or_after_max_wait_and_ends_with_an_empty_queue() {
    let bursts = |more: Value| {
        let mut table = json!({"packets": 3, "max_wait": "5ms"});
        table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        service(json!({"aggregation": table}))
    };
    let arrivals: Vec<(u64, u16)> = [0, 1000, 2000, 4000, 9500].map(|micros| (micros * 1000, 1000)).into();
    // Three packets are queued at 2 ms. The fourth packet waits until 10 ms, which is 5 ms after the transmitter became
    // idle.
    let micros =
        |list: &[(u64, u64)]| list.iter().map(|&(from, to)| (from / 1000, to / 1000)).collect::<Vec<_>>();
    let found = micros(&sent(&bursts(json!({})), &arrivals));
    assert_eq!(found, [(2000, 3000), (3000, 4000), (4000, 5000), (10_000, 11_000), (11_000, 12_000)]);
    let found = micros(&sent(&bursts(json!({"gap": "100us"})), &arrivals));
    assert_eq!(found, [(2100, 3100), (3100, 4100), (4100, 5100), (10_200, 11_200), (11_200, 12_200)]);
    let found = micros(&sent(&bursts(json!({"bytes": "1500B"})), &arrivals[..3]));
    assert_eq!(found, [(1000, 2000), (2000, 3000), (8000, 9000)], "two packets are enough bytes");
    let outage = json!({"aggregation": {"packets": 2, "max_wait": "1ms"}, "outages": [{"from": "0s", "until": "3ms"}]});
    let found = micros(&sent(&service(outage), &[(0, 1000), (100_000, 1000), (200_000, 1000)]));
    assert_eq!(found, [(3000, 4000), (4000, 5000), (6000, 7000)]);
}

#[test]
fn max_wait_begins_when_a_burst_ends() {
    // Ten packets are queued, so each burst follows the previous burst after only a gap, without waiting for more
    // packets.
    let config = json!({"aggregation": {"packets": 5, "max_wait": "5ms", "gap": "1ms"}});
    let arrivals: Vec<(u64, u16)> = (0..12).map(|_| (0, 1000)).collect();
    let starts: Vec<u64> = sent(&service(config), &arrivals).iter().map(|(start, _)| start / MILLI).collect();
    assert_eq!(starts, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 18, 19]);
}

#[test]
fn the_capacity_of_a_transmitter_is_counted() {
    let steps = json!({"rate_steps": [{"at": "0s", "rate": "1Mbps"}, {"at": "2ms", "rate": "3Mbps"}], "rate_repeat": "4ms"});
    let bits = |service: Service, from: u64, to: u64| service.bits(rng(), [at(from * MILLI), at(to * MILLI)]);
    assert_eq!(bits(service(steps.clone()), 0, 4), 8000.0);
    assert_eq!(bits(service(steps.clone()), 3, 9), 3000.0 + 8000.0 + 1000.0);
    let config = <Config as aqm_net::Parameter>::read(steps).unwrap();
    let schedule = config.schedule(|_| None).unwrap();
    assert_eq!(schedule.mean_rate(Span::from_millis(50)), Some(Rate::from_bps(2_000_000)));
    let later = json!({"rate_steps": [{"at": "1s", "rate": "1Mbps"}]});
    let config = <Config as aqm_net::Parameter>::read(later).unwrap();
    assert_eq!(config.schedule(|_| None).unwrap().mean_rate(Span::from_millis(50)), None);
    let seldom = <Config as aqm_net::Parameter>::read(json!({"opportunities": {"file": "trace"}})).unwrap();
    let schedule = seldom.schedule(|_| Some("3600000\n")).unwrap();
    assert_eq!(schedule.mean_rate(Span::from_millis(50)), Some(Rate::default()), "less than may be written");
    assert_eq!(seldom.service(Rate::LEAST, schedule).unwrap().peak(), Rate::LEAST);
}

#[test]
fn a_file_of_rates_is_read_with_its_units() {
    let of = |content: &str| read(json!({"rate_file": "rates.csv"}), content).unwrap();
    for content in [
        "0,8000000\n0.002,16000000\n",
        "\u{feff}time_s,rate_kbps\n0,8000\n# faster\n0.002,16e3\n",
        "time_s,rate_mbps\n0,8\n2ms,16Mbps # as text",
        "0 8Mbps\n\n0.002 16000kbps\n",
    ] {
        let found = sent(&of(content), &[(0, 1000), (2 * MILLI, 1000)]);
        assert_eq!(found, [(0, MILLI), (2 * MILLI, 2_500_000)], "{content}");
    }
}

#[test]
fn invalid_transmitters_are_refused() {
    for (config, content, expected) in [
        (
            json!({"rate_steps": [{"at": "1s", "rate": "1Mbps"}, {"at": "1s"}]}),
            "",
            "rate_steps.1.rate: is missing",
        ),
        (
            json!({"rate_steps": [{"at": "2s", "rate": "1Mbps"}, {"at": "1s", "rate": "0bps"}]}),
            "",
            "rate_steps.1.at: must be later than the previous step at 2s (got 1s)",
        ),
        (json!({"rate_repeat": "1s"}), "", "rate_repeat: is the period of the rate steps"),
        (
            json!({"rate_steps": [{"at": "2s", "rate": "1Mbps"}], "rate_repeat": "2s"}),
            "",
            "rate_repeat: must be later than the last step at 2s (got 2s)",
        ),
        (
            json!({"rate_file": "f", "rate_repeat": "1us"}),
            "0,1000\n1e-7,2000\n",
            "rate_repeat: must be at least 2us, which is 1us for each step (got 1us)",
        ),
        (json!({"rate_file": "f"}), "1,5\n1,6\n", "rate_file: line 1: `5bps` must be between 16bps"),
        (
            json!({"rate_file": "f"}),
            "1,50\n1,60\n",
            "rate_file: line 2: must be later than the time on the previous line, 1s (got `1`)",
        ),
        (json!({"rate_file": "f"}), "0,0\n1,0\n", "rate_file: never allows the link to send"),
        (
            json!({"rate_steps": [{"at": "0s", "rate": "0bps"}], "rate_repeat": "1s"}),
            "",
            "rate_steps: never allows the link to send",
        ),
        (
            json!({"rate_file": "f"}),
            "0,-3",
            "rate_file: line 1: `-3bps` must be a finite number, zero or more",
        ),
        (
            json!({"rate_file": "f"}),
            "1,2,3",
            "rate_file: line 1: must have 2 columns, a time and a rate (got 3)",
        ),
        (json!({"rate_file": "f"}), "rate_bps,time_s\n1,50", "rate_file: line 1: `rate_bps` is not a number"),
        (json!({"rate_file": "f"}), "# none", "rate_file: contains no rate steps"),
        (
            json!({"rate_file": "f", "rate_steps": [{"at": "1s", "rate": "0bps"}]}),
            "0,16",
            "rate_file: set either",
        ),
        (json!({"opportunities": {}}), "", "opportunities.file: is missing"),
        (json!({"opportunities": {"file": "f"}}), "", "opportunities.file: is empty"),
        (json!({"opportunities": {"file": "f"}}), "0\n0\n", "opportunities.file: ends with 0"),
        (
            json!({"opportunities": {"file": "f"}}),
            "1\n\n2\n",
            "opportunities.file: line 2: must be a whole number",
        ),
        (
            json!({"opportunities": {"file": "f"}}),
            "3\n2\n",
            "opportunities.file: line 2: must not be less than the value on the previous line, 3 (got 2)",
        ),
        (json!({"opportunities": {"file": "f", "bytes": "4B"}}), "1", "opportunities.overhead: must be less"),
        (
            json!({"opportunities": {"file": "f"}, "rate_steps": [{"at": "1s", "rate": "0bps"}], "aggregation": {}}),
            "1",
            "opportunities: cannot be combined with rates",
        ),
        (json!({"outages": [{"until": "1s"}]}), "", "outages.0.from: is missing"),
        (
            json!({"outages": [{"from": "1s", "until": "1s"}]}),
            "",
            "outages.0.until: must be later than `from`",
        ),
        (json!({"random_outages": {"mean_up": "0s"}}), "", "random_outages.mean_up: must be at least 1us"),
        (json!({"aggregation": {"packets": 0}}), "", "aggregation.packets: must be at least 1"),
    ] {
        let found = problems(config.clone(), content);
        assert!(found.starts_with(expected), "{config}: {found}");
    }
}

/// A light trace: trains with a base delay that rises from 10 ms to 20 ms within a second.
const LIGHT: &str = "0 10 0 2 5\n1000 20 0 1\n2000 20 0\n";

/// Sends packets over a link with an opportunity of 1000 bytes every 10 ms on a busy link, and trains on an idle link.
/// Returns the arrival times in milliseconds, without the propagation delay of the link.
fn over_cellular(arrivals: &[(u64, u16)], idle: &str) -> Vec<f64> {
    let config = json!({"opportunities": {
        "file": "heavy", "light": "light", "bytes": "1000B", "overhead": "0B", "idle": idle,
    }});
    let config = <Config as aqm_net::Parameter>::read(config).unwrap();
    let schedule = config.schedule(|name| Some(if name == "light" { LIGHT } else { "10\n" })).unwrap();
    let service = config.service(Rate::from_bps(8_000_000), schedule).unwrap();
    sent(&service, arrivals).into_iter().map(|(_, end)| end as f64 / MILLI as f64).collect()
}

#[test]
fn short_bursts_use_the_trains_of_the_light_trace() {
    // The first packet has only the base delay, and the following packets use the opportunities after 2 and 5 ms.
    let burst = [(0, 1000), (0, 1000), (0, 400), (0, 600)];
    assert_eq!(over_cellular(&burst, "0s"), [10.0, 12.0, 15.0, 15.0]);
    // Half a second later, the base delay is 15 ms; after a second, the second line applies.
    assert_eq!(over_cellular(&[(500 * MILLI, 1000), (1200 * MILLI, 900)], "0s"), [515.0, 1220.0]);
    // The light trace repeats after two seconds.
    assert_eq!(over_cellular(&[(2500 * MILLI, 1000)], "0s"), [2515.0]);
}

#[test]
fn long_transfers_use_the_opportunities_of_the_heavy_trace() {
    // The train delivers three packets. The base delay remains 10 ms, so later packets leave at multiples of 10 ms.
    let long: Vec<(u64, u16)> = (0..6).map(|_| (0, 1000)).collect();
    assert_eq!(over_cellular(&long, "0s"), [10.0, 12.0, 15.0, 20.0, 30.0, 40.0]);
    // A packet that needs more bytes than the train has left uses those of the heavy trace.
    assert_eq!(over_cellular(&[(0, 1000), (0, 1000), (0, 1500)], "0s"), [10.0, 12.0, 20.0]);
}

#[test]
fn a_new_train_starts_only_after_the_link_has_been_idle_long_enough() {
    let spaced = [(0, 1000), (MILLI, 1000), (6 * MILLI, 1000), (8 * MILLI, 1000)];
    // A packet that arrives on an idle link starts a train.
    assert_eq!(over_cellular(&spaced, "0s")[..2], [10.0, 11.01]);
    // Otherwise, the packets use the opportunities that remain, and then those of the heavy trace.
    assert_eq!(over_cellular(&spaced, "50ms"), [10.0, 12.0, 20.0, 30.0]);
    // No packet overtakes an earlier packet, even if the base delay decreases.
    let overlapping = over_cellular(&[(1999 * MILLI, 1000), (2001 * MILLI, 1000)], "0s");
    assert_eq!(overlapping[0], 2019.0);
    assert!(overlapping[1] >= overlapping[0]);
}

#[test]
fn a_light_trace_without_long_transfers_equals_mahimahi_with_a_base_delay() {
    // If each train consists of its first packet, a saturated link behaves like the heavy trace alone.
    let traces = |light: Option<&str>| {
        let mut table = json!({"file": "heavy", "bytes": "1000B", "overhead": "0B"});
        if light.is_some() {
            table["light"] = json!("light");
        }
        let config = <Config as aqm_net::Parameter>::read(json!({"opportunities": table})).unwrap();
        let heavy = "3\n4\n4\n9\n15\n";
        let schedule =
            config.schedule(|name| Some(if name == "light" { light.unwrap() } else { heavy })).unwrap();
        config.service(Rate::from_bps(8_000_000), schedule).unwrap()
    };
    let arrivals: Vec<(u64, u16)> = (0..200).map(|number| (100_001, 300 + number % 7 * 100)).collect();
    let [alone, both] =
        [traces(None), traces(Some("0 0 0\n1000 0 0\n"))].map(|service| sent(&service, &arrivals));
    // The first opportunity belongs to the train; afterwards, the opportunities are the same.
    let first = |sent: &[(u64, u64)]| sent.iter().map(|&(_, end)| end).collect::<Vec<_>>();
    let (alone, both) = (first(&alone), first(&both));
    assert!(both.iter().zip(&alone).all(|(both, alone)| both <= alone));
    assert!(both.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(
        both.last().map(|end| end % (15 * MILLI)).map(|end| [3, 4, 9, 0].contains(&(end / MILLI))),
        Some(true)
    );
}

#[test]
fn invalid_traces_of_packet_trains_are_rejected_with_their_line() {
    let light = |content: &str| {
        let config = json!({"opportunities": {"file": "heavy", "light": "light"}});
        let config = <Config as aqm_net::Parameter>::read(config).unwrap();
        let schedule = config.schedule(|name| Some(if name == "light" { content } else { "10\n" }));
        schedule.err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    assert_eq!(light(LIGHT), "");
    for (content, part) in [
        ("", "must have at least two lines"),
        ("0 10 0\n", "must have at least two lines"),
        ("0 10 0\nx 10\n", "line 2: must contain whole numbers of milliseconds (got `x`)"),
        ("0 10 0\n5\n", "line 2: has no base delay"),
        ("0 10 0\n\n", "line 2: has no time"),
        ("0 10 0\n0 10 0\n", "line 2: must be later than the time on the previous line, 0ms"),
        ("5 10 0\n9 10 0\n", "line 1: must have the time 0 (got 5)"),
        ("0 10 0 4 3\n9 10\n", "ascending order (got 3 after 4)"),
        ("0 10 3\n9 10\n", "must be 0 (got 3)"),
        ("0 99999999999999\n9 10\n", "whole numbers of milliseconds"),
    ] {
        let problem = light(content);
        assert!(problem.contains("opportunities.light") && problem.contains(part), "{content:?}: {problem}");
    }
    let outage = json!({
        "opportunities": {"file": "a", "light": "b"}, "outages": [{"from": "1s", "until": "2s"}],
    });
    assert!(problems(outage, "0 0\n1 0\n").contains("opportunities.light: cannot be combined with outages"));
    let idle = json!({"opportunities": {"file": "a", "idle": "1s"}});
    assert!(problems(idle, "5\n").contains("without light"));
}

#[test]
fn framing_lengthens_packets_on_the_line() {
    // At 8 Mb/s, a byte takes a microsecond.
    let time = |framing: Value, bytes: u16| {
        let found = sent(&service(json!({"framing": framing})), &[(0, bytes)]);
        (found[0].1 - found[0].0) / 1000
    };
    assert_eq!(time(json!({}), 1500), 1500);
    assert_eq!(time(json!({"overhead": 22}), 1500), 1522);
    assert_eq!(time(json!({"overhead": -30, "mpu": "64B"}), 40), 64);
    // A packet of 40 bytes with 10 bytes of headers needs two cells, and a packet of 1500 + 40 bytes needs 33 cells.
    assert_eq!(time(json!({"linklayer": "atm", "overhead": 10}), 38), 53);
    assert_eq!(time(json!({"linklayer": "atm", "overhead": 10}), 40), 106);
    assert_eq!(time(json!({"linklayer": "atm", "overhead": 40}), 1500), 33 * 53);
    // 1500 + 30 bytes are 23 full blocks of 64 bytes and a part of a block.
    assert_eq!(time(json!({"linklayer": "ptm", "overhead": 30}), 1500), 1530 + 24);
    assert_eq!(time(json!({"linklayer": "ptm"}), 64), 65);
    let wrong = json!({"framing": {"overhead": 3000}});
    assert!(problems(wrong, "").contains("framing.overhead: must be from -2047 to 2047 (got 3000)"));
    assert!(problems(json!({"framing": {"mpu": "3kB"}}), "").contains("framing.mpu"));
    let both = json!({"framing": {}, "opportunities": {"file": "a"}});
    assert!(problems(both, "5\n").contains("framing: cannot be combined with `opportunities`"));
}

#[test]
fn framing_and_changing_rates_are_combined() {
    let config = json!({
        "framing": {"linklayer": "atm"}, "rate_steps": [{"at": "1ms", "rate": "0bps"}, {"at": "5ms", "rate": "8Mbps"}],
    });
    // 44 cells of 53 bytes: 1000 bytes before the rate is zero, and the rest afterwards.
    assert_eq!(sent(&service(config), &[(0, 2112)]), [(0, 5_000_000 + (44 * 53 - 1000) * 1000)]);
}

/// Mangled traces are refused or read, and a trace that is read delivers every packet, in order and not too early.
#[test]
fn mangled_traces_of_packet_trains_are_read_or_refused_without_panics() {
    let mut rng = rng();
    let mut read = 0;
    for _ in 0..2000 {
        let mut light = LIGHT.as_bytes().to_vec();
        for _ in 0..rng.below(4) {
            let at = rng.below(light.len() as u64) as usize;
            match rng.below(3) {
                0 => light[at] = b"0123456789 \n-x."[rng.below(15) as usize],
                1 => drop(light.remove(at)),
                _ => light.insert(at, b"0123456789 \n"[rng.below(12) as usize]),
            }
        }
        let light = String::from_utf8(light).unwrap();
        let idle = format!("{}ms", rng.below(30));
        let config = json!({"opportunities": {"file": "heavy", "light": "light", "idle": idle}});
        let config = <Config as aqm_net::Parameter>::read(config).unwrap();
        let heavy = ["10\n", "1\n1\n7\n", "0\n3\n90\n"][rng.below(3) as usize];
        let Ok(schedule) = config.schedule(|name| Some(if name == "light" { &light } else { heavy })) else {
            continue;
        };
        read += 1;
        let service = config.service(Rate::from_bps(8_000_000), schedule).unwrap();
        let mut now = 0;
        let arrivals: Vec<(u64, u16)> = (0..60)
            .map(|_| {
                now += rng.below(20) * rng.below(3) * MILLI;
                (now, 1 + rng.below(3000) as u16)
            })
            .collect();
        let found = sent(&service, &arrivals);
        assert_eq!(found.len(), arrivals.len(), "{light:?}");
        assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1), "{light:?}");
        assert!(found.iter().zip(&arrivals).all(|(sent, arrival)| sent.0 >= arrival.0 && sent.1 >= sent.0));
    }
    assert!(read > 500, "{read}");
}

//! BBR versions 3 and 1 on a link: the sequence of states, the model of the path, and the queue.
//!
//! draft-ietf-ccwg-bbr, editor's copy of 3 August 2026, section "BBR Example Test Cases"; Linux 6.1.192 in User-Mode Linux
//! (the recorded numbers of a single flow).

use aqm_net::level::Run;
use serde_json::{Value, json};

use crate::common::{maybe_real, maybe_words, mean_and_error, real, replicate, run, whole, words};

/// Payload of the link's bits: 1448 B of 1514 B.
const PAYLOAD_SHARE: f64 = 1448.0 / 1514.0;

/// Returns a scenario with one bulk flow over a link, whose hosts add no time.
fn scenario(rate: &str, one_way: &str, queue: Value, duration: &str, control: Value) -> Value {
    json!({
        "duration": duration,
        "bottleneck": { "rate": rate, "delay": one_way, "queue": queue },
        "access": { "rate": "100Gbps", "delay": "0ms" },
        "host": { "jitter": "0s" },
        "tcp": {
            "profile": "linux-6",
            "congestion_control": control,
            "connection": { "header": "66B", "ack_size": "66B" },
        },
        "record": { "senders": ["bulk"], "queue_every": "0s" },
        "traffic": { "bulk": { "kind": "ftp", "flows": 1 } },
    })
}

fn drop_tail(packets: u32) -> Value {
    json!({ "kind": "drop-tail", "limit": format!("{packets}p") })
}

/// State of the sender after an acknowledgement.
struct Row {
    at: f64,
    state: String,
    cwnd: f64,
    bandwidth: f64,
    min_rtt: f64,
}

/// Returns the states of the sender, with times since the first.
fn rows(run: &Run) -> Vec<Row> {
    let at = real(run, "senders.time_s");
    let states = maybe_words(run, "senders.state");
    let cwnd = real(run, "senders.cwnd_segments");
    let (bandwidth, min_rtt) =
        (maybe_real(run, "senders.bandwidth_bps"), maybe_real(run, "senders.min_rtt_s"));
    let row = |index: usize| Row {
        at: at[index] - at[0],
        state: states[index].clone().unwrap(),
        cwnd: cwnd[index],
        bandwidth: bandwidth[index].unwrap_or(0.0),
        min_rtt: min_rtt[index].unwrap_or(0.0),
    };
    (0..at.len()).map(row).collect()
}

/// Returns each state with the time of its beginning.
fn states(rows: &[Row]) -> Vec<(f64, &str)> {
    let mut states: Vec<(f64, &str)> = Vec::new();
    for row in rows {
        if states.last().is_none_or(|last| last.1 != row.state) {
            states.push((row.at, &row.state));
        }
    }
    states
}

fn bbr3(profile: &str) -> Value {
    json!({ "kind": "bbr3", "profile": profile })
}

fn goodput(run: &Run) -> f64 {
    real(run, "flows.goodput_bps")[0] * 1e-6
}

#[test]
fn bbr3_passes_through_its_states_in_order_and_finds_the_bandwidth() {
    for profile in ["draft", "linux"] {
        // 50 Mb/s and 40 ms are 165 packets; the buffer holds twice as many.
        let run = run(scenario("50Mbps", "20ms", drop_tail(330), "25s", bbr3(profile)));
        let rows = rows(&run);
        let states = states(&rows);
        let names: Vec<&str> = states.iter().map(|state| state.1).collect();
        assert_eq!(names[..2], ["STARTUP", "DRAIN"], "{profile}");
        for pair in names.windows(2) {
            let follows = match pair[0] {
                "STARTUP" => vec!["DRAIN"],
                // The condition that ends `DRAIN` also ends `DOWN`, in the same step.
                "DRAIN" => vec!["PROBE_BW_DOWN", "PROBE_BW_CRUISE"],
                "PROBE_BW_DOWN" => vec!["PROBE_BW_CRUISE", "PROBE_RTT"],
                "PROBE_BW_CRUISE" => vec!["PROBE_BW_REFILL", "PROBE_RTT"],
                "PROBE_BW_REFILL" => vec!["PROBE_BW_UP"],
                "PROBE_BW_UP" => vec!["PROBE_BW_DOWN"],
                "PROBE_RTT" => vec!["PROBE_BW_CRUISE"],
                other => panic!("{other}"),
            };
            assert!(follows.contains(&pair[1]), "{profile}: {pair:?}");
        }
        assert!(states[1].0 < 0.6, "{profile}: 4 doublings and 3 rounds without growth: {}", states[1].0);
        let link = 50e6 * PAYLOAD_SHARE;
        for row in rows.iter().filter(|row| row.at > states[1].0) {
            assert!((row.bandwidth / link - 1.0).abs() < 0.02, "{profile}: {}", row.bandwidth);
            assert!((row.min_rtt / 40e-3 - 1.0).abs() < 0.02, "{profile}: {}", row.min_rtt);
        }
        assert_eq!(whole(&run, "links.drops")[0], 0);
        assert!(goodput(&run) > 0.94 * link * 1e-6, "{profile}: {}", goodput(&run));
        assert!(real(&run, "links.mean_queue_packets")[0] < 20.0);
    }
}

#[test]
fn bbr3_probes_the_round_trip_every_five_seconds_with_half_of_the_data() {
    let run = run(scenario("50Mbps", "20ms", drop_tail(330), "25s", bbr3("draft")));
    let rows = rows(&run);
    let states = states(&rows);
    let probes: Vec<usize> = (0..states.len() - 1).filter(|&index| states[index].1 == "PROBE_RTT").collect();
    assert_eq!(probes.len(), 4);
    let mut last_end = 0.0;
    for index in probes {
        let (begin, end) = (states[index].0, states[index + 1].0);
        assert!((begin - last_end - 5.0).abs() < 0.2, "{begin} after {last_end}");
        assert!(end - begin > 0.2 && end - begin < 0.3, "{begin} to {end}");
        let of_probe: Vec<&Row> = rows.iter().filter(|row| row.at >= begin && row.at < end).collect();
        assert!(of_probe.iter().all(|row| (row.cwnd - 82.5).abs() < 2.0), "half of 165 packets");
        last_end = end;
    }
}

#[test]
fn bbr3_probes_for_bandwidth_every_two_to_three_seconds_at_times_that_depend_on_the_seed() {
    let probes = |seed: u64| -> Vec<f64> {
        let mut scenario = scenario("50Mbps", "20ms", drop_tail(330), "13s", bbr3("draft"));
        scenario["seed"] = seed.into();
        let run = run(scenario);
        let rows = rows(&run);
        let states = states(&rows);
        let waits = states.windows(2).filter(|pair| pair[1].1 == "PROBE_BW_REFILL");
        waits.map(|pair| pair[1].0 - pair[0].0).collect()
    };
    let (first, second) = (probes(1), probes(2));
    assert_eq!(first, probes(1));
    assert_ne!(first, second);
    // The wait begins with `DOWN`, which lasts up to 0.5 s.
    assert!(first.iter().chain(&second).all(|wait| (1.5..3.1).contains(wait)), "{first:?} {second:?}");
}

#[test]
fn bbr3_finds_ten_times_the_bandwidth_within_two_cycles() {
    let mut up = scenario("10Mbps", "20ms", drop_tail(330), "20s", bbr3("draft"));
    up["bottleneck"]["rate_steps"] = json!([{ "at": "8s", "rate": "100Mbps" }]);
    let run = run(up);
    let rows = rows(&run);
    let reached = rows.iter().find(|row| row.bandwidth > 0.95 * 100e6 * PAYLOAD_SHARE);
    assert!(reached.is_some_and(|row| row.at < 14.0), "two cycles");
}

#[test]
fn bbr_works_from_64_kbps_to_10_gbps_and_from_50_us_to_1_s() {
    for (rate, one_way, packets, duration, least) in [
        ("64kbps", "500us", 100, "100s", 0.95),
        ("10Gbps", "25us", 300, "560ms", 0.85),
        ("1Mbps", "500ms", 300, "100s", 0.75),
        ("50Mbps", "20ms", 17, "10s", 0.8),
    ] {
        for control in [bbr3("draft"), bbr3("linux"), json!({ "kind": "bbr1" })] {
            let run = run(scenario(rate, one_way, drop_tail(packets), duration, control.clone()));
            let rows = rows(&run);
            let share = real(&run, "links.utilisation")[0];
            let started =
                rows.last().unwrap().at / (rows.last().unwrap().at + real(&run, "senders.time_s")[0]);
            assert!(share / started > least, "{rate} {one_way} {control}: {}", share / started);
            assert!(rows.iter().all(|row| row.cwnd >= 1.0));
        }
    }
}

#[test]
fn bbr1_has_the_rate_and_the_queue_of_linux() {
    // Linux: 9.30 Mb/s and 5.9 packets, whether the buffer has one or four bandwidth-delay products.
    for packets in [50, 200] {
        let mut scenario = scenario("10Mbps", "30ms", drop_tail(packets), "60s", json!({ "kind": "bbr1" }));
        scenario["warm_up"] = "10s".into();
        let run = run(scenario);
        assert!((goodput(&run) - 9.30).abs() < 0.1, "{}", goodput(&run));
        assert!((real(&run, "links.mean_queue_packets")[0] - 5.9).abs() < 2.0);
        assert_eq!(whole(&run, "links.drops")[0], 0);
    }
}

#[test]
fn bbr1_has_the_states_and_the_levels_of_a_trace_of_linux() {
    let run = run(scenario("10Mbps", "30ms", drop_tail(100), "30s", json!({ "kind": "bbr1" })));
    let rows = rows(&run);
    let states = states(&rows);
    let names: Vec<&str> = states.iter().map(|state| state.1).collect();
    let expected = ["STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT", "PROBE_BW", "PROBE_RTT", "PROBE_BW"];
    assert_eq!(names, expected);
    // Times since the end of the handshake, sampled each 20 ms. Linux keeps a packet for no time on an idle link, so that its
    // round trip in `PROBE_RTT` is 60 ms again; here the time of a packet is added, and the minimum changes later.
    let recorded = [0.0, 0.88, 1.06, 10.02, 10.30, 20.30, 20.60];
    for (index, (state, recorded)) in states.iter().zip(recorded).enumerate() {
        let margin = if index < 5 { 0.1 } else { 0.6 };
        assert!((state.0 - recorded).abs() < margin, "{}: {} and {recorded}", state.1, state.0);
    }
    // After start-up Linux has 9.5636 Mb/s and 110 or 112 segments.
    for row in rows.iter().filter(|row| row.at > 1.5 && row.state == "PROBE_BW") {
        assert!((row.bandwidth / 9.5636e6 - 1.0).abs() < 0.01, "{}", row.bandwidth);
    }
    let cwnd: Vec<f64> =
        rows.iter().filter(|row| row.at > 5.0 && row.at < 10.0).map(|row| row.cwnd).collect();
    assert!(cwnd.iter().all(|&cwnd| (108.0..=114.0).contains(&cwnd)), "{:?}", cwnd.first());
}

#[test]
fn marks_slow_down_the_draft_and_not_linux() {
    let queue = |profile: &str| {
        let codel = json!({ "kind": "codel", "limit": "1000p", "ecn": true });
        let mut scenario = scenario("10Mbps", "30ms", codel, "30s", bbr3(profile));
        scenario["tcp"]["ecn"] = json!({ "mode": "on" });
        let run = run(scenario);
        (whole(&run, "links.marks")[0], goodput(&run), real(&run, "links.mean_queue_packets")[0])
    };
    let (draft, linux) = (queue("draft"), queue("linux"));
    assert!(draft.0 < linux.0, "{draft:?} {linux:?}");
}

#[test]
fn bbr1_shares_with_cubic_as_linux_does() {
    // Linux: 1.12 and 8.23 Mb/s with a buffer of one bandwidth-delay product, 5.37 and 4.19 Mb/s with four.
    for (packets, least, most) in [(50, 7.5, 9.0), (200, 3.2, 5.2)] {
        let mut scenario = scenario("10Mbps", "30ms", drop_tail(packets), "60s", json!({ "kind": "bbr1" }));
        scenario["warm_up"] = "10s".into();
        let cubic = json!({ "profile": "linux-6", "connection": { "header": "66B", "ack_size": "66B" } });
        scenario["traffic"]["cubic"] = json!({ "kind": "ftp", "flows": 1, "tcp": cubic });
        let of_bbr = |run: &Run| {
            let flow = words(run, "flows.traffic").iter().position(|name| name == "bulk").unwrap();
            real(run, "flows.goodput_bps")[flow] * 1e-6
        };
        let (mean, _) = mean_and_error(&replicate(&scenario, 4, of_bbr));
        assert!(mean > least && mean < most, "{packets}: {mean}");
    }
}

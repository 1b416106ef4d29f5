//! Parsing of `[tcp]` tables: profiles, overrides, errors; differences between profiles.

use std::collections::VecDeque;
use std::sync::Arc;

use aqm_net::{Instant, Size, Span};
use aqm_tcp::config::pacing::Pacing;
use aqm_tcp::config::recovery::RecoveryKind;
use aqm_tcp::config::rto::MinRto;
use aqm_tcp::congestion_control::{Control, RenoConfig, SlowStartEnd, SsthreshRounding, WindowRules};
use aqm_tcp::{Config, Endpoint, Segment, overlay, profiles, read};
use serde_json::{Value, json};

fn problem(value: Value) -> String {
    match read(value) {
        Err(errors) => errors.to_string(),
        Ok(config) => config.build().unwrap_err().to_string(),
    }
}

fn profile(name: &str) -> Config {
    read(json!({ "profile": name })).unwrap()
}

/// Returns the paths of values that differ between `values` and `base`; values missing in one of them are ignored.
fn differing(values: &Value, base: &Value, path: &str) -> Vec<String> {
    let (Value::Object(values), Value::Object(base)) = (values, base) else {
        return if values == base { vec![] } else { vec![path.to_owned()] };
    };
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    // A table omits some parameters that have their default values.
    let both = values.iter().map(|(name, value)| (name, value, base.get(name).unwrap_or(&Value::Null)));
    both.flat_map(|(name, value, other)| differing(value, other, &inside(name))).collect()
}

/// Returns the parameters in which `config` differs from `rfc`, or, for another kind of congestion control, from that
/// kind's defaults.
fn differences(config: &Config) -> Vec<String> {
    let (full, mut rfc) = (config.to_value(), Config::default().to_value());
    let kind = config.congestion_control.kind();
    let own = Control::every().into_iter().find(|control| control.kind() == kind).unwrap();
    rfc["congestion_control"] = own.to_value();
    rfc["pacing"] = serde_json::to_value(Pacing::default()).unwrap();
    let mut paths = differing(&full, &rfc, "");
    if kind != Config::default().congestion_control.kind() {
        paths.push("congestion_control.kind".to_owned());
    }
    paths.sort();
    paths
}

#[test]
fn every_profile_builds_and_can_be_parsed_from_its_own_table() {
    for one in profiles() {
        one.config.build().unwrap();
        assert_eq!(read(one.config.to_value()).unwrap(), one.config, "{}", one.name);
        assert_eq!(profile(one.name), one.config);
    }
    assert_eq!(read(json!({})).unwrap(), Config::default());
}

#[test]
fn every_profile_has_a_source_for_each_value_that_differs_from_rfc() {
    for one in profiles() {
        let mut sourced: Vec<&str> = one.sources.iter().map(|(parameter, _)| *parameter).collect();
        sourced.sort_unstable();
        assert_eq!(sourced, differences(&one.config), "{}", one.name);
        assert!(one.sources.iter().all(|(_, source)| source.len() > 5), "{}", one.name);
        assert!(one.about.ends_with('.'), "{}", one.name);
    }
    assert!(profiles()[0].sources.is_empty());
}

#[test]
fn profiles_have_unique_names() {
    let names: Vec<&str> = profiles().iter().map(|one| one.name).collect();
    let ns_2 = ["ns-2.2001", "ns-2.2003", "ns-2.2003-full", "ns-2.35", "ns-2.35-full"];
    assert_eq!(
        names,
        ["rfc"].iter().chain(&ns_2).chain(&["linux-2.4", "linux-6", "quic"]).copied().collect::<Vec<_>>()
    );
}

#[test]
fn profiles_differ_in_timers_and_initial_windows() {
    let row = |name| {
        let config = profile(name);
        let millis = |span: Span| span.nanos() / 1_000_000;
        (config.cwnd.initial, millis(config.rto.initial), millis(config.rto.min), millis(config.rto.tick))
    };
    assert_eq!(row("rfc"), (10, 1000, 1000, 0));
    assert_eq!(row("ns-2.2001"), (2, 6000, 1000, 100));
    assert_eq!(row("ns-2.2003"), (2, 6000, 1000, 10));
    assert_eq!(row("ns-2.2003-full"), row("ns-2.2003"));
    assert_eq!(row("ns-2.35"), (2, 3000, 200, 10));
    assert_eq!(row("ns-2.35-full"), row("ns-2.35"));
    assert_eq!(row("linux-2.4"), (2, 3000, 200, 10));
    assert_eq!(row("linux-6"), (10, 1000, 200, 4));
}

#[test]
fn profiles_differ_in_congestion_control_recovery_and_arithmetic() {
    let control = |name| profile(name).congestion_control.to_value();
    assert_eq!(control("ns-2.2001")["ssthresh_rounding"], "whole");
    assert_eq!(control("ns-2.2003")["ssthresh_rounding"], "whole");
    assert_eq!(control("ns-2.35")["ssthresh_rounding"], "down");
    assert_eq!(control("linux-6")["kind"], "cubic");
    let recovery = |name| profile(name).recovery.kind;
    assert_eq!((recovery("rfc"), recovery("ns-2.35")), (RecoveryKind::Reno, RecoveryKind::Reno));
    assert_eq!((recovery("linux-2.4"), recovery("linux-6")), (RecoveryKind::Sack, RecoveryKind::Rack));
    let applies = |name| profile(name).rto.min_applies;
    assert_eq!((applies("ns-2.2001"), applies("ns-2.2003")), (MinRto::AfterBackOff, MinRto::BeforeBackOff));
}

/// Returns the times in seconds at which a SYN without an answer is sent, and the number before the sender gives up.
fn syns(name: &str) -> (Vec<u64>, usize) {
    let mut sender = Arc::new(profile(name).build().unwrap()).endpoint();
    sender.write(Some(1), Instant::START);
    sender.open(Instant::START);
    let mut times = Vec::new();
    let mut now = Instant::START;
    while times.len() < 20 {
        while sender.poll_transmit(now).is_some() {
            times.push(now.nanos() / 1_000_000_000);
        }
        let Some(next) = sender.poll_timeout() else { break };
        now = next;
        sender.on_timer(now);
    }
    let all = times.len();
    times.truncate(4);
    (times, all)
}

#[test]
fn the_cost_of_a_lost_syn_depends_on_the_profile() {
    assert_eq!(syns("rfc"), (vec![0, 1, 3, 7], 8));
    assert_eq!(syns("ns-2.2001").0, [0, 6, 18, 42]);
    assert_eq!(syns("ns-2.2003").0, [0, 6, 18, 42]);
    assert_eq!(syns("ns-2.35").0, [0, 3, 9, 21]);
    assert_eq!(syns("linux-2.4"), (vec![0, 3, 9, 21], 6));
    assert_eq!(syns("linux-6"), (vec![0, 1, 3, 7], 7));
}

/// Exchanges segments between both endpoints over a lossless path of 50 ms until nothing is left to send.
fn talk(ends: &mut [Endpoint; 2], mut now: Instant) {
    let mut path: VecDeque<(Instant, usize, Segment)> = VecDeque::new();
    loop {
        for from in [0, 1] {
            while let Some(segment) = ends[from].poll_transmit(now) {
                path.push_back((now + Span::from_millis(50), 1 - from, segment));
            }
        }
        let timer = ends.iter().filter_map(Endpoint::poll_timeout).min().unwrap_or(Instant::NEVER);
        let arrival = path.front().map_or(Instant::NEVER, |one| one.0);
        now = timer.min(arrival);
        if now == Instant::NEVER {
            return;
        }
        if timer < arrival {
            ends.iter_mut().for_each(|end| end.on_timer(now));
        } else if let Some((_, to, segment)) = path.pop_front() {
            ends[to].on_segment(&segment, now);
        }
    }
}

#[test]
fn an_idle_period_resets_the_window_to_one_segment_in_ns_2_and_to_the_initial_one_in_the_rfcs() {
    let window_after_a_pause = |table: Value| {
        let tcp = Arc::new(read(table).unwrap().build().unwrap());
        let mut ends = [tcp.endpoint(), tcp.endpoint()];
        ends[0].write(Some(30_000), Instant::START);
        ends[1].listen(Instant::START);
        ends[0].open(Instant::START);
        talk(&mut ends, Instant::START);
        let before = ends[0].cwnd();
        ends[0].write(Some(1000), Instant::from_nanos(120_000_000_000));
        (before > 6.0, ends[0].cwnd())
    };
    let ns2 = |more: &str| json!({"profile": "ns-2.35", "cwnd": {"idle_restart": more}});
    assert_eq!(window_after_a_pause(json!({"profile": "ns-2.35"})), (true, 1.0));
    assert_eq!(window_after_a_pause(ns2("initial-window")), (true, 2.0));
    assert!(window_after_a_pause(ns2("off")).1 > 6.0);
}

#[test]
fn wire_sizes_of_segments_follow_the_profile() {
    let wire = |name: &str, bytes| profile(name).build().unwrap().wire_bytes(bytes);
    assert_eq!(
        wire("ns-2.2001", 1001),
        40 + 2 * 1000,
        "the packet size includes the header, and the last packet is full"
    );
    assert_eq!(wire("ns-2.2003", 1001), 40 + 2 * 1040);
    assert_eq!(wire("linux-2.4", 1460), 52 + 1500);
    assert_eq!(wire("linux-6", 1448), 60 + 1500);
}

#[test]
fn parameters_of_a_profile_are_overridden_individually() {
    let table = json!({
        "profile": "ns-2.35", "connection": {"mss": "960B"},
        "congestion_control": {"slow_start_end": "at-threshold"},
    });
    let config = read(table).unwrap();
    assert_eq!((config.connection.mss, config.cwnd.initial), (Size::from_bytes(960), 2));
    let Control::reno(reno) = profile("ns-2.35").congestion_control else { unreachable!("it is Reno") };
    assert_eq!(reno.window.ssthresh_rounding, SsthreshRounding::Down);
    let window = WindowRules { slow_start_end: SlowStartEnd::AtThreshold, ..reno.window };
    let reno = RenoConfig { window, ..reno };
    assert_eq!(config.congestion_control, Control::reno(reno));
}

/// Returns the settings of a workload whose own table is overlaid on the scenario's.
fn own(scenario: &Value, own: Value) -> Config {
    read(overlay(scenario, own)).unwrap()
}

#[test]
fn a_congestion_control_of_the_same_kind_inherits_from_the_base() {
    let reno = json!({"congestion_control": {"kind": "reno"}, "recovery": {"kind": "sack"}});
    for below in [
        json!({"congestion_control": {"max_ssthresh": 100.0}}),
        json!({"profile": "ns-2.35", "congestion_control": {"max_ssthresh": 100.0}}),
    ] {
        let mut wanted = read(below.clone()).unwrap();
        wanted.recovery.kind = RecoveryKind::Sack;
        assert_eq!(own(&below, reno.clone()), wanted, "{below}");
    }
    let below = json!({"profile": "linux-6", "congestion_control": {"beta": 0.5}});
    let cubic = json!({"congestion_control": {"kind": "cubic"}});
    assert_eq!(own(&below, cubic), read(below).unwrap());
}

#[test]
fn a_congestion_control_of_another_kind_inherits_nothing_from_the_base() {
    let below = json!({"congestion_control": {"kind": "cubic", "beta": 0.5, "max_ssthresh": 100.0}});
    let found = own(&below, json!({"congestion_control": {"kind": "reno"}}));
    assert_eq!(found, Config::default());
    let below = json!({"congestion_control": {"max_ssthresh": 100.0}, "rto": {"min": "200ms"}});
    let found = own(&below, json!({"congestion_control": {"kind": "cubic"}, "rto": {"max": "5s"}}));
    assert_eq!(found.congestion_control.to_value()["max_ssthresh"], Value::Null);
    assert_eq!((found.rto.min, found.rto.max), (Span::from_millis(200), Span::from_millis(5000)));
}

#[test]
fn a_table_with_a_profile_replaces_the_base() {
    let below = json!({"congestion_control": {"kind": "cubic"}, "rto": {"min": "2s"}});
    assert_eq!(own(&below, json!({"profile": "ns-2.35"})), profile("ns-2.35"));
}

#[test]
fn an_error_names_its_field_and_the_valid_values() {
    assert_eq!(
        problem(json!({"profile": "bsd"})),
        "profile: unknown profile `bsd`; allowed: `rfc`, `ns-2.2001`, `ns-2.2003`, `ns-2.2003-full`, \
         `ns-2.35`, `ns-2.35-full`, `linux-2.4`, `linux-6`, `quic`"
    );
    let mms = problem(json!({"mms": "1B"}));
    assert!(
        mms.starts_with("mms: unknown key `mms`; did you mean `connection.mss`? allowed: `connection`, ")
    );
    assert!(problem(json!({"mss": "1B"})).contains("did you mean `connection.mss`?"));
    assert!(problem(json!({"min_rto": "1s"})).contains("did you mean `rto.min`?"));
    let initial = problem(json!({"initial": 3}));
    assert!(initial.contains("did you mean `cwnd.initial` or `rto.initial`?"), "{initial}");
    let inside = |table: Value| problem(json!({"congestion_control": table}));
    assert!(
        inside(json!({"kind": "cubik"}))
            .starts_with("congestion_control.kind: unknown kind `cubik`; did you mean `cubic`?")
    );
    assert!(inside(json!({"beta": 1})).starts_with("congestion_control.beta: unknown key `beta`"));
    assert!(problem(json!({"connection": {"mms": "1B"}})).contains("did you mean `mss`?"));
    assert_eq!(
        problem(json!({"connection": {"mss": "70kB"}})),
        "connection.mss: must be at most 65535B, including the header"
    );
    assert_eq!(
        problem(json!({"rto": {"arithmetic": "ticks"}})),
        "rto.tick: must not be 0s with `arithmetic = \"ticks\"`"
    );
    assert_eq!(problem(json!({"rto": {"tick_phase": "1ms"}})), "rto.tick_phase: must be below tick");
    assert_eq!(
        problem(json!({"cwnd": {"initial": 0}})),
        "cwnd.initial: must be from 1 to 1000000000 segments"
    );
    assert!(problem(json!({"rto": {"max": "10ms"}})).starts_with("rto.max: must not be below min\n"));
    assert!(
        problem(json!({"profile": "ns-2.35", "rto": {"srtt_gain": 0.5}}))
            .starts_with("rto.srtt_gain: must have its default")
    );
    assert!(problem(json!([])).contains("must be a table"));
    assert_eq!(
        problem(json!({"rto": {"min": "2s", "max": "1500ms"}, "recovery": {"dupthresh": 0}})),
        "recovery.dupthresh: must be from 1 to 1000\nrto.max: must not be below min\nrto.after_syn_loss: must not exceed max"
    );
}

#[test]
fn wire_bytes_count_syn_data_and_fin() {
    let build = |value| read(value).unwrap().build().unwrap();
    let ns2 = build(json!({"profile": "ns-2.35", "connection": {"mss": "934B"}}));
    assert_eq!((ns2.segments(935), ns2.wire_bytes(935)), (2, 40 + 2 * 974));
    let rfc = build(json!({}));
    assert_eq!(rfc.wire_bytes(1461), 40 + 1500 + 41);
    assert_eq!(rfc.wire_bytes(0), 80);
    assert_eq!(build(json!({"connection": {"handshake": "none", "close": "none"}})).wire_bytes(1), 41);
}

//! Reading `[tcp]` tables: profiles, overrides, errors.

use aqm_net::Size;
use aqm_tcp::control::{Control, RenoConfig, SlowStartEnd, SsthreshRounding};
use aqm_tcp::{Config, profiles, read};
use serde_json::{Value, json};

fn problem(value: Value) -> String {
    read(value).and_then(|config| config.build()).unwrap_err().to_string()
}

#[test]
fn every_profile_builds_and_reads_what_it_writes() {
    for (name, _, config) in profiles() {
        config.build().unwrap();
        assert_eq!(read(config.to_value()).unwrap(), config);
        assert_eq!(read(json!({ "profile": name })).unwrap(), config);
    }
    assert_eq!(read(json!({})).unwrap(), Config::default());
}

#[test]
fn a_profile_is_overridden_one_by_one() {
    let table = json!({"profile": "ns-2.35", "mss": "960B", "control": {"slow_start_end": "at-threshold"}});
    let config = read(table).unwrap();
    assert_eq!((config.mss, config.initial_window), (Size::from_bytes(960), 2));
    let law =
        RenoConfig { ssthresh_rounding: SsthreshRounding::Down, slow_start_end: SlowStartEnd::AtThreshold };
    assert_eq!(config.control, Control::reno(law));
}

#[test]
fn an_error_names_place_and_remedy() {
    assert_eq!(
        problem(json!({"profile": "bsd"})),
        "profile: unknown profile \"bsd\", expected one of `rfc`, `ns-2.35`"
    );
    assert!(problem(json!({"mms": "1B"})).contains("unknown field `mms`, expected"));
    assert!(problem(json!({"control": {"kind": "cubik"}})).starts_with("control.kind: unknown kind"));
    assert!(problem(json!({"control": {"beta": 1}})).starts_with("control.beta: unknown field `beta`"));
    assert_eq!(problem(json!({"mss": "70kB"})), "mss: must be at most 65535B, header included");
    assert_eq!(
        problem(json!({"rto_arithmetic": "ticks"})),
        "tick: must not be 0s: `rto_arithmetic` counts in ticks"
    );
    assert_eq!(problem(json!({"tick_phase": "1ms"})), "tick_phase: must be below tick");
    assert_eq!(problem(json!({"initial_window": 0})), "initial_window: must be 1 to 1000000000 segments");
    assert_eq!(problem(json!({"max_rto": "10ms"})), "max_rto: must not be below min_rto");
    assert!(problem(json!({"profile": "ns-2.35", "srtt_gain": 0.5})).starts_with("srtt_gain: must be left"));
    assert!(problem(json!([])).contains("must be a table"));
}

#[test]
fn wire_bytes_count_syn_data_and_fin() {
    let build = |value| read(value).unwrap().build().unwrap();
    let ns2 = build(json!({"profile": "ns-2.35", "mss": "934B"}));
    assert_eq!((ns2.segments(935), ns2.wire_bytes(935)), (2, 40 + 2 * 974));
    let rfc = build(json!({}));
    assert_eq!(rfc.wire_bytes(1461), 40 + 1500 + 41);
    assert_eq!(rfc.wire_bytes(0), 80);
    assert_eq!(build(json!({"handshake": "none", "close": "none"})).wire_bytes(1), 41);
}

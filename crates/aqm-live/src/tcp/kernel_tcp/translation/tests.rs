use aqm_net::{Field, Parameter as _, Parameters as _};
use serde_json::json;

use super::*;

const KERNEL: Kernel =
    Kernel { release: (6, 18), tick: Span::from_millis(4), has_rto_max: true, hystart: Some(true) };
const OLD_KERNEL: Kernel = Kernel { release: (6, 1), has_rto_max: false, ..KERNEL };

const NO_LINK: Size = Size::from_bytes(0);

fn read(table: Value) -> Config {
    aqm_tcp::read(table).unwrap()
}

fn linux(changes: Value) -> Config {
    read(aqm_tcp::overlay(&json!({ "profile": "linux-6" }), changes))
}

/// Returns the rejected parameters, with one line per parameter.
fn refused(config: &Config, kernel: &Kernel) -> Vec<String> {
    let errors = KernelTcp::of(config, kernel, NO_LINK).err();
    errors.iter().flat_map(|errors| errors.iter().map(ToString::to_string)).collect()
}

#[test]
fn todays_linux_is_what_the_kernel_does_by_itself() {
    let tcp = KernelTcp::of(&linux(json!({})), &KERNEL, NO_LINK).unwrap();
    let expected = RouteSettings {
        advmss: 1460,
        initcwnd: 10,
        initrwnd: None,
        window: 14_480_000,
        rto_min_ms: 200,
        congctl: Some("cubic".to_owned()),
        ecn: false,
        quickack: false,
    };
    assert_eq!(tcp.route, expected);
    for (name, value) in [
        ("ipv4/tcp_timestamps", "1"),
        ("ipv4/tcp_sack", "1"),
        ("ipv4/tcp_dsack", "1"),
        ("ipv4/tcp_recovery", "1"),
        ("ipv4/tcp_early_retrans", "3"),
        ("ipv4/tcp_frto", "2"),
        ("ipv4/tcp_reordering", "3"),
        ("ipv4/tcp_syn_retries", "6"),
        ("ipv4/tcp_retries2", "15"),
        ("ipv4/tcp_rto_max_ms", "120000"),
        ("ipv4/tcp_no_metrics_save", "1"),
    ] {
        assert_eq!(tcp.sysctls[name], value, "{name}");
    }
    assert_eq!(refused(&linux(json!({})), &OLD_KERNEL), [""; 0]);
}

#[test]
fn the_testbed_of_2004_has_settings() {
    let helsinki = linux(json!({
        "connection": {"mss": "536B", "header": "40B", "ack_size": "40B", "syn_size": "52B"},
        "congestion_control": {"kind": "reno"},
        "cwnd": {"initial": 2, "initial_after_syn_loss": 2},
        "recovery": {"undo": "dsack"},
        "rto": {"min": "1s"},
        "receiver": {"delayed_ack": "off"},
        "ecn": {"mode": "on"},
    }));
    let tcp = KernelTcp::of(&helsinki, &KERNEL, NO_LINK).unwrap();
    let expected = RouteSettings {
        advmss: 536,
        initcwnd: 2,
        initrwnd: None,
        window: 5_360_000,
        rto_min_ms: 1000,
        congctl: Some("reno".to_owned()),
        ecn: true,
        quickack: true,
    };
    assert_eq!(tcp.route, expected);
    assert_eq!(tcp.sysctls["ipv4/tcp_timestamps"], "0");
    assert_eq!(tcp.sysctls["ipv4/tcp_window_scaling"], "1");
    assert_eq!(tcp.sysctls["ipv4/tcp_ecn"], "1");
}

#[test]
fn a_syn_without_room_for_it_scales_no_windows() {
    let sizes = json!({"mss": "1460B", "header": "40B", "ack_size": "40B", "syn_size": "48B"});
    let config = |window| {
        linux(json!({"connection": sizes, "recovery": {"undo": "dsack"}, "receiver": {"window": window}}))
    };
    let tcp = KernelTcp::of(&config(44), &KERNEL, NO_LINK).unwrap();
    assert_eq!((tcp.route.window, &*tcp.sysctls["ipv4/tcp_window_scaling"]), (64_240, "0"));
    assert_eq!(refused(&config(45), &KERNEL), ["receiver.window: must be at most 44 segments (got 45)"]);
}

#[test]
fn lengths_may_contain_the_header_of_the_link() {
    let sizes = json!({"mss": "1460B", "header": "54B", "ack_size": "54B", "syn_size": "66B"});
    let config =
        linux(json!({"connection": sizes, "recovery": {"undo": "dsack"}, "receiver": {"window": 40}}));
    let ethernet = Size::from_bytes(14);
    let of_ip = json!({"mss": "1460B", "header": "40B", "ack_size": "40B", "syn_size": "52B"});
    let of_ip =
        linux(json!({"connection": of_ip, "recovery": {"undo": "dsack"}, "receiver": {"window": 40}}));
    let expected = KernelTcp::of(&of_ip, &KERNEL, NO_LINK);
    assert_eq!(KernelTcp::of(&config, &KERNEL, ethernet), expected);
    assert_eq!(
        refused(&config, &KERNEL)[..2],
        [
            "connection.header: must be 40B, or 52B with timestamps (got 54B)",
            "connection.syn_size: must be 52B, or 48B without window scaling (got 66B)"
        ]
    );
    let errors = KernelTcp::of(&of_ip, &KERNEL, ethernet).unwrap_err().to_string();
    assert!(
        errors.starts_with("connection.header: must be 54B, or 66B with timestamps (got 40B)"),
        "{errors}"
    );
}

#[test]
fn segments_that_make_packets_longer_than_the_mtu_are_refused() {
    let refused = |mss| refused(&linux(json!({"connection": {"mss": mss}})), &KERNEL);
    assert_eq!(
        refused("9000B"),
        ["connection.mss: must be from 88B to 1448B, the MTU of 1500B without headers (got 9kB)"]
    );
    assert_eq!((refused("1448B").len(), refused("1449B").len()), (0, 1));
    let (nearest, _) =
        KernelTcp::nearest(&linux(json!({"connection": {"mss": "9000B"}})), &KERNEL, NO_LINK, None);
    assert_eq!(nearest.route.advmss, 1460);
}

#[test]
fn a_buffer_holds_the_window_whatever_the_kernel_takes_for_data() {
    let buffer = |mss, window, kernel| {
        let sizes = json!({"mss": mss, "header": "40B", "ack_size": "40B", "syn_size": "52B"});
        let tcp = KernelTcp::of(
            &linux(
                json!({"connection": sizes, "recovery": {"undo": "dsack"}, "receiver": {"window": window}}),
            ),
            kernel,
            NO_LINK,
        );
        tcp.unwrap().sysctls["ipv4/tcp_rmem"].clone()
    };
    // Of 2304 bytes of memory, 1460 bytes are data, which is a fraction of 162/256.
    assert_eq!(buffer("1460B", 40, &KERNEL), "4096 95747 95747");
    assert!((41 * 1460..42 * 1460).contains(&(95_747 * 162 / 256)), "one segment has just arrived");
    assert_eq!(buffer("536B", 20, &KERNEL), "4096 85760 85760");
    assert_eq!(buffer("1460B", 10, &OLD_KERNEL), "4096 116800 116800");
}

#[test]
fn a_large_window_finds_its_size_unless_the_first_one_is_given() {
    let set = |first: Option<u32>| {
        let receiver = json!({"window": 200, "first_window": first});
        let sysctls = KernelTcp::of(&linux(json!({"receiver": receiver})), &KERNEL, NO_LINK).unwrap().sysctls;
        (sysctls["ipv4/tcp_rmem"].clone(), sysctls["ipv4/tcp_moderate_rcvbuf"].clone())
    };
    assert_eq!(set(None), ("4096 131072 466835".to_owned(), "1".to_owned()));
    assert_eq!(set(Some(44)), ("4096 466835 466835".to_owned(), "0".to_owned()));
}

#[test]
fn what_the_kernel_cannot_do_is_refused_by_name_and_value() {
    let cases = [
        (
            json!({"recovery": {"kind": "tahoe"}, "congestion_control": {"kind": "reno"}}),
            "recovery.kind: must be rack, or newreno without SACK, because SACK has required RACK since Linux 6.17 (got tahoe)",
        ),
        (
            json!({"recovery": {"reduction": "rate-halving"}}),
            "recovery.reduction: must be prr (got rate-halving), the fixed behaviour of Linux",
        ),
        (
            json!({"cwnd": {"initial_ssthresh": 20.0}}),
            "cwnd.initial_ssthresh: must be omitted (got 20.0), the fixed behaviour of Linux",
        ),
        (
            json!({"cwnd": {"idle_restart": "one-segment"}}),
            "cwnd.idle_restart: must be initial-window or off",
        ),
        (
            json!({"receiver": {"delayed_ack": "heartbeat"}}),
            "receiver.delayed_ack: must be adaptive or off (got heartbeat)",
        ),
        (json!({"rto": {"tick": "10ms"}}), "rto.tick: must be the kernel's tick, 4ms (got 10ms)"),
        (
            json!({"congestion_control": {"kind": "cubic", "beta": 0.8}}),
            "congestion_control.beta: must be 0.7 (got 0.8), the fixed behaviour of Linux",
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(refused(&linux(changes), &KERNEL), [expected]);
    }
}

#[test]
fn sack_without_rack_is_for_kernels_before_6_17() {
    let sack = linux(json!({"recovery": {"kind": "sack"}}));
    let tcp = KernelTcp::of(&sack, &OLD_KERNEL, NO_LINK).unwrap();
    assert_eq!((&*tcp.sysctls["ipv4/tcp_sack"], &*tcp.sysctls["ipv4/tcp_recovery"]), ("1", "0"));
    assert_eq!(refused(&sack, &KERNEL).len(), 1);
    let newreno = linux(json!({"recovery": {"kind": "newreno"}, "sack": {"pipe": "counted"}}));
    let tcp = KernelTcp::of(&newreno, &KERNEL, NO_LINK).unwrap();
    assert_eq!((&*tcp.sysctls["ipv4/tcp_sack"], &*tcp.sysctls["ipv4/tcp_dsack"]), ("0", "0"));
}

#[test]
fn a_tcp_that_no_kernel_has_is_brought_as_near_as_it_goes() {
    let rfc = read(json!({"receiver": {"window": 20}}));
    let (tcp, short) = KernelTcp::nearest(&rfc, &KERNEL, NO_LINK, None);
    let errors = short.finish(()).unwrap_err();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    for path in ["recovery.kind", "rto.arithmetic", "receiver.delayed_ack", "cwnd.reduction_basis"] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    assert_eq!((tcp.route.initcwnd, tcp.route.window, tcp.route.rto_min_ms), (10, 29_200, 1000));
    assert_eq!(tcp.sysctls["ipv4/tcp_sack"], "0");
}

/// Returns other valid values of a parameter.
fn others(field: &Field, value: &Value) -> Vec<Value> {
    let candidates: Vec<Value> = match field.schema.r#type {
        "choice" => field.schema.choices.iter().map(|choice| json!(choice.word)).collect(),
        "true or false" => vec![json!(true), json!(false)],
        "whole number" => vec![json!(7), json!(11)],
        "number" => vec![json!(0.25), json!(7.0)],
        "time" => vec![json!("8ms"), json!("2500ms")],
        _ => vec![json!("100B"), json!("1000B")],
    };
    candidates.into_iter().filter(|candidate| candidate != value).collect()
}

#[test]
fn no_parameter_is_ignored_in_silence() {
    let all = linux(json!({"ecn": {"mode": "on"}}));
    let table = all.to_value();
    let base = KernelTcp::of(&all, &KERNEL, NO_LINK).unwrap();
    let mut tried = 0;
    for group in Config::parameters() {
        let fields = if group.name == "congestion_control" {
            let controls = aqm_tcp::congestion_control::Control::catalog();
            controls.into_iter().find(|entry| entry.name == "cubic").unwrap().parameters
        } else {
            group.schema.fields.clone()
        };
        for field in fields {
            let path = format!("{}.{}", group.name, field.name);
            if SIMULATED.contains(&&*path) || NO_EFFECT_WITH_SACK.contains(&&*path) {
                continue;
            }
            // A parameter that has its default value may be missing from the complete table.
            let written = &table[group.name][field.name];
            let current = if written.is_null() { &field.default } else { written };
            for other in others(&field, current) {
                let mut changed = table.clone();
                changed[group.name][field.name] = other.clone();
                let Ok(config) = Config::read(changed) else { continue };
                let heeded = KernelTcp::of(&config, &KERNEL, NO_LINK).map_or(true, |tcp| tcp != base);
                assert!(heeded, "{path} = {other}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn bbr_version_1_is_the_kernels_bbr_and_pacing_is_the_kernels() {
    let tcp = |table: Value| KernelTcp::of(&linux(table), &KERNEL, NO_LINK);
    let bbr = tcp(json!({"congestion_control": {"kind": "bbr1"}})).unwrap();
    assert_eq!(bbr.congestion_control(), "bbr");
    let dctcp = tcp(json!({"congestion_control": {"kind": "dctcp"}, "ecn": {"mode": "on"}})).unwrap();
    assert_eq!(dctcp.congestion_control(), "dctcp");
    let errors = tcp(json!({"pacing": {"mode": "on"}})).unwrap_err();
    assert!(errors.to_string().starts_with("pacing."), "{errors}");
}

#[test]
fn what_is_settable_or_simulated_is_a_parameter() {
    let known = leaves(&linux(json!({})).to_value());
    for path in SETTABLE.iter().chain(SIMULATED).chain(NO_EFFECT_WITH_SACK) {
        assert!(known.contains_key(*path), "{path}");
    }
}

#[test]
fn the_machine_says_whether_cubic_leaves_slow_start_early() {
    let without = Kernel { hystart: Some(false), ..KERNEL };
    let not_loaded = Kernel { hystart: None, ..KERNEL };
    let off = linux(json!({"congestion_control": {"hystart": "off"}}));
    let reno = linux(json!({"congestion_control": {"kind": "reno"}}));
    for (config, kernel) in
        [(&linux(json!({})), &not_loaded), (&off, &without), (&reno, &KERNEL), (&reno, &without)]
    {
        assert_eq!(refused(config, kernel), [""; 0]);
    }
    let path = "congestion_control.hystart: must be";
    let file = "/sys/module/tcp_cubic/parameters/hystart";
    let message = |has: &str, not: &str| format!("{path} {has} (got {not}), as on this machine in {file}");
    assert_eq!(refused(&linux(json!({})), &without), [message("off", "linux")]);
    assert_eq!(refused(&off, &KERNEL), [message("linux", "off")]);
    let (tcp, refused) = KernelTcp::nearest(&off, &KERNEL, NO_LINK, None);
    assert_eq!(tcp, KernelTcp::of(&linux(json!({})), &KERNEL, NO_LINK).unwrap());
    assert!(refused.finish(()).is_err(), "the difference must be reported");
}

#[test]
fn a_congestion_control_of_the_kernel_takes_the_place_of_the_one_of_the_plan() {
    let config = linux(json!({"congestion_control": {"kind": "cubic", "hystart": "off"}}));
    let (tcp, refused) = KernelTcp::nearest(&config, &KERNEL, NO_LINK, Some("bbr"));
    assert!(refused.finish(()).is_ok(), "parameters of CUBIC must not matter");
    assert_eq!((tcp.congestion_control(), tcp.route.congctl.as_deref()), ("bbr", Some("bbr")));
}

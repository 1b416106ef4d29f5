use aqm_net::{Rate, Span};
use serde_json::{Value, json};

use super::*;

const LINE: Rate = Rate::from_bps(10_000_000);

fn read(table: Value) -> Config {
    Config::read(table).unwrap()
}

/// Returns the commands of a queue at the root of eth0, without the words that all commands have in common.
fn commands(table: Value) -> Vec<String> {
    let lines = qdisc(&read(table), LINE).unwrap().commands("eth0", "root", 1);
    lines.iter().map(|line| line.replace("tc qdisc add dev eth0 root handle 1: ", "")).collect()
}

fn limits(table: Value) -> Vec<String> {
    qdisc(&read(table), LINE).unwrap().limits.into_iter().map(|(path, _)| path).collect()
}

fn problem(table: Value) -> String {
    qdisc(&read(table), LINE).unwrap_err().to_string()
}

#[test]
fn a_command_contains_every_parameter_of_the_discipline() {
    for (table, expected) in [
        (json!({"kind": "drop-tail", "limit": "60p"}), "pfifo limit 60"),
        (json!({"kind": "drop-tail", "limit": "90kB"}), "bfifo limit 90000"),
        (json!({"kind": "codel"}), "codel limit 1000 target 5ms interval 100ms noecn"),
        (
            json!({"kind": "codel", "ecn": true, "ce_threshold": "1500us", "limit": "1200p"}),
            "codel limit 1200 target 5ms interval 100ms ce_threshold 1500us ecn",
        ),
        (
            json!({"kind": "fq-codel", "ce_threshold": "1ms", "ce_threshold_selector": 1, "ce_threshold_mask": 3}),
            "fq_codel limit 10240 flows 1024 quantum 1514 memory_limit 33554432 drop_batch 64 target 5ms interval 100ms \
             ce_threshold 1ms ecn ce_threshold_selector 0x1/0x3",
        ),
        (
            json!({"kind": "pie", "ecn": true}),
            "pie limit 1000 target 15ms tupdate 15ms alpha 2 beta 20 ecn nobytemode no_dq_rate_estimator",
        ),
        (
            json!({"kind": "fq-pie"}),
            "fq_pie limit 10240 flows 1024 quantum 1514 target 15ms tupdate 15ms alpha 2 beta 20 noecn nobytemode \
             no_dq_rate_estimator memory_limit 33554432 ecn_prob 10",
        ),
        (
            json!({"kind": "linux-red", "limit": "400kB", "min": "30kB", "max": "90kB", "ecn": true, "adaptive": true}),
            "red limit 400000 min 30000 max 90000 avpkt 1000 burst 50 bandwidth 10Mbit probability 0.02 ecn adaptive",
        ),
        (
            json!({"kind": "choke", "burst": 30, "min": "20p", "max": "60p", "bandwidth": "9500kbps"}),
            "choke limit 200 min 20 max 60 avpkt 1000 burst 30 bandwidth 9500Kbit probability 0.02",
        ),
        (
            json!({"kind": "sfb"}),
            "sfb rehash 600000 db 60000 limit 1000 max 25 target 20 increment 0.0005 decrement 0.00005 penalty_rate 10 \
             penalty_burst 20",
        ),
        (json!({"kind": "sfq"}), "sfq flows 128 divisor 1024 depth 127 quantum 1514 perturb 0"),
        (
            json!({"kind": "sfq", "limit": "100p", "perturb": "10s", "headdrop": true, "redflowlimit": "96kB"}),
            "sfq flows 100 divisor 1024 depth 127 limit 100 quantum 1514 perturb 10 headdrop redflowlimit 96000 min 8000 \
             max 24000 avpkt 1000 burst 13 probability 0.02",
        ),
        (
            json!({"kind": "fq", "maxrate": "3Mbps", "ce_threshold": "2ms"}),
            "fq limit 10000 flow_limit 100 buckets 1024 orphan_mask 1023 quantum 3028 initial_quantum 15140 \
             refill_delay 40ms timer_slack 10us low_rate_threshold 550Kbit pacing maxrate 3Mbit ce_threshold 2ms",
        ),
        (
            json!({"kind": "cake"}),
            "cake unlimited diffserv3 triple-isolate nonat nowash egress no-ack-filter split-gso rtt 100ms raw",
        ),
        (
            json!({
                "kind": "cake", "bandwidth": "9500kbps", "diffserv": "besteffort", "flows": "dual-dsthost",
                "ingress": true, "ack_filter": "aggressive", "overhead": 44, "atm": "atm", "mpu": "64B",
            }),
            "cake bandwidth 9500Kbit besteffort dual-dsthost nonat nowash ingress ack-filter-aggressive split-gso \
             rtt 100ms overhead 44 atm mpu 64",
        ),
        (
            json!({"kind": "dualpi2", "step_thresh_packets": 5}),
            "dualpi2 limit 10000 memlimit 30280000 target 15ms tupdate 16ms alpha 0.16015625 beta 3.19921875 \
             coupling_factor 2 step_thresh 5p min_qlen_step 0 drop_on_overload drop_dequeue classic_protection 10% \
             l4s_ect split_gso",
        ),
    ] {
        assert_eq!(commands(table), [expected]);
    }
    let bands = commands(json!({"kind": "fq", "kernel": "6.18"}));
    assert!(
        bands[0]
            .ends_with("pacing bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536")
    );
}

#[test]
fn a_discipline_with_several_commands_creates_outer_parts_first() {
    let three = json!({"kind": "gred", "default": 1, "grio": true, "vqs": [
        {"min": "30kB", "max": "90kB", "prio": 3}, {"min": "15kB", "max": "45kB", "ecn": true},
    ]});
    let change = "tc qdisc change dev eth0 root handle 1: gred";
    assert_eq!(
        commands(three),
        [
            "gred setup vqs 16 default 1 grio limit 1514000".to_owned(),
            format!(
                "{change} vq 1 limit 400000 min 15000 max 45000 avpkt 1000 burst 25 bandwidth 10Mbit probability 0.02 \
                 ecn prio 8"
            ),
            format!(
                "{change} vq 0 limit 400000 min 30000 max 90000 avpkt 1000 burst 50 bandwidth 10Mbit probability 0.02 \
                 prio 3"
            ),
        ]
    );
    let inner = json!({"kind": "drop-tail", "limit": "9p"});
    assert_eq!(
        commands(json!({"kind": "sfb", "queue": inner}))[1],
        "tc qdisc add dev eth0 parent 1:1 handle 2: pfifo limit 9"
    );
    let table = json!({"kind": "stab", "overhead": 32, "linklayer": "atm", "queue": {"kind": "drop-tail", "limit": "9p"}});
    assert_eq!(commands(table), ["stab overhead 32 mpu 0 linklayer atm mtu 2047 tsize 512 pfifo limit 9"]);
}

#[test]
fn htb_creates_parents_before_their_children_and_filters_last() {
    let htb = json!({
        "kind": "htb", "default": "bulk", "classes": {
            "bulk": {"rate": "2Mbps", "ceil": "8Mbps", "parent": "top", "queue": {"kind": "codel"}},
            "calls": {
                "rate": "1Mbps", "priority": 1, "quantum": "1514B", "parent": "top",
                "match": [{"protocol": "udp", "port": [5004], "dscp": [46]}, {"traffic": ["call"]}],
            },
            "top": {"rate": "8Mbps"},
        },
    });
    assert_eq!(limits(htb.clone()), ["classes.calls.match.port", "classes.calls.match.traffic"]);
    let filter = |prio: u32, version: &str| {
        format!(
            "tc filter add dev eth0 parent 1: prio {prio} protocol {version} flower ip_proto udp dst_port 5004 \
             ip_tos 0xb8/0xfc classid 1:2"
        )
    };
    let class = "tc class add dev eth0 parent 1:";
    assert_eq!(
        commands(htb),
        [
            "htb default 0x1 r2q 10".to_owned(),
            format!("{class} classid 1:3 htb rate 8Mbit ceil 8Mbit burst 1600 cburst 1600"),
            format!("{class}3 classid 1:1 htb rate 2Mbit ceil 8Mbit burst 1600 cburst 1600 prio 0"),
            "tc qdisc add dev eth0 parent 1:1 handle 2: codel limit 1000 target 5ms interval 100ms noecn"
                .to_owned(),
            format!(
                "{class}3 classid 1:2 htb rate 1Mbit ceil 1Mbit burst 1600 cburst 1600 prio 1 quantum 1514"
            ),
            "tc qdisc add dev eth0 parent 1:2 handle 3: pfifo limit 225".to_owned(),
            filter(1, "ip"),
            filter(2, "ipv6"),
        ]
    );
}

#[test]
fn an_htb_limits_the_rate_unless_the_queue_is_a_slower_shaper() {
    let root = |table: Value| {
        let Shaped { root, own_rate } = shaped(&read(table), LINE).unwrap();
        (root.kind, own_rate.map(Rate::bps))
    };
    assert_eq!(root(json!({"kind": "codel"})), ("htb", None));
    assert_eq!(root(json!({"kind": "fq", "maxrate": "1Mbps"})), ("htb", None));
    assert_eq!(root(json!({"kind": "cake"})), ("htb", None));
    assert_eq!(root(json!({"kind": "cake", "bandwidth": "10Mbps"})), ("cake", Some(10_000_000)));
    assert_eq!(root(json!({"kind": "cake", "bandwidth": "11Mbps"})), ("htb", Some(11_000_000)));
    let lines =
        shaped(&read(json!({"kind": "drop-tail", "limit": "9p"})), Rate::from_bps(9_500_001)).unwrap();
    assert_eq!(
        lines.root.commands("eth0", "root", 1),
        [
            "tc qdisc add dev eth0 root handle 1: htb default 0x1 r2q 10",
            "tc class add dev eth0 parent 1: classid 1:1 htb rate 9500Kbit ceil 9500Kbit burst 1600 cburst 1600 \
             quantum 1514",
            "tc qdisc add dev eth0 parent 1:1 handle 2: pfifo limit 9",
        ]
    );
    let table = shaped(&read(json!({"kind": "stab", "overhead": 4})), LINE).unwrap();
    assert!(table.root.commands("eth0", "root", 1)[0].contains("handle 1: stab overhead 4 "));
}

#[test]
fn what_tc_cannot_express_is_rejected_or_listed() {
    assert_eq!(
        problem(json!({"kind": "red"})),
        "kind: does not exist in Linux; available: drop-tail, linux-red, choke, gred, sfb, pie, fq-pie, codel, cake, \
         dualpi2, fq-codel, sfq, fq, htb, stab"
    );
    let inside = json!({"kind": "htb", "classes": {"a": {"rate": "1Mbps", "queue": {"kind": "drr"}}}});
    assert!(
        problem(inside).starts_with("classes.a.queue.kind: does not exist in Linux; available: drop-tail")
    );
    for (table, path) in [
        (json!({"kind": "codel", "limit": "9kB"}), "limit"),
        (json!({"kind": "pie", "profile": "rfc"}), "profile"),
        (json!({"kind": "linux-red", "kernel": "2.4"}), "kernel"),
        (json!({"kind": "dualpi2", "min_th": "1ms"}), "min_th"),
        (json!({"kind": "dualpi2", "range": "1ms"}), "range"),
        (json!({"kind": "dualpi2", "scheduler": "time-shifted-fifo"}), "scheduler"),
        (json!({"kind": "ack-filter"}), "kind"),
        (json!({"kind": "ce-threshold"}), "kind"),
        (json!({"kind": "policer"}), "kind"),
        (json!({"kind": "fq", "limit": "4294967296p"}), "limit"),
        (json!({"kind": "stab", "queue": {"kind": "stab"}}), "queue.kind"),
    ] {
        let found = problem(table.clone());
        assert!(found.starts_with(&format!("{path}: ")) && found.contains("tc"), "{table}: {found}");
    }
    for (table, expected) in [
        (
            json!({"kind": "codel", "target": "5001500ns", "profile": "rfc", "mtu": "600B"}),
            vec!["target", "profile", "mtu"],
        ),
        (json!({"kind": "pie", "max_burst": "100ms"}), vec!["max_burst"]),
        (json!({"kind": "sfq", "perturb": "50ms"}), vec!["perturb"]),
        (json!({"kind": "cake", "bandwidth": "1000001bps"}), vec!["bandwidth"]),
        (json!({"kind": "stab", "queue": {"kind": "codel", "mtu": "0B"}}), vec!["queue.mtu"]),
        (json!({"kind": "fq-codel"}), vec![]),
    ] {
        assert_eq!(limits(table), expected);
    }
}

#[test]
fn every_queue_is_either_written_or_rejected_with_its_path() {
    for config in Config::corners() {
        match qdisc(&config, LINE) {
            Ok(found) => assert!(!found.commands("eth0", "root", 1).is_empty()),
            Err(errors) => assert!(errors.iter().all(|error| !error.path.is_empty()), "{errors}"),
        }
        // The kinds that `tc` shows are the kinds that `tc` creates.
        if let (Some(options), Ok(found)) = (config.tc_options(LINE), qdisc(&config, LINE)) {
            assert_eq!(options["kind"], found.kind);
        }
    }
}

#[test]
fn values_have_the_units_that_tc_prints() {
    let rates = [10_000_000, 9_500_000, 1_000_000_000, 1_500_000_000, 1_000_008, 999, 16];
    let shown = rates.map(|bps| words::rate(Rate::from_bps(bps)));
    assert_eq!(shown, ["10Mbit", "9500Kbit", "1Gbit", "1500Mbit", "1000008bit", "992bit", "16bit"]);
    let times =
        [5_000_000, 1_000_000_000, 1_500_000, 999, 0].map(|nanos| words::time(Span::from_nanos(nanos)));
    assert_eq!(times, ["5ms", "1s", "1500us", "0us", "0us"]);
    assert_eq!(words::precise_time(Span::from_nanos(10_001)), "10001ns");
}

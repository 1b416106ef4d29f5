//! The reports of disciplines compared with the output of Linux's `tc -s qdisc show` in recorded runs.

use aqm_link::{Port, Ties};
use aqm_net::{Instant, Packet, Rate, Streams};
use aqm_queue::Config;
use aqm_queue::qdisc::Root;
use aqm_queue::testing::Ignore;
use serde_json::{Value, json};

/// The report at the end of a run of HTB at 10 Mb/s with this queue and 4000 packets of 1014 B, one every 640 us.
fn shown(queue: Value) -> Vec<Value> {
    let class = json!({"rate": "10Mbps", "burst": "1600B", "cburst": "1600B", "queue": queue});
    let config = Config::read(json!({"kind": "htb", "classes": {"all": class}})).unwrap();
    let rate = Rate::from_bps(10_000_000_000);
    let rng = Streams::new(1).named("queue", 0);
    let mut port = Port::new(config.build(rate).unwrap(), rate, rng, Ties::DepartureFirst);
    for id in 0..4000 {
        let packet = Packet { id, bytes: 1014, ..Packet::default() };
        port.accept(packet, Instant::from_nanos(u64::from(id) * 640_000), &mut Ignore, |_| {});
    }
    let now = Instant::from_nanos(60_000_000_000);
    port.serve(now, &mut Ignore, |_| {});
    let (queue, counters) = (port.discipline(), port.counters(now));
    Root { device: "r1", config: &config, rate, queue, counters: &counters }.shown(now)
}

/// The values of these fields.
fn numbers<const N: usize>(shown: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| shown[name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}")))
}

#[test]
fn a_fifo_below_htb_counts_like_the_kernel() {
    let [htb, pfifo]: [Value; 2] = shown(json!({"kind": "drop-tail", "limit": "225p"})).try_into().unwrap();
    // The kernel: `qdisc htb 1: root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 1000  Sent 3429746
    // bytes 3387 pkt (dropped 620, overlimits 3380 requeues 0)`, of which 7 packets are the kernel's own.
    let options = json!({"r2q": 10, "default": "0x1", "direct_packets_stat": 0, "direct_qlen": 1000});
    assert_eq!((&htb["options"], &htb["handle"], &htb["root"]), (&options, &json!("1:"), &json!(true)));
    assert_eq!(numbers(&htb, ["packets", "drops", "overlimits"]), [3382, 618, 3379]);
    assert_eq!((&pfifo["parent"], &pfifo["options"]), (&json!("1:1"), &json!({"limit": 225})));
    assert_eq!(numbers(&pfifo, ["packets", "drops", "overlimits", "qlen"]), [3382, 618, 0, 0]);
}

#[test]
fn red_below_htb_counts_like_the_kernel() {
    let red = json!({
        "kind": "linux-red", "limit": "225kB", "min": "30kB", "max": "90kB", "avpkt": "1000B", "burst": 52,
        "probability": 0.1,
    });
    let [htb, red]: [Value; 2] = shown(red).try_into().unwrap();
    // The kernel: `Sent 3291932 bytes 3252 pkt (dropped 755, overlimits 755 requeues 0)`, `marked 0 early 755 pdrop 0
    // other 0`, with other random numbers.
    let [packets, drops, overlimits, early] = numbers(&red, ["packets", "drops", "overlimits", "early"]);
    assert_eq!(packets + drops, 4000);
    assert!((735..=775).contains(&drops), "{drops}");
    assert_eq!((overlimits, early), (drops, drops));
    assert_eq!(numbers(&red, ["marked", "pdrop", "other"]), [0, 0, 0]);
    assert_eq!(
        red["options"],
        json!({
            "limit": 225_000, "min": 30_000, "max": 90_000, "ecn": false, "harddrop": false, "adaptive": false,
            "nodrop": false,
        })
    );
    assert_eq!(numbers(&htb, ["packets", "drops"]), [packets, drops]);
    assert!(htb["overlimits"].as_u64().unwrap().abs_diff(packets) < 10);
}

/// Objects that `tc -s -j qdisc show` prints.
mod shown {
    use aqm_link::{Port, Ties};
    use aqm_net::{Instant, Packet, Rate, Streams};
    use aqm_queue::qdisc::Root;
    use aqm_queue::testing::Ignore;
    use aqm_queue::{Config, Label, Protocol};
    use serde_json::{Value, json};

    /// The output for a 10 Mb/s link two milliseconds after 30 packets of two labels arrived at once.
    fn shown(table: Value) -> Vec<Value> {
        let rate = Rate::from_bps(10_000_000);
        let config = Config::read(table).unwrap();
        let queue = config.build(rate).unwrap();
        let mut port = Port::new(queue, rate, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
        for (number, traffic) in (0..).zip(["web", "bulk"]) {
            let label = Label { traffic: traffic.to_owned(), protocol: Protocol::Tcp, port: 0, dscp: 0 };
            port.on_label(number, &label);
        }
        for id in 0..30 {
            let packet = Packet { id, label: (id % 2) as u16, bytes: 1000, ..Packet::default() };
            port.accept(packet, Instant::START, &mut Ignore, |_| {});
        }
        let now = Instant::from_nanos(2_000_000);
        port.serve(now, &mut Ignore, |_| {});
        let (queue, counters) = (port.discipline(), port.counters(now));
        Root { device: "bottleneck", config: &config, rate, queue, counters: &counters }.shown(now)
    }

    #[test]
    fn a_queue_of_the_kernel_is_shown_as_tc_shows_it() {
        assert_eq!(
            shown(json!({"kind": "drop-tail", "limit": "20p"})),
            [json!({
                "kind": "pfifo", "handle": "1:", "dev": "bottleneck", "root": true, "refcnt": 2,
                "options": {"limit": 20}, "bytes": 3000, "packets": 3, "drops": 9, "overlimits": 0,
                "requeues": 0, "backlog": 18000, "qlen": 18,
            })]
        );
    }

    #[test]
    fn a_queue_unknown_to_the_kernel_has_its_aqmlab_name_and_no_options() {
        let shown = shown(json!({"kind": "pi"}));
        let part = |name: &str| &shown[0][name];
        assert_eq!((part("kind"), part("options"), part("qlen")), (&json!("pi"), &json!({}), &json!(27)));
    }

    #[test]
    fn queues_inside_wrappers_are_shown_as_their_children() {
        let shown = shown(json!({"kind": "policer", "rate": "1Mbps", "burst": "25kB", "queue": {
            "kind": "ce-threshold", "threshold": "0s", "queue": {"kind": "drop-tail", "limit": "10p"},
        }}));
        let part = |name: &str| shown.iter().map(|object| object[name].clone()).collect::<Vec<_>>();
        assert_eq!(part("kind"), [json!("policer"), json!("ce-threshold"), json!("pfifo")]);
        assert_eq!(part("handle"), [json!("1:"), json!("2:"), json!("3:")]);
        assert_eq!(part("parent"), [json!(null), json!("1:1"), json!("2:1")]);
        assert_eq!(part("packets"), [json!(3), json!(3), json!(3)]);
        assert_eq!(part("bytes"), [json!(3000), json!(3000), json!(3000)]);
        // 5 packets find no tokens, and 14 of the others find no room in the queue.
        assert_eq!(part("drops"), [json!(19), json!(14), json!(14)]);
        assert_eq!(part("overlimits"), [json!(5), json!(0), json!(0)]);
        assert_eq!(part("ce_mark"), [json!(null), json!(0), json!(null)]);
    }

    #[test]
    fn htb_classes_and_the_queues_of_leaves_are_numbered() {
        let leaf = |name: &str, queue: Value| json!({"rate": "5Mbps", "match": {"traffic": [name]}, "queue": queue, "parent": "all"});
        let shown = shown(json!({"kind": "htb", "default": "bulk", "classes": {
            "all": {"rate": "10Mbps"},
            "bulk": leaf("bulk", json!({"kind": "drop-tail", "limit": "20kB"})),
            "web": leaf("web", json!({"kind": "drr"})),
            "xbox": {"rate": "1Mbps", "parent": "all"},
        }}));
        let part = |name: &str| shown.iter().map(|object| object[name].clone()).collect::<Vec<_>>();
        assert_eq!(part("kind"), [json!("htb"), json!("bfifo"), json!("drr")]);
        let options = json!({"r2q": 10, "default": "0x2", "direct_packets_stat": 0, "direct_qlen": 1000});
        assert_eq!(part("options"), [options, json!({"limit": 20000}), json!({})]);
        assert_eq!(part("parent"), [json!(null), json!("1:2"), json!("1:3")]);
        assert_eq!(part("packets"), [json!(3), json!(1), json!(2)]);
        assert_eq!(part("qlen"), [json!(27), json!(14), json!(13)]);
    }
}

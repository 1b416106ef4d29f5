//! The reports of disciplines compared with the output of Linux's `tc -s qdisc show` in recorded runs.

use aqm_net::{Instant, Packet, Rate, Streams};
use aqm_queue::qdisc::Root;
use aqm_queue::testing::Ignore;
use aqm_queue::{Config, Port, Ties};
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

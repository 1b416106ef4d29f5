//! SFQ: order of service, drops, changes of the hash, RED in each queue, and drops recorded with the kernel.

use aqm_link::{Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Streams};
use aqm_queue::testing::{Driver, Fates, packet};
use aqm_queue::{Config, Reason};
use serde_json::{Value, json};

fn with(mut table: Value, more: &Value) -> Value {
    table.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    table
}

/// An SFQ with enough buckets that every flow has its own.
fn sfq(more: &Value) -> Driver {
    Driver::new(with(json!({"kind": "sfq", "divisor": 65536}), more), 1)
}

fn of(flow: u32, bytes: u16) -> Packet {
    Packet { flow, ..packet(bytes) }
}

/// Offers packets of these flows, 1000 B each.
fn offer(driver: &mut Driver, flows: &[u32]) {
    flows.iter().for_each(|flow| {
        driver.offer(of(*flow, 1000));
    });
}

/// Dequeues all packets. Returns flows and numbers, in order.
fn drain(driver: &mut Driver) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| driver.take()).map(|packet| (packet.flow, packet.id)).collect()
}

fn flows(sent: &[(u32, u32)]) -> Vec<u32> {
    sent.iter().map(|(flow, _)| *flow).collect()
}

/// The drops so far: packet numbers and reasons.
fn drops(driver: &Driver) -> Vec<(u32, Reason)> {
    driver.fates.list.iter().filter(|fate| !fate.is_mark).map(|fate| (fate.packet.id, fate.why)).collect()
}

#[test]
fn a_queue_sends_until_its_deficit_is_used_and_a_new_queue_waits_for_its_turn() {
    let mut driver = sfq(&json!({"quantum": "1500B"}));
    offer(&mut driver, &[1, 1, 1, 1, 1, 2, 2, 2]);
    // A deficit of 1500 B allows two packets and then one, because half a packet is owed.
    let mut sent = vec![driver.take().unwrap().flow];
    offer(&mut driver, &[3, 3, 3]);
    sent.extend(flows(&drain(&mut driver)));
    assert_eq!(sent, [1, 1, 2, 2, 3, 3, 1, 2, 3, 1, 1]);
}

#[test]
fn flows_get_equal_shares_of_the_bytes_for_any_packet_sizes() {
    let mut driver = sfq(&json!({}));
    let (mut bytes, sizes) = ([0_u64; 3], [1500, 700, 90]);
    for k in 0..60_000_u64 {
        driver.now = Instant::from_nanos(k * 10_000);
        // Each flow sends 12 Mb/s; the packets of the second are twice as large as those of the first.
        let flow = [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2][k as usize % 19];
        driver.offer(of(flow, sizes[flow as usize]));
        if k % 50 == 0 {
            let packet = driver.take().unwrap();
            bytes[packet.flow as usize] += u64::from(packet.bytes);
        }
    }
    assert!(bytes.iter().all(|sent| sent.abs_diff(bytes[0]) < 3100), "{bytes:?}");
}

#[test]
fn the_longest_queue_loses_its_newest_packet_or_its_oldest() {
    for (headdrop, dropped) in [(false, 4), (true, 1)] {
        let mut driver = sfq(&json!({"limit": "5p", "headdrop": headdrop}));
        offer(&mut driver, &[2, 1, 1, 1, 1, 3]);
        assert_eq!(drops(&driver), [(dropped, Reason::Overflow)]);
    }
}

#[test]
fn of_equally_long_queues_the_last_changed_one_loses_a_packet() {
    let mut driver = sfq(&json!({"limit": "6p"}));
    offer(&mut driver, &[1, 1, 2, 2, 3, 3, 4]);
    assert_eq!(drops(&driver), [(5, Reason::Overflow)]);
    // The third queue has one packet now. Of the others, the second changed last, and then the fifth joins.
    offer(&mut driver, &[5, 5]);
    assert_eq!(drops(&driver)[1..], [(3, Reason::Overflow), (8, Reason::Overflow)]);
}

#[test]
fn a_further_flow_is_rejected_if_all_queued_packets_are_of_different_flows() {
    let mut driver = sfq(&json!({"limit": "3p"}));
    offer(&mut driver, &[1, 2, 3, 4, 2]);
    assert_eq!(drops(&driver), [(3, Reason::Overflow), (4, Reason::Overflow)]);
    assert_eq!(flows(&drain(&mut driver)), [1, 2, 3]);
}

/// `sfq_change` reduces the number of queues to a configured limit. By default there are 128 queues and space for 127
/// packets.
#[test]
fn without_a_limit_a_further_flow_replaces_the_head_of_the_round() {
    // With this seed, no two of the flows share a bucket.
    let mut driver = Driver::new(json!({"kind": "sfq", "divisor": 65536}), 2);
    let many: Vec<u32> = (0..128).collect();
    offer(&mut driver, &many);
    assert_eq!(drops(&driver), [(0, Reason::Overflow)]);
    assert_eq!(flows(&drain(&mut driver)), many[1..]);
    let mut driver = Driver::new(json!({"kind": "sfq", "divisor": 65536, "limit": "127p"}), 2);
    offer(&mut driver, &many);
    assert_eq!(drops(&driver), [(127, Reason::Overflow)]);
}

#[test]
fn a_full_queue_drops_the_arriving_or_the_oldest_packet() {
    for (headdrop, dropped, left) in [(false, 2, [0, 1]), (true, 0, [1, 2])] {
        let mut driver = sfq(&json!({"depth": 2, "headdrop": headdrop}));
        offer(&mut driver, &[1, 1, 1]);
        assert_eq!(drops(&driver), [(dropped, Reason::FlowLimit)]);
        assert_eq!(drain(&mut driver), left.map(|id| (1, id)));
    }
}

#[test]
fn a_flow_without_a_free_queue_is_rejected() {
    let mut driver = sfq(&json!({"flows": 2}));
    offer(&mut driver, &[1, 2, 3, 1]);
    assert_eq!(drops(&driver), [(2, Reason::Overflow)]);
    // The third flow gets a queue as soon as another queue is empty.
    assert_eq!(flows(&[driver.take().map(|packet| (packet.flow, 0)).unwrap()]), [1]);
    driver.take();
    driver.take();
    offer(&mut driver, &[3, 4, 5]);
    assert_eq!(drops(&driver)[1..], [(6, Reason::Overflow)]);
}

/// Two flows that share one of four buckets, in an SFQ with a fixed seed.
fn sharing(more: &Value) -> (Driver, [u32; 2]) {
    let table = with(json!({"kind": "sfq", "divisor": 4}), more);
    for flow in 2..100 {
        let mut driver = Driver::new(table.clone(), 1);
        offer(&mut driver, &[1, flow]);
        if driver.gauge("flows") == 1.0 {
            return (Driver::new(table, 1), [1, flow]);
        }
    }
    panic!("two of the flows must share a bucket")
}

#[test]
fn flows_that_share_a_bucket_share_a_queue_until_the_hash_changes() {
    let (mut driver, [first, second]) = sharing(&json!({"perturb": "1s", "quantum": "1000B"}));
    offer(&mut driver, &[first, first, first, second, second, second]);
    assert_eq!((driver.gauge("flows"), driver.gauge("cur_depth")), (1.0, 6.0));
    // Eventually a hash separates the flows. Queued packets keep their order within each flow.
    for second in 1..50 {
        driver.now = Instant::from_nanos(second * 1_000_000_000);
        offer(&mut driver, &[first]);
        if driver.gauge("flows") == 2.0 {
            break;
        }
    }
    let sent = flows(&drain(&mut driver));
    let starts_apart = sent[..6] == [first, second, first, second, first, second];
    assert!(starts_apart || sent[..6] == [second, first, second, first, second, first], "{sent:?}");
    assert!(driver.fates.list.is_empty());
}

#[test]
fn without_perturb_the_hash_does_not_change() {
    let (mut driver, [first, second]) = sharing(&json!({}));
    for seconds in 0..200 {
        driver.now = Instant::from_nanos(seconds * 1_000_000_000);
        offer(&mut driver, &[first, second]);
        assert_eq!(driver.gauge("flows"), 1.0);
        driver.take();
        driver.take();
    }
}

#[test]
fn a_hash_change_drops_packets_that_find_a_full_queue() {
    // Three packets of each of eight flows. Some flows will share a queue of five packets.
    let mut driver = Driver::new(json!({"kind": "sfq", "divisor": 16, "depth": 5, "perturb": "10ms"}), 3);
    for flow in 0..8 {
        offer(&mut driver, &[flow; 3]);
    }
    let before = driver.queue.backlog().packets;
    let refused = drops(&driver).len();
    for k in 1..20 {
        driver.now = Instant::from_nanos(k * 10_000_000);
        let packet = driver.take().unwrap();
        driver.offer(of(packet.flow, 1000));
    }
    let lost = &drops(&driver)[refused..];
    assert!(!lost.is_empty() && lost.iter().all(|(_, why)| *why == Reason::FlowLimit), "{lost:?}");
    assert!(driver.queue.backlog().packets < before);
}

fn red(more: &Value) -> Driver {
    let base = json!({
        "limit": "500p", "redflowlimit": "100kB", "min": "10kB", "max": "30kB", "probability": 0.1, "burst": 20,
    });
    sfq(&with(base, more))
}

/// Offers more packets of two flows than are dequeued, and few of a third. Returns the drops by flow.
fn overload(driver: &mut Driver) -> [usize; 3] {
    for k in 0..6000_u64 {
        driver.now = Instant::from_nanos(k * 100_000);
        let flow = [0, 1, 0, 1, 0, 1, 0, 2][k as usize % 8];
        let ecn = if k % 3 == 0 { Ecn::NotEct } else { Ecn::Ect0 };
        driver.offer(Packet { ecn, ..of(flow, 1000) });
        if k % 2 == 0 {
            driver.take();
        }
    }
    [0, 1, 2].map(|flow| driver.fates.dropped_packets().filter(|packet| packet.flow == flow).count())
}

#[test]
fn each_queue_has_a_red_of_its_own() {
    let mut driver = red(&json!({}));
    let [first, second, third] = overload(&mut driver);
    assert!(first > second && second > 300 && third == 0, "{first} {second} {third}");
    let counts = driver.fates.counts;
    assert!(counts.early > 0 && counts.forced > 0 && counts.marks == 0, "{counts:?}");
    let statistics = driver.queue.tc_statistics(driver.now);
    // `sfq_print_opt` prints the counters among the options.
    let red = &statistics["options"];
    assert_eq!((&red["prob_drop"], &red["forced_drop"]), (&json!(counts.early), &json!(counts.forced)));
    assert_eq!(statistics["overlimits"], json!(counts.early + counts.forced));
    // Without RED, only `depth` limits a queue.
    let mut plain = sfq(&json!({"limit": "500p"}));
    overload(&mut plain);
    assert_eq!(plain.fates.counts.other, plain.fates.counts.drops());
    assert_eq!(plain.queue.tc_statistics(plain.now), Value::Null);
}

#[test]
fn marks_replace_drops_except_with_harddrop() {
    let run = |more: &Value| {
        let mut driver = red(more);
        overload(&mut driver);
        let statistics = driver.queue.tc_statistics(driver.now);
        let names = ["prob_mark", "prob_mark_head", "forced_mark", "forced_mark_head"];
        let all_marked = |driver: &Driver| driver.fates.marked_packets().all(|packet| packet.ecn == Ecn::Ce);
        assert!(all_marked(&driver));
        names.map(|name| statistics["options"][name].as_u64().unwrap())
    };
    let [chance, head, forced, forced_head] = run(&json!({"ecn": true}));
    assert!(chance > 0 && forced > 0 && [head, forced_head] == [0, 0]);
    let [chance, _, forced, _] = run(&json!({"ecn": true, "harddrop": true}));
    assert!(chance > 0 && forced == 0);
    let [chance, head, _, forced_head] = run(&json!({"ecn": true, "headdrop": true}));
    assert!(head > 0 && forced_head > 0, "{chance} {head} {forced_head}");
    assert_eq!(run(&json!({})), [0; 4]);
}

#[test]
fn with_headdrop_red_marks_or_drops_the_oldest() {
    let mut driver = red(&json!({"ecn": true, "headdrop": true, "min": "1kB", "max": "2kB", "burst": 1}));
    let like = |ecn| Packet { ecn, ..of(1, 1000) };
    for ecn in [Ecn::Ect0, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct] {
        driver.offer(like(ecn));
    }
    let fates: Vec<_> = driver.fates.list.iter().map(|fate| (fate.packet.id, fate.is_mark)).collect();
    // The oldest packet is marked, and not again. Then it departs, and the next oldest packets are dropped in favour of
    // arriving ones.
    assert_eq!(fates, [(0, true)]);
    assert_eq!(driver.take().map(|packet| packet.ecn), Some(Ecn::Ce));
    let count = driver.queue.backlog().packets;
    offer(&mut driver, &[1, 1]);
    assert_eq!(drops(&driver), [(1, Reason::Forced), (2, Reason::Forced)]);
    assert_eq!(driver.queue.backlog().packets, count);
}

#[test]
fn the_red_of_a_queue_is_reset_when_the_queue_was_empty() {
    let mut driver = red(&json!({}));
    for flow in [1; 60] {
        driver.offer(of(flow, 1000));
    }
    assert!(driver.fates.counts.drops() > 0);
    drain(&mut driver);
    let before = driver.fates.counts.drops();
    offer(&mut driver, &[1; 12]);
    assert_eq!(
        driver.fates.counts.drops(),
        before,
        "an average of 60 packets would cause drops of all packets"
    );
}

#[test]
fn three_flows_lose_the_same_packets_as_in_the_kernel() {
    // At three times the kernel sent its own packets through the queue (100, 85 and 155 bytes), which made its other
    // packets late from then on. The record contains no further packets of this kind.
    let own = [(1_310_080_900, 100), (1_790_706_500, 90), (2_814_458_500, 150)];
    let loads = [(0, 1_000_000, 1014), (137_000, 1_600_000, 1214), (333_000, 20_000_000, 214)];
    let rows: Vec<Vec<&str>> = include_str!("vectors/sfq_linux.csv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let mut sends: Vec<(u64, u32, u16)> = own.iter().map(|(at, bytes)| (*at, 0, *bytes)).collect();
    for (flow, (start, gap, bytes)) in (1..).zip(loads) {
        sends.extend((0..2000).map(|k| (1_000_001_700 + start + k * gap, flow, bytes)));
    }
    sends.sort_unstable();
    let queue = json!({"kind": "sfq", "divisor": 65536});
    let class =
        json!({"rate": "10Mbps", "burst": "1600B", "cburst": "1600B", "quantum": "1600B", "queue": queue});
    let config = Config::read(json!({"kind": "htb", "classes": {"all": class}})).unwrap();
    let rate = Rate::from_bps(1_000_000_000);
    let rng = Streams::new(1).named("queue", 0);
    let mut port = Port::new(config.build(rate).unwrap(), rate, rng, Ties::DepartureFirst);
    let (mut fates, mut numbers) = (Fates::default(), [0_u32; 4]);
    for (at, flow, bytes) in sends {
        let number = &mut numbers[flow as usize];
        let like = Packet { id: flow << 16 | *number, ..of(flow, bytes) };
        *number += 1;
        port.accept(like, Instant::from_nanos(at), &mut fates, |_| {});
    }
    for row in rows {
        let [flow, sent]: [u32; 2] = [row[0], row[1]].map(|cell| cell.parse().unwrap());
        let theirs: Vec<u32> = row[2].split_whitespace().map(|cell| cell.parse().unwrap()).collect();
        let of_flow = fates.dropped_packets().filter(|packet| packet.flow == flow);
        let mut ours: Vec<u32> = of_flow.map(|packet| packet.id & 0xffff).filter(|k| *k < sent).collect();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "flow {flow}");
    }
}

/// All reports of a run with nine flows.
fn shown(table: Value) -> String {
    let mut driver = Driver::at_rate(table, Rate::from_bps(10_000_000), 5);
    let mut sent = Vec::new();
    for k in 0..8000_u64 {
        driver.now = Instant::from_nanos(k * 400_000);
        let flow = [0, 0, 0, 1, 1, 2, 3, 4, 0, 5, 0, 1, 6, 7, 8, 1][k as usize % 16];
        let mut like = of(flow, [1000, 400, 1514][k as usize % 3]);
        like.ecn = if k % 5 == 0 { Ecn::NotEct } else { Ecn::Ect0 };
        driver.offer(like);
        if k % 3 != 0 && k % 3000 < 2500 {
            sent.extend(driver.take().map(|packet| packet.id));
        }
    }
    format!("{:?} {sent:?} {}", driver.fates.counts, driver.queue.tc_statistics(driver.now))
}

#[test]
fn every_parameter_has_an_effect() {
    let base = json!({
        "kind": "sfq", "redflowlimit": "60kB", "burst": 12, "probability": 0.1, "ecn": true,
    });
    let expected = shown(base.clone());
    for more in [
        json!({"limit": "30p"}),
        json!({"depth": 10}),
        json!({"flows": 3}),
        json!({"divisor": 2}),
        json!({"quantum": "300B"}),
        json!({"perturb": "100ms"}),
        json!({"headdrop": true}),
        json!({"redflowlimit": "100kB"}),
        json!({"min": "3kB"}),
        json!({"max": "30kB"}),
        json!({"probability": 0.3}),
        json!({"burst": 40}),
        json!({"avpkt": "500B"}),
        json!({"ecn": false}),
        json!({"harddrop": true}),
    ] {
        assert_ne!(shown(with(base.clone(), &more)), expected, "{more}");
    }
}

#[test]
fn defaults_and_their_tc_options_are_those_of_the_kernel() {
    let config = |more: &Value| Config::read(with(json!({"kind": "sfq"}), more)).unwrap();
    let options = |more: &Value| config(more).tc_options(Rate::from_bps(1_000_000)).unwrap();
    // The kernel: `limit 127p quantum 1514b depth 127 divisor 1024`; `flows 128` with `tc -d` only.
    assert_eq!(
        options(&json!({})),
        json!({"kind": "sfq", "limit": 127, "quantum": 1514, "depth": 127, "divisor": 1024})
    );
    let red = options(&json!({"redflowlimit": "120kB", "perturb": "10s", "headdrop": true, "ecn": true}));
    let part = |name: &str| &red[name];
    assert_eq!((part("min"), part("max"), part("perturb")), (&json!(10_000), &json!(30_000), &json!(10)));
    assert_eq!((part("ewma"), part("headdrop"), part("ecn")), (&json!(3), &json!(true), &json!(true)));
    let derived = |more: &Value| -> Vec<(String, f64)> {
        let derived = config(more).derived(Rate::from_bps(1_000_000));
        derived.into_iter().map(|value| (value.name, value.value)).collect()
    };
    assert_eq!(derived(&json!({})), [("limit".to_owned(), 127.0)]);
    assert_eq!(derived(&json!({"limit": "127p"})), [("flows".to_owned(), 127.0)]);
    let few = json!({"limit": "1000p", "flows": 4, "depth": 20});
    assert_eq!(derived(&few), [("limit".to_owned(), 80.0)]);
}

#[test]
fn invalid_parameters_are_rejected() {
    for more in [
        json!({"limit": "10kB"}),
        json!({"limit": "1p"}),
        json!({"depth": 128}),
        json!({"flows": 0}),
        json!({"flows": 65_409}),
        json!({"divisor": 1000}),
        json!({"divisor": 131_072}),
        json!({"quantum": "0B"}),
        json!({"perturb": "0s"}),
        json!({"min": "3kB"}),
        json!({"ecn": true}),
        json!({"harddrop": true, "redflowlimit": "60kB"}),
        json!({"redflowlimit": "3B"}),
        json!({"probability": 1.0, "redflowlimit": "60kB"}),
        json!({"max": "70kB", "redflowlimit": "60kB"}),
    ] {
        let config = Config::read(with(json!({"kind": "sfq"}), &more)).unwrap();
        let problem = config.build(Rate::from_bps(1_000_000)).map(|_| ()).unwrap_err().first().to_string();
        let named = more.as_object().unwrap().keys().any(|name| problem.starts_with(name.as_str()));
        assert!(named || problem.starts_with("min"), "{more}: {problem}");
    }
}

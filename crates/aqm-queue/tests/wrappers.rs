//! Wrappers before and after a queue, compared with recorded runs of Linux.

use aqm_link::{Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Streams};
use aqm_queue::testing::Fates;
use aqm_queue::{Config, Reason};
use serde_json::json;

/// The sequence numbers of marked packets by flow. The flows send 1014 B packets, given by start, number and gap (in
/// nanoseconds), through HTB at 10 Mb/s with a queue that marks above 5 ms.
fn marked(flows: &[[u64; 3]]) -> Vec<Vec<u32>> {
    let queue =
        json!({"kind": "ce-threshold", "threshold": "5ms", "queue": {"kind": "drop-tail", "limit": "1000p"}});
    let class = json!({"rate": "10Mbps", "burst": "1600B", "cburst": "1600B", "queue": queue});
    let config = Config::read(json!({"kind": "htb", "classes": {"all": class}})).unwrap();
    let line = Rate::from_bps(10_000_000_000);
    let mut port =
        Port::new(config.build(line).unwrap(), line, Streams::new(1).named("queue", 0), Ties::DepartureFirst);
    let mut arrivals = Vec::new();
    for (flow, &[start, count, gap]) in (0..).zip(flows) {
        arrivals.extend((0..count).map(|number| (start + number * gap, flow, number as u32)));
    }
    arrivals.sort_unstable();
    let (mut fates, mut sent) = (Fates::default(), 0);
    for (at, flow, number) in arrivals {
        // An id contains flow and number.
        let packet =
            Packet { id: flow << 16 | number, flow, bytes: 1014, ecn: Ecn::Ect0, ..Packet::default() };
        port.accept(packet, Instant::from_nanos(at), &mut fates, |_| sent += 1);
    }
    port.serve(Instant::from_nanos(100_000_000_000), &mut fates, |_| sent += 1);
    assert!(fates.list.iter().all(|fate| fate.is_mark && fate.why == Reason::CeThreshold));
    assert_eq!(sent, flows.iter().map(|&[_, count, _]| count).sum::<u64>());
    let of_flow = |flow| {
        let ids = fates.marked_packets().map(|packet| packet.id);
        ids.filter(|id| id >> 16 == flow).map(|id| id & 0xffff).collect()
    };
    (0..flows.len() as u32).map(of_flow).collect()
}

#[test]
fn the_threshold_of_linuxs_codel_marks_the_same_packets() {
    // Linux 6.1, `codel target 20ms ce_threshold 5ms` below HTB at 10 Mb/s: all packets that CoDel itself would mark
    // have waited longer than 5 ms. Flows of 1000 B of IP and 14 B of Ethernet.
    let overload = marked(&[[0, 4000, 640_000]]);
    assert_eq!(overload[0].len(), 3963);
    assert_eq!(overload[0][..4], [37, 38, 39, 40]);
    let burst = |start| [start, 80, 400_000];
    let bursts =
        marked(&[[0, 4000, 1_000_000], burst(500_137_000), burst(1_500_137_000), burst(2_500_137_000)]);
    assert_eq!(bursts.iter().map(Vec::len).collect::<Vec<_>>(), [921, 72, 72, 72]);
    assert_eq!(bursts[0][..4], [504, 505, 506, 507]);
    assert!(bursts[1..].iter().all(|burst| burst[..4] == [8, 9, 10, 11]));
}

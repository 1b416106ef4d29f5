//! The published bounds of fair queueing, tested with arrivals and packet sizes chosen to violate them.

use crate::line::{Arrival, Event, FLOWS, LARGEST, MAX, NANOS_PER_BYTE, WEIGHTS, drive, scheduler, try_all};
use aqm_net::Instant;
use serde_json::{Value, json};

/// Every weight divides this number.
const UNIT: u64 = 12;

/// The largest difference between the service of flows `i` and `j` in any interval in which both were continuously
/// backlogged. `worth` is the normalised size of a flow's packet.
fn unfairness(events: &[Event], i: usize, j: usize, worth: impl Fn(usize, u64) -> u64) -> u64 {
    let mut waiting = [0_u64; FLOWS];
    // The current difference and its extremes since both flows became backlogged.
    let mut lead: Option<(i64, i64, i64)> = None;
    let mut most = 0;
    for event in events {
        match *event {
            Event::Arrive { flow } => waiting[flow] += 1,
            Event::Drop { flow } => waiting[flow] -= 1,
            Event::Depart { flow, bytes, .. } => {
                waiting[flow] -= 1;
                if let Some((now, low, high)) = &mut lead
                    && (flow == i || flow == j)
                {
                    let got = worth(flow, bytes) as i64;
                    *now += if flow == i { got } else { -got };
                    (*low, *high) = ((*low).min(*now), (*high).max(*now));
                    most = most.max((*high - *low) as u64);
                }
            }
        }
        if waiting[i] > 0 && waiting[j] > 0 {
            lead = lead.or(Some((0, 0, 0)));
        } else {
            lead = None;
        }
    }
    most
}

/// Checks that the unfairness of every pair of flows is at most `bound`, in units of `worth`, with and without
/// overflow.
fn fair(
    kind: &str,
    change: &Value,
    worth: impl Fn(usize, u64) -> u64 + Copy,
    bound: impl Fn(usize, usize) -> u64,
) -> Result<(), String> {
    let rooms = [
        json!({}),
        json!({"limit": "12p", "drop": "tail"}),
        json!({"limit": "12p", "drop": "longest-front"}),
        json!({"limit": "9kB", "drop": "longest-tail"}),
        json!({"limit": "15p", "drop": "random-long"}),
    ];
    rooms.iter().try_for_each(|room| {
        let mut table = room.clone();
        table.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let config = scheduler(kind, table);
        try_all(|arrivals| {
            let events = drive(&config, arrivals);
            for (i, j) in (0..FLOWS).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let (unfairness, allowed) = (unfairness(&events, i, j, worth), bound(i, j));
                if unfairness > allowed {
                    return Err(format!(
                        "{kind} {room}: flows {i} and {j} differ by {unfairness} > {allowed}"
                    ));
                }
            }
            Ok(())
        })
    })
}

/// Bytes divided by the flow's weight.
fn normalised(flow: usize, bytes: u64) -> u64 {
    bytes * (UNIT / WEIGHTS[flow])
}

/// Golestani 1994, and Goyal, Vin & Cheng 1996, theorem 1.
fn tag_bound(i: usize, j: usize) -> u64 {
    normalised(i, LARGEST[i]) + normalised(j, LARGEST[j])
}

#[test]
fn backlogged_flows_stay_within_one_packet_each_under_tags() {
    for kind in ["stfq", "scfq", "pfq"] {
        fair(kind, &json!({}), normalised, tag_bound).unwrap();
    }
}

/// Shreedhar & Varghese 1996, theorem 2: Q + 2 Max, in units of the smallest quantum.
#[test]
fn backlogged_flows_stay_within_a_quantum_and_two_packets_under_drr() {
    for quantum in [1500, 4000, 333] {
        let bound = |_, _| (quantum + 2 * MAX) * UNIT;
        fair("drr", &json!({"quantum": format!("{quantum}B")}), normalised, bound).unwrap();
    }
}

#[test]
fn backlogged_flows_stay_within_one_turn_under_rr() {
    fair("rr", &json!({}), |flow, _| UNIT / WEIGHTS[flow], |_, _| UNIT).unwrap();
}

#[test]
fn the_bounds_can_be_broken() {
    // Round robin is not fair in bytes, FIFO is not fair at all, and DRR is less fair than tags.
    assert!(fair("rr", &json!({}), normalised, tag_bound).is_err());
    assert!(fair("drr", &json!({"quantum": "9kB"}), normalised, tag_bound).is_err());
    let blind = json!({"weights": [1]});
    for kind in ["stfq", "scfq", "pfq"] {
        assert!(fair(kind, &blind, normalised, |i, j| tag_bound(i, j) / 2).is_err(), "{kind}");
        assert!(fair(kind, &json!({}), normalised, |i, j| tag_bound(i, j) * 2 / 3).is_err(), "{kind}");
    }
    assert!(fair("rr", &json!({}), |flow, _| UNIT / WEIGHTS[flow], |_, _| UNIT - 3).is_err());
}

/// Goyal, Vin & Cheng 1996, theorem 4, on a fully allocated link of constant rate: a packet departs at the latest after
/// its expected arrival plus the largest packet of each other flow and itself.
#[test]
fn start_tags_respect_the_delay_bound() {
    let all: u64 = WEIGHTS.iter().sum();
    for kind in ["stfq", "pfq"] {
        let property = |arrivals: &[Arrival]| {
            // In fractions of a microsecond into which every rate divides.
            let mut expected = [0_u64; FLOWS];
            let due: Vec<u64> = arrivals
                .iter()
                .map(|&Arrival { at, flow, bytes }| {
                    let here = expected[flow].max(at.nanos() / NANOS_PER_BYTE * UNIT);
                    expected[flow] = here + normalised(flow, bytes) * all;
                    let others: u64 = (0..FLOWS).filter(|other| *other != flow).map(|j| LARGEST[j]).sum();
                    here + (others + bytes) * UNIT
                })
                .collect();
            for event in drive(&scheduler(kind, json!({})), arrivals) {
                if let Event::Depart { id, end, .. } = event
                    && end.nanos() / NANOS_PER_BYTE * UNIT > due[id]
                {
                    return Err(format!("{kind}: packet {id} leaves at {end:?}, due {}", due[id]));
                }
            }
            Ok(())
        };
        try_all(property).unwrap();
    }
}

/// D. Stiliadis, A. Varma, "Latency-Rate Servers", 1998, table I: a flow that becomes backlogged is served at its rate
/// after at most (3F - 2Q) / C, where F is the sum of the quanta.
#[test]
fn drr_serves_a_flow_at_its_rate_after_its_latency() {
    let frame = MAX * WEIGHTS.iter().sum::<u64>();
    let config = scheduler("drr", json!({"quantum": format!("{MAX}B")}));
    let property = |arrivals: &[Arrival]| {
        let events = drive(&config, arrivals);
        let mut waiting = [0_u64; FLOWS];
        let mut since = [0_u64; FLOWS];
        let mut served = [0_u64; FLOWS];
        let mut arrived = 0;
        for event in events {
            match event {
                Event::Arrive { flow } => {
                    if waiting[flow] == 0 {
                        since[flow] = arrivals[arrived].at.nanos() / NANOS_PER_BYTE;
                        served[flow] = 0;
                    }
                    waiting[flow] += 1;
                    arrived += 1;
                }
                Event::Depart { flow, bytes, end, .. } => {
                    let quantum = MAX * WEIGHTS[flow];
                    // Just before the last bit of this packet, only the previous packets have been served.
                    let elapsed = end.nanos() / NANOS_PER_BYTE - since[flow];
                    let owed = elapsed.saturating_sub(3 * frame - 2 * quantum) * quantum / frame;
                    if served[flow] < owed {
                        return Err(format!("flow {flow} got {} bytes, not {owed}", served[flow]));
                    }
                    served[flow] += bytes;
                    waiting[flow] -= 1;
                }
                Event::Drop { .. } => unreachable!("the buffer is large enough"),
            }
        }
        Ok(())
    };
    try_all(property).unwrap();
}

#[test]
fn greedy_and_modest_flows_get_their_max_min_fair_shares() {
    // Flow 1 demands an eighth of the link and flow 3 a sixteenth; flows 0 and 2 demand the whole link.
    let demand = [1.5, 0.125, 1.5, 0.0625];
    for kind in ["drr", "rr", "stfq", "scfq", "wfq", "pfq"] {
        for (limit, drop) in [("60p", "longest-front"), ("60kB", "longest-tail"), ("60p", "random-long")] {
            let mut all = Vec::new();
            for (flow, share) in demand.iter().enumerate() {
                let gap = (1000.0 / share) as u64 * NANOS_PER_BYTE;
                let times = (0..20_000_000 * NANOS_PER_BYTE / gap).map(|k| k * gap + flow as u64 * 7919);
                all.extend(times.map(|at| Arrival { at: Instant::from_nanos(at), flow, bytes: 1000 }));
            }
            all.sort_by_key(|arrival| arrival.at);
            let events = drive(&scheduler(kind, json!({"limit": limit, "drop": drop})), &all);
            let mut got = [0.0; FLOWS];
            for event in &events {
                if let Event::Depart { flow, bytes, .. } = event {
                    got[*flow] += *bytes as f64 / 20e6;
                }
            }
            let rest = 1.0 - 0.125 - 0.0625;
            for (flow, share) in [rest / 4.0, 0.125, rest * 3.0 / 4.0, 0.0625].into_iter().enumerate() {
                let off = got[flow] / share - 1.0;
                assert!(off.abs() < 0.01, "{kind} {drop}: flow {flow} gets {} of {share}", got[flow]);
            }
        }
    }
}

#[test]
fn flows_below_their_share_lose_no_packets_to_a_flooding_flow() {
    for kind in ["drr", "rr", "stfq", "scfq", "wfq", "pfq"] {
        for drop in ["longest-front", "longest-tail", "random-long"] {
            let flood = (0..4000).map(|k| (k * 250, 0));
            let modest = (1..FLOWS as u64).flat_map(|flow| (0..100).map(move |k| (k * 10_000 + flow, flow)));
            let mut all: Vec<Arrival> = flood
                .chain(modest)
                .map(|(at, flow)| Arrival {
                    at: Instant::from_nanos(at * NANOS_PER_BYTE),
                    flow: flow as usize,
                    bytes: 1000,
                })
                .collect();
            all.sort_by_key(|arrival| arrival.at);
            let events = drive(&scheduler(kind, json!({"limit": "20p", "drop": drop})), &all);
            let lost =
                |of: usize| events.iter().filter(move |e| matches!(e, Event::Drop { flow } if *flow == of));
            assert!((1..FLOWS).all(|flow| lost(flow).count() == 0), "{kind} {drop}");
            assert!(lost(0).count() > 2000, "{kind} {drop}");
        }
    }
}

#[test]
fn a_flow_with_many_drops_gets_its_share_when_another_becomes_active() {
    for kind in ["drr", "rr", "stfq", "scfq", "wfq", "pfq"] {
        for drop in ["longest-front", "longest-tail", "random-long"] {
            // Flow 0 floods at four times the link rate from the start, and flow 1 joins after 0.4 s.
            let flood = |flow: usize, from: u64| (from..4000).map(move |k| (k * 250 + flow as u64, flow));
            let mut all: Vec<Arrival> = flood(0, 0)
                .chain(flood(1, 1600))
                .map(|(at, flow)| Arrival { at: Instant::from_nanos(at * NANOS_PER_BYTE), flow, bytes: 1000 })
                .collect();
            all.sort_by_key(|arrival| arrival.at);
            let config = scheduler(kind, json!({"limit": "24p", "drop": drop, "weights": []}));
            let events = drive(&config, &all);
            let since = events.iter().skip_while(|event| !matches!(event, Event::Arrive { flow: 1 }));
            let sent = since.filter_map(|event| match event {
                Event::Depart { flow, .. } => Some(*flow),
                _ => None,
            });
            let of_flow_0 = sent.take(200).filter(|flow| *flow == 0).count();
            assert!((96..=104).contains(&of_flow_0), "{kind} {drop}: {of_flow_0} of 200");
        }
    }
}

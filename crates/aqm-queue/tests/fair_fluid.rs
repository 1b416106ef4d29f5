//! `wfq` compared with its fluid reference, computed step by step.

#[allow(dead_code, reason = "the tests of bounds use more of the module")]
use std::collections::VecDeque;

use crate::line::{Arrival, Event, FLOWS, MAX, NANOS_PER_BYTE, WEIGHTS, drive, scheduler, try_all};
use serde_json::json;

/// Generalized processor sharing, step by step: the finish time of each packet, in microseconds.
fn fluid(arrivals: &[Arrival]) -> Vec<f64> {
    let mut finished = vec![f64::NAN; arrivals.len()];
    // The packets of each flow, and the unserved bytes of each packet.
    let mut queues: [VecDeque<(usize, f64)>; FLOWS] = Default::default();
    let (mut now, mut next) = (0.0, 0);
    loop {
        let arrival =
            arrivals.get(next).map_or(f64::INFINITY, |a| a.at.nanos() as f64 / NANOS_PER_BYTE as f64);
        let busy = || (0..FLOWS).filter(|flow| !queues[*flow].is_empty());
        let weights: u64 = busy().map(|flow| WEIGHTS[flow]).sum();
        let rate = |flow: usize| WEIGHTS[flow] as f64 / weights as f64;
        let first = busy().map(|flow| (now + queues[flow][0].1 / rate(flow), flow));
        let first = first.min_by(|a, b| a.0.total_cmp(&b.0));
        let until = first.map_or(arrival, |(at, _)| at.min(arrival));
        if until == f64::INFINITY {
            return finished;
        }
        for flow in busy().collect::<Vec<_>>() {
            queues[flow][0].1 -= (until - now) * rate(flow);
        }
        now = until;
        match first {
            Some((at, flow)) if at <= arrival => {
                let (id, _) = queues[flow].pop_front().expect("the flow is backlogged");
                finished[id] = now;
            }
            _ => {
                queues[arrivals[next].flow].push_back((next, arrivals[next].bytes as f64));
                next += 1;
            }
        }
    }
}

/// A tolerance in microseconds: more than the sum of rounding errors, and less than any relevant difference.
const ROUNDING: f64 = 1e-6;

/// Parekh & Gallager 1993, theorem 1.
#[test]
fn wfq_finishes_a_packet_at_most_a_largest_packet_after_the_fluid() {
    let property = |arrivals: &[Arrival]| {
        let fluid = fluid(arrivals);
        for event in drive(&scheduler("wfq", json!({})), arrivals) {
            if let Event::Depart { id, end, .. } = event {
                let late = end.nanos() as f64 / NANOS_PER_BYTE as f64 - fluid[id];
                if late > MAX as f64 + ROUNDING {
                    return Err(format!("packet {id} leaves {late} us after the fluid"));
                }
            }
        }
        Ok(())
    };
    try_all(property).unwrap();
}

#[test]
fn wfq_sends_the_packet_that_the_fluid_would_finish_first_without_further_arrivals() {
    let property = |arrivals: &[Arrival]| {
        let (mut arrived, mut sent) = (0, vec![false; arrivals.len()]);
        let mut fluid_so_far = Vec::new();
        for event in drive(&scheduler("wfq", json!({})), arrivals) {
            match event {
                Event::Arrive { .. } => {
                    arrived += 1;
                    fluid_so_far.clear();
                }
                Event::Depart { id, .. } => {
                    if fluid_so_far.is_empty() {
                        fluid_so_far = fluid(&arrivals[..arrived]);
                    }
                    sent[id] = true;
                    let earlier = (0..arrived)
                        .find(|other| !sent[*other] && fluid_so_far[*other] < fluid_so_far[id] - ROUNDING);
                    if let Some(other) = earlier {
                        return Err(format!("{id} is sent before {other}: {fluid_so_far:?}"));
                    }
                }
                Event::Drop { .. } => unreachable!("the buffer is large enough"),
            }
        }
        Ok(())
    };
    try_all(property).unwrap();
}

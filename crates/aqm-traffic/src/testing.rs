//! A test driver that determines how long each transfer takes, and the Kolmogorov-Smirnov test.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{Instant, Rate, Size, Span, Streams};

pub(crate) use crate::recording::{RecordingContext, run};
use crate::{BuildContext, Exchange, Packetisation, Transfer, Workload};

/// A packetisation in which all packets are full-sized, with 934 payload bytes and 40 header bytes, and the SYN has 40
/// bytes, as in the ns-2 runs.
pub(crate) struct FullPackets;

impl Packetisation for FullPackets {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        40 + bytes.div_ceil(934) * 974
    }
    fn payload(&self) -> u64 {
        934
    }
}

/// A packetisation with packets of up to 1448 payload bytes and 52 header bytes. The last packet is not padded.
pub(crate) struct ShortLast;

impl Packetisation for ShortLast {
    fn wire_bytes(&self, bytes: u64) -> u64 {
        60 + bytes + 52 * bytes.div_ceil(1448)
    }
    fn payload(&self) -> u64 {
        1448
    }
}

/// Returns a context for a run of `seconds` seconds with a bottleneck rate of 10 Mb/s.
pub(crate) fn context(seed: u64, seconds: u64) -> BuildContext<'static> {
    BuildContext {
        name: "test",
        streams: Streams::new(seed),
        rate: Rate::from_bps(10_000_000),
        duration: Span::from_millis(seconds * 1000),
        packetisation: &FullPackets,
        link_header: Size::from_bytes(0),
        file: None,
    }
}

/// Runs a workload. `time` returns the duration of each transfer, or `None` if the transfer never completes.
pub(crate) fn run_served(
    workload: &mut dyn Workload,
    time: impl Fn(Transfer) -> Option<Span>,
) -> RecordingContext {
    let mut recording = RecordingContext::default();
    // Transfers that complete at the same time are ordered by their index.
    let mut under_way: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    let mut seen = 0;
    workload.start(&mut recording);
    loop {
        for (number, &(at, transfer)) in recording.opened.iter().enumerate().skip(seen) {
            under_way.extend(time(transfer).map(|time| Reverse((at + time, number))));
        }
        seen = recording.opened.len();
        let wake = recording.wakes.peek().map_or(Instant::NEVER, |Reverse(at)| *at);
        if let Some(&Reverse((at, number))) = under_way.peek()
            && at <= wake
        {
            under_way.pop();
            recording.now = at;
            workload.on_done(recording.opened[number].1, &mut recording);
        } else if let Some(Reverse(at)) = recording.wakes.pop() {
            recording.now = at;
            recording.woken += 1;
            workload.on_wake(&mut recording);
        } else {
            return recording;
        }
    }
}

/// Runs a workload until `end` or until no requested wake-ups remain. `time` returns the duration of each exchange of a
/// numbered conversation.
pub(crate) fn run_conversing(
    workload: &mut dyn Workload,
    end: Instant,
    time: impl Fn(Instant, Exchange) -> Span,
) -> RecordingContext {
    let mut recording = RecordingContext::default();
    let mut under_way: BinaryHeap<Reverse<(Instant, u32)>> = BinaryHeap::new();
    let (mut opened, mut requests) = (0, 0);
    workload.start(&mut recording);
    loop {
        for (at, conversation) in &recording.conversations[opened..] {
            let number = conversation.number.expect("the conversation has a number");
            under_way.push(Reverse((*at + time(*at, conversation.first), number)));
        }
        for &(at, number, exchange) in &recording.requests[requests..] {
            under_way.push(Reverse((at + time(at, exchange), number)));
        }
        (opened, requests) = (recording.conversations.len(), recording.requests.len());
        let wake = recording.wakes.peek().map_or(Instant::NEVER, |Reverse(at)| *at);
        let response = under_way.peek().filter(|Reverse((at, _))| *at <= wake).copied();
        recording.now = response.map_or(wake, |Reverse((at, _))| at);
        if recording.now >= end {
            return recording;
        } else if let Some(Reverse((_, number))) = response {
            under_way.pop();
            workload.on_response(number, &mut recording);
        } else {
            recording.wakes.pop();
            recording.woken += 1;
            workload.on_wake(&mut recording);
        }
    }
}

/// Returns the value of a workload's fact.
pub(crate) fn fact(workload: &dyn Workload, name: &str) -> f64 {
    let mut value = None;
    workload.facts(&mut |fact, is| {
        if fact == name {
            value = Some(is);
        }
    });
    value.unwrap_or_else(|| panic!("the workload has no fact `{name}`"))
}

/// Returns the Kolmogorov-Smirnov distance between a sample and a continuous distribution function, multiplied by the
/// square root of the sample size. If the sample was drawn from this distribution, the distance exceeds 1.63 with a
/// probability of 1 %.
pub(crate) fn distance(mut sample: Vec<f64>, function: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let steps = sample.iter().enumerate().map(|(i, &x)| {
        let p = function(x);
        (p - i as f64 / n).max((i + 1) as f64 / n - p)
    });
    steps.fold(0.0, f64::max) * n.sqrt()
}

/// Returns the Kolmogorov-Smirnov distance between two samples of equal size, scaled according to the sample size.
pub(crate) fn distance_between(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    assert_eq!(a.len(), b.len());
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let n = a.len();
    let (mut i, mut j, mut most) = (0, 0, 0);
    while i < n && j < n {
        if a[i] <= b[j] {
            i += 1
        } else {
            j += 1
        }
        most = most.max(i.abs_diff(j));
    }
    most as f64 / n as f64 * (n as f64 / 2.0).sqrt()
}

/// Converts times to seconds.
pub(crate) fn seconds(moments: impl Iterator<Item = Instant>) -> Vec<f64> {
    moments.map(Instant::seconds).collect()
}

/// Returns the differences between consecutive times.
pub(crate) fn gaps(moments: &[f64]) -> Vec<f64> {
    moments.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

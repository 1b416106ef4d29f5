//! The validity of live runs, and the reasons why a run is invalid.
//!
//! A run that was disturbed is marked as invalid and is excluded from averages over runs. The run's manifest contains
//! the reasons.

use std::fs;

use aqm_net::Span;
use serde_json::{Value, json};

use crate::router::Counts;
use crate::router::lateness::{Lateness, STALL};

/// Limit on the 99 % quantile of packet lateness, as a fraction of the minimum round-trip time.
const SHARE_OF_ROUND_TRIP: f64 = 0.05;

/// Minimum fraction of packets that must be late by no more than the transmission time of one packet on the slowest
/// managed link.
const ON_TIME: f64 = 0.95;

/// Maximum fraction of the processor time that other machines on the same physical host may use.
const MAX_STEAL: f64 = 0.05;

/// Lateness that is always accepted, because the wake-up of a thread takes this long.
const WAKE_UP: Span = Span::from_nanos(150_000);

/// The time scales of the network, against which the lateness of packets is judged.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Smallest round-trip time among all workloads, without queueing delay.
    pub round_trip: Span,
    /// Transmission time of a full-sized packet on the slowest managed link.
    pub packet_time: Span,
}

/// The conditions that, in addition to lateness and packet counts, determine whether a run is valid.
#[derive(Clone, Debug, Default)]
pub struct RunConditions {
    /// Packets that devices dropped before the router read them, by host.
    pub dropped_by_devices: Vec<(String, u64)>,
    /// Fraction of the processor time that other machines on the same physical host used (steal time); `None` if the
    /// system does not report steal time.
    pub steal: Option<f64>,
    /// Unexpected congestion controls. Each element contains the workload, the expected congestion control and the
    /// actual congestion control.
    pub other_controls: Vec<(String, String, String)>,
    /// Hosts whose counters and settings could not be read because a program has changed the host's network. Each
    /// element contains the host and the error.
    pub changed: Vec<(String, String)>,
    /// Number of packets that are missing from the capture.
    pub not_captured: u64,
    /// Reasons why the windows reported to a queue are invalid.
    pub windows: Vec<String>,
}

/// Returns the reasons why a run is invalid; the result is empty if the run is valid.
pub fn invalid_reasons(
    lateness: &Lateness,
    counts: Counts,
    scales: Scales,
    conditions: &RunConditions,
) -> Vec<String> {
    let mut reasons = Vec::new();
    let micros = |span: Span| span.nanos() as f64 / 1e3;
    let mut add_if = |applies: bool, reason: String| {
        if applies {
            reasons.push(reason);
        }
    };
    if lateness.count() > 0 {
        let (late, limit) = (lateness.quantile(0.99), scales.round_trip.seconds() * SHARE_OF_ROUND_TRIP);
        add_if(
            late > WAKE_UP && late.seconds() > limit,
            format!(
                "1 % of packets are more than {:.0} us late, which exceeds {:.0} % of the round-trip time",
                micros(late),
                100.0 * SHARE_OF_ROUND_TRIP
            ),
        );
        let late = lateness.quantile(ON_TIME);
        add_if(
            late > WAKE_UP && late > scales.packet_time,
            format!(
                "{:.0} % of packets are more than {:.0} us late, which exceeds the transmission time of a packet, {:.0} us",
                100.0 * (1.0 - ON_TIME),
                micros(late),
                micros(scales.packet_time)
            ),
        );
    }
    add_if(
        lateness.stalls() > 0,
        format!(
            "the router stalled {} for more than {} ms; the longest stall lasted {:.0} ms",
            if lateness.stalls() == 1 { "once".to_owned() } else { format!("{} times", lateness.stalls()) },
            STALL.nanos() / 1_000_000,
            micros(lateness.maximum()) / 1e3
        ),
    );
    for (host, why) in &conditions.changed {
        add_if(true, format!("the network of {host} was changed: {why}"));
    }
    for (host, dropped) in &conditions.dropped_by_devices {
        add_if(
            *dropped > 0,
            format!("the device of {host} dropped {dropped} packets before the router read them"),
        );
    }
    add_if(counts.refused > 0, format!("devices did not accept {} packets", counts.refused));
    add_if(counts.oversize > 0, format!("{} packets were larger than the MTU", counts.oversize));
    if let Some(steal) = conditions.steal {
        add_if(
            steal > MAX_STEAL,
            format!("other machines used {:.0} % of the processor time", 100.0 * steal),
        );
    }
    for (workload, expected, control) in &conditions.other_controls {
        add_if(true, format!("connections of {workload} used {control}, not {expected}"));
    }
    add_if(
        conditions.not_captured > 0,
        format!("{} packets are missing from the capture", conditions.not_captured),
    );
    reasons.extend(conditions.windows.iter().cloned());
    reasons
}

/// Returns the validity in the format of the manifest.
pub fn record(lateness: &Lateness, counts: Counts, conditions: &RunConditions, reasons: &[String]) -> Value {
    let dropped: serde_json::Map<String, Value> =
        conditions.dropped_by_devices.iter().map(|(host, count)| (host.clone(), json!(count))).collect();
    json!({
        "valid": reasons.is_empty(),
        "objections": reasons,
        "lateness": lateness.to_value(),
        "router": counts.to_value(),
        "dropped_by_devices": dropped,
        "steal": conditions.steal,
    })
}

/// Returns the total processor time and the steal time since the machine was booted, in ticks (proc(5), `/proc/stat`).
pub fn processor_time() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal. Guest time is part of user time.
    let steal = *fields.get(7)?;
    Some((fields.iter().take(8).sum(), steal))
}

/// Returns steal time as a fraction of the total processor time between two readings.
pub fn steal_between(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<f64> {
    let ((all_before, steal_before), (all, steal)) = before.zip(after)?;
    let elapsed = all.checked_sub(all_before).filter(|&ticks| ticks > 0)?;
    Some(steal.saturating_sub(steal_before) as f64 / elapsed as f64)
}

#[cfg(test)]
mod tests {
    use aqm_net::Instant;

    use super::*;

    const SCALES: Scales =
        Scales { round_trip: Span::from_millis(120), packet_time: Span::from_nanos(1_200_000) };

    fn lateness(micros: impl IntoIterator<Item = u64>) -> Lateness {
        let mut lateness = Lateness::new();
        for (number, late) in micros.into_iter().enumerate() {
            let due = Instant::from_nanos(1_000_000_000 * number as u64);
            lateness.note(due, due + Span::from_nanos(1000 * late));
        }
        lateness
    }

    #[test]
    fn a_punctual_run_is_valid() {
        let lateness = lateness([30; 1000]);
        let conditions = RunConditions { steal: Some(0.01), ..RunConditions::default() };
        let reasons = invalid_reasons(&lateness, Counts::default(), SCALES, &conditions);
        assert_eq!(reasons, Vec::<String>::new());
        assert_eq!(record(&lateness, Counts::default(), &conditions, &reasons)["valid"], true);
    }

    #[test]
    fn every_disturbance_of_a_run_is_reported() {
        // In the first case, 2 % of the packets are late by more than 6 ms; in the second case, 6 % are late by more
        // than a packet time.
        let late = lateness((0..1000).map(|number| if number % 50 == 0 { 7000 } else { 30 }));
        let found = invalid_reasons(&late, Counts::default(), SCALES, &RunConditions::default());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("exceeds 5 % of the round-trip time"), "{found:?}");
        let late = lateness((0..1000).map(|number| if number % 16 == 0 { 2000 } else { 30 }));
        let found = invalid_reasons(&late, Counts::default(), SCALES, &RunConditions::default());
        assert!(
            found.len() == 1 && found[0].contains("the transmission time of a packet, 1200 us"),
            "{found:?}"
        );
        let late = lateness((0..1000).map(|number| if number == 500 { 900_000 } else { 30 }));
        let found = invalid_reasons(&late, Counts::default(), SCALES, &RunConditions::default());
        assert!(
            found.len() == 1
                && found[0].contains("stalled once for more than 10 ms; the longest stall lasted 900 ms"),
            "{found:?}"
        );
        let conditions = RunConditions {
            dropped_by_devices: vec![("client".into(), 3), ("server".into(), 0)],
            steal: Some(0.2),
            other_controls: vec![("ftp".into(), "reno".into(), "bbr".into())],
            changed: vec![("client".into(), "there is no device".into())],
            not_captured: 2,
            windows: vec!["no packet reported a window".into()],
        };
        let counts = Counts { refused: 1, oversize: 4, ..Counts::default() };
        let found = invalid_reasons(&lateness([30; 10]), counts, SCALES, &conditions);
        assert_eq!(found.len(), 8, "{found:?}");
        assert_eq!(found[0], "the network of client was changed: there is no device");
        assert!(found[1].contains("device of client dropped 3"), "{found:?}");
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        assert_eq!(steal_between(Some((1000, 10)), Some((2000, 60))), Some(0.05));
        assert_eq!(steal_between(Some((1000, 10)), Some((1000, 10))), None);
        assert_eq!(steal_between(None, Some((1, 1))), None);
        assert!(processor_time().is_none_or(|(all, steal)| all >= steal));
    }
}

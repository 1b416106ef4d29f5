//! Whether a live run may be believed, and why not.
//!
//! A run that was disturbed is not averaged away: it says what disturbed it, and is not valid.

use std::fs;

use aqm_net::Span;
use serde_json::{Value, json};

use crate::router::Counts;
use crate::router::lateness::{Lateness, STALL};

/// The lateness of 99 % of packets may be this share of the least round-trip time.
const SHARE_OF_ROUND_TRIP: f64 = 0.05;

/// So many packets must be no later than one packet takes on the slowest managed line.
const ON_TIME: f64 = 0.95;

/// No more of the processors' time may go to other machines on the same host.
const MOST_STEAL: f64 = 0.05;

/// Lateness that is put up with whatever the line is: what a wake-up takes.
const WAKE_UP: Span = Span::from_nanos(150_000);

/// What the network's own times are, beside which lateness counts.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// The least round-trip time of a workload, without queues.
    pub round_trip: Span,
    /// What a full packet takes on the slowest managed line.
    pub packet_time: Span,
}

/// What is known of a run's circumstances.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// Packets that devices dropped before the router read them, by host.
    pub dropped_by_devices: Vec<(String, u64)>,
    /// The share of the processors' time that the hypervisor took, if the system tells.
    pub steal: Option<f64>,
    /// Congestion controls in force that nobody asked for, by workload: what was asked for, and what was.
    pub other_controls: Vec<(String, String, String)>,
    /// Hosts that cannot be asked what they counted and had in force, and why: a program has changed their network.
    pub changed: Vec<(String, String)>,
    /// Packets missing in a capture.
    pub not_captured: u64,
    /// What speaks against the windows that a queue was told, a sentence each.
    pub windows: Vec<String>,
}

/// What speaks against a run, a sentence each; a valid run has nothing against it.
pub fn objections(
    lateness: &Lateness,
    counts: Counts,
    scales: Scales,
    circumstances: &Circumstances,
) -> Vec<String> {
    let mut against = Vec::new();
    let micros = |span: Span| span.nanos() as f64 / 1e3;
    let mut object = |is_so: bool, text: String| {
        if is_so {
            against.push(text);
        }
    };
    if lateness.count() > 0 {
        let (late, most) = (lateness.quantile(0.99), scales.round_trip.seconds() * SHARE_OF_ROUND_TRIP);
        object(
            late > WAKE_UP && late.seconds() > most,
            format!(
                "1 % of packets are more than {:.0} us late, beyond {:.0} % of the round-trip time",
                micros(late),
                100.0 * SHARE_OF_ROUND_TRIP
            ),
        );
        let late = lateness.quantile(ON_TIME);
        object(
            late > WAKE_UP && late > scales.packet_time,
            format!(
                "{:.0} % of packets are more than {:.0} us late, beyond what a packet takes on the line, {:.0} us",
                100.0 * (1.0 - ON_TIME),
                micros(late),
                micros(scales.packet_time)
            ),
        );
    }
    object(
        lateness.stalls() > 0,
        format!(
            "the router stood still {} for more than {} ms, at most for {:.0} ms",
            if lateness.stalls() == 1 { "once".to_owned() } else { format!("{} times", lateness.stalls()) },
            STALL.nanos() / 1_000_000,
            micros(lateness.greatest()) / 1e3
        ),
    );
    for (host, why) in &circumstances.changed {
        object(true, format!("the network of {host} was changed: {why}"));
    }
    for (host, dropped) in &circumstances.dropped_by_devices {
        object(
            *dropped > 0,
            format!("the device of {host} dropped {dropped} packets before the router read them"),
        );
    }
    object(counts.refused > 0, format!("devices refused {} packets", counts.refused));
    object(counts.oversize > 0, format!("{} packets were larger than the MTU", counts.oversize));
    if let Some(steal) = circumstances.steal {
        object(
            steal > MOST_STEAL,
            format!("other machines took {:.0} % of the processors' time", 100.0 * steal),
        );
    }
    for (workload, wanted, found) in &circumstances.other_controls {
        object(true, format!("connections of {workload} used {found}, not {wanted}"));
    }
    object(
        circumstances.not_captured > 0,
        format!("{} packets are missing in the capture", circumstances.not_captured),
    );
    against.extend(circumstances.windows.iter().cloned());
    against
}

/// The record of a run's validity.
pub fn record(
    lateness: &Lateness,
    counts: Counts,
    circumstances: &Circumstances,
    against: &[String],
) -> Value {
    let dropped: serde_json::Map<String, Value> =
        circumstances.dropped_by_devices.iter().map(|(host, count)| (host.clone(), json!(count))).collect();
    json!({
        "valid": against.is_empty(),
        "objections": against,
        "lateness": lateness.to_value(),
        "router": counts.to_value(),
        "dropped_by_devices": dropped,
        "steal": circumstances.steal,
    })
}

/// The processors' time so far, in ticks: all of it, and what the hypervisor took (proc(5), `/proc/stat`).
pub fn processor_time() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // User, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    let steal = *fields.get(7)?;
    Some((fields.iter().take(8).sum(), steal))
}

/// The share that the hypervisor took between two readings.
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
    fn a_run_on_time_has_nothing_against_it() {
        let lateness = lateness([30; 1000]);
        let circumstances = Circumstances { steal: Some(0.01), ..Circumstances::default() };
        let against = objections(&lateness, Counts::default(), SCALES, &circumstances);
        assert_eq!(against, Vec::<String>::new());
        assert_eq!(record(&lateness, Counts::default(), &circumstances, &against)["valid"], true);
    }

    #[test]
    fn whatever_disturbs_a_run_is_said() {
        // 2 % later than 6 ms, 6 % later than a packet time.
        let late = lateness((0..1000).map(|number| if number % 50 == 0 { 7000 } else { 30 }));
        let found = objections(&late, Counts::default(), SCALES, &Circumstances::default());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("beyond 5 % of the round-trip time"), "{found:?}");
        let late = lateness((0..1000).map(|number| if number % 16 == 0 { 2000 } else { 30 }));
        let found = objections(&late, Counts::default(), SCALES, &Circumstances::default());
        assert!(found.len() == 1 && found[0].contains("a packet takes on the line, 1200 us"), "{found:?}");
        let late = lateness((0..1000).map(|number| if number == 500 { 900_000 } else { 30 }));
        let found = objections(&late, Counts::default(), SCALES, &Circumstances::default());
        assert!(
            found.len() == 1 && found[0].contains("stood still once for more than 10 ms, at most for 900 ms"),
            "{found:?}"
        );
        let circumstances = Circumstances {
            dropped_by_devices: vec![("client".into(), 3), ("server".into(), 0)],
            steal: Some(0.2),
            other_controls: vec![("ftp".into(), "reno".into(), "bbr".into())],
            changed: vec![("client".into(), "there is no device".into())],
            not_captured: 2,
            windows: vec!["no packet told a window".into()],
        };
        let counts = Counts { refused: 1, oversize: 4, ..Counts::default() };
        let found = objections(&lateness([30; 10]), counts, SCALES, &circumstances);
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

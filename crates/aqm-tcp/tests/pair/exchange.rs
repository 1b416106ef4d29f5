//! Settings of exchanges, one-way transfers, and comparisons of logs with tables.

use aqm_tcp::congestion_control::Control;
use serde_json::{Value, json};

use super::{MSS, Pair, Path};

/// Returns `rfc` with 1000-byte segments and immediate acknowledgements.
pub fn rfc(more: Value) -> Value {
    over(json!({"connection": {"mss": "1000B"}, "receiver": {"delayed_ack": "off"}}), more)
}

/// Returns `ns-2.35` with a receive window that does not limit.
pub fn ns2(more: Value) -> Value {
    over(json!({"profile": "ns-2.35", "receiver": {"window": 1000}}), more)
}

/// Returns `ns-2.35-full` with 1000-byte segments and a receive window that does not limit.
pub fn full_tcp(more: Value) -> Value {
    over(
        json!({"profile": "ns-2.35-full", "connection": {"mss": "1000B"}, "receiver": {"window": 1000}}),
        more,
    )
}

/// Returns the congestion controls without a model of the path, whose windows follow acknowledgements and losses.
pub fn without_model() -> impl Iterator<Item = &'static str> {
    Control::every().into_iter().filter(|control| !control.uses_rates()).map(|control| control.kind())
}

/// Overlays `more` on `table`.
pub fn over(table: Value, more: Value) -> Value {
    aqm_tcp::overlay(&table, more)
}

/// Sends `segments` full segments in one direction over a path that loses the named ones; both endpoints must finish.
pub fn exchange(settings: Value, segments: u64, lost: &[&str]) -> Pair {
    transfer(settings, segments, Path::losing(lost))
}

/// Sends `segments` full segments in one direction over `path`; both endpoints must finish.
pub fn transfer(settings: Value, segments: u64, path: Path) -> Pair {
    let pair = Pair::one_way(settings, segments * MSS).over(path);
    assert_done(&pair, [segments, 0]);
    pair
}

/// Checks that all data has arrived and that both endpoints have finished without pending timers.
pub fn assert_done(pair: &Pair, segments: [u64; 2]) {
    let log = pair.log.join("\n");
    let received = [pair.server().received(), pair.client().received()];
    assert_eq!(received, segments.map(|count| count * MSS), "received\n{log}");
    assert!(pair.client().is_done() && pair.server().is_done(), "not done\n{log}");
    assert!(pair.ends.iter().all(|end| end.poll_timeout().is_none()), "a timer is left\n{log}");
}

/// Compares the log with a table.
pub fn assert_table(pair: &Pair, expected: &str) {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let log = pair.log.join("\n");
    assert_eq!(lines(&log), lines(expected), "\n{log}");
}

/// Returns the log between two times in milliseconds, without the times.
pub fn between(pair: &Pair, from: u64, to: u64) -> Vec<String> {
    let lines = pair.log.iter().map(|line| line.trim().split_once(' ').unwrap());
    let chosen = lines.filter(|(time, _)| (from..=to).contains(&time.parse().unwrap()));
    chosen.map(|(_, what)| what.to_owned()).collect()
}

/// Returns the client's segments at a time, without their acknowledgements.
pub fn sent_at(pair: &Pair, millis: u64) -> Vec<String> {
    let lines = between(pair, millis, millis);
    lines.iter().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned).collect()
}

/// Compares the log between two times in milliseconds with a table.
pub fn assert_part(pair: &Pair, from: u64, to: u64, expected: &str) {
    let time = |line: &str| line.trim().split_once(' ').unwrap().0.parse::<u64>().unwrap();
    let found: Vec<&str> =
        pair.log.iter().filter(|line| (from..=to).contains(&time(line))).map(|line| line.trim()).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, expected, "\n{}", pair.log.join("\n"));
}

//! What a test of responsiveness records over time, for the result tables.

use aqm_net::{Instant, Span};

/// Phase of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The line is idle.
    Idle,
    /// The test loads the line to the client.
    Download,
    /// The test loads the line from the client.
    Upload,
}

impl Phase {
    /// Names of the phases, in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["idle", "download", "upload"];
}

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A request on a connection of its own.
    Foreign,
    /// A request on a connection that generates load.
    Own,
    /// A datagram that the server returns.
    Echo,
}

impl ProbeKind {
    /// Names of the kinds, in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["foreign", "self", "echo"];
}

/// A probe. Durations are `None` if the step was not completed or if the kind of probe does not have the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Time at which the probe began.
    pub start: Instant,
    /// Phase in which the probe began.
    pub phase: Phase,
    /// Kind of the probe.
    pub kind: ProbeKind,
    /// Duration of the TCP handshake at the client.
    pub tcp: Option<Span>,
    /// Duration of the TLS handshake at the client.
    pub tls: Option<Span>,
    /// Time from sending the request, or the datagram, to the arrival of the complete response.
    pub response: Option<Span>,
}

/// The state of a test at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestInterval {
    /// End of the interval.
    pub end: Instant,
    /// Phase of the interval.
    pub phase: Phase,
    /// Number of connections that generate load.
    pub connections: u32,
    /// Moving average of the goodput, in bits per second.
    pub goodput_bps: f64,
    /// Responsiveness in round trips per minute; `None` if there are no samples of a kind.
    pub rpm: Option<f64>,
    /// Whether the goodput has become stable, in this interval or an earlier interval.
    pub goodput_stable: bool,
    /// Whether the responsiveness has become stable, which ends the phase.
    pub rpm_stable: bool,
}

/// The record of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeRecord {
    /// The probes in the order in which they began.
    pub probes: Vec<Probe>,
    /// The intervals in order.
    pub intervals: Vec<TestInterval>,
}

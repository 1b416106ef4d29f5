//! The schemas of the tables of tests of responsiveness.

use aqm_net::{Span, table};
use aqm_traffic::probe_record::{Probe, TestInterval};

table! {
    /// A probe of a test of responsiveness.
    ///
    /// Only runs with workloads of the kind `responsiveness` have this table. Rows of a workload are in the order in
    /// which the probes began, and include the warm-up.
    ProbeRow as "test_probes" {
        /// Time at which the probe began.
        time_s: Real(f64),
        /// Workload of the probe.
        traffic: Word(u32),
        /// Phase in which the probe began: `idle`, `download` or `upload`.
        phase: Word(u32),
        /// Kind of the probe: `foreign` (a request on a new connection), `self` (a request on a connection that
        /// generates load) or `echo` (a datagram that the server returns).
        probe: Word(u32),
        /// Duration of the TCP handshake at the client; missing if the probe does not open a connection or was not
        /// completed.
        tcp_s: MaybeReal(Option<f64>),
        /// Duration of the TLS handshake at the client, which is one round trip; missing if the probe does not use TLS
        /// or was not completed.
        tls_s: MaybeReal(Option<f64>),
        /// Time from sending the request to the arrival of the complete response; for an echo, the round-trip time. With
        /// HTTP/1.1, the smoothed round-trip time of TCP for `self`. The value is missing if no response arrived.
        response_s: MaybeReal(Option<f64>),
    }
}

impl ProbeRow {
    /// Creates the row of a probe of the workload `traffic`.
    pub(crate) fn new(traffic: u32, probe: &Probe) -> Self {
        Self {
            time_s: probe.start.seconds(),
            traffic,
            phase: probe.phase as u32,
            probe: probe.kind as u32,
            tcp_s: probe.tcp.map(Span::seconds),
            tls_s: probe.tls.map(Span::seconds),
            response_s: probe.response.map(Span::seconds),
        }
    }
}

table! {
    /// The state of a test of responsiveness at the end of an interval.
    ///
    /// Only runs with workloads of the kind `responsiveness` have this table. Rows include the warm-up.
    ProbeIntervalRow as "test_intervals" {
        /// End of the interval.
        time_s: Real(f64),
        /// Workload of the test.
        traffic: Word(u32),
        /// Phase of the interval: `download` or `upload`.
        phase: Word(u32),
        /// Number of connections that generated load.
        connections: Whole(u64),
        /// Moving average of the goodput of these connections.
        goodput_bps: Real(f64),
        /// Responsiveness in round trips per minute, from the probes of the last intervals; missing if there were no
        /// samples of a kind.
        rpm: MaybeReal(Option<f64>),
        /// Whether the goodput has become stable, in this interval or an earlier interval.
        goodput_stable: Truth(bool),
        /// Whether the responsiveness has become stable, which ends the phase.
        rpm_stable: Truth(bool),
    }
}

impl ProbeIntervalRow {
    /// Creates the row of an interval of the workload `traffic`.
    pub(crate) fn new(traffic: u32, interval: &TestInterval) -> Self {
        Self {
            time_s: interval.end.seconds(),
            traffic,
            phase: interval.phase as u32,
            connections: interval.connections.into(),
            goodput_bps: interval.goodput_bps,
            rpm: interval.rpm,
            goodput_stable: interval.goodput_stable,
            rpm_stable: interval.rpm_stable,
        }
    }
}

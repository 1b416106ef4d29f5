//! The schema of the table of guests' reports.

use aqm_net::table;

table! {
    /// A value that a guest reported, for example its congestion window.
    ///
    /// Only runs with workloads of the kind `guest` have this table. Rows of a workload are in chronological order, and
    /// include the warm-up.
    ReportRow as "reports" {
        /// Time of the report.
        time_s: Real(f64),
        /// Number of the flow from the server to the client.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// The guest that reported the value: `client` or `server`.
        end: Word(u32),
        /// Name of the value, which by convention ends in the unit, for example `cwnd_bytes` or `rtt_s`.
        report: Word(u32),
        /// The value.
        value: Real(f64),
    }
}

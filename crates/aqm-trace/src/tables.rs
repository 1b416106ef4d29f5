//! What a replay leaves behind: the schema of every table.
//!
//! Times are seconds since the first packet. A flow is *active* while a packet of it waits; the packet on
//! the line does not, as in the gauge of the fair schedulers.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// The replay in one row.
    ///
    /// Counts are of the whole trace, all else is after the warm-up.
    SummaryRow as "summary" {
        /// Rate of the line.
        rate_bps: Real(f64),
        /// From the first packet to the last.
        duration_s: Real(f64),
        /// Of that, after the warm-up.
        measured_s: Real(f64),
        /// Packets that came.
        packets: Whole(u64),
        /// Their bytes.
        bytes: Whole(u64),
        /// Packets that the line began to send.
        sent: Whole(u64),
        /// Packets that the queue dropped.
        dropped: Whole(u64),
        /// Packets that waited at the end.
        waiting: Whole(u64),
        /// Flows: packets of one key, no further apart than `idle_timeout`.
        flows: Whole(u64),
        /// Mean rate of what came.
        mean_rate_bps: Real(f64),
        /// That, as a share of the rate of the line.
        load: Real(f64),
        /// What the line sent, as a share of what it could.
        utilisation: Real(f64),
        /// Time average of the number of active flows.
        mean_active: Real(f64),
        /// What the number of active flows did not exceed for 99.9 % of the time.
        p999_active: Whole(u64),
        /// The greatest number of active flows.
        most_active: Whole(u64),
        /// Time average of the number of flows in progress; missing if the trace is too short to tell.
        mean_in_progress: MaybeReal(Option<f64>),
        /// The greatest number of flows in progress; missing if the trace is too short to tell.
        most_in_progress: MaybeWhole(Option<u64>),
        /// Time average of the number of packets that wait.
        mean_backlog_packets: Real(f64),
        /// Mean time of a packet from its arrival to the end of its transmission; missing if none was sent.
        mean_sojourn_s: MaybeReal(Option<f64>),
        /// What 99 % of these times do not exceed, at most 1 % too long; missing if none was sent.
        p99_sojourn_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// For how much of the time after the warm-up how many flows were active, and in progress.
    DistributionRow as "distribution" {
        /// The number of flows.
        flows: Whole(u64),
        /// Share of the time at which so many were active.
        active_share: Real(f64),
        /// Share of the time at which so many were in progress; missing if the trace is too short to tell.
        in_progress_share: MaybeReal(Option<f64>),
    }
}

table! {
    /// The queue, looked at every `every`, less often in a long trace.
    ActiveRow as "active" {
        /// When.
        time_s: Real(f64),
        /// Active flows.
        flows: Whole(u64),
        /// The most active flows since the row before.
        most_flows: Whole(u64),
        /// Packets that wait.
        backlog_packets: Whole(u64),
    }
}

table! {
    /// The number of flows in progress, looked at every `every`, less often in a long trace.
    ///
    /// The first and the last `idle_timeout` of a trace cannot tell, and are left out.
    ProgressRow as "in_progress" {
        /// When.
        time_s: Real(f64),
        /// Flows in progress.
        flows: Whole(u64),
    }
}

/// Every table, as documentation shows it.
pub(crate) fn catalog() -> Vec<TableDoc> {
    vec![
        TableDoc { name: "trace.summary", ..SummaryRow::DOC },
        TableDoc { name: "trace.distribution", ..DistributionRow::DOC },
        TableDoc { name: "trace.active", ..ActiveRow::DOC },
        TableDoc { name: "trace.in_progress", ..ProgressRow::DOC },
    ]
}

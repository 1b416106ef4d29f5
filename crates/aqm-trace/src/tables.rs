//! The tables of a replay and their schemas.
//!
//! Times are in seconds since the first packet. A flow is *active* while it has queued packets. As in the gauge of the
//! fair schedulers, the packet in transmission does not count.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// The replay in one row.
    ///
    /// Counts cover the whole trace; all other values cover the time after the warm-up.
    SummaryRow as "summary" {
        /// Rate of the link.
        rate_bps: Real(f64),
        /// Time from the first packet to the last.
        duration_s: Real(f64),
        /// Time after the warm-up.
        measured_s: Real(f64),
        /// Number of arriving packets.
        packets: Whole(u64),
        /// Bytes of the arriving packets.
        bytes: Whole(u64),
        /// Number of packets whose transmission began.
        sent: Whole(u64),
        /// Number of packets that the queue dropped.
        dropped: Whole(u64),
        /// Number of queued packets at the end.
        waiting: Whole(u64),
        /// Number of flows; the packets of a flow have one key and are no further apart than `idle_timeout`.
        flows: Whole(u64),
        /// Mean rate of the arriving packets.
        mean_rate_bps: Real(f64),
        /// Mean rate of the arriving packets as a share of the link's rate.
        load: Real(f64),
        /// Bytes sent as a share of the link's capacity.
        utilisation: Real(f64),
        /// Time average of the number of active flows.
        mean_active: Real(f64),
        /// Number of active flows that was not exceeded for 99.9 % of the time.
        p999_active: Whole(u64),
        /// Maximum number of active flows.
        most_active: Whole(u64),
        /// Time average of the number of flows in progress; missing if the trace is too short.
        mean_in_progress: MaybeReal(Option<f64>),
        /// Maximum number of flows in progress; missing if the trace is too short.
        most_in_progress: MaybeWhole(Option<u64>),
        /// Time average of the number of queued packets.
        mean_backlog_packets: Real(f64),
        /// Mean time of a packet from its arrival to the end of its transmission; missing if none was sent.
        mean_sojourn_s: MaybeReal(Option<f64>),
        /// 99th percentile of the time from arrival to the end of transmission, at most 1 % too long; missing if no
        /// packet was sent.
        p99_sojourn_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// Shares of the time at which each number of flows was active or in progress, after the warm-up.
    DistributionRow as "distribution" {
        /// Number of flows.
        flows: Whole(u64),
        /// Share of the time with this number of active flows.
        active_share: Real(f64),
        /// Share of the time with this number of flows in progress; missing if the trace is too short.
        in_progress_share: MaybeReal(Option<f64>),
    }
}

table! {
    /// The state of the queue, sampled at intervals of `every`, or at longer intervals in a long trace.
    ActiveRow as "active" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Number of active flows.
        flows: Whole(u64),
        /// Maximum number of active flows since the previous row.
        most_flows: Whole(u64),
        /// Number of queued packets.
        backlog_packets: Whole(u64),
    }
}

table! {
    /// The number of flows in progress, sampled at intervals of `every`, or at longer intervals in a long trace.
    ///
    /// The first and the last `idle_timeout` of a trace are excluded, because the number is not known there.
    ProgressRow as "in_progress" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Number of flows in progress.
        flows: Whole(u64),
    }
}

/// Returns the descriptions of all tables.
pub(crate) fn catalog() -> Vec<TableDoc> {
    vec![
        TableDoc { name: "trace.summary", ..SummaryRow::DOC },
        TableDoc { name: "trace.distribution", ..DistributionRow::DOC },
        TableDoc { name: "trace.active", ..ActiveRow::DOC },
        TableDoc { name: "trace.in_progress", ..ProgressRow::DOC },
    ]
}

//! The tables of a replay and their schemas.
//!
//! Times are in seconds since the first packet. A flow is *active* while packets of the flow are queued. As in the
//! corresponding gauge of the fair schedulers, the packet being transmitted does not count as queued.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// The results of the replay in one row.
    ///
    /// Counts cover the whole trace; all other values cover the time after the warm-up.
    SummaryRow as "summary" {
        /// Rate of the link.
        rate_bps: Real(f64),
        /// Time from the first packet to the last packet.
        duration_s: Real(f64),
        /// Time after the warm-up.
        measured_s: Real(f64),
        /// Number of arriving packets.
        packets: Whole(u64),
        /// Total size of the arriving packets.
        bytes: Whole(u64),
        /// Number of packets whose transmission began.
        sent: Whole(u64),
        /// Number of packets that the queue dropped.
        dropped: Whole(u64),
        /// Number of packets that were queued at the end of the replay.
        waiting: Whole(u64),
        /// Number of flows. The packets of a flow have the same key, and the times between consecutive packets do not
        /// exceed `idle_timeout`.
        flows: Whole(u64),
        /// Mean rate of the arriving packets.
        mean_rate_bps: Real(f64),
        /// Mean rate of the arriving packets, as a fraction of the link rate.
        load: Real(f64),
        /// Number of bytes sent, as a fraction of the number of bytes that the link could have sent.
        utilisation: Real(f64),
        /// Time average of the number of active flows.
        mean_active: Real(f64),
        /// 99.9th percentile of the number of active flows, over time.
        p999_active: Whole(u64),
        /// Maximum number of active flows.
        most_active: Whole(u64),
        /// Time average of the number of flows in progress; missing if the trace is too short.
        mean_in_progress: MaybeReal(Option<f64>),
        /// Maximum number of flows in progress; missing if the trace is too short.
        most_in_progress: MaybeWhole(Option<u64>),
        /// Time average of the number of queued packets.
        mean_backlog_packets: Real(f64),
        /// Mean time from a packet's arrival to the end of its transmission; missing if no packet was sent.
        mean_sojourn_s: MaybeReal(Option<f64>),
        /// 99th percentile of the time from a packet's arrival to the end of its transmission; missing if no packet was
        /// sent. The value is at most 1 % too large.
        p99_sojourn_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// For each number of flows, the fraction of the time after the warm-up during which exactly this number of flows
    /// was active or in progress.
    DistributionRow as "distribution" {
        /// Number of flows.
        flows: Whole(u64),
        /// Fraction of the time during which this number of flows was active.
        active_share: Real(f64),
        /// Fraction of the time during which this number of flows was in progress; missing if the trace is too short.
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
    /// An interval of `idle_timeout` at the start of a trace and another at its end are excluded, because the number of
    /// flows in progress is not known in these intervals.
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

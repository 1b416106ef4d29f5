//! The tables of a run at flow level and their schemas.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// A flow.
    ///
    /// This table contains rows only if `record.flows` is true.
    FlowRow as "flows" {
        /// Number of the flow, in the order of arrival.
        flow: Whole(u64),
        /// Traffic class of the flow.
        traffic: Word(u32),
        /// Arrival time.
        start_s: Real(f64),
        /// Size of the flow.
        size_bytes: Whole(u64),
        /// Duration of the flow; missing if the flow was still in progress at the end of the run.
        duration_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// The number of flows in progress, sampled at the interval `record.every` and before other events that have the
    /// same time.
    SampleRow as "in_progress" {
        /// Time of the sample.
        time_s: Real(f64),
        /// Traffic class.
        traffic: Word(u32),
        /// Number of flows in progress.
        flows: Whole(u64),
    }
}

table! {
    /// For each number of flows, the time after the warm-up during which exactly this number of flows was in progress.
    DistributionRow as "distribution" {
        /// Traffic class; `elastic` for all elastic flows together.
        traffic: Word(u32),
        /// Number of flows in progress.
        flows: Whole(u64),
        /// Time during which this number of flows was in progress.
        time_s: Real(f64),
        /// Fraction of the time after the warm-up during which this number of flows was in progress.
        share: Real(f64),
    }
}

table! {
    /// Totals and means of a traffic class for the time after the warm-up.
    ClassRow as "classes" {
        /// Traffic class.
        traffic: Word(u32),
        /// Nominal load, as a fraction of the capacity.
        load: Real(f64),
        /// Number of flows that arrived.
        flows: Whole(u64),
        /// Number of flows that arrived after the warm-up and completed before the end of the run.
        completed: Whole(u64),
        /// Total size of the flows that arrived.
        offered_bytes: Whole(u64),
        /// Bytes that the link carried.
        carried_bytes: Real(f64),
        /// Time average of the number of flows in progress.
        mean_in_progress: Real(f64),
        /// Mean duration of the flows that arrived after the warm-up and completed before the end of the run; missing
        /// if there are no such flows.
        mean_duration_s: MaybeReal(Option<f64>),
        /// Mean throughput of a flow: the number of carried bits divided by the sum of the times for which flows were
        /// in progress. By Little's law, this ratio equals the mean size divided by the mean duration. The value is
        /// missing if no flow was in progress.
        mean_throughput_bps: MaybeReal(Option<f64>),
    }
}

table! {
    /// Load and utilisation of the link for the time after the warm-up.
    LinkRow as "links" {
        /// Capacity of the link.
        capacity_bps: Real(f64),
        /// Nominal load of all traffic.
        load: Real(f64),
        /// Nominal load of the streaming traffic.
        streaming_load: Real(f64),
        /// Bytes that the link carried.
        carried_bytes: Real(f64),
        /// Carried bytes as a fraction of the bytes that the link could have carried.
        utilisation: Real(f64),
        /// Fraction of the time during which at least one flow was in progress.
        busy: Real(f64),
        /// Fraction of the time during which the sum of the peak rates of the flows in progress was at least the
        /// capacity.
        saturated: Real(f64),
        /// Time average of the number of elastic flows in progress.
        mean_in_progress: Real(f64),
    }
}

/// Returns the descriptions of all tables.
pub fn catalog() -> Vec<TableDoc> {
    vec![
        TableDoc { name: "flow-level.flows", ..FlowRow::DOC },
        TableDoc { name: "flow-level.in_progress", ..SampleRow::DOC },
        TableDoc { name: "flow-level.distribution", ..DistributionRow::DOC },
        TableDoc { name: "flow-level.classes", ..ClassRow::DOC },
        TableDoc { name: "flow-level.links", ..LinkRow::DOC },
    ]
}

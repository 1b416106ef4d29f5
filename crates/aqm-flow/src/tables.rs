//! What a run at flow level leaves behind: the schema of every table.

use aqm_net::table;
use aqm_net::table::{Row, TableDoc};

table! {
    /// A flow.
    ///
    /// Filled if `record.flows` is true.
    FlowRow as "flows" {
        /// Number of the flow, in the order of arrival.
        flow: Whole(u64),
        /// The traffic it belongs to.
        traffic: Word(u32),
        /// When it came.
        start_s: Real(f64),
        /// Its size.
        size_bytes: Whole(u64),
        /// How long it took; missing if it was in progress at the end.
        duration_s: MaybeReal(Option<f64>),
    }
}

table! {
    /// The number of flows in progress, looked at every `record.every`, before what happens at that moment.
    SampleRow as "in_progress" {
        /// When.
        time_s: Real(f64),
        /// The traffic.
        traffic: Word(u32),
        /// Its flows in progress.
        flows: Whole(u64),
    }
}

table! {
    /// For how much of the time after the warm-up how many flows were in progress.
    DistributionRow as "distribution" {
        /// The traffic; `elastic` for all flows together that share the link.
        traffic: Word(u32),
        /// The number of flows in progress.
        flows: Whole(u64),
        /// Time at that number.
        time_s: Real(f64),
        /// Share of the time.
        share: Real(f64),
    }
}

table! {
    /// The traffic of one kind, after the warm-up.
    ClassRow as "classes" {
        /// The traffic.
        traffic: Word(u32),
        /// Its nominal load, a share of the capacity.
        load: Real(f64),
        /// Flows that came.
        flows: Whole(u64),
        /// Of those, done by the end.
        completed: Whole(u64),
        /// Bytes of the flows that came.
        offered_bytes: Whole(u64),
        /// Bytes the link carried.
        carried_bytes: Real(f64),
        /// Time average of the number in progress.
        mean_in_progress: Real(f64),
        /// Mean time of the flows that came after the warm-up and were done by the end; missing if there is none.
        mean_duration_s: MaybeReal(Option<f64>),
        /// Throughput of flows: bits carried over the time that flows were in progress, which by Little's
        /// law is the mean size over the mean time; missing if no flow was in progress.
        mean_throughput_bps: MaybeReal(Option<f64>),
    }
}

table! {
    /// The link, after the warm-up.
    LinkRow as "links" {
        /// Its capacity.
        capacity_bps: Real(f64),
        /// The nominal load of all traffic.
        load: Real(f64),
        /// Of that, streaming.
        streaming_load: Real(f64),
        /// Bytes carried.
        carried_bytes: Real(f64),
        /// Carried bytes, as a share of what the capacity allows.
        utilisation: Real(f64),
        /// Share of the time with a flow in progress.
        busy: Real(f64),
        /// Share of the time in which the peak rates of the flows in progress added up to the capacity or
        /// more.
        saturated: Real(f64),
        /// Time average of the elastic flows in progress.
        mean_in_progress: Real(f64),
    }
}

/// Every table, as documentation shows it.
pub fn catalog() -> Vec<TableDoc> {
    vec![
        TableDoc { name: "flow-level.flows", ..FlowRow::DOC },
        TableDoc { name: "flow-level.in_progress", ..SampleRow::DOC },
        TableDoc { name: "flow-level.distribution", ..DistributionRow::DOC },
        TableDoc { name: "flow-level.classes", ..ClassRow::DOC },
        TableDoc { name: "flow-level.links", ..LinkRow::DOC },
    ]
}

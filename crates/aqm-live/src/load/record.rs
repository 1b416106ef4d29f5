//! What the ends report, and what a load leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use aqm_net::Instant;
use aqm_sim::emulation::EndCounts;
use aqm_traffic::Transfer;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::datagrams::Received;
use super::tcp_info::TcpInfo;
use crate::router::lateness::Lateness;

/// What an end, or whoever runs the load, tells the thread of the workloads.
#[derive(Debug)]
pub(super) enum Report {
    /// Something happened to a job.
    Job { number: u32, at: Instant, event: Event },
    /// Something happened that belongs to no job.
    Trouble { traffic: u32, at: Instant, reason: String },
    /// Somebody is to be woken.
    Sleep { until: Instant, wake: oneshot::Sender<()> },
    /// An end has done what it was told before [`Command::Echo`](super::end::Command::Echo).
    Echo,
    /// All is to be cut off.
    Stop,
}

/// What happens to a job.
#[derive(Debug)]
pub(super) enum Event {
    /// It has an address, and its connection opens.
    Opened(SocketAddrV4),
    /// A request goes out.
    Asked,
    /// All data have arrived of what is sent unasked, or of the present response, whose first byte came then.
    Arrived(Option<Instant>),
    /// It will never be done.
    Failed(String),
    /// What the kernel says of the end where data come from, in the end.
    Info(TcpInfo),
    /// What arrived of a stream of datagrams.
    Received(Received),
}

/// Something that a workload asked for, and what became of it: a transfer, a conversation or a stream of datagrams.
/// Each has a connection, or ports, of its own.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The position of the workload.
    pub traffic: u32,
    /// What it asked for. That of a conversation has the bytes of all its responses; that of a stream of datagrams
    /// has no size, and the stream's number as its host.
    pub transfer: Transfer,
    /// When the end that opened it did so; when it was asked for, if that end never came so far.
    pub opened: Instant,
    /// The address of the end that opened it, if it came so far as to have one.
    pub local: Option<SocketAddrV4>,
    /// The address of the other end.
    pub remote: SocketAddrV4,
    /// When the last byte had been read; nothing if it was not, or if it never ends.
    pub done: Option<Instant>,
    /// Why it will never be done; nothing if it is done, or was not when the run ended.
    pub failed: Option<String>,
    /// What the end where data come from has counted.
    pub ends: EndCounts,
    /// What else its kernel says of it, as it closed or was cut off; nothing if it had no connection.
    pub tcp: Option<TcpInfo>,
    /// What was asked and answered over it, in turn; empty if it was sent unasked.
    pub exchanges: Vec<Exchanged>,
    /// What arrived of a stream of datagrams.
    pub received: Option<Received>,
}

/// A request and its response, and when the client had what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// Bytes of the request.
    pub request: u64,
    /// Bytes of the response, if it ends.
    pub response: Option<u64>,
    /// When the client sent the request; for the first one, when it opened the connection. Nothing if it has not.
    pub asked: Option<Instant>,
    /// When it had the first byte of the response.
    pub first_byte: Option<Instant>,
    /// When it had the last one.
    pub done: Option<Instant>,
}

/// What a load says of itself.
pub struct Facts {
    /// How late workloads were woken.
    pub wakes: Lateness,
    /// The workloads, by position.
    pub workloads: Vec<WorkloadFacts>,
}

/// What is known of one workload beside what it asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFacts {
    /// Its name in the scenario.
    pub name: String,
    /// What it says of its load.
    pub load: Vec<(&'static str, f64)>,
    /// How often something failed, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The congestion controls that were in force where data come from.
    pub congestion_controls: BTreeSet<String>,
    /// Requests, responses and datagrams that have more bytes than the workload asked for, because headers alone have.
    pub lengthened: u64,
}

impl Facts {
    /// For the record of a run.
    pub fn to_value(&self) -> Value {
        let of = |one: &WorkloadFacts| {
            let load: Map<String, Value> =
                one.load.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect();
            let facts = json!({
                "load": load,
                "failures": one.failures,
                "congestion_controls": one.congestion_controls,
                "lengthened": one.lengthened,
            });
            (one.name.clone(), facts)
        };
        let workloads: Map<String, Value> = self.workloads.iter().map(of).collect();
        let micros = |share: f64| self.wakes.quantile(share).nanos() as f64 / 1e3;
        let wakes = json!({
            "count": self.wakes.count(),
            "late_p50_us": micros(0.5),
            "late_p99_us": micros(0.99),
            "late_max_us": micros(1.0),
            "stalls": self.wakes.stalls(),
        });
        json!({ "wakes": wakes, "workloads": workloads })
    }
}

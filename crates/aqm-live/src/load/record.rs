//! The reports of ends, and the records of a load.

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

/// A report to the thread of the workloads, from an end or from the owner of the load.
#[derive(Debug)]
pub(super) enum Report {
    /// An event of a job.
    Job { number: u32, at: Instant, event: Event },
    /// An error that belongs to no job.
    Error { traffic: u32, at: Instant, reason: String },
    /// A request to be woken up.
    Sleep { until: Instant, wake: oneshot::Sender<()> },
    /// An endpoint has processed all commands before [`Command::Echo`](super::end::Command::Echo).
    Echo,
    /// The load must stop.
    Stop,
}

/// An event of a job.
#[derive(Debug)]
pub(super) enum Event {
    /// The job has an address, and its connection is being opened.
    Opened(SocketAddrV4),
    /// A request is sent.
    Requested,
    /// All data of a transfer without a request have arrived, or all data of the current response, whose first byte
    /// arrived at this time.
    Arrived(Option<Instant>),
    /// The job has failed.
    Failed(String),
    /// The kernel's final state of the sender of the data.
    Info(TcpInfo),
    /// Counts of a received datagram stream.
    Received(Received),
}

/// A request of a workload and its outcome: a transfer, a conversation or a datagram stream. Each has its own
/// connection or ports.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// Position of the workload.
    pub traffic: u32,
    /// The request. For a conversation, it has the bytes of all responses. For a datagram stream, it has no size, and
    /// its host is the number of the stream.
    pub transfer: Transfer,
    /// Time at which the end opened the connection, or the time of the request if the end never did.
    pub opened: Instant,
    /// Address of the end that opened the connection, if it got one.
    pub local: Option<SocketAddrV4>,
    /// Address of the other end.
    pub remote: SocketAddrV4,
    /// Time at which the last byte had been read; `None` if it was not, or if the transfer is endless.
    pub completed: Option<Instant>,
    /// Reason of a failure; `None` if the request is complete, or was incomplete at the end of the run.
    pub failed: Option<String>,
    /// Counts of the sender of the data.
    pub ends: EndCounts,
    /// Kernel state of the sender of the data when it closed or was stopped; `None` if it had no connection.
    pub tcp: Option<TcpInfo>,
    /// The exchanges over the connection, in order; empty for a transfer without a request.
    pub exchanges: Vec<ExchangeRecord>,
    /// Counts of a received datagram stream.
    pub received: Option<Received>,
}

/// A request and its response, as seen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Bytes of the request.
    pub request: u64,
    /// Bytes of the response, unless it is endless.
    pub response: Option<u64>,
    /// Time at which the client sent the request, or opened the connection for the first request; `None` if it has not.
    pub requested_at: Option<Instant>,
    /// Time at which the client received the first byte of the response.
    pub first_byte: Option<Instant>,
    /// Time at which the client received the last byte of the response.
    pub completed: Option<Instant>,
}

/// Facts about a load.
pub struct Facts {
    /// The delays of the workloads' wake-ups.
    pub wakes: Lateness,
    /// The workloads, by position.
    pub workloads: Vec<WorkloadFacts>,
}

/// Facts about one workload, in addition to its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFacts {
    /// Name in the scenario.
    pub name: String,
    /// The workload's facts about its load.
    pub load: Vec<(&'static str, f64)>,
    /// Number of failures, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The congestion controls in force at the sender of the data.
    pub congestion_controls: BTreeSet<String>,
    /// Number of requests, responses and datagrams that have more bytes than requested, because their headers alone are
    /// longer.
    pub lengthened: u64,
}

impl Facts {
    /// Returns the facts in the form of the manifest.
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

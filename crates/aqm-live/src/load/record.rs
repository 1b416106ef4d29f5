//! The reports that ends send to the thread that runs the workloads, and the records of a load.

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

/// A report that an end or the owner of the load sends to the thread that runs the workloads.
#[derive(Debug)]
pub(super) enum Report {
    /// An event of a job.
    Job { number: u32, at: Instant, event: Event },
    /// An error that is not related to a job.
    Error { traffic: u32, at: Instant, reason: String },
    /// A sleeping connection requests a wake-up at `until`.
    Sleep { until: Instant, wake: oneshot::Sender<()> },
    /// An end has processed all commands before [`Command::Echo`](super::end::Command::Echo).
    Echo,
    /// The load must stop.
    Stop,
}

/// An event of a job.
#[derive(Debug)]
pub(super) enum Event {
    /// The connection of the job is being opened from this local address.
    Opened(SocketAddrV4),
    /// The client sends a request.
    Requested,
    /// All data of the current response, or of a transfer without a request, have arrived. For a response, the value is
    /// the arrival time of the first byte.
    Arrived(Option<Instant>),
    /// The job has failed.
    Failed(String),
    /// The final kernel state of the connection at the sender of the data.
    Info(TcpInfo),
    /// Counts of a received datagram stream.
    Received(Received),
}

/// A workload's request (for a transfer, a conversation or a datagram stream) and its outcome. Each request has its own
/// connection or, for a datagram stream, its own ports.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// Position of the workload.
    pub traffic: u32,
    /// The requested transfer. For a conversation, the size is the total size of all responses. For a datagram stream,
    /// the transfer has no size, and `host` is the number of the stream.
    pub transfer: Transfer,
    /// Time at which the connection was opened, or the time of the request if no connection was opened.
    pub opened: Instant,
    /// Address of the end that opened the connection; `None` if no address was assigned to the end.
    pub local: Option<SocketAddrV4>,
    /// Address of the end that accepted the connection.
    pub remote: SocketAddrV4,
    /// Time at which the last byte was read; `None` if the last byte was not read before the end of the run, or if the
    /// transfer is endless.
    pub completed: Option<Instant>,
    /// Reason why the request failed; `None` if the request completed or was still in progress at the end of the run.
    pub failed: Option<String>,
    /// Counts for the TCP connection at the sender of the data.
    pub ends: EndCounts,
    /// The kernel state of the connection at the sender of the data, read when the sender closed the connection or was
    /// stopped; `None` if the sender had no connection.
    pub tcp: Option<TcpInfo>,
    /// The exchanges over the connection, in order; empty for a transfer without a request.
    pub exchanges: Vec<ExchangeRecord>,
    /// Counts of a received datagram stream.
    pub received: Option<Received>,
}

/// A request and its response, with times measured by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Bytes of the request.
    pub request: u64,
    /// Bytes of the response; `None` if the response is endless.
    pub response: Option<u64>,
    /// Time at which the client sent the request or, for the first request, opened the connection; `None` if the client
    /// did not send the request.
    pub requested_at: Option<Instant>,
    /// Time at which the client received the first byte of the response.
    pub first_byte: Option<Instant>,
    /// Time at which the client received the last byte of the response.
    pub completed: Option<Instant>,
}

/// Facts about a load, for the manifest.
pub struct Facts {
    /// Lateness of the workloads' wake-ups.
    pub wakes: Lateness,
    /// The workloads, by position.
    pub workloads: Vec<WorkloadFacts>,
}

/// Facts about one workload that are not part of the records of its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFacts {
    /// Name of the workload in the scenario.
    pub name: String,
    /// Names and values that the workload reports about its load.
    pub load: Vec<(&'static str, f64)>,
    /// Number of failures, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The congestion controls that the kernel used at the sender of the data.
    pub congestion_controls: BTreeSet<String>,
    /// Number of requests, responses and datagrams that are larger than specified because the headers alone exceed the
    /// specified size.
    pub lengthened: u64,
}

impl Facts {
    /// Returns the facts in the format of the manifest.
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

//! Workloads: the traffic sources of a scenario. A workload opens transfers and sends datagrams through a
//! [`TrafficContext`]. Workloads are independent of queues, protocols and topologies.
//!
//! A workload is a file in `workloads/` with a `Config`, and an entry in the registry below.

pub mod description;
pub mod distributions;
mod even_gaps;
mod fetching;
mod parameters;
pub mod recording;
#[cfg(test)]
mod testing;
mod wire;
mod workloads;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Size, Span, Streams, registry};
use dyn_clone::DynClone;

use crate::description::Application;
use crate::workloads::*;

registry! {
    /// The parameters of a workload of any kind.
    pub enum Config: Build, "traffic" = "traffic" {
        "ftp" => ftp,
        "web" => web,
        "replay" => replay,
        "udp" => udp,
        "streaming" => streaming,
        "sessions" => sessions,
        "probes" => probes,
        "packmime" => packmime,
        "video" => video,
        "call" => call,
        "program" => program,
    }
}

/// Operations on the `Config` of every workload.
pub trait Build {
    /// Checks all parameters and creates the running workload.
    ///
    /// # Errors
    /// The invalid field and the allowed values.
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError>;

    /// Whether every flow has its own host (and access links); otherwise all flows of the workload share one host on
    /// each side.
    fn own_hosts(&self) -> bool;

    /// Maximum number of flows with their own hosts, so that the topology can be built in advance.
    fn hosts(&self) -> u64 {
        1
    }

    /// Whether the workload sends datagrams instead of using TCP.
    fn sends_datagrams(&self) -> bool {
        false
    }

    /// Whether the workload's transfers are parts of pages.
    fn fetches_pages(&self) -> bool {
        false
    }

    /// Whether the objects of a page share connections.
    fn shares_connections(&self) -> bool {
        false
    }

    /// Whether the workload's transfers never end.
    fn is_endless(&self) -> bool {
        false
    }

    /// Name of the parameter that sets the number of new connections per second, if there is one.
    fn connection_rate(&self) -> Option<&'static str> {
        None
    }

    /// Audio or video that the workload carries, if any.
    fn application(&self) -> Option<Application> {
        None
    }

    /// The reason why the workload cannot run live, over real sockets; `None` if it can.
    fn simulated_only(&self) -> Option<&'static str> {
        None
    }

    /// The user programs of a workload that runs only live.
    fn programs(&self) -> Option<Programs<'_>> {
        None
    }

    /// Name of the file that the workload reads, if any.
    fn file(&self) -> Option<&str> {
        None
    }
}

/// User programs of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs<'a> {
    /// Command and arguments of the program at the receiving end of the data; empty if there is none.
    pub client: &'a [String],
    /// Command and arguments of the program at the sending end of the data.
    pub server: &'a [String],
    /// Earliest start of the client.
    pub start: Span,
}

/// The environment from which a workload is built.
pub struct BuildContext<'a> {
    /// Name of the workload in its scenario, from which the names of its random streams are derived.
    pub name: &'a str,
    /// Random streams of the run.
    pub streams: Streams,
    /// Rate of the bottleneck; a load is a share of this rate.
    pub rate: Rate,
    /// Duration of the run.
    pub duration: Span,
    /// Packetisation of transfers.
    pub packetisation: &'a dyn Packetisation,
    /// Size of the link header, which is part of each packet's size.
    pub link_header: Size,
    /// Content of the file that the workload names, if any.
    pub file: Option<&'a str>,
}

/// The packetisation of a transport, as needed to compute a load.
pub trait Packetisation {
    /// Returns the bytes on the wire of the first transmission of a transfer of `bytes`, in the direction of the data,
    /// including connection set-up.
    fn wire_bytes(&self, bytes: u64) -> u64;
    /// Returns the payload bytes of a full packet.
    fn payload(&self) -> u64;
}

/// A traffic source. A newly built workload is also a prototype: each run uses a clone.
pub trait Workload: DynClone + Send + Sync {
    /// Starts the run; the workload must request its first wake-up.
    fn start(&mut self, cx: &mut dyn TrafficContext);

    /// Processes a requested wake-up.
    fn on_wake(&mut self, cx: &mut dyn TrafficContext);

    /// Processes the arrival of a transfer's last byte.
    fn on_done(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// Processes the failure of a transfer, whose connection TCP has given up.
    fn on_failed(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// Processes a complete response of a numbered conversation; `on_done` is not called for these responses.
    fn on_response(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// Processes the failure of a numbered conversation, whose connection TCP has given up.
    fn on_connection_failed(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// Passes facts about the load to `show`, with their names: nominal and realised values.
    fn facts(&self, _show: &mut dyn FnMut(&'static str, f64)) {}
}

dyn_clone::clone_trait_object!(Workload);

/// Actions that a workload can request. The requests are carried out in order, after the workload's method returns.
pub trait TrafficContext {
    /// Returns the present time.
    fn now(&self) -> Instant;

    /// Wakes the workload at `at`; every request causes a wake-up.
    fn wake_at(&mut self, at: Instant);

    /// Opens a connection and sends `transfer` over it.
    fn open(&mut self, transfer: Transfer);

    /// Opens a connection for `conversation`; each of its exchanges is a transfer.
    fn converse(&mut self, conversation: Conversation);

    /// Adds an exchange to the conversation with this number. The request is ignored if the conversation is finished or
    /// over.
    fn request(&mut self, number: u32, exchange: Exchange);

    /// Finishes the conversation with this number: its connection closes after the last requested exchange.
    fn finish(&mut self, number: u32);

    /// Sends a datagram of `bytes` on the wire over the workload's flow number `flow`, counted from zero.
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn);

    /// Sends a datagram in the backward direction, from the receiving end of the workload's data, over flow number
    /// `flow` of that direction, counted from zero. Flows with equal numbers in both directions connect the same hosts.
    fn datagram_back(&mut self, flow: u32, bytes: u16, ecn: Ecn);
}

/// A data transfer over its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payload bytes; `None` means without end.
    pub bytes: Option<u64>,
    /// Size of the request in bytes: the receiving end of the data opens the connection and sends the request first.
    /// With `None`, the sending end opens the connection and sends the data immediately.
    pub request: Option<u32>,
    /// Page to which the transfer belongs, counted from zero within the workload.
    pub page: Option<u64>,
    /// Number of transfers of the page.
    pub page_objects: u32,
    /// Number of the workload's host, counted from zero; 0 if the flows share one host.
    pub host: u32,
}

/// A sequence of requests and responses over one connection. The client is at the receiving end of the data. The client
/// opens the connection, and the server closes it with its last response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Number of a conversation to which the workload may add exchanges with [`request`](TrafficContext::request) and
    /// which it will [`finish`](TrafficContext::finish). The number must differ from those of the workload's other conversations
    /// in progress.
    pub number: Option<u32>,
    /// Page to which all responses belong, counted from zero within the workload.
    pub page: Option<u64>,
    /// Number of transfers of the page; 1 without a page.
    pub page_objects: u32,
    /// First exchange, for which the connection is opened.
    pub first: Exchange,
    /// Further exchanges; each begins after its pause, when the client has received the previous response.
    pub rest: Vec<Exchange>,
    /// Additional one-way delay of each packet between the client's host and its router.
    pub client_delay: Span,
    /// Additional one-way delay of each packet between the server's host and its router.
    pub server_delay: Span,
    /// Number of the workload's host, counted from zero; 0 if the flows share one host.
    pub host: u32,
}

impl Conversation {
    /// Returns a conversation of one exchange on the first host, without a number, a page or additional delays.
    pub fn single(first: Exchange) -> Self {
        Self {
            number: None,
            page: None,
            page_objects: 1,
            first,
            rest: Vec::new(),
            client_delay: Span::ZERO,
            server_delay: Span::ZERO,
            host: 0,
        }
    }
}

/// A request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Pause of the client after the previous response; the first request is sent immediately.
    pub pause: Span,
    /// Bytes of the request.
    pub request: u64,
    /// Delay of the server between the complete request and its response.
    pub think: Span,
    /// Bytes of the response.
    pub response: u64,
}

impl Exchange {
    /// Returns an exchange without delays at its ends; the sizes are in bytes.
    pub fn immediate(request: u64, response: u64) -> Self {
        Self { pause: Span::ZERO, request, think: Span::ZERO, response }
    }
}

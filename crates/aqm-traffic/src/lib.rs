//! Workloads, which are the traffic sources of a scenario. A workload opens transfers and sends datagrams through a
//! [`TrafficContext`]. Workloads are independent of queues, protocols and topologies.
//!
//! Each workload consists of a file in `workloads/` that contains a `Config`, and an entry in the registry below.

pub mod call_record;
mod datagram_ecn;
pub mod description;
pub mod distributions;
mod even_gaps;
mod fetching;
pub mod guest_record;
pub mod http;
pub mod page_record;
mod parameters;
pub mod probe_record;
pub mod rate_control;
pub mod recording;
mod schedule;
#[cfg(test)]
mod testing;
mod wire;
mod workloads;

use aqm_guest::{Guest, Origin};
use aqm_net::{ConfigError, Ecn, Instant, Rate, Size, Span, Streams, registry};
use dyn_clone::DynClone;

use crate::call_record::CallRecord;
use crate::description::Application;
use crate::guest_record::GuestRecord;
use crate::http::{DEFAULT_URGENCY, Priority, TransportNeed};
use crate::page_record::PageRecord;
use crate::probe_record::ProbeRecord;
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
        "video-call" => video_call,
        "responsiveness" => responsiveness,
        "program" => program,
        "recorded-page" => recorded_page,
        "guest" => guest,
    }
}

/// Operations that the `Config` of every workload supports.
pub trait Build {
    /// Checks all parameters and creates the workload.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError>;

    /// Returns whether every flow has its own host and access link on each side. If false, all flows of the workload
    /// share one host on each side.
    fn own_hosts(&self) -> bool;

    /// Returns the maximum number of flows that have their own hosts, so that the topology can be built in advance.
    fn hosts(&self) -> u64 {
        1
    }

    /// Returns whether the workload sends datagrams instead of using TCP.
    fn sends_datagrams(&self) -> bool {
        false
    }

    /// Returns whether the workload handles the arrival of its datagrams.
    fn observes_datagrams(&self) -> bool {
        false
    }

    /// Returns whether the workload's transfers are parts of pages.
    fn fetches_pages(&self) -> bool {
        false
    }

    /// Returns whether the workload records the loads of its pages and the times of their objects.
    fn records_pages(&self) -> bool {
        false
    }

    /// Returns whether the objects of a page share connections.
    fn shares_connections(&self) -> bool {
        false
    }

    /// Returns the property that the workload's transport must have, because of the version of HTTP that the workload
    /// uses; `None` if any transport is suitable.
    fn transport(&self) -> Option<TransportNeed> {
        None
    }

    /// Returns whether the workload's transfers never end.
    fn is_endless(&self) -> bool {
        false
    }

    /// Returns the name of the parameter that sets the number of new connections per second; `None` if there is no such
    /// parameter.
    fn connection_rate(&self) -> Option<&'static str> {
        None
    }

    /// Returns the application whose quality can be computed; `None` if the workload is not such an application.
    fn application(&self) -> Option<Application> {
        None
    }

    /// Returns the reason why the workload cannot run live (over real sockets); `None` if the workload can run live.
    fn simulated_only(&self) -> Option<&'static str> {
        None
    }

    /// Returns the user programs of the workload; `None` if the workload can be simulated.
    fn programs(&self) -> Option<Programs<'_>> {
        None
    }

    /// Returns whether the workload consists of guests, which are transport implementations of other projects.
    fn has_guests(&self) -> bool {
        false
    }

    /// Returns the name and the version of the library whose results the workload's results depend on; `None` if there
    /// is no such library.
    fn library(&self) -> Option<String> {
        None
    }

    /// Returns the commands of the programs that are guests of the workload: of the client, and of the server.
    fn guest_programs(&self) -> Option<[&[String]; 2]> {
        None
    }

    /// Returns the name of the file that the workload reads; `None` if the workload does not read a file.
    fn file(&self) -> Option<&str> {
        None
    }
}

/// User programs that are started in a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs<'a> {
    /// Command and arguments of the program that receives the data; empty if there is no such program.
    pub client: &'a [String],
    /// Command and arguments of the program that sends the data.
    pub server: &'a [String],
    /// Earliest start of the client program.
    pub start: Span,
}

/// The properties of a run that are needed to build a workload.
pub struct BuildContext<'a> {
    /// Name of the workload in the scenario. The names of the workload's random streams are derived from this name.
    pub name: &'a str,
    /// Random streams of the run.
    pub streams: Streams,
    /// Rate of the bottleneck. Loads are fractions of this rate.
    pub rate: Rate,
    /// Duration of the run.
    pub duration: Span,
    /// How transfers are divided into packets.
    pub packetisation: &'a dyn Packetisation,
    /// Size of the link header, which is included in each packet's size.
    pub link_header: Size,
    /// Contents of the file that the workload reads; `None` if the workload does not read a file.
    pub file: Option<&'a str>,
}

/// The properties of a transport protocol that are needed to compute a load, namely how the protocol divides a transfer
/// into packets.
pub trait Packetisation {
    /// Returns the number of bytes on the wire, in the direction of the data, that a transfer of `bytes` needs without
    /// retransmissions, including connection set-up.
    fn wire_bytes(&self, bytes: u64) -> u64;
    /// Returns the number of payload bytes in a full-sized packet.
    fn payload(&self) -> u64;
}

/// A traffic source. A newly built workload also serves as a prototype, because each run uses a clone of this workload.
pub trait Workload: DynClone + Send + Sync {
    /// Starts the run. The workload must request its first wake-up.
    fn start(&mut self, cx: &mut dyn TrafficContext);

    /// Handles a wake-up that the workload has requested.
    fn on_wake(&mut self, cx: &mut dyn TrafficContext);

    /// Handles the arrival of a transfer's last byte.
    fn on_done(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// Handles the failure of a transfer whose connection TCP has given up on.
    fn on_failed(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// Handles a complete response in a numbered conversation. `on_done` is not called for these responses.
    fn on_response(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// Handles the first byte of a response in a numbered conversation with streams. `exchange` is the position of the
    /// exchange in the conversation, counted from zero in the order of the requests.
    fn on_first_byte(&mut self, _number: u32, _exchange: u32, _cx: &mut dyn TrafficContext) {}

    /// Handles a complete response in a numbered conversation with streams. `exchange` is the position of the exchange
    /// in the conversation, counted from zero in the order of the requests.
    fn on_stream_response(&mut self, number: u32, _exchange: u32, cx: &mut dyn TrafficContext) {
        self.on_response(number, cx);
    }

    /// Handles the failure of a numbered conversation whose connection TCP has given up on.
    fn on_connection_failed(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// Handles the arrival of a datagram at its receiver. This method is called only if
    /// [`observes_datagrams`](Build::observes_datagrams) returns true.
    fn on_datagram(&mut self, _arrived: &ArrivedDatagram, _cx: &mut dyn TrafficContext) {}

    /// Handles the drop of the datagram `number` of the flow number `flow`. `back` states whether the flow is a backward
    /// flow. This method is called only if [`observes_datagrams`](Build::observes_datagrams) returns true.
    fn on_datagram_dropped(&mut self, _flow: u32, _back: bool, _number: u64) {}

    /// Handles the end of the run. The workload can only request that the run fail.
    fn on_end(&mut self, _cx: &mut dyn TrafficContext) {}

    /// Passes the names and values of facts about the load to `show`. The facts include nominal values and realised
    /// values.
    fn facts(&self, _show: &mut dyn FnMut(&'static str, f64)) {}

    /// Returns the records of calls; empty if the workload does not record calls.
    fn call_records(&self) -> Vec<&CallRecord> {
        Vec::new()
    }

    /// Returns the record of a test of responsiveness; `None` if the workload is not such a test.
    fn probe_record(&self) -> Option<&ProbeRecord> {
        None
    }

    /// Returns the record of guests; `None` if the workload does not consist of guests.
    fn guest_record(&self) -> Option<&GuestRecord> {
        None
    }

    /// Returns the record of pages; `None` if the workload does not record pages.
    fn page_record(&self) -> Option<&PageRecord> {
        None
    }
}

dyn_clone::clone_trait_object!(Workload);

/// Actions that a workload can request. The actions are executed in order after the workload's method has returned.
pub trait TrafficContext {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Requests a wake-up of the workload at `at`. Every request causes one wake-up.
    fn wake_at(&mut self, at: Instant);

    /// Opens a connection and sends `transfer` over the connection.
    fn open(&mut self, transfer: Transfer);

    /// Opens a connection for `conversation`. Each exchange of the conversation is a transfer.
    fn converse(&mut self, conversation: Conversation);

    /// Adds an exchange to the conversation with this number. The request is ignored if the workload has finished the
    /// conversation or if the conversation has ended.
    fn request(&mut self, number: u32, exchange: Exchange);

    /// Finishes the conversation with this number. The conversation's connection closes after the last requested
    /// exchange.
    fn finish(&mut self, number: u32);

    /// Ends the conversation with this number at once. Both ends of the connection stop sending, and neither the
    /// exchanges in progress nor the connection are reported to the workload any more.
    fn reset(&mut self, number: u32);

    /// Returns the state of the connection of the conversation with this number; `None` if there is no such
    /// conversation. A conversation that the workload opens during the same call does not have a connection yet.
    fn connection(&self, number: u32) -> Option<ConnectionState>;

    /// Sends a datagram, whose length on the wire is `bytes` bytes, over the workload's flow number `flow`; numbers
    /// start at zero.
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn);

    /// Sends a datagram in the backward direction (from the receiver of the workload's data) over the backward flow
    /// number `flow`; numbers start at zero. A forward flow and a backward flow with the same number connect the same
    /// hosts.
    fn datagram_back(&mut self, flow: u32, bytes: u16, ecn: Ecn);

    /// Sets the congestion window, in segments, that the datagrams of the workload's flow number `flow` report from now
    /// on; by default, they report no window.
    fn report_window(&mut self, flow: u32, segments: u16);

    /// Creates a guest.
    ///
    /// # Errors
    /// Returns a description of the error, and of the remedy, if the guest is not available.
    fn guest(&self, origin: &Origin<'_>) -> Result<Box<dyn Guest>, String>;

    /// Ends the run with an error. `report` describes the circumstances of the error.
    fn fail(&mut self, message: String, report: String);
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionState {
    /// Time at which the connection was established at the client; `None` before this time.
    pub established: Option<Instant>,
    /// Number of bytes that the client has received in order.
    pub received: u64,
    /// Number of bytes that the server has received in order.
    pub received_by_server: u64,
    /// Smoothed round-trip time of the server's TCP; `None` before the first sample.
    pub server_rtt: Option<Span>,
    /// Smoothed round-trip time of the client's TCP; `None` before the first sample.
    pub client_rtt: Option<Span>,
}

/// A datagram that has arrived at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivedDatagram {
    /// Number of the workload's flow.
    pub flow: u32,
    /// Whether the flow is a backward flow.
    pub back: bool,
    /// Number of the datagram among the flow's datagrams, counted from zero in the order of sending.
    pub number: u64,
    /// Time at which the datagram was sent.
    pub sent: Instant,
    /// Length on the wire, in bytes.
    pub bytes: u16,
    /// ECN bits on arrival.
    pub ecn: Ecn,
}

/// A data transfer over its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Number of payload bytes; `None` if the transfer never ends.
    pub bytes: Option<u64>,
    /// Size of the request in bytes. The receiver of the data opens the connection and first sends the request. If the
    /// size is `None`, the sender opens the connection and sends the data immediately.
    pub request: Option<u32>,
    /// Number of the page to which the transfer belongs, counted from zero within the workload.
    pub page: Option<u64>,
    /// Number of transfers that belong to the page.
    pub page_objects: u32,
    /// Number of the workload's host, counted from zero; 0 if all flows share one host.
    pub host: u32,
}

/// A sequence of requests and responses over one connection. The client, which is the receiver of the data, opens the
/// connection, and the server closes the connection with the last response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Number of the conversation, if the workload adds exchanges with [`request`](TrafficContext::request) and then
    /// [`finish`](TrafficContext::finish)es the conversation. The number must differ from the numbers of the workload's
    /// other conversations in progress.
    pub number: Option<u32>,
    /// Number of the page to which all responses belong, counted from zero within the workload.
    pub page: Option<u64>,
    /// Number of transfers that belong to the page; 1 if there is no page.
    pub page_objects: u32,
    /// First exchange, which starts when the connection is open.
    pub first: Exchange,
    /// Further exchanges. The pause of each exchange begins when the client has received the previous response.
    pub rest: Vec<Exchange>,
    /// Order in which the server sends the responses if all exchanges take place at the same time, each in a stream of
    /// its own; `None` if the exchanges take place one after the other. With streams, pauses and `client_delay` have no
    /// effect.
    pub streams: Option<Priority>,
    /// Size of the frames of requests in streams, in bytes. The streams of the client take turns after the packet that
    /// completes a frame; 1 if they take turns after each packet.
    pub request_frame: u64,
    /// Number of bytes that each host passes to TCP before TCP can send them. In a conversation with streams, a new
    /// request or response waits behind these bytes.
    pub send_buffer: u64,
    /// Exchange that precedes the first request and is not a transfer: the TLS handshake. Transports whose own handshake
    /// includes TLS omit this exchange.
    pub handshake: Option<Exchange>,
    /// Additional one-way delay of each packet between the client's host and its router.
    pub client_delay: Span,
    /// Additional one-way delay of each packet between the server's host and its router.
    pub server_delay: Span,
    /// Number of the workload's host, counted from zero; 0 if all flows share one host.
    pub host: u32,
}

impl Conversation {
    /// Returns a conversation that consists of one exchange on the first host, without a number, a page or additional
    /// delays.
    pub fn single(first: Exchange) -> Self {
        Self {
            number: None,
            page: None,
            page_objects: 1,
            first,
            rest: Vec::new(),
            streams: None,
            request_frame: 1,
            send_buffer: 0,
            handshake: None,
            client_delay: Span::ZERO,
            server_delay: Span::ZERO,
            host: 0,
        }
    }
}

/// A request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Pause of the client between the previous response and this request. The first request is sent without a pause.
    pub pause: Span,
    /// Size of the request, in bytes.
    pub request: u64,
    /// Time between the arrival of the complete request at the server and the start of the response.
    pub think: Span,
    /// Size of the response, in bytes.
    pub response: u64,
    /// Urgency of the response, from 0 (most urgent) to 7 (RFC 9218, section 4.1). In a conversation with streams, the
    /// server sends more urgent responses first.
    pub urgency: u8,
}

impl Exchange {
    /// Returns an exchange of the default urgency, without delays at the client and the server. The sizes are in bytes.
    pub fn immediate(request: u64, response: u64) -> Self {
        Self { pause: Span::ZERO, request, think: Span::ZERO, response, urgency: DEFAULT_URGENCY }
    }
}

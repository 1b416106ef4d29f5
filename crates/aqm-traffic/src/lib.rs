//! Workloads: who sends what, when. A workload opens transfers and sends datagrams at a [`TrafficContext`];
//! it knows no queue, no protocol and no topology.
//!
//! A workload is one file with a `Config`, and one line in the registry below.

mod call;
pub mod description;
pub mod distributions;
mod even_gaps;
mod fetching;
mod ftp;
mod packmime;
mod parameters;
#[cfg(test)]
mod polling;
mod probes;
mod program;
pub mod recording;
mod replay;
mod sessions;
mod streaming;
#[cfg(test)]
mod testing;
mod udp;
mod video;
mod web;
mod wire;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Size, Span, Streams, registry};
use dyn_clone::DynClone;

use crate::description::Application;

registry! {
    /// The parameters of any workload.
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

/// What every workload's `Config` can do.
pub trait Build {
    /// Checks all parameters and makes the running workload.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError>;

    /// Whether every flow gets a host (and access lines) of its own; otherwise all flows of the
    /// workload share one host on each side.
    fn own_hosts(&self) -> bool;

    /// The most flows that use hosts of their own, so that the stage can build them beforehand.
    fn hosts(&self) -> u64 {
        1
    }

    /// Whether it sends datagrams rather than over TCP.
    fn sends_datagrams(&self) -> bool {
        false
    }

    /// Whether its transfers are parts of pages.
    fn fetches_pages(&self) -> bool {
        false
    }

    /// Whether the objects of a page share connections.
    fn shares_connections(&self) -> bool {
        false
    }

    /// Whether its transfers never end.
    fn is_endless(&self) -> bool {
        false
    }

    /// The parameter that says how many connections begin in a second, if it has one.
    fn connection_rate(&self) -> Option<&'static str> {
        None
    }

    /// What people hear or see of what it carries, if they hear or see something.
    fn application(&self) -> Option<Application> {
        None
    }

    /// Why it cannot be played live, over real sockets; nothing if it can.
    fn simulated_only(&self) -> Option<&'static str> {
        None
    }

    /// The programs that it is, if it runs live only.
    fn programs(&self) -> Option<Programs<'_>> {
        None
    }

    /// The name of the file it reads, if it reads one.
    fn file(&self) -> Option<&str> {
        None
    }
}

/// Programs that really run, in a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs<'a> {
    /// The command where data go, and its arguments; empty if there is none.
    pub client: &'a [String],
    /// The command where data come from.
    pub server: &'a [String],
    /// When the client begins.
    pub start: Span,
}

/// What a workload may know of the world it is built into.
pub struct BuildContext<'a> {
    /// The name of the workload in its scenario; random streams are named after it.
    pub name: &'a str,
    /// Where the workload's randomness comes from.
    pub streams: Streams,
    /// The rate that a load is a share of: that of the bottleneck.
    pub rate: Rate,
    /// How long the run lasts.
    pub duration: Span,
    /// How a transfer of so many bytes is packetised.
    pub packetisation: &'a dyn Packetisation,
    /// Of each packet's bytes, those of the header of the link.
    pub link_header: Size,
    /// The content of the file the workload names, if it names one.
    pub file: Option<&'a str>,
}

/// How a transport makes packets of a transfer, as far as a load needs to know.
pub trait Packetisation {
    /// Bytes on the wire of the first transmission of a transfer of `bytes`, in the direction of
    /// the data, connection set-up included.
    fn wire_bytes(&self, bytes: u64) -> u64;
    /// Payload bytes of a full packet.
    fn payload(&self) -> u64;
}

/// Something that sends. One that was just built is a prototype, too: each run takes a clone of it.
pub trait Workload: DynClone + Send + Sync {
    /// The run begins: ask for the first wake-up.
    fn start(&mut self, cx: &mut dyn TrafficContext);

    /// A wake-up asked for is due.
    fn on_wake(&mut self, cx: &mut dyn TrafficContext);

    /// The last byte of a transfer it opened has arrived.
    fn on_done(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// A transfer it opened will never be done: its connection is gone, because TCP gave up.
    fn on_failed(&mut self, _transfer: Transfer, _cx: &mut dyn TrafficContext) {}

    /// A response of a conversation that it has numbered has arrived; `on_done` is not told of those.
    fn on_response(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// The connection of a conversation that it has numbered is gone, because TCP gave up.
    fn on_hung_up(&mut self, _number: u32, _cx: &mut dyn TrafficContext) {}

    /// Facts about the load worth printing, by name: nominal and realised values.
    fn facts(&self, _show: &mut dyn FnMut(&'static str, f64)) {}
}

dyn_clone::clone_trait_object!(Workload);

/// What a workload can ask for. Requests are carried out in order, after the call returns.
pub trait TrafficContext {
    /// The present moment.
    fn now(&self) -> Instant;

    /// Wakes the workload at `at`; of several requests each one counts.
    fn wake_at(&mut self, at: Instant);

    /// Opens a connection and sends `transfer` over it.
    fn open(&mut self, transfer: Transfer);

    /// Opens a connection for `conversation`; each of its exchanges is a transfer.
    fn converse(&mut self, conversation: Conversation);

    /// Goes on with the conversation of this number: another exchange, after those before. Nothing happens if it is
    /// finished or over.
    fn ask(&mut self, number: u32, exchange: Exchange);

    /// Nothing more will be asked for in the conversation of this number: its connection closes after what was.
    fn finish(&mut self, number: u32);

    /// Sends a datagram of `bytes` on the wire over the workload's flow number `flow`, counted
    /// from zero.
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn);

    /// Sends a datagram the other way, from where the workload's data go, over flow number `flow` of that direction,
    /// counted from zero. The flows of equal numbers of both directions are between the same hosts.
    fn datagram_back(&mut self, flow: u32, bytes: u16, ecn: Ecn);
}

/// A transfer of data over a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payload bytes; `None` sends for ever.
    pub bytes: Option<u64>,
    /// Bytes of the request that asks for it: the end where the data goes opens the connection and sends
    /// them first. `None` if the end where the data comes from opens it and sends unasked.
    pub request: Option<u32>,
    /// The page it is a part of, counted from zero within the workload.
    pub page: Option<u64>,
    /// How many transfers the page has.
    pub page_objects: u32,
    /// Which of the workload's hosts it uses, counted from zero; 0 where they share one.
    pub host: u32,
}

/// What a client asks and a server answers over one connection, in turn. The client stands where the data
/// goes; it opens the connection, and the server closes it with its last answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// If its workload may [`ask`](TrafficContext::ask) for more, and will [`finish`](TrafficContext::finish) it, the
    /// number by which it does: none of its other conversations under way may have it.
    pub number: Option<u32>,
    /// The page that all its responses are a part of, counted from zero within the workload.
    pub page: Option<u64>,
    /// How many transfers that page has; 1 without a page.
    pub page_objects: u32,
    /// The exchange for which the connection is opened.
    pub first: Exchange,
    /// Those that follow: each begins when the client, which has the answer before, has paused.
    pub rest: Vec<Exchange>,
    /// What each packet from and to the client's host takes longer, between the host and its router.
    pub client_delay: Span,
    /// The same at the server's host.
    pub server_delay: Span,
    /// Which of the workload's hosts it uses, counted from zero; 0 where they share one.
    pub host: u32,
}

impl Conversation {
    /// One of a single exchange, without a number, a page and delays, on the first host.
    pub fn of(first: Exchange) -> Self {
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
    /// How long the client waits after the response before; the first request goes out at once.
    pub pause: Span,
    /// Bytes of the request.
    pub request: u64,
    /// How long the server, which has the whole request, takes before it answers.
    pub think: Span,
    /// Bytes of the response.
    pub response: u64,
}

impl Exchange {
    /// One whose ends lose no time: so many bytes are asked for with so many.
    pub fn at_once(request: u64, response: u64) -> Self {
        Self { pause: Span::ZERO, request, think: Span::ZERO, response }
    }
}

//! The windows of real senders, for queues that look at them (SHRED): in each packet, by BPF, or polled.
//!
//! As in a simulation, a SYN tells the window that the connection begins with, of which the kernel itself says nothing
//! before a connection is open; a bare acknowledgement tells none.
//!
//! What is told is checked. Nearly every packet with payload must tell a window; in packets the first one of each
//! connection must tell the initial window in force; and what packets tell must agree with what socket diagnostics
//! say of the same connections from time to time ([`crate::tcp::senders`]).
//!
//! Ours: what is polled is up to [`EVERY`] old, and what a poll takes, which is said in the record of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use aqm_net::{Instant, Span};
use aqm_sim::emulation::Side;
use aqm_tcp::Flags;
use serde_json::{Value, json};

use crate::host::lab::{Host, Lab};
use crate::host::tun;
use crate::load::Place;
use crate::router::ip::{Headers, Transport};
use crate::tcp::bpf::{CwndHint, window};
use crate::tcp::inet_diag::SocketDiagnostics;
use crate::tcp::senders::Agreement;
use crate::tcp::windows::{Ends, Windows};
use crate::{Clock, LiveError};

/// How often windows are polled where they do not stand in packets.
const EVERY: Duration = Duration::from_millis(5);

/// The least share of packets with payload that tell a window, where each carries it.
const LEAST_IN_PACKETS: f64 = 0.99;

/// The same where it is polled: of a connection that is younger than a poll nothing is known.
const LEAST_POLLED: f64 = 0.5;

/// The least share of connections that begin with the initial window; one whose SYN got lost twice begins with 1.
const LEAST_INITIAL: f64 = 0.9;

/// So many comparisons with what the kernel says must have been made to say anything, and so many of them agree.
const ENOUGH: u64 = 10;
const LEAST_AGREEING: f64 = 0.5;

/// How the router learns of windows, and what it has learnt.
pub struct Hints {
    source: Source,
    /// By [`Place::index`], what connections begin with, in segments.
    initial: Vec<u16>,
    windows: Arc<Windows>,
    seen: Seen,
}

enum Source {
    /// Nobody looks at windows.
    None,
    /// Each packet carries its sender's.
    InPackets(Vec<CwndHint>),
    /// They are polled.
    Polled(Polled),
}

/// What the packets of senders told.
#[derive(Default)]
struct Seen {
    /// Packets with payload, and those of them whose window was known.
    data: u64,
    told: u64,
    /// By flow, whether its first payload was seen.
    begun: Vec<bool>,
    /// By workload and window, the first packets of connections.
    first: BTreeMap<(u32, u16), u64>,
    /// The ages of the newest and the oldest window that was polled.
    ages: Option<[Span; 2]>,
}

/// A packet whose sender's window is wanted.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    /// Its headers.
    pub headers: &'a Headers,
    /// Where it comes from.
    pub from: Place,
    /// The number of its flow.
    pub flow: u32,
    /// The number of its first payload byte, counted from zero.
    pub seq: u64,
}

impl Hints {
    /// Nobody looks at windows.
    pub fn none() -> Self {
        Self::from(Source::None, Vec::new())
    }

    /// Lets the hosts of a lab tell their windows.
    ///
    /// # Errors
    /// If neither BPF nor the diagnostics of sockets are to be had.
    pub fn of(lab: &Lab) -> Result<Self, LiveError> {
        // Those of requests are told as well: a queue may stand in either direction.
        let window = |host: &Host| host.spec().tcp.route.initcwnd.min(u16::MAX.into()) as u16;
        let initial = lab.hosts().iter().map(window).collect();
        let attached = lab.hosts().iter().map(|host| host.ask(|| CwndHint::attach(tun::index()?)));
        match attached.collect::<Result<Vec<CwndHint>, LiveError>>() {
            Ok(attached) => Ok(Self::from(Source::InPackets(attached), initial)),
            Err(why) => {
                let windows = Arc::new(Windows::new());
                let polled = Polled::start(&senders(lab), &windows, why)?;
                Ok(Self { source: Source::Polled(polled), initial, windows, seen: Seen::default() })
            }
        }
    }

    fn from(source: Source, initial: Vec<u16>) -> Self {
        Self { source, initial, windows: Arc::new(Windows::new()), seen: Seen::default() }
    }

    /// What packets tell, for whoever compares it with what the kernel says; nothing if they tell nothing.
    pub fn in_packets(&self) -> Option<Arc<Windows>> {
        matches!(self.source, Source::InPackets(_)).then(|| Arc::clone(&self.windows))
    }

    /// The window in segments that is known of the sender of a packet; 0 if none is.
    #[inline]
    pub fn window(&mut self, sent: &Sent<'_>) -> u16 {
        if matches!(self.source, Source::None) { 0 } else { self.find(sent) }
    }

    fn find(&mut self, sent: &Sent<'_>) -> u16 {
        let Transport::Tcp(tcp) = &sent.headers.transport else { return 0 };
        if tcp.flags.has(Flags::SYN) {
            return self.initial[sent.from.index()];
        }
        if tcp.payload == 0 && !tcp.flags.has(Flags::FIN) {
            return 0;
        }
        let (ends, of_sender) = (Ends::of(sent.headers, tcp), sent.from.side == Side::Sender);
        let found = match &self.source {
            Source::None => 0,
            Source::InPackets(_) => window(sent.headers),
            Source::Polled(_) => self.windows.last(ends),
        };
        if !of_sender || tcp.payload == 0 {
            return found;
        }
        self.seen.data += 1;
        if found > 0 {
            self.seen.told += 1;
            match &self.source {
                Source::Polled(polled) => self.seen.note_age(polled.age(sent.from.traffic)),
                _ => self.windows.note(ends, found),
            }
        }
        if sent.seq == 0 {
            self.seen.note_first(sent, found);
        }
        found
    }

    /// For the record of a run, with what the kernel said beside it.
    pub fn to_value(&self, agreement: Agreement) -> Value {
        let Seen { data, told, ages, .. } = self.seen;
        let (kind, mut value) = match &self.source {
            Source::None => return Value::Null,
            Source::InPackets(hosts) => ("in-packets", json!({ "hosts": hosts.len() })),
            Source::Polled(polled) => {
                let [newest, oldest] = ages.map_or([None; 2], |ages| ages.map(|age| Some(age.seconds())));
                let every = EVERY.as_secs_f64();
                let about = json!({
                    "every_s": every, "newest_s": newest, "oldest_s": oldest, "why": polled.why.what,
                });
                ("polled", about)
            }
        };
        value["kind"] = json!(kind);
        value["data_packets"] = json!(data);
        value["told"] = json!(told);
        if matches!(self.source, Source::InPackets(_)) {
            value["compared"] = json!(agreement.compared);
            value["agreeing"] = json!(agreement.agreed);
        }
        value
    }

    /// What speaks against what was told, a sentence each. `initial` has the initial windows in force by workload,
    /// and its name.
    pub fn objections(&self, initial: &[(String, Option<u64>)], agreement: Agreement) -> Vec<String> {
        let mut against = Vec::new();
        let Seen { data, told, first, .. } = &self.seen;
        let least = match self.source {
            Source::None => return against,
            Source::InPackets(_) => LEAST_IN_PACKETS,
            Source::Polled(_) => LEAST_POLLED,
        };
        if (*told as f64) < least * *data as f64 {
            against.push(format!("only {told} of {data} packets with payload told their sender's window"));
        }
        if matches!(self.source, Source::Polled(_)) {
            return against;
        }
        for (traffic, (name, initial)) in (0..).zip(initial) {
            let Some(initial) = initial else { continue };
            let of_this = first.iter().filter(|((of, _), _)| *of == traffic);
            let (mut all, mut right) = (0, 0);
            for ((_, window), count) in of_this {
                all += count;
                right += if u64::from(*window) == *initial { *count } else { 0 };
            }
            if (right as f64) < LEAST_INITIAL * all as f64 {
                against.push(format!(
                    "{} of {all} connections of {name} did not begin by telling the initial window, {initial}",
                    all - right
                ));
            }
        }
        let Agreement { compared, agreed } = agreement;
        if compared >= ENOUGH && (agreed as f64) < LEAST_AGREEING * compared as f64 {
            against.push(format!(
                "windows in packets were those of the kernel only {agreed} of the {compared} times it was asked"
            ));
        }
        against
    }
}

impl Seen {
    fn note_age(&mut self, age: Span) {
        let [newest, oldest] = self.ages.unwrap_or([age; 2]);
        self.ages = Some([newest.min(age), oldest.max(age)]);
    }

    fn note_first(&mut self, sent: &Sent<'_>, window: u16) {
        let place = sent.flow as usize;
        if self.begun.len() <= place {
            self.begun.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.begun[place], true) {
            *self.first.entry((sent.from.traffic, window)).or_default() += 1;
        }
    }
}

/// The hosts where data come from.
fn senders(lab: &Lab) -> Vec<&Host> {
    lab.hosts().iter().step_by(2).collect()
}

/// Whoever polls windows.
struct Polled {
    clock: Clock,
    /// By workload, when its senders were last polled, in nanoseconds.
    polled: Arc<Vec<AtomicU64>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    why: LiveError,
}

impl Polled {
    fn start(senders: &[&Host], windows: &Arc<Windows>, why: LiveError) -> Result<Self, LiveError> {
        let clock = Clock::start();
        let polled: Arc<Vec<AtomicU64>> = Arc::new(senders.iter().map(|_| AtomicU64::new(0)).collect());
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (traffic, host) in senders.iter().enumerate() {
            let mut diagnostics = host.ask(SocketDiagnostics::open)?;
            let (windows, polled, over) = (Arc::clone(windows), Arc::clone(&polled), Arc::clone(&over));
            threads.push(host.run(move || {
                while !over.load(Relaxed) {
                    let now = clock.now();
                    // A dump that fails is one that says nothing; the next one is soon.
                    let dumped = diagnostics.dump(|state| {
                        let ends = Ends { local: state.local, remote: state.remote };
                        windows.note(ends, state.cwnd.min(u16::MAX.into()) as u16);
                    });
                    if dumped.is_ok() {
                        polled[traffic].store(now.nanos(), Relaxed);
                    }
                    sleep(EVERY);
                }
            })?);
        }
        Ok(Self { clock, polled, over, threads, why })
    }

    /// How old the windows of a workload's senders are.
    fn age(&self, traffic: u32) -> Span {
        let polled = self.polled[traffic as usize].load(Relaxed);
        self.clock.now().since(Instant::from_nanos(polled))
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use aqm_net::Ecn;

    use super::*;
    use crate::router::ip::{TCP, TcpHeader};

    const ASKED: Agreement = Agreement { compared: 100, agreed: 97 };

    fn headers(tcp: TcpHeader, id: u16) -> Headers {
        Headers {
            source: Ipv4Addr::new(10, 1, 0, 1),
            destination: Ipv4Addr::new(10, 2, 0, 1),
            ecn: Ecn::NotEct,
            dscp: 0,
            id,
            dont_fragment: true,
            bytes: 1500,
            protocol: TCP,
            transport: Transport::Tcp(tcp),
        }
    }

    /// Packets of one sender over as many flows as there are windows told in them; each tells one more in its second.
    fn after(windows: &[u16]) -> Hints {
        let mut hints = Hints::from(Source::InPackets(Vec::new()), vec![10, 4]);
        for (flow, &window) in (0..).zip(windows) {
            for seq in [0, 0, 1460] {
                let tcp =
                    TcpHeader { ports: [80, 1000 + flow as u16], payload: 1460, ..TcpHeader::default() };
                let headers = headers(tcp, window + u16::from(seq > 0));
                let from = Place { traffic: 0, side: Side::Sender };
                assert_eq!(hints.window(&Sent { headers: &headers, from, flow, seq }), headers.id);
            }
        }
        hints
    }

    fn against(hints: &Hints, agreement: Agreement) -> Vec<String> {
        hints.objections(&[("web".to_owned(), Some(10))], agreement)
    }

    #[test]
    fn windows_that_arrive_as_they_should_have_nothing_against_them() {
        let hints = after(&[10; 40]);
        assert_eq!(against(&hints, ASKED), [""; 0]);
        let value = hints.to_value(ASKED);
        assert_eq!((&value["data_packets"], &value["told"]), (&json!(120), &json!(120)));
        assert_eq!((&value["compared"], &value["agreeing"]), (&json!(100), &json!(97)));
    }

    #[test]
    fn a_syn_tells_the_first_window_and_a_bare_acknowledgement_none() {
        let mut hints = after(&[]);
        let mut told = |flags, side| {
            let tcp = TcpHeader { flags, ..TcpHeader::default() };
            let headers =
                Headers { id: 77, transport: Transport::Tcp(tcp), ..headers(TcpHeader::default(), 0) };
            hints.window(&Sent { headers: &headers, from: Place { traffic: 0, side }, flow: 0, seq: 0 })
        };
        assert_eq!(told(Flags::SYN, Side::Receiver), 4);
        assert_eq!(told(Flags::SYN.union(Flags::ACK), Side::Sender), 10);
        assert_eq!(told(Flags::ACK, Side::Sender), 0);
        assert_eq!(told(Flags::FIN.union(Flags::ACK), Side::Sender), 77);
        assert_eq!(hints.to_value(ASKED)["data_packets"], 0);
    }

    #[test]
    fn what_is_no_window_is_found_out() {
        // As identifications are: they count up from anywhere.
        let found = against(&after(&[4000, 17, 10]), Agreement { compared: 100, agreed: 3 });
        assert_eq!(
            found,
            [
                "2 of 3 connections of web did not begin by telling the initial window, 10",
                "windows in packets were those of the kernel only 3 of the 100 times it was asked"
            ]
        );
        let few = Agreement { compared: 4, agreed: 0 };
        assert_eq!(against(&after(&[10; 3]), few).len(), 0, "too few to say anything");
    }

    #[test]
    fn packets_that_tell_no_window_are_missed() {
        let mut hints = after(&[10; 40]);
        hints.seen.data += 2;
        let found = against(&hints, ASKED);
        assert_eq!(found, ["only 120 of 122 packets with payload told their sender's window"]);
    }
}

//! The congestion windows of real senders, for queues that use these windows (SHRED). A BPF program writes the sender's
//! window into each packet. If BPF is not available, the windows are polled instead.
//!
//! As in a simulation, a SYN reports the initial window of the connection. The initial window is taken from the plan,
//! because the kernel does not report a window before the connection is established. An acknowledgement without payload
//! does not report a window.
//!
//! The reported windows are checked. Nearly all packets with payload must report a window. If the windows are written
//! into packets, the first packet of each connection must report the effective initial window. In addition, the windows
//! in packets must agree with the windows that socket diagnostics periodically report for the same connections
//! ([`crate::tcp::senders`]).
//!
//! aqmlab's choice: windows are polled at the interval [`EVERY`]. A polled window is therefore up to [`EVERY`] plus the
//! duration of a poll older than a window in a packet. The manifest contains the interval.

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
use crate::load::HostIndex;
use crate::router::ip::{Headers, Transport};
use crate::tcp::bpf::{CwndHint, window};
use crate::tcp::inet_diag::SocketDiagnostics;
use crate::tcp::senders::Agreement;
use crate::tcp::windows::{Ends, Windows};
use crate::{Clock, LiveError};

/// Interval at which windows are polled if packets do not contain windows.
const EVERY: Duration = Duration::from_millis(5);

/// Minimum fraction of the packets with payload that must report a window, if packets contain windows.
const MIN_IN_PACKETS: f64 = 0.99;

/// Minimum fraction of the packets with payload whose window must be known, if windows are polled. If a connection
/// started after the last poll, its window is unknown.
const MIN_POLLED: f64 = 0.5;

/// Minimum fraction of connections that must begin with the initial window. A connection whose SYN was lost twice
/// begins with a window of 1 segment.
const MIN_INITIAL: f64 = 0.9;

/// Minimum number of comparisons with the kernel's windows. With fewer comparisons, the agreement is not checked.
const MIN_COMPARISONS: u64 = 10;
const MIN_AGREEING: f64 = 0.5;

/// The source of windows, and the windows observed so far.
pub struct Hints {
    source: Source,
    /// Initial window of the connections of each host, in segments, indexed by [`HostIndex::position`].
    initial: Vec<u16>,
    windows: Arc<Windows>,
    counts: WindowCounts,
}

enum Source {
    /// No queue reads windows.
    None,
    /// Each packet contains its sender's window.
    InPackets(Vec<CwndHint>),
    /// Windows are polled.
    Polled(Polled),
}

/// Counts of the windows that the senders' packets report.
#[derive(Default)]
struct WindowCounts {
    /// Number of packets with payload.
    data: u64,
    reported: u64,
    /// For each flow, whether its first payload has been observed.
    begun: Vec<bool>,
    /// Number of connections, by workload and by the window in the first packet of the connection.
    first: BTreeMap<(u32, u16), u64>,
    /// Age of the newest and of the oldest polled window.
    ages: Option<[Span; 2]>,
}

/// A packet for which the router needs the sender's window.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    /// Headers of the packet.
    pub headers: &'a Headers,
    /// The end that sends the packet.
    pub from: HostIndex,
    /// Number of the flow.
    pub flow: u32,
    /// Sequence number of the first payload byte, counted from zero.
    pub seq: u64,
}

impl Hints {
    /// Returns hints without windows, for queues that do not read windows.
    pub fn none() -> Self {
        Self::from(Source::None, Vec::new())
    }

    /// Starts to collect the windows of the senders that run on a lab's hosts.
    ///
    /// # Errors
    /// Returns an error if neither BPF nor socket diagnostics are available.
    pub fn of(lab: &Lab) -> Result<Self, LiveError> {
        // Windows are reported for connections in both directions, because there may be queues in either direction.
        let window = |host: &Host| host.spec().tcp.route.initcwnd.min(u16::MAX.into()) as u16;
        let initial = lab.hosts().iter().map(window).collect();
        let attached = lab.hosts().iter().map(|host| host.query(|| CwndHint::attach(tun::index()?)));
        match attached.collect::<Result<Vec<CwndHint>, LiveError>>() {
            Ok(attached) => Ok(Self::from(Source::InPackets(attached), initial)),
            Err(why) => {
                let windows = Arc::new(Windows::new());
                let polled = Polled::start(&senders(lab), &windows, why)?;
                Ok(Self { source: Source::Polled(polled), initial, windows, counts: WindowCounts::default() })
            }
        }
    }

    fn from(source: Source, initial: Vec<u16>) -> Self {
        Self { source, initial, windows: Arc::new(Windows::new()), counts: WindowCounts::default() }
    }

    /// Returns the windows in packets, for a comparison with the kernel's windows; `None` if packets do not contain
    /// windows.
    pub fn in_packets(&self) -> Option<Arc<Windows>> {
        matches!(self.source, Source::InPackets(_)).then(|| Arc::clone(&self.windows))
    }

    /// Returns the window of a packet's sender in segments, or 0 if the window is unknown.
    #[inline]
    pub fn window(&mut self, sent: &Sent<'_>) -> u16 {
        if matches!(self.source, Source::None) { 0 } else { self.known_window(sent) }
    }

    fn known_window(&mut self, sent: &Sent<'_>) -> u16 {
        let Transport::Tcp(tcp) = &sent.headers.transport else { return 0 };
        if tcp.flags.has(Flags::SYN) {
            return self.initial[sent.from.position()];
        }
        if tcp.payload == 0 && !tcp.flags.has(Flags::FIN) {
            return 0;
        }
        let (ends, of_sender) = (Ends::of(sent.headers, tcp), sent.from.side == Side::Sender);
        let window = match &self.source {
            Source::None => 0,
            Source::InPackets(_) => window(sent.headers),
            Source::Polled(_) => self.windows.last(ends),
        };
        if !of_sender || tcp.payload == 0 {
            return window;
        }
        self.counts.data += 1;
        if window > 0 {
            self.counts.reported += 1;
            match &self.source {
                Source::Polled(polled) => self.counts.note_age(polled.age(sent.from.traffic)),
                _ => self.windows.note(ends, window),
            }
        }
        if sent.seq == 0 {
            self.counts.note_first(sent, window);
        }
        window
    }

    /// Returns the hints in the format of the manifest. `agreement` is the result of the comparison with the kernel's
    /// windows.
    pub fn to_value(&self, agreement: Agreement) -> Value {
        let WindowCounts { data, reported, ages, .. } = self.counts;
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
        value["known"] = json!(reported);
        if matches!(self.source, Source::InPackets(_)) {
            value["compared"] = json!(agreement.compared);
            value["agreeing"] = json!(agreement.agreed);
        }
        value
    }

    /// Returns the reasons why the reported windows are invalid. `initial` contains the name and the effective initial
    /// window of each workload.
    pub fn invalid_reasons(&self, initial: &[(String, Option<u64>)], agreement: Agreement) -> Vec<String> {
        let mut reasons = Vec::new();
        let WindowCounts { data, reported, first, .. } = &self.counts;
        let minimum = match self.source {
            Source::None => return reasons,
            Source::InPackets(_) => MIN_IN_PACKETS,
            Source::Polled(_) => MIN_POLLED,
        };
        if (*reported as f64) < minimum * *data as f64 {
            reasons.push(format!(
                "only {reported} of {data} packets with payload reported their sender's window"
            ));
        }
        if matches!(self.source, Source::Polled(_)) {
            return reasons;
        }
        for (traffic, (name, initial)) in (0..).zip(initial) {
            let Some(initial) = initial else { continue };
            let of_workload = first.iter().filter(|((workload, _), _)| *workload == traffic);
            let (mut all, mut correct) = (0, 0);
            for ((_, window), count) in of_workload {
                all += count;
                correct += if u64::from(*window) == *initial { *count } else { 0 };
            }
            if (correct as f64) < MIN_INITIAL * all as f64 {
                reasons.push(format!(
                    "{} of {all} connections of {name} did not begin with the initial window, {initial}",
                    all - correct
                ));
            }
        }
        let Agreement { compared, agreed } = agreement;
        if compared >= MIN_COMPARISONS && (agreed as f64) < MIN_AGREEING * compared as f64 {
            reasons.push(format!(
                "windows in packets agreed with those of the kernel in only {agreed} of {compared} comparisons"
            ));
        }
        reasons
    }
}

impl WindowCounts {
    fn note_age(&mut self, age: Span) {
        let [newest, oldest] = self.ages.unwrap_or([age; 2]);
        self.ages = Some([newest.min(age), oldest.max(age)]);
    }

    fn note_first(&mut self, sent: &Sent<'_>, window: u16) {
        let index = sent.flow as usize;
        if self.begun.len() <= index {
            self.begun.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.begun[index], true) {
            *self.first.entry((sent.from.traffic, window)).or_default() += 1;
        }
    }
}

/// Returns the hosts that send data.
fn senders(lab: &Lab) -> Vec<&Host> {
    lab.hosts().iter().step_by(2).collect()
}

/// The threads that poll windows, and the windows that they have read.
struct Polled {
    clock: Clock,
    /// Time at which the senders of each workload were last polled, in nanoseconds; indexed by workload.
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
            let mut diagnostics = host.query(SocketDiagnostics::open)?;
            let (windows, polled, over) = (Arc::clone(windows), Arc::clone(&polled), Arc::clone(&over));
            threads.push(host.run(move || {
                while !over.load(Relaxed) {
                    let now = clock.now();
                    // A failed query returns no windows; the next query follows soon.
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

    /// Returns the age of the windows of a workload's senders.
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

    const AGREEMENT: Agreement = Agreement { compared: 100, agreed: 97 };

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

    /// Returns hints that have received packets from one sender. Each element of `windows` is the first window of a
    /// separate flow; the window in the flow's second packet is larger by one.
    fn after(windows: &[u16]) -> Hints {
        let mut hints = Hints::from(Source::InPackets(Vec::new()), vec![10, 4]);
        for (flow, &window) in (0..).zip(windows) {
            for seq in [0, 0, 1460] {
                let tcp =
                    TcpHeader { ports: [80, 1000 + flow as u16], payload: 1460, ..TcpHeader::default() };
                let headers = headers(tcp, window + u16::from(seq > 0));
                let from = HostIndex { traffic: 0, side: Side::Sender };
                assert_eq!(hints.window(&Sent { headers: &headers, from, flow, seq }), headers.id);
            }
        }
        hints
    }

    fn reasons(hints: &Hints, agreement: Agreement) -> Vec<String> {
        hints.invalid_reasons(&[("web".to_owned(), Some(10))], agreement)
    }

    #[test]
    fn correct_windows_are_valid() {
        let hints = after(&[10; 40]);
        assert_eq!(reasons(&hints, AGREEMENT), [""; 0]);
        let value = hints.to_value(AGREEMENT);
        assert_eq!((&value["data_packets"], &value["known"]), (&json!(120), &json!(120)));
        assert_eq!((&value["compared"], &value["agreeing"]), (&json!(100), &json!(97)));
    }

    #[test]
    fn a_syn_reports_the_initial_window_and_a_bare_acknowledgement_none() {
        let mut hints = after(&[]);
        let mut reported = |flags, side| {
            let tcp = TcpHeader { flags, ..TcpHeader::default() };
            let headers =
                Headers { id: 77, transport: Transport::Tcp(tcp), ..headers(TcpHeader::default(), 0) };
            hints.window(&Sent { headers: &headers, from: HostIndex { traffic: 0, side }, flow: 0, seq: 0 })
        };
        assert_eq!(reported(Flags::SYN, Side::Receiver), 4);
        assert_eq!(reported(Flags::SYN.union(Flags::ACK), Side::Sender), 10);
        assert_eq!(reported(Flags::ACK, Side::Sender), 0);
        assert_eq!(reported(Flags::FIN.union(Flags::ACK), Side::Sender), 77);
        assert_eq!(hints.to_value(AGREEMENT)["data_packets"], 0);
    }

    #[test]
    fn numbers_that_are_not_windows_are_detected() {
        // These values resemble real IPv4 identifications, which count up from an arbitrary number.
        let found = reasons(&after(&[4000, 17, 10]), Agreement { compared: 100, agreed: 3 });
        assert_eq!(
            found,
            [
                "2 of 3 connections of web did not begin with the initial window, 10",
                "windows in packets agreed with those of the kernel in only 3 of 100 comparisons"
            ]
        );
        let few = Agreement { compared: 4, agreed: 0 };
        assert_eq!(reasons(&after(&[10; 3]), few).len(), 0, "too few comparisons");
    }

    #[test]
    fn missing_windows_are_detected() {
        let mut hints = after(&[10; 40]);
        hints.counts.data += 2;
        let found = reasons(&hints, AGREEMENT);
        assert_eq!(found, ["only 120 of 122 packets with payload reported their sender's window"]);
    }
}

//! The windows of real senders, for queues that look at them (SHRED): in each packet, by BPF, or polled.
//!
//! Ours: what is polled is up to [`EVERY`] old, which is said in the record of a run.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bpf::{CwndHint, window};
use crate::inet_diag::SocketDiagnostics;
use crate::ip::{Headers, Transport};
use crate::lab::Host;
use crate::{LiveError, tun};

/// How often windows are polled where they do not stand in packets.
const EVERY: Duration = Duration::from_millis(5);

/// Polled windows are kept in so many places, by a hash of the ends of the connection.
const PLACES: usize = 1 << 16;

/// How the router learns of windows.
pub enum Hints {
    /// It need not.
    None,
    /// Each packet carries its sender's.
    InPackets(Vec<CwndHint>),
    /// They are polled.
    Polled(Polled),
}

impl Hints {
    /// Lets these hosts tell their windows.
    ///
    /// # Errors
    /// If neither BPF nor the diagnostics of sockets are to be had.
    pub fn of(senders: &[&Host]) -> Result<Self, LiveError> {
        let attached = senders.iter().map(|host| host.ask(|| CwndHint::attach(tun::index()?)));
        match attached.collect::<Result<Vec<CwndHint>, LiveError>>() {
            Ok(attached) => Ok(Self::InPackets(attached)),
            Err(why) => Ok(Self::Polled(Polled::start(senders, why)?)),
        }
    }

    /// The window in segments that is known of the sender of a packet; 0 if none is.
    #[inline]
    pub fn window(&self, headers: &Headers) -> u16 {
        match self {
            Self::None => 0,
            Self::InPackets(_) => window(headers),
            Self::Polled(polled) => polled.window(headers),
        }
    }

    /// For the record of a run.
    pub fn to_value(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::InPackets(hosts) => json!({ "kind": "in-packets", "hosts": hosts.len() }),
            Self::Polled(polled) => {
                json!({ "kind": "polled", "every_s": EVERY.as_secs_f64(), "why": polled.why.what })
            }
        }
    }
}

/// Windows, as they were when they were last polled.
pub struct Polled {
    /// By hash: the other bits of the hash, and the window below them.
    places: Arc<Vec<AtomicU64>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    why: LiveError,
}

impl Polled {
    fn start(senders: &[&Host], why: LiveError) -> Result<Self, LiveError> {
        let places: Arc<Vec<AtomicU64>> = Arc::new((0..PLACES).map(|_| AtomicU64::new(0)).collect());
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for host in senders {
            let mut diagnostics = host.ask(SocketDiagnostics::open)?;
            let (places, over) = (Arc::clone(&places), Arc::clone(&over));
            threads.push(host.run(move || {
                while !over.load(Relaxed) {
                    // A dump that fails is one that says nothing; the next one is soon.
                    let _ = diagnostics.dump(|state| {
                        let (place, tag) = hash(state.local, state.remote);
                        let cwnd = state.cwnd.min(u16::MAX.into());
                        places[place].store(tag | u64::from(cwnd), Relaxed);
                    });
                    sleep(EVERY);
                }
            })?);
        }
        Ok(Self { places, over, threads, why })
    }

    fn window(&self, headers: &Headers) -> u16 {
        let Transport::Tcp(tcp) = headers.transport else { return 0 };
        let [from, to] = tcp.ports;
        let ends = (SocketAddrV4::new(headers.source, from), SocketAddrV4::new(headers.destination, to));
        let (place, tag) = hash(ends.0, ends.1);
        let found = self.places[place].load(Relaxed);
        if tcp.payload > 0 && found & !0xffff == tag { found as u16 } else { 0 }
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

/// The place of a connection, and what tells it from others there, in the upper 48 bits.
fn hash(local: SocketAddrV4, remote: SocketAddrV4) -> (usize, u64) {
    let word = |end: SocketAddrV4| u64::from(u32::from(*end.ip())) << 16 | u64::from(end.port());
    let mixed = (word(local) ^ word(remote).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 48) as usize % PLACES, mixed << 16)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn connections_are_told_apart_by_all_of_their_ends() {
        let end = |low: u8, port| SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, low), port);
        let mut seen = Vec::new();
        for low in 1..20 {
            for port in 1024..1100 {
                seen.push(hash(end(low, 8080), end(1, port)));
                seen.push(hash(end(low, port), end(1, 8080)));
            }
        }
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}

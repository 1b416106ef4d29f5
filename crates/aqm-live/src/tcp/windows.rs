//! The windows of connections, shared by threads that never wait for each other.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::router::ip::{Headers, TcpHeader};

/// Windows are kept in so many places, by a hash of the ends of the connection.
const PLACES: usize = 1 << 16;

/// The last window in segments that became known of each connection. One that has the place of another one takes it.
pub struct Windows {
    /// The other bits of the hash, and the window below them.
    places: Vec<AtomicU64>,
}

/// A connection, as one of its ends has it.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The end whose window it is.
    pub local: SocketAddrV4,
    /// The other one.
    pub remote: SocketAddrV4,
}

impl Ends {
    /// Those of a packet, whose sender is the end.
    pub fn of(headers: &Headers, tcp: &TcpHeader) -> Self {
        let [from, to] = tcp.ports;
        let (local, remote) = (headers.source, headers.destination);
        Self { local: SocketAddrV4::new(local, from), remote: SocketAddrV4::new(remote, to) }
    }

    /// The place of the connection, and what tells it from others there, in the upper 48 bits.
    fn hash(self) -> (usize, u64) {
        let word = |end: SocketAddrV4| u64::from(u32::from(*end.ip())) << 16 | u64::from(end.port());
        let mixed =
            (word(self.local) ^ word(self.remote).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 48) as usize % PLACES, mixed << 16)
    }
}

impl Windows {
    /// None is known.
    pub fn new() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The window of an end is this.
    #[inline]
    pub fn note(&self, ends: Ends, window: u16) {
        let (place, tag) = ends.hash();
        self.places[place].store(tag | u64::from(window), Relaxed);
    }

    /// The last one that was noted; 0 if none was.
    #[inline]
    pub fn last(&self, ends: Ends) -> u16 {
        let (place, tag) = ends.hash();
        let found = self.places[place].load(Relaxed);
        if found & !0xffff == tag { found as u16 } else { 0 }
    }
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
                seen.push(Ends { local: end(low, 8080), remote: end(1, port) });
                seen.push(Ends { local: end(low, port), remote: end(1, 8080) });
            }
        }
        let mut hashes: Vec<(usize, u64)> = seen.iter().map(|ends| ends.hash()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), seen.len());
    }

    #[test]
    fn a_window_is_that_of_its_end_alone() {
        let (windows, end) = (Windows::new(), |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        let ends = Ends { local: end(1), remote: end(2) };
        assert_eq!(windows.last(ends), 0);
        windows.note(ends, 7);
        windows.note(ends, 9);
        assert_eq!((windows.last(ends), windows.last(Ends { local: end(2), remote: end(1) })), (9, 0));
    }
}

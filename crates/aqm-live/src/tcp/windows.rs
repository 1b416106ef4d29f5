//! A lock-free table of the congestion windows of connections, which several threads share.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::router::ip::{Headers, TcpHeader};

/// Number of slots for windows. A hash of the addresses and ports of a connection determines the slot.
const SLOTS: usize = 1 << 16;

/// The last known window of each connection, in segments. If two connections are assigned to the same slot, the later
/// connection replaces the earlier connection.
pub struct Windows {
    /// The lower bits of each slot contain the window, and the upper bits contain the remaining bits of the hash.
    slots: Vec<AtomicU64>,
}

/// The addresses and ports of a connection, as seen from one end.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The end whose window is recorded.
    pub local: SocketAddrV4,
    /// The other end of the connection.
    pub remote: SocketAddrV4,
}

impl Ends {
    /// Returns the addresses and ports of a packet's connection, as seen from the packet's sender.
    pub fn of(headers: &Headers, tcp: &TcpHeader) -> Self {
        let [from, to] = tcp.ports;
        let (local, remote) = (headers.source, headers.destination);
        Self { local: SocketAddrV4::new(local, from), remote: SocketAddrV4::new(remote, to) }
    }

    /// Returns the slot of the connection, and a tag in the upper 48 bits that distinguishes the connection from other
    /// connections in the same slot.
    fn hash(self) -> (usize, u64) {
        let word = |end: SocketAddrV4| u64::from(u32::from(*end.ip())) << 16 | u64::from(end.port());
        let mixed =
            (word(self.local) ^ word(self.remote).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 48) as usize % SLOTS, mixed << 16)
    }
}

impl Windows {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Records the window of an end.
    #[inline]
    pub fn note(&self, ends: Ends, window: u16) {
        let (slot, tag) = ends.hash();
        self.slots[slot].store(tag | u64::from(window), Relaxed);
    }

    /// Returns the last recorded window of an end, or 0 if no window is recorded.
    #[inline]
    pub fn last(&self, ends: Ends) -> u16 {
        let (slot, tag) = ends.hash();
        let entry = self.slots[slot].load(Relaxed);
        if entry & !0xffff == tag { entry as u16 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn connections_are_distinguished_by_both_ends() {
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
    fn each_end_has_its_own_window() {
        let (windows, end) = (Windows::new(), |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        let ends = Ends { local: end(1), remote: end(2) };
        assert_eq!(windows.last(ends), 0);
        windows.note(ends, 7);
        windows.note(ends, 9);
        assert_eq!((windows.last(ends), windows.last(Ends { local: end(2), remote: end(1) })), (9, 0));
    }
}

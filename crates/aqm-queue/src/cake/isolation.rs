//! CAKE's isolation of flows and hosts: assigns packets to queues, and counts the bulk flows of each host, because a
//! queue's quantum is divided by the number of bulk flows of the flow's hosts.
//!
//! - The mode selects header fields, and a hash of these fields assigns a packet to one of the 1024 queues of its tin.
//!   The hash alone determines only a set of eight queues: if the queue that the hash selects is reserved for another
//!   flow, the packet is assigned to one of the other seven queues of the set, and shares a queue only if all eight
//!   queues are in use. With 100 flows, collisions are therefore very rare, whereas with plain hashing, 5 in 100 flows
//!   would share a queue.
//! - The dual modes count the bulk flows of each source host or of each destination host; the triple mode counts the
//!   bulk flows of both. A flow's quantum is divided by the larger count, so hosts share the link equally, and each
//!   host's share is divided equally among the flows of this host.
//!
//! aqmlab's choices: each packet contains the numbers of its hosts. The number 0 means that the host is unknown, and is
//! treated like the number of any other host. The hash is the finaliser of SplitMix64, applied to the number and a salt
//! that is drawn from the queue's own random stream when the first packet arrives. The kernel, by contrast, draws its
//! salt when the machine boots.

use aqm_net::{Packet, Rng, choices};

use crate::fair::classifier::mix;

choices! {
    /// The packets that share a queue, and the entities (flows or hosts) between which CAKE is fair.
    pub enum FlowMode {
        /// All packets share one queue.
        FlowBlind = "flowblind",
        /// One queue per source host.
        SrcHost = "srchost",
        /// One queue per destination host.
        DstHost = "dsthost",
        /// One queue per pair of hosts; the packets of both directions share this queue.
        Hosts = "hosts",
        /// One queue per flow.
        Flows = "flows",
        /// One queue per flow. Source hosts share the link equally, and the flows of each source host share that host's
        /// part equally.
        DualSrcHost = "dual-srchost",
        /// One queue per flow. Destination hosts share the link equally, and the flows of each destination host share
        /// that host's part equally.
        DualDstHost = "dual-dsthost",
        /// One queue per flow. Source hosts and destination hosts share the link equally, and the flows of each host
        /// share that host's part equally.
        TripleIsolate = "triple-isolate",
    }
}

impl FlowMode {
    /// Returns whether the mode depends on the hosts of packets.
    pub fn needs_hosts(self) -> bool {
        !matches!(self, Self::FlowBlind | Self::Flows)
    }

    /// Returns two flags: whether the mode counts the bulk flows of source hosts, and whether the mode counts the bulk
    /// flows of destination hosts.
    pub(super) fn counts(self) -> [bool; 2] {
        let triple = self == Self::TripleIsolate;
        [triple || self == Self::DualSrcHost, triple || self == Self::DualDstHost]
    }
}

/// Computes the hashes of packets.
#[derive(Clone)]
pub(super) struct Hasher {
    mode: FlowMode,
    /// The salt of the hash; `None` until the first packet arrives.
    salt: Option<u64>,
}

impl Hasher {
    pub fn new(mode: FlowMode) -> Self {
        Self { mode, salt: None }
    }

    /// Returns the hash that determines the packet's queue.
    #[inline]
    pub fn flow(&mut self, packet: &Packet, rng: &mut Rng) -> u32 {
        let salt = *self.salt.get_or_insert_with(|| rng.bits());
        match self.mode {
            FlowMode::FlowBlind => 0,
            FlowMode::SrcHost => host(packet.source, salt),
            FlowMode::DstHost => host(packet.destination, salt),
            FlowMode::Hosts => host(packet.source, salt) ^ host(packet.destination, salt),
            _ => hash(packet.flow.into(), salt),
        }
    }

    /// Returns the hashes of the packet's source and destination hosts.
    pub fn hosts(&self, packet: &Packet) -> [u32; 2] {
        [packet.source, packet.destination].map(|number| host(number, self.salt.unwrap_or(0)))
    }
}

fn hash(key: u64, salt: u64) -> u32 {
    (mix(key.wrapping_add(salt)) >> 32) as u32
}

fn host(number: u16, salt: u64) -> u32 {
    hash(u64::from(number) << 32 | 1, salt)
}

/// Number of queues per tin, and number of queues per set.
pub(super) const QUEUES: u32 = 1024;
const WAYS: u32 = 8;

/// Returns the indices of the eight queues to which a packet with this `hash` may be assigned, starting with the queue
/// that the hash selects.
#[inline]
pub(super) fn set(hash: u32) -> impl Iterator<Item = u32> {
    let own = hash % QUEUES;
    let first = own - own % WAYS;
    (0..WAYS).map(move |way| first + (own + way) % WAYS)
}

/// The source hosts or the destination hosts of a tin's packets, with the number of bulk flows of each host.
#[derive(Clone)]
pub(super) struct Hosts {
    /// The table of hosts; `None` if bulk flows are not counted.
    hosts: Option<Box<[Host; QUEUES as usize]>>,
}

#[derive(Clone, Copy, Default)]
struct Host {
    tag: u32,
    bulk_flows: u16,
}

impl Hosts {
    /// Creates an empty table. If `counted` is false, all hosts share one entry, whose number of bulk flows is always
    /// 0.
    pub fn new(counted: bool) -> Self {
        Self { hosts: counted.then(|| Box::new([Host::default(); QUEUES as usize])) }
    }

    /// Returns the index of the host with this `hash`. A host that is not in the table takes over an entry of its set
    /// that has no bulk flows. If all entries of the set have bulk flows, the host shares an entry with another host,
    /// and the flows of both hosts are counted together.
    pub fn index(&mut self, hash: u32) -> u16 {
        let Some(hosts) = &mut self.hosts else { return 0 };
        let known = set(hash).find(|&index| hosts[index as usize].tag == hash);
        let index = known
            .or_else(|| set(hash).find(|&index| hosts[index as usize].bulk_flows == 0))
            .unwrap_or(hash % QUEUES);
        hosts[index as usize].tag = hash;
        index as u16
    }

    #[inline]
    fn host(&mut self, index: u16) -> Option<&mut Host> {
        self.hosts.as_mut().map(|hosts| &mut hosts[usize::from(index) % QUEUES as usize])
    }

    /// Increases the host's count after a flow of the host at `index` has become bulk.
    #[inline]
    pub fn count(&mut self, index: u16) {
        if let Some(host) = self.host(index) {
            host.bulk_flows = (host.bulk_flows + 1).min(QUEUES as u16);
        }
    }

    /// Decreases the host's count after a flow of the host at `index` has ceased to be bulk.
    #[inline]
    pub fn uncount(&mut self, index: u16) {
        if let Some(host) = self.host(index) {
            host.bulk_flows = host.bulk_flows.saturating_sub(1);
        }
    }

    /// Returns the number of bulk flows of the host at `index`.
    #[inline]
    pub fn bulk_flows(&self, index: u16) -> u16 {
        self.hosts.as_ref().map_or(0, |hosts| hosts[usize::from(index) % QUEUES as usize].bulk_flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_eight_neighbours_and_begins_with_the_own_index() {
        for hash in [0, 5, 7, 8, 1023, 1024 + 13, u32::MAX] {
            let indices: Vec<u32> = set(hash).collect();
            assert_eq!(indices[0], hash % 1024);
            let mut sorted = indices.clone();
            sorted.sort_unstable();
            let first = hash % 1024 / 8 * 8;
            assert_eq!(sorted, (first..first + 8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_host_keeps_its_index_while_it_has_bulk_flows() {
        let mut hosts = Hosts::new(true);
        // The hashes of nine hosts belong to the same set of eight entries.
        let hash = |host: u32| 3 + host * 1024;
        let indices: Vec<u16> = (1..9).map(|host| hosts.index(hash(host))).collect();
        assert_eq!(indices, [3; 8], "an entry without flows is reused for the next host");
        let mut hosts = Hosts::new(true);
        let indices: Vec<u16> = (1..9)
            .map(|host| {
                let index = hosts.index(hash(host));
                hosts.count(index);
                index
            })
            .collect();
        assert_eq!(indices, [3, 4, 5, 6, 7, 0, 1, 2]);
        assert_eq!(hosts.index(hash(4)), 6, "the host is known");
        assert_eq!(hosts.index(hash(9)), 3, "all hosts have flows");
        hosts.uncount(5);
        assert_eq!(hosts.index(hash(1)), 5, "another host has taken its entry");
    }

    #[test]
    fn counts_stay_within_their_bounds() {
        let mut hosts = Hosts::new(true);
        hosts.uncount(0);
        assert_eq!(hosts.bulk_flows(0), 0);
        (0..3000).for_each(|_| hosts.count(1023));
        assert_eq!(hosts.bulk_flows(1023), 1024);
        let mut none = Hosts::new(false);
        none.count(7);
        assert_eq!(none.bulk_flows(7), 0);
    }

    #[test]
    fn a_mode_hashes_the_fields_in_its_name() {
        let mut rng = aqm_net::Streams::new(1).named("queue", 0);
        let packet = |flow, source, destination| Packet { flow, source, destination, ..Packet::default() };
        let like = packet(1, 1, 2);
        let others = [packet(2, 1, 2), packet(1, 3, 2), packet(1, 1, 3), packet(1, 2, 1)];
        for (mode, expected) in [
            (FlowMode::FlowBlind, [true; 4]),
            (FlowMode::SrcHost, [true, false, true, false]),
            (FlowMode::DstHost, [true, true, false, false]),
            (FlowMode::Hosts, [true, false, false, true]),
            (FlowMode::TripleIsolate, [false, true, true, true]),
        ] {
            let mut hasher = Hasher::new(mode);
            let own = hasher.flow(&like, &mut rng);
            assert_eq!(others.map(|other| hasher.flow(&other, &mut rng) == own), expected, "{mode:?}");
        }
    }
}

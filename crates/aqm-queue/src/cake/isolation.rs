//! Whom CAKE is fair to: which packets share a queue, and by how much a queue counts less because its hosts have many.
//!
//! - A hash of what the mode names puts a packet into one of 1024 queues of its tin. The hash only names a set of
//!   eight of them: if its own queue is another's, the packet gets one of the seven beside it, and only if all eight
//!   are in use it shares one. So with 100 flows hardly any two meet, where plain hashing lets 5 in 100 do.
//! - The dual and triple modes count the bulk flows of each host, by source, by destination or both. A flow's quantum
//!   is divided by the larger count, so hosts share the line, and within a host its flows do.
//!
//! Ours: a host is a number that packets carry; 0, unknown, is a host, too. The hash is the finaliser of SplitMix64
//! over the number and a salt that is drawn from the queue's own stream as the first packet arrives; the kernel's
//! salt is drawn when the machine starts.

use aqm_net::{Packet, Rng, choices};

use crate::fair::classifier::mix;

choices! {
    /// Which packets share a queue, and between whom queues are fair.
    pub enum FlowMode {
        /// All share one.
        FlowBlind = "flowblind",
        /// Those from one host.
        SrcHost = "srchost",
        /// Those to one host.
        DstHost = "dsthost",
        /// Those between two hosts, in either direction.
        Hosts = "hosts",
        /// Those of a flow.
        Flows = "flows",
        /// Those of a flow; fair between sources first.
        DualSrcHost = "dual-srchost",
        /// Those of a flow; fair between destinations first.
        DualDstHost = "dual-dsthost",
        /// Those of a flow; fair between sources and between destinations first.
        TripleIsolate = "triple-isolate",
    }
}

impl FlowMode {
    /// Whether it looks at hosts at all.
    pub fn wants_hosts(self) -> bool {
        !matches!(self, Self::FlowBlind | Self::Flows)
    }

    /// Whether it counts the bulk flows of sources, and of destinations.
    pub(super) fn counts(self) -> [bool; 2] {
        let triple = self == Self::TripleIsolate;
        [triple || self == Self::DualSrcHost, triple || self == Self::DualDstHost]
    }
}

/// Makes hashes of packets.
#[derive(Clone)]
pub(super) struct Hasher {
    mode: FlowMode,
    /// `None` until the first packet arrives.
    salt: Option<u64>,
}

impl Hasher {
    pub fn new(mode: FlowMode) -> Self {
        Self { mode, salt: None }
    }

    /// The hash of what shares a queue with this packet.
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

    /// The hashes of the hosts that the packet comes from and goes to.
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

/// How many queues a tin has, and how many of them are a set.
pub(super) const QUEUES: u32 = 1024;
const WAYS: u32 = 8;

/// The places of the set of a `hash`, its own first.
#[inline]
pub(super) fn set(hash: u32) -> impl Iterator<Item = u32> {
    let own = hash % QUEUES;
    let first = own - own % WAYS;
    (0..WAYS).map(move |way| first + (own + way) % WAYS)
}

/// The sources or the destinations of a tin's packets, with the bulk flows of each.
#[derive(Clone)]
pub(super) struct Hosts {
    /// `None` if they are not counted.
    hosts: Option<Box<[Host; QUEUES as usize]>>,
}

#[derive(Clone, Copy, Default)]
struct Host {
    tag: u32,
    bulk_flows: u16,
}

impl Hosts {
    /// None yet; if they are not `counted`, all are one without flows.
    pub fn new(counted: bool) -> Self {
        Self { hosts: counted.then(|| Box::new([Host::default(); QUEUES as usize])) }
    }

    /// The place of the host with this `hash`; of those in its set that have no bulk flow it may take one that another
    /// had. If there is none, its flows count for the other host, too.
    pub fn place(&mut self, hash: u32) -> u16 {
        let Some(hosts) = &mut self.hosts else { return 0 };
        let known = set(hash).find(|&place| hosts[place as usize].tag == hash);
        let place = known
            .or_else(|| set(hash).find(|&place| hosts[place as usize].bulk_flows == 0))
            .unwrap_or(hash % QUEUES);
        hosts[place as usize].tag = hash;
        place as u16
    }

    #[inline]
    fn host(&mut self, place: u16) -> Option<&mut Host> {
        self.hosts.as_mut().map(|hosts| &mut hosts[usize::from(place) % QUEUES as usize])
    }

    /// A flow of the host at `place` has become bulk.
    #[inline]
    pub fn count(&mut self, place: u16) {
        if let Some(host) = self.host(place) {
            host.bulk_flows = (host.bulk_flows + 1).min(QUEUES as u16);
        }
    }

    /// A flow of the host at `place` is no longer bulk.
    #[inline]
    pub fn uncount(&mut self, place: u16) {
        if let Some(host) = self.host(place) {
            host.bulk_flows = host.bulk_flows.saturating_sub(1);
        }
    }

    /// The bulk flows of the host at `place`.
    #[inline]
    pub fn bulk_flows(&self, place: u16) -> u16 {
        self.hosts.as_ref().map_or(0, |hosts| hosts[usize::from(place) % QUEUES as usize].bulk_flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_eight_neighbours_and_begins_with_its_own() {
        for hash in [0, 5, 7, 8, 1023, 1024 + 13, u32::MAX] {
            let places: Vec<u32> = set(hash).collect();
            assert_eq!(places[0], hash % 1024);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            let first = hash % 1024 / 8 * 8;
            assert_eq!(sorted, (first..first + 8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_host_keeps_its_place_while_it_has_bulk_flows() {
        let mut hosts = Hosts::new(true);
        // Nine hosts of one set.
        let hash = |host: u32| 3 + host * 1024;
        let places: Vec<u16> = (1..9).map(|host| hosts.place(hash(host))).collect();
        assert_eq!(places, [3; 8], "a place without flows is the next one's, too");
        let mut hosts = Hosts::new(true);
        let places: Vec<u16> = (1..9)
            .map(|host| {
                let place = hosts.place(hash(host));
                hosts.count(place);
                place
            })
            .collect();
        assert_eq!(places, [3, 4, 5, 6, 7, 0, 1, 2]);
        assert_eq!(hosts.place(hash(4)), 6, "it is known");
        assert_eq!(hosts.place(hash(9)), 3, "all have flows");
        hosts.uncount(5);
        assert_eq!(hosts.place(hash(1)), 5, "its own was taken from it");
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
    fn a_mode_hashes_what_it_names() {
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

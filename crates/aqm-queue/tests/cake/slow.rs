//! A second implementation of CAKE, as simple as possible and slow: lists are searched, the flows of hosts are counted
//! whenever their number is needed, and memory is summed up each time. It must agree with the discipline packet by
//! packet.
//!
//! If the memory limit is exceeded while several queues are the longest, the discipline may choose any of them. The
//! model receives the dropped packet and checks that no queue is longer than this packet's queue.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::{Acknowledgement, Config, Context, Label, Observer, Protocol, Reason};
use serde_json::{Value, json};

const QUEUES: usize = 1024;
const SECOND: i64 = 1_000_000_000;

/// The parameters of the model.
#[derive(Clone, Debug)]
struct Setting {
    /// In bytes per second; 0 if unlimited.
    rate: u64,
    autorate: bool,
    ingress: bool,
    diffserv: &'static str,
    mode: &'static str,
    /// 0 for no filter, 1 for a conservative filter, 2 for an aggressive one.
    filter: u8,
    rtt_us: u64,
    memlimit: Option<u64>,
    overhead: Option<i64>,
    mpu: i64,
    atm: &'static str,
}

impl Setting {
    fn parameters(&self) -> Value {
        let filter = ["disabled", "conservative", "aggressive"][usize::from(self.filter)];
        let mut table = json!({
            "kind": "cake", "start": "fresh", "autorate_ingress": self.autorate, "ingress": self.ingress, "diffserv": self.diffserv,
            "flows": self.mode, "ack_filter": filter,
            "rtt": format!("{}us", self.rtt_us), "mpu": format!("{}B", self.mpu), "atm": self.atm,
        });
        if self.rate > 0 {
            table["bandwidth"] = json!(format!("{}bps", self.rate * 8));
        }
        if let Some(limit) = self.memlimit {
            table["memlimit"] = json!(format!("{limit}B"));
        }
        if let Some(overhead) = self.overhead {
            table["overhead"] = json!(overhead);
        }
        table
    }

    fn size_on_link(&self, bytes: u16) -> i64 {
        let mut length = i64::from(bytes);
        if let Some(overhead) = self.overhead {
            length = (length - 14).max(0) + overhead;
        }
        length = length.max(0).max(self.mpu);
        match self.atm {
            "atm" => (length + 47) / 48 * 53,
            "ptm" => length + (length + 63) / 64,
            _ => length,
        }
    }

    /// For each tin: the rate, and the quantum if no rate is set.
    fn tins(&self, rate: u64) -> Vec<(u64, i64)> {
        let shift = |shifts: &[u32]| shifts.iter().map(|&by| (rate >> by, 1024 >> by)).collect();
        match self.diffserv {
            "besteffort" => vec![(rate, 65_535)],
            "diffserv3" => shift(&[0, 4, 2]),
            "diffserv4" => shift(&[0, 4, 1, 2]),
            _ => {
                let mut tins = vec![(rate, 256)];
                while tins.len() < 8 {
                    let (rate, quantum) = tins[tins.len() - 1];
                    tins.push((rate * 7 / 8, quantum * 7 / 8));
                }
                tins
            }
        }
    }

    fn tin(&self, dscp: u8) -> usize {
        // Only the code points in `LABELS`.
        match (self.diffserv, dscp) {
            ("besteffort", _) => 0,
            ("precedence", _) => usize::from(dscp) / 8,
            ("diffserv3", 8) => 1,
            ("diffserv3", 46 | 48) => 2,
            ("diffserv3", _) => 0,
            ("diffserv4", 8) => 1,
            ("diffserv4", 34 | 26) => 2,
            ("diffserv4", 46 | 48) => 3,
            ("diffserv4", _) => 0,
            (_, 8 | 10) => 1,
            (_, 26 | 34) => 3,
            (_, 46) => 6,
            (_, 48) => 7,
            _ => 2,
        }
    }

    fn memory_limit(&self, rate: u64) -> u64 {
        let most = 10_240 * 1514;
        match self.memlimit {
            Some(limit) => limit,
            None if rate == 0 => most,
            None => (4 * rate * self.rtt_us / 1_000_000).max(4_194_304).min(most),
        }
    }
}

/// Code points of packets by label.
const LABELS: [u8; 8] = [0, 8, 10, 26, 34, 46, 48, 0];

/// The kernel's memory for a packet of this size.
fn memory_of(bytes: u16) -> u64 {
    let lines = u64::from(bytes).div_ceil(64) + 1;
    let mut pool = 1;
    while pool < lines * 64 + 320 {
        pool *= 2;
    }
    pool + 256
}

/// The time per byte has 34 bits; 0 if the rate is unlimited.
fn time_of(bytes: i64, rate: u64) -> i64 {
    if rate == 0 {
        return 0;
    }
    let (mut per_byte, mut shift) = ((1_000_000_000_u128 << 34) / u128::from(rate.max(64)), 34);
    while per_byte >= 1 << 34 {
        per_byte /= 2;
        shift -= 1;
    }
    ((bytes as u128 * per_byte) >> shift) as i64
}

/// The kernel's exponential average, with a weight of 2^-shift.
fn average(before: u64, sample: u64, shift: u32) -> u64 {
    before - before / (1 << shift) + sample / (1 << shift)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Set {
    #[default]
    None,
    Sparse,
    SparseWait,
    Bulk,
    Decaying,
}

/// The COBALT of a queue.
#[derive(Clone, Default)]
struct Control {
    count: u32,
    root: u64,
    dropping: bool,
    next: i64,
    p: u64,
    moved: Option<i64>,
}

impl Control {
    fn follow(&mut self) {
        let step = |root: u64, count: u32| {
            let square = (root * root) >> 32;
            ((((3_u64 << 32) - u64::from(count) * square) >> 2) * root) >> 31
        };
        if self.count >= 16 {
            self.root = step(self.root, self.count);
            return;
        }
        self.root = u64::from(u32::MAX);
        for count in 1..=self.count {
            for _ in 0..4 {
                self.root = step(self.root, count);
            }
        }
    }

    fn after(&self, from: i64, interval: i64) -> i64 {
        from + ((u128::from(interval as u32) * u128::from(self.root)) >> 32) as i64
    }

    fn may_move(&self, now: i64, target: i64) -> bool {
        self.moved.is_none_or(|at| now - at > target)
    }

    fn on_empty(&mut self, now: i64, target: i64, interval: i64) {
        if self.p > 0 && self.may_move(now, target) {
            self.p = self.p.saturating_sub(1 << 20);
            self.moved = Some(now);
        }
        self.dropping = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.follow();
            self.next = self.after(self.next, interval);
        }
    }

    fn on_overflow(&mut self, now: i64, target: i64) {
        if self.may_move(now, target) {
            self.p = (self.p + (1 << 24)).min(u64::from(u32::MAX));
            self.moved = Some(now);
        }
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// Whether a packet with this `ecn`, which waited too long if `late`, is marked, and whether it is dropped.
    fn judge(&mut self, now: i64, interval: i64, (late, ecn): (bool, Ecn), rng: &mut Rng) -> (bool, bool) {
        let mut behind = now - self.next;
        let due = self.count > 0 && behind >= 0;
        if late {
            if !self.dropping {
                self.next = self.after(now, interval);
            }
            self.count = self.count.max(1);
        }
        self.dropping = late;
        let (mut marks, mut drops) = (false, false);
        if due && late {
            marks = ecn != Ecn::NotEct;
            drops = !marks;
            self.count += 1;
            self.follow();
            self.next = self.after(self.next, interval);
            behind = now - self.next;
        } else if due {
            while self.count > 0 && behind >= 0 {
                self.count -= 1;
                self.follow();
                self.next = self.after(self.next, interval);
                behind = now - self.next;
            }
        }
        if self.p > 0 {
            drops |= (rng.bits() >> 32) < self.p;
        }
        if self.count == 0 {
            self.next = now + interval;
        } else if behind > 0 && !drops {
            self.next = now;
        }
        (marks, drops)
    }

    fn is_at_rest(&self, now: i64) -> bool {
        self.p == 0 && self.count == 0 && now >= self.next
    }
}

#[derive(Clone)]
struct QueuedPacket {
    packet: Packet,
    arrival: i64,
    size_on_link: i64,
}

#[derive(Clone, Default)]
struct Queue {
    packets: VecDeque<QueuedPacket>,
    set: Set,
    deficit: i64,
    tag: u32,
    hosts: [usize; 2],
    control: Control,
}

impl Queue {
    fn bytes(&self) -> u64 {
        self.packets.iter().map(|queued| u64::from(queued.packet.bytes)).sum()
    }
}

/// The lists of a tin.
const NEW: usize = 0;
const OLD: usize = 1;
const DECAYING: usize = 2;

#[derive(Clone, Default)]
struct Tin {
    rate: u64,
    quantum: i64,
    deficit: i64,
    next: i64,
    queues: Vec<Queue>,
    host_tags: [Vec<u32>; 2],
    lists: [Vec<usize>; 3],
    /// Counters by name.
    statistics: BTreeMap<&'static str, u64>,
    delays: [u64; 3],
}

impl Tin {
    /// The queues that are in a list. All other queues are empty.
    fn listed(&self) -> impl Iterator<Item = &Queue> {
        self.lists.iter().flatten().map(|&queue| &self.queues[queue])
    }

    fn count(&self, sets: &[Set]) -> u64 {
        self.listed().filter(|queue| sets.contains(&queue.set)).count() as u64
    }

    fn has_flows(&self) -> bool {
        !self.lists[NEW].is_empty() || !self.lists[OLD].is_empty()
    }

    fn add(&mut self, name: &'static str, by: u64) {
        *self.statistics.entry(name).or_default() += by;
    }

    /// The number of bulk flows of a host on one side.
    fn bulk_flows(&self, side: usize, host: usize) -> u64 {
        let of_it = |queue: &&Queue| queue.set == Set::Bulk && queue.hosts[side] == host;
        self.listed().filter(of_it).count() as u64
    }

    fn target(&self, setting: &Setting) -> i64 {
        let configured = (setting.rtt_us / 20).max(1) as i64 * 1000;
        configured.max(self.full_packet() * 3 / 2)
    }

    fn interval(&self, setting: &Setting) -> i64 {
        let configured = (setting.rtt_us / 20).max(1) as i64 * 1000;
        let target = self.target(setting);
        (setting.rtt_us as i64 * 1000 + target - configured).max(2 * target)
    }

    fn full_packet(&self) -> i64 {
        time_of(1514, self.rate)
    }

    fn flow_quantum(&self) -> u64 {
        if self.rate == 0 { 1514 } else { (self.rate / 4096).clamp(300, 1514) }
    }

    fn move_to(&mut self, queue: usize, list: Option<usize>) {
        self.lists.iter_mut().for_each(|list| list.retain(|&other| other != queue));
        if let Some(list) = list {
            self.lists[list].push(queue);
        }
    }
}

/// The eight candidate queues of a hash, in search order.
fn candidates(hash: u32) -> [usize; 8] {
    let own = hash as usize % QUEUES;
    std::array::from_fn(|way| own / 8 * 8 + (own + way) % 8)
}

struct Slow {
    setting: Setting,
    tins: Vec<Tin>,
    current: usize,
    rate: u64,
    next: i64,
    failsafe: i64,
    salt: Option<u64>,
    overlimits: u64,
    most_memory: u64,
    estimate: Estimate,
}

struct Estimate {
    last: i64,
    begin: i64,
    gap: u64,
    bytes: u64,
    peak: u64,
}

impl Slow {
    fn new(setting: &Setting) -> Self {
        let hour = 3600 * SECOND;
        let count = setting.tins(0).len();
        let tin = Tin {
            queues: vec![Queue::default(); QUEUES],
            host_tags: [vec![0; QUEUES], vec![0; QUEUES]],
            ..Tin::default()
        };
        let mut slow = Self {
            setting: setting.clone(),
            tins: vec![tin; count],
            current: 0,
            rate: 0,
            next: 0,
            failsafe: 0,
            salt: None,
            overlimits: 0,
            most_memory: 0,
            estimate: Estimate { last: -hour, begin: -hour, gap: 0, bytes: 0, peak: setting.rate },
        };
        slow.set_rate(setting.rate);
        slow
    }

    fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
        for (tin, (rate, quantum)) in self.tins.iter_mut().zip(self.setting.tins(rate)) {
            (tin.rate, tin.quantum) = (rate, quantum);
        }
    }

    fn packets(&self) -> usize {
        self.tins.iter().flat_map(Tin::listed).map(|queue| queue.packets.len()).sum()
    }

    fn memory(&self) -> u64 {
        let queued = self.tins.iter().flat_map(Tin::listed).flat_map(|queue| &queue.packets);
        queued.map(|queued| memory_of(queued.packet.bytes)).sum()
    }

    /// The sides on which the bulk flows of hosts are counted.
    fn counts(&self) -> [bool; 2] {
        let is = |modes: [&str; 2]| modes.contains(&self.setting.mode);
        [is(["dual-srchost", "triple-isolate"]), is(["dual-dsthost", "triple-isolate"])]
    }

    fn quantum(&self, tin: usize, queue: usize, rng: &mut Rng) -> i64 {
        let tin = &self.tins[tin];
        let mut load = 1;
        for (side, counts) in self.counts().into_iter().enumerate() {
            if counts {
                load = load.max(tin.bulk_flows(side, tin.queues[queue].hosts[side]));
            }
        }
        ((tin.flow_quantum() * (65_535 / load) + (rng.bits() >> 48)) / 65_536) as i64
    }

    fn charge(&mut self, tin: usize, bytes: i64, now: i64, dropped: bool) {
        if self.rate == 0 {
            return;
        }
        let tin = &mut self.tins[tin];
        let time = time_of(bytes, tin.rate);
        tin.next = if tin.next < now { tin.next + time } else { tin.next.max(now + time) };
        let time = time_of(bytes, self.rate);
        self.next += time;
        if !dropped {
            self.failsafe += time + time / 2;
        }
    }

    /// The queue of a packet. A packet without a queue gets one.
    fn find(&mut self, tin: usize, packet: &Packet, rng: &mut Rng) -> usize {
        let salt = *self.salt.get_or_insert_with(|| rng.bits());
        let hash = |key: u64| {
            let mut value = key.wrapping_add(salt);
            for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb_u64)] {
                value = (value ^ (value >> shift)).wrapping_mul(factor);
            }
            ((value ^ (value >> 31)) >> 32) as u32
        };
        let mode = self.setting.mode;
        if mode == "flowblind" {
            return 0;
        }
        let hosts = [packet.source, packet.destination].map(|host| hash((u64::from(host) << 32) + 1));
        let flow = match mode {
            "srchost" => hosts[0],
            "dsthost" => hosts[1],
            "hosts" => hosts[0] ^ hosts[1],
            _ => hash(packet.flow.into()),
        };
        let counts = self.counts();
        let tin = &mut self.tins[tin];
        let ways = candidates(flow);
        let known = ways.into_iter().find(|&queue| tin.queues[queue].tag == flow);
        if let Some(queue) = known.filter(|&queue| tin.queues[queue].set != Set::None) {
            if queue != ways[0] {
                tin.add("way_indirect_hits", 1);
            }
            return queue;
        }
        let free = ways.into_iter().find(|&queue| tin.queues[queue].set == Set::None);
        let queue = match (known, free) {
            (Some(queue), _) => {
                tin.add("way_indirect_hits", u64::from(queue != ways[0]));
                queue
            }
            (None, Some(queue)) => {
                tin.add("way_misses", 1);
                queue
            }
            (None, None) => {
                tin.add("way_collisions", 1);
                ways[0]
            }
        };
        // The previous flow of the queue no longer counts for its hosts.
        let set = std::mem::take(&mut tin.queues[queue].set);
        tin.queues[queue].tag = flow;
        for side in [0, 1] {
            if counts[side] {
                let ways = candidates(hosts[side]);
                let known = ways.into_iter().find(|&index| tin.host_tags[side][index] == hosts[side]);
                let free = || ways.into_iter().find(|&index| tin.bulk_flows(side, index) == 0);
                let index = known.or_else(free).unwrap_or(ways[0]);
                tin.host_tags[side][index] = hosts[side];
                tin.queues[queue].hosts[side] = index;
            }
        }
        tin.queues[queue].set = set;
        queue
    }

    /// The index of the acknowledgement that a packet makes redundant.
    fn redundant(&self, queued: &VecDeque<QueuedPacket>, newest: &Packet) -> Option<usize> {
        let new = acknowledgement(newest).filter(|_| self.setting.filter > 0)?;
        let is_same_connection = |one: &Packet| {
            (one.flow, one.source, one.destination) == (newest.flow, newest.source, newest.destination)
        };
        let mut candidate: Option<(usize, bool)> = None;
        for (index, one) in queued.iter().enumerate() {
            let Some(old) = acknowledgement(&one.packet).filter(|_| is_same_connection(&one.packet)) else {
                continue;
            };
            candidate = candidate.filter(|&(_, ece)| ece == old.ece);
            if old.bare && old.number < new.number {
                if candidate.is_some() {
                    return candidate.map(|candidate| candidate.0);
                }
                candidate = Some((index, old.ece));
            }
        }
        let alone = |&(index, ece): &(usize, bool)| index + 1 == queued.len() && ece == new.ece;
        candidate
            .filter(|candidate| self.setting.filter == 2 && alone(candidate))
            .map(|candidate| candidate.0)
    }

    /// Enqueues a packet. `overflows` are the packets that the discipline then dropped because its memory limit was
    /// exceeded. Returns the id of the acknowledgement that was dropped.
    fn enqueue(&mut self, packet: Packet, now: i64, overflows: &[u32], rng: &mut Rng) -> Option<u32> {
        let index = self.setting.tin(LABELS[usize::from(packet.label)]);
        let number = self.find(index, &packet, rng);
        let is_first = self.packets() == 0;
        let tin = &mut self.tins[index];
        if tin.listed().all(|queue| queue.packets.is_empty()) {
            tin.next = tin.next.max(now);
        }
        if is_first {
            if self.next < now {
                (self.next, self.failsafe) = (now, now);
            } else if self.next > now && self.failsafe > now {
                self.overlimits += 1;
            }
        }
        let redundant = self.redundant(&self.tins[index].queues[number].packets, &packet);
        let mut bytes = u64::from(packet.bytes);
        let removed = redundant.map(|redundant| {
            let one = self.tins[index].queues[number].packets.remove(redundant).unwrap();
            self.tins[index].add("ack_drops", 1);
            if self.setting.ingress {
                self.charge(index, one.size_on_link, now, true);
            }
            bytes = bytes.wrapping_sub(u64::from(one.packet.bytes));
            one.packet.id
        });
        let size_on_link = self.setting.size_on_link(packet.bytes);
        let tin = &mut self.tins[index];
        tin.queues[number].packets.push_back(QueuedPacket { packet, arrival: now, size_on_link });
        tin.add("sent_packets", 1);
        tin.add("sent_bytes", packet.bytes.into());
        if self.setting.autorate {
            self.estimate(bytes, now);
        }
        match self.tins[index].queues[number].set {
            Set::None | Set::Decaying => {
                let deficit = self.quantum(index, number, rng);
                let tin = &mut self.tins[index];
                tin.move_to(number, Some(NEW));
                (tin.queues[number].set, tin.queues[number].deficit) = (Set::Sparse, deficit);
            }
            Set::SparseWait => self.tins[index].queues[number].set = Set::Bulk,
            Set::Sparse | Set::Bulk => {}
        }
        self.most_memory = self.most_memory.max(self.memory());
        for &id in overflows {
            assert!(
                self.memory() > self.setting.memory_limit(self.rate),
                "{id} is dropped though there is room"
            );
            self.overflow(id, now);
        }
        assert!(self.memory() <= self.setting.memory_limit(self.rate), "the memory limit is exceeded");
        removed
    }

    fn estimate(&mut self, bytes: u64, now: i64) {
        let one = &mut self.estimate;
        one.bytes = one.bytes.wrapping_add(bytes);
        let gap = (now - one.last).min(SECOND) as u64;
        one.gap = average(one.gap, gap, if gap > one.gap { 2 } else { 8 });
        one.last = now;
        if gap > one.gap {
            let sample = one.bytes.wrapping_mul(SECOND as u64) / (now - one.begin) as u64;
            one.peak = average(one.peak, sample, if sample > one.peak { 2 } else { 8 });
            (one.bytes, one.begin) = (0, now);
            let rate = one.peak * 15 / 16;
            self.set_rate(rate);
        }
    }

    fn overflow(&mut self, id: u32, now: i64) {
        let all = || (0..self.tins.len()).flat_map(|tin| (0..QUEUES).map(move |queue| (tin, queue)));
        let longest = all().map(|(tin, queue)| self.tins[tin].queues[queue].bytes()).max();
        let is_front = |&(tin, queue): &(usize, usize)| {
            self.tins[tin].queues[queue].packets.front().is_some_and(|queued| queued.packet.id == id)
        };
        let (index, number) = all().find(is_front).expect("the dropped packet is the oldest of a queue");
        assert_eq!(
            Some(self.tins[index].queues[number].bytes()),
            longest,
            "the dropped packet is in the longest queue"
        );
        let target = self.tins[index].target(&self.setting);
        let tin = &mut self.tins[index];
        let queued = tin.queues[number].packets.pop_front().unwrap();
        tin.add("drops", 1);
        tin.queues[number].control.on_overflow(now, target);
        if self.setting.ingress {
            self.charge(index, queued.size_on_link, now, true);
        }
    }

    /// Selects the next tin to serve. At least one packet must be queued.
    fn choose(&mut self, now: i64) {
        if self.rate == 0 {
            while !(self.tins[self.current].has_flows() && self.tins[self.current].deficit >= 0) {
                let tin = &mut self.tins[self.current];
                tin.deficit += if tin.deficit <= 0 { tin.quantum } else { 0 };
                self.current = (self.current + 1) % self.tins.len();
            }
            return;
        }
        let there: Vec<usize> = (0..self.tins.len()).filter(|&tin| self.tins[tin].has_flows()).collect();
        let ahead = |&tin: &usize| self.tins[tin].next <= now;
        let highest = there.iter().copied().rfind(ahead);
        // If all tins are at their share, the tin that is due first; of two, the one with the higher priority.
        let soonest = || there.iter().copied().rev().min_by_key(|&tin| self.tins[tin].next);
        self.current = highest.or_else(soonest).unwrap();
    }

    fn dequeue(&mut self, now: i64, rng: &mut Rng, fates: &mut Vec<Fate>) -> Option<Packet> {
        let mut looks_at_decaying = true;
        while self.packets() > 0 {
            if self.next > now && self.failsafe > now {
                self.overlimits += 1;
                return None;
            }
            self.choose(now);
            let sent = self.serve(now, &mut looks_at_decaying, rng, fates);
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    /// The time until which all packets are delayed.
    fn held_until(&self) -> i64 {
        self.next.min(self.failsafe)
    }

    /// A packet of the current tin, unless a queue is found empty.
    fn serve(
        &mut self,
        now: i64,
        looks_at_decaying: &mut bool,
        rng: &mut Rng,
        fates: &mut Vec<Fate>,
    ) -> Option<Packet> {
        let index = self.current;
        loop {
            let lists = &self.tins[index].lists;
            let order = if *looks_at_decaying { [DECAYING, NEW, OLD] } else { [NEW, OLD, DECAYING] };
            *looks_at_decaying = false;
            let number = order.into_iter().find_map(|list| lists[list].first().copied())?;
            let queue = &mut self.tins[index].queues[number];
            if queue.deficit <= 0 {
                queue.set = match queue.set {
                    Set::Sparse if queue.packets.is_empty() => Set::SparseWait,
                    Set::Sparse => Set::Bulk,
                    other => other,
                };
                let quantum = self.quantum(index, number, rng);
                self.tins[index].queues[number].deficit += quantum;
                self.tins[index].move_to(number, Some(OLD));
                continue;
            }
            let mut again = false;
            while !again {
                let (target, interval) =
                    (self.tins[index].target(&self.setting), self.tins[index].interval(&self.setting));
                let full_packet = self.tins[index].full_packet();
                let others = if self.setting.ingress { self.tins[index].count(&[Set::Bulk]) } else { 0 };
                let tin = &mut self.tins[index];
                let queue = &mut tin.queues[number];
                let Some(QueuedPacket { mut packet, arrival, size_on_link }) = queue.packets.pop_front()
                else {
                    queue.control.on_empty(now, target, interval);
                    let (set, list) = if queue.control.is_at_rest(now) {
                        (Set::None, None)
                    } else {
                        (Set::Decaying, Some(DECAYING))
                    };
                    queue.set = set;
                    tin.move_to(number, list);
                    return None;
                };
                let waited = now - arrival;
                let late =
                    waited > target && waited > 2 * full_packet * others as i64 && waited > 4 * full_packet;
                let (marks, drops) = queue.control.judge(now, interval, (late, packet.ecn), rng);
                let is_last = queue.packets.is_empty();
                if drops && !is_last {
                    fates.push(Fate { id: packet.id, is_mark: false });
                    tin.add("drops", 1);
                    again = self.setting.ingress;
                } else {
                    tin.add("ecn_mark", u64::from(marks));
                    if marks && packet.ecn != Ecn::Ce {
                        packet.ecn = Ecn::Ce;
                        fates.push(Fate { id: packet.id, is_mark: true });
                    }
                    let delay = waited as u64;
                    let [mean, peak, base] = tin.delays;
                    tin.delays = [
                        average(mean, delay, 8),
                        average(peak, delay, if delay > peak { 2 } else { 8 }),
                        average(base, delay, if delay < base { 2 } else { 8 }),
                    ];
                }
                let sent = !drops || is_last;
                if sent || self.setting.ingress {
                    self.charge(index, size_on_link, now, !sent);
                    self.tins[index].deficit -= size_on_link;
                    self.tins[index].queues[number].deficit -= size_on_link;
                }
                if sent {
                    return Some(packet);
                }
            }
        }
    }

    /// The statistics of the tins as `tc` shows them, by name, in the model's order of tins.
    fn statistics(&self) -> Vec<BTreeMap<&'static str, u64>> {
        let of = |tin: &Tin| {
            let mut statistics = tin.statistics.clone();
            for (name, value) in [
                ("sparse_flows", tin.count(&[Set::Sparse, Set::SparseWait, Set::Decaying])),
                ("bulk_flows", tin.count(&[Set::Bulk])),
                ("unresponsive_flows", tin.queues.iter().filter(|queue| queue.control.p > 0).count() as u64),
                ("backlog_bytes", tin.queues.iter().map(Queue::bytes).sum()),
                ("threshold_rate", tin.rate),
                ("target_us", tin.target(&self.setting) as u64 / 1000),
                ("interval_us", tin.interval(&self.setting) as u64 / 1000),
                ("flow_quantum", tin.flow_quantum()),
                ("avg_delay_us", tin.delays[0] / 1000),
                ("peak_delay_us", tin.delays[1] / 1000),
                ("base_delay_us", tin.delays[2] / 1000),
            ] {
                statistics.insert(name, value);
            }
            statistics
        };
        self.tins.iter().map(of).collect()
    }
}

/// The acknowledgement of a packet: the number is its window, and small packets are bare.
fn acknowledgement(packet: &Packet) -> Option<Acknowledgement> {
    (packet.cwnd > 0).then(|| Acknowledgement {
        bare: packet.bytes < 100,
        number: packet.cwnd.into(),
        ece: packet.class == 1,
        ..Acknowledgement::default()
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    id: u32,
    is_mark: bool,
}

/// The fates that the discipline reports.
#[derive(Default)]
struct Observed {
    fates: Vec<Fate>,
    overflows: Vec<u32>,
    acknowledgements: Vec<u32>,
}

impl Observer for Observed {
    fn dropped(&mut self, packet: &Packet, why: Reason, _: Instant) {
        match why {
            Reason::Overmemory => self.overflows.push(packet.id),
            Reason::AckFilter => self.acknowledgements.push(packet.id),
            _ => self.fates.push(Fate { id: packet.id, is_mark: false }),
        }
    }

    fn marked(&mut self, packet: &Packet, _: Reason, _: Instant) {
        self.fates.push(Fate { id: packet.id, is_mark: true });
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        acknowledgement(packet)
    }
}

/// The numbers of events in a run, which must be positive for a meaningful comparison.
#[derive(Debug, Default)]
struct Totals {
    sent: u64,
    drops: u64,
    marks: u64,
    overflows: u64,
    acknowledgements: u64,
    queued: u64,
    collisions: u64,
}

/// Runs the discipline and the model side by side for this number of arrivals, with many flows if `crowd`.
fn side_by_side(setting: &Setting, arrivals: u32, crowd: bool, seed: u64, totals: &mut Totals) {
    let config = Config::read(setting.parameters()).unwrap();
    let mut queue = config.build(Rate::from_bps(10_000_000)).unwrap();
    for (number, dscp) in (0..).zip(LABELS) {
        queue.on_label(number, &Label { traffic: String::new(), protocol: Protocol::Udp, port: 0, dscp });
    }
    let mut slow = Slow::new(setting);
    let mut rng = Streams::new(seed).named("side by side", 0);
    let mut both = [Streams::new(seed).named("queue", 0), Streams::new(seed).named("queue", 0)];
    let mut free_at: Option<Span> = None;
    let mut clock = Span::from_nanos(0);
    let (mut flows, mut load, mut line) = (1, 1.0, 10_000_000);
    for id in 0..arrivals {
        if crowd {
            (flows, load) = (5000, 20.0);
        } else if id % 300 == 0 {
            flows = [1, 3, 12, 60, 5000][rng.below(5) as usize];
            load = [0.5, 0.95, 1.1, 1.6, 4.0][rng.below(5) as usize];
            line = [1_000_000, 10_000_000, 100_000_000][rng.below(3) as usize];
        }
        let gap = match rng.below(100) {
            0 => 400e6 * rng.uniform(),
            1..30 => 0.0,
            _ => 2.0 * rng.uniform() * 800.0 * 8e9 / f64::from(line) / load,
        };
        let arrives = clock + Span::from_nanos(gap as u64);
        // The link sends until then.
        while let Some(at) = free_at.filter(|&at| at <= arrives) {
            let nanos = at.nanos();
            let mut observed = Observed::default();
            let mut cx =
                Context { now: Instant::from_nanos(nanos), rng: &mut both[0], observer: &mut observed };
            let sent = queue.dequeue(&mut cx);
            let mut fates = Vec::new();
            let expected = slow.dequeue(nanos as i64, &mut both[1], &mut fates);
            assert_eq!((sent, &observed.fates), (expected, &fates), "at {nanos} ns, {setting:?}");
            assert!(observed.overflows.is_empty() && observed.acknowledgements.is_empty());
            totals.drops += fates.iter().filter(|fate| !fate.is_mark).count() as u64;
            totals.marks += fates.iter().filter(|fate| fate.is_mark).count() as u64;
            free_at = match sent {
                Some(packet) => {
                    totals.sent += 1;
                    Some(
                        at + Span::from_nanos(
                            u64::from(packet.bytes) * 8_000_000_000 / u64::from(line as u32),
                        ),
                    )
                }
                None if slow.packets() > 0 => {
                    totals.queued += 1;
                    assert_eq!(queue.next_ready(), Some(Instant::from_nanos(slow.held_until() as u64)));
                    Some(Span::from_nanos(slow.held_until() as u64))
                }
                None => None,
            };
        }
        clock = arrives;
        let flow = rng.below(flows) as u32;
        let acknowledges = flow % 3 == 1;
        let packet = Packet {
            id,
            flow,
            bytes: [64, 64, 200, 700, 1514, 1514][rng.below(if acknowledges { 3 } else { 6 }) as usize],
            cwnd: if acknowledges { 1 + (id / 4) as u16 } else { 0 },
            ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][(flow / 2 % 4) as usize],
            class: u8::from(rng.below(10) == 0),
            source: (flow % 5) as u16,
            destination: (flow / 3 % 4) as u16,
            label: (flow % 8) as u16,
            ..Packet::default()
        };
        let nanos = clock.nanos();
        let mut observed = Observed::default();
        queue.enqueue(
            packet,
            &mut Context { now: Instant::from_nanos(nanos), rng: &mut both[0], observer: &mut observed },
        );
        let removed = slow.enqueue(packet, nanos as i64, &observed.overflows, &mut both[1]);
        assert_eq!(observed.acknowledgements, Vec::from_iter(removed), "at {nanos} ns, {setting:?}");
        assert!(observed.fates.is_empty());
        totals.overflows += observed.overflows.len() as u64;
        totals.acknowledgements += u64::from(removed.is_some());
        assert_eq!(queue.backlog().packets as usize, slow.packets());
        if slow.packets() > 0 && free_at.is_none() {
            free_at = Some(clock);
        }
        if id % 50 == 0 {
            compare_statistics(&queue.tc_statistics(Instant::from_nanos(nanos)), &slow);
        }
    }
    totals.collisions +=
        slow.tins.iter().map(|tin| tin.statistics.get("way_collisions").unwrap_or(&0)).sum::<u64>();
    assert_eq!(both[0].bits(), both[1].bits(), "both have drawn the same number of random numbers");
}

fn compare_statistics(statistics: &Value, slow: &Slow) {
    assert_eq!(statistics["overlimits"], slow.overlimits);
    assert_eq!(statistics["memory_used"], slow.most_memory);
    assert_eq!(statistics["memory_limit"], slow.setting.memory_limit(slow.rate));
    assert_eq!(statistics["capacity_estimate"], slow.estimate.peak);
    let order: &[usize] = match slow.setting.diffserv {
        "diffserv3" => &[1, 0, 2],
        "diffserv4" => &[1, 0, 2, 3],
        _ => &[0, 1, 2, 3, 4, 5, 6, 7],
    };
    let tins = slow.statistics();
    for (shown, &tin) in statistics["tins"].as_array().unwrap().iter().zip(order) {
        for (name, value) in &tins[tin] {
            assert_eq!(shown[name], *value, "{name} of tin {tin}, {:?}", slow.setting);
        }
    }
}

#[test]
fn the_discipline_agrees_with_the_slow_model() {
    let mut rng = Streams::new(11).named("settings", 0);
    let mut totals = Totals::default();
    let mut one_of = |words: &[&'static str]| words[rng.below(words.len() as u64) as usize];
    let modes = [
        "flowblind",
        "srchost",
        "dsthost",
        "hosts",
        "flows",
        "dual-srchost",
        "dual-dsthost",
        "triple-isolate",
    ];
    for run in 0..48_u64 {
        let setting = Setting {
            rate: one_of(&["0", "125000", "1000000", "2500000"]).parse().unwrap(),
            autorate: one_of(&["", "", "", "auto"]) == "auto",
            ingress: one_of(&["", "in"]) == "in",
            diffserv: one_of(&["besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence"]),
            mode: modes[run as usize % modes.len()],
            filter: one_of(&["0", "1", "2"]).parse().unwrap(),
            rtt_us: one_of(&["1000", "20000", "100000", "1000000"]).parse().unwrap(),
            memlimit: one_of(&["", "", "30000", "150000"]).parse().ok(),
            overhead: one_of(&["", "", "-20", "44"]).parse().ok(),
            mpu: one_of(&["0", "84"]).parse().unwrap(),
            atm: one_of(&["noatm", "atm", "ptm"]),
        };
        side_by_side(&setting, 1500, false, run, &mut totals);
        if run < 8 {
            // So many flows that some share a queue.
            let crowded = Setting { diffserv: "besteffort", memlimit: None, filter: 0, ..setting };
            side_by_side(&crowded, 2500, true, run, &mut totals);
        }
    }
    println!("{totals:?}");
    let Totals { sent, drops, marks, overflows, acknowledgements, queued, collisions } = totals;
    let least = [sent, drops, marks, overflows, acknowledgements, queued, collisions].into_iter().min();
    assert!(least > Some(100), "what does not happen is not compared: {totals:?}");
}

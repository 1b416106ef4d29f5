//! CAKE once more, as plainly as it can be told, and slow: lists are searched, flows of hosts are counted anew
//! whenever their number is asked for, and memory is added up. Packet by packet it must do what the discipline does.
//!
//! Where a buffer overflows and several queues are the longest, the discipline may choose: the model is told which packet
//! went, and checks that none is longer than its queue.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Span, Streams};
use aqm_queue::{Acknowledgement, Config, Context, Label, Observer, Protocol, Reason};
use serde_json::{Value, json};

const QUEUES: usize = 1024;
const SECOND: i64 = 1_000_000_000;

/// What the model is told of the parameters, in its own words.
#[derive(Clone, Debug)]
struct Setting {
    /// In bytes per second; 0 if not limited.
    rate: u64,
    autorate: bool,
    ingress: bool,
    diffserv: &'static str,
    mode: &'static str,
    /// 0 for no filter, 1 for a conservative, 2 for an aggressive one.
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

    fn on_the_line(&self, bytes: u16) -> i64 {
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

    /// By tin: the rate, and the quantum where there is none.
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
        // Only the code points that `LABELS` has.
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

/// What a packet of this size takes of the memory of a kernel.
fn memory_of(bytes: u16) -> u64 {
    let lines = u64::from(bytes).div_ceil(64) + 1;
    let mut pool = 1;
    while pool < lines * 64 + 320 {
        pool *= 2;
    }
    pool + 256
}

/// How long a byte takes is kept in 34 bits; 0 if the rate is not limited.
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

/// The average of the kernel, which moves by a part of 2^shift.
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

/// COBALT of a queue.
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

    /// Whether a packet with this `ecn`, which waited too long if it is `late`, is marked, and whether it is dropped.
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
struct Held {
    packet: Packet,
    came: i64,
    on_the_line: i64,
}

#[derive(Clone, Default)]
struct Queue {
    packets: VecDeque<Held>,
    set: Set,
    deficit: i64,
    tag: u32,
    hosts: [usize; 2],
    control: Control,
}

impl Queue {
    fn bytes(&self) -> u64 {
        self.packets.iter().map(|held| u64::from(held.packet.bytes)).sum()
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
    /// Counters under their names.
    told: BTreeMap<&'static str, u64>,
    delays: [u64; 3],
}

impl Tin {
    /// The queues that are in a list; no other has packets.
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
        *self.told.entry(name).or_default() += by;
    }

    /// Of a host at one side.
    fn bulk_flows(&self, side: usize, host: usize) -> u64 {
        let of_it = |queue: &&Queue| queue.set == Set::Bulk && queue.hosts[side] == host;
        self.listed().filter(of_it).count() as u64
    }

    fn target(&self, setting: &Setting) -> i64 {
        let asked = (setting.rtt_us / 20).max(1) as i64 * 1000;
        asked.max(self.full_packet() * 3 / 2)
    }

    fn interval(&self, setting: &Setting) -> i64 {
        let asked = (setting.rtt_us / 20).max(1) as i64 * 1000;
        let target = self.target(setting);
        (setting.rtt_us as i64 * 1000 + target - asked).max(2 * target)
    }

    fn full_packet(&self) -> i64 {
        time_of(1514, self.rate)
    }

    fn flow_quantum(&self) -> u64 {
        if self.rate == 0 { 1514 } else { (self.rate / 4096).clamp(300, 1514) }
    }

    fn move_to(&mut self, queue: usize, list: Option<usize>) {
        self.lists.iter_mut().for_each(|one| one.retain(|&other| other != queue));
        if let Some(list) = list {
            self.lists[list].push(queue);
        }
    }
}

/// The eight places where a hash may be, in the order in which they are looked at.
fn places(hash: u32) -> [usize; 8] {
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
        let held = self.tins.iter().flat_map(Tin::listed).flat_map(|queue| &queue.packets);
        held.map(|held| memory_of(held.packet.bytes)).sum()
    }

    /// Which sides count the bulk flows of their hosts.
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

    /// The queue of a packet, which gets one if it has none.
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
        let ways = places(flow);
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
        // Whatever counted for the hosts before no longer does.
        let set = std::mem::take(&mut tin.queues[queue].set);
        tin.queues[queue].tag = flow;
        for side in [0, 1] {
            if counts[side] {
                let ways = places(hosts[side]);
                let known = ways.into_iter().find(|&place| tin.host_tags[side][place] == hosts[side]);
                let free = || ways.into_iter().find(|&place| tin.bulk_flows(side, place) == 0);
                let place = known.or_else(free).unwrap_or(ways[0]);
                tin.host_tags[side][place] = hosts[side];
                tin.queues[queue].hosts[side] = place;
            }
        }
        tin.queues[queue].set = set;
        queue
    }

    /// The place of the acknowledgement that a packet makes needless.
    fn needless(&self, held: &VecDeque<Held>, newest: &Packet) -> Option<usize> {
        let new = acknowledgement(newest).filter(|_| self.setting.filter > 0)?;
        let is_of_it = |one: &Packet| {
            (one.flow, one.source, one.destination) == (newest.flow, newest.source, newest.destination)
        };
        let mut found: Option<(usize, bool)> = None;
        for (place, one) in held.iter().enumerate() {
            let Some(old) = acknowledgement(&one.packet).filter(|_| is_of_it(&one.packet)) else { continue };
            found = found.filter(|&(_, ece)| ece == old.ece);
            if old.bare && old.number < new.number {
                if found.is_some() {
                    return found.map(|found| found.0);
                }
                found = Some((place, old.ece));
            }
        }
        let alone = |&(place, ece): &(usize, bool)| place + 1 == held.len() && ece == new.ece;
        found.filter(|found| self.setting.filter == 2 && alone(found)).map(|found| found.0)
    }

    /// `overflows` are the packets that the discipline then dropped because its memory was full; the id of an
    /// acknowledgement that goes is returned.
    fn enqueue(&mut self, packet: Packet, now: i64, overflows: &[u32], rng: &mut Rng) -> Option<u32> {
        let place = self.setting.tin(LABELS[usize::from(packet.label)]);
        let number = self.find(place, &packet, rng);
        let is_first = self.packets() == 0;
        let tin = &mut self.tins[place];
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
        let needless = self.needless(&self.tins[place].queues[number].packets, &packet);
        let mut bytes = u64::from(packet.bytes);
        let gone = needless.map(|needless| {
            let one = self.tins[place].queues[number].packets.remove(needless).unwrap();
            self.tins[place].add("ack_drops", 1);
            if self.setting.ingress {
                self.charge(place, one.on_the_line, now, true);
            }
            bytes = bytes.wrapping_sub(u64::from(one.packet.bytes));
            one.packet.id
        });
        let on_the_line = self.setting.on_the_line(packet.bytes);
        let tin = &mut self.tins[place];
        tin.queues[number].packets.push_back(Held { packet, came: now, on_the_line });
        tin.add("sent_packets", 1);
        tin.add("sent_bytes", packet.bytes.into());
        if self.setting.autorate {
            self.estimate(bytes, now);
        }
        match self.tins[place].queues[number].set {
            Set::None | Set::Decaying => {
                let deficit = self.quantum(place, number, rng);
                let tin = &mut self.tins[place];
                tin.move_to(number, Some(NEW));
                (tin.queues[number].set, tin.queues[number].deficit) = (Set::Sparse, deficit);
            }
            Set::SparseWait => self.tins[place].queues[number].set = Set::Bulk,
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
        assert!(self.memory() <= self.setting.memory_limit(self.rate), "more waits than has room");
        gone
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
            self.tins[tin].queues[queue].packets.front().is_some_and(|held| held.packet.id == id)
        };
        let (place, number) = all().find(is_front).expect("the oldest of a queue goes");
        assert_eq!(Some(self.tins[place].queues[number].bytes()), longest, "it is of the longest queue");
        let target = self.tins[place].target(&self.setting);
        let tin = &mut self.tins[place];
        let held = tin.queues[number].packets.pop_front().unwrap();
        tin.add("drops", 1);
        tin.queues[number].control.on_overflow(now, target);
        if self.setting.ingress {
            self.charge(place, held.on_the_line, now, true);
        }
    }

    /// Moves on to the tin that is served next; packets wait.
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
        // If all have had their share, the first to have one again; of two the higher.
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

    /// Until when all that waits is held back.
    fn held_until(&self) -> i64 {
        self.next.min(self.failsafe)
    }

    /// A packet of the current tin, unless a queue was found empty.
    fn serve(
        &mut self,
        now: i64,
        looks_at_decaying: &mut bool,
        rng: &mut Rng,
        fates: &mut Vec<Fate>,
    ) -> Option<Packet> {
        let place = self.current;
        loop {
            let lists = &self.tins[place].lists;
            let order = if *looks_at_decaying { [DECAYING, NEW, OLD] } else { [NEW, OLD, DECAYING] };
            *looks_at_decaying = false;
            let number = order.into_iter().find_map(|list| lists[list].first().copied())?;
            let queue = &mut self.tins[place].queues[number];
            if queue.deficit <= 0 {
                queue.set = match queue.set {
                    Set::Sparse if queue.packets.is_empty() => Set::SparseWait,
                    Set::Sparse => Set::Bulk,
                    other => other,
                };
                let quantum = self.quantum(place, number, rng);
                self.tins[place].queues[number].deficit += quantum;
                self.tins[place].move_to(number, Some(OLD));
                continue;
            }
            let mut again = false;
            while !again {
                let (target, interval) =
                    (self.tins[place].target(&self.setting), self.tins[place].interval(&self.setting));
                let full_packet = self.tins[place].full_packet();
                let others = if self.setting.ingress { self.tins[place].count(&[Set::Bulk]) } else { 0 };
                let tin = &mut self.tins[place];
                let queue = &mut tin.queues[number];
                let Some(Held { mut packet, came, on_the_line }) = queue.packets.pop_front() else {
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
                let waited = now - came;
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
                    self.charge(place, on_the_line, now, !sent);
                    self.tins[place].deficit -= on_the_line;
                    self.tins[place].queues[number].deficit -= on_the_line;
                }
                if sent {
                    return Some(packet);
                }
            }
        }
    }

    /// What `tc` would show of its tins, by name, in their own order.
    fn told(&self) -> Vec<BTreeMap<&'static str, u64>> {
        let of = |tin: &Tin| {
            let mut told = tin.told.clone();
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
                told.insert(name, value);
            }
            told
        };
        self.tins.iter().map(of).collect()
    }
}

/// What a packet acknowledges: the number is its window, and small packets are bare.
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

/// Hears what the discipline tells.
#[derive(Default)]
struct Heard {
    fates: Vec<Fate>,
    overflows: Vec<u32>,
    acknowledgements: Vec<u32>,
}

impl Observer for Heard {
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

/// What happened in a run, so that a run without anything is not taken for one that agrees.
#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    drops: u64,
    marks: u64,
    overflows: u64,
    acknowledgements: u64,
    held: u64,
    collisions: u64,
}

/// The discipline and the model side by side, for so many arrivals, of a `crowd` of flows if said.
fn side_by_side(setting: &Setting, arrivals: u32, crowd: bool, seed: u64, tally: &mut Tally) {
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
        // The line sends until then.
        while let Some(at) = free_at.filter(|&at| at <= arrives) {
            let nanos = at.nanos();
            let mut heard = Heard::default();
            let mut cx = Context { now: Instant::from_nanos(nanos), rng: &mut both[0], observer: &mut heard };
            let sent = queue.dequeue(&mut cx);
            let mut fates = Vec::new();
            let expected = slow.dequeue(nanos as i64, &mut both[1], &mut fates);
            assert_eq!((sent, &heard.fates), (expected, &fates), "at {nanos} ns, {setting:?}");
            assert!(heard.overflows.is_empty() && heard.acknowledgements.is_empty());
            tally.drops += fates.iter().filter(|fate| !fate.is_mark).count() as u64;
            tally.marks += fates.iter().filter(|fate| fate.is_mark).count() as u64;
            free_at = match sent {
                Some(packet) => {
                    tally.sent += 1;
                    Some(
                        at + Span::from_nanos(
                            u64::from(packet.bytes) * 8_000_000_000 / u64::from(line as u32),
                        ),
                    )
                }
                None if slow.packets() > 0 => {
                    tally.held += 1;
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
        let mut heard = Heard::default();
        queue.enqueue(
            packet,
            &mut Context { now: Instant::from_nanos(nanos), rng: &mut both[0], observer: &mut heard },
        );
        let gone = slow.enqueue(packet, nanos as i64, &heard.overflows, &mut both[1]);
        assert_eq!(heard.acknowledgements, Vec::from_iter(gone), "at {nanos} ns, {setting:?}");
        assert!(heard.fates.is_empty());
        tally.overflows += heard.overflows.len() as u64;
        tally.acknowledgements += u64::from(gone.is_some());
        assert_eq!(queue.backlog().packets as usize, slow.packets());
        if slow.packets() > 0 && free_at.is_none() {
            free_at = Some(clock);
        }
        if id % 50 == 0 {
            compare_statistics(&queue.tc_statistics(Instant::from_nanos(nanos)), &slow);
        }
    }
    tally.collisions += slow.tins.iter().map(|tin| tin.told.get("way_collisions").unwrap_or(&0)).sum::<u64>();
    assert_eq!(both[0].bits(), both[1].bits(), "both have drawn as often");
}

fn compare_statistics(told: &Value, slow: &Slow) {
    assert_eq!(told["overlimits"], slow.overlimits);
    assert_eq!(told["memory_used"], slow.most_memory);
    assert_eq!(told["memory_limit"], slow.setting.memory_limit(slow.rate));
    assert_eq!(told["capacity_estimate"], slow.estimate.peak);
    let order: &[usize] = match slow.setting.diffserv {
        "diffserv3" => &[1, 0, 2],
        "diffserv4" => &[1, 0, 2, 3],
        _ => &[0, 1, 2, 3, 4, 5, 6, 7],
    };
    let tins = slow.told();
    for (shown, &tin) in told["tins"].as_array().unwrap().iter().zip(order) {
        for (name, value) in &tins[tin] {
            assert_eq!(shown[name], *value, "{name} of tin {tin}, {:?}", slow.setting);
        }
    }
}

#[test]
fn the_discipline_does_what_the_slow_one_does() {
    let mut rng = Streams::new(11).named("settings", 0);
    let mut tally = Tally::default();
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
        side_by_side(&setting, 1500, false, run, &mut tally);
        if run < 8 {
            // So many flows that some share a queue.
            let crowded = Setting { diffserv: "besteffort", memlimit: None, filter: 0, ..setting };
            side_by_side(&crowded, 2500, true, run, &mut tally);
        }
    }
    println!("{tally:?}");
    let Tally { sent, drops, marks, overflows, acknowledgements, held, collisions } = tally;
    let least = [sent, drops, marks, overflows, acknowledgements, held, collisions].into_iter().min();
    assert!(least > Some(100), "what does not happen is not compared: {tally:?}");
}

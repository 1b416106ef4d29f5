//! A second, slow implementation of DualPI2 with one list of queued packets and without cached state: once as written
//! in RFC 9332, line by line, and once with the kernel's arithmetic.

use aqm_net::{Backlog, Ecn, Instant, Packet};
use aqm_queue::{Context, QueueDiscipline, Reason, Report};

const MTU: u64 = 1514;

/// A queued packet: its arrival time, whether it belongs to the L4S queue, and the number of packets in that queue on
/// its arrival.
#[derive(Clone, Copy)]
pub struct Waiting {
    packet: Packet,
    arrival_time: u64,
    is_l4s: bool,
    l4s_backlog: usize,
}

fn of(list: &[Waiting], is_l4s: bool) -> Vec<Waiting> {
    list.iter().copied().filter(|one| one.is_l4s == is_l4s).collect()
}

fn backlog(list: &[Waiting]) -> Backlog {
    let bytes = list.iter().map(|one| u64::from(one.packet.bytes)).sum();
    Backlog { packets: list.len() as u64, bytes }
}

/// The waiting time of a queue's head packet at `now`, or zero if the queue is empty.
fn time(list: &[Waiting], is_l4s: bool, now: u64) -> u64 {
    of(list, is_l4s).first().map_or(0, |head| now - head.arrival_time)
}

fn remove_head(list: &mut Vec<Waiting>, is_l4s: bool) -> Waiting {
    let index = list.iter().position(|one| one.is_l4s == is_l4s).expect("the queue has a head");
    list.remove(index)
}

/// Appendix A of the RFC, figures 2, 3, 5, 7 and 8.
#[derive(Clone)]
pub struct Rfc {
    pub limit: u64,
    pub k: f64,
    pub target: f64,
    pub tupdate: u64,
    pub alpha: f64,
    pub beta: f64,
    pub min_th: f64,
    pub range: f64,
    pub th_len: usize,
    /// The Classic weight in percent; `None` for a time-shifted FIFO of 50 ms.
    pub weight: Option<f64>,
    pub list: Vec<Waiting>,
    pub p: f64,
    pub prevq: f64,
    pub updates: u64,
    /// The credit of the round robin since its last reset.
    pub credit: f64,
    pub counts: [f64; 3],
}

impl Rfc {
    pub fn new(limit: u64, weight: Option<f64>) -> Self {
        Self {
            limit,
            k: 2.0,
            target: 0.015,
            tupdate: 15_000_000,
            alpha: 0.16,
            beta: 3.2,
            min_th: 0.0008,
            range: 0.0004,
            th_len: 1,
            weight,
            list: Vec::new(),
            p: 0.0,
            prevq: 0.0,
            updates: 0,
            credit: 0.0,
            counts: [0.0; 3],
        }
    }

    fn update_until(&mut self, now: u64) {
        while (self.updates + 1) * self.tupdate <= now {
            self.updates += 1;
            let at = self.updates * self.tupdate;
            let curq = time(&self.list, false, at).max(time(&self.list, true, at)) as f64 * 1e-9;
            self.p += self.alpha * (curq - self.target) + self.beta * (curq - self.prevq);
            self.p = self.p.clamp(0.0, 1.0);
            self.prevq = curq;
        }
    }

    fn recur(&mut self, class: usize, likelihood: f64) -> bool {
        self.counts[class] += likelihood;
        if self.counts[class] > 1.0 {
            self.counts[class] -= 1.0;
            return true;
        }
        false
    }

    fn laqm(&self, qdelay: f64) -> f64 {
        if qdelay >= self.min_th + self.range {
            1.0
        } else if qdelay > self.min_th {
            (qdelay - self.min_th) / self.range
        } else {
            0.0
        }
    }

    fn scheduler(&self, now: u64) -> bool {
        let has = |is_l4s| !of(&self.list, is_l4s).is_empty();
        if !has(true) || !has(false) {
            return has(true);
        }
        match self.weight {
            Some(weight) => MTU as f64 * (2.0 * weight - 100.0) + self.credit <= 0.0,
            None => time(&self.list, true, now) + 50_000_000 >= time(&self.list, false, now),
        }
    }
}

impl QueueDiscipline for Rfc {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.update_until(cx.now.nanos());
        if backlog(&self.list).bytes + MTU > self.limit {
            return cx.drop(packet, Reason::Overflow);
        }
        let is_l4s = matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        self.list.push(Waiting { packet, arrival_time: cx.now.nanos(), is_l4s, l4s_backlog: 0 });
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let now = cx.now.nanos();
        self.update_until(now);
        let (p_c, p_cl) = (self.p * self.p, self.p * self.k);
        let p_c_max = (1.0 / (self.k * self.k)).min(1.0);
        while !self.list.is_empty() {
            let both = [true, false].map(|is_l4s| !of(&self.list, is_l4s).is_empty()) == [true; 2];
            let is_l4s = self.scheduler(now);
            let Waiting { mut packet, arrival_time, .. } = remove_head(&mut self.list, is_l4s);
            if is_l4s {
                if p_cl < 1.0 {
                    let waited = (now - arrival_time) as f64 * 1e-9;
                    let native =
                        if of(&self.list, true).len() > self.th_len { self.laqm(waited) } else { 0.0 };
                    if self.recur(0, native.max(p_cl)) {
                        cx.mark(&mut packet, Reason::Early);
                    }
                } else {
                    // A separate count for drops, because the text states that p_C of the packets are dropped.
                    if self.recur(1, p_c) {
                        cx.drop(packet, Reason::Early);
                        continue;
                    }
                    cx.mark(&mut packet, Reason::Early);
                }
            } else if self.recur(2, p_c) {
                if packet.ecn == Ecn::NotEct || p_c >= p_c_max {
                    cx.drop(packet, Reason::Early);
                    continue;
                }
                cx.mark(&mut packet, Reason::Early);
            }
            if let Some(weight) = self.weight.filter(|_| both) {
                self.credit += f64::from(packet.bytes) * if is_l4s { weight } else { weight - 100.0 };
            }
            return Some(packet);
        }
        self.credit = 0.0;
        None
    }

    fn backlog(&self) -> Backlog {
        backlog(&self.list)
    }
}

impl Report for Rfc {}

/// The kernel's algorithm, in its integers.
#[derive(Clone)]
pub struct Kernel {
    pub limit: usize,
    pub memory_limit: u64,
    pub coupling: u64,
    pub target: u64,
    pub tupdate: u64,
    pub alpha: i128,
    pub beta: i128,
    /// In nanoseconds or in packets.
    pub step: Result<u64, usize>,
    pub min_qlen_step: usize,
    pub percent: i64,
    pub drop_overload: bool,
    pub drop_early: bool,
    pub mask: u8,
    pub list: Vec<Waiting>,
    pub prob: u32,
    pub last: u64,
    pub updates: u64,
    /// In nanoseconds or in packets, too.
    pub credit: i64,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            limit: 10_000,
            memory_limit: 30_280_000,
            coupling: 2,
            target: 15_000_000,
            tupdate: 16_000_000,
            alpha: 44,
            beta: 879,
            step: Ok(1_000_000),
            min_qlen_step: 0,
            percent: 10,
            drop_overload: true,
            drop_early: false,
            mask: 1,
            list: Vec::new(),
            prob: 0,
            last: 0,
            updates: 0,
            credit: 0,
        }
    }
}

/// The controller's decision on a packet.
#[derive(PartialEq)]
enum Decision {
    Nothing,
    Mark,
    Drop,
}

impl Kernel {
    fn update_until(&mut self, now: u64) {
        while (self.updates + 1) * self.tupdate <= now {
            self.updates += 1;
            let at = self.updates * self.tupdate;
            let delay = time(&self.list, false, at).max(time(&self.list, true, at));
            let delta = (i128::from(delay) - i128::from(self.target)) * self.alpha
                + (i128::from(delay) - i128::from(self.last)) * self.beta;
            self.last = delay;
            let certain = i128::from(u32::MAX);
            self.prob = (i128::from(self.prob) + delta / 64).clamp(0, certain) as u32;
            if !self.drop_overload {
                self.prob = self.prob.min(u32::MAX / self.coupling as u32);
            }
        }
    }

    fn decide(&self, is_l4s: bool, ecn: Ecn, cx: &mut Context<'_>) -> Decision {
        if backlog(&self.list).bytes < 2 * MTU {
            return Decision::Nothing;
        }
        let mut roll = |prob: u64| cx.rng.bits() >> 32 <= prob;
        let (prob, coupled) = (u64::from(self.prob), u64::from(self.prob) * self.coupling);
        let is_overloaded = coupled > u64::from(u32::MAX);
        match (is_l4s, is_overloaded) {
            (false, _) if roll(prob) && roll(prob) => {
                if is_overloaded || ecn == Ecn::NotEct {
                    Decision::Drop
                } else {
                    Decision::Mark
                }
            }
            (true, true) if roll(prob) && roll(prob) => Decision::Drop,
            (true, true) => Decision::Mark,
            (true, false) if roll(coupled) => Decision::Mark,
            _ => Decision::Nothing,
        }
    }
}

/// A packet's `truesize`: 64 bytes before the data, 320 after it, rounded up to a power of two, and 256.
fn memory(list: &[Waiting]) -> u64 {
    let of =
        |bytes: u64| (256..).map(|log| 1 << (log - 247)).find(|size| bytes <= *size).expect("a power") + 256;
    list.iter().map(|one| of((u64::from(one.packet.bytes) + 64).div_ceil(64) * 64 + 320)).sum()
}

impl QueueDiscipline for Kernel {
    fn enqueue(&mut self, mut packet: Packet, cx: &mut Context<'_>) {
        self.update_until(cx.now.nanos());
        let is_l4s = packet.ecn as u8 & self.mask != 0;
        let l4s_backlog = of(&self.list, true).len();
        let arrival = Waiting { packet, arrival_time: cx.now.nanos(), is_l4s, l4s_backlog };
        if self.list.len() >= self.limit {
            return cx.drop(packet, Reason::Overflow);
        }
        if memory(&self.list) + memory(&[arrival]) > self.memory_limit {
            return cx.drop(packet, Reason::Overmemory);
        }
        if self.drop_early {
            match self.decide(is_l4s, packet.ecn, cx) {
                Decision::Drop => return cx.drop(packet, Reason::Early),
                Decision::Mark => cx.mark(&mut packet, Reason::Early),
                Decision::Nothing => {}
            }
        }
        self.list.push(Waiting { packet, ..arrival });
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.update_until(cx.now.nanos());
        loop {
            let [has_l4s, has_classic] = [true, false].map(|is_l4s| !of(&self.list, is_l4s).is_empty());
            if !has_l4s && !has_classic {
                self.credit = 0;
                return None;
            }
            let is_l4s =
                has_l4s && (!has_classic || (2 * self.percent - 100) * MTU as i64 + self.credit <= 0);
            let Waiting { mut packet, arrival_time, l4s_backlog, .. } = remove_head(&mut self.list, is_l4s);
            if !self.drop_early {
                match self.decide(is_l4s, packet.ecn, cx) {
                    Decision::Drop => {
                        cx.drop(packet, Reason::Early);
                        continue;
                    }
                    Decision::Mark => cx.mark(&mut packet, Reason::Early),
                    Decision::Nothing => {}
                }
            }
            let is_beyond = match self.step {
                Ok(nanos) => cx.now.since(Instant::from_nanos(arrival_time)).nanos() > nanos,
                Err(packets) => of(&self.list, true).len() > packets,
            };
            if is_l4s && l4s_backlog >= self.min_qlen_step && is_beyond {
                cx.mark(&mut packet, Reason::CeThreshold);
            }
            if has_l4s && has_classic {
                let weight = if is_l4s { self.percent } else { self.percent - 100 };
                self.credit += weight * i64::from(packet.bytes);
            }
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        backlog(&self.list)
    }
}

impl Report for Kernel {}

//! Which leaf sends next: classes that are active, lend and borrow, after the kernel's `sch_htb.c`.
//!
//! Leaves are on level 0, inner classes on the levels above, a root on the highest. A class that may send by
//! itself and has packets below it stands on the row of its level; one that must borrow stands in the feed of
//! the class above it. The lowest level goes first: a leaf that has not used up its rate goes before every
//! one that borrows, whatever their priorities. Among those of a level the lower priority number goes first, and
//! among equals deficit round robin decides. A class that may not send by itself waits for the moment at which
//! this can change.
//!
//! Functions have the names of `sch_htb.c` without the prefix `htb_`; [`Tree::next_leaf`] and [`Tree::on_sent`]
//! are the two halves of `htb_dequeue_tree`, before and after the packet is taken from the leaf. A row is
//! `htb_level.hprio`, a feed `htb_class.inner.clprio`, and `waiting` is `htb_sched.hlevel[].wait_pq`.

use std::collections::BTreeSet;

use aqm_net::{Instant, Span};

use super::bucket::{Buckets, Mode};
use super::feed::Feed;

/// How many levels there are (`TC_HTB_MAXDEPTH`).
pub(super) const LEVELS: usize = 8;

/// How many priorities (`TC_HTB_NUMPRIO`).
pub(super) const PRIORITIES: usize = 8;

/// A class.
#[derive(Clone, Debug)]
pub(super) struct Node {
    parent: Option<u32>,
    level: usize,
    /// Of a leaf: which goes first, 0 before all others.
    priority: usize,
    /// Of a leaf: bytes it sends in its turn.
    quantum: i64,
    /// Of a leaf, by the level it borrows from: what is left of its turn.
    deficit: [i64; LEVELS],
    buckets: Buckets,
    /// The priorities, as bits, of which it has packets.
    active: u8,
    wakes_at: Option<Instant>,
    /// Of an inner class, by priority: the classes that borrow from it.
    feeds: Vec<Feed>,
}

impl Node {
    /// A leaf.
    pub fn leaf(parent: Option<u32>, buckets: Buckets, priority: usize, quantum: i64) -> Self {
        Self {
            parent,
            level: 0,
            priority,
            quantum,
            deficit: [0; LEVELS],
            buckets,
            active: 0,
            wakes_at: None,
            feeds: Vec::new(),
        }
    }

    /// A class above others, `depth` classes below a root.
    pub fn inner(parent: Option<u32>, buckets: Buckets, depth: usize) -> Self {
        let feeds = vec![Feed::default(); PRIORITIES];
        Self { level: LEVELS - 1 - depth, feeds, ..Self::leaf(parent, buckets, 0, 0) }
    }
}

/// All classes.
#[derive(Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    rows: Vec<[Feed; PRIORITIES]>,
    /// By level, the priorities with a class on the row, as bits.
    row_mask: [u8; LEVELS],
    /// By level, which classes wait until when.
    waiting: [BTreeSet<(Instant, u32)>; LEVELS],
    /// How often a class has come to where it may not send (`htb_sched.overlimits`).
    pub overlimits: u64,
}

/// The priorities of a mask.
fn priorities(mask: u8) -> impl Iterator<Item = usize> {
    (0..PRIORITIES).filter(move |priority| mask & (1 << priority) != 0)
}

impl Tree {
    /// A tree in which nothing waits; a parent is named by its place.
    pub fn new(nodes: Vec<Node>) -> Self {
        let rows = (0..LEVELS).map(|_| std::array::from_fn(|_| Feed::default())).collect();
        Self { nodes, rows, row_mask: [0; LEVELS], waiting: Default::default(), overlimits: 0 }
    }

    /// `leaf` has packets (`htb_activate`).
    pub fn activate(&mut self, leaf: u32) {
        let node = &mut self.nodes[leaf as usize];
        if node.active == 0 {
            node.active = 1 << node.priority;
            self.activate_prios(leaf);
        }
    }

    /// `leaf` has no packets any more (`htb_deactivate`).
    pub fn deactivate(&mut self, leaf: u32) {
        self.deactivate_prios(leaf);
        self.nodes[leaf as usize].active = 0;
    }

    /// Brings the modes of the classes of `level` whose wait has ended by `now` up to date (`htb_do_events`).
    pub fn do_events(&mut self, level: usize, now: Instant) {
        while let Some(&(at, class)) = self.waiting[level].first()
            && at <= now
        {
            self.change_class_mode(class, now);
        }
    }

    /// The leaf whose turn it is among those that may send with the tokens of this level.
    pub fn next_leaf(&mut self, level: usize) -> Option<u32> {
        let priority = priorities(self.row_mask[level]).next()?;
        Some(self.lookup_leaf(level, priority))
    }

    /// `leaf` has sent `bytes` in its turn on `level`: takes them from its deficit.
    pub fn on_sent(&mut self, leaf: u32, level: usize, bytes: u64) {
        let node = &mut self.nodes[leaf as usize];
        node.deficit[level] -= bytes as i64;
        if node.deficit[level] < 0 {
            node.deficit[level] += node.quantum;
            let priority = node.priority;
            match node.parent.filter(|_| level > 0) {
                Some(parent) => self.nodes[parent as usize].feeds[priority].advance(),
                None => self.rows[0][priority].advance(),
            }
        }
    }

    /// Charges `bytes` that `leaf` has sent with the tokens of `level` to it and to all classes above it
    /// (`htb_charge_class`).
    pub fn charge_class(&mut self, leaf: u32, level: usize, bytes: u64, now: Instant) {
        let mut charged = Some(leaf);
        while let Some(class) = charged {
            let node = &mut self.nodes[class as usize];
            node.buckets.charge(bytes, node.level < level, now);
            charged = node.parent;
            self.change_class_mode(class, now);
        }
    }

    /// When the mode of some class may change next.
    pub fn next_change(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|waiting| waiting.first()).map(|&(at, _)| at).min()
    }

    /// Brings the mode of `class` up to date, and when it is looked at again (`htb_change_class_mode`).
    fn change_class_mode(&mut self, class: u32, now: Instant) {
        let node = &self.nodes[class as usize];
        let (mode, wait) = node.buckets.class_mode(now);
        let (before, active) = (node.buckets.mode, node.active != 0);
        if mode != before {
            self.overlimits += u64::from(mode == Mode::CannotSend);
            if active && before != Mode::CannotSend {
                self.deactivate_prios(class);
            }
            self.nodes[class as usize].buckets.mode = mode;
            if active && mode != Mode::CannotSend {
                self.activate_prios(class);
            }
        }
        let node = &mut self.nodes[class as usize];
        let due = node.wakes_at.is_none_or(|at| at <= now);
        if mode == before && mode != Mode::CanSend && !due {
            return;
        }
        let level = node.level;
        if let Some(at) = node.wakes_at.take() {
            self.waiting[level].remove(&(at, class));
        }
        if mode != Mode::CanSend {
            let at = now + Span::from_nanos(wait.max(1) as u64);
            node.wakes_at = Some(at);
            self.waiting[level].insert((at, class));
        }
    }

    /// Puts the active `class` where it may send: on the row of its level, or in feeds above
    /// (`htb_activate_prios`).
    fn activate_prios(&mut self, class: u32) {
        let (mut class, mut mask) = (class, self.nodes[class as usize].active);
        while self.nodes[class as usize].buckets.mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.nodes[class as usize].parent
        {
            let above = &mut self.nodes[parent as usize];
            for priority in priorities(mask) {
                if !above.feeds[priority].is_empty() {
                    // The class above stands where it must already, for another of its children.
                    mask &= !(1 << priority);
                }
                above.feeds[priority].insert(class);
            }
            above.active |= mask;
            class = parent;
        }
        let node = &self.nodes[class as usize];
        if node.buckets.mode == Mode::CanSend && mask != 0 {
            self.row_mask[node.level] |= mask;
            priorities(mask).for_each(|priority| self.rows[node.level][priority].insert(class));
        }
    }

    /// Takes the active `class` from where it may send (`htb_deactivate_prios`).
    fn deactivate_prios(&mut self, class: u32) {
        let (mut class, mut mask) = (class, self.nodes[class as usize].active);
        while self.nodes[class as usize].buckets.mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.nodes[class as usize].parent
        {
            let above = &mut self.nodes[parent as usize];
            let mut emptied = 0;
            for priority in priorities(mask) {
                above.feeds[priority].remove(class);
                if above.feeds[priority].is_empty() {
                    emptied |= 1 << priority;
                }
            }
            above.active &= !emptied;
            (class, mask) = (parent, emptied);
        }
        let node = &self.nodes[class as usize];
        if node.buckets.mode == Mode::CanSend && mask != 0 {
            let level = node.level;
            for priority in priorities(mask) {
                let row = &mut self.rows[level][priority];
                row.remove_for_good(class);
                if row.is_empty() {
                    self.row_mask[level] &= !(1 << priority);
                }
            }
        }
    }

    /// Goes down from a row that is not empty to the leaf whose turn it is (`htb_lookup_leaf`).
    fn lookup_leaf(&mut self, level: usize, priority: usize) -> u32 {
        let mut path = [0; LEVELS];
        let mut depth = 0;
        loop {
            let feed = match depth {
                0 => &mut self.rows[level][priority],
                _ => &mut self.nodes[path[depth - 1] as usize].feeds[priority],
            };
            match feed.current() {
                Some(class) if self.nodes[class as usize].level == 0 => return class,
                Some(class) => {
                    path[depth] = class;
                    depth += 1;
                }
                // A round is over: it is the turn of the next class beside the one above.
                None if depth > 0 => {
                    depth -= 1;
                    match depth {
                        0 => self.rows[level][priority].advance(),
                        _ => self.nodes[path[depth - 1] as usize].feeds[priority].advance(),
                    }
                }
                None => {}
            }
        }
    }
}

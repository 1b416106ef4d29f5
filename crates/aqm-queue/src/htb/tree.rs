//! Selects the leaf that sends next, based on which classes are active, lend or borrow, as in the kernel's `sch_htb.c`.
//!
//! Leaves are on level 0, inner classes are on the levels above, and roots are on the highest level. The *row* of a
//! level contains each class on this level that may send with its own tokens and has packets, either in its own queue
//! or in the queue of a leaf below. The *feed* of a class contains the child classes that must borrow from this class.
//! The lowest level is served first, so a leaf that has not used up its rate is served before every borrowing leaf,
//! regardless of priorities. Within a level, classes with lower priority numbers are served first, and classes with
//! equal priority numbers share the link by deficit round robin. A class without tokens waits for the time at which its
//! mode can change.
//!
//! Functions have the same names as in `sch_htb.c`, without the `htb_` prefix. [`Tree::next_leaf`] and
//! [`Tree::on_sent`] correspond to the two halves of `htb_dequeue_tree`: the part before the packet is dequeued from
//! the leaf, and the part after that. A row corresponds to `htb_level.hprio`, a feed to `htb_class.inner.clprio`, and
//! `waiting` to `htb_sched.hlevel[].wait_pq`.

use std::collections::BTreeSet;

use aqm_net::{Instant, Span};

use super::bucket::{Buckets, Mode};
use super::feed::Feed;

/// The number of levels (`TC_HTB_MAXDEPTH`).
pub(super) const LEVELS: usize = 8;

/// The number of priorities (`TC_HTB_NUMPRIO`).
pub(super) const PRIORITIES: usize = 8;

/// A class in the tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    parent: Option<u32>,
    level: usize,
    /// For leaves: the priority. Priority 0 is served first.
    priority: usize,
    /// For leaves: the number of bytes sent per turn.
    quantum: i64,
    /// For leaves: the number of bytes that remain in the current turn, indexed by the level from which tokens are
    /// borrowed.
    deficit: [i64; LEVELS],
    buckets: Buckets,
    /// The priorities that have queued packets, as a bit mask.
    active: u8,
    wakes_at: Option<Instant>,
    /// For inner classes: the classes that borrow from this class, indexed by priority.
    feeds: Vec<Feed>,
}

impl Node {
    /// Creates a leaf.
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

    /// Creates an inner class, `depth` classes below a root.
    pub fn inner(parent: Option<u32>, buckets: Buckets, depth: usize) -> Self {
        let feeds = vec![Feed::default(); PRIORITIES];
        Self { level: LEVELS - 1 - depth, feeds, ..Self::leaf(parent, buckets, 0, 0) }
    }
}

/// The tree of all classes.
#[derive(Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    rows: Vec<[Feed; PRIORITIES]>,
    /// For each level: the priorities that have a class on the row, as a bit mask.
    row_mask: [u8; LEVELS],
    /// For each level: the classes that have no tokens, each with the time at which its mode may change.
    waiting: [BTreeSet<(Instant, u32)>; LEVELS],
    /// Number of times that a class has used up its tokens (`htb_sched.overlimits`).
    pub overlimits: u64,
}

/// Returns the priorities that are set in a bit mask.
fn priorities(mask: u8) -> impl Iterator<Item = usize> {
    (0..PRIORITIES).filter(move |priority| mask & (1 << priority) != 0)
}

impl Tree {
    /// Creates a tree in which all classes are idle. In `nodes`, each parent is specified by its index.
    pub fn new(nodes: Vec<Node>) -> Self {
        let rows = (0..LEVELS).map(|_| std::array::from_fn(|_| Feed::default())).collect();
        Self { nodes, rows, row_mask: [0; LEVELS], waiting: Default::default(), overlimits: 0 }
    }

    /// Activates `leaf`, which must contain packets (`htb_activate`).
    pub fn activate(&mut self, leaf: u32) {
        let node = &mut self.nodes[leaf as usize];
        if node.active == 0 {
            node.active = 1 << node.priority;
            self.activate_prios(leaf);
        }
    }

    /// Deactivates `leaf`, which must be empty (`htb_deactivate`).
    pub fn deactivate(&mut self, leaf: u32) {
        self.deactivate_prios(leaf);
        self.nodes[leaf as usize].active = 0;
    }

    /// Updates the mode of each class on `level` whose waiting time has ended by `now` (`htb_do_events`).
    pub fn do_events(&mut self, level: usize, now: Instant) {
        while let Some(&(at, class)) = self.waiting[level].first()
            && at <= now
        {
            self.change_class_mode(class, now);
        }
    }

    /// Returns the next leaf that may send using the tokens of this level.
    pub fn next_leaf(&mut self, level: usize) -> Option<u32> {
        let priority = priorities(self.row_mask[level]).next()?;
        Some(self.lookup_leaf(level, priority))
    }

    /// Subtracts from the deficit of `leaf` the `bytes` that the leaf has sent in its turn on `level`.
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

    /// Charges `leaf` and all of its ancestors for the `bytes` that the leaf has sent with tokens of `level`
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

    /// Returns the next time at which the mode of a class may change.
    pub fn next_change(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|waiting| waiting.first()).map(|&(at, _)| at).min()
    }

    /// Updates the mode of `class`, and the time at which the mode is checked next (`htb_change_class_mode`).
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

    /// Inserts the active `class` on the row of its level or in the feeds of its ancestors, so that the class can be
    /// selected (`htb_activate_prios`).
    fn activate_prios(&mut self, class: u32) {
        let (mut class, mut mask) = (class, self.nodes[class as usize].active);
        while self.nodes[class as usize].buckets.mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.nodes[class as usize].parent
        {
            let parent_node = &mut self.nodes[parent as usize];
            for priority in priorities(mask) {
                if !parent_node.feeds[priority].is_empty() {
                    // The parent is already active for another child class.
                    mask &= !(1 << priority);
                }
                parent_node.feeds[priority].insert(class);
            }
            parent_node.active |= mask;
            class = parent;
        }
        let node = &self.nodes[class as usize];
        if node.buckets.mode == Mode::CanSend && mask != 0 {
            self.row_mask[node.level] |= mask;
            priorities(mask).for_each(|priority| self.rows[node.level][priority].insert(class));
        }
    }

    /// Removes the active `class` from the row or the feeds (`htb_deactivate_prios`).
    fn deactivate_prios(&mut self, class: u32) {
        let (mut class, mut mask) = (class, self.nodes[class as usize].active);
        while self.nodes[class as usize].buckets.mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.nodes[class as usize].parent
        {
            let parent_node = &mut self.nodes[parent as usize];
            let mut emptied = 0;
            for priority in priorities(mask) {
                parent_node.feeds[priority].remove(class);
                if parent_node.feeds[priority].is_empty() {
                    emptied |= 1 << priority;
                }
            }
            parent_node.active &= !emptied;
            (class, mask) = (parent, emptied);
        }
        let node = &self.nodes[class as usize];
        if node.buckets.mode == Mode::CanSend && mask != 0 {
            let level = node.level;
            for priority in priorities(mask) {
                let row = &mut self.rows[level][priority];
                row.remove_permanently(class);
                if row.is_empty() {
                    self.row_mask[level] &= !(1 << priority);
                }
            }
        }
    }

    /// Descends from a non-empty row to the leaf that is served next (`htb_lookup_leaf`).
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
                // The round of this feed is complete, so the turn of the class above passes to its next sibling.
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

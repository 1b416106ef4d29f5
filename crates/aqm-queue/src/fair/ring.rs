//! A list of flows from which any flow can be removed in constant time. Such lists are used for flows that take turns,
//! and for idle flows.

/// An ordered list of flow numbers. Each flow number occurs at most once, and has a value of type `V`.
#[derive(Clone, Default)]
pub(crate) struct Ring<V = ()> {
    links: Vec<Link<V>>,
    front: u32,
    back: u32,
    len: u32,
}

/// The neighbours of a flow. `before` is `ABSENT` if the flow is not in the list.
#[derive(Clone, Copy)]
struct Link<V> {
    before: u32,
    after: u32,
    value: V,
}

const NONE: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

impl<V: Copy + Default> Ring<V> {
    /// Returns the number of flows in the list.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the first flow.
    pub fn front(&self) -> Option<u32> {
        (self.len > 0).then_some(self.front)
    }

    /// Returns whether `flow` is in the list.
    pub fn contains(&self, flow: u32) -> bool {
        self.links.get(flow as usize).is_some_and(|link| link.before != ABSENT)
    }

    /// Returns the value of `flow`, which must be in the list.
    pub fn value(&mut self, flow: u32) -> &mut V {
        &mut self.links[flow as usize].value
    }

    /// Moves the first flow and its value to the end of the list.
    pub fn rotate(&mut self) {
        let (flow, last) = (self.front, self.back);
        if flow != last {
            let link = &mut self.links[flow as usize];
            self.front = std::mem::replace(&mut link.after, NONE);
            link.before = last;
            self.links[self.front as usize].before = NONE;
            self.links[last as usize].after = flow;
            self.back = flow;
        }
    }

    /// Appends `flow`, which must not be in the list.
    pub fn push_back(&mut self, flow: u32, value: V) {
        debug_assert!(!self.contains(flow), "a flow must not be in the list twice");
        if self.links.len() <= flow as usize {
            let absent = Link { before: ABSENT, after: NONE, value };
            self.links.resize(flow as usize + 1, absent);
        }
        let before = if self.len == 0 { NONE } else { self.back };
        self.links[flow as usize] = Link { before, after: NONE, value };
        match before {
            NONE => self.front = flow,
            last => self.links[last as usize].after = flow,
        }
        self.back = flow;
        self.len += 1;
    }

    /// Removes `flow` if the flow is in the list.
    pub fn remove(&mut self, flow: u32) {
        if !self.contains(flow) {
            return;
        }
        let link = &mut self.links[flow as usize];
        let after = link.after;
        let before = std::mem::replace(&mut link.before, ABSENT);
        match before {
            NONE => self.front = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.back = before,
            after => self.links[after as usize].before = before,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_ring_behaves_like_a_plain_list(steps in prop::collection::vec((0_u32..8, 0..5), 1..200)) {
            let (mut ring, mut plain) = (Ring::default(), VecDeque::new());
            for (flow, what) in steps {
                if what == 0 && ring.len() > 0 {
                    ring.rotate();
                    plain.rotate_left(1);
                } else if what < 3 {
                    ring.remove(flow);
                    plain.retain(|other| *other != flow);
                } else if !ring.contains(flow) {
                    ring.push_back(flow, 10 * flow);
                    plain.push_back(flow);
                }
                prop_assert_eq!(ring.front(), plain.front().copied());
                prop_assert_eq!(ring.len() as usize, plain.len());
                prop_assert!((0..8).all(|flow| ring.contains(flow) == plain.contains(&flow)));
            }
            while let Some(flow) = ring.front() {
                prop_assert_eq!(*ring.value(flow), 10 * flow);
                ring.remove(flow);
                prop_assert_eq!(Some(flow), plain.pop_front());
            }
        }
    }
}

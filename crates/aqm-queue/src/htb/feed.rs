//! The classes that take turns in sending, in the order of their numbers, and the current class.
//!
//! As in the kernel, a class that leaves and comes back before the turn moves on is still the current class, but not on
//! a row. At the end of a round, a feed returns `None` once before it starts again, so that the turn of the parent
//! class also moves on.

use std::collections::BTreeSet;

/// The classes of one priority below a class, or on a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    members: BTreeSet<u32>,
    turn: Turn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Turn {
    /// The turn of this member.
    Member(u32),
    /// The turn of a class that has left, or of the member after it.
    Left(u32),
    /// All members have had their turn.
    #[default]
    End,
}

impl Feed {
    /// Whether the feed has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a class.
    pub fn insert(&mut self, class: u32) {
        self.members.insert(class);
    }

    /// Removes `class`. If the class is the current one and comes back before the turn moves on, it remains the current
    /// one.
    pub fn remove(&mut self, class: u32) {
        if self.turn == Turn::Member(class) {
            self.turn = Turn::Left(class);
        }
        self.members.remove(&class);
    }

    /// Removes `class` permanently, so that the turn moves on.
    pub fn remove_permanently(&mut self, class: u32) {
        if self.turn == Turn::Member(class) {
            self.advance();
        }
        self.members.remove(&class);
    }

    /// The current member; `None` at the end of a round, after which the first member is the current one.
    pub fn current(&mut self) -> Option<u32> {
        if let Turn::Left(class) = self.turn {
            self.turn = self.members.range(class..).next().map_or(Turn::End, |&next| Turn::Member(next));
        }
        match self.turn {
            Turn::Member(class) => Some(class),
            Turn::Left(_) | Turn::End => {
                self.turn = self.members.first().map_or(Turn::End, |&first| Turn::Member(first));
                None
            }
        }
    }

    /// Moves the turn on.
    pub fn advance(&mut self) {
        if let Turn::Member(class) = self.turn {
            self.turn = self.members.range(class + 1..).next().map_or(Turn::End, |&next| Turn::Member(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(members: &[u32]) -> Feed {
        let mut feed = Feed::default();
        members.iter().for_each(|member| feed.insert(*member));
        feed
    }

    #[test]
    fn a_round_ends_with_none_and_starts_again_with_the_first_member() {
        let mut feed = feed(&[3, 5, 9]);
        let mut seen = Vec::new();
        for _ in 0..8 {
            seen.push(feed.current());
            if seen.last() != Some(&None) {
                feed.advance();
            }
        }
        assert_eq!(seen, [None, Some(3), Some(5), Some(9), None, Some(3), Some(5), Some(9)]);
    }

    #[test]
    fn a_class_that_returns_in_time_keeps_its_turn_except_on_a_row() {
        for (for_good, expected) in [(false, 5), (true, 9)] {
            let mut feed = feed(&[3, 5, 9]);
            feed.current();
            feed.advance();
            assert_eq!(feed.current(), Some(5));
            if for_good {
                feed.remove_permanently(5)
            } else {
                feed.remove(5)
            }
            feed.insert(5);
            assert_eq!(feed.current(), Some(expected));
        }
    }

    #[test]
    fn the_turn_of_a_class_that_does_not_return_passes_to_the_next() {
        let mut feed = feed(&[3, 5, 9]);
        feed.current();
        feed.advance();
        feed.remove(5);
        assert_eq!(feed.current(), Some(9));
        feed.remove(9);
        assert_eq!(feed.current(), None, "no member follows, so the round is over");
        assert_eq!(feed.current(), Some(3));
    }
}

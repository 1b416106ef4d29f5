//! A feed: the classes that take turns to send, in the order of their numbers, and the class whose turn it is.
//!
//! As in the kernel, if the current class leaves a feed and rejoins the feed before its turn ends, this class is still
//! the current class. On a row, by contrast, a class that rejoins is not the current class. At the end of a round, a
//! feed returns `None` once before the next round starts, so that the turn of the parent class also passes to the next
//! class.

use std::collections::BTreeSet;

/// The classes of one priority that borrow from the same class or are on the same row.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    members: BTreeSet<u32>,
    turn: Turn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Turn {
    /// It is the turn of this member.
    Member(u32),
    /// It is the turn of a class that has left the feed. If this class does not rejoin the feed, it is the turn of the
    /// next member.
    Left(u32),
    /// All members have had their turns.
    #[default]
    End,
}

impl Feed {
    /// Returns whether the feed has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a class.
    pub fn insert(&mut self, class: u32) {
        self.members.insert(class);
    }

    /// Removes `class`. If `class` is the current member and rejoins before its turn ends, `class` remains the current
    /// member.
    pub fn remove(&mut self, class: u32) {
        if self.turn == Turn::Member(class) {
            self.turn = Turn::Left(class);
        }
        self.members.remove(&class);
    }

    /// Removes `class` permanently, so that the turn passes to the next member.
    pub fn remove_permanently(&mut self, class: u32) {
        if self.turn == Turn::Member(class) {
            self.advance();
        }
        self.members.remove(&class);
    }

    /// Returns the current member. At the end of a round, returns `None` once. After that, the first member is the
    /// current member.
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

    /// Passes the turn to the next member.
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

//! A path that loses, marks, delays and doubles what the test names.

use aqm_net::Span;

use super::{Copy, ONE_WAY, Sent, arrives};

/// A path that treats named segments differently: a name counts for one segment, the first of that name.
#[derive(Default)]
pub struct Path {
    pub(super) rules: Vec<(String, Vec<Copy>)>,
}

impl Path {
    /// Loses these.
    pub fn losing(names: &[&str]) -> Self {
        Self::default().with(names, vec![])
    }

    pub fn and_losing(self, names: &[&str]) -> Self {
        self.with(names, vec![])
    }

    /// Marks these.
    pub fn marking(names: &[&str]) -> Self {
        Self::default().and_marking(names)
    }

    pub fn and_marking(self, names: &[&str]) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY, marked: true }])
    }

    /// Lets these take so much longer.
    pub fn and_delaying(self, names: &[&str], millis: u64) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY + Span::from_millis(millis), marked: false }])
    }

    /// Doubles these.
    pub fn and_doubling(self, names: &[&str]) -> Self {
        self.with(names, [arrives(), arrives()].concat())
    }

    fn with(mut self, names: &[&str], copies: Vec<Copy>) -> Self {
        self.rules.extend(names.iter().map(|&name| (name.to_owned(), copies.clone())));
        self
    }

    pub fn fate(&mut self, sent: &Sent) -> Vec<Copy> {
        let name = sent.name();
        match self.rules.iter().position(|rule| rule.0 == name) {
            Some(place) => self.rules.remove(place).1,
            None => arrives(),
        }
    }
}

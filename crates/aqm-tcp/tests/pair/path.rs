//! A path that loses, marks, delays and duplicates the segments that a test names.

use aqm_net::Span;

use super::{Copy, ONE_WAY, Sent, arrives};

/// A path with a special fate for named segments. A name applies to the first segment of this name.
#[derive(Default)]
pub struct Path {
    pub(super) rules: Vec<(String, Vec<Copy>)>,
}

impl Path {
    /// Loses these segments.
    pub fn losing(names: &[&str]) -> Self {
        Self::default().with(names, vec![])
    }

    pub fn and_losing(self, names: &[&str]) -> Self {
        self.with(names, vec![])
    }

    /// Marks these segments.
    pub fn marking(names: &[&str]) -> Self {
        Self::default().and_marking(names)
    }

    pub fn and_marking(self, names: &[&str]) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY, marked: true }])
    }

    /// Delays these segments by `millis` more milliseconds.
    pub fn and_delaying(self, names: &[&str], millis: u64) -> Self {
        self.with(names, vec![Copy { after: ONE_WAY + Span::from_millis(millis), marked: false }])
    }

    /// Duplicates these segments.
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
            Some(index) => self.rules.remove(index).1,
            None => arrives(),
        }
    }
}

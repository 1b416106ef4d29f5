//! The digest of outcomes, with which programs can compare runs.

use aqm_net::Instant;
use aqm_net::digest::Digest;

use crate::{Direction, Outcome};

/// A digest of outcomes (SHA-256). Two digests are equal if and only if the added outcomes agree in number, flow,
/// direction, fate and time of every datagram. The order of outcomes with equal times has no effect.
#[derive(Clone, Debug, Default)]
pub struct OutcomeDigest {
    digest: Digest,
    /// Outcomes with the same time, which are sorted before they are added to the digest.
    last: Vec<Outcome>,
}

impl OutcomeDigest {
    /// Adds an outcome. Outcomes must be added in the order of their times, as [`Path::poll`](crate::Path::poll) returns
    /// them.
    pub fn add(&mut self, outcome: &Outcome) {
        if self.last.first().is_some_and(|last| last.at() != outcome.at()) {
            self.flush();
        }
        self.last.push(*outcome);
    }

    /// Returns the digest in hexadecimal digits.
    pub fn finish(mut self) -> String {
        self.flush();
        self.digest.finish()
    }

    fn flush(&mut self) {
        let mut last = std::mem::take(&mut self.last);
        last.sort_by_key(Outcome::id);
        for outcome in last.drain(..) {
            self.write(&outcome);
        }
        self.last = last;
    }

    fn write(&mut self, outcome: &Outcome) {
        self.digest.word(outcome.id().number());
        self.digest.word(outcome.at().nanos());
        self.digest.short(outcome.flow().number());
        self.digest.short(u32::from(outcome.direction() == Direction::Reverse));
        match *outcome {
            Outcome::Delivered { ecn, mark, .. } => {
                let (link, reason, at) = mark
                    .map_or((0, 0, Instant::START), |mark| (mark.link.0 + 1, mark.reason.code(), mark.at));
                self.digest.short(ecn as u32);
                self.digest.short(link);
                self.digest.short(reason);
                self.digest.word(at.nanos());
            }
            Outcome::Dropped { link, reason, .. } => {
                self.digest.short(u32::MAX);
                self.digest.short(link.0 + 1);
                self.digest.short(reason.code());
            }
        }
    }
}

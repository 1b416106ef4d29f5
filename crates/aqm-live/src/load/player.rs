//! A workload while it runs, and its ends.

use std::collections::BTreeMap;

use aqm_net::Instant;
use aqm_traffic::Workload;

use super::record::WorkloadFacts;
use super::sockets::Options;
use super::{Commands, Hosts, Job};

/// The ends of a workload, as its player knows them.
pub(super) struct Ends {
    pub(super) hosts: Hosts,
    pub(super) options: Options,
    /// By side; none if programs are the workload.
    pub(super) commands: Vec<Commands>,
}

/// A workload while it runs.
pub(super) struct Player {
    pub(super) workload: Box<dyn Workload>,
    pub(super) ends: Ends,
    /// Its streams of datagrams: their jobs.
    pub(super) streams: BTreeMap<u32, Job>,
    /// The moment with which it was called last.
    pub(super) called: Instant,
    pub(super) facts: WorkloadFacts,
}

impl Player {
    pub(super) fn new(name: &str, workload: Box<dyn Workload>, ends: Ends) -> Self {
        Self {
            workload,
            ends,
            streams: BTreeMap::new(),
            called: Instant::START,
            facts: WorkloadFacts { name: name.to_owned(), ..WorkloadFacts::default() },
        }
    }

    /// Something that it asked for failed.
    pub(super) fn count_failure(&mut self, reason: String) {
        *self.facts.failures.entry(reason).or_default() += 1;
    }
}

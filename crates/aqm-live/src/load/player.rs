//! A running workload and its ends.

use std::collections::BTreeMap;

use aqm_net::Instant;
use aqm_traffic::Workload;

use super::record::WorkloadFacts;
use super::sockets::Options;
use super::{Addresses, Commands, Job};

/// The ends of a workload.
pub(super) struct Ends {
    pub(super) addresses: Addresses,
    pub(super) options: Options,
    /// The command channels of the ends, by side; empty if the workload consists of programs.
    pub(super) commands: Vec<Commands>,
}

/// A running workload.
pub(super) struct Player {
    pub(super) workload: Box<dyn Workload>,
    pub(super) ends: Ends,
    /// The jobs of the datagram streams.
    pub(super) streams: BTreeMap<u32, Job>,
    /// Time at which the workload was last called.
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

    /// Counts a failed request.
    pub(super) fn count_failure(&mut self, reason: String) {
        *self.facts.failures.entry(reason).or_default() += 1;
    }
}

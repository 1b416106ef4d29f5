//! Flow queueing as in Linux: a hash distributes packets over queues, which take turns.
//!
//! `lists.rs` contains the scheduler of FQ-CoDel and FQ-PIE, with its lists of new and old queues (RFC 8290). SFQ and
//! `fq` have their own schedulers. CAKE, which also isolates hosts, is in `cake/`. Fair queues from research papers,
//! with an exact queue for each flow, are in `fair/`, together with the hash and the search for the longest queue.

pub(crate) mod fq;
pub(crate) mod fq_codel;
pub(crate) mod fq_pie;
pub(crate) mod lists;
pub(crate) mod sfq;

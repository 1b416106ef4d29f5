//! The flow queues of Linux: a hash puts packets into queues, which take turns.
//!
//! `lists.rs` has the scheduler of FQ-CoDel and FQ-PIE, with its new and old lists (RFC 8290); SFQ and `fq` have
//! schedulers of their own. CAKE, which also isolates hosts, is in `cake/`. Fair queues of research papers, with an
//! exact queue for each flow, are in `fair/`, which has the hash and the search for the longest queue, too.

pub(crate) mod fq;
pub(crate) mod fq_codel;
pub(crate) mod fq_pie;
pub(crate) mod lists;
pub(crate) mod sfq;

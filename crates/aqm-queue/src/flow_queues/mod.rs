//! Flow queueing as in Linux: a hash assigns packets to queues, which take turns to send.
//!
//! `lists.rs` contains the scheduler of FQ-CoDel and FQ-PIE, with its lists of new and old queues (RFC 8290). SFQ and
//! `fq` have their own schedulers. CAKE, which also isolates hosts, is in `cake/`. The fair schedulers of research
//! papers, with a separate queue for each flow, are in `fair/`. The hash and the search for the longest queue are also
//! in `fair/`.

pub(crate) mod fq;
pub(crate) mod fq_codel;
pub(crate) mod fq_pie;
pub(crate) mod lists;
pub(crate) mod sfq;

//! Hosts: flows and their two ends, conversations, pages, and the processing delays of hosts.

pub(crate) mod compact_transfer;
pub(crate) mod conversation;
pub(crate) mod counts;
pub(crate) mod flow;
pub(crate) mod host_delays;
pub(crate) mod multiplexing;
pub(crate) mod pages;
pub(crate) mod side;
pub(crate) mod stream_schedule;

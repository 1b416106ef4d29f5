//! The hosts: flows with their two ends, conversations and pages over them, and the delays of hosts.

pub(crate) mod conversation;
pub(crate) mod counts;
pub(crate) mod flow;
pub(crate) mod host_delays;
pub(crate) mod kept_transfer;
pub(crate) mod pages;
pub(crate) mod side;

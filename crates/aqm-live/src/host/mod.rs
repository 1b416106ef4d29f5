//! Hosts: network namespaces with devices (`lab.rs`, `tun.rs`, `netlink.rs`), the programs that run in the hosts, and
//! the privileges that hosts and programs need.

pub(crate) mod lab;
pub(crate) mod netlink;
pub(crate) mod privileges;
pub(crate) mod program;
pub(crate) mod programs;
pub(crate) mod realtime;
pub(crate) mod tun;

//! The kernel's TCP: the settings that a scenario asks for (`kernel_tcp/`, `controls.rs`), and the state of senders
//! (`inet_diag.rs`, `senders.rs`, `windows.rs`) with the window hints that packets carry (`hints.rs`, `bpf.rs`).

pub(crate) mod bpf;
pub(crate) mod controls;
pub(crate) mod hints;
pub(crate) mod inet_diag;
pub(crate) mod kernel_tcp;
pub(crate) mod senders;
pub(crate) mod windows;

//! The kernel's TCP: its configuration (`kernel_tcp/`, `controls.rs`), the state of senders (`inet_diag.rs`,
//! `senders.rs`, `windows.rs`), and window hints in packets (`hints.rs`, `bpf.rs`).

pub(crate) mod bpf;
pub(crate) mod controls;
pub(crate) mod hints;
pub(crate) mod inet_diag;
pub(crate) mod kernel_tcp;
pub(crate) mod senders;
pub(crate) mod windows;

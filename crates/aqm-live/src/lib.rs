//! Live: a plan's queues in front of real hosts, in real time.
//!
//! This room alone has a clock, threads, devices and real packets. The network is an
//! [`Emulation`](aqm_sim::emulation::Emulation): the same links, queues and edges as in a simulation.

mod bpf;
mod buffers;
mod clock;
mod connections;
mod controls;
#[cfg(test)]
mod fuzz;
mod hints;
mod inet_diag;
mod ip;
mod kernel_tcp;
mod lab;
mod lateness;
mod load;
mod netlink;
pub mod pcap;
mod privileges;
mod program;
mod programs;
mod realtime;
mod router;
mod run;
mod senders;
#[cfg(test)]
mod testing;
mod tun;
mod validity;
mod windows;

pub use clock::Clock;
pub use kernel_tcp::{Kernel, KernelTcp};
pub use lab::{Host, HostSpec, Lab};
pub use netlink::DeviceStatistics;
pub use privileges::{Privileges, needs_user_namespace, run_in_user_namespace};
pub use program::{Child, Daemons};
pub use realtime::{Grant, Realtime};
pub use run::{Failure, Options, run};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Why something live cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveError {
    /// A sentence: what failed, the system's reason, and what to do.
    pub what: String,
    /// The file that the user named and that cannot be written, if that is the reason.
    pub file: Option<FileError>,
}

/// Why a file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The number of the system's error.
    pub errno: i32,
    /// The same in words.
    pub reason: &'static str,
}

impl LiveError {
    /// `what` failed because of `reason`.
    pub fn new(what: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { what: format!("{what}: {reason}"), file: None }
    }

    /// The file at `path`, which the user named, cannot be written because of `error`.
    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        let file = errno.map(|errno| FileError {
            path: path.to_owned(),
            errno,
            reason: Errno::from_raw(errno).desc(),
        });
        Self { file, ..Self::new(format_args!("cannot write {}", path.display()), error) }
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for LiveError {}

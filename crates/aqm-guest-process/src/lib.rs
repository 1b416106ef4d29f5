//! Guests in processes of their own: transport implementations in programs that exchange [`frames`](aqm_guest::frames)
//! over standard input and standard output.
//!
//! A [`ProcessGuest`] starts a program and implements the trait [`Guest`](aqm_guest::Guest), so that two programs can run
//! at the ends of a path:
//!
//! ```no_run
//! use aqm_guest_process::{Options, ProcessGuest};
//! use aqm_net::watch::Watch;
//! use aqm_path::Path;
//! use aqm_path::guests::{Border, Setup};
//!
//! let watch = Watch::default();
//! let command = ["python3".to_owned(), "examples/path/echo_guest.py".to_owned()];
//! let mut client = ProcessGuest::new(&command, &Options::default(), &watch.stop_request())?;
//! let mut server = ProcessGuest::new(&command, &Options::default(), &watch.stop_request())?;
//! let path = Path::from_toml(r#"forward = [{ rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } }]"#)?;
//! let report = Border::new(path, Setup::default()).run([&mut client, &mut server], &watch)?;
//! assert_eq!(report.ends[0].sent, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Isolation
//!
//! By default, a program is isolated from its first instruction: the program can read files and execute programs, but
//! cannot change the file system, and has no network. All processes that the program starts are isolated too. The
//! isolation requires Linux 6.2 or newer on x86-64, ARM64 or RISC-V, and consists of two parts:
//!
//! - [Landlock](https://docs.kernel.org/userspace-api/landlock.html) refuses to open files for writing, except for
//!   `/dev/null`, and to create, rename, truncate and remove files. Linux 6.10 and newer also refuse control operations
//!   (`ioctl`) on devices, and Linux 6.12 and newer refuse signals to processes that do not belong to the program.
//! - A [seccomp](https://docs.kernel.org/userspace-api/seccomp_filter.html) filter refuses the system calls that create
//!   or connect sockets and that change the metadata of files, which Landlock does not control (permissions, owners, times,
//!   extended attributes), with the error `EPERM`. Pairs of connected Unix sockets (`socketpair`), which event loops use,
//!   remain available.
//!
//! The isolation prevents accidental side effects and most deliberate ones. The isolation limits neither memory nor
//! computing time, hides no files, and does not control clocks and random numbers. Standard error remains available for
//! messages. File descriptors that the calling program has made inheritable remain open in the guest.

mod guard;
#[cfg(target_os = "linux")]
mod isolation;
mod process;
pub mod scenario;
pub mod whole_run;

use std::fmt;
use std::io;
use std::time::Duration;

pub use process::ProcessGuest;

/// The options of a guest in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum real time between a request and its answer. The default, 10 s, is aqmlab's choice.
    pub time_limit: Duration,
    /// Whether the process has no network and a read-only file system. The default is `true`.
    pub isolation: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { time_limit: Duration::from_secs(10), isolation: true }
    }
}

/// The reason why a program cannot be started.
#[derive(Debug)]
pub enum StartError {
    /// The system cannot isolate processes.
    Isolation(String),
    /// The operating system cannot start the program.
    Program(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isolation(reason) => write!(f, "this system cannot isolate a guest: {reason}"),
            Self::Program(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

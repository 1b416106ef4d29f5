//! Why something live cannot be done.

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

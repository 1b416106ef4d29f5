//! Errors that occur in live runs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// An error that occurred in a live run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveError {
    /// Message that states which operation failed, the reason reported by the system, and a remedy.
    pub what: String,
    /// The file named by the user, if the cause of the error is that this file cannot be written.
    pub file: Option<FileError>,
}

/// An error that prevents a file from being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error number of the system (errno).
    pub errno: i32,
    /// Description of the error.
    pub reason: &'static str,
}

impl LiveError {
    /// Returns an error which states that the operation `what` failed because of `reason`.
    pub fn new(what: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { what: format!("{what}: {reason}"), file: None }
    }

    /// Returns an error which states that the file at `path`, which the user named, cannot be written because of
    /// `error`.
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

//! The errors that can occur when the packets of a simulated run are written.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why the packets of a run cannot be written.
#[derive(Debug)]
pub enum PcapError {
    /// The file named by the user cannot be created or written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// An output that is not a file named by the user cannot be written.
    Output(io::Error),
    /// The run recorded no packets.
    NothingRecorded,
    /// The run recorded no packets at the interface with this name.
    NotRecordedAt {
        /// Name of the interface.
        name: String,
        /// Names of the interfaces for which packets were recorded.
        available: Vec<String>,
    },
    /// The table or column with this name is missing or has the wrong type.
    Table(String),
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNWRITTEN: &str = "cannot write the packets of the run";
        match self {
            Self::File { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            Self::Output(error) => write!(f, "{UNWRITTEN}: {error}"),
            Self::NothingRecorded => write!(
                f,
                "{UNWRITTEN}: the run recorded no packets; add links to `record.packets`, or workloads to \
                 `record.histories`"
            ),
            Self::NotRecordedAt { name, available } => {
                let available = available.join(", ");
                write!(f, "{UNWRITTEN}: no packets were recorded at `{name}`; available: {available}")
            }
            Self::Table(name) => {
                write!(f, "cannot read the tables of the run: `{name}` is missing or has another type")
            }
        }
    }
}

impl std::error::Error for PcapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } | Self::Output(error) => Some(error),
            Self::NothingRecorded | Self::NotRecordedAt { .. } | Self::Table(_) => None,
        }
    }
}

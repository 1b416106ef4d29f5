//! Programs as guests of a simulated scenario.

use std::sync::LazyLock;
use std::time::Duration;

use aqm_guest::Guest;
use aqm_net::Span;
use aqm_net::watch::Watch;

use crate::{Options, ProcessGuest, StartError};

/// The watch of guests, which nobody stops: a guest whose answer is late ends at its time limit.
static UNWATCHED: LazyLock<Watch> = LazyLock::new(Watch::default);

/// Starts a program as a guest of a scenario. The program has no network and a read-only file system.
///
/// # Errors
/// Returns a description of the error if the program cannot be started or isolated.
pub fn guest(command: &[String], time_limit: Span) -> Result<Box<dyn Guest>, String> {
    let options = Options { time_limit: Duration::from_nanos(time_limit.nanos()), ..Options::default() };
    match ProcessGuest::new(command, &options, &UNWATCHED) {
        Ok(guest) => Ok(Box::new(guest)),
        Err(error @ StartError::Isolation(_)) => {
            Err(format!("{error}; guests of scenarios are always isolated"))
        }
        Err(StartError::Program(error)) => {
            Err(format!("{}: {error}", command.first().map_or("", |name| name)))
        }
    }
}

//! Programs as guests of a simulated scenario.

use std::time::Duration;

use aqm_guest::Guest;
use aqm_net::Span;
use aqm_net::watch::StopRequest;

use crate::{Options, ProcessGuest, StartError};

/// Starts a program as a guest of a scenario. The program has no network and a read-only file system. If `stop` is set,
/// the guest is killed at its next or current request.
///
/// # Errors
/// Returns a description of the error if the program cannot be started or isolated.
pub fn guest(command: &[String], time_limit: Span, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
    let options = Options { time_limit: Duration::from_nanos(time_limit.nanos()), ..Options::default() };
    match ProcessGuest::new(command, &options, stop) {
        Ok(guest) => Ok(Box::new(guest)),
        Err(error @ StartError::Isolation(_)) => {
            Err(format!("{error}; guests of scenarios are always isolated"))
        }
        Err(StartError::Program(error)) => {
            Err(format!("{}: {error}", command.first().map_or("", |name| name)))
        }
    }
}

//! What parameters shared by several workloads may be. Each is checked here and in no other place.

use aqm_net::{ConfigError, Size};

/// Checks a load.
pub(crate) fn check_load(load: f64) -> Result<(), ConfigError> {
    if load > 0.0 && load <= 10.0 {
        return Ok(());
    }
    Err(ConfigError::at("load", format!("must be above 0 and at most 10, is {load}")))
}

/// A request longer than this is taken for a slip of the pen.
const MOST_REQUEST: u64 = 1_000_000;

/// Checks what a client sends to ask for an object.
pub(crate) fn check_request(request: Option<Size>) -> Result<(), ConfigError> {
    if request.is_none_or(|request| (1..=MOST_REQUEST).contains(&request.bytes())) {
        return Ok(());
    }
    Err(ConfigError::at("request", "must be 1B to 1MB"))
}

/// The bytes of a request that was checked.
pub(crate) fn request_bytes(request: Size) -> u32 {
    request.bytes() as u32
}

/// More transfers in a run than this fill any memory.
const MOST_TRANSFERS: f64 = 5e7;

/// Refuses more transfers than a run can hold: the parameter `place` makes `expected` of them, and
/// `remedy` makes them fewer.
pub(crate) fn check_transfers(expected: f64, place: &str, remedy: &str) -> Result<(), ConfigError> {
    if expected <= MOST_TRANSFERS {
        return Ok(());
    }
    let problem = format!("makes about {expected:.0} transfers in this run, more than {MOST_TRANSFERS:.0}");
    Err(ConfigError::at(place, format!("{problem}: {remedy}")))
}

/// No run ends that sends more datagrams than this.
const MOST_DATAGRAMS: f64 = 1e10;

/// Refuses more datagrams than a run can send: the parameter `place` makes `expected` of them.
pub(crate) fn check_datagrams(expected: f64, place: &str) -> Result<(), ConfigError> {
    if expected <= MOST_DATAGRAMS {
        return Ok(());
    }
    let problem = format!("makes about {expected:.0} datagrams in this run, more than {MOST_DATAGRAMS:.0}");
    Err(ConfigError::at(place, problem))
}

/// An IP packet can have no more bytes.
pub(crate) const MOST_BYTES: u64 = 65_535;

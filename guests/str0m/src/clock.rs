//! The instant of str0m that represents time 0.
//!
//! str0m takes times as instants of the standard library. str0m converts an instant to the date of an RTCP report with the
//! difference between two clocks, which str0m reads once in a process. A report rounds the date to 1/65,536 s, and the
//! round-trip time between reports decides when the receiver requests a lost packet again. Therefore, the guest chooses the
//! instant of time 0 so that the date is the same in every process.

use std::sync::OnceLock;
use std::time::{Duration, Instant as Clock};

use aqm_guest::{End, Payload, Problem};
use aqm_net::{Instant, Span};
use guest_common::tls;

use crate::config::Config;
use crate::host::Host;

/// Interval between the calls of the connection that finds the date.
const STEP: Span = Span::from_millis(10);

/// Number of calls after which the connection has sent a report. The interval between the reports of a video is 1 s.
const STEPS: u32 = 500;

/// Returns the instant whose date in str0m's reports is [`tls::date`].
///
/// # Errors
/// Returns an error if str0m does not send a report.
pub fn zero() -> Result<Clock, Problem> {
    static ZERO: OnceLock<Result<Clock, Problem>> = OnceLock::new();
    ZERO.get_or_init(|| find(origin())).clone()
}

#[expect(clippy::disallowed_methods, reason = "an instant of the standard library has no other origin")]
fn origin() -> Clock {
    Clock::now()
}

/// Runs a connection whose time 0 is `origin`, until the server sends a report.
fn find(origin: Clock) -> Result<Clock, Problem> {
    let host = |end| Host::new(end, Config::default(), 0, origin, true);
    let mut hosts = [host(End::Client)?, host(End::Server)?];
    let mut received: [Vec<Payload>; 2] = Default::default();
    let mut now = Instant::START;
    for _ in 0..STEPS {
        for end in End::ALL {
            let arrivals = std::mem::take(&mut received[end as usize]);
            received[end.other() as usize] = hosts[end as usize].run(now, arrivals)?.datagrams;
        }
        if let Some(date) = hosts[End::Server as usize].reported_date {
            let early = tls::date().duration_since(date).map_err(|error| error.to_string())?;
            return Ok(origin + Duration::from_nanos(now.nanos()) + early);
        }
        now += STEP;
    }
    Err("str0m does not send a report".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_time_0_does_not_depend_on_the_origin() {
        let origin = origin();
        let zero = find(origin).expect("a report");
        assert_eq!(find(origin + Duration::from_nanos(123_456_789)).expect("a report"), zero);
    }
}

//! The round-trip time for which CAKE is configured: a time, or one of the keywords of `tc` (iproute2's `q_cake.c`).
//!
//! For `interplanetary`, the manual page of `tc` states 3600 s, but the code of `tc` uses 1000 s. aqmlab uses 1000 s.

use aqm_net::{ConfigErrors, Parameter, Schema, Span};
use serde::Serialize;
use serde_json::Value;

/// Keywords for round-trip times, in microseconds.
const KEYWORDS: [(&str, u64); 8] = [
    ("datacentre", 100),
    ("lan", 1000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];

/// A round-trip time, which may be written as a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RoundTrip(pub Span);

impl Parameter for RoundTrip {
    fn schema() -> Schema {
        Span::schema()
    }

    fn read(value: Value) -> Result<Self, ConfigErrors> {
        let keyword = KEYWORDS.iter().find(|(keyword, _)| value == *keyword);
        keyword.map_or_else(|| Span::read(value), |(_, micros)| Ok(Span::from_nanos(micros * 1000))).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_round_trip_is_a_time_or_a_keyword() {
        let read = |text: &str| RoundTrip::read(json!(text)).map(|RoundTrip(span)| span.to_string());
        for (keyword, time) in
            [("datacentre", "100us"), ("lan", "1ms"), ("internet", "100ms"), ("70ms", "70ms")]
        {
            assert_eq!(read(keyword).unwrap(), time);
        }
        assert_eq!(read("interplanetary").unwrap(), "1000s");
        assert!(read("martian").is_err());
        assert_eq!(
            json!(RoundTrip::read(json!("metro")).unwrap()),
            json!("10ms"),
            "the keyword is stored as a time"
        );
    }
}

//! Gauges: values that a queue discipline or an edge reports about its state.

use aqm_net::Length;

/// A value that describes the current state of a queue discipline or an edge, for example for a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name of the value, such as `average` or `probability`: a single word that does not change from one call to
    /// the next.
    pub name: &'static str,
    /// The unit of the value, such as `packets`, `bytes`, `segments`, `flows` or `s`; `None` for a number without a
    /// unit, such as a probability.
    pub unit: Option<&'static str>,
    /// The value, in this unit.
    pub value: f64,
}

impl Gauge {
    /// Creates a gauge for a number without a unit, such as a probability.
    pub const fn number(name: &'static str, value: f64) -> Self {
        Self { name, unit: None, value }
    }

    /// Creates a gauge for a value with a unit.
    pub const fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, unit: Some(unit), value }
    }

    /// Creates a gauge for a queue length, in the same unit as `like`, which may be a threshold, for example.
    pub const fn length(name: &'static str, value: f64, like: Length) -> Self {
        Self::new(name, value, if like.in_bytes() { "bytes" } else { "packets" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_the_unit_of_the_thresholds() {
        let unit = |like| Gauge::length("average", 3.5, like).unit;
        assert_eq!([unit(Length::Packets(1)), unit(Length::Bytes(1))], [Some("packets"), Some("bytes")]);
        assert_eq!(Gauge::number("probability", 0.5), Gauge { name: "probability", unit: None, value: 0.5 });
    }
}

//! Values that a discipline or an edge reports about its state.

use aqm_net::Length;

/// A value worth plotting, valid at the time of the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name of the value, such as `average` or `probability`: one word, the same in every call.
    pub name: &'static str,
    /// Its unit, such as `packets`, `bytes`, `segments`, `flows` or `s`; `None` for a number without one, such as a
    /// probability.
    pub unit: Option<&'static str>,
    /// The value itself.
    pub value: f64,
}

impl Gauge {
    /// A number without a unit, such as a probability.
    pub const fn number(name: &'static str, value: f64) -> Self {
        Self { name, unit: None, value }
    }

    /// A value with a unit.
    pub const fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, unit: Some(unit), value }
    }

    /// A queue length in the unit of `like`, for example the unit of the thresholds.
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

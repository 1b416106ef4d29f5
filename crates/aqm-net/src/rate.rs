//! Rates of links.

use std::fmt;

use crate::Quantity;
use crate::time::Span;
use crate::units;

/// A rate in bits per second; written `140kbps`, `10Mbps` or `1Gbps` in a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The minimum rate.
    pub const LEAST: Self = Self(16);

    /// Returns a rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the pace, which converts bytes into transmission time without a division.
    ///
    /// # Panics
    /// Panics if the rate is zero, which no scenario allows.
    pub fn pace(self) -> Pace {
        assert!(self.0 > 0, "the rate of a link must not be zero");
        Pace(((8_000_000_000_u128 << Pace::FRACTION) / u128::from(self.0)) as u64)
    }
}

/// A [`Rate`] that may be zero, for a link that may be down. A rate of zero is written `0bps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateOrZero(Rate);

impl RateOrZero {
    /// Returns the rate, which may be zero.
    pub const fn or_zero(self) -> Rate {
        self.0
    }
}

/// Nanoseconds per byte as a fixed-point number with 32 fractional bits. Transmission times are accurate to a
/// nanosecond for packets of up to 64 kB at rates of 16 bps or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pace(u64);

impl Pace {
    const FRACTION: u32 = 32;

    /// The pace of a link that takes no time to transmit.
    pub const INSTANT: Self = Self(0);

    /// Returns the transmission time of `bytes`, rounded to the nearest nanosecond.
    pub fn time_for(self, bytes: u64) -> Span {
        let half = 1_u128 << (Self::FRACTION - 1);
        Span::from_nanos(((u128::from(self.0) * u128::from(bytes) + half) >> Self::FRACTION) as u64)
    }
}

impl Quantity for Rate {
    const NAME: &'static str = "rate";
    const SCALE: &'static [(&'static str, f64)] =
        &[("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9), ("Tbps", 1e12)];

    fn parse(text: &str) -> Result<Self, String> {
        let bps = units::parse::<Self>(text, "10Mbps")?;
        if !(16.0..=1e13).contains(&bps) {
            return Err(format!("`{text}` must be between 16bps and 10Tbps"));
        }
        Ok(Self((bps + 0.5) as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::show(
            self.0,
            "bps",
            &[("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)],
        ))
    }
}

units::quantity_parameter!(Rate);

impl Quantity for RateOrZero {
    const NAME: &'static str = Rate::NAME;
    const SCALE: &'static [(&'static str, f64)] = Rate::SCALE;

    fn parse(text: &str) -> Result<Self, String> {
        let bps = units::parse::<Rate>(text, "10Mbps")?;
        if bps == 0.0 {
            return Ok(Self::default());
        }
        Rate::parse(text).map(Self).map_err(|problem| format!("{problem}, or zero"))
    }
}

impl fmt::Display for RateOrZero {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

units::quantity_parameter!(RateOrZero);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_its_bits_over_the_rate() {
        let line = |text: &str| Rate::parse(text).unwrap().pace();
        assert_eq!(line("10Mbps").time_for(974).nanos(), 779_200);
        assert_eq!(line("1Mbps").time_for(1000).nanos(), 8_000_000);
        assert_eq!(line("140kbps").time_for(1500).nanos(), 85_714_286);
        assert_eq!(line("3Gbps").time_for(1500).nanos(), 4_000);
        assert_eq!(line("100Gbps").time_for(1500).nanos(), 120);
    }

    #[test]
    fn a_rate_reads_what_it_writes() {
        for text in ["16bps", "140kbps", "10Mbps", "1234567bps", "1Gbps"] {
            assert_eq!(Rate::parse(text).unwrap().to_string(), text);
        }
        for text in ["0bps", "10", "10MB", "-1Mbps", "1e99Mbps"] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
        for text in ["0bps", "16bps", "3Mbps"] {
            assert_eq!(RateOrZero::parse(text).unwrap().to_string(), text);
        }
        let refused = RateOrZero::parse("7bps").unwrap_err();
        assert_eq!(refused, "`7bps` must be between 16bps and 10Tbps, or zero");
    }
}

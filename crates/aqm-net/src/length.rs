//! Queue lengths and thresholds. Lengths are in packets or in bytes, because papers use both units. Thresholds may also
//! be times.

use std::fmt;

use crate::units;
use crate::{Quantity, Span};

/// A number of packets or bytes; written `30p`, `1500B` or `20kB` (1000 bytes) in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(u64),
}

impl Length {
    /// Returns the number without its unit.
    pub const fn count(self) -> u64 {
        match self {
            Self::Packets(n) | Self::Bytes(n) => n,
        }
    }

    /// Returns whether the length is in bytes.
    pub const fn in_bytes(self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

impl Quantity for Length {
    const NAME: &'static str = "packets or bytes";
    const SCALE: &'static [(&'static str, f64)] = &[("p", 1.0), ("B", 1.0), ("kB", 1e3), ("MB", 1e6)];

    fn parse(text: &str) -> Result<Self, String> {
        let whole = |value: f64| {
            if value > 1e12 || value != libm::trunc(value) {
                Err(format!("`{text}` must be an integer of at most 1e12"))
            } else {
                Ok(value as u64)
            }
        };
        // Packets cannot be converted into bytes, so text in packets is parsed first.
        if let Some(number) = text.trim().strip_suffix('p') {
            return whole(units::parse::<Self>(&format!("{number}p"), "30p")?).map(Self::Packets);
        }
        whole(units::parse::<Self>(text, "30p")?).map(Self::Bytes)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(n) => write!(f, "{n}p"),
            Self::Bytes(n) => {
                f.write_str(&units::show(*n, "B", &[("MB", 1_000_000), ("kB", 1_000), ("B", 1)]))
            }
        }
    }
}

units::quantity_parameter!(Length);

/// A threshold of a queue in packets, in bytes, or in queueing delay; written `20p`, `30kB` or `1ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A number of packets or bytes in the queue.
    Length(Length),
    /// A queueing delay.
    Time(Span),
}

impl Quantity for Threshold {
    const NAME: &'static str = "time, packets or bytes";
    const SCALE: &'static [(&'static str, f64)] = &[
        ("ns", 1.0),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("min", 6e10),
        ("p", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
    ];

    fn parse(text: &str) -> Result<Self, String> {
        units::parse::<Self>(text, "1ms")?;
        if units::is_in::<Length>(text) {
            Length::parse(text).map(Self::Length)
        } else {
            Span::parse(text).map(Self::Time)
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => length.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

units::quantity_parameter!(Threshold);

/// A size in bytes; written `40B`, `10kB` (1000 bytes) or `2MB` in a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// Returns a size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Quantity for Size {
    const NAME: &'static str = "size";
    const SCALE: &'static [(&'static str, f64)] = &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];

    fn parse(text: &str) -> Result<Self, String> {
        let bytes = units::parse::<Self>(text, "10kB")?;
        if bytes > 1e15 || bytes != libm::trunc(bytes) {
            return Err(format!("`{text}` must be an integer number of bytes, at most 1e15"));
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::show(
            self.0,
            "B",
            &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)],
        ))
    }
}

units::quantity_parameter!(Size);

/// The packets in a queue, excluding the packet in transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of queued packets.
    pub packets: u64,
    /// Number of queued bytes.
    pub bytes: u64,
}

impl Backlog {
    /// Returns the backlog in the unit of `like`, which is packets or bytes.
    pub const fn in_unit_of(self, like: Length) -> u64 {
        if like.in_bytes() { self.bytes } else { self.packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_sizes_read_what_they_write() {
        for text in ["0p", "30p", "1500B", "20kB"] {
            assert_eq!(Length::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Size::parse("1e3B").unwrap().to_string(), "1kB");
        for text in ["30", "30q", "-1p", "1.5p", "NaNp", "p", "1e300kB"] {
            assert!(Length::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_threshold_is_a_length_or_a_time_and_knows_the_units_of_both() {
        for text in ["20p", "30kB", "1ms", "250us"] {
            assert_eq!(Threshold::parse(text).unwrap().to_string(), text);
        }
        let units = |scale: &[(&'static str, f64)]| scale.iter().map(|(unit, _)| *unit).collect::<Vec<_>>();
        let both = [units(Span::SCALE), units(Length::SCALE)].concat();
        assert_eq!(units(Threshold::SCALE), both);
        assert_eq!(
            Threshold::parse("1Mbps").unwrap_err(),
            format!("`1Mbps`: unknown unit `Mbps`, expected {}", both.join(", "))
        );
        assert_eq!(Threshold::parse("1.5p").unwrap_err(), "`1.5p` must be an integer of at most 1e12");
    }

    #[test]
    fn an_unknown_unit_is_reported() {
        let message = Length::parse("30q").unwrap_err();
        assert!(message.contains("unknown unit `q`, expected p, B, kB, MB"), "{message}");
    }
}

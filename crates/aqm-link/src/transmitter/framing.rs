//! Framing of a link layer: the number of bytes that a packet occupies on the line.
//!
//! ATM (ITU-T I.363.5, AAL5) sends a packet in cells of 53 bytes, of which 48 are data; the last cell is padded. ADSL
//! uses ATM. PTM (IEEE 802.3, clause 61: 64b/65b) adds a byte for each 64 bytes or part of 64 bytes. VDSL2 uses PTM.
//! The formulas are those of CAKE (`cake_calc_overhead` in `net/sched/sch_cake.c`).

use aqm_net::{ConfigErrors, ErrorCollector, Size, choices, parameters};

parameters! {
    /// Framing of the link layer: each packet occupies more bytes on the line than its length.
    ///
    /// The queue and all counters of the link use the lengths of packets. With `framing`, `rate` is the rate of the
    /// line (the sync rate of a modem).
    pub struct Framing {
        /// Link layer.
        pub linklayer: LinkLayer = LinkLayer::Ethernet, "tc-stab, tc-cake";
        /// Number of bytes that the link adds to each packet. The number may be negative.
        pub overhead: i64 = 0, "tc-stab, tc-cake";
        /// Minimum length of a packet, including `overhead`.
        pub mpu: Size = Size::from_bytes(0), "tc-stab, tc-cake";
    }
}

choices! {
    /// A link layer.
    pub enum LinkLayer {
        /// Packets are sent without cells or blocks.
        Ethernet = "ethernet",
        /// ATM cells of 53 bytes, of which 48 are data, as on ADSL.
        Atm = "atm",
        /// PTM with one byte added for each 64 bytes, as on VDSL2.
        Ptm = "ptm",
    }
}

/// The allowed range of the overhead: that of `tc-stab` and, in both directions, more than any header.
const OVERHEADS: std::ops::RangeInclusive<i64> = -2047..=2047;
/// The largest `mpu`, which is that of `tc-stab`.
const MAX_MPU: u64 = 2047;

impl Framing {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let problem =
            format_args!("must be from {} to {} (got {})", OVERHEADS.start(), OVERHEADS.end(), self.overhead);
        errors.check(OVERHEADS.contains(&self.overhead), "overhead", problem);
        let problem = format_args!("must be at most {MAX_MPU}B (got {})", self.mpu);
        errors.check(self.mpu.bytes() <= MAX_MPU, "mpu", problem);
        errors.finish(())
    }

    /// Returns the number of bytes that a packet with `bytes` bytes occupies on the line.
    pub(super) fn on_line(&self, bytes: u64) -> u64 {
        let length = bytes.saturating_add_signed(self.overhead).max(self.mpu.bytes()).max(1);
        match self.linklayer {
            LinkLayer::Ethernet => length,
            LinkLayer::Atm => length.div_ceil(48) * 53,
            LinkLayer::Ptm => length + length.div_ceil(64),
        }
    }
}

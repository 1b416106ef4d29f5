//! CAKE's shaper: computes the size of packets on the downstream link, and the time at which the next packet may be
//! sent.
//!
//! The shaper works in deficit mode: a packet is sent at the time at which a link with the shaper's rate would have
//! finished sending the previous packet. There is no token bucket and therefore no burst. Capacity that is unused while
//! the queue is empty cannot be used later. At an ingress, dropped packets have crossed the link, and are therefore
//! charged like sent packets. A second clock counts only sent packets, but advances by one and a half times the
//! transmission time of each of them. A packet is released as soon as either of the two clocks allows, so that a large
//! number of drops cannot block the other packets.
//!
//! The number of bytes that a link sends may exceed the packet's size: the link adds `overhead` bytes per packet, and
//! sends at least `mpu` bytes. ATM sends every 48 bytes in a cell of 53 bytes. PTM adds one byte for each 64 bytes or
//! part of 64 bytes; this rule is Linux's approximation of VDSL2, which encodes 64 bytes as 65 bytes.

use aqm_net::choices;

choices! {
    /// The framing of packets on a link.
    pub enum Cells {
        /// No framing.
        None = "noatm",
        /// ATM cells of 53 bytes, of which 48 are data, as on ADSL.
        Atm = "atm",
        /// PTM with one byte added per 64 bytes, as on VDSL2.
        Ptm = "ptm",
    }
}

/// The bytes that a link adds to packets, and the range of sizes observed.
#[derive(Clone)]
pub(super) struct Framing {
    /// Number of bytes below the IP header that are counted in a packet's size. These bytes are not counted if
    /// `overhead` is set.
    pub hdr_offset: u32,
    pub overhead: Option<i64>,
    pub mpu: u32,
    pub atm: Cells,
    /// The minimum and maximum packet sizes, without the added bytes (`netlen`) and with the added bytes (`adjlen`), as
    /// 16-bit integers.
    pub network_size: [u16; 2],
    pub adjusted_size: [u16; 2],
    /// The average of `hdr_offset`, in units of 2^-16.
    pub average_offset: u32,
}

/// The minimum and maximum packet sizes before the first packet.
pub(super) const NO_SIZES: [u16; 2] = [u16::MAX, 0];

impl Framing {
    /// Updates the average of `hdr_offset` when a packet arrives.
    #[inline]
    pub fn count_offset(&mut self) {
        self.average_offset -= self.average_offset >> 8;
        self.average_offset += (self.hdr_offset << 16) >> 8;
    }

    /// Returns the number of bytes that a packet of this size uses on the link.
    pub fn adjusted(&mut self, bytes: u16) -> u32 {
        let network = match self.overhead {
            Some(_) => u32::from(bytes).saturating_sub(self.hdr_offset),
            None => u32::from(bytes),
        };
        update_range(&mut self.network_size, network);
        let length = network.saturating_add_signed(self.overhead.unwrap_or(0) as i32).max(self.mpu);
        let framed = match self.atm {
            Cells::None => length,
            Cells::Atm => length.div_ceil(48) * 53,
            Cells::Ptm => length + length.div_ceil(64),
        };
        update_range(&mut self.adjusted_size, framed);
        framed
    }
}

fn update_range([least, most]: &mut [u16; 2], size: u32) {
    // As in the kernel, full integers are compared, but only their lower 16 bits are stored.
    if u32::from(*most) < size {
        *most = size as u16;
    }
    if u32::from(*least) > size {
        *least = size as u16;
    }
}

/// The time per byte, as a fixed-point number of at most 34 bits, as in the kernel; 0 if the rate is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    per_byte: u64,
    shift: u32,
}

/// The lowest rate, in bytes per second. Lower rates are raised to this rate, so that a run ends even if the configured
/// rate is far too low.
const MIN_RATE: u64 = 64;

impl Pace {
    /// Returns the time per byte for a rate in bytes per second. A rate of 0 means that the rate is unlimited.
    pub fn of(rate: u64) -> Self {
        if rate == 0 {
            return Self::default();
        }
        let (mut per_byte, mut shift) = ((1_000_000_000 << 34) / rate.max(MIN_RATE), 34);
        while per_byte >> 34 > 0 {
            per_byte >>= 1;
            shift -= 1;
        }
        Self { per_byte, shift }
    }

    pub fn is_unlimited(self) -> bool {
        self.per_byte == 0
    }

    /// Returns the transmission time of this number of bytes, in nanoseconds.
    pub fn time_for(self, bytes: u32) -> i64 {
        ((u64::from(bytes) * self.per_byte) >> self.shift) as i64
    }
}

/// The clocks of the shaper, in nanoseconds.
#[derive(Clone)]
pub(super) struct Shaper {
    pub pace: Pace,
    /// The time at which the next packet may be sent (`time_next_packet`).
    next: i64,
    /// The time at which the next packet may be sent even if dropped packets delay `next` (`failsafe_next_packet`).
    failsafe: i64,
}

impl Shaper {
    pub fn new(pace: Pace) -> Self {
        Self { pace, next: 0, failsafe: 0 }
    }

    /// Returns the time until which the shaper delays all packets, or `None` if a packet may be sent now.
    pub fn held_until(&self, now: i64) -> Option<i64> {
        let until = self.next.min(self.failsafe);
        (until > now).then_some(until)
    }

    /// Sets the clocks to `now` when a packet arrives at an empty queue, because unused capacity is lost. Returns
    /// whether the packet is delayed.
    pub fn on_first(&mut self, now: i64) -> bool {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
        }
        self.held_until(now).is_some()
    }

    /// Charges for bytes that were sent over the link, or that were dropped after they had crossed the link.
    pub fn charge(&mut self, bytes: u32, dropped: bool) {
        let time = self.pace.time_for(bytes);
        self.next += time;
        if !dropped {
            self.failsafe += time + (time >> 1);
        }
    }
}

/// The clock of a tin, which shows whether the tin has used up its guaranteed rate (`time_next_packet`).
#[derive(Clone, Copy, Default)]
pub(super) struct TinClock(pub i64);

impl TinClock {
    /// When a packet arrives at an empty tin, sets the clock to `now`, unless the clock is already later.
    pub fn on_first(&mut self, now: i64) {
        self.0 = self.0.max(now);
    }

    /// Charges the tin for bytes that were sent, and whose transmission takes `time` at the tin's rate.
    pub fn charge(&mut self, time: i64, now: i64) {
        if self.0 < now {
            self.0 += time;
        } else if self.0 < now + time {
            self.0 = now + time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(overhead: Option<i64>, mpu: u32, atm: Cells) -> Framing {
        let hdr_offset = 14;
        let sizes = NO_SIZES;
        Framing {
            hdr_offset,
            overhead,
            mpu,
            atm,
            network_size: sizes,
            adjusted_size: sizes,
            average_offset: 0,
        }
    }

    #[test]
    fn atm_cells_carry_48_bytes_in_53() {
        for bytes in 1..3000_u16 {
            let cells = (0..).find(|cells| cells * 48 >= u32::from(bytes)).unwrap();
            assert_eq!(framing(None, 0, Cells::Atm).adjusted(bytes), cells * 53);
        }
        // The `pppoe-vcmux` keyword of `tc-cake` adds 32 bytes per IP packet.
        assert_eq!(framing(Some(32), 0, Cells::Atm).adjusted(1514), 32 * 53, "1532 bytes");
        assert_eq!(framing(Some(32), 0, Cells::Atm).adjusted(14 + 48 - 32), 53);
        assert_eq!(framing(Some(32), 0, Cells::Atm).adjusted(14 + 49 - 32), 106);
    }

    #[test]
    fn ptm_adds_a_byte_for_each_64_or_part() {
        let size = |bytes| framing(None, 0, Cells::Ptm).adjusted(bytes);
        assert_eq!([1, 64, 65, 1514].map(size), [2, 65, 67, 1538]);
    }

    #[test]
    fn without_an_overhead_the_size_is_unchanged() {
        assert_eq!(framing(None, 0, Cells::None).adjusted(1514), 1514);
        assert_eq!(framing(Some(0), 0, Cells::None).adjusted(1514), 1500);
        assert_eq!(framing(Some(-20), 0, Cells::None).adjusted(1514), 1480);
        assert_eq!(framing(Some(38), 84, Cells::None).adjusted(42), 84, "the minimum Ethernet frame");
        assert_eq!(framing(Some(-64), 0, Cells::None).adjusted(20), 0);
    }

    #[test]
    fn the_range_of_sizes_is_recorded() {
        let mut framing = framing(Some(18), 64, Cells::None);
        assert_eq!([54, 1514, 600].map(|bytes| framing.adjusted(bytes)), [64, 1518, 604]);
        assert_eq!((framing.network_size, framing.adjusted_size), ([40, 1500], [64, 1518]));
        (0..5000).for_each(|_| framing.count_offset());
        assert_eq!((framing.average_offset + 0x8000) >> 16, 14);
    }

    #[test]
    fn transmission_times_are_accurate_to_a_nanosecond() {
        for bps in [16_000, 2_000_000, 10_000_000, 123_456_789, 1_000_000_000, 40_000_000_000_u64] {
            let pace = Pace::of(bps / 8);
            for bytes in [40, 64, 1514, 65_535] {
                let exact = f64::from(bytes) * 8e9 / bps as f64;
                let time = pace.time_for(bytes) as f64;
                assert!(
                    (time - exact).abs() < 1.0 + exact * 1e-6,
                    "{bytes} at {bps}: {time} (expected {exact})"
                );
            }
        }
        assert!(Pace::of(0).is_unlimited() && !Pace::of(1).is_unlimited());
    }

    #[test]
    fn a_second_clock_releases_packets_after_charged_drops() {
        let mut shaper = Shaper::new(Pace::of(1000));
        assert!(!shaper.on_first(0));
        shaper.charge(100, false);
        assert_eq!(shaper.held_until(0), Some(100_000_000));
        shaper.charge(900, true);
        assert_eq!(shaper.held_until(0), Some(150_000_000), "not for the one second of the drop");
        assert!(!shaper.on_first(150_000_000));
        assert!(!shaper.on_first(2_000_000_000), "unused time does not accumulate");
        assert_eq!(shaper.held_until(2_000_000_000), None);
    }
}

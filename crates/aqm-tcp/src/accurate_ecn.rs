//! Accurate ECN feedback (AccECN): the codes in the handshake, and the counters at both endpoints.
//!
//! B. Briscoe, M. Kühlewind, R. Scheffenegger, "More Accurate Explicit Congestion Notification (AccECN) Feedback in
//! TCP", RFC 9768, 2026, sections 3.1 and 3.2, appendix A.2; Linux: `include/net/tcp_ecn.h` (`__tcp_accecn_process`).
//!
//! aqmlab's choices: the AccECN option carries only the counter of marked bytes, because the option's two other
//! counters serve to detect middleboxes that clear or change ECN bits, and aqmlab does not model such middleboxes. The
//! option takes the place of the third SACK block.

use aqm_net::Ecn;

use crate::segment::{Flags, Segment};

/// All three flags of the ACE field.
pub(crate) const ACE: Flags = Flags::AE.union(Flags::CWR).union(Flags::ECE);
/// Initial value of the packet counter (section 3.2.1).
const INITIAL_PACKETS: u64 = 5;
/// Minimum number of new marks that causes a receiver with unacknowledged data to send an acknowledgement (section
/// 3.2.2.5.1).
const MARKS_PER_ACK: u64 = 2;
/// Width of the option's counter, in bits.
const OPTION_BITS: u32 = 24;

/// Returns the flags that encode the three bits of `value` (`AE` is the most significant bit).
pub(crate) fn flags_of(value: u8) -> Flags {
    [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)]
        .into_iter()
        .filter(|&(bit, _)| value & bit != 0)
        .fold(Flags::default(), |flags, (_, flag)| flags.union(flag))
}

/// Returns the value of the three-bit ACE field.
pub(crate) fn value_of(flags: Flags) -> u8 {
    u8::from(flags.has(Flags::AE)) * 4 + u8::from(flags.has(Flags::CWR)) * 2 + u8::from(flags.has(Flags::ECE))
}

/// Returns the code that a SYN/ACK, or the acknowledgement of a SYN/ACK, uses to report the ECN bits of the packet
/// being answered (table 2 and section 3.2.2.1).
pub(crate) fn handshake_code(ecn: Ecn) -> Flags {
    flags_of(match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// Whether the flags of a SYN/ACK are an AccECN code. The codes `0b001` and `0b101` mean classic ECN; `0b000` and
/// `0b111` mean no ECN.
pub(crate) fn accepts(flags: Flags) -> bool {
    matches!(value_of(flags), 0b010 | 0b011 | 0b100 | 0b110)
}

/// Counters at the data receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiverCounters {
    /// Number of marked packets (`r.cep`).
    packets: u64,
    /// Number of payload bytes in marked packets (`r.ceb`).
    bytes: u64,
    /// ECN bits of the last packet that contained data.
    last: Ecn,
    /// Value of `packets` when the last acknowledgement was sent.
    acknowledged: u64,
}

impl ReceiverCounters {
    pub fn new() -> Self {
        Self { packets: INITIAL_PACKETS, bytes: 0, last: Ecn::NotEct, acknowledged: INITIAL_PACKETS }
    }

    /// Counts a packet. Returns whether the acknowledgement must be sent without delay (section 3.2.2.5.1), either
    /// because the packet's ECN bits differ from the previous packet's ECN bits, or because enough marks have arrived.
    pub fn on_packet(&mut self, segment: &Segment) -> bool {
        let has_data = segment.len > 0;
        let is_marked = segment.ecn == Ecn::Ce;
        self.packets += u64::from(is_marked);
        self.bytes += if is_marked { u64::from(segment.len) } else { 0 };
        let changes = has_data && std::mem::replace(&mut self.last, segment.ecn) != segment.ecn;
        changes || self.packets - self.acknowledged >= MARKS_PER_ACK
    }

    /// Returns the ACE field and the value of the option for an acknowledgement.
    pub fn write(&mut self) -> (Flags, u32) {
        self.acknowledged = self.packets;
        (flags_of((self.packets % 8) as u8), (self.bytes % (1 << OPTION_BITS)) as u32)
    }
}

/// Counters at the data sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderCounters {
    /// Number of marked packets known to the sender (`s.cep`).
    packets: u64,
    /// Number of marked payload bytes known to the sender (`s.ceb`).
    bytes: u64,
}

impl SenderCounters {
    pub fn new() -> Self {
        Self { packets: INITIAL_PACKETS, bytes: 0 }
    }

    /// Whether an acknowledgement reports new marks.
    #[inline]
    pub fn has_news(&self, segment: &Segment) -> bool {
        u64::from(value_of(segment.flags)) != self.packets % 8
            || segment.sacks.marked_bytes().is_some_and(|bytes| self.new_bytes(bytes) > 0)
    }

    /// Processes an acknowledgement that reports the delivery of `delivered` further bytes, in segments of up to `mss`
    /// bytes. Returns the number of bytes that the acknowledgement newly reports as marked.
    pub fn on_ack(&mut self, segment: &Segment, delivered: u64, mss: u64) -> u64 {
        let option = segment.sacks.marked_bytes().map(|bytes| self.new_bytes(bytes));
        let delta = u64::from(value_of(segment.flags)).wrapping_sub(self.packets) % 8;
        let packets = unwrapped(delta, delivered.div_ceil(mss), option, mss);
        self.packets += packets;
        let bytes = option.unwrap_or((packets * mss).min(delivered));
        self.bytes += bytes;
        bytes
    }

    /// Returns the difference between the option's counter and the sender's counter.
    fn new_bytes(&self, option: u32) -> u64 {
        u64::from(option).wrapping_sub(self.bytes) % (1 << OPTION_BITS)
    }
}

/// Returns the number of newly marked packets. The ACE field reports this number only modulo 8, as `delta`, and may
/// have wrapped around if acknowledgements were lost (appendix A.2; Linux: `__tcp_accecn_process`). `arrived` is the
/// number of packets whose arrival is newly reported, and `option` is the number of newly marked bytes, if the
/// acknowledgement carries the option.
fn unwrapped(delta: u64, arrived: u64, option: Option<u64>, mss: u64) -> u64 {
    if arrived <= 7 {
        return delta;
    }
    let most = arrived - (arrived - delta) % 8;
    match option {
        // The number of wrap-arounds of the field that agrees best with the number of newly marked bytes.
        Some(bytes) => {
            let turns = (bytes.div_ceil(mss).saturating_sub(delta) + 4) / 8;
            delta + 8 * turns
        }
        None => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ecn: Ecn, len: u32) -> Segment {
        Segment { ecn, len, ..Segment::default() }
    }

    /// Delivers `total` packets of 1000 bytes, some of them marked, to a receiver that acknowledges every `ratio`-th
    /// packet, with or without the option. Returns the numbers of marked packets and marked bytes that the sender
    /// infers.
    fn infer(total: u64, is_marked: impl Fn(u64) -> bool, ratio: u64, has_option: bool) -> (u64, u64) {
        let (mut receiver, mut sender) = (ReceiverCounters::new(), SenderCounters::new());
        let mut bytes = 0;
        for number in 1..=total {
            receiver.on_packet(&packet(if is_marked(number) { Ecn::Ce } else { Ecn::Ect1 }, 1000));
            if number % ratio == 0 {
                let (flags, marked) = receiver.write();
                let mut ack = Segment { flags, ..Segment::default() };
                if has_option {
                    ack.sacks.set_marked_bytes(marked);
                }
                bytes += sender.on_ack(&ack, ratio * 1000, 1000);
            }
        }
        (sender.packets - INITIAL_PACKETS, bytes)
    }

    #[test]
    fn the_sender_counts_what_the_receiver_counts_at_every_ratio_of_acknowledgements() {
        for ratio in [1, 2, 8, 32] {
            for every in [1, 2, 3, 7, 32] {
                let marked = (1..=320).filter(|number| number % every == 0).count() as u64;
                let found = infer(320, |number| number % every == 0, ratio, true);
                assert_eq!(
                    found,
                    (marked, 1000 * marked),
                    "one of {every} marked, {ratio} per acknowledgement"
                );
            }
        }
    }

    #[test]
    fn without_the_option_up_to_seven_packets_are_unambiguous_and_more_are_assumed_marked() {
        assert_eq!(infer(84, |number| number % 3 == 0, 7, false).0, 28);
        // Appendix A.2.1: the largest number of marks that the field allows.
        assert_eq!(infer(32, |number| number == 3, 32, false).0, 25);
        assert_eq!(infer(32, |_| true, 32, false).0, 32);
    }

    #[test]
    fn the_codes_of_the_handshake_are_those_of_table_2() {
        assert_eq!(value_of(ACE), 7);
        let codes = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].map(|ecn| value_of(handshake_code(ecn)));
        assert_eq!(codes, [0b010, 0b011, 0b100, 0b110]);
        for code in 0..8 {
            assert_eq!(value_of(flags_of(code)), code);
            assert_eq!(accepts(flags_of(code)), codes.contains(&code), "{code}");
        }
    }

    #[test]
    fn a_change_of_the_ecn_bits_and_every_second_mark_are_acknowledged_at_once() {
        let mut receiver = ReceiverCounters::new();
        let sequence = [Ecn::Ect1, Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ect1, Ecn::Ect1];
        let immediate = sequence.map(|ecn| {
            let immediate = receiver.on_packet(&packet(ecn, 1000));
            if immediate {
                receiver.write();
            }
            immediate
        });
        assert_eq!(immediate, [true, false, true, false, true, false]);
        let marks = [(); 4].map(|()| receiver.on_packet(&packet(Ecn::Ce, 1000)));
        assert_eq!(marks, [true, true, true, true], "unacknowledged, each of them asks again");
    }

    #[test]
    fn marked_acknowledgements_count_as_packets_and_not_as_bytes() {
        let mut receiver = ReceiverCounters::new();
        receiver.on_packet(&packet(Ecn::Ce, 0));
        let (flags, bytes) = receiver.write();
        assert_eq!((value_of(flags), bytes), (6, 0));
    }
}

//! The rules of an ACK filter. The rules determine which queued acknowledgement becomes redundant because of a newer
//! acknowledgement, and do not depend on the kind of queue.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018, and Linux 6.1's `net/sched/sch_cake.c` (`cake_ack_filter`), which the rules follow:
//! - In the newest packet, the ACK flag is set and the SYN flag is not set. The packet may carry data. At most one
//!   queued packet is dropped in favour of the newest packet.
//! - An older packet of the same connection is redundant if it is a *bare* acknowledgement, does not acknowledge more
//!   than the newest packet, and reports no SACK block that the newest packet does not cover. If both packets have the
//!   same acknowledgement number, the newest packet must also report more bytes in SACK blocks. Duplicate
//!   acknowledgements are therefore kept, because senders count duplicate acknowledgements.
//! - A packet that reports that duplicate data was received is kept (D-SACK, a SACK block below the acknowledgement
//!   number).
//! - In conservative mode, the older of two redundant packets is dropped, so that at least one of them remains queued.
//! - In aggressive mode, a single redundant packet is also dropped if it is directly in front of the newest packet in
//!   the queue and the ECN bits of these two packets are equal.
//! - A redundant packet is kept if the ECN bits (ECE, CWR) of the next packet of the same connection are different,
//!   because the sender must be informed of this change.
//!
//! aqmlab's choice: the kernel keeps an older packet whose timestamps are later than those of the newest packet.
//! Because such packets do not occur within a connection, aqmlab ignores timestamps. aqmlab also ignores TCP options
//! that its senders do not use.

use crate::Acknowledgement;

/// Returns the packet in a queue that `newest` makes redundant. `waiting` contains an entry for each queued packet
/// except the newest packet, oldest packet first. An entry consists of a handle and the packet's acknowledgement. The
/// acknowledgement is `None` if the packet does not belong to the same connection as the newest packet. If `aggressive`
/// is true, a single redundant packet may be dropped.
pub fn redundant<H>(
    waiting: impl IntoIterator<Item = (H, Option<Acknowledgement>)>,
    newest: &Acknowledgement,
    aggressive: bool,
) -> Option<H> {
    let mut candidate: Option<(H, Acknowledgement)> = None;
    let mut is_last = false;
    for (handle, acknowledgement) in waiting {
        is_last = false;
        let Some(older) = acknowledgement else { continue };
        candidate = candidate.filter(|(_, before)| ecn_bits(before) == ecn_bits(&older));
        if !covers_all(&older, newest) {
            continue;
        }
        if candidate.is_some() {
            return candidate.map(|(handle, _)| handle);
        }
        (candidate, is_last) = (Some((handle, older)), true);
    }
    let (handle, only) = candidate?;
    (aggressive && is_last && ecn_bits(&only) == ecn_bits(newest)).then_some(handle)
}

/// Returns whether `newest` makes `older` redundant. ECN bits are ignored.
fn covers_all(older: &Acknowledgement, newest: &Acknowledgement) -> bool {
    older.bare
        && older.number <= newest.number
        && match compare_sacked(older, newest) {
            Sacked::NotCovered => false,
            Sacked::NoMore => older.number < newest.number,
            Sacked::More => true,
        }
}

fn ecn_bits(acknowledgement: &Acknowledgement) -> (bool, bool) {
    (acknowledgement.ece, acknowledgement.cwr)
}

/// The result of comparing the SACK blocks of the newest packet with those of an older packet.
enum Sacked {
    /// The newest packet does not cover all blocks of the older packet.
    NotCovered,
    /// The newest packet covers all blocks of the older packet, but does not report more bytes.
    NoMore,
    /// The newest packet covers all blocks of the older packet, and reports more bytes.
    More,
}

fn compare_sacked(older: &Acknowledgement, newest: &Acknowledgement) -> Sacked {
    let [old, new] =
        [older, newest].map(|packet| packet.sacked.into_iter().take_while(|[from, to]| from < to));
    let bytes = |[from, to]: [u64; 2]| to - from;
    let covers = |[from, to]: [u64; 2]| new.clone().any(|[first, last]| first <= from && to <= last);
    if !old.clone().all(|block| block[0] >= older.number && covers(block)) {
        return Sacked::NotCovered;
    }
    if new.clone().map(bytes).sum::<u64>() > old.map(bytes).sum() { Sacked::More } else { Sacked::NoMore }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u64) -> Acknowledgement {
        Acknowledgement { bare: true, number, ..Acknowledgement::default() }
    }

    fn sack<const N: usize>(number: u64, blocks: [[u64; 2]; N]) -> Acknowledgement {
        let mut sacked = [[0; 2]; 4];
        sacked[..N].copy_from_slice(&blocks);
        Acknowledgement { sacked, ..ack(number) }
    }

    fn ece(number: u64) -> Acknowledgement {
        Acknowledgement { ece: true, ..ack(number) }
    }

    /// Returns the index of the packet in `waiting` that is dropped. All packets in `waiting` belong to the same
    /// connection.
    fn dropped(waiting: &[Acknowledgement], newest: Acknowledgement, aggressive: bool) -> Option<usize> {
        redundant(waiting.iter().map(|&one| Some(one)).enumerate(), &newest, aggressive)
    }

    #[test]
    fn the_oldest_of_two_is_dropped_and_a_single_one_only_by_an_aggressive_filter() {
        for (waiting, conservative, aggressive) in [
            (&[][..], None, None),
            (&[ack(1)], None, Some(0)),
            (&[ack(1), ack(2)], Some(0), Some(0)),
            (&[ack(1), ack(2), ack(3)], Some(0), Some(0)),
        ] {
            assert_eq!(dropped(waiting, ack(9), false), conservative, "{waiting:?}");
            assert_eq!(dropped(waiting, ack(9), true), aggressive, "{waiting:?}");
        }
    }

    #[test]
    fn a_single_one_is_dropped_if_it_is_directly_before_the_newest() {
        let newest = ack(9);
        let among = |others: &[usize]| {
            let packet = |path| (path, (!others.contains(&path)).then(|| ack(1)));
            redundant((0..others.len() + 1).map(packet), &newest, true)
        };
        assert_eq!(among(&[0, 1]), Some(2), "earlier packets of other connections do not matter");
        assert_eq!(among(&[1]), None, "a packet of another connection is between them");
        let data = Acknowledgement { bare: false, ..ack(1) };
        assert_eq!(
            dropped(&[ack(1), data], newest, true),
            None,
            "data of the same connection are between them"
        );
    }

    #[test]
    fn packets_with_data_are_kept_and_may_make_others_redundant() {
        let data = |number| Acknowledgement { bare: false, ..ack(number) };
        assert_eq!(dropped(&[data(1), data(2)], ack(9), true), None);
        assert_eq!(dropped(&[data(1), ack(1), data(2), ack(2)], data(9), false), Some(1));
    }

    #[test]
    fn duplicates_and_later_acknowledgements_are_kept() {
        assert_eq!(dropped(&[ack(5), ack(5), ack(5)], ack(5), true), None);
        assert_eq!(dropped(&[ack(6), ack(7)], ack(5), true), None);
        assert_eq!(dropped(&[ack(4), ack(5), ack(4)], ack(5), false), Some(0));
    }

    #[test]
    fn sack_blocks_must_be_covered_and_a_duplicate_must_report_more() {
        let older = sack(5, [[10, 20], [30, 40]]);
        let dropped_for = |newest| dropped(&[older], newest, true).is_some();
        assert!(dropped_for(sack(5, [[10, 20], [30, 41]])));
        assert!(dropped_for(sack(5, [[10, 40]])), "the gap is filled");
        assert!(dropped_for(sack(5, [[50, 60], [30, 40], [10, 20]])));
        assert!(dropped_for(sack(6, [[30, 40], [10, 20]])), "the same blocks, and more is acknowledged");
        assert!(!dropped_for(sack(5, [[30, 40], [10, 20]])), "a duplicate");
        assert!(!dropped_for(sack(6, [[10, 20]])));
        assert!(!dropped_for(sack(6, [[10, 19], [30, 90]])));
        assert!(!dropped_for(ack(40)), "the blocks are acknowledged but not reported");
        assert!(dropped(&[ack(5)], sack(5, [[10, 20]]), true).is_some(), "the first report of a gap");
    }

    #[test]
    fn a_report_of_duplicate_data_is_kept() {
        let twice = sack(5, [[2, 4], [10, 20]]);
        assert_eq!(dropped(&[twice, twice], sack(9, [[1, 30]]), true), None);
    }

    #[test]
    fn a_change_of_ecn_bits_is_not_lost() {
        // The last packet before the ECN bits change is kept, and a single packet after the change is also kept.
        assert_eq!(dropped(&[ack(1), ece(2)], ece(3), false), None);
        assert_eq!(dropped(&[ack(1), ece(2)], ece(3), true), Some(1));
        assert_eq!(dropped(&[ack(1), ece(2), ece(3)], ece(4), false), Some(1));
        assert_eq!(dropped(&[ack(1), ack(2), ece(3)], ece(4), false), Some(0));
        assert_eq!(dropped(&[ece(1)], ack(2), true), None);
        let cwr = Acknowledgement { cwr: true, ..ack(1) };
        assert_eq!(dropped(&[cwr, ack(2)], ack(3), false), None);
        let data = Acknowledgement { bare: false, ..ece(1) };
        assert_eq!(
            dropped(&[ack(1), data, ack(2)], ack(3), false),
            None,
            "data packets report the change, too"
        );
    }

    /// A second implementation of the rules, which checks all pairs of packets. This implementation is slow, but keeps
    /// no state while walking through the queue.
    fn by_the_statements(
        waiting: &[Acknowledgement],
        newest: &Acknowledgement,
        aggressive: bool,
    ) -> Option<usize> {
        let bytes = |one: &Acknowledgement| {
            one.sacked
                .iter()
                .flat_map(|&[from, to]| from..to.max(from))
                .collect::<std::collections::BTreeSet<_>>()
        };
        let may_go = |older: &Acknowledgement| {
            let more = bytes(newest).len() > bytes(older).len();
            older.bare
                && older.number <= newest.number
                && bytes(older).is_subset(&bytes(newest))
                && bytes(older).iter().all(|&byte| byte >= older.number)
                && (older.number < newest.number || more)
        };
        let bits = |one: &Acknowledgement| (one.ece, one.cwr);
        for (index, older) in waiting.iter().enumerate().filter(|(_, older)| may_go(older)) {
            let behind = &waiting[index + 1..];
            let until_second = behind.iter().position(may_go).map_or(behind, |second| &behind[..=second]);
            let no_change = until_second.iter().all(|next| bits(next) == bits(older));
            if no_change && until_second.last().is_some_and(&may_go) {
                return Some(index);
            }
            if behind.is_empty() && aggressive && bits(older) == bits(newest) {
                return Some(index);
            }
        }
        None
    }

    #[test]
    fn the_rules_equal_the_statements_on_a_hundred_thousand_queues() {
        let mut rng = aqm_net::Streams::new(1).named("ack filter", 0);
        let mut gone = 0;
        for _ in 0..100_000 {
            let mut some = |bare_of_ten: u64| {
                let number = rng.below(4);
                let block = |from| [from, from + 1];
                let blocks = [[4, 6], block(5), block(7), [4, 8]];
                let sacked = if rng.below(2) == 0 {
                    [[0; 2]; 4]
                } else {
                    [blocks[rng.below(4) as usize], [0; 2], [0; 2], [0; 2]]
                };
                let ece = rng.below(4) == 0;
                Acknowledgement { bare: rng.below(10) < bare_of_ten, number, sacked, ece, cwr: false }
            };
            let waiting = [some(8), some(8), some(8), some(8)];
            let newest = Acknowledgement { number: 3, ..some(5) };
            let waiting = &waiting[..rng.below(5) as usize];
            for aggressive in [false, true] {
                let expected = by_the_statements(waiting, &newest, aggressive);
                assert_eq!(dropped(waiting, newest, aggressive), expected, "{waiting:#?} {newest:#?}");
                gone += u32::from(expected.is_some());
            }
        }
        assert!(gone > 20_000, "{gone}");
    }
}

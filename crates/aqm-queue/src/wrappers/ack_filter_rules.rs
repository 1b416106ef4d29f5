//! The rules of an ACK filter, without a queue: which acknowledgement that waits a newer one makes redundant.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018, and Linux 6.1's `net/sched/sch_cake.c` (`cake_ack_filter`), which
//! the rules follow:
//! - The newest packet acknowledges and does not open a connection; it may carry data. At most one packet goes for it.
//! - An older packet of the same connection may go if it is a *bare* acknowledgement, acknowledges no more than the
//!   newest, and all that it reports by SACK the newest reports, too. If both acknowledge the same, the newest must
//!   report more by SACK: duplicate acknowledgements stay, for senders count them.
//! - A packet that reports data that came twice (D-SACK: a block below its number) stays.
//! - Conservative: the oldest of two that may go goes, so at least one that waits is left.
//! - Aggressive: so does the only one, if it waits right before the newest and their bits of ECN are the same.
//! - One that may go stays if the next of its connection has other bits of ECN (ECE, CWR): the change is news.
//!
//! Ours: the kernel keeps an older packet whose timestamps are later than those of the newest. They never are within a
//! connection, so they are not looked at; neither are options that no sender here uses.

use crate::Acknowledgement;

/// Which of the packets that wait in one queue the `newest` makes redundant. They are shown as the queue holds them,
/// the oldest first, without the newest: something to find each by, and what it acknowledges if it is of the
/// connection of the newest (`None` for any other packet). `aggressive` says whether the only one that waits may go.
pub fn redundant<H>(
    waiting: impl IntoIterator<Item = (H, Option<Acknowledgement>)>,
    newest: &Acknowledgement,
    aggressive: bool,
) -> Option<H> {
    let mut found: Option<(H, Acknowledgement)> = None;
    let mut is_last = false;
    for (handle, acknowledgement) in waiting {
        is_last = false;
        let Some(older) = acknowledgement else { continue };
        found = found.filter(|(_, before)| ecn_bits(before) == ecn_bits(&older));
        if !newest_says_it_all(&older, newest) {
            continue;
        }
        if found.is_some() {
            return found.map(|(handle, _)| handle);
        }
        (found, is_last) = (Some((handle, older)), true);
    }
    let (handle, only) = found?;
    (aggressive && is_last && ecn_bits(&only) == ecn_bits(newest)).then_some(handle)
}

/// Whether `older` may go for all that `newest` says, ECN aside.
fn newest_says_it_all(older: &Acknowledgement, newest: &Acknowledgement) -> bool {
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

/// What the newest reports by SACK beside what an older packet does.
enum Sacked {
    /// Not all of it.
    NotCovered,
    /// All of it and no more bytes.
    NoMore,
    /// All of it and more bytes.
    More,
}

fn compare_sacked(older: &Acknowledgement, newest: &Acknowledgement) -> Sacked {
    let [old, new] = [older, newest].map(|one| one.sacked.into_iter().take_while(|[from, to]| from < to));
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

    /// The place of the one that goes among `waiting`, all of one connection.
    fn goes(waiting: &[Acknowledgement], newest: Acknowledgement, aggressive: bool) -> Option<usize> {
        redundant(waiting.iter().map(|&one| Some(one)).enumerate(), &newest, aggressive)
    }

    #[test]
    fn the_oldest_of_two_goes_and_one_alone_only_if_the_filter_is_aggressive() {
        for (waiting, conservative, aggressive) in [
            (&[][..], None, None),
            (&[ack(1)], None, Some(0)),
            (&[ack(1), ack(2)], Some(0), Some(0)),
            (&[ack(1), ack(2), ack(3)], Some(0), Some(0)),
        ] {
            assert_eq!(goes(waiting, ack(9), false), conservative, "{waiting:?}");
            assert_eq!(goes(waiting, ack(9), true), aggressive, "{waiting:?}");
        }
    }

    #[test]
    fn the_only_one_goes_if_nothing_stands_between_it_and_the_newest() {
        let newest = ack(9);
        let among = |others: &[usize]| {
            let packet = |place| (place, (!others.contains(&place)).then(|| ack(1)));
            redundant((0..others.len() + 1).map(packet), &newest, true)
        };
        assert_eq!(among(&[0, 1]), Some(2), "packets of other connections before it do not matter");
        assert_eq!(among(&[1]), None, "one of another connection stands between");
        let data = Acknowledgement { bare: false, ..ack(1) };
        assert_eq!(goes(&[ack(1), data], newest, true), None, "data of the connection itself stand between");
    }

    #[test]
    fn packets_with_data_stay_and_may_make_others_needless() {
        let data = |number| Acknowledgement { bare: false, ..ack(number) };
        assert_eq!(goes(&[data(1), data(2)], ack(9), true), None);
        assert_eq!(goes(&[data(1), ack(1), data(2), ack(2)], data(9), false), Some(1));
    }

    #[test]
    fn duplicates_and_later_acknowledgements_stay() {
        assert_eq!(goes(&[ack(5), ack(5), ack(5)], ack(5), true), None);
        assert_eq!(goes(&[ack(6), ack(7)], ack(5), true), None);
        assert_eq!(goes(&[ack(4), ack(5), ack(4)], ack(5), false), Some(0));
    }

    #[test]
    fn what_is_reported_by_sack_is_reported_again_and_a_duplicate_must_report_more() {
        let older = sack(5, [[10, 20], [30, 40]]);
        let goes_for = |newest| goes(&[older], newest, true).is_some();
        assert!(goes_for(sack(5, [[10, 20], [30, 41]])));
        assert!(goes_for(sack(5, [[10, 40]])), "the hole is filled");
        assert!(goes_for(sack(5, [[50, 60], [30, 40], [10, 20]])));
        assert!(goes_for(sack(6, [[30, 40], [10, 20]])), "the same, and more is acknowledged");
        assert!(!goes_for(sack(5, [[30, 40], [10, 20]])), "a duplicate");
        assert!(!goes_for(sack(6, [[10, 20]])));
        assert!(!goes_for(sack(6, [[10, 19], [30, 90]])));
        assert!(!goes_for(ack(40)), "it acknowledges the blocks but does not report them");
        assert!(goes(&[ack(5)], sack(5, [[10, 20]]), true).is_some(), "the first report of a hole");
    }

    #[test]
    fn a_report_of_data_that_came_twice_stays() {
        let twice = sack(5, [[2, 4], [10, 20]]);
        assert_eq!(goes(&[twice, twice], sack(9, [[1, 30]]), true), None);
    }

    #[test]
    fn a_change_of_ecn_bits_is_not_lost() {
        // The last before the change stays, and with it all that follow alone.
        assert_eq!(goes(&[ack(1), ece(2)], ece(3), false), None);
        assert_eq!(goes(&[ack(1), ece(2)], ece(3), true), Some(1));
        assert_eq!(goes(&[ack(1), ece(2), ece(3)], ece(4), false), Some(1));
        assert_eq!(goes(&[ack(1), ack(2), ece(3)], ece(4), false), Some(0));
        assert_eq!(goes(&[ece(1)], ack(2), true), None);
        let cwr = Acknowledgement { cwr: true, ..ack(1) };
        assert_eq!(goes(&[cwr, ack(2)], ack(3), false), None);
        let data = Acknowledgement { bare: false, ..ece(1) };
        assert_eq!(goes(&[ack(1), data, ack(2)], ack(3), false), None, "data tell of it, too");
    }

    /// The rules once more, as sentences about all pairs: slow, and without a state that moves along the queue.
    fn by_the_sentences(
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
        for (place, older) in waiting.iter().enumerate().filter(|(_, older)| may_go(older)) {
            let behind = &waiting[place + 1..];
            let until_second = behind.iter().position(may_go).map_or(behind, |second| &behind[..=second]);
            let no_change = until_second.iter().all(|next| bits(next) == bits(older));
            if no_change && until_second.last().is_some_and(&may_go) {
                return Some(place);
            }
            if behind.is_empty() && aggressive && bits(older) == bits(newest) {
                return Some(place);
            }
        }
        None
    }

    #[test]
    fn the_rules_are_the_sentences_on_a_hundred_thousand_queues() {
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
                let expected = by_the_sentences(waiting, &newest, aggressive);
                assert_eq!(goes(waiting, newest, aggressive), expected, "{waiting:#?} {newest:#?}");
                gone += u32::from(expected.is_some());
            }
        }
        assert!(gone > 20_000, "{gone}");
    }
}

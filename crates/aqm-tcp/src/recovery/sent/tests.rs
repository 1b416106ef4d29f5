//! Checks that the incremental sums are equal to sums that are recomputed from all segments.

use super::*;

impl Sent {
    /// Returns the stamps of all transmissions that may still be in the network.
    pub fn in_flight(&self) -> impl Iterator<Item = Stamp> {
        let is_in_network =
            |segment: &&Segment| !segment.is(SACKED) && (!segment.is(LOST) || segment.is(RESENT));
        self.segments.iter().filter(is_in_network).map(|segment| segment.stamp)
    }

    /// Recomputes all sums and compares the results with the incremental sums.
    pub fn check(&self) {
        let sum = |bits: u8| -> u64 {
            self.segments.iter().filter(|segment| segment.is(bits)).map(|segment| segment.len()).sum()
        };
        let count = |bits: u8| self.segments.iter().filter(|segment| segment.is(bits)).count() as u64;
        assert_eq!(self.sacked, Amount { segments: count(SACKED), bytes: sum(SACKED) });
        assert_eq!((self.lost, self.resent_bytes), (sum(LOST), sum(RESENT)));
        assert_eq!(self.repeated, count(EVER_RESENT));
        let mut end = self.una;
        let mut in_network = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            assert_eq!(segment.seq, end, "no gaps");
            end = segment.end();
            assert!(!segment.is(SACKED) || !segment.is(LOST | RESENT));
            assert!(!segment.is(RESENT) || segment.is(EVER_RESENT));
            if segment.is(SACKED) {
                assert!(segment.run > 0);
                let skipped = self.segments.range(at..at + segment.run as usize);
                assert!(skipped.into_iter().all(|segment| segment.is(SACKED)));
            }
            // Steps (a) and (b) of `SetPipe`.
            if !segment.is(SACKED) {
                in_network += segment.len() * (u64::from(!segment.is(LOST)) + u64::from(segment.is(RESENT)));
            }
        }
        assert_eq!((end, self.pipe()), (self.end, in_network));
        let beyond = (self.first..).zip(&self.segments).filter(|(number, _)| *number >= self.edge);
        assert_eq!(self.beyond, beyond.filter(|(_, segment)| segment.is(SACKED)).count() as u64);
        let due =
            (self.first..).zip(&self.segments).find(|(_, segment)| segment.state & !EVER_RESENT == LOST);
        assert_eq!(self.due(), due.map(|(number, _)| number));
    }
}

const MSS: u64 = 100;

fn filled(segments: u64) -> Sent {
    let mut sent = Sent::new(MSS);
    (0..segments).for_each(|at| sent.send(MSS, Instant::from_nanos(at)));
    sent
}

fn sack(sent: &mut Sent, from: u64, to: u64) -> u64 {
    let mut arrival = Arrival::new(None);
    sent.sack((from * MSS, to * MSS), from * MSS, &mut arrival);
    sent.check();
    arrival.bytes / MSS
}

/// Returns whether each segment is lost.
fn lost(sent: &Sent) -> Vec<bool> {
    sent.segments.iter().map(|segment| segment.is(LOST)).collect()
}

#[test]
fn each_segment_arrives_once_even_if_reported_repeatedly() {
    let mut sent = filled(20);
    assert_eq!(
        [(3, 6), (9, 12), (3, 6), (2, 13), (2, 13)].map(|(from, to)| sack(&mut sent, from, to)),
        [3, 3, 0, 5, 0]
    );
    let mut arrival = Arrival::new(None);
    sent.acknowledge(20 * MSS, &mut arrival);
    sent.check();
    assert_eq!(arrival.bytes, 9 * MSS);
    assert_eq!(sent.len(), 0);
}

#[test]
fn losses_agree_with_counting_segment_by_segment() {
    for dupthresh in 1..5 {
        let mut state: u64 = 1;
        let mut sent = filled(60);
        for _ in 0..80 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let from = sent.una / MSS + 1 + (state >> 33) % 50;
            sack(&mut sent, from, from + 1 + (state >> 60) % 3);
            if state >> 61 == 0 {
                let ack = sent.una + MSS;
                sent.acknowledge(ack, &mut Arrival::new(None));
                sent.send(MSS, Instant::START);
            }
            sent.lose_uncovered(dupthresh);
            sent.check();
            let naive: Vec<bool> = (0..sent.len())
                .map(|at| {
                    let beyond = sent.segments.range(at..).filter(|segment| segment.is(SACKED)).count();
                    !sent.segments[at].is(SACKED) && beyond >= dupthresh as usize
                })
                .collect();
            assert_eq!(lost(&sent), naive);
        }
        assert!(lost(&sent).contains(&true));
    }
}

#[test]
fn the_number_of_a_fin_does_not_make_three_segments_of_two() {
    let mut sent = filled(2);
    sent.send(MSS + 1, Instant::START);
    sent.sack((MSS, 3 * MSS + 1), MSS, &mut Arrival::new(None));
    sent.lose_uncovered(3);
    assert_eq!(lost(&sent), [false; 3]);
    sent.lose_uncovered(2);
    assert_eq!(lost(&sent), [true, false, false]);
}

#[test]
fn a_block_reported_repeatedly_costs_one_step() {
    let mut sent = filled(10_000);
    for to in 2..10_000 {
        sack_only(&mut sent, 1, to);
    }
    assert!(sent.skip(1) == 9999 && sent.segments[1].run == 9998, "one step skips all");
}

fn sack_only(sent: &mut Sent, from: u64, to: u64) {
    sent.sack((from * MSS, to * MSS), from * MSS, &mut Arrival::new(None));
}

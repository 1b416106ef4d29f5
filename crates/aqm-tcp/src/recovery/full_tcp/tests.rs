//! Tests of FullTcp's recovery with SACK, with events that the tests generate one by one. In addition,
//! `reference/micro.py` compares the recovery with ns-2, segment by segment.

use aqm_net::{Instant, Size};

use super::*;
use crate::segment::Sacks;
use crate::testing::timer_context;

const WINDOW: u64 = 10;

/// A recovery with one-byte segments, and the window of the recovery.
struct Bench {
    recovery: FullTcp,
    config: Config,
    congestion: u64,
}

impl Bench {
    /// Creates a test bench that has sent a full window of ten segments.
    fn filled() -> Self {
        let mut config = Config::default();
        config.connection.mss = Size::from_bytes(1);
        let mut bench = Self { recovery: FullTcp::default(), config, congestion: WINDOW };
        assert_eq!(bench.send(), (0..WINDOW).collect::<Vec<u64>>());
        bench
    }

    fn receive(&mut self, ack: u64, ranges: &[(u64, u64)]) -> AckKind {
        let mut sacks = Sacks::default();
        ranges.iter().for_each(|&(from, to)| sacks.push(ack, from, to));
        let received = ReceivedAck { ack, sacks: &sacks, bare: true, echo: Instant::START };
        self.recovery.on_ack(&received, timer_context(Instant::START), &self.config).kind
    }

    /// Sends all permitted segments. Returns the segment numbers.
    fn send(&mut self) -> Vec<u64> {
        self.recovery
            .set_windows(Windows { congestion: self.congestion, receiver: 100, mss: 1 }, &self.config);
        let stream = Stream { end: 1000, fin: false, mss: 1 };
        let sent = |recovery: &mut FullTcp| recovery.next(stream, timer_context(Instant::START));
        std::iter::from_fn(|| sent(&mut self.recovery)).map(|sending| sending.seq).collect()
    }

    fn time_out(&mut self) {
        self.recovery.on_timeout(timer_context(Instant::START), &self.config);
        self.congestion = 1;
    }

    /// Creates a test bench in which segments 0, 2 and 3 of ten segments are lost and the third duplicate
    /// acknowledgement has arrived.
    fn with_losses() -> Self {
        let mut bench = Self::filled();
        assert_eq!(bench.receive(0, &[(1, 2)]), AckKind::Duplicate);
        assert_eq!(bench.send(), [0; 0], "no limited transmit");
        assert_eq!(bench.receive(0, &[(4, 5), (1, 2)]), AckKind::Duplicate);
        assert_eq!(bench.receive(0, &[(4, 6), (1, 2)]), AckKind::Loss);
        bench.congestion = WINDOW / 2;
        bench
    }
}

#[test]
fn pipe_begins_with_the_data_not_sacked_and_holes_are_sent_first_and_once() {
    let mut bench = Bench::with_losses();
    assert_eq!(bench.recovery.pipe, 7, "ten sent, three SACKed");
    assert_eq!(bench.send(), [0]);
    assert_eq!(bench.recovery.pipe, 7, "the first retransmission is not counted");
    let mut sent = Vec::new();
    for end in 7..=10 {
        bench.receive(0, &[(4, end), (1, 2)]);
        sent.push(bench.send());
    }
    let none: Vec<u64> = vec![];
    assert_eq!(
        sent,
        [none.clone(), none, vec![2], vec![3]],
        "below 5 each acknowledgement releases a segment"
    );
    assert_eq!(bench.receive(2, &[(4, 10)]), AckKind::Partial);
    assert_eq!(bench.send(), [10, 11], "a partial acknowledgement removes two from the pipe");
    assert_eq!(bench.receive(10, &[]), AckKind::Exit);
    assert_eq!(bench.send(), [12, 13, 14], "the window of 5 from 10 on");
}

#[test]
fn duplicates_need_no_new_sack() {
    let mut bench = Bench::filled();
    assert_eq!(
        [(); 3].map(|()| bench.receive(0, &[])),
        [AckKind::Duplicate, AckKind::Duplicate, AckKind::Loss]
    );
}

#[test]
fn duplicates_of_the_last_byte_of_a_recovery_start_no_recovery_and_later_ones_do() {
    let mut bench = Bench::with_losses();
    bench.send();
    assert_eq!(bench.receive(10, &[]), AckKind::Exit);
    bench.send();
    assert_eq!([(); 3].map(|()| bench.receive(10, &[])), [AckKind::Duplicate; 3]);
    assert_eq!(bench.send(), [0; 0]);
    assert_eq!(bench.receive(11, &[]), AckKind::Exit, "as after a recovery");
    bench.send();
    assert_eq!([(); 3].map(|()| bench.receive(11, &[]))[2], AckKind::Loss);
}

#[test]
fn a_timeout_in_recovery_always_sends_one_segment_and_keeps_the_pipe() {
    let mut bench = Bench::with_losses();
    bench.send();
    bench.time_out();
    assert_eq!(bench.send(), [0], "although pipe is 7 and the window 1");
    assert_eq!(bench.recovery.pipe, 8);
    assert_eq!(bench.receive(2, &[]), AckKind::Advance, "acknowledgements no longer reduce the pipe");
    assert_eq!((bench.recovery.pipe, bench.send()), (8, vec![2]), "but the window limits again");
}

#[test]
fn three_duplicates_after_a_timeout_send_nothing_and_stop_growth() {
    let mut bench = Bench::filled();
    bench.time_out();
    assert_eq!(bench.send(), [0]);
    assert_eq!([(); 3].map(|()| bench.receive(0, &[(2, 3)])), [AckKind::Duplicate; 3]);
    bench.congestion = 4;
    assert_eq!(bench.send(), [0; 0], "regardless of the window");
    assert_eq!(bench.receive(1, &[(2, 3)]), AckKind::Partial);
    assert_eq!(bench.receive(10, &[]), AckKind::Exit);
}

#[test]
fn after_a_mark_holes_are_filled_at_once_and_a_loss_keeps_the_window() {
    let mut bench = Bench::with_losses();
    bench.send();
    bench.congestion = WINDOW;
    assert_eq!(bench.receive(8, &[]), AckKind::Partial);
    assert!(bench.send().contains(&11), "so that holes are searched below the next segment in sequence");
    assert_eq!(bench.receive(10, &[]), AckKind::Exit);
    bench.send();
    bench.recovery.on_mark(0, false);
    bench.congestion = WINDOW / 2;
    assert_eq!(bench.receive(10, &[(12, 13)]), AckKind::Duplicate);
    assert_eq!(bench.send(), [10, 11], "with the first duplicate");
    bench.receive(10, &[(12, 14)]);
    assert_eq!(bench.receive(10, &[(12, 15)]), AckKind::LossAfterMark);
    assert_eq!(bench.send(), [10], "a retransmission");
    assert!(bench.recovery.controls_pipe && bench.recovery.recover == 20);
}

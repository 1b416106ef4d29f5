//! Tests of the recovery with a counted pipe, with events that the tests generate one by one.

use aqm_net::{Instant, Size};

use super::*;
use crate::config::CheckedConfig;
use crate::rtt::Estimator;
use crate::segment::Sacks;

const WINDOW: u64 = 10;

/// A recovery with one-byte segments, and the configuration and the window of the recovery.
struct Bench {
    recovery: CountedPipe,
    tcp: CheckedConfig,
    estimator: Estimator,
    congestion: u64,
}

impl Bench {
    /// Creates a test bench that has sent a full window of segments. Limited transmit may send two more segments.
    fn filled(congestion: u64) -> Self {
        let mut config = Config::default();
        config.connection.mss = Size::from_bytes(1);
        let tcp = config.build().unwrap();
        let estimator = Estimator::new(&tcp.config.rto);
        let mut bench = Self { recovery: CountedPipe::default(), tcp, estimator, congestion };
        assert_eq!(bench.send(), (0..congestion).collect::<Vec<u64>>());
        bench
    }

    fn receive(&mut self, ack: u64, ranges: &[(u64, u64)]) -> AckKind {
        let mut sacks = Sacks::default();
        ranges.iter().for_each(|&(from, to)| sacks.push(ack, from, to));
        let at =
            TimerContext { now: Instant::START, estimator: &self.estimator, config: &self.tcp.config.rto };
        self.recovery
            .on_ack(
                &ReceivedAck { ack, sacks: &sacks, bare: true, echo: Instant::START },
                at,
                &self.tcp.config,
            )
            .kind
    }

    /// Sends all permitted segments. Returns the segment numbers.
    fn send(&mut self) -> Vec<u64> {
        let windows = Windows { congestion: self.congestion, receiver: 100, mss: 1 };
        self.recovery.set_windows(windows, &self.tcp.config);
        let at =
            TimerContext { now: Instant::START, estimator: &self.estimator, config: &self.tcp.config.rto };
        let (recovery, endless) = (&mut self.recovery, Stream { end: 1000, fin: false, mss: 1 });
        std::iter::from_fn(|| recovery.next(endless, at)).map(|sending| sending.seq).collect()
    }

    /// Creates a test bench in which segments 0, 2 and 3 of a window of ten segments are lost and the third duplicate
    /// acknowledgement has arrived.
    fn with_losses() -> Self {
        let mut bench = Self::filled(WINDOW);
        assert_eq!(bench.receive(0, &[(1, 2)]), AckKind::Duplicate);
        assert_eq!(bench.send(), [10]);
        assert_eq!(bench.receive(0, &[(4, 5), (1, 2)]), AckKind::Duplicate);
        assert_eq!(bench.send(), [11]);
        assert_eq!(bench.receive(0, &[(4, 6), (1, 2)]), AckKind::Loss);
        bench.congestion = WINDOW / 2;
        bench
    }
}

#[test]
fn only_blocks_with_new_data_make_a_duplicate() {
    let mut bench = Bench::filled(WINDOW);
    assert_eq!(bench.receive(0, &[]), AckKind::Stale);
    assert_eq!(bench.receive(0, &[(3, 5)]), AckKind::Duplicate);
    for known in [(3, 5), (4, 5), (3, 4), (20, 30), (0, 2)] {
        assert_eq!(bench.receive(0, &[known]), AckKind::Stale, "{known:?}");
    }
    assert_eq!(bench.receive(0, &[(2, 4)]), AckKind::Duplicate);
    assert_eq!(bench.recovery.dupacks(), 2);
}

#[test]
fn holes_are_sent_first_and_once_as_the_pipe_empties() {
    let mut bench = Bench::with_losses();
    assert_eq!(bench.send(), [0], "12 sent, 3 have left: 9 in the network");
    let mut sent = Vec::new();
    for end in 7..=12 {
        bench.receive(0, &[(4, end), (1, 2)]);
        sent.push(bench.send());
    }
    // `pipe` falls from 9. While `pipe` is below 5, each acknowledgement permits the transmission of one segment.
    let none: Vec<u64> = vec![];
    assert_eq!(sent, [none.clone(), none.clone(), none.clone(), none, vec![2], vec![3]]);
    assert_eq!(bench.receive(2, &[(4, 12)]), AckKind::Partial);
    assert_eq!(bench.send(), [12, 13], "a partial acknowledgement removes two from the pipe");
    assert_eq!(bench.receive(3, &[(4, 12)]), AckKind::Partial);
    assert_eq!(bench.send(), [14, 15]);
    assert_eq!(bench.receive(12, &[]), AckKind::Exit);
    assert_eq!(bench.send(), [16], "the window of 5 from 12 on");
}

#[test]
fn the_end_of_a_recovery_permits_the_next_and_a_timeout_does_not() {
    let mut bench = Bench::with_losses();
    bench.send();
    assert_eq!(bench.receive(12, &[]), AckKind::Exit);
    assert_eq!(bench.send(), [12, 13, 14, 15, 16]);
    let seen: Vec<AckKind> = (14..17).map(|end| bench.receive(12, &[(13, end)])).collect();
    assert_eq!(seen, [AckKind::Duplicate, AckKind::Duplicate, AckKind::Loss]);

    let at = TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
    bench.recovery.on_timeout(at, &bench.tcp.config);
    bench.congestion = 1;
    assert_eq!(bench.send(), [12]);
    assert_eq!(bench.receive(12, &[(13, 17)]), AckKind::Stale, "duplicates are ignored");
    assert_eq!(bench.receive(13, &[(14, 17)]), AckKind::Advance);
    bench.send();
    let seen: Vec<AckKind> = (15..18).map(|end| bench.receive(13, &[(14, end)])).collect();
    assert_eq!(seen, [AckKind::Duplicate; 3], "all these segments were sent before the timeout");
}

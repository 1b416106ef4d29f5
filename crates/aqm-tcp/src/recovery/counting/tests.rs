//! Tests of the recovery without SACK, with events that the tests generate one by one.

use aqm_net::{Instant, Size};

use super::*;
use crate::config::CheckedConfig;
use crate::rtt::Estimator;
use crate::segment::Sacks;

const WINDOWS: Windows = Windows { congestion: 10, receiver: 100, mss: 1 };
const ONE: Windows = Windows { congestion: 1, ..WINDOWS };
const ENDLESS: Stream = Stream { end: u64::MAX / 2, fin: false, mss: 1 };

/// A recovery with one-byte segments, and the configuration of the recovery.
struct Bench {
    recovery: Counting,
    tcp: CheckedConfig,
    estimator: Estimator,
}

impl Bench {
    fn new(config: Config) -> Self {
        let tcp = with(config, |config| config.connection.mss = Size::from_bytes(1)).build().unwrap();
        let estimator = Estimator::new(&tcp.config.rto);
        Self { recovery: Counting::default(), tcp, estimator }
    }

    /// Creates a test bench that has sent a full window of ten segments.
    fn filled(config: Config) -> Self {
        let mut bench = Self::new(config);
        assert_eq!(bench.send(WINDOWS), (0..10).collect::<Vec<u64>>());
        bench
    }

    fn receive(&mut self, ack: u64, bare: bool) -> AckOutcome {
        let at =
            TimerContext { now: Instant::START, estimator: &self.estimator, config: &self.tcp.config.rto };
        self.recovery.on_ack(
            &ReceivedAck { ack, sacks: &Sacks::default(), bare, echo: Instant::START },
            at,
            &self.tcp.config,
        )
    }

    fn ack(&mut self, ack: u64) -> AckKind {
        self.receive(ack, true).kind
    }

    fn duplicates(&mut self, count: usize) -> Vec<AckKind> {
        (0..count).map(|_| self.ack(self.recovery.una())).collect()
    }

    /// Sends all permitted segments. Returns the segment numbers.
    fn send(&mut self, windows: Windows) -> Vec<u64> {
        self.recovery.set_windows(windows, &self.tcp.config);
        let at =
            TimerContext { now: Instant::START, estimator: &self.estimator, config: &self.tcp.config.rto };
        let recovery = &mut self.recovery;
        std::iter::from_fn(|| recovery.next(ENDLESS, at)).map(|sending| sending.seq).collect()
    }

    fn time_out(&mut self) {
        let at =
            TimerContext { now: Instant::START, estimator: &self.estimator, config: &self.tcp.config.rto };
        self.recovery.on_timeout(at, &self.tcp.config);
    }
}

fn with(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

fn config(kind: RecoveryKind) -> Config {
    with(Config::default(), |config| config.recovery.kind = kind)
}

#[test]
fn acknowledgements_of_the_past_and_of_the_unsent_are_stale() {
    let mut bench = Bench::filled(Config::default());
    assert_eq!(bench.receive(11, true), AckOutcome::NONE);
    assert_eq!(
        bench.receive(10, true),
        AckOutcome { acked: 10, delivered: 10, kind: AckKind::Advance, ..AckOutcome::NONE }
    );
    assert_eq!(bench.receive(9, true), AckOutcome::NONE);
    assert_eq!(bench.receive(10, true), AckOutcome::NONE, "nothing is outstanding");
}

#[test]
fn a_segment_with_data_is_not_a_duplicate() {
    let mut bench = Bench::filled(Config::default());
    for _ in 0..5 {
        assert_eq!(bench.receive(0, false), AckOutcome::NONE);
    }
    assert_eq!(bench.recovery.dupacks(), 0);
}

#[test]
fn only_the_duplicate_at_the_threshold_shows_a_loss() {
    for recovery in [RecoveryKind::Tahoe, RecoveryKind::Reno, RecoveryKind::NewReno] {
        for guard in [FastRetransmitGuard::None, FastRetransmitGuard::Recover] {
            let config = with(config(recovery), |config| config.recovery.fast_retransmit_guard = guard);
            let outcome = Bench::filled(config).duplicates(9);
            assert_eq!(outcome[2], AckKind::Loss);
            assert_eq!(outcome.iter().filter(|&&kind| kind == AckKind::Loss).count(), 1);
        }
    }
}

#[test]
fn the_guard_decides_whether_duplicates_after_a_timeout_show_a_loss() {
    use FastRetransmitGuard::{AfterTimeout, None, Recover, RecoverOrFirst};
    for (guard, at_first, later) in [
        (None, true, true),
        (Recover, false, false),
        (RecoverOrFirst, true, false),
        (AfterTimeout, false, false),
    ] {
        for (una, expected) in [(0, at_first), (5, later)] {
            let config = with(Config::default(), |config| config.recovery.fast_retransmit_guard = guard);
            let mut bench = Bench::filled(config);
            bench.ack(una);
            bench.time_out();
            bench.send(WINDOWS);
            let lost = bench.duplicates(4).contains(&AckKind::Loss);
            assert_eq!(lost, expected, "{guard:?} with {una} acknowledged");
        }
    }
}

#[test]
fn the_guard_decides_whether_a_recovery_may_follow_another_of_the_same_window() {
    use FastRetransmitGuard::{AfterTimeout, None, Recover, RecoverOrFirst};
    for (guard, expected) in [(None, true), (Recover, false), (RecoverOrFirst, false), (AfterTimeout, true)] {
        let mut bench =
            Bench::filled(with(Config::default(), |config| config.recovery.fast_retransmit_guard = guard));
        bench.duplicates(4);
        assert_eq!(bench.ack(5), AckKind::Exit);
        assert_eq!(bench.duplicates(3).contains(&AckKind::Loss), expected, "{guard:?}");
    }
}

#[test]
fn limited_transmit_sends_one_segment_a_duplicate() {
    for (limited_transmit, fresh, after_timeout) in [
        (LimitedTransmit::Off, vec![], vec![]),
        (LimitedTransmit::New, vec![10], vec![]),
        (LimitedTransmit::Next, vec![10], vec![1]),
    ] {
        let mut bench = Bench::filled(with(Config::default(), |config| {
            config.recovery.limited_transmit = limited_transmit
        }));
        bench.duplicates(1);
        assert_eq!(bench.recovery.is_urgent(&bench.tcp.config), !fresh.is_empty());
        assert_eq!(bench.send(WINDOWS), fresh);
        assert_eq!(bench.send(WINDOWS), [0u64; 0], "no further segment on a second call");
        assert_eq!(bench.recovery.flight(), 10, "limited transmit is not part of the flight size");
        bench.time_out();
        assert_eq!(bench.send(ONE), [0]);
        bench.duplicates(1);
        assert_eq!(bench.send(ONE), after_timeout);
    }
}

#[test]
fn a_timeout_cancels_an_unsent_retransmission() {
    let mut bench = Bench::filled(Config::default());
    bench.duplicates(3);
    bench.time_out();
    assert_eq!(bench.send(ONE), [0]);
}

#[test]
fn reno_ends_fast_recovery_with_the_next_new_acknowledgement() {
    let mut bench = Bench::filled(config(RecoveryKind::Reno));
    bench.duplicates(3);
    assert_eq!(bench.send(Windows { congestion: 5, ..WINDOWS }), [0]);
    bench.duplicates(4);
    let half = Windows { congestion: 5, ..WINDOWS };
    assert_eq!(bench.send(half), [10, 11], "the window of 5 is inflated by 7");
    assert_eq!((bench.ack(4), bench.recovery.dupacks()), (AckKind::Exit, 0));
    assert_eq!(bench.send(half), [0u64; 0], "from 4 on 8 are outstanding");
}

#[test]
fn duplicates_open_the_window_itself_with_in_window_inflation_also_after_a_timeout() {
    let tcp = with(config(RecoveryKind::Reno), |config| config.recovery.inflation = Inflation::InWindow);
    let mut bench = Bench::filled(tcp);
    assert_eq!(bench.duplicates(3)[2], AckKind::Loss);
    assert_eq!(bench.send(Windows { congestion: 9, ..WINDOWS }), [0], "only the missing segment");
    bench.duplicates(1);
    assert_eq!(bench.send(Windows { congestion: 9, ..WINDOWS }), [10, 11, 12]);
    assert_eq!((bench.recovery.inflation(), bench.ack(4)), (4.0, AckKind::Exit));
    bench.time_out();
    assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (0.0, vec![4]));
    bench.duplicates(3);
    assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (0.0, vec![]), "the guard prevents a recovery");
    bench.duplicates(2);
    assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (2.0, vec![5, 6]));
    assert_eq!((bench.ack(7), bench.recovery.inflation()), (AckKind::Opened, 2.0));
    assert_eq!(bench.send(ONE), [7], "the rest of the inflation is part of the window");
    bench.duplicates(1);
    assert_eq!((bench.recovery.inflation(), bench.ack(8)), (0.0, AckKind::Advance));
}

#[test]
fn tahoe_starts_again_from_the_hole() {
    let mut bench = Bench::filled(config(RecoveryKind::Tahoe));
    bench.ack(2);
    bench.duplicates(3);
    assert!(!bench.recovery.is_urgent(&bench.tcp.config), "the window of one permits it");
    assert_eq!(bench.send(ONE), [2]);
    assert_eq!(bench.duplicates(5), [AckKind::Duplicate; 5]);
    assert_eq!(bench.send(ONE), [0u64; 0], "further duplicates do not inflate the window");
    assert_eq!(bench.ack(5), AckKind::Advance);
    assert_eq!(bench.send(Windows { congestion: 2, ..WINDOWS }), [5, 6]);
}

#[test]
fn newreno_repairs_a_hole_with_every_partial_acknowledgement() {
    let mut bench = Bench::filled(config(RecoveryKind::NewReno));
    bench.duplicates(3);
    let half = Windows { congestion: 5, ..WINDOWS };
    assert_eq!(bench.send(half), [0]);
    bench.duplicates(5);
    assert_eq!(bench.send(half), [10, 11, 12], "the window of 5 is inflated by 8");
    assert_eq!((bench.ack(4), bench.recovery.deflation()), (AckKind::Partial, 0));
    assert!(bench.recovery.is_urgent(&bench.tcp.config));
    assert_eq!(bench.send(half), [4, 13], "minus 3: 4 to 13 are outstanding");
    assert_eq!((bench.ack(9), bench.recovery.deflation()), (AckKind::Partial, 0), "the inflation was 5");
    assert_eq!(bench.send(half), [9, 14], "the inflation is 1 now");
    assert_eq!(bench.duplicates(1), [AckKind::Duplicate]);
    assert_eq!(bench.recovery.dupacks(), 9, "the count of duplicates continues");
    assert_eq!(bench.send(half), [15]);
    assert_eq!(bench.ack(10), AckKind::Exit);
    assert_eq!((bench.recovery.dupacks(), bench.recovery.deflation()), (0, 0));
    assert_eq!(bench.send(half), [0u64; 0]);
}

#[test]
fn without_inflation_left_a_partial_acknowledgement_lowers_the_window_itself() {
    for end in [AckKind::Exit, AckKind::Advance] {
        let mut bench = Bench::filled(config(RecoveryKind::NewReno));
        bench.duplicates(3);
        assert_eq!((bench.ack(7), bench.recovery.deflation()), (AckKind::Partial, 4));
        assert_eq!((bench.ack(9), bench.recovery.deflation()), (AckKind::Partial, 5));
        if end == AckKind::Advance {
            bench.time_out();
            assert_eq!(bench.recovery.deflation(), 0);
            bench.send(ONE);
        }
        assert_eq!((bench.ack(10), bench.recovery.deflation()), (end, 0));
    }
}

#[test]
fn in_newreno_s_recovery_an_acknowledgement_may_release_a_bounded_burst() {
    for (max_burst, expected) in [(None, 4), (Some(2), 2)] {
        let mut bench = Bench::filled(with(config(RecoveryKind::NewReno), |config| {
            config.recovery.max_burst = max_burst
        }));
        bench.duplicates(3);
        assert_eq!(bench.send(WINDOWS).len(), 1 + expected.min(3), "the retransmission is not counted");
        bench.duplicates(1);
        let wide = Windows { congestion: 13, ..WINDOWS };
        let sent = bench.send(wide).len() + bench.send(wide).len();
        assert_eq!(sent, expected, "a second call releases no more");
    }
}

#[test]
fn a_retransmission_ends_where_transmissions_did() {
    let mut bench = Bench::new(Config::default());
    let at = TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
    let (long, mut recovery) = (Windows { mss: 10, ..WINDOWS }, bench.recovery.clone());
    recovery.set_windows(long, &bench.tcp.config);
    let short = Stream { end: 4, fin: false, mss: 10 };
    assert_eq!(recovery.next(short, at), Some(Transmission { seq: 0, len: 4, is_retransmission: false }));
    assert!(!recovery.has_next(short) && recovery.has_next(Stream { fin: true, ..short }));
    bench.recovery = recovery;
    bench.duplicates(3);
    let at = TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
    let more = Stream { end: 40, fin: true, mss: 10 };
    assert_eq!(bench.recovery.next(more, at), Some(Transmission { seq: 0, len: 4, is_retransmission: true }));
}

//! Loss recovery that counts duplicate acknowledgements: Tahoe, Reno and NewReno, without SACK.
//!
//! V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988, with the fast retransmit of
//! 4.3BSD-Tahoe; M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.2
//! (fast retransmit, fast recovery); T. Henderson, S. Floyd, A. Gurtov, Y. Nishida, "The NewReno
//! Modification to TCP's Fast Recovery Algorithm", RFC 6582, 2012; M. Allman, H. Balakrishnan, S. Floyd,
//! RFC 3042, 2001 (limited transmit). After a time-out everything from the oldest hole on is sent again,
//! except what acknowledgements skip (go-back-N); Tahoe's fast retransmit does the same. NewReno counts
//! the duplicates of a whole recovery together.
//!
//! Ours, where the sources are silent: the window counts whole segments; a partial acknowledgement of
//! less than a full segment leaves it alone. As in ns-2, a time-out of Tahoe does not forget the
//! duplicates before it, and `max_burst` binds NewReno with every duplicate from the third on,
//! except those whose segments `send_overhead` delays.

use super::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ReceivedAck, Sending, Stream, TimerContext, Windows,
};
use crate::config::Config;
use crate::config::recovery::{FastRetransmitGuard, Inflation, LimitedTransmit, RecoveryKind};

pub(super) const HAS_SACK: bool = false;

/// The recovery of `tahoe`, `reno` and `newreno`.
pub(super) fn new(_config: &Config) -> AnyRecovery {
    AnyRecovery::Counting(Counting::default())
}

/// What Tahoe, Reno and NewReno know of what was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    /// Everything below is acknowledged (`SND.UNA`).
    una: u64,
    /// The next byte in line; falls back to `una` at a time-out (`SND.NXT`).
    nxt: u64,
    /// Everything below has been sent.
    max: u64,
    /// What had been sent when the last loss was noticed (`recover`).
    recover: u64,
    /// Transmissions may go up to here.
    limit: u64,
    dupacks: u32,
    /// Segments by which duplicate acknowledgements inflate the window, or did until new data was acknowledged.
    inflation: u32,
    /// Segments by which partial acknowledgements took the window below that of the congestion control.
    deflation: u32,
    /// Bytes sent by limited transmit since the last new acknowledgement.
    limited: u32,
    /// How far beyond `una` a duplicate lets transmissions go: below the threshold beside the window,
    /// from there on at most.
    release: u32,
    in_recovery: bool,
    retransmit: bool,
}

impl LossRecovery for Counting {
    #[inline]
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if received.ack > self.una && received.ack <= self.max {
            if self.dupacks > 0 {
                return self.repair(received.ack, config);
            }
            return self.advance(received.ack, AckKind::Advance);
        }
        if received.ack != self.una || self.max == self.una || !received.bare {
            return AckOutcome::NONE;
        }
        AckOutcome { what: self.on_duplicate(config), ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, config: &Config) {
        self.nxt = self.una;
        self.recover = self.max;
        if config.recovery.kind != RecoveryKind::Tahoe {
            self.dupacks = 0;
        }
        self.release = if self.dupacks < config.recovery.dupthresh { 0 } else { u32::MAX };
        self.inflation = 0;
        self.deflation = 0;
        self.limited = 0;
        self.in_recovery = false;
        self.retransmit = false;
    }

    #[inline]
    fn set_windows(&mut self, windows: Windows, config: &Config) {
        let Windows { congestion, receiver, mss } = windows;
        // A fraction of a segment must not stop the sender for good.
        let window = congestion.max(1).min(receiver) * mss;
        self.limit =
            self.una + if self.dupacks == 0 { window } else { self.inflated(windows, window, config) };
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.nxt < self.limit.min(stream.limit())
    }

    fn is_urgent(&self, config: &Config) -> bool {
        let released = self.nxt < self.una + u64::from(self.release);
        self.retransmit || (released && (1..config.recovery.dupthresh).contains(&self.dupacks))
    }

    #[inline]
    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Sending> {
        if self.retransmit {
            self.retransmit = false;
            let len = stream.segment(self.una).min(self.max - self.una);
            return Some(Sending { seq: self.una, len, again: true });
        }
        if self.nxt >= self.limit || self.nxt >= stream.limit() {
            return None;
        }
        let (seq, len) = (self.nxt, stream.segment(self.nxt));
        let again = seq < self.max;
        self.nxt += len;
        if !again && self.dupacks > 0 && !self.in_recovery {
            self.limited += len as u32;
        }
        self.max = self.max.max(self.nxt);
        Some(Sending { seq, len, again })
    }

    #[inline]
    fn una(&self) -> u64 {
        self.una
    }

    #[inline]
    fn sent(&self) -> u64 {
        self.max
    }

    #[inline]
    fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    fn flight(&self) -> u64 {
        self.max - self.una - u64::from(self.limited)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }

    fn inflation(&self) -> f64 {
        self.inflation.into()
    }

    fn deflation(&self) -> f64 {
        self.deflation.into()
    }
}

impl Counting {
    #[inline]
    fn advance(&mut self, ack: u64, what: AckKind) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        AckOutcome { acked, delivered: acked, what, ..AckOutcome::NONE }
    }

    /// New data is acknowledged after duplicates.
    fn repair(&mut self, ack: u64, config: &Config) -> AckOutcome {
        self.limited = 0;
        if self.in_recovery && config.recovery.kind == RecoveryKind::NewReno && ack < self.recover {
            let outcome = self.advance(ack, AckKind::Partial);
            self.deflate((outcome.acked / config.connection.mss.bytes()) as u32);
            self.retransmit = true;
            self.throttle(config);
            return outcome;
        }
        let what = match self.in_recovery {
            true => AckKind::Exit,
            false if self.inflation > 0 => AckKind::Opened,
            false => AckKind::Advance,
        };
        if self.in_recovery && config.recovery.fast_retransmit_guard == FastRetransmitGuard::AfterTimeout {
            self.recover = 0;
        }
        self.dupacks = 0;
        self.deflation = 0;
        self.in_recovery = false;
        self.retransmit = false;
        self.advance(ack, what)
    }

    fn on_duplicate(&mut self, config: &Config) -> AckKind {
        if self.dupacks == 0 {
            self.inflation = 0;
        }
        self.dupacks += 1;
        if self.dupacks < config.recovery.dupthresh {
            let may = match config.recovery.limited_transmit {
                LimitedTransmit::Off => false,
                LimitedTransmit::New => self.nxt >= self.max,
                LimitedTransmit::Next => true,
            };
            self.release = if may { self.within(1, config) } else { 0 };
            return AckKind::Duplicate;
        }
        let mut what = AckKind::Duplicate;
        if self.dupacks == config.recovery.dupthresh
            && config.recovery.fast_retransmit_guard.allows(self.una, self.recover)
        {
            what = AckKind::Loss;
            self.recover = self.max;
            if config.recovery.kind == RecoveryKind::Tahoe {
                self.nxt = self.una;
            } else {
                self.in_recovery = true;
                self.retransmit = true;
                self.inflation = config.recovery.dupthresh;
            }
            if config.recovery.inflation == Inflation::InWindow {
                self.release = self.within(0, config);
                return what;
            }
        } else if self.in_recovery
            || (config.recovery.inflation == Inflation::InWindow && self.dupacks > config.recovery.dupthresh)
        {
            self.inflation += 1;
        }
        self.throttle(config);
        what
    }

    /// A partial acknowledgement of `acked` segments takes them out of the window and adds one back:
    /// first from what duplicates added to it.
    fn deflate(&mut self, acked: u32) {
        if acked == 0 {
            return;
        }
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            self.deflation += acked - self.inflation;
            self.inflation = 1;
        }
    }

    /// Sets how much this acknowledgement releases.
    fn throttle(&mut self, config: &Config) {
        let bound =
            config.recovery.kind == RecoveryKind::NewReno && config.connection.send_overhead.is_zero();
        self.release = match config.recovery.max_burst {
            Some(segments) if bound => self.within(segments, config),
            _ => u32::MAX,
        };
    }

    /// Where `segments` more segments would end, beyond `una`.
    fn within(&self, segments: u64, config: &Config) -> u32 {
        let end = self.nxt - self.una + segments.saturating_mul(config.connection.mss.bytes());
        u32::try_from(end).unwrap_or(u32::MAX)
    }

    /// What may be outstanding after duplicates.
    fn inflated(&self, windows: Windows, window: u64, config: &Config) -> u64 {
        let Windows { congestion, receiver, mss } = windows;
        let release = u64::from(self.release);
        if self.dupacks < config.recovery.dupthresh {
            window.max(((congestion + u64::from(self.dupacks)).min(receiver) * mss).min(release))
        } else {
            ((congestion + u64::from(self.inflation)).max(1).min(receiver) * mss).min(release)
        }
    }
}

impl FastRetransmitGuard {
    /// Whether duplicates of `una` may start a fast retransmit; `recover` is what had been sent at the
    /// last loss.
    pub(super) fn allows(self, una: u64, recover: u64) -> bool {
        match self {
            Self::None => true,
            Self::Recover | Self::AfterTimeout => una > recover || recover == 0,
            Self::RecoverOrFirst => una > recover || una == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Size};

    use super::*;
    use crate::config::CheckedConfig;
    use crate::rtt::Estimator;
    use crate::segment::Sacks;

    const WINDOWS: Windows = Windows { congestion: 10, receiver: 100, mss: 1 };
    const ONE: Windows = Windows { congestion: 1, ..WINDOWS };
    const ENDLESS: Stream = Stream { end: u64::MAX / 2, fin: false, mss: 1 };

    /// A recovery with segments of one byte, what it runs on, and the windows it is told.
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

        /// With a window of ten sent.
        fn filled(config: Config) -> Self {
            let mut bench = Self::new(config);
            assert_eq!(bench.send(WINDOWS), (0..10).collect::<Vec<u64>>());
            bench
        }

        fn take_in(&mut self, ack: u64, bare: bool) -> AckOutcome {
            let at = TimerContext {
                now: Instant::START,
                estimator: &self.estimator,
                config: &self.tcp.config.rto,
            };
            self.recovery.on_ack(&ReceivedAck { ack, sacks: &Sacks::default(), bare }, at, &self.tcp.config)
        }

        fn ack(&mut self, ack: u64) -> AckKind {
            self.take_in(ack, true).what
        }

        fn duplicates(&mut self, count: usize) -> Vec<AckKind> {
            (0..count).map(|_| self.ack(self.recovery.una())).collect()
        }

        /// Sends all it may; returns what.
        fn send(&mut self, windows: Windows) -> Vec<u64> {
            self.recovery.set_windows(windows, &self.tcp.config);
            let at = TimerContext {
                now: Instant::START,
                estimator: &self.estimator,
                config: &self.tcp.config.rto,
            };
            let recovery = &mut self.recovery;
            std::iter::from_fn(|| recovery.next(ENDLESS, at)).map(|sending| sending.seq).collect()
        }

        fn time_out(&mut self) {
            let at = TimerContext {
                now: Instant::START,
                estimator: &self.estimator,
                config: &self.tcp.config.rto,
            };
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
        assert_eq!(bench.take_in(11, true), AckOutcome::NONE);
        assert_eq!(
            bench.take_in(10, true),
            AckOutcome { acked: 10, delivered: 10, what: AckKind::Advance, ..AckOutcome::NONE }
        );
        assert_eq!(bench.take_in(9, true), AckOutcome::NONE);
        assert_eq!(bench.take_in(10, true), AckOutcome::NONE, "nothing is outstanding");
    }

    #[test]
    fn what_carries_data_is_no_duplicate() {
        let mut bench = Bench::filled(Config::default());
        for _ in 0..5 {
            assert_eq!(bench.take_in(0, false), AckOutcome::NONE);
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
                assert_eq!(outcome.iter().filter(|&&what| what == AckKind::Loss).count(), 1);
            }
        }
    }

    #[test]
    fn the_guard_decides_whether_duplicates_after_a_time_out_show_a_loss() {
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
        for (guard, expected) in
            [(None, true), (Recover, false), (RecoverOrFirst, false), (AfterTimeout, true)]
        {
            let mut bench = Bench::filled(with(Config::default(), |config| {
                config.recovery.fast_retransmit_guard = guard
            }));
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
            assert_eq!(bench.send(WINDOWS), [0u64; 0], "and no more when it is asked again");
            assert_eq!(bench.recovery.flight(), 10, "what it sends is not part of the flight size");
            bench.time_out();
            assert_eq!(bench.send(ONE), [0]);
            bench.duplicates(1);
            assert_eq!(bench.send(ONE), after_timeout);
        }
    }

    #[test]
    fn a_time_out_takes_back_a_retransmission_that_was_not_sent() {
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
    fn duplicates_open_the_window_itself_if_they_are_told_to_after_a_time_out_too() {
        let tcp = with(config(RecoveryKind::Reno), |config| config.recovery.inflation = Inflation::InWindow);
        let mut bench = Bench::filled(tcp);
        assert_eq!(bench.duplicates(3)[2], AckKind::Loss);
        assert_eq!(bench.send(Windows { congestion: 9, ..WINDOWS }), [0], "only what is missing");
        bench.duplicates(1);
        assert_eq!(bench.send(Windows { congestion: 9, ..WINDOWS }), [10, 11, 12]);
        assert_eq!((bench.recovery.inflation(), bench.ack(4)), (4.0, AckKind::Exit));
        bench.time_out();
        assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (0.0, vec![4]));
        bench.duplicates(3);
        assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (0.0, vec![]), "the guard holds");
        bench.duplicates(2);
        assert_eq!((bench.recovery.inflation(), bench.send(ONE)), (2.0, vec![5, 6]));
        assert_eq!((bench.ack(7), bench.recovery.inflation()), (AckKind::Opened, 2.0));
        assert_eq!(bench.send(ONE), [7], "what stays of it is the window's");
        bench.duplicates(1);
        assert_eq!((bench.recovery.inflation(), bench.ack(8)), (0.0, AckKind::Advance));
    }

    #[test]
    fn tahoe_starts_again_from_the_hole() {
        let mut bench = Bench::filled(config(RecoveryKind::Tahoe));
        bench.ack(2);
        bench.duplicates(3);
        assert!(!bench.recovery.is_urgent(&bench.tcp.config), "the window of one allows it");
        assert_eq!(bench.send(ONE), [2]);
        assert_eq!(bench.duplicates(5), [AckKind::Duplicate; 5]);
        assert_eq!(bench.send(ONE), [0u64; 0], "further duplicates do not inflate the window");
        assert_eq!(bench.ack(5), AckKind::Advance);
        assert_eq!(bench.send(Windows { congestion: 2, ..WINDOWS }), [5, 6]);
    }

    #[test]
    fn newreno_mends_a_hole_with_every_partial_acknowledgement() {
        let mut bench = Bench::filled(config(RecoveryKind::NewReno));
        bench.duplicates(3);
        let half = Windows { congestion: 5, ..WINDOWS };
        assert_eq!(bench.send(half), [0]);
        bench.duplicates(5);
        assert_eq!(bench.send(half), [10, 11, 12], "the window of 5 is inflated by 8");
        assert_eq!((bench.ack(4), bench.recovery.deflation()), (AckKind::Partial, 0.0));
        assert!(bench.recovery.is_urgent(&bench.tcp.config));
        assert_eq!(bench.send(half), [4, 13], "3 less: 4 to 13 are outstanding");
        assert_eq!(
            (bench.ack(9), bench.recovery.deflation()),
            (AckKind::Partial, 0.0),
            "the inflation was 5"
        );
        assert_eq!(bench.send(half), [9, 14], "it is 1 now");
        assert_eq!(bench.duplicates(1), [AckKind::Duplicate]);
        assert_eq!(bench.recovery.dupacks(), 9, "duplicates count on");
        assert_eq!(bench.send(half), [15]);
        assert_eq!(bench.ack(10), AckKind::Exit);
        assert_eq!((bench.recovery.dupacks(), bench.recovery.deflation()), (0, 0.0));
        assert_eq!(bench.send(half), [0u64; 0]);
    }

    #[test]
    fn without_inflation_left_a_partial_acknowledgement_lowers_the_window_itself() {
        for end in [AckKind::Exit, AckKind::Advance] {
            let mut bench = Bench::filled(config(RecoveryKind::NewReno));
            bench.duplicates(3);
            assert_eq!((bench.ack(7), bench.recovery.deflation()), (AckKind::Partial, 4.0));
            assert_eq!((bench.ack(9), bench.recovery.deflation()), (AckKind::Partial, 5.0));
            if end == AckKind::Advance {
                bench.time_out();
                assert_eq!(bench.recovery.deflation(), 0.0);
                bench.send(ONE);
            }
            assert_eq!((bench.ack(10), bench.recovery.deflation()), (end, 0.0));
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
            assert_eq!(sent, expected, "asking again releases no more");
        }
    }

    #[test]
    fn a_retransmission_ends_where_transmissions_did() {
        let mut bench = Bench::new(Config::default());
        let at =
            TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        let (long, mut recovery) = (Windows { mss: 10, ..WINDOWS }, bench.recovery.clone());
        recovery.set_windows(long, &bench.tcp.config);
        let short = Stream { end: 4, fin: false, mss: 10 };
        assert_eq!(recovery.next(short, at), Some(Sending { seq: 0, len: 4, again: false }));
        assert!(!recovery.has_next(short) && recovery.has_next(Stream { fin: true, ..short }));
        bench.recovery = recovery;
        bench.duplicates(3);
        let at =
            TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        let more = Stream { end: 40, fin: true, mss: 10 };
        assert_eq!(bench.recovery.next(more, at), Some(Sending { seq: 0, len: 4, again: true }));
    }
}

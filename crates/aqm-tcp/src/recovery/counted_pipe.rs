//! Loss recovery with SACK that counts what is in the network: ns-2's `Agent/TCP/Sack1`.
//!
//! `tcp-sack1.cc`, `scoreboard-rq.cc` and `rq.cc` of ns-2.35, after K. Fall, S. Floyd, "Simulation-based
//! Comparisons of Tahoe, Reno, and SACK TCP", Computer Communication Review 26(3), 1996, with ns-2's
//! defaults. Only acknowledgements that tell of new data beyond count as duplicates. The one that shows
//! a loss releases the first segment alone; from the next on `pipe` decides: the oldest hole below the
//! highest SACKed segment goes first, each once, then new data within the receiver's window. A time-out
//! ends all that, forgets what SACK reported (so `sacks_at_timeout` has no say) and ignores duplicates until
//! new data is acknowledged. Unlike `fast_retransmit_guard` alone, the end of a recovery lets the next
//! begin at once.
//!
//! Ours, where the source is silent: an acknowledgement that carries data takes nothing out of the
//! network unless it tells of new data.

use std::collections::VecDeque;

use super::{AckKind, AckOutcome, LossRecovery, ReceivedAck, Sending, Stream, TimerContext, Windows};
use crate::config::Config;
use crate::config::recovery::LimitedTransmit;

/// What the sender knows with `pipe = "counted"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedPipe {
    /// Everything below is acknowledged (`SND.UNA`).
    una: u64,
    /// The next byte in line; falls back to `una` at a time-out (`SND.NXT`).
    nxt: u64,
    /// Everything below has been sent.
    max: u64,
    /// What had been sent at the last loss; 0 once a recovery has ended.
    recover: u64,
    /// What SACK has reported: ranges beyond `una` in their order, none touching the next.
    sacked: VecDeque<(u64, u64)>,
    /// Holes below have been sent again.
    repaired: u64,
    /// Segments in the network, as counted in fast recovery.
    pipe: i64,
    windows: Windows,
    dupacks: u32,
    /// Bytes sent by limited transmit since the last new acknowledgement.
    limited: u32,
    in_recovery: bool,
    /// The first segment is to be sent again.
    retransmit: bool,
    /// A duplicate released one segment.
    single: bool,
    /// Nothing more leaves before the next acknowledgement.
    waits: bool,
    /// Duplicates tell nothing since a time-out.
    ignores_duplicates: bool,
}

/// What comes next.
#[derive(Clone, Copy)]
enum Next {
    /// A segment beyond the window, by limited transmit.
    Single,
    /// A hole, from and to.
    Hole(u64, u64),
    /// The segment in line.
    InLine,
}

impl LossRecovery for CountedPipe {
    fn on_ack(&mut self, received: &ReceivedAck, _at: TimerContext<'_>, config: &Config) -> AckOutcome {
        if received.ack > self.max {
            return AckOutcome::NONE;
        }
        if self.in_recovery {
            return self.on_ack_in_recovery(received);
        }
        if received.ack > self.una {
            return self.advance(received.ack, AckKind::Advance);
        }
        if received.ack < self.una || self.ignores_duplicates || !self.note(received) {
            return AckOutcome::NONE;
        }
        AckOutcome { what: self.on_duplicate(config), ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, _config: &Config) {
        self.forget();
        self.nxt = self.una;
        self.recover = self.max;
        self.ignores_duplicates = true;
    }

    fn set_windows(&mut self, windows: Windows, _config: &Config) {
        self.windows = windows;
    }

    fn has_next(&self, stream: Stream) -> bool {
        self.find_next(stream).is_some()
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        self.retransmit || self.single
    }

    fn next(&mut self, stream: Stream, _at: TimerContext<'_>) -> Option<Sending> {
        if self.retransmit {
            self.retransmit = false;
            let end = self.sacked.front().map_or(self.max, |range| range.0);
            let len = stream.segment(self.una).min(end - self.una);
            self.repaired = self.repaired.max(self.una + len);
            return Some(Sending { seq: self.una, len, again: true });
        }
        let next = self.find_next(stream);
        self.single = false;
        let (seq, len) = match next? {
            Next::Hole(from, to) => (from, stream.segment(from).min(to - from)),
            Next::Single | Next::InLine => (self.nxt, stream.segment(self.nxt)),
        };
        let again = seq < self.max;
        match next? {
            Next::Single if !again => self.limited += len as u32,
            Next::Hole(..) => self.repaired = seq + len,
            Next::Single | Next::InLine => {}
        }
        self.pipe += 1;
        self.nxt = self.nxt.max(seq + len);
        self.max = self.max.max(self.nxt);
        Some(Sending { seq, len, again })
    }

    fn una(&self) -> u64 {
        self.una
    }

    fn sent(&self) -> u64 {
        self.max
    }

    fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }

    fn flight(&self) -> u64 {
        self.max - self.una - u64::from(self.limited)
    }

    fn dupacks(&self) -> u32 {
        self.dupacks
    }
}

impl CountedPipe {
    /// New data is acknowledged, and no recovery goes on after it.
    fn advance(&mut self, ack: u64, what: AckKind) -> AckOutcome {
        self.forget();
        self.ignores_duplicates = false;
        self.move_to(ack, what)
    }

    fn move_to(&mut self, ack: u64, what: AckKind) -> AckOutcome {
        let acked = ack - self.una;
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.limited = 0;
        AckOutcome { acked, delivered: acked, what, ..AckOutcome::NONE }
    }

    /// Forgets what duplicates and SACK reported, and what they asked for.
    fn forget(&mut self) {
        self.sacked.clear();
        self.repaired = 0;
        self.dupacks = 0;
        self.limited = 0;
        self.in_recovery = false;
        self.retransmit = false;
        self.single = false;
        self.waits = false;
    }

    fn on_ack_in_recovery(&mut self, received: &ReceivedAck) -> AckOutcome {
        if received.ack >= self.recover {
            self.recover = 0;
            return self.advance(received.ack, AckKind::Exit);
        }
        if received.ack > self.una {
            let outcome = self.move_to(received.ack, AckKind::Partial);
            self.trim();
            self.note(received);
            // Both the segment that was lost and the one sent in its place have left the network.
            self.pipe -= 2;
            self.waits = false;
            return outcome;
        }
        let is_new = self.note(received);
        if !is_new && !received.bare {
            return AckOutcome::NONE;
        }
        self.dupacks += u32::from(is_new);
        self.pipe -= 1;
        self.waits = false;
        AckOutcome { what: AckKind::Duplicate, ..AckOutcome::NONE }
    }

    fn on_duplicate(&mut self, config: &Config) -> AckKind {
        self.dupacks += 1;
        if self.dupacks < config.recovery.dupthresh {
            self.single = match config.recovery.limited_transmit {
                LimitedTransmit::Off => false,
                LimitedTransmit::New => self.nxt >= self.max,
                LimitedTransmit::Next => true,
            };
            return AckKind::Duplicate;
        }
        self.single = false;
        if self.dupacks > config.recovery.dupthresh
            || !config.recovery.fast_retransmit_guard.allows(self.una, self.recover)
        {
            return AckKind::Duplicate;
        }
        self.recover = self.max;
        let sent = (self.max - self.una).div_ceil(config.connection.mss.bytes());
        self.pipe = sent as i64 - i64::from(config.recovery.dupthresh);
        self.in_recovery = true;
        self.retransmit = true;
        self.waits = true;
        AckKind::Loss
    }

    /// Takes in blocks of SACK, except of what came twice; `true` if they tell of anything new.
    fn note(&mut self, received: &ReceivedAck) -> bool {
        let mut is_new = false;
        for (from, to) in received.sacks.ranges(received.ack) {
            is_new |= from > self.una && self.add(from, to.min(self.max));
        }
        is_new
    }

    /// Adds a range, joined with all that it touches; `true` if not all of it was known.
    fn add(&mut self, from: u64, to: u64) -> bool {
        if from >= to {
            return false;
        }
        let first = self.sacked.partition_point(|range| range.1 < from);
        match self.sacked.get_mut(first) {
            Some(range) if range.0 <= from && to <= range.1 => return false,
            Some(range) if range.0 <= to => {
                *range = (from.min(range.0), to.max(range.1));
                while let Some(&(start, end)) = self.sacked.get(first + 1) {
                    if start > self.sacked[first].1 {
                        break;
                    }
                    self.sacked[first].1 = self.sacked[first].1.max(end);
                    self.sacked.remove(first + 1);
                }
            }
            _ => self.sacked.insert(first, (from, to)),
        }
        true
    }

    /// Forgets the ranges that are acknowledged.
    fn trim(&mut self) {
        while self.sacked.front().is_some_and(|range| range.1 <= self.una) {
            self.sacked.pop_front();
        }
        if let Some(range) = self.sacked.front_mut() {
            range.0 = range.0.max(self.una);
        }
    }

    /// The oldest hole that has not been sent again.
    fn hole(&self) -> Option<(u64, u64)> {
        let from = self.repaired.max(self.una);
        let at = self.sacked.partition_point(|range| range.1 < from);
        let (start, end) = *self.sacked.get(at)?;
        if start > from { Some((from, start)) } else { Some((end, self.sacked.get(at + 1)?.0)) }
    }

    fn find_next(&self, stream: Stream) -> Option<Next> {
        let Windows { congestion, receiver, mss } = self.windows;
        let up_to = |segments: u64| (self.una + segments * mss).min(stream.limit());
        if self.single && self.nxt < up_to((congestion + u64::from(self.dupacks)).min(receiver)) {
            return Some(Next::Single);
        }
        // A fraction of a segment must not stop the sender for good.
        let window = congestion.max(1).min(receiver);
        let open = match self.in_recovery {
            true => !self.waits && self.pipe < congestion as i64,
            false => self.nxt < up_to(window),
        };
        if !open {
            return None;
        }
        if let Some((from, to)) = self.hole() {
            return (self.recover > 0 && from < up_to(receiver)).then_some(Next::Hole(from, to));
        }
        let bound = if self.in_recovery { receiver } else { window };
        (self.nxt < up_to(bound)).then_some(Next::InLine)
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Size};

    use super::*;
    use crate::config::CheckedConfig;
    use crate::rtt::Estimator;
    use crate::segment::Sacks;

    const WINDOW: u64 = 10;

    /// A recovery with segments of one byte, what it runs on, and the window it is told.
    struct Bench {
        recovery: CountedPipe,
        tcp: CheckedConfig,
        estimator: Estimator,
        congestion: u64,
    }

    impl Bench {
        /// With a window of segments sent; two for limited transmit may follow.
        fn filled(congestion: u64) -> Self {
            let mut config = Config::default();
            config.connection.mss = Size::from_bytes(1);
            let tcp = config.build().unwrap();
            let estimator = Estimator::new(&tcp.config.rto);
            let mut bench = Self { recovery: CountedPipe::default(), tcp, estimator, congestion };
            assert_eq!(bench.send(), (0..congestion).collect::<Vec<u64>>());
            bench
        }

        fn take_in(&mut self, ack: u64, ranges: &[(u64, u64)]) -> AckKind {
            let mut sacks = Sacks::default();
            ranges.iter().for_each(|&(from, to)| sacks.push(ack, from, to));
            let at = TimerContext {
                now: Instant::START,
                estimator: &self.estimator,
                config: &self.tcp.config.rto,
            };
            self.recovery.on_ack(&ReceivedAck { ack, sacks: &sacks, bare: true }, at, &self.tcp.config).what
        }

        /// Sends all it may; returns what.
        fn send(&mut self) -> Vec<u64> {
            let windows = Windows { congestion: self.congestion, receiver: 100, mss: 1 };
            self.recovery.set_windows(windows, &self.tcp.config);
            let at = TimerContext {
                now: Instant::START,
                estimator: &self.estimator,
                config: &self.tcp.config.rto,
            };
            let (recovery, endless) = (&mut self.recovery, Stream { end: 1000, fin: false, mss: 1 });
            std::iter::from_fn(|| recovery.next(endless, at)).map(|sending| sending.seq).collect()
        }

        /// Segments 0, 2 and 3 of a window of ten are lost; the third duplicate has come.
        fn with_losses() -> Self {
            let mut bench = Self::filled(WINDOW);
            assert_eq!(bench.take_in(0, &[(1, 2)]), AckKind::Duplicate);
            assert_eq!(bench.send(), [10]);
            assert_eq!(bench.take_in(0, &[(4, 5), (1, 2)]), AckKind::Duplicate);
            assert_eq!(bench.send(), [11]);
            assert_eq!(bench.take_in(0, &[(4, 6), (1, 2)]), AckKind::Loss);
            bench.congestion = WINDOW / 2;
            bench
        }
    }

    #[test]
    fn only_blocks_that_tell_of_something_make_a_duplicate() {
        let mut bench = Bench::filled(WINDOW);
        assert_eq!(bench.take_in(0, &[]), AckKind::Stale);
        assert_eq!(bench.take_in(0, &[(3, 5)]), AckKind::Duplicate);
        for known in [(3, 5), (4, 5), (3, 4), (20, 30), (0, 2)] {
            assert_eq!(bench.take_in(0, &[known]), AckKind::Stale, "{known:?}");
        }
        assert_eq!(bench.take_in(0, &[(2, 4)]), AckKind::Duplicate);
        assert_eq!(bench.recovery.dupacks(), 2);
    }

    #[test]
    fn holes_go_first_and_once_as_the_pipe_empties() {
        let mut bench = Bench::with_losses();
        assert_eq!(bench.send(), [0], "12 sent, 3 have left: 9 in the network");
        let mut sent = Vec::new();
        for end in 7..=12 {
            bench.take_in(0, &[(4, end), (1, 2)]);
            sent.push(bench.send());
        }
        // The pipe falls from 9; below 5 each acknowledgement lets a segment leave.
        let none: Vec<u64> = vec![];
        assert_eq!(sent, [none.clone(), none.clone(), none.clone(), none, vec![2], vec![3]]);
        assert_eq!(bench.take_in(2, &[(4, 12)]), AckKind::Partial);
        assert_eq!(bench.send(), [12, 13], "a partial acknowledgement takes out two");
        assert_eq!(bench.take_in(3, &[(4, 12)]), AckKind::Partial);
        assert_eq!(bench.send(), [14, 15]);
        assert_eq!(bench.take_in(12, &[]), AckKind::Exit);
        assert_eq!(bench.send(), [16], "the window of 5 from 12 on");
    }

    #[test]
    fn the_end_of_a_recovery_lets_the_next_begin_and_a_time_out_does_not() {
        let mut bench = Bench::with_losses();
        bench.send();
        assert_eq!(bench.take_in(12, &[]), AckKind::Exit);
        assert_eq!(bench.send(), [12, 13, 14, 15, 16]);
        let seen: Vec<AckKind> = (14..17).map(|end| bench.take_in(12, &[(13, end)])).collect();
        assert_eq!(seen, [AckKind::Duplicate, AckKind::Duplicate, AckKind::Loss]);

        let at =
            TimerContext { now: Instant::START, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        bench.recovery.on_timeout(at, &bench.tcp.config);
        bench.congestion = 1;
        assert_eq!(bench.send(), [12]);
        assert_eq!(bench.take_in(12, &[(13, 17)]), AckKind::Stale, "duplicates tell nothing");
        assert_eq!(bench.take_in(13, &[(14, 17)]), AckKind::Advance);
        bench.send();
        let seen: Vec<AckKind> = (15..18).map(|end| bench.take_in(13, &[(14, end)])).collect();
        assert_eq!(seen, [AckKind::Duplicate; 3], "all this was sent before the time-out");
    }

    #[test]
    fn ranges_stay_sorted_and_apart() {
        let mut bench = Bench::filled(40);
        for range in [(10, 12), (20, 22), (30, 32), (12, 13), (19, 20), (28, 31), (2, 3), (11, 24)] {
            assert!(bench.recovery.add(range.0, range.1), "{range:?}");
        }
        assert_eq!(bench.recovery.sacked, [(2, 3), (10, 24), (28, 32)]);
        bench.recovery.una = 11;
        bench.recovery.trim();
        assert_eq!(bench.recovery.sacked, [(11, 24), (28, 32)]);
        assert_eq!(bench.recovery.hole(), Some((24, 28)));
        bench.recovery.repaired = 28;
        assert_eq!(bench.recovery.hole(), None);
    }
}

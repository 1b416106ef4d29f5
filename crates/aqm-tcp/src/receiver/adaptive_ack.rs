//! When a receiver acknowledges data in order that adapts to the gaps between segments, and which time it echoes.
//!
//! Linux 6.1: `tcp_input.c` (`tcp_event_data_recv`, `tcp_incr_quickack`, `__tcp_ack_snd_check`; `tcp_grow_window`:
//! while its window grows, which begins when as much has arrived as the first window was, the receiver
//! acknowledges every segment at once; `tcp_rcv_rtt_measure`, `tcp_rcv_space_adjust`), `tcp_output.c`
//! (`tcp_send_delayed_ack`, `tcp_event_ack_sent`), `tcp_timer.c` (`tcp_delack_timer_handler`), `tcp.c`
//! (`tcp_cleanup_rbuf`: the end of a push is acknowledged once the application has read it, here at once).
//! D. Borman et al., RFC 7323, 2014, section 4.3: which timestamp is echoed.
//!
//! Ours, where the source is silent: the receiver's buffer is always large enough, and no data goes the other
//! way, so it never waits for an answer to ride on (`pingpong`).

use aqm_net::{Ecn, Instant};

use crate::config::Config;
use crate::config::ecn::MarkResponse;
use crate::recovery::TimerContext;
use crate::segment::Segment;

/// What a receiver knows of the gaps and of the sender's clock. Times are in ticks, as the kernel has them.
#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    /// How many more acknowledgements leave at once.
    quick: u64,
    /// The delay (`ato`); 0 before the first segment.
    delay: u64,
    /// When data came in order last.
    last: u64,
    /// Everything below is acknowledged (`rcv_wup`; `Last.ACK.sent`, RFC 7323).
    acknowledged: u64,
    /// When the segment left that the next acknowledgement echoes (`TS.Recent`), not in ticks.
    recent: Instant,
    /// Some segment came that could be marked.
    knows_ecn: bool,
}

impl Adaptive {
    /// Data came in order.
    pub fn on_data(&mut self, at: TimerContext<'_>, config: &Config) {
        let (now, least) = (at.config.ticked(at.now), least(at, config));
        let gap = now - self.last;
        if self.delay == 0 {
            self.quicken_up_to(config.receiver.quick_acks, config);
            self.delay = least;
        } else if gap <= least / 2 {
            self.delay = self.delay / 2 + least / 2;
        } else if gap < self.delay {
            self.delay = (self.delay / 2 + gap).min(time_out(at));
        } else if gap > time_out(at) {
            self.quicken_again(config);
        }
        self.last = now;
    }

    /// A segment came that tells when it left. Of those that one acknowledgement answers the first counts.
    #[inline]
    pub fn on_timestamp(&mut self, segment: &Segment) {
        if segment.seq <= self.acknowledged && segment.sent >= self.recent {
            self.recent = segment.sent;
        }
    }

    /// When the segment left that an acknowledgement echoes; the start of the run if none told.
    pub fn echo(&self) -> Instant {
        self.recent
    }

    /// Data came that had come before: the sender needs to know.
    pub fn on_old(&mut self, at: TimerContext<'_>, config: &Config) {
        self.quicken_again(config);
        self.delay = least(at, config);
    }

    /// A segment came with these bits of ECN, the `first_mark` since the sender last told of a reduction: it may have
    /// a small window. What cannot be marked after what could was probably sent again.
    #[inline]
    pub fn on_ecn(&mut self, ecn: Ecn, first_mark: bool, at: TimerContext<'_>, config: &Config) {
        if config.ecn.response != MarkResponse::Linux {
            return;
        }
        if first_mark || (ecn == Ecn::NotEct && self.knows_ecn) {
            self.quicken_up_to(QUICK_AFTER_MARK, config);
            self.delay = least(at, config);
        }
        self.knows_ecn |= ecn != Ecn::NotEct;
    }

    /// Until when an acknowledgement up to `expected` waits; none if it does not. `pending` is when one leaves
    /// that waits already.
    pub fn wait(
        &self,
        expected: u64,
        pending: Instant,
        at: TimerContext<'_>,
        config: &Config,
    ) -> Option<Instant> {
        if self.is_quick(expected, config) {
            return None;
        }
        let (tick, least) = (at.config.tick, least(at, config));
        let longest = at.srtt().map_or(u64::MAX, |srtt| srtt.nanos().div_ceil(tick.nanos()).max(least));
        let half_a_second = HALF_A_SECOND / tick.nanos();
        let delay = if self.delay > least { self.delay.min(longest).min(half_a_second) } else { self.delay };
        if pending <= at.now + tick.saturating_mul(delay / 4) {
            return None;
        }
        Some(at.config.expiry(at.now, tick.saturating_mul(delay)).min(pending))
    }

    /// Whether nothing waits: more than a segment is not acknowledged, or the next acknowledgements leave at once.
    #[inline]
    pub fn is_quick(&self, expected: u64, config: &Config) -> bool {
        self.quick > 0
            || expected - self.acknowledged > config.connection.mss.bytes()
            || grows(expected, config)
    }

    /// An acknowledgement waited until its time ran out.
    pub fn on_timer(&mut self, at: TimerContext<'_>) {
        self.delay = (self.delay * 2).min(time_out(at));
    }

    /// A segment acknowledges everything below `expected`; `owed` says whether an acknowledgement was to leave
    /// anyway.
    pub fn on_ack_sent(&mut self, expected: u64, owed: bool, config: &Config) {
        self.acknowledged = expected;
        if self.quick > 0 && owed {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = config.receiver.delayed_ack_timer.nanos().div_ceil(config.rto.tick.nanos());
            }
        }
    }

    /// The next acknowledgements leave at once, on a connection that has had its first ones.
    fn quicken_again(&mut self, config: &Config) {
        self.quicken_up_to(config.receiver.quick_acks.min(QUICK_LATER), config);
    }

    fn quicken_up_to(&mut self, most: u64, config: &Config) {
        let half = (config.receiver.window_at_first() / 2).max(2);
        self.quick = self.quick.max(half.min(most));
    }
}

/// The most acknowledgements that leave at once after a gap or after old data (`TCP_MAX_QUICKACKS`). More of the first
/// ones leave at once if `quick_acks` says so, as they do while the receiver's window grows.
const QUICK_LATER: u64 = 16;

/// How many acknowledgements leave at once after a mark (`tcp_ecn_check_ce`).
const QUICK_AFTER_MARK: u64 = 2;

/// The longest that an acknowledgement waits, in nanoseconds (`HZ / 2`).
const HALF_A_SECOND: u64 = 500_000_000;

/// Whether the receiver's window is still growing, by two segments with each that comes.
fn grows(expected: u64, config: &Config) -> bool {
    let arrived = expected / config.connection.mss.bytes();
    arrived > config.receiver.window_at_first()
        && config.receiver.grown_window(arrived) < config.receiver.window
}

/// The delay to begin with (`TCP_ATO_MIN`), in ticks.
fn least(at: TimerContext<'_>, config: &Config) -> u64 {
    config.receiver.delayed_ack_timer.nanos().div_ceil(at.config.tick.nanos())
}

/// The retransmission time-out, in ticks.
fn time_out(at: TimerContext<'_>) -> u64 {
    at.rto().nanos().div_ceil(at.config.tick.nanos())
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;
    use serde_json::json;

    use super::*;
    use crate::config::CheckedConfig;
    use crate::rtt::Estimator;

    /// A receiver that segments of one byte each come to, and what it answers with.
    struct Bench {
        tcp: CheckedConfig,
        estimator: Estimator,
        adaptive: Adaptive,
        now: Instant,
        arrived: u64,
    }

    impl Bench {
        /// One whose round trip is 100 ms, so that its time-out is 300 ms.
        fn new(window: u64, first: u64) -> Self {
            Self::with_quick_acks(4, window, first)
        }

        fn with_quick_acks(quick_acks: u64, window: u64, first: u64) -> Self {
            let tcp = crate::read(json!({
                "receiver": {
                    "delayed_ack": "adaptive", "quick_acks": quick_acks, "window": window, "first_window": first
                },
                "rto": { "tick": "10ms", "clock": "wheel", "min": "200ms" }, "connection": { "mss": "1B" },
            }));
            let tcp = tcp.unwrap().build().unwrap();
            let mut estimator = Estimator::new(&tcp.config.rto);
            estimator.sample(Instant::START, Instant::from_nanos(100_000_000), &tcp.config.rto);
            let now = Instant::from_nanos(1_000_000_000);
            Self { tcp, estimator, adaptive: Adaptive::default(), now, arrived: 0 }
        }

        /// A segment comes after `millis` milliseconds: how many its acknowledgement waits, which leaves then.
        fn after(&mut self, millis: u64) -> Option<u64> {
            self.now += Span::from_millis(millis);
            self.arrived += 1;
            let at = TimerContext { now: self.now, estimator: &self.estimator, config: &self.tcp.config.rto };
            self.adaptive.on_data(at, &self.tcp.config);
            let until = self.adaptive.wait(self.arrived, Instant::NEVER, at, &self.tcp.config);
            if let Some(until) = until {
                let at = TimerContext { now: until, ..at };
                self.adaptive.on_timer(at);
            }
            self.adaptive.on_ack_sent(self.arrived, true, &self.tcp.config);
            until.map(|until| until.since(self.now).nanos() / 1_000_000)
        }
    }

    #[test]
    fn the_first_acknowledgements_are_quick_and_then_the_delay_follows_the_gaps() {
        let mut bench = Bench::new(1000, 1000);
        let waits: Vec<_> = (0..7).map(|_| bench.after(70)).collect();
        // 40 ms; doubled, since it was too short; half of that and the gap, at most the round trip. The wheel
        // adds a tick.
        assert_eq!(waits, [None, None, None, None, Some(50), Some(110), Some(110)]);
    }

    #[test]
    fn after_a_gap_longer_than_the_time_out_and_after_old_data_they_are_quick_again() {
        let mut bench = Bench::new(1000, 1000);
        for _ in 0..4 {
            bench.after(50);
        }
        assert_eq!(bench.after(290), Some(50));
        assert_eq!([(); 5].map(|()| bench.after(350).is_none()), [true; 5], "each gap brings more");
        assert_eq!([(); 4].map(|()| bench.after(50).is_none()), [true, true, true, false]);
        let at = TimerContext { now: bench.now, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        bench.adaptive.on_old(at, &bench.tcp.config);
        assert_eq!([(); 5].map(|()| bench.after(50).is_none()), [true, true, true, true, false]);
    }

    #[test]
    fn later_at_most_16_are_quick_however_many_the_first_were() {
        let mut bench = Bench::with_quick_acks(40, 1000, 1000);
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 40);
        assert!(bench.after(350).is_none(), "the gap is longer than the time-out");
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 15);
        let at = TimerContext { now: bench.now, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        bench.adaptive.on_old(at, &bench.tcp.config);
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 16);
    }

    #[test]
    fn a_window_of_few_segments_makes_few_quick() {
        let mut bench = Bench::new(4, 4);
        assert_eq!([(); 3].map(|()| bench.after(50).is_none()), [true, true, false]);
    }

    #[test]
    fn the_second_segment_is_acknowledged_with_the_first() {
        let mut bench = Bench::new(1000, 1000);
        for _ in 0..5 {
            bench.after(50);
        }
        bench.arrived += 1;
        assert_eq!(bench.after(10), None);
    }

    #[test]
    fn while_the_window_grows_each_segment_is_acknowledged_at_once() {
        let mut bench = Bench::new(16, 8);
        let quick: Vec<u64> = (1..=16).filter(|_| bench.after(50).is_none()).collect();
        assert_eq!(quick, [1, 2, 3, 4, 9, 10, 11, 12], "more than a window came, and it has not yet doubled");
    }
}

//! Delays acknowledgements by a time that adapts to the gaps between segments, and selects the timestamp to echo.
//!
//! Linux 6.1: `tcp_input.c` (`tcp_event_data_recv`, `tcp_incr_quickack`, `__tcp_ack_snd_check`; `tcp_grow_window`: the
//! receiver acknowledges each segment that enlarges its window immediately; with `first_window`, the growth begins when
//! one initial window of data has arrived, otherwise the window is tuned automatically), `tcp_output.c` (`tcp_send_delayed_ack`,
//! `tcp_event_ack_sent`), `tcp_timer.c` (`tcp_delack_timer_handler`), `tcp.c` (`tcp_cleanup_rbuf`: the end of pushed
//! data is acknowledged after the application has read the data; in aqmlab, the application reads the data
//! immediately). D. Borman et al., RFC 7323, 2014, section 4.3: the echoed timestamp.
//!
//! aqmlab's choices where the source is silent: the receiver's buffer is always large enough, and no data is sent in
//! the other direction, so an acknowledgement is never delayed in order to be sent together with data (`pingpong`).

use aqm_net::{Ecn, Instant};

use crate::config::Config;
use crate::config::ecn::MarkResponse;
use crate::recovery::TimerContext;
use crate::segment::Segment;

use super::window_tuning::{Arrival, WindowTuning};

/// State derived from the gaps between segments, and the sender's timestamp to echo. Times are in ticks, as in the
/// kernel.
#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    /// Remaining number of immediate acknowledgements.
    quick: u64,
    /// Acknowledgement delay (`ato`); 0 before the first segment arrives.
    delay: u64,
    /// Arrival time of the last in-order data.
    last: u64,
    /// First sequence number that has not been acknowledged (`rcv_wup`; `Last.ACK.sent`, RFC 7323).
    acknowledged: u64,
    /// Timestamp that the next acknowledgement echoes (`TS.Recent`). Unlike the other times, this timestamp is not in
    /// ticks.
    recent: Instant,
    /// Whether an ECN-capable segment has arrived.
    has_seen_ecn: bool,
    /// Automatic tuning of the receive window, unless `first_window` is set.
    tuning: WindowTuning,
}

impl Adaptive {
    /// Processes a segment with data. If the segment enlarges an automatically tuned window, the segment is acknowledged
    /// immediately.
    #[inline]
    pub fn tune_window(&mut self, arrival: &Arrival<'_>, config: &Config) {
        if config.receiver.first_window.is_none() && self.tuning.on_segment(arrival, config) {
            self.quick |= 1;
        }
    }

    /// Processes in-order data.
    pub fn on_data(&mut self, at: TimerContext<'_>, config: &Config) {
        let (now, initial) = (at.config.ticked(at.now), initial_delay(at, config));
        let gap = now - self.last;
        if self.delay == 0 {
            self.raise_quick_acks(config.receiver.quick_acks, config);
            self.delay = initial;
        } else if gap <= initial / 2 {
            self.delay = self.delay / 2 + initial / 2;
        } else if gap < self.delay {
            self.delay = (self.delay / 2 + gap).min(timeout(at));
        } else if gap > timeout(at) {
            self.add_quick_acks_later(config);
        }
        self.last = now;
    }

    /// Records the timestamp of a segment. If one acknowledgement covers several segments, the first segment's
    /// timestamp is echoed.
    #[inline]
    pub fn on_timestamp(&mut self, segment: &Segment) {
        if segment.seq <= self.acknowledged && segment.sent >= self.recent {
            self.recent = segment.sent;
        }
    }

    /// Returns the timestamp to echo, or the start of the run if no segment carried a timestamp.
    pub fn echo(&self) -> Instant {
        self.recent
    }

    /// Processes duplicate data, which must be reported to the sender.
    pub fn on_old(&mut self, at: TimerContext<'_>, config: &Config) {
        self.add_quick_acks_later(config);
        self.delay = initial_delay(at, config);
    }

    /// Processes the ECN bits of a segment. `first_mark` states whether the segment is the first marked segment since
    /// the last CWR. After a first mark, acknowledgements are immediate, because the sender's window may then be small.
    /// Acknowledgements are also immediate if the segment is not ECN-capable although an earlier segment was, because
    /// the segment was then probably retransmitted.
    #[inline]
    pub fn on_ecn(&mut self, ecn: Ecn, first_mark: bool, at: TimerContext<'_>, config: &Config) {
        if config.ecn.response != MarkResponse::Linux {
            return;
        }
        if first_mark || (ecn == Ecn::NotEct && self.has_seen_ecn) {
            self.raise_quick_acks(QUICK_AFTER_MARK, config);
            self.delay = initial_delay(at, config);
        }
        self.has_seen_ecn |= ecn != Ecn::NotEct;
    }

    /// Returns the time until which an acknowledgement of all data below `expected` is delayed; `None` if the
    /// acknowledgement is not delayed. If an acknowledgement is already being delayed, `pending` is the time at which
    /// its delay ends.
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
        let (tick, initial) = (at.config.tick, initial_delay(at, config));
        let max_delay = at.srtt().map_or(u64::MAX, |srtt| srtt.nanos().div_ceil(tick.nanos()).max(initial));
        let half_a_second = HALF_A_SECOND / tick.nanos();
        let delay =
            if self.delay > initial { self.delay.min(max_delay).min(half_a_second) } else { self.delay };
        if pending <= at.now + tick.saturating_mul(delay / 4) {
            return None;
        }
        Some(at.config.expiry(at.now, tick.saturating_mul(delay)).min(pending))
    }

    /// Returns whether acknowledgements are immediate. Acknowledgements are immediate if more than one segment is
    /// unacknowledged, if the number of remaining immediate acknowledgements is not zero, or if the receive window is
    /// growing.
    #[inline]
    pub fn is_quick(&self, expected: u64, config: &Config) -> bool {
        self.quick > 0
            || expected - self.acknowledged > config.connection.mss.bytes()
            || grows(expected, config)
    }

    /// Processes the end of an acknowledgement's delay.
    pub fn on_timer(&mut self, at: TimerContext<'_>) {
        if self.delay == 0 {
            return; // the acknowledgement delay is not adaptive
        }
        self.delay = (self.delay * 2).min(timeout(at));
    }

    /// Records that a segment acknowledging all data below `expected` was sent. `is_pending` states whether an
    /// acknowledgement was pending at this time.
    pub fn on_ack_sent(&mut self, expected: u64, is_pending: bool, config: &Config) {
        self.acknowledged = expected;
        if self.quick > 0 && is_pending {
            self.quick -= 1;
            if self.quick == 0 {
                self.delay = config.receiver.delayed_ack_timer.nanos().div_ceil(config.rto.tick.nanos());
            }
        }
    }

    /// Makes the next acknowledgements immediate. This function is used after the initial phase of the connection.
    fn add_quick_acks_later(&mut self, config: &Config) {
        self.raise_quick_acks(config.receiver.quick_acks.min(QUICK_LATER), config);
    }

    fn raise_quick_acks(&mut self, max: u64, config: &Config) {
        let half = (config.receiver.window_at_first() / 2).max(2);
        self.quick = self.quick.max(half.min(max));
    }
}

/// Maximum number of immediate acknowledgements after a gap or after duplicate data (`TCP_MAX_QUICKACKS`). When a
/// connection starts, `quick_acks` may set a larger maximum. While the receive window grows, all acknowledgements are
/// immediate, regardless of this maximum.
const QUICK_LATER: u64 = 16;

/// Number of immediate acknowledgements after an ECN mark (`tcp_ecn_check_ce`).
const QUICK_AFTER_MARK: u64 = 2;

/// Maximum delay of an acknowledgement, in nanoseconds (`HZ / 2`).
const HALF_A_SECOND: u64 = 500_000_000;

/// Returns whether the receive window is growing by two segments for each segment received, from `first_window`.
fn grows(expected: u64, config: &Config) -> bool {
    let arrived = expected / config.connection.mss.bytes();
    arrived > config.receiver.window_at_first()
        && config.receiver.grown_window(arrived) < config.receiver.window
}

/// Returns the initial acknowledgement delay (`TCP_ATO_MIN`), in ticks.
fn initial_delay(at: TimerContext<'_>, config: &Config) -> u64 {
    config.receiver.delayed_ack_timer.nanos().div_ceil(at.config.tick.nanos())
}

/// Returns the retransmission timeout, in ticks.
fn timeout(at: TimerContext<'_>) -> u64 {
    at.rto().nanos().div_ceil(at.config.tick.nanos())
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;
    use serde_json::json;

    use super::*;
    use crate::config::CheckedConfig;
    use crate::rtt::Estimator;

    /// A receiver of one-byte segments, and the state of the receiver's acknowledgements.
    struct Bench {
        tcp: CheckedConfig,
        estimator: Estimator,
        adaptive: Adaptive,
        now: Instant,
        arrived: u64,
    }

    impl Bench {
        /// Creates a receiver with a round-trip time of 100 ms, for which the retransmission timeout is 300 ms.
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

        /// Receives a segment after `millis` milliseconds. Sends the acknowledgement of the segment when its delay has
        /// expired, and returns this delay in milliseconds.
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
    fn the_first_acknowledgements_are_quick_then_the_delay_follows_the_gaps() {
        let mut bench = Bench::new(1000, 1000);
        let waits: Vec<_> = (0..7).map(|_| bench.after(70)).collect();
        // The delay is initially 40 ms and is doubled because it was too short. Then the delay becomes half of the
        // doubled delay plus the gap, but at most the round-trip time. The timer wheel adds one tick.
        assert_eq!(waits, [None, None, None, None, Some(50), Some(110), Some(110)]);
    }

    #[test]
    fn acknowledgements_are_quick_after_a_long_gap_and_after_old_data() {
        let mut bench = Bench::new(1000, 1000);
        for _ in 0..4 {
            bench.after(50);
        }
        assert_eq!(bench.after(290), Some(50));
        assert_eq!(
            [(); 5].map(|()| bench.after(350).is_none()),
            [true; 5],
            "each gap adds quick acknowledgements"
        );
        assert_eq!([(); 4].map(|()| bench.after(50).is_none()), [true, true, true, false]);
        let at = TimerContext { now: bench.now, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        bench.adaptive.on_old(at, &bench.tcp.config);
        assert_eq!([(); 5].map(|()| bench.after(50).is_none()), [true, true, true, true, false]);
    }

    #[test]
    fn later_at_most_16_are_quick_independent_of_the_first() {
        let mut bench = Bench::with_quick_acks(40, 1000, 1000);
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 40);
        assert!(bench.after(350).is_none(), "the gap is longer than the timeout");
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 15);
        let at = TimerContext { now: bench.now, estimator: &bench.estimator, config: &bench.tcp.config.rto };
        bench.adaptive.on_old(at, &bench.tcp.config);
        assert_eq!((0..50).take_while(|_| bench.after(50).is_none()).count(), 16);
    }

    #[test]
    fn a_small_window_limits_quick_acknowledgements() {
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
        assert_eq!(
            quick,
            [1, 2, 3, 4, 9, 10, 11, 12],
            "more than a window has arrived, and the window has not yet doubled"
        );
    }
}

//! Tests of the loss recovery with SACK over a path that loses, delays and duplicates packets randomly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;
use crate::config::recovery::{
    FastRetransmitGuard, LimitedTransmit, PrrBound, Recovery, RecoveryKind, Reduction,
};
use crate::config::sack::{Sack, SacksAtTimeout};

/// The random number generator SplitMix64 (Steele, Lea, Flood 2014).
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)) % below
}

const UNIT: u64 = 10;
const RECEIVER: u64 = 60;

/// The sequence numbers that have arrived, recorded individually.
#[derive(Default)]
struct Naive {
    has: Vec<bool>,
}

impl Naive {
    /// Records a segment. Returns the acknowledgement number and the SACK blocks, of which the newest is the first.
    fn take(&mut self, seq: u64, len: u64) -> (u64, Vec<(u64, u64)>) {
        let (from, to) = (seq as usize, (seq + len) as usize);
        self.has.resize(self.has.len().max(to), false);
        let twice = self.has[from..to].iter().all(|&has| has);
        self.has[from..to].fill(true);
        let ack = self.ack();
        let mut runs = Vec::new();
        let mut at = ack;
        while at < self.has.len() {
            let end = (at..self.has.len()).find(|&i| self.has[i] != self.has[at]).unwrap_or(self.has.len());
            if self.has[at] {
                runs.push((at as u64, end as u64));
            }
            at = end;
        }
        runs.sort_by_key(|&(low, high)| (!(low <= seq && seq < high), low));
        if twice {
            runs.insert(0, (seq, seq + len));
        }
        runs.truncate(3);
        (ack as u64, runs)
    }

    fn ack(&self) -> usize {
        self.has.iter().position(|&has| !has).unwrap_or(self.has.len())
    }
}

enum Event {
    Data(u64, u64),
    Ack(u64, Vec<(u64, u64)>),
}

struct Path {
    state: u64,
    loss: u64,
    jitter: u64,
    events: BinaryHeap<Reverse<(u64, usize)>>,
    stored: Vec<Event>,
}

impl Path {
    fn enter(&mut self, now: Instant, event: impl Fn() -> Event) {
        let copies = match draw(&mut self.state, 100) {
            fate if fate < self.loss => 0,
            fate => 1 + usize::from(fate == 99),
        };
        for _ in 0..copies {
            let delay = 10_000_000 + draw(&mut self.state, self.jitter * 1_000_000 + 1);
            self.events.push(Reverse((now.nanos() + delay, self.stored.len())));
            self.stored.push(event());
        }
    }
}

/// A sender that uses the recovery, with a retransmission timer and with a window that changes as in Reno.
struct Run {
    driver: Driver,
    path: Path,
    receiver: Naive,
    cwnd: f64,
    timer: Instant,
    /// Sequence numbers that SACK blocks have reported, recorded individually.
    reported: Vec<bool>,
    writes: Vec<u64>,
}

impl Run {
    fn step(&mut self) -> bool {
        let arrival = self.path.events.peek().map_or(u64::MAX, |&Reverse((at, _))| at);
        let next = arrival.min(self.timer.nanos()).min(self.driver.recovery.timer().nanos());
        if next == u64::MAX {
            return false;
        }
        self.driver.now = Instant::from_nanos(next);
        if arrival == next {
            let Some(Reverse((_, id))) = self.path.events.pop() else { return false };
            match &self.path.stored[id] {
                &Event::Data(seq, len) => {
                    let (ack, runs) = self.receiver.take(seq, len);
                    self.path.enter(self.driver.now, || Event::Ack(ack, runs.clone()));
                }
                Event::Ack(ack, runs) => self.apply(*ack, &runs.clone()),
            }
        } else if self.driver.recovery.timer().nanos() == next {
            let outcome = self.driver.run_timer();
            self.timer = self.driver.now + self.driver.estimator.rto();
            self.on_outcome(outcome);
        } else {
            self.cwnd = 1.0;
            self.driver.time_out();
            if !self.driver.recovery.sent.is_sacked(self.driver.recovery.sent.first())
                && self.driver.recovery.sent.sacked().segments == 0
            {
                self.reported.fill(false);
            }
            self.driver.estimator.back_off(&self.driver.config.rto);
            self.timer = self.driver.now + self.driver.estimator.rto();
        }
        self.transmit();
        true
    }

    fn apply(&mut self, ack: u64, runs: &[(u64, u64)]) {
        let una = self.driver.recovery.una();
        let before: Vec<bool> = self.reported.clone();
        for &(from, to) in runs.iter().filter(|&&(from, _)| from > una.max(ack)) {
            self.reported[from as usize..to as usize].fill(true);
        }
        let brings = self.reported != before;
        let outcome = self.driver.ack_bytes(ack, runs);
        assert_eq!(outcome.acked, ack.saturating_sub(una));
        // With RACK, any acknowledgement may lead to the detection of a loss by time (RFC 8985, section 6.2).
        let found = outcome.kind == AckKind::Loss && self.driver.recovery.rack.is_some();
        let is_new = outcome.acked > 0 || brings;
        assert!(if is_new {
            outcome.kind != AckKind::Stale
        } else {
            outcome.kind == AckKind::Stale || found
        });
        assert!(outcome.sent == Instant::NEVER || outcome.sent < self.driver.now);
        if outcome.acked > 0 {
            if outcome.sent != Instant::NEVER {
                self.driver.estimator.sample(outcome.sent, self.driver.now, &self.driver.config.rto);
            }
            self.timer = self.driver.now + self.driver.estimator.rto();
        }
        self.on_outcome(outcome);
        if self.driver.recovery.una() == self.driver.recovery.sent() {
            self.timer = Instant::NEVER;
        }
    }

    fn on_outcome(&mut self, outcome: AckOutcome) {
        match outcome.kind {
            AckKind::Advance => self.cwnd += outcome.acked as f64 / UNIT as f64 / self.cwnd,
            AckKind::Loss => {
                let from = self.cwnd;
                self.cwnd = (self.driver.recovery.flight() as f64 / UNIT as f64 / 2.0).max(2.0);
                self.driver.recovery.on_reduction(from, self.cwnd);
            }
            _ => {}
        }
    }

    fn transmit(&mut self) {
        if draw(&mut self.path.state, 3) == 0
            && let Some(bytes) = self.writes.pop()
        {
            self.driver.stream.end += bytes;
        }
        self.driver.stream.fin = self.writes.is_empty();
        let windows = Windows { congestion: self.cwnd as u64, receiver: RECEIVER, mss: UNIT };
        self.driver.recovery.set_windows(windows, &self.driver.config);
        loop {
            let recovery = &self.driver.recovery;
            let (pipe, urgent) = (recovery.outstanding(), recovery.is_urgent(&self.driver.config));
            let (window, sent) = (recovery.window, recovery.sent());
            let has_next = recovery.has_next(self.driver.stream);
            let sending = self.driver.poll();
            assert_eq!(has_next, sending.is_some());
            let Some(Transmission { seq, len, is_retransmission }) = sending else { break };
            self.driver.recovery.sent.check();
            let end = seq + len;
            assert!(len > 0 && len <= UNIT + 1 && end <= self.driver.stream.limit());
            assert!(pipe < window || pipe == 0 || urgent, "the congestion window");
            assert!(end <= self.driver.recovery.una() + RECEIVER * UNIT + 1, "the receiver's window");
            self.reported.resize(self.reported.len().max(end as usize), false);
            assert!(
                !self.reported[seq as usize..end as usize].iter().all(|&reported| reported),
                "SACKed data"
            );
            assert_eq!(is_retransmission, end <= sent);
            assert!(seq >= self.driver.recovery.una());
            if self.timer == Instant::NEVER {
                self.timer = self.driver.now + self.driver.estimator.rto();
            }
            self.path.enter(self.driver.now, || Event::Data(seq, len));
        }
    }
}

fn configs() -> impl Strategy<Value = Config> {
    let limited = prop_oneof![Just(LimitedTransmit::Off), Just(LimitedTransmit::New)];
    let guard = prop_oneof![Just(FastRetransmitGuard::None), Just(FastRetransmitGuard::Recover)];
    let reduction = prop_oneof![
        Just(Reduction::AtOnce),
        Just(Reduction::Prr),
        Just(Reduction::Rfc9937),
        Just(Reduction::RateHalving)
    ];
    let bound = prop_oneof![Just(PrrBound::Crb), Just(PrrBound::Ssrb), Just(PrrBound::SafeAck)];
    (any::<bool>(), any::<bool>(), 1..5u32, limited, guard, reduction, bound).prop_map(
        |(rack, kept, dupthresh, limited_transmit, fast_retransmit_guard, reduction, prr_bound)| Config {
            recovery: Recovery {
                kind: if rack { RecoveryKind::Rack } else { RecoveryKind::Sack },
                dupthresh,
                limited_transmit,
                fast_retransmit_guard,
                reduction,
                prr_bound,
                ..Recovery::default()
            },
            sack: Sack {
                at_timeout: if kept { SacksAtTimeout::Kept } else { SacksAtTimeout::Forgotten },
                ..Sack::default()
            },
            ..Config::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(11), ..ProptestConfig::default()
    })]

    #[test]
    fn everything_arrives_and_every_count_is_right_at_every_step(
        config in configs(),
        (state, loss, jitter) in (any::<u64>(), 0..40u64, 0..40u64),
        writes in proptest::collection::vec(1..400u64, 1..12),
    ) {
        let mut driver = Driver::new(0, config);
        driver.config.connection.mss = Size::from_bytes(UNIT);
        driver.recovery = Selective::new(&driver.config);
        driver.stream.mss = UNIT;
        let total: u64 = writes.iter().sum();
        let path = Path { state, loss, jitter, events: BinaryHeap::new(), stored: Vec::new() };
        let mut run = Run {
            driver, path, receiver: Naive::default(), cwnd: 10.0, timer: Instant::NEVER, reported: Vec::new(), writes,
        };
        for _ in 0..100 {
            // The first writes of the application also occur at random times.
            run.transmit();
        }
        let mut steps = 0;
        while run.step() {
            steps += 1;
            prop_assert!(steps < 100_000, "the run does not end");
        }
        prop_assert_eq!(run.receiver.ack() as u64, total + 1);
        prop_assert_eq!(run.driver.recovery.una(), total + 1);
        prop_assert_eq!(run.driver.recovery.outstanding(), 0);
    }
}

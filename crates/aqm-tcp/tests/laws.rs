//! What holds on every path, however it loses, delays, reorders and duplicates.

mod pair;

use aqm_net::{Instant, Span};
use pair::{Pair, Sent};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A path that draws the fate of each segment from its own small generator.
#[derive(Debug, Clone)]
struct Path {
    state: u64,
    /// In hundredths, each way.
    loss: [u64; 2],
    duplication: u64,
    /// Greatest extra delay, in milliseconds.
    jitter: u64,
}

impl Path {
    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % below
    }

    fn fate(&mut self, sent: &Sent) -> Vec<Span> {
        let mut copies = Vec::new();
        if self.draw(100) >= self.loss[usize::from(sent.to_receiver)] {
            copies.push(());
            if self.draw(100) < self.duplication {
                copies.push(());
            }
        }
        copies
            .iter()
            .map(|()| Span::from_nanos(10_000_000 + self.draw(self.jitter * 1_000_000 + 1)))
            .collect()
    }
}

fn paths() -> impl Strategy<Value = Path> {
    (any::<u64>(), 0..=30u64, 0..=30u64, 0..=30u64, 0..=100u64).prop_map(
        |(state, to_receiver, to_sender, duplication, jitter)| Path {
            state,
            loss: [to_sender, to_receiver],
            duplication,
            jitter,
        },
    )
}

fn settings() -> impl Strategy<Value = Value> {
    let profile = prop_oneof![Just("rfc"), Just("ns-2.35")];
    let delayed_ack = prop_oneof![Just("off"), Just("every-second")];
    let guard = prop_oneof![Just("none"), Just("recover"), Just("recover-or-first")];
    let close = prop_oneof![Just("fin"), Just("none")];
    (profile, delayed_ack, guard, close, 1..40u64, 1..6u64).prop_map(
        |(profile, delayed_ack, guard, close, window, dupthresh)| {
            json!({
                "profile": profile, "mss": "100B", "delayed_ack": delayed_ack, "close": close,
                "fast_retransmit_guard": guard, "receiver_window": window, "dupthresh": dupthresh,
            })
        },
    )
}

/// Long enough for every run that ends at all.
const END: Instant = Instant::from_nanos(1_000_000_000_000_000);

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default()
    })]

    #[test]
    fn every_byte_arrives_once_in_order_and_the_connection_ends(
        path in paths(), settings in settings(), bytes in 0..20_000u64,
    ) {
        let mut path = path;
        let mut pair = Pair::new(settings, Some(bytes));
        let mut delivered = 0;
        let mut fate = |sent: &Sent| path.fate(sent);
        pair.run(Instant::START, &mut fate);
        while pair.step(END, &mut fate) {
            prop_assert!(pair.receiver.delivered() >= delivered, "delivery goes back");
            delivered = pair.receiver.delivered();
            prop_assert!(delivered <= bytes);
        }
        prop_assert!(pair.sender.is_done() != pair.sender.gave_up().is_some());
        if pair.sender.is_done() {
            prop_assert_eq!(delivered, bytes);
            prop_assert!(pair.receiver.is_complete());
        }
        prop_assert_eq!(pair.sender.poll_timeout(), None);
        prop_assert_eq!(pair.receiver.poll_timeout(), None);
        prop_assert!(pair.sender.poll_transmit(pair.now).is_none());
    }

    #[test]
    fn what_is_sent_is_new_or_sent_again(path in paths(), settings in settings(), bytes in 0..20_000u64) {
        let mut path = path;
        let mut pair = Pair::new(settings, Some(bytes));
        let (mut new, mut again, mut marked_wrongly) = (0, 0, 0);
        pair.run(END, &mut |sent| {
            if sent.to_receiver {
                let flags = sent.segment.flags;
                let is_new = sent.before == 0;
                new += u64::from(is_new);
                again += u64::from(!is_new);
                marked_wrongly += u64::from(is_new == flags.has(aqm_tcp::Flags::RETRANSMISSION));
            }
            path.fate(sent)
        });
        let counts = pair.sender.counts();
        prop_assert_eq!((counts.segments_sent, counts.retransmitted), (new + again, again));
        prop_assert_eq!(marked_wrongly, 0);
    }

    #[test]
    fn never_more_is_in_flight_than_the_windows_allow(path in paths(), settings in settings()) {
        let mut path = path;
        let receiver_window = settings["receiver_window"].as_u64().unwrap();
        let mut pair = Pair::new(settings, Some(20_000));
        let mut fate = |sent: &Sent| path.fate(sent);
        pair.run(Instant::START, &mut fate);
        let mut sent = 0;
        while pair.step(END, &mut fate) {
            let in_flight = pair.sender.in_flight() / pair.tcp.payload();
            prop_assert!(in_flight <= receiver_window);
            if pair.first_sent.len() > sent {
                sent = pair.first_sent.len();
                let window = (pair.sender.cwnd() as u64).max(1) + u64::from(pair.sender.dupacks());
                prop_assert!(in_flight <= window, "{in_flight} in flight, {window} allowed");
            }
        }
    }
}

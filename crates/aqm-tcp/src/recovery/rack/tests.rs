//! Compares RACK's decisions with a segment-by-segment computation.

use proptest::prelude::*;

use super::*;
use crate::config::rto::Rto;
use crate::rtt::Estimator;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(5), ..ProptestConfig::default()
    })]

    #[test]
    fn an_overtaken_segment_is_lost_when_due_and_the_timer_waits_for_the_last(
        steps in proptest::collection::vec((0..4u8, 0..40u64, 0..30u64), 1..120),
        recovering: bool,
    ) {
        // RFC 8985, section 6.2, step 5, applied to one segment at a time.
        let config = Rto::default();
        let (estimator, mut now) = (Estimator::new(&config), Instant::from_nanos(1000));
        let (mut sent, mut rack) = (Sent::new(1), Rack::default());
        for (step, offset, passed) in steps {
            now += Span::from_nanos(if passed < 10 { 0 } else { passed });
            let at = TimerContext { now, estimator: &estimator, config: &config };
            let mut arrival = Arrival::new(rack.credible(at));
            match step {
                0 => sent.send(1, now),
                1 => {
                    if let Some(number) = sent.due() {
                        let (_, _, stamp) = sent.resend(number, now);
                        rack.on_resent(number, stamp);
                    }
                }
                2 => {
                    let from = sent.una() + 1 + offset;
                    sent.sack((from, from + 1), from, &mut arrival);
                }
                _ => {
                    if offset < 10 && sent.una() < sent.end() {
                        sent.acknowledge(sent.una() + 1, &mut arrival);
                    }
                }
            }
            rack.on_arrival(&arrival, now);
            let status = RecoveryStatus { recovering, dupthresh: 3 };
            let loss_delay = rack.loss_delay(at, recovering || sent.sacked().segments >= 3);
            let timer = rack.find_losses(&mut sent, at, status);
            sent.check();
            let overtaken = sent.in_flight().filter(|&stamp| stamp < rack.latest);
            let due: Vec<Instant> = overtaken.map(|stamp| stamp.sent + loss_delay).collect();
            prop_assert!(due.iter().all(|&due| due > now), "no segment is overdue");
            prop_assert_eq!(timer, due.into_iter().max().unwrap_or(Instant::NEVER));
        }
    }
}

//! Tests of the memory that each sender requires, which matters because a simulation may contain very many senders, and
//! of the number of ECN marks that a sender counts.

use super::*;
use crate::accurate_ecn::flags_of;
use crate::config::Config;
use crate::config::recovery::RecoveryKind;
use crate::congestion_control::Control;
use crate::endpoint::Endpoint;
use crate::receiver::Receiver;

/// Returns the number of marked segments that a sender has counted after each of three acknowledgements. Each
/// acknowledgement acknowledges one segment and carries the given flags.
fn marked_segments(kind: &str, feedback: Feedback, flags: [Flags; 3]) -> [u64; 3] {
    let congestion_control = Control::every().into_iter().find(|control| control.kind() == kind).unwrap();
    let mut config = Config { congestion_control, ..Config::default() };
    config.recovery.kind = RecoveryKind::Rack;
    let tcp = config.build().unwrap();
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let mut sender = Sender::new(&tcp);
    sender.set_ecn(feedback, &tcp);
    sender.begin(false, &tcp);
    sender.write(10 * tcp.mss, at(0), &tcp);
    for ms in 0..3 {
        sender.on_timer(at(ms * 100), &tcp);
        sender.poll_transmit(at(ms * 100), &tcp);
    }
    let mut number = 0;
    flags.map(|flags| {
        number += 1;
        let ack = Segment {
            ack: number * tcp.mss,
            flags: flags.union(Flags::ACK),
            sent: at(290 + number * 10),
            ..Segment::default()
        };
        sender.on_ack(&ack, true, at(300 + number * 10), &tcp);
        sender.recovery.rate().unwrap().marked() / tcp.mss
    })
}

#[test]
fn accurate_feedback_counts_each_mark_once_and_classic_feedback_one_per_window() {
    let accurate = [6, 6, 7].map(flags_of);
    assert_eq!(marked_segments("prague", Feedback::Accurate, accurate), [1, 1, 2]);
    assert_eq!(marked_segments("bbr1", Feedback::Classic, [Flags::ECE; 3]), [1, 1, 1]);
    let dctcp = [Flags::default(), Flags::ECE, Flags::ECE];
    assert_eq!(marked_segments("bbr1", Feedback::Dctcp, dctcp), [0, 1, 2]);
}

#[test]
fn an_endpoint_needs_one_cache_line_and_its_sender_four_and_a_half() {
    assert_eq!((size_of::<Endpoint>(), size_of::<Receiver>()), (64, 40));
    let (recovery, congestion, timer) =
        (size_of::<AnyRecovery>(), size_of::<Controller>(), size_of::<Timer>());
    assert!(size_of::<Sender>() <= 288, "{}: {recovery}, {congestion}, {timer}", size_of::<Sender>());
    assert!(recovery <= 64, "the state changed by acknowledgements must fit into one cache line: {recovery}");
}

//! Opening and closing of connections with a manual clock: the segments sent and their times.
//!
//! The path has a delay of 50 ms in each direction and no transmission time; the profile is `rfc` with immediate
//! acknowledgements, unless a test says otherwise.

use crate::pair::*;
use aqm_net::Span;
use aqm_tcp::{FailureReason, Flags};
use serde_json::{Value, json};

#[test]
fn a_lost_syn_costs_a_second_and_leaves_a_window_of_one() {
    assert_table(
        &exchange(rfc(json!({})), 2, &["> SYN"]),
        "0 > SYN lost
         1000 > SYN again
         1050 < SYN-ACK
         1100 > 1
         1150 < ack 1
         1200 > 2 FIN
         1250 < FIN ack FIN
         1300 > ack FIN",
    );
}

#[test]
fn a_lost_syn_ack_costs_as_much_as_a_lost_syn() {
    // SYN and SYN-ACK are retransmitted at the same time, so that the second SYN is answered twice.
    assert_table(
        &exchange(rfc(json!({})), 1, &["< SYN-ACK"]),
        "0 > SYN
         50 < SYN-ACK lost
         1000 > SYN again
         1050 < SYN-ACK again
         1050 < SYN-ACK again
         1100 > 1 FIN
         1100 > ack 0
         1150 < FIN ack FIN
         1200 > ack FIN",
    );
}

#[test]
fn a_repeated_syn_may_be_ignored() {
    assert_table(
        &exchange(rfc(json!({"connection": {"repeated_syn": "ignored"}})), 1, &["< SYN-ACK"]),
        "0 > SYN
         50 < SYN-ACK lost
         1000 > SYN again
         1050 < SYN-ACK again
         1100 > 1 FIN
         1150 < FIN ack FIN
         1200 > ack FIN",
    );
}

#[test]
fn the_server_sends_its_answer_again_by_its_own_timer() {
    // The client would retry only after three seconds.
    let client = rfc(json!({ "rto": { "initial": "3s" } }));
    let pair = Pair::between(client, rfc(json!({})))
        .plan(Client, When::At(0), Act::Write(MSS))
        .plan(Client, When::At(0), Act::Finish)
        .over(Path::losing(&["< SYN-ACK", "< SYN-ACK again"]));
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK lost
         1050 < SYN-ACK again lost
         3000 > SYN again
         3050 < SYN-ACK again
         3050 < SYN-ACK again
         3100 > 1 FIN
         3100 > ack 0
         3150 < FIN ack FIN
         3200 > ack FIN",
    );
    assert_done(&pair, [1, 0]);
}

#[test]
fn the_last_step_of_the_handshake_may_be_a_separate_packet() {
    let settings = || rfc(json!({ "connection": { "handshake_ack": "alone" } }));
    assert_table(
        &exchange(settings(), 1, &[]),
        "0 > SYN
         50 < SYN-ACK
         100 > ack 0
         100 > 1 FIN
         150 < FIN ack FIN
         200 > ack FIN",
    );
    // If it is lost, the following data replaces it.
    let pair = exchange(settings(), 1, &["> ack 0"]);
    assert_eq!(pair.server().counts().handshake_done, Some(at(150)));
    assert_eq!((pair.server().counts().retransmitted, pair.client().counts().retransmitted), (0, 0));
}

#[test]
fn data_replaces_a_lost_last_step_of_the_handshake() {
    // The acknowledgement is sent with 1; 2 opens the connection as 1 would have.
    let pair = exchange(rfc(json!({ "cwnd": { "initial": 4 } })), 8, &["> 1"]);
    assert_eq!(pair.server().counts().handshake_done, Some(at(150)));
    assert_eq!(pair.server().counts().retransmitted, 0);
}

#[test]
fn the_server_repeats_its_syn_ack_to_a_client_without_data() {
    let pair = Pair::new(rfc(json!({ "cwnd": { "initial": 2 } })))
        .plan(Server, When::At(0), Act::Write(2 * MSS))
        .plan(Server, When::At(0), Act::Finish)
        .over(Path::losing(&["> ack 0"]));
    // A window of one, because a SYN-ACK was retransmitted.
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > ack 0 lost
         1050 < SYN-ACK again
         1100 > ack 0
         1150 < 1
         1200 > ack 1
         1250 < 2 FIN
         1300 > FIN ack FIN
         1350 < ack FIN",
    );
    assert_done(&pair, [0, 2]);
}

#[test]
fn a_retransmitted_syn_ack_is_not_measured() {
    // The SYN arrives again before the server's timer of 3 s expires.
    let server = rfc(json!({ "rto": { "initial": "3s" } }));
    let mut path = Path::losing(&["< SYN-ACK"]);
    let mut pair = Pair::between(rfc(json!({})), server);
    pair.run(at(1160), &mut |sent| path.fate(sent));
    assert_eq!((pair.server().counts().handshake_done, pair.server().srtt()), (Some(at(1150)), None));
    assert_eq!(pair.server().rto(), Span::from_millis(3000));
}

#[test]
fn the_handshake_lasts_the_sum_of_the_doubling_timeouts() {
    for (settings, initial) in [(rfc(json!({})), 1), (ns2(json!({})), 3)] {
        for lost in 0..4 {
            let names = ["> SYN", "> SYN again", "> SYN again", "> SYN again"];
            let pair = exchange(settings.clone(), 1, &names[..lost]);
            let expected = initial * ((1 << lost) - 1) * 1000 + 100;
            assert_eq!(pair.client().counts().handshake_done, Some(at(expected)), "{lost} lost");
        }
    }
}

#[test]
fn after_a_lost_syn_the_first_data_waits_three_seconds_by_rfc_6298() {
    let pair = exchange(rfc(json!({})), 1, &["> SYN", "> 1 FIN"]);
    assert_eq!(sent_at(&pair, 4100), ["1 FIN again"]);
}

#[test]
fn after_a_lost_syn_ns_2_keeps_the_backed_off_timeout_and_a_threshold_of_two() {
    let mut pair = Pair::one_way(ns2(json!({})), 100 * MSS);
    let mut path = Path::losing(&["> SYN", "> 1"]);
    pair.run(at(3200), &mut |sent| path.fate(sent));
    assert_eq!((pair.client().cwnd(), pair.client().ssthresh(), pair.client().backoff()), (1.0, 2.0, 2));
    assert_eq!(pair.client().poll_timeout(), Some(at(9100)));
}

#[test]
fn syn_retries_do_not_count_for_data() {
    // RFC 9293, 3.8.3: "the values of R1 and R2 may be different for SYN and data segments".
    let settings = rfc(json!({ "connection": { "max_retries": 1 } }));
    let pair = exchange(settings, 1, &["> SYN", "> 1 FIN"]);
    assert_eq!((pair.client().counts().timeouts, pair.client().gave_up()), (2, None));
}

#[test]
fn an_endpoint_without_an_answer_gives_up_after_its_retries() {
    let mut pair = Pair::one_way(rfc(json!({})), MSS);
    pair.run(HOUR, &mut |_| vec![]);
    assert_eq!(
        (pair.client().gave_up(), pair.now),
        (Some(FailureReason::NoAnswer), at(183_000)),
        "at least 3 minutes"
    );
    assert_eq!(pair.client().counts().segments_sent, 8);
    // Also a server without an acknowledgement gives up: the client has no data and its acknowledgement is lost.
    let mut pair = Pair::new(rfc(json!({ "connection": { "max_syn_retries": 2 } })));
    pair.run(HOUR, &mut losing(|sent| sent.from == Client && !sent.segment.flags.has(Flags::SYN)));
    assert_eq!((pair.server().gave_up(), pair.now), (Some(FailureReason::NoAnswer), at(50 + 7000)));
}

#[test]
fn ns_2_opens_with_two_segments_and_keeps_no_state_for_the_answer() {
    assert_table(
        &exchange(ns2(json!({})), 4, &["< SYN-ACK"]),
        "0 > SYN
         50 < SYN-ACK lost
         3000 > SYN again
         3050 < SYN-ACK again
         3100 > 1
         3150 < ack 1
         3200 > 2
         3200 > 3
         3250 < ack 2
         3250 < ack 3
         3300 > 4
         3350 < ack 4",
    );
}

#[test]
fn a_transfer_without_data_is_a_syn_and_a_fin() {
    // Until data or the FIN arrives, the server repeats its SYN-ACK.
    assert_table(
        &exchange(rfc(json!({})), 0, &["> FIN"]),
        "0 > SYN
         50 < SYN-ACK
         100 > FIN lost
         1050 < SYN-ACK again
         1100 > ack 0
         1100 > FIN again
         1150 < FIN ack FIN
         1200 > ack FIN",
    );
}

#[test]
fn a_connection_opens_once_and_writes_nothing_after_its_end() {
    let mut pair = exchange(rfc(json!({})), 1, &[]);
    let now = pair.now;
    for end in &mut pair.ends {
        end.open(now);
        end.listen(now);
        end.write(Some(MSS), now);
        end.finish();
        assert!(end.is_done() && end.poll_transmit(now).is_none() && end.poll_timeout().is_none());
    }
}

/// Both endpoints have sent a segment; they close when the test says so.
fn open_pair(settings: Value) -> Pair {
    Pair::new(settings).plan(Client, When::At(0), Act::Write(MSS)).plan(
        Server,
        When::Received(MSS),
        Act::Write(MSS),
    )
}

#[test]
fn a_bare_fin_is_as_long_as_a_syn_and_one_on_data_costs_nothing() {
    let settings = rfc(json!({ "connection": { "header": "52B", "syn_size": "60B" } }));
    for (finish, expected) in [(0, vec![60, 1052, 1052]), (1000, vec![60, 1052, 1052, 60])] {
        let mut pair = Pair::new(settings.clone()).plan(Client, When::At(0), Act::Write(2 * MSS)).plan(
            Client,
            When::At(finish),
            Act::Finish,
        );
        let mut wire = Vec::new();
        pair.run(HOUR, &mut |sent| {
            if sent.from == Client && (sent.has_data() || !sent.name().contains("ack")) {
                wire.push(sent.segment.wire);
            }
            arrives()
        });
        assert_eq!(wire, expected, "closed at {finish} ms");
    }
}

#[test]
fn both_ends_may_close_at_once() {
    let closing = || {
        let pair = open_pair(rfc(json!({}))).plan(Client, When::At(300), Act::Finish);
        pair.plan(Server, When::At(300), Act::Finish)
    };
    let pair = closing().over(Path::default());
    assert_part(
        &pair,
        200,
        400,
        "200 > ack 1
         300 > FIN
         300 < FIN
         350 < ack FIN
         350 > ack FIN",
    );
    assert_done(&pair, [1, 1]);
    let pair = closing().over(Path::losing(&["> FIN", "< FIN"]));
    assert_part(
        &pair,
        300,
        2000,
        "300 > FIN lost
         300 < FIN lost
         1300 > FIN again
         1300 < FIN again
         1350 < ack FIN
         1350 > ack FIN",
    );
    assert_done(&pair, [1, 1]);
}

#[test]
fn a_lost_fin_of_either_end_is_retransmitted() {
    let pair = open_pair(rfc(json!({}))).plan(Client, When::At(300), Act::Finish);
    // By then the client's timeout is 2 s, the server's 1 s.
    let pair = pair.over(Path::losing(&["> FIN", "< FIN"]));
    assert_part(
        &pair,
        300,
        9000,
        "300 > FIN lost
         1300 > FIN again
         1350 < FIN ack FIN lost
         2350 < FIN again
         2400 > ack FIN",
    );
    assert_done(&pair, [1, 1]);
}

#[test]
fn a_lost_last_acknowledgement_is_repeated() {
    // Both copies of the FIN are acknowledged, the second from TIME-WAIT, by an endpoint that has already finished.
    let pair = exchange(rfc(json!({})), 1, &["> ack FIN"]);
    assert_table(
        &pair,
        "0 > SYN
         50 < SYN-ACK
         100 > 1 FIN
         150 < FIN ack FIN
         200 > ack FIN lost
         1150 < FIN again
         1200 > ack FIN",
    );
    let pair = exchange(rfc(json!({})), 1, &["> ack FIN", "> ack FIN", "> ack FIN"]);
    assert_eq!(pair.server().counts().retransmitted, 3);
}

#[test]
fn without_a_fin_each_end_is_done_when_its_data_is_acknowledged() {
    let pair = open_pair(rfc(json!({ "connection": { "close": "none" } })))
        .plan(Client, When::Received(MSS), Act::Finish)
        .plan(Server, When::Received(MSS), Act::Finish)
        .over(Path::default());
    assert_part(
        &pair,
        100,
        500,
        "100 > 1
         150 < 1 ack 1
         200 > ack 1",
    );
    assert_done(&pair, [1, 1]);
}

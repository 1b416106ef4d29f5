//! Marks instead of losses with a manual clock: echoes and the sender's responses.
//!
//! The path has a delay of 50 ms in each direction and no transmission time. In the tables `ECT` is an ECN-capable
//! packet, `ECE` and `CWR` are the bits of the TCP header. The profile is `rfc` with immediate acknowledgements.

use crate::pair::*;
use aqm_net::Ecn;
use aqm_tcp::Flags;
use serde_json::{Value, json};

const ALL: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "rack"];

fn ecn(more: Value) -> Value {
    rfc(over(json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 8 } }), more))
}

/// Both endpoints write a segment; routers mark all ECN-capable packets.
fn agreed(client: Value, server: Value) -> Pair {
    let mut pair = Pair::between(rfc(client), rfc(server))
        .plan(Client, When::At(0), Act::Write(MSS))
        .plan(Server, When::Received(MSS), Act::Write(MSS))
        .plan(Client, When::Received(MSS), Act::Finish);
    pair.run(HOUR, &mut |_| vec![Copy { after: ONE_WAY, marked: true }]);
    assert_done(&pair, [1, 1]);
    pair
}

#[test]
fn ecn_needs_both_ends() {
    let (on, off) = (json!({ "ecn": { "mode": "on" } }), json!({ "ecn": { "mode": "off" } }));
    assert_table(
        &agreed(on.clone(), on.clone()),
        "0 > SYN ECE CWR marked
         50 < SYN-ACK ECE marked
         100 > 1 ECT marked
         150 < 1 ack 1 ECE ECT marked
         200 > FIN ack 1 ECE marked
         250 < FIN ack FIN ECE marked
         300 > ack FIN ECE marked",
    );
    let client_only = agreed(on.clone(), off.clone());
    assert_part(
        &client_only,
        0,
        150,
        "0 > SYN ECE CWR marked
         50 < SYN-ACK marked
         100 > 1 marked
         150 < 1 ack 1 marked",
    );
    for (client, server) in [(off.clone(), on), (off.clone(), off)] {
        let pair = agreed(client, server);
        let words = ["ECE", "CWR", "ECT"];
        assert!(pair.log.iter().all(|line| words.iter().all(|word| !line.contains(word))), "{:?}", pair.log);
        assert_eq!(pair.client().cwnd(), 10.0, "nothing was marked");
    }
}

#[test]
fn a_retransmitted_syn_still_requests_ecn() {
    // The fifth case: negotiation after a loss.
    let pair = transfer(ecn(json!({})), 2, Path::losing(&["> SYN", "< SYN-ACK"]).and_marking(&["> 1"]));
    assert_eq!(between(&pair, 1000, 1000), ["> SYN again ECE CWR"]);
    assert!(pair.log.iter().any(|line| line.ends_with("< SYN-ACK again ECE")), "{:?}", pair.log);
    assert_eq!(pair.client().counts().mark_reductions, 1);
}

#[test]
fn only_data_sent_for_the_first_time_may_be_marked() {
    for recovery in ALL {
        let mut path = Path::losing(&["> SYN", "> 2", "> 5", "> 20 FIN", "< FIN"]);
        let mut pair = Pair::one_way(ecn(json!({ "recovery": { "kind": recovery } })), 20 * MSS);
        let (mut may, mut may_not) = (0, 0);
        pair.run(HOUR, &mut |sent| {
            let flags = sent.segment.flags;
            let new = sent.has_data() && !flags.has(Flags::RETRANSMISSION);
            assert_eq!(sent.segment.ecn == Ecn::Ect0, new, "{recovery}: {}", sent.name());
            *(if new { &mut may } else { &mut may_not }) += 1;
            path.fate(sent)
        });
        assert!(may == 20 && may_not > 20, "{may} {may_not}");
    }
}

#[test]
fn a_mark_is_echoed_until_the_window_was_reduced() {
    // The first acknowledgement releases 9 and 10. The second finds 8 in flight, so the window is 4; the seventh
    // releases 11, which carries CWR and ends the echo.
    let pair = transfer(ecn(json!({ "connection": { "close": "none" } })), 20, Path::marking(&["> 2"]));
    assert_part(
        &pair,
        150,
        250,
        "150 < ack 1
         150 < ack 2 ECE
         150 < ack 3 ECE
         150 < ack 4 ECE
         150 < ack 5 ECE
         150 < ack 6 ECE
         150 < ack 7 ECE
         150 < ack 8 ECE
         200 > 9 ECT
         200 > 10 ECT
         200 > 11 CWR ECT
         200 > 12 ECT
         250 < ack 9 ECE
         250 < ack 10 ECE
         250 < ack 11
         250 < ack 12",
    );
    assert_eq!(pair.client().counts().mark_reductions, 1);
}

#[test]
fn an_acknowledgement_with_an_echo_opens_no_window() {
    let mut pair = Pair::endless(ecn(json!({})));
    let mut path = Path::marking(&["> 2"]);
    pair.run(at(210), &mut |sent| path.fate(sent));
    assert_eq!((pair.client().cwnd(), pair.client().ssthresh()), (4.0, 4.0));
    pair.run(at(310), &mut |_| arrives());
    // 9 and 10 trigger an echo, 11 and 12 do not: two acknowledgements for a window of 4.
    assert!(pair.client().cwnd() > 4.25 && pair.client().cwnd() < 4.5, "{}", pair.client().cwnd());
}

#[test]
fn several_marks_in_a_window_reduce_it_once_and_a_mark_in_the_next_window_again() {
    for recovery in ALL {
        let settings = ecn(json!({ "recovery": { "kind": recovery } }));
        let pair = transfer(settings.clone(), 30, Path::marking(&["> 2", "> 3", "> 7", "> 10"]));
        let client = pair.client();
        assert_eq!((client.counts().mark_reductions, client.ssthresh()), (1, 4.0), "{recovery}");
        let pair = transfer(settings, 30, Path::marking(&["> 2", "> 13"]));
        assert_eq!(
            (pair.client().counts().mark_reductions, pair.client().ssthresh()),
            (2, 2.0),
            "{recovery}"
        );
    }
}

#[test]
fn a_loss_and_a_mark_in_one_window_reduce_it_once() {
    for recovery in ALL {
        for (lost, marked) in [("> 5", "> 2"), ("> 2", "> 5"), ("> 2", "> 8")] {
            let settings = ecn(json!({ "recovery": { "kind": recovery } }));
            let pair = transfer(settings, 40, Path::losing(&[lost]).and_marking(&[marked]));
            let client = pair.client();
            // Half of 8 in flight, or of 9 if the loss is detected after an acknowledgement.
            let ssthresh = client.ssthresh();
            let case =
                format!("{recovery}, {lost} lost, {marked} marked: {ssthresh}\n{}", pair.log.join("\n"));
            assert!((3.5..=4.5).contains(&ssthresh), "{case}");
            assert_eq!(client.counts().fast_retransmits, 1, "{case}");
            // The echo ends with the first new data after the reduction.
            assert_eq!(pair.log.iter().filter(|line| line.contains("CWR ECT")).count(), 1, "{case}");
        }
    }
}

#[test]
fn a_loss_counts_where_no_router_marks() {
    for control in without_model() {
        for recovery in ["reno", "newreno", "sack", "rack"] {
            let end = |ecn| {
                let settings = json!({
                    "recovery": { "kind": recovery }, "congestion_control": { "kind": control },
                    "ecn": { "mode": ecn },
                });
                let pair = exchange(rfc(settings), 40, &["> 2"]);
                assert_eq!(pair.client().counts().mark_reductions, 0);
                (pair.client().ssthresh(), pair.client().counts().fast_retransmits, pair.now)
            };
            assert_eq!(end("on"), end("off"), "{control} {recovery}");
            assert!(end("on").0 < 10.0 && end("on").1 == 1, "{control} {recovery}: {:?}", end("on"));
        }
    }
}

#[test]
fn a_reduction_after_a_timeout_is_reported_too() {
    // The mark of 2 reduces the window, the timeout again; the echo of data sent before does not.
    let path = Path::marking(&["> 2"]).and_losing(&["> 3", "> 4", "> 5", "> 6"]);
    let pair = transfer(ecn(json!({ "cwnd": { "initial": 4 } })), 20, path);
    let counts = pair.client().counts();
    assert_eq!((counts.mark_reductions, counts.timeouts), (1, 1), "{}", pair.log.join("\n"));
    let reports: Vec<&String> = pair.log.iter().filter(|line| line.contains("CWR ECT")).collect();
    assert_eq!(reports.len(), 1, "{}", pair.log.join("\n"));
}

#[test]
fn a_lost_report_of_a_reduction_is_a_loss_and_ends_the_echo_later() {
    let pair =
        transfer(ecn(json!({ "cwnd": { "initial": 4 } })), 40, Path::marking(&["> 2"]).and_losing(&["> 7"]));
    let log = pair.log.join("\n");
    assert!(log.contains("> 7 CWR ECT lost"), "{log}");
    assert_eq!(pair.client().counts().mark_reductions, 1, "{log}");
    assert!(pair.log.iter().rev().take(6).all(|line| !line.contains("ECE")), "{log}");
}

#[test]
fn marks_never_close_the_window_below_its_floor_nor_open_a_window_of_one() {
    let settle = |initial_window| {
        let mut pair = Pair::endless(ecn(json!({ "cwnd": { "initial": initial_window } })));
        pair.run(at(5000), &mut |sent| vec![Copy { after: ONE_WAY, marked: sent.from == Client }]);
        (pair.client().cwnd(), pair.server().received() / MSS)
    };
    assert_eq!(settle(8).0, 2.0);
    let (window, segments) = settle(1);
    assert_eq!((window, segments), (1.0, 49), "one a round trip");
}

/// Linux' response to marks.
fn linux(more: Value) -> Value {
    ecn(over(
        json!({
            "ecn": { "response": "linux" }, "recovery": { "kind": "rack", "reduction": "prr", "prr_share": "window" },
        }),
        more,
    ))
}

#[test]
fn in_linux_a_mark_reduces_the_window_gradually_without_growth() {
    let mut pair = Pair::endless(linux(json!({})));
    let mut path = Path::marking(&["> 2"]);
    pair.run(at(460), &mut |sent| path.fate(sent));
    // The second acknowledgement finds a window of 9. The first segment after it carries CWR; of the seven
    // acknowledgements with an echo every second releases another.
    let sent: Vec<usize> = [100, 200, 300, 400].map(|time| sent_at(&pair, time).len()).into();
    assert_eq!(sent, [8, 6, 4, 5], "{}", pair.log.join("\n"));
    assert_eq!(sent_at(&pair, 200)[2], "11 CWR ECT");
    assert_eq!((pair.client().ssthresh(), pair.client().counts().mark_reductions), (4.0, 1));
}

#[test]
fn in_linux_a_loss_during_a_reduction_by_a_mark_reduces_no_further() {
    let run = |lost: &[&str]| {
        let pair = transfer(linux(json!({})), 60, Path::marking(&["> 2"]).and_losing(lost));
        let counts = pair.client().counts();
        (pair.client().ssthresh(), counts.mark_reductions, counts.fast_retransmits, counts.timeouts)
    };
    assert_eq!(run(&[]), (4.0, 1, 0, 0));
    assert_eq!(run(&["> 5"]), (4.0, 1, 1, 0));
    assert_eq!(run(&["> 9"]), (4.0, 1, 1, 0));
}

#[test]
fn in_linux_an_echo_that_continues_after_a_timeout_does_not_keep_the_window_at_one() {
    // All segments with CWR are lost, so that the echo continues until new data is sent.
    let lost = ["> 3", "> 4", "> 5", "> 6", "> 7", "> 8", "> 9", "> 10", "> 11", "> 12", "> 13", "> 14"];
    let end = |settings| {
        let pair = transfer(settings, 30, Path::marking(&["> 2"]).and_losing(&lost));
        assert_eq!(pair.client().counts().mark_reductions, 1, "{}", pair.log.join("\n"));
        pair.now
    };
    assert!(end(linux(json!({}))) < at(3000));
    let rack = json!({ "recovery": { "kind": "rack" } });
    assert!(
        end(ecn(rack)) > at(10_000),
        "by RFC 3168 each round trip brings one segment, as long as it lasts"
    );
}

#[test]
fn ns_2_s_full_tcp_halves_a_window_of_one_and_waits_for_its_timer() {
    let mut pair = Pair::endless(full_tcp(json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 1 } })));
    let mut path = Path::marking(&["> 1"]);
    pair.run(at(700), &mut |sent| path.fate(sent));
    // Two round trips of ten ticks make a timeout of 250 ms from 200 ms on; an idle connection has its initial window
    // again.
    assert_part(
        &pair,
        150,
        600,
        "150 < ack 1 ECE
         450 > 2 CWR ECT
         500 < ack 2
         550 > 3 ECT
         550 > 4 ECT
         600 < ack 3
         600 < ack 4",
    );
    assert_eq!(pair.client().counts().timeouts, 1);
}

#[test]
fn ns_2_s_full_tcp_ignores_echoes_in_duplicates_and_sends_ecn_capable_retransmissions() {
    let settings = full_tcp(json!({ "ecn": { "mode": "on" }, "cwnd": { "initial": 8 } }));
    let pair = transfer(settings, 8, Path::losing(&["> 1"]).and_marking(&["> 2", "> 1 again"]));
    let again = pair.log.iter().find(|line| line.contains("> 1 again")).unwrap();
    assert!(again.contains("CWR ECT marked"), "{again}");
    assert_eq!(pair.client().counts().mark_reductions, 0, "a loss reduced the window that was marked");
    assert_eq!(pair.client().ssthresh(), 4.0);
}

#[test]
fn marks_in_both_directions_are_echoed_apart() {
    let mut pair = Pair::new(ecn(json!({})))
        .plan(Client, When::At(0), Act::Write(30 * MSS))
        .plan(Server, When::At(0), Act::Write(30 * MSS))
        .plan(Client, When::Received(30 * MSS), Act::Finish);
    let mut path = Path::marking(&["> 3"]);
    pair.run(HOUR, &mut |sent| path.fate(sent));
    assert_done(&pair, [30, 30]);
    assert_eq!((pair.client().counts().mark_reductions, pair.server().counts().mark_reductions), (1, 0));
}

#[test]
fn without_a_handshake_there_is_nothing_to_agree_on() {
    let settings = ecn(json!({ "connection": { "handshake": "none" } }));
    let pair = transfer(settings, 20, Path::marking(&["> 2"]));
    assert_eq!(pair.client().counts().mark_reductions, 1);
}

#[test]
fn with_abe_a_mark_leaves_more_of_the_window_and_a_loss_as_much() {
    // RFC 8511, 3.1: 0.8 instead of 0.5 with Reno, 0.85 instead of 0.7 with CUBIC.
    for (kind, beta_ecn, beta) in [("reno", 0.8, 0.5), ("cubic", 0.85, 0.7)] {
        let ssthresh = |beta_ecn: Value, path: Path| {
            let settings = json!({
                "congestion_control": { "kind": kind, "beta_ecn": beta_ecn }, "recovery": { "kind": "sack" },
            });
            transfer(ecn(settings), 40, path).client().ssthresh()
        };
        let both =
            |path: fn() -> Path| [json!(beta_ecn), Value::Null].map(|beta_ecn| ssthresh(beta_ecn, path()));
        let [with, without] = both(|| Path::marking(&["> 5"]));
        assert!((with / without - beta_ecn / beta).abs() < 1e-9, "{kind}: {with} and {without}");
        let [with, without] = both(|| Path::losing(&["> 5"]));
        assert_eq!(with, without, "{kind}");
    }
}

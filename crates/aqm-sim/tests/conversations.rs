//! Conversations over a network: the times at which each end sends, the delays at the ends, and the rows in the tables.

use crate::common::{maybe_real, maybe_whole, nanos, real, run, table, truth, whole, words};
use aqm_net::level::Run;
use aqm_net::{Instant, Rate, Size, Span, Streams};
use aqm_traffic::recording;
use aqm_traffic::{BuildContext, Config, Conversation, Exchange, Packetisation};
use serde_json::{Value, json};

const SECONDS: u64 = 60;
const PAYLOAD: u64 = 1460;

/// Returns the conversations that the workload `name` of a scenario opens, with their times.
fn asked(name: &str, table: &Value, seed: u64) -> Vec<(Instant, Conversation)> {
    struct Bytes;
    impl Packetisation for Bytes {
        fn wire_bytes(&self, bytes: u64) -> u64 {
            bytes
        }
        fn payload(&self) -> u64 {
            PAYLOAD
        }
    }
    let context = BuildContext {
        name,
        streams: Streams::new(seed),
        rate: Rate::from_bps(10_000_000),
        duration: Span::from_millis(SECONDS * 1000),
        packetisation: &Bytes,
        link_header: Size::from_bytes(0),
        file: None,
    };
    let mut workload = Config::read(table.clone()).unwrap().build(&context).unwrap();
    recording::run(&mut *workload).conversations
}

/// Runs a workload over a loss-free link in each direction, with a delay of 1 ms including its access links and
/// negligible transmission times.
fn fast(workload: &Value) -> Run {
    let link = |from: &str, to: &str| json!({ "from": from, "to": to, "rate": "1000Gbps", "delay": "600us", "queue": { "kind": "drop-tail", "limit": "100000p" } });
    let with = |from: &str, to: &str| {
        let mut workload = workload.clone();
        workload["from"] = from.into();
        workload["to"] = to.into();
        workload
    };
    run(json!({
        "duration": format!("{SECONDS}s"),
        "host": { "jitter": "0s" },
        "access": { "rate": "1000Gbps", "delay": "200us" },
        "tcp": { "connection": { "mss": format!("{PAYLOAD}B") } },
        "links": { "there": link("left", "right"), "back": link("right", "left") },
        "traffic": { "one": with("left", "right"), "other": with("right", "left") },
    }))
}

const ONE_WAY: Span = Span::from_millis(1);

/// Returns the round-trip time of this conversation.
fn round_trip(conversation: &Conversation) -> u64 {
    2 * (ONE_WAY + conversation.client_delay + conversation.server_delay).nanos()
}

fn small(exchange: &Exchange) -> bool {
    exchange.request <= PAYLOAD && exchange.response <= PAYLOAD
}

/// Returns the row numbers of the exchanges of each conversation, in order of opening.
fn rows_of(found: &Run, name: &str) -> Vec<Vec<usize>> {
    let (flows, traffic) = (whole(found, "transfers.flow"), words(found, "transfers.traffic"));
    let rows: Vec<usize> = (0..flows.len()).filter(|&row| traffic[row] == name).collect();
    rows.chunk_by(|&a, &b| flows[a] == flows[b]).map(<[usize]>::to_vec).collect()
}

#[test]
fn an_exchange_takes_its_round_trips_and_what_the_server_takes() {
    let workload = json!({ "kind": "packmime", "connections_per_second": 50.0 });
    let found = fast(&workload);
    for name in ["one", "other"] {
        let (asked, rows) = (asked(name, &workload, 1), rows_of(&found, name));
        let mut seen = 0;
        assert!(asked.len() > 2000);
        for ((at, conversation), rows) in asked.iter().zip(&rows) {
            let row = rows[0];
            assert_eq!(nanos(real(&found, "transfers.start_s")[row]), at.nanos());
            assert_eq!(whole(&found, "transfers.size_bytes")[row], conversation.first.response);
            let Some(duration) = maybe_real(&found, "transfers.duration_s")[row].map(nanos) else { continue };
            // One round trip for the handshake, and one for the exchange.
            let least = 2 * round_trip(conversation) + conversation.first.think.nanos();
            if small(&conversation.first) {
                assert!((least..least + 5000).contains(&duration), "{duration} {least}");
                seen += 1;
            } else {
                assert!(duration >= least, "{duration} {least}");
            }
        }
        assert!(seen > 1000);
        // Only the last few exchanges are incomplete.
        let late = asked.iter().filter(|(at, _)| at.seconds() > SECONDS as f64 - 12.0).count();
        assert!(rows.len() + late >= asked.len());
    }
}

#[test]
fn on_a_persistent_connection_the_client_pauses_and_asks_again() {
    let workload = json!({ "kind": "packmime", "connections_per_second": 200.0, "http": "1.1" });
    let found = fast(&workload);
    let [start, duration] = [
        real(&found, "transfers.start_s").to_vec(),
        maybe_real(&found, "transfers.duration_s").iter().map(|it| it.unwrap_or(f64::NAN)).collect(),
    ];
    let (mut pauses, mut seen) = (0, 0);
    for name in ["one", "other"] {
        for ((_, conversation), rows) in asked(name, &workload, 1).iter().zip(&rows_of(&found, name)) {
            let exchanges: Vec<&Exchange> =
                std::iter::once(&conversation.first).chain(&conversation.rest).collect();
            assert!(rows.len() <= exchanges.len());
            for (index, (&row, exchange)) in rows.iter().zip(&exchanges).enumerate() {
                assert_eq!(whole(&found, "transfers.size_bytes")[row], exchange.response);
                if index == 0 {
                    continue;
                }
                assert_eq!(maybe_real(&found, "transfers.handshake_s")[row], None);
                if duration[row].is_nan() {
                    continue;
                }
                let before = rows[index - 1];
                let pause = nanos(start[row]) as i64 - nanos(start[before] + duration[before]) as i64;
                assert!((pause - exchange.pause.nanos() as i64).abs() <= 2, "{pause} {exchange:?}");
                pauses += 1;
                if small(exchange) {
                    let least = round_trip(conversation) + exchange.think.nanos();
                    assert!(
                        (least..least + 5000).contains(&nanos(duration[row])),
                        "{} {least}",
                        duration[row]
                    );
                    seen += 1;
                }
            }
        }
    }
    assert!(pauses > 2000 && seen > 500, "{pauses} {seen}");
}

#[test]
fn a_connection_carries_all_its_exchanges_and_closes_after_the_last() {
    let workload =
        json!({ "kind": "packmime", "connections_per_second": 100.0, "http": "1.1", "stop": "20s" });
    let found = fast(&workload);
    for name in ["one", "other"] {
        let (asked, rows) = (asked(name, &workload, 1), rows_of(&found, name));
        assert_eq!(rows.len(), asked.len());
        let complete = truth(&found, "transfers.complete");
        for ((_, conversation), rows) in asked.iter().zip(&rows) {
            let flow = whole(&found, "transfers.flow")[rows[0]] as usize;
            let all: u64 =
                conversation.rest.iter().map(|it| it.response).sum::<u64>() + conversation.first.response;
            assert_eq!(maybe_whole(&found, "flows.size_bytes")[flow], Some(all));
            let over = rows.len() == 1 + conversation.rest.len() && rows.iter().all(|&row| complete[row]);
            if over {
                assert_eq!(whole(&found, "flows.delivered_bytes")[flow], all);
            }
            assert_eq!(maybe_real(&found, "flows.end_s")[flow].is_some(), over, "{conversation:?}");
        }
        let over = rows.iter().filter(|rows| rows.iter().all(|&row| complete[row])).count();
        assert!(over as f64 > 0.99 * rows.len() as f64);
    }
    // Counts of a transfer exclude the other transfers on its connection.
    let (sent, in_all) = (whole(&found, "transfers.packets_sent"), whole(&found, "flows.packets_sent"));
    assert!(sent.iter().sum::<u64>() <= in_all.iter().sum::<u64>());
    assert!(table(&found, "transfers").columns.iter().any(|(name, _)| *name == "packets_sent"));
}

#[test]
fn a_queue_changes_no_conversation() {
    let with = |queue: Value| {
        let link = |from: &str, to: &str| json!({ "from": from, "to": to, "rate": "10Mbps", "delay": "1ms", "queue": queue });
        let one = |from: &str, to: &str| json!({ "kind": "packmime", "connections_per_second": 130.0, "from": from, "to": to });
        run(json!({
            "duration": "30s",
            "links": { "there": link("left", "right"), "back": link("right", "left") },
            "traffic": { "one": one("left", "right"), "other": one("right", "left") },
        }))
    };
    let small = with(json!({ "kind": "drop-tail", "limit": "30p" }));
    let large = with(json!({ "kind": "red", "min_th": "20p", "max_th": "60p", "limit": "500p" }));
    for column in ["transfers.flow", "transfers.size_bytes"] {
        assert_eq!(whole(&small, column), whole(&large, column));
    }
    assert_eq!(real(&small, "transfers.start_s"), real(&large, "transfers.start_s"));
    assert_ne!(maybe_real(&small, "transfers.duration_s"), maybe_real(&large, "transfers.duration_s"));
    assert!(whole(&small, "links.drops").iter().all(|&drops| drops > 100));
}

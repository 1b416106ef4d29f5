use aqm_net::Ecn;
use aqm_net::level::Files;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use aqm_sim::emulation::{Contents, Side};
use aqm_tcp::Flags;

use super::tables::{table, whole, words};
use super::*;
use crate::pcap::testing::{Block, read, tcpdump, temporary, tshark};
use crate::router::connections::Connections;
use crate::router::ip::parse;

const SCENARIO: &str = r#"
duration = "12s"
seed = 3
[bottleneck]
rate = "1Mbps"
delay = "20ms"
queue = { kind = "red", min_th = "5p", max_th = "15p", max_p = 0.1, weight = 0.02, limit = "20p", ecn = "unless-forced" }
[record]
packets = ["bottleneck"]
histories = ["bulk"]
drops = true
queue_every = "100ms"
[tcp.recovery]
kind = "sack"
[traffic.bulk]
kind = "ftp"
flows = 2
stagger = "100ms"
[traffic.video]
kind = "udp"
rate = "200kbps"
sizes = { kind = "constant", value = "500B" }
[traffic.objects]
kind = "ftp"
tcp = { ecn = { mode = "on" } }
flows = 3
sizes = { kind = "constant", value = "40kB" }
"#;

fn tables(text: &str) -> Vec<Table> {
    let plan = Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
    plan.run(&Watch::default()).unwrap().tables
}

/// Returns the packet with its payload, which is left out in the file.
fn whole_packet(block: &Block) -> Vec<u8> {
    let mut bytes = block.bytes.clone();
    bytes.resize(block.length as usize, 0);
    bytes
}

#[test]
fn every_packet_of_a_traced_link_is_written_with_its_numbers_and_its_drop() {
    let tables = tables(SCENARIO);
    let path = temporary("simulated");
    let written = write_simulated(&tables, &[], std::fs::File::create(&path).unwrap()).unwrap();
    let (names, packets) = read(&path);
    assert_eq!(names, ["bottleneck"]);
    assert_eq!(packets.len() as u64, written);
    if let Some(lines) = tcpdump(&path) {
        assert_eq!(lines.iter().filter(|line| line.contains(" IP 10.")).count() as u64, written);
    }
    let rows = rows(&tables).unwrap();
    let at_link: Vec<&Row> = rows
        .iter()
        .filter(|row| matches!(row.event, Event::Start | Event::Drop) && row.point == CapturePoint::Link(0))
        .collect();
    let blocks_at_link: Vec<&Block> = packets.iter().filter(|block| block.interface == 0).collect();
    assert_eq!(blocks_at_link.len(), at_link.len());
    assert!(blocks_at_link.len() > 800, "{}", blocks_at_link.len());
    let mut connections = Connections::new();
    let (mut flows, mut flags, mut marked) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (block, row) in blocks_at_link.iter().zip(&at_link) {
        assert_eq!((block.nanos, u64::from(block.length)), (Span::from_seconds(row.time).nanos(), row.size));
        assert_eq!(block.comment.is_some(), row.event == Event::Drop);
        let headers = parse(&whole_packet(block)).unwrap();
        let [.., workload, _, _] = headers.source.octets();
        assert_eq!(u32::from(workload), 1 + 2 * row.traffic);
        let packet_flow = connections.identify(&headers, (row.traffic, Side::Sender), |opening| {
            assert_eq!(opening.connection, !row.datagram);
            row.flow as u32
        });
        assert_eq!(u64::from(packet_flow.flow), row.flow);
        *flows.entry(packet_flow.key).or_insert(row.flow) = row.flow;
        match packet_flow.contents {
            Contents::Segment(segment) => {
                assert_eq!((segment.seq, u64::from(segment.len)), (row.sequence, row.payload));
                let crate::router::ip::Transport::Tcp(tcp) = headers.transport else { panic!("{headers:?}") };
                assert_eq!(row.ack.map(|ack| ack as u32 + 1), tcp.flags.has(Flags::ACK).then_some(tcp.ack));
                for (bit, flag) in
                    [(FIN, Flags::FIN), (SYN, Flags::SYN), (ECE, Flags::ECE), (CWR, Flags::CWR)]
                {
                    assert_eq!(row.flags & bit != 0, tcp.flags.has(flag), "{row:?}");
                    *flags.entry(bit).or_insert(0) += u32::from(tcp.flags.has(flag));
                }
                marked += u32::from(headers.ecn == Ecn::Ce);
            }
            Contents::Datagram => assert!(row.datagram),
            Contents::Reset => panic!("no connection is reset"),
        }
    }
    assert_eq!(flows.len(), 6);
    assert!(flags.values().all(|&count| count > 0) && flags[&FIN] >= 3 && marked > 0, "{flags:?} {marked}");
    let comments: Vec<&str> = blocks_at_link.iter().filter_map(|block| block.comment.as_deref()).collect();
    let drops = whole(table(&tables, "drops").unwrap(), "flow").unwrap();
    assert_eq!(comments.len(), drops.len());
    assert!(comments.iter().any(|text| text.starts_with("dropped: early, queue bottleneck, average ")));
    assert!(comments.iter().all(|text| text.ends_with(" packets")), "{comments:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_history_shows_retransmissions_and_acknowledgements_at_its_ends() {
    let tables = tables(SCENARIO);
    let path = temporary("history");
    let interfaces_shown = ["bulk sender".to_owned()];
    write_simulated(&tables, &interfaces_shown, std::fs::File::create(&path).unwrap()).unwrap();
    let (names, packets) = read(&path);
    assert_eq!(names, interfaces_shown);
    let rows = rows(&tables).unwrap();
    let at_sender = CapturePoint::End(0, true);
    let acks: Vec<&Row> =
        rows.iter().filter(|row| row.point == at_sender && row.event == Event::Acknowledge).collect();
    let headers_of_acks: Vec<_> = packets
        .iter()
        .map(|block| parse(&whole_packet(block)).unwrap())
        .filter(|headers| headers.source.octets()[1] == 2)
        .collect();
    assert_eq!(headers_of_acks.len(), acks.len());
    let mut blocks = 0;
    for (headers, row) in headers_of_acks.iter().zip(&acks) {
        let crate::router::ip::Transport::Tcp(tcp) = headers.transport else { panic!("{headers:?}") };
        assert_eq!(u64::from(tcp.ack), row.sequence + 1);
        blocks += tcp.sacks.ranges().count();
    }
    let sack_rows = rows.iter().filter(|row| row.event == Event::Sack).count();
    assert!(sack_rows > 0 && blocks == sack_rows, "{blocks} of {sack_rows}");
    let fields = ["tcp.stream", "tcp.seq"];
    let again = "tcp.analysis.retransmission";
    if let Some(lines) = tshark(&path, again, &fields) {
        let (event, words) = words(table(&tables, "packets").unwrap(), "event").unwrap();
        let code = words.iter().position(|word| word == "retransmit").map(|at| at as u32);
        let again = event.iter().filter(|&&event| event == code).count();
        assert!(again > 5 && lines.len().abs_diff(again) <= again / 5, "{} of {again}", lines.len());
        assert_eq!(tshark(&path, "_ws.malformed", &fields).unwrap().len(), 0);
        let opened = tshark(&path, "tcp.flags.syn == 1", &["tcp.stream", "tcp.flags"]);
        let opened: BTreeSet<String> = opened.unwrap().into_iter().collect();
        assert_eq!(opened.len(), 4, "each flow has a SYN and its answer: {opened:?}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_error_for_a_run_without_packets_contains_a_remedy() {
    let text = SCENARIO.replace("packets = [\"bottleneck\"]", "").replace("histories = [\"bulk\"]", "");
    let error = write_simulated(&tables(&text), &[], Vec::new()).unwrap_err();
    assert!(error.what.contains("`record.packets`"), "{error}");
    let error = write_simulated(&[], &[], Vec::new()).unwrap_err();
    assert!(error.what.contains("`flows` is missing"), "{error}");
}

#[test]
fn packets_are_shown_at_the_chosen_interfaces() {
    let all = tables(SCENARIO);
    let names = |tables: &[Table], interfaces_shown: &[&str]| {
        let interfaces_shown: Vec<String> = interfaces_shown.iter().map(|&name| name.to_owned()).collect();
        let path = temporary("reasons");
        write_simulated(tables, &interfaces_shown, std::fs::File::create(&path).unwrap()).map(|written| {
            let (names, packets) = read(&path);
            assert_eq!(packets.len() as u64, written);
            std::fs::remove_file(path).unwrap();
            names
        })
    };
    let both = ["bottleneck", "bulk receiver"];
    assert_eq!(names(&all, &both).unwrap(), both);
    let error = names(&all, &["web sender"]).unwrap_err().what;
    assert!(error.ends_with("at `web sender`; available: bottleneck, bulk receiver, bulk sender"), "{error}");
    let ends_only = tables(&SCENARIO.replace("packets = [\"bottleneck\"]", ""));
    assert_eq!(names(&ends_only, &[]).unwrap(), ["bulk sender"]);
    assert!(names(&ends_only, &["bottleneck"]).is_err(), "only drops were recorded there");
}

#[test]
fn data_after_a_gap_are_counted_when_the_gap_is_filled() {
    let mut data = InOrder::default();
    for (from, to, end) in [(0, 0, 0), (10, 20, 0), (30, 40, 0), (0, 10, 20), (15, 30, 40), (5, 8, 40)] {
        data.add(from, to);
        assert_eq!(data.end, end, "after {from} to {to}");
    }
}

use aqm_net::level::Files;
use aqm_net::watch::Watch;
use aqm_sim::Plan;
use aqm_testing::pcapng::{Block, SCENARIO, read, tcpdump, temporary, tshark};
use etherparse::IpEcn;

use super::tables::{table, whole, words};
use super::*;

fn tables(text: &str) -> Vec<Table> {
    let plan = Plan::of_toml(text, Files::default()).unwrap_or_else(|errors| panic!("{errors}"));
    plan.run(&Watch::default()).unwrap().tables
}

/// The headers of a packet.
struct Headers {
    ip: Ipv4Header,
    transport: Transport,
}

enum Transport {
    Tcp(Box<TcpHeader>),
    Udp(UdpHeader),
}

impl Headers {
    fn of(block: &Block) -> Self {
        let (ip, rest) = Ipv4Header::from_slice(&block.bytes).unwrap();
        let (transport, rest) = match ip.protocol {
            ip_number::TCP => {
                let (tcp, rest) = TcpHeader::from_slice(rest).unwrap();
                (Transport::Tcp(Box::new(tcp)), rest)
            }
            ip_number::UDP => {
                let (udp, rest) = UdpHeader::from_slice(rest).unwrap();
                (Transport::Udp(udp), rest)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((rest, u32::from(ip.total_len)), (&[][..], block.length), "headers without a payload");
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        Self { ip, transport }
    }

    fn tcp(&self) -> &TcpHeader {
        match &self.transport {
            Transport::Tcp(tcp) => tcp,
            Transport::Udp(udp) => panic!("{udp:?}"),
        }
    }
}

#[test]
fn every_packet_of_a_traced_link_is_written_with_its_numbers_and_its_drop() {
    let tables = tables(SCENARIO);
    let path = temporary("simulated");
    let written = write_simulated_to(&path, &tables, &[]).unwrap();
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
    let (mut flows, mut flags, mut marked) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (block, row) in blocks_at_link.iter().zip(&at_link) {
        assert_eq!((block.nanos, u64::from(block.length)), (Span::from_seconds(row.time).nanos(), row.size));
        assert_eq!(block.comment.is_some(), row.event == Event::Drop);
        let headers = Headers::of(block);
        let [_, workload, _, _] = headers.ip.source;
        assert_eq!(u32::from(workload), 1 + 2 * row.traffic);
        let ports = match &headers.transport {
            Transport::Udp(udp) => {
                assert!(row.datagram);
                assert_eq!(u64::from(udp.length), row.size - IP_HEADER as u64);
                [udp.source_port, udp.destination_port]
            }
            Transport::Tcp(tcp) => {
                assert!(!row.datagram);
                let sequence = if tcp.syn { 0 } else { row.sequence as u32 + 1 };
                let payload = row.size - (IP_HEADER + tcp.header_len()) as u64;
                assert_eq!((tcp.sequence_number, payload), (sequence, row.payload));
                assert_eq!(row.ack.map(|ack| ack as u32 + 1), tcp.ack.then_some(tcp.acknowledgment_number));
                for (bit, is_set) in [(FIN, tcp.fin), (SYN, tcp.syn), (ECE, tcp.ece), (CWR, tcp.cwr)] {
                    assert_eq!(row.flags & bit != 0, is_set, "{row:?}");
                    *flags.entry(bit).or_insert(0) += u32::from(is_set);
                }
                assert!(!tcp.rst, "no connection is reset");
                marked += u32::from(headers.ip.ecn == IpEcn::CongestionExperienced);
                [tcp.source_port, tcp.destination_port]
            }
        };
        let connection = (headers.ip.source, headers.ip.destination, ports);
        assert_eq!(*flows.entry(connection).or_insert(row.flow), row.flow);
    }
    assert_eq!(flows.len(), 6);
    assert!(flags.values().all(|&count| count > 0) && flags[&FIN] >= 3 && marked > 0, "{flags:?} {marked}");
    let comments: Vec<&str> = blocks_at_link.iter().filter_map(|block| block.comment.as_deref()).collect();
    let drops = whole(table(&tables, "drops").unwrap(), "flow").unwrap();
    assert_eq!(comments.len(), drops.len());
    assert!(comments.iter().any(|text| text.starts_with("dropped: early, queue bottleneck, average ")));
    assert!(comments.iter().all(|text| text.ends_with(" packets")), "{comments:?}");
}

#[test]
fn a_history_shows_retransmissions_and_acknowledgements_at_its_ends() {
    let tables = tables(SCENARIO);
    let path = temporary("history");
    let interfaces_shown = ["bulk sender".to_owned()];
    write_simulated_to(&path, &tables, &interfaces_shown).unwrap();
    let (names, packets) = read(&path);
    assert_eq!(names, interfaces_shown);
    let rows = rows(&tables).unwrap();
    let at_sender = CapturePoint::End(0, true);
    let acks: Vec<&Row> =
        rows.iter().filter(|row| row.point == at_sender && row.event == Event::Acknowledge).collect();
    let headers_of_acks: Vec<Headers> =
        packets.iter().map(Headers::of).filter(|headers| headers.ip.source[1] == 2).collect();
    assert_eq!(headers_of_acks.len(), acks.len());
    let mut blocks = 0;
    for (headers, row) in headers_of_acks.iter().zip(&acks) {
        let tcp = headers.tcp();
        assert_eq!(u64::from(tcp.acknowledgment_number), row.sequence + 1);
        for option in tcp.options_iterator() {
            if let TcpOptionElement::SelectiveAcknowledgement(_, rest) = option.unwrap() {
                blocks += 1 + rest.iter().flatten().count();
            }
        }
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
}

#[test]
fn the_error_for_a_run_without_packets_contains_a_remedy() {
    let text = SCENARIO.replace("packets = [\"bottleneck\"]", "").replace("histories = [\"bulk\"]", "");
    let error = write_simulated(&tables(&text), &[], Vec::new()).unwrap_err();
    assert!(error.to_string().contains("`record.packets`"), "{error}");
    let error = write_simulated(&[], &[], Vec::new()).unwrap_err();
    assert!(error.to_string().contains("`flows` is missing"), "{error}");
}

#[test]
fn the_error_for_a_file_that_cannot_be_written_contains_its_path() {
    let missing = Path::new("/nowhere/at/all.pcapng");
    let error = write_simulated_to(missing, &tables(SCENARIO), &[]).unwrap_err();
    assert!(error.to_string().starts_with("cannot write /nowhere/at/all.pcapng: "), "{error}");
    assert!(matches!(error, PcapError::File { path, .. } if path == missing));
}

#[test]
fn packets_are_shown_at_the_chosen_interfaces() {
    let all = tables(SCENARIO);
    let names = |tables: &[Table], interfaces_shown: &[&str]| {
        let interfaces_shown: Vec<String> = interfaces_shown.iter().map(|&name| name.to_owned()).collect();
        let path = temporary("interfaces");
        let written = write_simulated_to(&path, tables, &interfaces_shown);
        assert_eq!(path.exists(), written.is_ok(), "no file remains after an error");
        written.map(|written| {
            let (names, packets) = read(&path);
            assert_eq!(packets.len() as u64, written);
            names
        })
    };
    let both = ["bottleneck", "bulk receiver"];
    assert_eq!(names(&all, &both).unwrap(), both);
    let error = names(&all, &["web sender"]).unwrap_err().to_string();
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

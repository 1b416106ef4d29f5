use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use crate::Host;
use crate::testing::{SERVER, Wire, lab_or_skip, lab_with_or_skip, linux, transfer};

/// Returns the payload length of a TCP packet.
fn payload(packet: &[u8]) -> usize {
    packet.len() - 20 - usize::from(packet[32] >> 4) * 4
}

/// Returns the sequence number of a TCP packet.
fn sequence_number(packet: &[u8]) -> &[u8] {
    &packet[24..28]
}

/// Returns the largest receive window, in bytes, that is advertised in the acknowledgements from one end. The first
/// element of `packets` must be the SYN from this end.
fn largest_window(packets: &[Vec<u8>]) -> u32 {
    let window = |packet: &Vec<u8>| u32::from(u16::from_be_bytes([packet[34], packet[35]]));
    let options = &packets[0][40..];
    let scale = options.windows(3).find(|option| option[..2] == [3, 3]).map_or(0, |option| option[2]);
    packets[1..].iter().map(|packet| window(packet) << scale).max().unwrap()
}

#[test]
fn a_transfer_is_complete_and_its_packets_follow_the_plan() {
    let old = linux(json!({
        "connection": {"mss": "536B", "header": "40B", "ack_size": "40B", "syn_size": "52B"},
        "congestion_control": {"kind": "reno"},
        "cwnd": {"initial": 2, "initial_after_syn_loss": 2},
        "recovery": {"undo": "dsack"},
        "rto": {"min": "1s"},
        "receiver": {"window": 30, "delayed_ack": "off"},
        "ecn": {"mode": "on"},
    }));
    let Some(lab) = lab_with_or_skip(&old) else { return };
    let (control, [acks, data]) = transfer(&lab, 300_000);
    assert_eq!(control, "reno");
    let syn = &data[0];
    assert_eq!(syn.len(), 52, "maximum segment size, SACK permitted, window scale");
    assert_eq!(syn[40..44], [2, 4, 2, 24], "536 bytes are announced");
    assert_eq!(syn[33] & 0b1100_0010, 0b1100_0010, "the SYN must request ECN");
    assert_eq!(data.iter().map(|packet| payload(packet)).max(), Some(536));
    let full: BTreeSet<_> =
        data.iter().filter(|packet| payload(packet) == 536).map(|packet| sequence_number(packet)).collect();
    assert_eq!(full.len(), 300_000 / 536, "every segment but the last is full");
    let first = data.iter().find(|packet| payload(packet) > 0).unwrap();
    assert_eq!(first[1] & 0b11, 0b10, "ECT(0)");
    assert!(acks.len() >= full.len(), "each is acknowledged: {}", acks.len());
    assert_eq!(largest_window(&acks) / 536, 30);
}

#[test]
fn the_window_of_a_receiver_is_that_of_the_plan_for_segments_of_any_size() {
    for (mss, window) in [(200, 50), (537, 100), (700, 20), (1000, 44), (1460, 40), (1460, 300)] {
        let config = linux(json!({
            "connection": {"mss": format!("{mss}B"), "header": "40B", "ack_size": "40B", "syn_size": "52B"},
            "recovery": {"undo": "dsack"},
            "receiver": {"window": window},
        }));
        let Some(lab) = lab_with_or_skip(&config) else { return };
        let (_, [acks, _]) = transfer(&lab, 2_000_000);
        assert_eq!(largest_window(&acks) / mss, window, "{mss} B");
    }
}

#[test]
fn todays_linux_sends_with_timestamps_and_cubic() {
    let Some(lab) = lab_or_skip() else { return };
    let (control, [_, data]) = transfer(&lab, 1_000_000);
    assert_eq!(control, "cubic");
    assert_eq!((data[0].len(), data.iter().map(Vec::len).max()), (60, Some(1500)));
    let new: BTreeMap<_, _> = data.iter().map(|packet| (sequence_number(packet), payload(packet))).collect();
    assert!(new.values().sum::<usize>() >= 1_000_000);
}

#[test]
fn the_settings_in_force_are_those_of_the_plan() {
    let changes = json!({
        "congestion_control": {"kind": "reno"},
        "recovery": {"kind": "newreno", "frto": "off", "dupthresh": 5},
        "cwnd": {"idle_restart": "off"},
    });
    let Some(lab) = lab_with_or_skip(&linux(changes)) else { return };
    for host in lab.hosts() {
        let found = host.in_force().unwrap();
        for (name, value) in [
            ("tcp_sack", "0"),
            ("tcp_frto", "0"),
            ("tcp_reordering", "5"),
            ("tcp_slow_start_after_idle", "0"),
            ("ip_local_port_range", "1024 65535"),
        ] {
            assert_eq!(found["sysctls"][format!("ipv4/{name}")], value, "{name}");
        }
        assert_eq!(
            found["route"],
            json!({
                "advmss": 1460, "initcwnd": 10, "initrwnd": null, "window": 14_480_000, "rto_min_ms": 200,
                "congctl": "reno", "ecn": false, "quickack": false,
            })
        );
        assert_eq!(
            found["device"],
            json!({ "mtu": 1500, "txqueuelen": 10_000, "gso_max_segs": 1, "qdisc": "noqueue" })
        );
    }
    let own = fs::read_to_string("/proc/sys/net/ipv4/tcp_reordering").unwrap();
    assert_ne!(own.trim(), "5", "the machine's own TCP must not change");
}

/// Returns the sending times, in seconds, of the first packets from a host. The times are taken from the packets'
/// timestamps option (RFC 7323), in which Linux writes the kernel's clock in milliseconds. The times are therefore not
/// affected by delays that occur before the packets are read.
fn sent_at<const COUNT: usize>(host: &Host) -> [f64; COUNT] {
    let (begun, mut sent, mut packet) = (Instant::now(), Vec::new(), [0; 2000]);
    while sent.len() < COUNT {
        assert!(begun.elapsed() < Duration::from_secs(60), "{sent:?}");
        let mut files = [PollFd::new(host.tun(), PollFlags::POLLIN)];
        poll(&mut files, PollTimeout::from(1000_u16)).unwrap();
        while let Ok(length) = nix::unistd::read(host.tun(), &mut packet) {
            let options = &packet[40..length.min(20 + usize::from(packet[32] >> 4) * 4)];
            let timestamp = options.windows(6).find(|option| option[..2] == [8, 10]).unwrap();
            let millis = u32::from_be_bytes(timestamp[2..].try_into().unwrap());
            sent.push(f64::from(millis) / 1e3);
        }
    }
    sent[..COUNT].try_into().unwrap()
}

/// Returns whether `took` is a plausible duration of a timer that was set to `seconds`. A timer may expire one tick
/// early, or late if other machines use the processor.
fn is_about(took: f64, seconds: f64) -> bool {
    (seconds - 0.05..seconds + 0.7).contains(&took)
}

#[test]
fn a_syn_is_retransmitted_after_one_second_and_two_more() {
    let Some(lab) = lab_or_skip() else { return };
    let client = &lab.hosts()[1];
    let connecting = client.run(|| {
        let address = (SERVER, 80).into();
        TcpStream::connect_timeout(&address, Duration::from_secs(4)).unwrap_err();
    });
    let [first, second, third] = sent_at(client);
    connecting.unwrap().join().unwrap();
    assert!(is_about(second - first, 1.0) && is_about(third - first, 3.0), "{first} {second} {third}");
}

#[test]
fn the_least_rto_is_that_of_the_plan() {
    let plan = linux(json!({"recovery": {"kind": "newreno"}, "rto": {"min": "700ms"}}));
    let Some(lab) = lab_with_or_skip(&plan) else { return };
    let [server, client] = lab.hosts() else { panic!() };
    let wire = Wire::between(lab.hosts());
    let listener = server.run(|| TcpListener::bind((SERVER, 80)).unwrap()).unwrap().join().unwrap();
    let stream = client.run(|| TcpStream::connect((SERVER, 80)).unwrap()).unwrap().join().unwrap();
    let accepted = listener.accept().unwrap();
    wire.finish();
    (&stream).write_all(b"lost").unwrap();
    let [first, second] = sent_at(client);
    assert!(is_about(second - first, 0.7), "{first} {second}");
    drop((stream, accepted));
}

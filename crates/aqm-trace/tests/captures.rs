//! Captures in all formats give the same results, and damaged captures are read up to the damage.

mod common;

use aqm_net::level::{Failure, Run};
use aqm_net::table::digest;
use aqm_testing::{real, whole};
use common::{TestPacket, frame, gzip, packets, pcap, pcapng, pcapng_of, replay, run, scenario, warnings};
use proptest::prelude::*;
use serde_json::json;

fn fine(contents: &[u8]) -> Run {
    let run = replay(contents, json!({})).unwrap();
    assert_eq!(warnings(&run), Vec::<String>::new());
    run
}

/// Returns the error for a file that is rejected.
fn refused(contents: &[u8]) -> String {
    match replay(contents, json!({})) {
        Err(Failure::File(problem)) => problem,
        other => panic!("{:?}", other.err()),
    }
}

fn packets_of(run: &Run) -> u64 {
    whole(run, "summary.packets")[0]
}

#[test]
fn the_same_packets_give_the_same_tables_in_every_form() {
    let packets = packets(3000, 30, 1);
    let plain = fine(&pcap(&packets, false));
    assert_eq!(packets_of(&plain), 3000);
    assert!(whole(&plain, "summary.most_active")[0] > 3);
    for other in [
        pcap(&packets, true),
        pcapng(&packets, false),
        pcapng(&packets, true),
        pcapng_of(&packets, false, 2),
        pcapng_of(&packets, true, 2),
        gzip(&pcap(&packets, false)),
        gzip(&pcapng(&packets, false)),
        // Two members, as created by `cat a.gz b.gz`.
        [gzip(&pcap(&packets, false)[..5000]), gzip(&pcap(&packets, false)[5000..])].concat(),
    ] {
        assert_eq!(digest(&fine(&other).tables), digest(&plain.tables));
    }
}

#[test]
fn a_section_may_follow_another_in_the_other_order_of_bytes() {
    let packets = packets(200, 5, 2);
    let parts = [pcapng(&packets[..80], false), pcapng(&packets[80..], true)].concat();
    assert_eq!(digest(&fine(&parts).tables), digest(&fine(&pcapng(&packets, false)).tables));
}

#[test]
fn a_file_that_ends_within_a_packet_is_read_up_to_the_previous_packet() {
    let packets = packets(100, 5, 3);
    for (whole_file, unit) in [(pcap(&packets, false), 44), (pcapng(&packets, false), 76)] {
        let cut = &whole_file[..whole_file.len() - 10];
        let run = replay(cut, json!({})).unwrap();
        assert_eq!(packets_of(&run), 99);
        let warning = &warnings(&run)[0];
        let offset = whole_file.len() - unit;
        assert!(warning.contains(&format!("damaged at byte {offset}:")), "{warning} {offset}");
        assert!(warning.contains("ends within a packet") && warning.contains("99 packets"), "{warning}");
    }
}

#[test]
fn a_truncated_or_damaged_gzip_file_is_read_up_to_the_damage() {
    let packed = gzip(&pcap(&packets(20_000, 50, 4), false));
    let mut spoilt = packed.clone();
    let middle = spoilt.len() / 2;
    spoilt[middle..middle + 40].fill(0xff);
    for damaged in [&packed[..packed.len() / 2], &spoilt] {
        let run = replay(damaged, json!({})).unwrap();
        assert!((100..20_000).contains(&packets_of(&run)), "{}", packets_of(&run));
        assert!(warnings(&run)[0].contains("damaged at byte"), "{:?}", warnings(&run));
    }
}

#[test]
fn an_invalid_block_ends_reading() {
    let packets = packets(50, 5, 5);
    let nonsense: Vec<u8> = (0..400_u32).map(|n| (n * 37 % 251) as u8 | 0x80).collect();
    for whole_file in [pcap(&packets, false), pcapng(&packets, false)] {
        let run = replay(&[whole_file, nonsense.clone()].concat(), json!({})).unwrap();
        assert_eq!((packets_of(&run), warnings(&run).len()), (50, 1), "{:?}", warnings(&run));
    }
}

#[test]
fn invalid_traces_are_rejected_with_a_reason() {
    assert!(refused(b"").contains("is empty"));
    assert!(refused(b"hello, world\n").contains("is neither a capture"));
    assert!(refused(&gzip(b"hello")).contains("is neither a capture"));
    assert!(refused(&gzip(b"hello")[..12]).contains("cannot be decompressed"));
    assert!(refused(&pcap(&[], false)[..20]).contains("truncated within its header"));
    assert!(refused(&pcap(&[], false)).contains("contains no packets"));
    assert!(refused(&pcap(&packets(1, 1, 1), false)).contains("have the same timestamp"));
    assert!(
        refused(&pcapng_of(&packets(5, 1, 1), true, 3)).contains("none of its 5 packets has a timestamp")
    );
    let mut usb = pcap(&packets(5, 1, 1), false);
    usb[20] = 220;
    assert!(refused(&usb).contains("link type 220 is not supported; supported: Ethernet"));
    let missing = run(scenario("/nowhere/at-all.pcap", json!({})));
    assert!(
        matches!(missing, Err(Failure::File(problem)) if problem.contains("at-all.pcap: cannot be read"))
    );
}

#[test]
fn small_clock_decreases_are_tolerated_with_a_warning() {
    let second = 1_000_000_000;
    let packets: Vec<TestPacket> =
        vec![(second, 100, 1), (2 * second, 100, 2), (second + 5, 100, 3), (3 * second, 100, 4)];
    let run = replay(&pcap(&packets, false), json!({})).unwrap();
    assert_eq!((packets_of(&run), real(&run, "summary.duration_s")[0]), (4, 2.0));
    assert!(warnings(&run)[0].contains("which is used instead: 1"), "{:?}", warnings(&run));
    let far: Vec<TestPacket> = vec![(9 * second, 100, 1), (10 * second, 100, 2), (second, 100, 3)];
    let run = replay(&pcap(&far, false), json!({})).unwrap();
    assert_eq!(packets_of(&run), 2);
    assert!(warnings(&run)[0].contains("timestamps decrease by 9.000 s"), "{:?}", warnings(&run));
}

#[test]
fn a_gap_of_years_takes_no_time_and_no_memory() {
    let years = 8 * 365 * 86_400 * 1_000_000_000;
    let run = replay(&pcap(&[(0, 100, 1), (5, 100, 2), (years, 100, 1)], false), json!({})).unwrap();
    assert_eq!(whole(&run, "summary.flows")[0], 3);
    assert!(whole(&run, "active.flows").len() <= 20_000);
}

#[test]
fn frames_longer_than_the_maximum_are_reduced_to_it() {
    let run = replay(&pcap(&[(0, 70_000, 1), (5, 100, 2)], false), json!({})).unwrap();
    assert_eq!(whole(&run, "summary.bytes")[0], 65_535 + 100);
    assert!(warnings(&run)[0].contains("longer than 65535 bytes, which were counted as 65535 bytes: 1"));
}

#[test]
fn long_frames_and_truncated_packets_cause_warnings() {
    let run = replay(&pcap(&[(0, 20_000, 1), (5, 9_234, 2)], false), json!({})).unwrap();
    assert_eq!(whole(&run, "summary.bytes")[0], 29_234);
    assert!(warnings(&run)[0].contains("longer than 9234 bytes, the maximum on a link"));
    assert!(warnings(&run)[0].ends_with(": 1"), "{:?}", warnings(&run));
    // The first packet lacks its ports, the second its addresses; the third is complete.
    let mut file = pcap(&[], false);
    for (nanos, captured) in [(0_u32, 22), (5, 12), (9, 28)] {
        let packets = [0, nanos, captured, 100];
        file.extend(packets.into_iter().flat_map(u32::to_le_bytes));
        file.extend(&frame(100, 7)[..captured as usize]);
    }
    let run = replay(&file, json!({})).unwrap();
    assert_eq!(whole(&run, "summary.flows")[0], 3);
    assert!(warnings(&run)[0].contains("captured too short to identify their flow"), "{:?}", warnings(&run));
    assert!(warnings(&run)[0].ends_with(": 2"), "{:?}", warnings(&run));
    assert_eq!(run.manifest["facts"]["trace"]["packets_not_ip"], 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_modified_capture_is_read_or_rejected(
        seed in 0_u64..50,
        form in 0..5,
        cut in proptest::option::of(0.0..1.0),
        changes in proptest::collection::vec((0.0..1.0, any::<u8>()), 0..12),
    ) {
        let packets = packets(60, 8, seed);
        let mut file = match form {
            0 => pcap(&packets, false),
            1 => pcap(&packets, true),
            2 => pcapng(&packets, false),
            3 => pcapng(&packets, true),
            _ => gzip(&pcapng(&packets, false)),
        };
        for (index, byte) in changes {
            let index = (index * file.len() as f64) as usize;
            file[index] = byte;
        }
        if let Some(cut) = cut {
            file.truncate((cut * file.len() as f64) as usize);
        }
        if let Ok(run) = replay(&file, json!({})) {
            let count = |name: &str| whole(&run, &format!("summary.{name}"))[0];
            let [packets, sent, dropped, waiting] = ["packets", "sent", "dropped", "waiting"].map(count);
            prop_assert!(packets <= 60 + 1);
            prop_assert_eq!(packets, sent + dropped + waiting);
        }
    }
}

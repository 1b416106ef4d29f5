//! Times, drops and marks of single datagrams, and rejected input.

use aqm_path::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

#[test]
fn a_datagram_takes_the_transmission_times_and_delays_of_all_links() {
    let mut path = Path::from_toml(
        r#"
        forward = [
            { rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } },
            { rate = "1Mbps", delay = "5ms" },
            { rate = "2Mbps", delay = "1ms", queue = { kind = "drop-tail" } },
        ]
        "#,
    )
    .unwrap();
    let flow = path.open_flow();
    for direction in [Direction::Forward, Direction::Reverse] {
        let datagram = Datagram { flow, direction, bytes: 1250, ecn: Ecn::Ect0 };
        path.send(datagram, at(100)).unwrap();
    }
    let mut outcomes = Vec::new();
    while let Some(now) = path.next_due() {
        outcomes.extend(std::iter::from_fn(|| path.poll(now)));
    }
    let found: Vec<_> = outcomes.iter().map(|one| (one.direction(), one.at())).collect();
    // 1 ms, 10 ms and 5 ms of transmission, and 26 ms of propagation.
    assert_eq!(found, [(Direction::Forward, at(142)), (Direction::Reverse, at(142))]);
}

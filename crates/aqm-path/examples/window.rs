//! A sender with a window of 100 datagrams and a receiver that acknowledges each datagram, over a path with CoDel: the
//! loop of a program that drives a transport without I/O (sans-I/O) over a path.

use aqm_path::{Datagram, Direction, Ecn, Instant, Outcome, Path, Reason};

const PATH: &str = r#"
seed = 1
forward = [
    { name = "home", rate = "100Mbps", delay = "1ms", queue = { kind = "drop-tail" } },
    { name = "dsl", rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } },
]
"#;

/// Number of datagrams in flight.
const WINDOW: u64 = 100;
/// End of the run.
const END: Instant = Instant::from_nanos(10_000_000_000);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut path = Path::from_toml(PATH)?;
    let flow = path.open_flow();
    let data = Datagram { flow, direction: Direction::Forward, bytes: 1250, ecn: Ecn::NotEct };
    let acknowledgement = Datagram { direction: Direction::Reverse, bytes: 50, ..data };
    let (mut in_flight, mut delivered, mut dropped) = (0, 0_u64, [0; Reason::NAMES.len()]);
    let mut now = Instant::START;
    while now <= END {
        // 1. The ends send at `now`.
        while in_flight < WINDOW {
            path.send(data, now)?;
            in_flight += 1;
        }
        // 2. The path delivers the datagrams that are due.
        while let Some(outcome) = path.poll(now) {
            match outcome {
                Outcome::Delivered { direction: Direction::Forward, .. } => {
                    delivered += 1;
                    path.send(acknowledgement, now)?;
                }
                Outcome::Delivered { direction: Direction::Reverse, .. } => in_flight -= 1,
                Outcome::Dropped { reason, .. } => {
                    // A real sender detects the loss from the acknowledgements.
                    dropped[reason.code() as usize] += 1;
                    in_flight -= 1;
                }
            }
        }
        // 3. Time advances to the next event. A transport with timers takes the minimum of its timers and this time.
        if in_flight == WINDOW {
            now = path.next_due().unwrap_or(END);
        }
    }
    println!("delivered: {:.2} Mb/s", (delivered * 1250 * 8) as f64 / END.seconds() / 1e6);
    for (name, count) in Reason::NAMES.iter().zip(dropped).filter(|&(_, count)| count > 0) {
        println!("dropped ({name}): {count}");
    }
    for link in path.links() {
        println!("{}: {} packets queued, {} sent", link.name, link.length_packets, link.departures);
    }
    Ok(())
}

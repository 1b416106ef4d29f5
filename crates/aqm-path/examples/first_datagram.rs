//! Sends one datagram over a path.

use aqm_path::{Datagram, Direction, Ecn, Instant, Outcome, Path};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = r#"forward = [{ rate = "10Mbps", delay = "20ms", queue = { kind = "codel" } }]"#;
    let mut path = Path::from_toml(text)?;
    let flow = path.open_flow();
    let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1250, ecn: Ecn::NotEct };
    path.send(datagram, Instant::START)?;
    while let Some(now) = path.next_due() {
        while let Some(outcome) = path.poll(now) {
            match outcome {
                Outcome::Delivered { at, .. } => println!("delivered after {} ns", at.nanos()),
                Outcome::Dropped { reason, .. } => println!("dropped: {}", reason.name()),
            }
        }
    }
    Ok(())
}

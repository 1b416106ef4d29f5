//! Measures how fast a stack runs in the same program:
//!
//! ```text
//! cargo run --release --example speed -- quinn 60 '{"control": "cubic", "size": 1000000000}'
//! ```
//!
//! The path has 10 Mb/s and 20 ms in each direction with CoDel, and the run ends after the given number of seconds of
//! virtual time, or when the transfer is complete.

use std::time::Instant;
use std::{env, error};

use aqm_net::{Instant as Time, Span};
use aqm_path::Path;
use aqm_path::guests::{Border, Setup};
use aqmlab_guests::stacks;

const LINK: &str = "{ rate = '10Mbps', delay = '20ms', queue = { kind = 'codel' } }";

#[expect(clippy::disallowed_methods, reason = "the program measures real time")]
fn main() -> Result<(), Box<dyn error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [stack, seconds, config] = &arguments[..] else {
        return Err("usage: speed STACK SECONDS CONFIG".into());
    };
    let mut guests = [stacks::build(stack)?, stacks::build(stack)?];
    let [client, server] = &mut guests;
    let path = Path::from_toml(&format!("forward = [{LINK}]\nreverse = [{LINK}]\n"))?;
    let setup = Setup {
        configs: ["{}".to_owned(), config.clone()],
        until: Time::START + Span::from_millis(1000 * seconds.parse::<u64>()?),
        ..Setup::default()
    };
    let begin = Instant::now();
    let report = Border::new(path, setup).run([&mut **client, &mut **server], &Default::default())?;
    let real = begin.elapsed().as_secs_f64();
    let simulated = report.stopped_at.since(Time::START).seconds();
    let calls: u64 = report.ends.iter().map(|end| end.calls).sum();
    let bytes = report.events.iter().filter(|one| one.event.name == "received_bytes");
    let bytes: f64 = bytes.map(|one| one.event.value).sum();
    println!("digest {}", report.digest);
    println!("{:.2} Mb/s, {:?}", bytes * 8e-6 / simulated, report.ends);
    println!(
        "{simulated:.3} s in {real:.3} s, {:.1} s per second, {:.2} us per call",
        simulated / real,
        1e6 * real / calls as f64
    );
    Ok(())
}

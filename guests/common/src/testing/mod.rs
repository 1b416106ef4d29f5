//! Runs of two guests over a path, for the tests of a stack.

mod process;
pub mod program;

use aqm_guest::Guest;
use aqm_path::Path;
use aqm_path::guests::{Border, Report, Setup};

pub use process::Process;

/// Runs a new client and a new server of type `G` like [`run`].
///
/// # Panics
/// Panics if a guest violates the contract.
pub fn transfer<G: Guest + Default>(config: &str, seed: u64, loss: f64) -> Report {
    run([&mut G::default(), &mut G::default()], config, seed, loss)
}

/// Runs a client and a server for 10 s of virtual time, with the same configuration. Each direction of the path has a link
/// of 10 Mb/s and 20 ms with CoDel, which marks ECN-capable packets. `loss` is the probability that the link loses a packet.
///
/// # Panics
/// Panics if a guest violates the contract.
pub fn run(guests: [&mut dyn Guest; 2], config: &str, seed: u64, loss: f64) -> Report {
    let queue = "{ kind = 'codel', ecn = true }";
    let link =
        format!("{{ rate = '10Mbps', delay = '20ms', queue = {queue}, loss = {{ probability = {loss} }} }}");
    let path = Path::from_toml(&format!("forward = [{link}]\nreverse = [{link}]\n"));
    let setup = Setup { seed, configs: [config.to_owned(), config.to_owned()], ..Setup::default() };
    Border::new(path.expect("a valid path"), setup)
        .run(guests, &Default::default())
        .unwrap_or_else(|failure| panic!("{config}: {failure}"))
}

/// Returns the values that the guests reported with this name.
pub fn values(report: &Report, name: &str) -> Vec<f64> {
    let named = report.events.iter().filter(|recorded| recorded.event.name == name);
    named.map(|recorded| recorded.event.value).collect()
}

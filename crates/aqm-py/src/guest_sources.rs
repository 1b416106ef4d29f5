//! The guests of simulated scenarios: programs, which the simulation starts, and the transport libraries in the program
//! `aqmlab-guests`, which simulates the whole scenario.

use std::any::Any;

use aqm_guest::{Guest, Origin, Provider};
use aqm_guest_process::scenario;
use aqm_guest_process::whole_run::{self, Finished};
use aqm_net::ConfigError;
use aqm_net::level::{self, Failure};
use aqm_net::watch::{StopRequest, Watch};
use aqm_sim::PacketLevel;

/// The packet level with programs as guests.
pub(crate) static PACKET_LEVEL: PacketLevel = PacketLevel { guests: &Programs };

/// The source of programs as guests.
struct Programs;

impl Provider for Programs {
    fn guest(&self, origin: &Origin<'_>, stop: &StopRequest) -> Result<Box<dyn Guest>, String> {
        match *origin {
            Origin::Stack(stack) => Err(format!("the stack {} needs the program aqmlab-guests", stack.name)),
            Origin::Program { command, time_limit } => scenario::guest(command, time_limit, stop),
        }
    }

    fn program_digest(&self, command: &[String]) -> Option<String> {
        Some(scenario::program_digest(command))
    }
}

/// Runs a plan, in the program `guests` if the plan needs transport libraries.
pub(crate) fn run(plan: &dyn level::Plan, guests: Option<&str>, watch: &Watch) -> Result<Finished, Failure> {
    let as_any: &dyn Any = plan;
    let packets = as_any.downcast_ref::<aqm_sim::Plan>();
    let needed = packets.and_then(|packets| Some((packets, packets.libraries().next()?)));
    let Some((packets, (name, library))) = needed else {
        return Ok(Finished { run: plan.run(watch)?, cpu_s: 0.0 });
    };
    let Some(program) = guests else {
        let problem = format!(
            "needs {library} in the program aqmlab-guests, which was not found: run `make guests` in a checkout of \
             aqmlab, or set the environment variable AQMLAB_GUESTS to the path of the program"
        );
        return Err(ConfigError::at(format!("traffic.{name}.stack"), problem).into());
    };
    whole_run::run(program, (&plan.to_value(), packets.files()), plan.level(), watch)
}

//! Programs of the user's own (`program`): a client and a server that really run, in a live run. A simulation cannot
//! know what they send, and refuses them.

use aqm_net::{ConfigError, Span, parameters};

use crate::{Build, BuildContext, Programs, TrafficContext, Workload};

parameters! {
    /// Programs of your own, for live runs: a client where data go, and a server where they come from, which the
    /// client reaches by the name `server`.
    pub struct Config {
        /// The client: its command and arguments. Left out, there is none.
        pub client: Vec<String> = Vec::new(), "ours";
        /// The server: its command and arguments. It begins with the run. Left out, there is none.
        pub server: Vec<String> = Vec::new(), "ours";
        /// When the client begins: not before, and once the server listens for TCP or has bound a socket of UDP, or 3 s
        /// later at the latest.
        pub start: Span = Span::ZERO, "ours";
    }
}

impl Build for Config {
    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        for (place, command) in [("client", &self.client), ("server", &self.server)] {
            let is_command = command.first().is_none_or(|program| !program.is_empty());
            ConfigError::unless(is_command, place, "must begin with the name of a program")?;
        }
        Ok(Box::new(Program))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn programs(&self) -> Option<Programs<'_>> {
        Some(Programs { client: &self.client, server: &self.server, start: self.start })
    }
}

/// The workload while it runs: whoever runs live looks after the programs.
#[derive(Clone)]
struct Program;

impl Workload for Program {
    fn start(&mut self, _cx: &mut dyn TrafficContext) {}
    fn on_wake(&mut self, _cx: &mut dyn TrafficContext) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::context;

    #[test]
    fn a_command_without_a_name_is_refused_by_its_place() {
        let config = Config { server: vec![String::new()], ..Config::default() };
        let Err(error) = config.build(&context(1, 10)) else { panic!("an empty command was taken") };
        assert_eq!(error.to_string(), "server: must begin with the name of a program");
        let config = Config { client: vec!["curl".into(), "http://server/".into()], ..Config::default() };
        assert!(config.build(&context(1, 10)).is_ok());
        assert_eq!(config.programs().unwrap().client, ["curl", "http://server/"]);
    }
}

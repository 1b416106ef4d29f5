//! User programs (`program`): a client and a server, which are started in a live run. Simulations reject this workload,
//! because the traffic of user programs cannot be predicted.

use aqm_net::{ConfigError, Span, parameters};

use crate::{Build, BuildContext, Programs, TrafficContext, Workload};

parameters! {
    /// User programs for live runs: a client, which receives the data, and a server, which sends the data.
    ///
    /// The client can reach the server by the host name `server`.
    pub struct Config {
        /// Command and arguments of the client; by default, there is no client.
        pub client: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Command and arguments of the server, which starts when the run starts; by default, there is no server.
        pub server: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Earliest start of the client. After this time, the client starts as soon as the server listens for TCP
        /// connections or has bound a UDP socket. The client waits for the server for at most 3 s.
        pub start: Span = Span::ZERO, "aqmlab's choice";
    }
}

impl Build for Config {
    fn build(&self, _context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        for (path, command) in [("client", &self.client), ("server", &self.server)] {
            let is_command = command.first().is_none_or(|program| !program.is_empty());
            ConfigError::unless(is_command, path, "must begin with the name of a program")?;
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

/// The running workload. This workload does nothing, because the live run starts the programs.
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
    fn a_command_without_a_program_name_is_rejected() {
        let config = Config { server: vec![String::new()], ..Config::default() };
        let Err(error) = config.build(&context(1, 10)) else { panic!("an empty command was accepted") };
        assert_eq!(error.to_string(), "server: must begin with the name of a program");
        let config = Config { client: vec!["curl".into(), "http://server/".into()], ..Config::default() };
        assert!(config.build(&context(1, 10)).is_ok());
        assert_eq!(config.programs().unwrap().client, ["curl", "http://server/"]);
    }
}

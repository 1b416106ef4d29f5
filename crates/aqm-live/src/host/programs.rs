//! The programs of a plan: servers, which start at the beginning of a run, and clients, which start at their scheduled
//! times.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use aqm_net::{Instant, Span};
use aqm_sim::Plan;
use aqm_sim::emulation::Side;
use serde_json::{Value, json};

use crate::LiveError;
use crate::host::lab::{Host, Lab};
use crate::host::program::{Child, Daemons};
use crate::load::HostIndex;

/// Maximum time that a client waits for its server to listen before the client is started anyway. The time is limited
/// because some servers use neither TCP nor UDP.
const LISTEN_TIMEOUT: Span = Span::from_millis(3000);

/// The states of listening sockets in the tables under `/proc/net`: `TCP_LISTEN` for TCP, and `TCP_CLOSE` for UDP
/// sockets, which are bound but not connected (tcp_states.h).
const LISTENING_STATES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// A client that has not started yet.
struct PendingClient {
    traffic: u32,
    name: String,
    command: Vec<String>,
    at: Instant,
}

/// A server.
struct Server {
    name: String,
    child: Child,
    ended: Option<Exit>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    status: i32,
    /// Time at which the exit was detected.
    at: Instant,
}

/// The programs of a plan.
pub(crate) struct Programs {
    /// The servers, keyed by the position of their workload.
    servers: BTreeMap<u32, Server>,
    pending: Vec<PendingClient>,
    clients: Vec<(String, Child, Option<i32>)>,
}

impl Programs {
    /// Starts the servers.
    pub(crate) fn start(plan: &Plan, lab: &Lab) -> Result<Self, LiveError> {
        let mut programs = Self { servers: BTreeMap::new(), pending: Vec::new(), clients: Vec::new() };
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            let Some(spec) = planned.programs else { continue };
            if let Some(mut command) = command(spec.server) {
                // The terminal's standard input and standard output are reserved for the client.
                command.stdin(Stdio::null()).stdout(std::io::stderr());
                let host = lab.at(HostIndex { traffic, side: Side::Sender });
                let child = host.spawn(command, Daemons::Stay)?;
                let server = Server { name: planned.name.to_owned(), child, ended: None };
                programs.servers.insert(traffic, server);
            }
            if !spec.client.is_empty() {
                programs.pending.push(PendingClient {
                    traffic,
                    name: planned.name.to_owned(),
                    command: spec.client.to_vec(),
                    at: Instant::START + spec.start,
                });
            }
        }
        Ok(programs)
    }

    /// Starts the clients that are due, and records the programs that have exited.
    pub(crate) fn update(&mut self, lab: &Lab, now: Instant) -> Result<(), LiveError> {
        for Server { child, ended, .. } in self.servers.values_mut() {
            let status = child.wait_timeout(Duration::ZERO);
            *ended = ended.or_else(|| Some(Exit { status: status?, at: now }));
        }
        for one in std::mem::take(&mut self.pending) {
            let host = |side| lab.at(HostIndex { traffic: one.traffic, side });
            let server = self.servers.get(&one.traffic).filter(|_| now < one.at + LISTEN_TIMEOUT);
            let will_listen = server.is_some_and(|server| server.ended.is_none());
            if one.at > now || will_listen && !listens(host(Side::Sender))? {
                self.pending.push(one);
            } else if let Some(command) = command(&one.command) {
                let client = host(Side::Receiver).spawn(command, Daemons::End)?;
                self.clients.push((one.name, client, None));
            }
        }
        for (_, child, status) in &mut self.clients {
            *status = status.or_else(|| child.wait_timeout(Duration::ZERO));
        }
        Ok(())
    }

    /// Returns whether the plan has clients, regardless of whether the clients have started.
    pub(crate) fn have_clients(&self) -> bool {
        !(self.pending.is_empty() && self.clients.is_empty())
    }

    /// Returns whether all clients have started and ended.
    pub(crate) fn clients_have_ended(&self) -> bool {
        self.pending.is_empty() && self.clients.iter().all(|(_, _, status)| status.is_some())
    }

    /// Returns the servers that have exited, by workload.
    pub(crate) fn servers_ended(&self) -> BTreeMap<String, Exit> {
        let ended = |server: &Server| Some((server.name.clone(), server.ended?));
        self.servers.values().filter_map(ended).collect()
    }

    /// Returns the exit statuses of the clients, by workload; the status is `None` for a client that was killed at the
    /// end of the run.
    pub(crate) fn statuses(&self) -> BTreeMap<String, Option<i32>> {
        self.clients.iter().map(|(name, _, status)| (name.clone(), *status)).collect()
    }
}

impl Exit {
    /// Returns the exit in the format of the manifest.
    pub(crate) fn to_value(self) -> Value {
        json!({ "status": self.status, "at_s": self.at.seconds() })
    }
}

/// Returns whether any program in the host is listening for connections or datagrams.
fn listens(host: &Host) -> Result<bool, LiveError> {
    host.query(|| {
        let has_listener = |(name, state): (&str, &str)| {
            // A kernel without IPv6 has only the tables `tcp` and `udp`.
            let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            table.lines().any(|line| line.split_whitespace().nth(3) == Some(state))
        };
        Ok(LISTENING_STATES.into_iter().any(has_listener))
    })
}

/// Returns the command with its arguments, or `None` if `words` is empty.
fn command(words: &[String]) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::testing::lab_or_skip;

    #[test]
    fn a_server_that_listens_over_tcp_or_udp_is_detected() {
        let Some(lab) = lab_or_skip() else { return };
        let [server, client] = lab.hosts() else { panic!() };
        assert!(!listens(server).unwrap());
        let connected = server.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect("127.0.0.1:53").unwrap();
            socket
        });
        let connected = connected.unwrap().join().unwrap();
        assert!(!listens(server).unwrap(), "a connected socket does not listen");
        let bound = server.run(|| UdpSocket::bind("0.0.0.0:443").unwrap()).unwrap().join().unwrap();
        assert!(listens(server).unwrap());
        drop((connected, bound));
        assert!(!listens(server).unwrap());
        let listener = server.run(|| TcpListener::bind("0.0.0.0:80").unwrap()).unwrap().join().unwrap();
        assert!(listens(server).unwrap() && !listens(client).unwrap(), "the other host has no listener");
        drop(listener);
    }
}

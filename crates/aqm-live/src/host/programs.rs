//! The programs of a plan: servers that run from the beginning, and clients.

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
use crate::load::Place;

/// For so long a client waits for its server to listen; it may be one that uses neither TCP nor UDP.
const PATIENCE: Span = Span::from_millis(3000);

/// In tables of sockets under `/proc/net`, the state of one that waits for whoever comes: of TCP `TCP_LISTEN`, of UDP,
/// whose sockets are bound but not connected, `TCP_CLOSE` (tcp_states.h).
const WAITING_STATES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// A client that is still to be started.
struct Waiting {
    traffic: u32,
    name: String,
    command: Vec<String>,
    at: Instant,
}

/// A server.
struct Server {
    name: String,
    child: Child,
    ended: Option<Ended>,
}

/// How a program ended by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    status: i32,
    /// When that was seen.
    at: Instant,
}

/// The programs of a plan.
pub(crate) struct Programs {
    /// By the position of the workload.
    servers: BTreeMap<u32, Server>,
    waiting: Vec<Waiting>,
    clients: Vec<(String, Child, Option<i32>)>,
}

impl Programs {
    /// Starts the servers.
    pub(crate) fn start(plan: &Plan, lab: &Lab) -> Result<Self, LiveError> {
        let mut programs = Self { servers: BTreeMap::new(), waiting: Vec::new(), clients: Vec::new() };
        for (traffic, planned) in (0..).zip(plan.workloads()) {
            let Some(of) = planned.programs else { continue };
            if let Some(mut command) = command(of.server) {
                // What is typed and what is printed are the client's.
                command.stdin(Stdio::null()).stdout(std::io::stderr());
                let host = lab.at(Place { traffic, side: Side::Sender });
                let child = host.spawn(command, Daemons::Stay)?;
                let server = Server { name: planned.name.to_owned(), child, ended: None };
                programs.servers.insert(traffic, server);
            }
            if !of.client.is_empty() {
                programs.waiting.push(Waiting {
                    traffic,
                    name: planned.name.to_owned(),
                    command: of.client.to_vec(),
                    at: Instant::START + of.start,
                });
            }
        }
        Ok(programs)
    }

    /// Starts the clients that are due, and sees which have ended.
    pub(crate) fn look(&mut self, lab: &Lab, now: Instant) -> Result<(), LiveError> {
        for Server { child, ended, .. } in self.servers.values_mut() {
            let status = child.wait_timeout(Duration::ZERO);
            *ended = ended.or_else(|| Some(Ended { status: status?, at: now }));
        }
        for one in std::mem::take(&mut self.waiting) {
            let host = |side| lab.at(Place { traffic: one.traffic, side });
            let server = self.servers.get(&one.traffic).filter(|_| now < one.at + PATIENCE);
            let will_listen = server.is_some_and(|server| server.ended.is_none());
            if one.at > now || will_listen && !listens(host(Side::Sender))? {
                self.waiting.push(one);
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

    /// Whether there are clients, running or not.
    pub(crate) fn have_clients(&self) -> bool {
        !(self.waiting.is_empty() && self.clients.is_empty())
    }

    /// Whether no client runs, and none is still to be started.
    pub(crate) fn clients_have_ended(&self) -> bool {
        self.waiting.is_empty() && self.clients.iter().all(|(_, _, status)| status.is_some())
    }

    /// The servers that have ended by themselves, by workload.
    pub(crate) fn servers_ended(&self) -> BTreeMap<String, Ended> {
        let ended = |server: &Server| Some((server.name.clone(), server.ended?));
        self.servers.values().filter_map(ended).collect()
    }

    /// The exit statuses of clients, by workload; nothing for one that was cut off.
    pub(crate) fn statuses(&self) -> BTreeMap<String, Option<i32>> {
        self.clients.iter().map(|(name, _, status)| (name.clone(), *status)).collect()
    }
}

impl Ended {
    /// For the record of a run.
    pub(crate) fn to_value(self) -> Value {
        json!({ "status": self.status, "at_s": self.at.seconds() })
    }
}

/// Whether a program in a host waits for connections or datagrams.
fn listens(host: &Host) -> Result<bool, LiveError> {
    host.ask(|| {
        let has_waiting = |(name, state): (&str, &str)| {
            // A kernel without IPv6 lacks half of them.
            let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
            table.lines().any(|line| line.split_whitespace().nth(3) == Some(state))
        };
        Ok(WAITING_STATES.into_iter().any(has_waiting))
    })
}

/// A command and its arguments, if there is one.
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
    fn a_server_waits_for_whoever_comes_over_tcp_or_udp() {
        let Some(lab) = lab_or_skip() else { return };
        let [server, client] = lab.hosts() else { panic!() };
        assert!(!listens(server).unwrap());
        let asking = server.run(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect("127.0.0.1:53").unwrap();
            socket
        });
        let asking = asking.unwrap().join().unwrap();
        assert!(!listens(server).unwrap(), "a socket that asks a name server waits for that one only");
        let bound = server.run(|| UdpSocket::bind("0.0.0.0:443").unwrap()).unwrap().join().unwrap();
        assert!(listens(server).unwrap());
        drop((asking, bound));
        assert!(!listens(server).unwrap());
        let listener = server.run(|| TcpListener::bind("0.0.0.0:80").unwrap()).unwrap().join().unwrap();
        assert!(listens(server).unwrap() && !listens(client).unwrap(), "the other host is another");
        drop(listener);
    }
}

//! Test fixtures: a lab with two hosts, and a wire that connects the two hosts without a queue.

use std::io::{PipeWriter, Read as _, Write as _, pipe};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::thread::JoinHandle;

use aqm_net::Size;
use aqm_tcp::Config;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{read, write};
use serde_json::{Value, json};

use crate::{Host, HostSpec, Kernel, KernelTcp, Lab, Privileges};

/// Returns the profile `linux-6` with `changes`, adapted to the timer tick of the running kernel.
pub(crate) fn linux(changes: Value) -> Config {
    let tick = json!({ "profile": "linux-6", "rto": { "tick": Kernel::running().tick.to_string() } });
    aqm_tcp::read(aqm_tcp::overlay(&tick, changes)).unwrap()
}

/// Returns a lab with the hosts `server` (10.1.0.0/16) and `client` (10.2.0.0/16). If this machine does not permit live
/// runs, returns `None` and prints the reason to standard error.
pub(crate) fn lab_or_skip() -> Option<Lab> {
    lab_with_or_skip(&linux(json!({})))
}

/// Returns the same lab as [`lab_or_skip`], but with the given TCP configuration.
pub(crate) fn lab_with_or_skip(tcp: &Config) -> Option<Lab> {
    let here = Privileges::here();
    if !here.are_enough() {
        eprintln!("skipped: {here:?}");
        return None;
    }
    let tcp = KernelTcp::of(tcp, &Kernel::running(), Size::from_bytes(0)).unwrap();
    let host = |name: &str, prefix, peer| HostSpec {
        name: name.to_owned(),
        prefix,
        peer,
        mtu: 1500,
        tcp: tcp.clone(),
    };
    Some(Lab::new(&[host("server", 1, 2), host("client", 2, 1)]).unwrap())
}

/// The first address of the host `server`.
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

/// A thread that forwards every packet of each host to the other host until [`finish`](Self::finish) is called.
pub(crate) struct Wire {
    stop: PipeWriter,
    thread: JoinHandle<[Vec<Vec<u8>>; 2]>,
}

impl Wire {
    /// Connects the two hosts of a lab.
    pub fn between(hosts: &[Host]) -> Self {
        let [one, other] = hosts else { panic!("{} hosts", hosts.len()) };
        let ends = [one, other].map(|host| host.tun().try_clone_to_owned().unwrap());
        let (stopped, stop) = pipe().unwrap();
        let thread = std::thread::spawn(move || {
            let mut seen = [Vec::new(), Vec::new()];
            let mut packet = [0; 65_536];
            loop {
                let mut files = [ends[0].as_fd(), ends[1].as_fd(), stopped.as_fd()]
                    .map(|file| PollFd::new(file, PollFlags::POLLIN));
                poll(&mut files, PollTimeout::NONE).unwrap();
                if files[2].any() == Some(true) {
                    return seen;
                }
                for from in [0, 1] {
                    while let Ok(length) = read(&ends[from], &mut packet) {
                        write(&ends[1 - from], &packet[..length]).unwrap();
                        seen[from].push(packet[..length].to_vec());
                    }
                }
            }
        });
        Self { stop, thread }
    }

    /// Stops the wire and returns the packets that each host has sent.
    pub fn finish(self) -> [Vec<Vec<u8>>; 2] {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

/// Sends `bytes` bytes from the second host to a server on the first host. Returns the sender's congestion control and
/// the packets that each host has sent.
pub(crate) fn transfer(lab: &Lab, bytes: usize) -> (String, [Vec<Vec<u8>>; 2]) {
    let [server, client] = lab.hosts() else { panic!() };
    let wire = Wire::between(lab.hosts());
    let listener = server.run(|| TcpListener::bind((SERVER, 80)).unwrap()).unwrap().join().unwrap();
    let receiver = server
        .run(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        })
        .unwrap();
    let sender = client
        .run(move || {
            let sent: Vec<u8> = (0..bytes).map(|number| (number % 251) as u8).collect();
            let mut stream = TcpStream::connect((SERVER, 80)).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let control = getsockopt(&stream, sockopt::TcpCongestion).unwrap();
            let mut end = Vec::new();
            stream.read_to_end(&mut end).unwrap();
            (sent, control.to_string_lossy().trim_end_matches('\0').to_owned())
        })
        .unwrap();
    let (sent, control) = sender.join().unwrap();
    assert!(receiver.join().unwrap() == sent, "the received data differ from the sent data");
    (control, wire.finish())
}

//! smoltcp, a TCP in user space, as a guest in virtual time: the server sends a file over a TCP connection to the client.
//!
//! smoltcp draws the initial sequence numbers from a generator whose seed is the seed of the guest. smoltcp has no other
//! random numbers in TCP, and reads no clock.

mod config;
mod device;

use aqm_guest::{Answer, End, Guest, Payload, Problem, Start};
use aqm_net::Instant;
use guest_common::{block, report_received};
use smoltcp::iface::{Config as InterfaceConfig, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Address};

use crate::config::Config;
use crate::device::Wire;

/// The addresses of the client and of the server. The path does not use addresses.
const ADDRESSES: [Ipv4Address; 2] = [Ipv4Address::new(10, 0, 0, 1), Ipv4Address::new(10, 0, 0, 2)];

/// The ports of the client (the first dynamic port of RFC 6335) and of the server.
const PORTS: [u16; 2] = [49_152, 443];

/// Length of the prefix of the network that contains both addresses.
const PREFIX: u8 = 24;

/// smoltcp as a guest. The client opens a connection, and the server sends a file and closes the connection.
#[derive(Default)]
pub struct Smoltcp {
    host: Option<Host>,
}

impl Guest for Smoltcp {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        self.host = Some(Host::new(start)?);
        Ok((start.end == End::Client).then_some(Instant::START))
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        self.host.as_mut().ok_or("the guest must be started before it runs")?.run(now, received)
    }
}

/// One end of the connection.
struct Host {
    end: End,
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// Bytes that the server has not yet passed to smoltcp.
    left: u64,
    /// Whether this end closed its direction of the connection.
    is_closed: bool,
}

impl Host {
    fn new(start: &Start) -> Result<Self, Problem> {
        let config = Config::read(&start.config)?;
        let addresses = [start.end, start.end.other()].map(|end| ADDRESSES[end as usize]);
        let mut wire = Wire::new(addresses[0], addresses[1]);
        let mut interface = InterfaceConfig::new(HardwareAddress::Ip);
        interface.random_seed = start.seed;
        let mut interface = Interface::new(interface, &mut wire, Time::ZERO);
        let mut is_added = false;
        interface
            .update_ip_addrs(|own| is_added = own.push(IpCidr::new(addresses[0].into(), PREFIX)).is_ok());
        if !is_added {
            return Err("smoltcp has no space for an address".into());
        }
        let buffer = || SocketBuffer::new(vec![0; config.buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(config.control());
        match start.end {
            End::Client => {
                let server = (ADDRESSES[End::Server as usize], PORTS[End::Server as usize]);
                let opened = socket.connect(interface.context(), server, PORTS[End::Client as usize]);
                opened.map_err(|error| error.to_string())?;
            }
            End::Server => {
                socket.listen(PORTS[End::Server as usize]).map_err(|error| error.to_string())?;
            }
        }
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Ok(Self { end: start.end, wire, interface, sockets, socket, left: config.size, is_closed: false })
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        // smoltcp counts microseconds.
        let time = Time::from_micros((now.nanos() / 1000) as i64);
        for payload in received {
            self.wire.receive(&payload.data);
        }
        let mut answer = Answer::default();
        let mut bytes = 0;
        loop {
            self.interface.poll(time, &mut self.wire, &mut self.sockets);
            let passed = match self.end {
                End::Client => self.read()?,
                End::Server => self.write()?,
            };
            if passed == 0 {
                break;
            }
            bytes += passed;
        }
        if self.end == End::Client {
            report_received(&mut answer.events, bytes);
        }
        answer.datagrams = std::mem::take(&mut self.wire.sent);
        let due = self.interface.poll_at(time, &self.sockets);
        let due = due.map(|due| due.total_micros() as u64 * 1000);
        answer.wake = due.map(|due| Instant::from_nanos(due.max(now.nanos() + 1000)));
        Ok(answer)
    }

    /// Passes the file to smoltcp, as far as the send buffer has space, and closes the connection at the end of the file.
    /// Returns the number of bytes.
    fn write(&mut self) -> Result<usize, Problem> {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut bytes = 0;
        while self.left > 0 && socket.can_send() {
            let written = socket.send_slice(block(self.left)).map_err(|error| error.to_string())?;
            self.left -= written as u64;
            bytes += written;
        }
        if self.left == 0 && !self.is_closed {
            self.is_closed = true;
            socket.close();
        }
        Ok(bytes)
    }

    /// Reads the received part of the file, and closes the connection at the end of the file. Returns the number of
    /// bytes.
    fn read(&mut self) -> Result<usize, Problem> {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut bytes = 0;
        while socket.can_recv() {
            let read = socket.recv(|data| (data.len(), data.len()));
            bytes += read.map_err(|error| error.to_string())?;
        }
        // The socket reports the end of the file after the last byte.
        if !self.is_closed && socket.recv(|_| (0, ())) == Err(RecvError::Finished) {
            self.is_closed = true;
            socket.close();
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use guest_common::testing::{transfer, values};

    use super::*;

    #[test]
    fn two_runs_with_the_same_seed_are_equal_with_every_control() {
        for control in ["reno", "cubic", "none"] {
            let config = format!(r#"{{"control": "{control}"}}"#);
            let first = transfer::<Smoltcp>(&config, 1, 0.01);
            assert_eq!(values(&first, "received_bytes").iter().sum::<f64>(), 1e6, "{control}");
            assert_eq!(first.digest, transfer::<Smoltcp>(&config, 1, 0.01).digest, "{control}");
        }
    }
}

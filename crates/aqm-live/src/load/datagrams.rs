//! Streams of datagrams.
//!
//! A datagram carries its number within its stream, from zero, and the moment it was sent, in nanoseconds since the
//! run began: 8 bytes each, big-endian, as far as it has room.
//!
//! Ours: a datagram that is to have fewer bytes than its headers has these alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use aqm_net::{Ecn, Instant, Span};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg};
use tokio::io::Interest;

use super::Job;
use super::end::End;
use super::record::Event;
use super::sockets::{self, IP_AND_UDP, ecn_bits};
use crate::router::buffers::MTU;

/// What arrived of a stream of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Datagrams.
    pub count: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of them, marked by a router: ECN bits CE.
    pub marked: u64,
    /// Of them, sent before another one that came earlier.
    pub overtaken: u64,
    /// The sum of the times from their sending to their being read, of those that have room for it.
    pub travelled: Span,
}

/// The streams that an end sends.
#[derive(Default)]
pub(super) struct Sending(BTreeMap<u32, Stream>);

/// A stream that is sent.
struct Stream {
    /// Nothing if it cannot be had.
    socket: Option<UdpSocket>,
    /// How many were sent.
    count: u64,
    /// The ECN bits that the socket sets.
    ecn: Option<Ecn>,
}

impl Sending {
    /// Sends a datagram of `bytes` on the wire over the stream of a job, which is opened with the first one.
    pub(super) fn send(&mut self, end: &End, job: Job, bytes: u16, ecn: Ecn) {
        let number = job.number;
        let stream = self.0.entry(number).or_insert_with(|| {
            let socket = open(end, &job);
            let told = |error: io::Error| end.fail(number, "opening", &error);
            Stream { socket: socket.map_err(told).ok(), count: 0, ecn: None }
        });
        if let Err(error) = stream.send(end, bytes, ecn) {
            end.trouble("sending a datagram", &error);
        }
    }
}

fn open(end: &End, job: &Job) -> io::Result<UdpSocket> {
    let (socket, local) = sockets::connect_datagrams(job.from, job.to, end.ports())?;
    end.expect(local, job);
    end.report(job.number, Event::Opened(local));
    Ok(socket)
}

impl Stream {
    fn send(&mut self, end: &End, bytes: u16, ecn: Ecn) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let payload = usize::from(bytes.saturating_sub(end.options().datagram_header));
        if payload + usize::from(IP_AND_UDP) > MTU {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if self.ecn != Some(ecn) {
            sockets::set_ecn(socket, end.options().dscp, ecn)?;
            self.ecn = Some(ecn);
        }
        let mut scratch = end.scratch();
        let payload = &mut scratch[..payload];
        let words = [self.count, end.now().nanos()];
        for (place, word) in payload.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        // Its number is taken even if the kernel refuses it: to the receiver it is lost.
        self.count += 1;
        socket.send(payload)?;
        Ok(())
    }
}

/// The streams that an end receives, by where they come from; nothing for one that no workload sends.
#[derive(Clone, Default)]
pub(super) struct Receiving(Rc<RefCell<BTreeMap<SocketAddrV4, Option<Incoming>>>>);

/// A stream that is received.
struct Incoming {
    job: u32,
    received: Received,
    /// The number that is due if none is lost.
    next: u64,
}

impl Receiving {
    /// What was received so far, by job.
    pub(super) fn take_all(&self) -> Vec<(u32, Received)> {
        let all = self.0.take();
        all.into_values().flatten().map(|incoming| (incoming.job, incoming.received)).collect()
    }
}

/// Receives datagrams at a socket.
pub(super) async fn receive(end: Rc<End>, socket: tokio::net::UdpSocket, receiving: Receiving) {
    loop {
        let read = socket.async_io(Interest::READABLE, || {
            let (peer, payload, marked) = read_one(&socket, &mut end.scratch())?;
            let mut streams = receiving.0.borrow_mut();
            let stream = streams.entry(peer).or_insert_with(|| {
                let job = end.take_expected(peer)?;
                Some(Incoming { job: job.number, received: Received::default(), next: 0 })
            });
            if let Some(stream) = stream {
                stream.note(&payload, marked, &end);
            }
            Ok(())
        });
        if let Err(error) = read.await {
            end.trouble("receiving a datagram", &error);
        }
    }
}

/// What a datagram says.
struct Payload {
    length: usize,
    number: Option<u64>,
    sent: Option<Instant>,
}

fn read_one(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(SocketAddrV4, Payload, bool)> {
    let (peer, length, tos) = read_raw(socket, buffer)?;
    let mut words = buffer[..length.min(16)]
        .chunks_exact(8)
        .map(|word| word.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)));
    let payload = Payload { length, number: words.next(), sent: words.next().map(Instant::from_nanos) };
    Ok((peer, payload, tos & 3 == ecn_bits(Ecn::Ce)))
}

/// Where a datagram comes from, the length of its payload, and its DSCP and ECN bits.
pub(super) fn read_raw(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(SocketAddrV4, usize, u8)> {
    let mut control = nix::cmsg_space!(u8);
    let mut slices = [IoSliceMut::new(buffer)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut control), flags)?;
    let tos = message.cmsgs()?.find_map(|one| match one {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        _ => None,
    });
    let peer = message.address.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    Ok((SocketAddrV4::new(peer.ip(), peer.port()), message.bytes, tos.unwrap_or(0)))
}

impl Incoming {
    fn note(&mut self, payload: &Payload, marked: bool, end: &End) {
        let received = &mut self.received;
        received.count += 1;
        received.bytes += payload.length as u64 + u64::from(end.options().datagram_header);
        received.marked += u64::from(marked);
        if let Some(number) = payload.number {
            received.overtaken += u64::from(number < self.next);
            self.next = self.next.max(number + 1);
        }
        if let Some(sent) = payload.sent {
            received.travelled = received.travelled + end.now().since(sent);
        }
    }
}

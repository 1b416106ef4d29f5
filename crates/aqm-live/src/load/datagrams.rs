//! Datagram streams over UDP.
//!
//! A datagram contains two integers of 8 bytes each, in big-endian order. The first integer is the number of the
//! datagram within its stream, counted from zero. The second integer is the sending time in nanoseconds since the start
//! of the run. If the datagram is too short for an integer, the integer is omitted.
//!
//! aqmlab's choice: if a workload requests a datagram that is shorter than the headers, the datagram consists of the
//! headers only.

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

/// Counts of the received datagrams of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of datagrams.
    pub count: u64,
    /// Number of bytes on the link, including headers.
    pub bytes: u64,
    /// Number of datagrams marked with the ECN codepoint CE.
    pub marked: u64,
    /// Number of datagrams that arrived after a datagram with a later sending time.
    pub overtaken: u64,
    /// Sum of the delays between sending and reading, for all datagrams that contain a sending time.
    pub total_delay: Span,
}

/// The streams that one end sends.
#[derive(Default)]
pub(super) struct Sending(BTreeMap<u32, Stream>);

/// The sending side of a stream.
struct Stream {
    /// Socket of the stream; `None` if the socket could not be opened.
    socket: Option<UdpSocket>,
    /// Number of datagrams sent.
    count: u64,
    /// The ECN codepoint set on the socket.
    ecn: Option<Ecn>,
}

impl Sending {
    /// Sends a datagram of `bytes` bytes, including headers, over the stream of a job. The first datagram opens the
    /// stream.
    pub(super) fn send(&mut self, end: &End, job: Job, bytes: u16, ecn: Ecn) {
        let number = job.number;
        let stream = self.0.entry(number).or_insert_with(|| {
            let socket = open(end, &job);
            let report = |error: io::Error| end.fail(number, "opening", &error);
            Stream { socket: socket.map_err(report).ok(), count: 0, ecn: None }
        });
        if let Err(error) = stream.send(end, bytes, ecn) {
            end.report_error("sending a datagram", &error);
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
        for (slot, word) in payload.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        // The number is not reused even if the kernel rejects the datagram. The receiver counts a rejected datagram as
        // lost.
        self.count += 1;
        socket.send(payload)?;
        Ok(())
    }
}

/// The streams that one end receives, keyed by source address. The value is `None` if the source address does not
/// belong to a workload.
#[derive(Clone, Default)]
pub(super) struct Receiving(Rc<RefCell<BTreeMap<SocketAddrV4, Option<Incoming>>>>);

/// The receiving side of a stream.
struct Incoming {
    job: u32,
    received: Received,
    /// Expected number of the next datagram.
    next: u64,
}

impl Receiving {
    /// Returns the counts of all streams, by job, and resets the counts.
    pub(super) fn take_all(&self) -> Vec<(u32, Received)> {
        let all = self.0.take();
        all.into_values().flatten().map(|incoming| (incoming.job, incoming.received)).collect()
    }
}

/// Receives datagrams from a socket until the end of the run.
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
            end.report_error("receiving a datagram", &error);
        }
    }
}

/// The contents of a datagram.
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

/// Receives a datagram, and returns its source address, payload length, and DSCP and ECN bits.
pub(super) fn read_raw(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(SocketAddrV4, usize, u8)> {
    let mut control = nix::cmsg_space!(u8);
    let mut slices = [IoSliceMut::new(buffer)];
    let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
    let message = recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut control), flags)?;
    let tos = message.cmsgs()?.find_map(|one| match one {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        _ => None,
    });
    let peer = message.address.ok_or_else(|| io::Error::other("the datagram has no source address"))?;
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
            received.total_delay = received.total_delay + end.now().since(sent);
        }
    }
}

//! An endpoint of a TCP connection, which opens the connection, sends and receives data, and closes the connection.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022, sections 3.5 and 3.6; K. Ramakrishnan et al., RFC 3168,
//! 2001, section 6.1.1 (negotiation of ECN).
//!
//! aqmlab's choices where the sources are silent: if data is sent while an acknowledgement or the last segment of the
//! handshake is pending, the data segment carries the acknowledgement; an endpoint whose peer has closed the connection
//! also closes the connection when all written data has been sent; after closing, an endpoint answers duplicate
//! segments indefinitely (TIME-WAIT has no timer); an endpoint that gives up sends no further segments.

mod handshake;
mod state;

use std::sync::Arc;

use aqm_net::{Ecn, Instant, Rng};

use crate::config::CheckedConfig;
use crate::config::connection::{Close, FinAck, Handshake};
use crate::counts::FailureReason;

use crate::receiver::Receiver;
use crate::recovery::TimerContext;
use crate::segment::{Flags, Segment};
use crate::sender::{ENDLESS, Overhead, Sender};

/// States of a connection (RFC 9293, section 3.3.2). States in which an endpoint behaves identically are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// CLOSED, before the connection is opened.
    Closed,
    /// LISTEN.
    Listening,
    /// SYN-SENT.
    Opening,
    /// SYN-RECEIVED.
    Answering,
    /// ESTABLISHED, and the closing states until both endpoints' FINs are acknowledged.
    Open,
    /// CLOSED or TIME-WAIT.
    Done,
    /// The endpoint gave up.
    Failed(FailureReason),
}

/// Control segment that must be sent before any data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingControl {
    Nothing,
    /// A SYN or SYN-ACK.
    Syn,
    /// An acknowledgement that is sent without waiting for data: the last segment of the handshake, or the
    /// acknowledgement of a FIN.
    Ack,
}

/// An endpoint of a connection. The struct fits into one cache line and contains the state that is needed to receive
/// data. The sender's state is allocated separately, when the endpoint first has to send something that must be
/// acknowledged.
#[repr(C)]
pub struct Endpoint {
    receiver: Receiver,
    tcp: Arc<CheckedConfig>,
    sender: Option<Box<Sender>>,
    /// Number of pure acknowledgements sent.
    acks_sent: u32,
    /// Number of SYNs or SYN-ACKs sent. The counter saturates.
    syns_sent: u8,
    phase: Phase,
    /// Whether the application has finished writing data.
    finished: bool,
    /// Control segment that must be sent before any data.
    pending_control: PendingControl,
}

impl CheckedConfig {
    /// Creates an endpoint that has not been opened yet.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        Endpoint {
            receiver: Receiver::new(),
            tcp: Arc::clone(self),
            sender: None,
            acks_sent: 0,
            syns_sent: 0,
            phase: Phase::Closed,
            finished: false,
            pending_control: PendingControl::Nothing,
        }
    }
}

impl Endpoint {
    /// Sets the random number generator for `send_overhead`. Without a generator, the parameter has no effect.
    #[must_use]
    pub fn with_random(mut self, random: impl FnOnce() -> Rng) -> Self {
        let max_delay = self.tcp.config.connection.send_overhead;
        if !max_delay.is_zero() {
            self.sender_mut().0.set_overhead(Overhead::new(max_delay, random()));
        }
        self
    }

    /// Sets the random number generator of the congestion control, if the congestion control uses random numbers.
    /// Without this call, all endpoints use the same sequence of random numbers.
    #[must_use]
    pub fn with_control_random(mut self, random: impl FnOnce() -> Rng) -> Self {
        if self.tcp.config.congestion_control.uses_random() {
            self.sender_mut().0.set_control_random(random());
        }
        self
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            return;
        }
        self.sender_mut();
        if self.tcp.config.connection.handshake == Handshake::None {
            self.begin_at_once(now);
        } else {
            self.phase = Phase::Opening;
            self.pending_control = PendingControl::Syn;
        }
    }

    /// Waits for the other endpoint to open the connection.
    pub fn listen(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            return;
        }
        if self.tcp.config.connection.handshake == Handshake::None {
            self.begin_at_once(now);
        } else {
            self.phase = Phase::Listening;
        }
    }

    /// Adds `bytes` bytes to the data to send; `None` adds unlimited data. A call is ignored after
    /// [`finish`](Self::finish) has been called or the other endpoint's FIN has arrived.
    pub fn write(&mut self, bytes: Option<u64>, now: Instant) {
        if self.finished {
            return;
        }
        let (sender, tcp) = self.sender_mut();
        sender.write(bytes.map_or(ENDLESS, |bytes| tcp.end(bytes)), now, tcp);
    }

    /// Declares that no more data will be written. The endpoint closes the connection when all data has been sent.
    pub fn finish(&mut self) {
        if self.tcp.config.connection.close == Close::Fin {
            let (sender, _) = self.sender_mut();
            sender.fin = sender.end < ENDLESS;
        }
        self.finished = true;
        if self.phase == Phase::Open {
            self.close_if_over();
        }
    }

    /// Aborts the connection at this endpoint, which sends nothing any more.
    pub fn abort(&mut self) {
        self.phase = Phase::Failed(FailureReason::Aborted);
        self.pending_control = PendingControl::Nothing;
    }

    /// Processes a segment.
    #[inline]
    pub fn on_segment(&mut self, segment: &Segment, now: Instant) {
        if self.phase != Phase::Open && !self.process_handshake(segment.flags, segment.ecn, segment.sent, now)
        {
            return;
        }
        if segment.flags.has(Flags::SYN) {
            return self.on_repeated_syn(segment.flags);
        }
        if self.tcp.is_quic {
            return self.on_quic_packet(&{ *segment }, now);
        }
        let has_data = segment.len > 0 || segment.flags.has(Flags::FIN);
        self.receiver.on_ecn(segment);
        if has_data {
            let at = || context(&self.sender, now, &self.tcp);
            self.receiver.on_segment(segment, at, &self.tcp.config);
        }
        if let Some(sender) = &mut self.sender
            && sender.sent() > sender.una()
        {
            if self.tcp.has_timestamps {
                sender.set_timestamp(segment.sent);
            }
            sender.on_ack(segment, !has_data, now, &self.tcp);
        }
        if self.receiver.has_fin() && !self.finished {
            if self.tcp.config.connection.fin_ack == FinAck::Alone {
                self.pending_control = PendingControl::Ack;
            }
            self.finish();
        }
        self.close_if_over();
    }

    /// Processes a QUIC packet on an open connection.
    #[inline(never)]
    fn on_quic_packet(&mut self, packet: &Segment, now: Instant) {
        self.receiver.on_ecn(packet);
        if packet.len > 0 {
            self.receiver.on_packet(packet, now, &self.tcp.config);
        }
        if let Some(sender) = self.sender.as_mut().filter(|_| packet.ack > 0) {
            sender.on_ack(packet, packet.len == 0, now, &self.tcp);
        }
        self.close_if_over();
    }

    /// Processes a SYN that arrives on an open connection.
    #[cold]
    fn on_repeated_syn(&mut self, flags: Flags) {
        // The SYN-ACK, or the acknowledgement of the SYN-ACK, was lost (RFC 9293, 3.10.7.4).
        if self.tcp.config.connection.handshake == Handshake::ThreeWay {
            self.receiver.acknowledge();
        } else if !flags.has(Flags::ACK) {
            self.pending_control = PendingControl::Syn;
        }
    }

    /// Processes the expiry of the endpoint's timers.
    pub fn on_timer(&mut self, now: Instant) {
        self.receiver.on_timer(context(&self.sender, now, &self.tcp));
        let Some(sender) = &mut self.sender else { return };
        sender.on_timer(now, &self.tcp);
        if self.tcp.is_quic {
            let limit = self.tcp.config.connection.max_retries;
            if limit.is_some_and(|limit| sender.probe_timeouts().consecutive > limit) {
                self.phase = Phase::Failed(FailureReason::NoProgress);
            }
        }
        if !sender.timer.is_due(now) {
            return;
        }
        sender.counts.timeouts += 1;
        let opening = matches!(self.phase, Phase::Opening | Phase::Answering);
        let config = &self.tcp.config;
        let limit = if opening { config.connection.max_syn_retries } else { config.connection.max_retries };
        if limit.is_some_and(|limit| sender.timer.retries >= limit) {
            self.phase =
                Phase::Failed(if opening { FailureReason::NoAnswer } else { FailureReason::NoProgress });
            sender.timer.stop();
        } else if opening {
            self.pending_control = PendingControl::Syn;
            sender.timer.back_off(now, &self.tcp.config.rto);
        } else {
            sender.on_timeout(now, &self.tcp);
        }
    }

    /// Returns the next segment to send; `None` if there is no segment to send.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let mut data = None;
        if self.pending_control != PendingControl::Nothing {
            if self.pending_control == PendingControl::Syn {
                return Some(self.send_syn(now));
            }
            self.pending_control = PendingControl::Nothing;
        } else if let Some(sender) = &mut self.sender
            && self.phase == Phase::Open
            && !sender.is_acknowledged()
        {
            data = sender.poll_transmit(now, &self.tcp);
        }
        let mut segment = match data {
            Some(segment) => segment,
            None if self.receiver.is_due() && self.gave_up().is_none() => {
                self.acks_sent += 1;
                let wire = self.tcp.config.connection.ack_size.bytes() as u16;
                let ecn = if self.tcp.ecn.on_acks { self.ecn_of_ack() } else { Ecn::NotEct };
                Segment { seq: self.sent(), wire, ecn, ..Segment::default() }
            }
            None => return None,
        };
        self.receiver.write_acknowledgement(&mut segment, now, &self.tcp.config);
        if self.tcp.has_timestamps {
            segment.sent = now;
            if let Some(sender) = self.sender.as_ref().filter(|_| segment.len > 0) {
                segment.echo = segment.echo.max(sender.timestamp());
            }
        }
        Some(segment)
    }

    /// Returns whether `poll_transmit` may return another segment. If the result is `true`, `poll_transmit` may still
    /// return no segment; if the result is `false`, `poll_transmit` would return no segment.
    #[inline(always)]
    pub fn may_transmit(&self) -> bool {
        self.pending_control != PendingControl::Nothing
            || self.receiver.is_due()
            || self.sender.as_ref().is_some_and(|sender| sender.may_transmit(&self.tcp))
    }

    /// Returns the time at which `on_timer` must be called next.
    #[inline(always)]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.gave_up().is_some() {
            return None;
        }
        let next = self.sender.as_ref().map_or(Instant::NEVER, |sender| sender.next_timer());
        let next = next.min(self.receiver.timer());
        (next != Instant::NEVER).then_some(next)
    }

    /// Returns whether pacing has held back a segment until `now`. In this case, `on_timer` must be called at `now`.
    #[inline]
    pub fn departs(&self, now: Instant) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.departs(now)) && self.gave_up().is_none()
    }

    /// Returns the number of payload bytes that have arrived in order. Each byte is counted once, and padding bytes are
    /// included.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Returns the number of bytes written to this endpoint that the other endpoint has acknowledged. Padding bytes are
    /// included, and a FIN counts as one byte.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.una())
    }

    /// Returns whether the connection is closed and this endpoint has no remaining state; returns `false` if the
    /// endpoint gave up.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns whether the connection is closed at this endpoint or the endpoint gave up.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Failed(_))
    }

    /// Returns the reason why the endpoint gave up; `None` if the endpoint did not give up.
    #[inline]
    pub fn gave_up(&self) -> Option<FailureReason> {
        match self.phase {
            Phase::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the sender's state, so that it can be prefetched into the cache.
    #[inline]
    pub fn sending_state(&self) -> Option<&impl Sized> {
        self.sender.as_deref()
    }

    /// Returns the number of unacknowledged bytes. A FIN counts as one byte.
    pub fn in_flight(&self) -> u64 {
        self.sent() - self.acknowledged()
    }

    /// Returns the ECN bits with which a pure acknowledgement is sent.
    #[cold]
    fn ecn_of_ack(&self) -> Ecn {
        self.sender.as_ref().map_or(Ecn::NotEct, |sender| sender.ecn_of_ack())
    }

    /// Returns the sequence number that follows all sent data.
    #[inline]
    fn sent(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.sent())
    }

    /// Calls `query` with the sender, or with a new sender if the endpoint has no sender.
    #[inline(always)]
    fn query<T>(&self, query: impl FnOnce(&Sender) -> T) -> T {
        match &self.sender {
            Some(sender) => query(sender),
            None => query(&new_sender(&self.tcp, self.phase)),
        }
    }

    /// Returns the sender and the parameters. The sender is allocated if it does not exist.
    fn sender_mut(&mut self) -> (&mut Sender, &CheckedConfig) {
        let sender = self.sender.get_or_insert_with(|| Box::new(new_sender(&self.tcp, self.phase)));
        (sender, &self.tcp)
    }

    #[inline]
    fn close_if_over(&mut self) {
        if self.finished
            && self.sender.as_ref().is_none_or(|sender| sender.is_acknowledged())
            && (self.receiver.has_fin() || self.tcp.config.connection.close == Close::None)
        {
            self.phase = Phase::Done;
        }
    }
}

/// Creates a sender in the state that corresponds to `phase`. If the sender is created after the handshake, the
/// handshake did not require a sender at this endpoint.
#[cold]
fn new_sender(tcp: &CheckedConfig, phase: Phase) -> Sender {
    let mut sender = Sender::new(tcp);
    if matches!(phase, Phase::Open | Phase::Done) {
        sender.begin(false, tcp);
    }
    sender
}

/// Returns the current time and the endpoint's round-trip estimate.
#[inline]
fn context<'a>(sender: &'a Option<Box<Sender>>, now: Instant, tcp: &'a CheckedConfig) -> TimerContext<'a> {
    let estimator = sender.as_ref().map_or(&tcp.unmeasured, |sender| &sender.timer.estimator);
    TimerContext { now, estimator, config: &tcp.config.rto }
}

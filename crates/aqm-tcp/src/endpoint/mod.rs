//! One end of a connection: opens, sends and receives, closes.
//!
//! W. Eddy, "Transmission Control Protocol", RFC 9293, 2022, sections 3.5 and 3.6; K. Ramakrishnan et
//! al., RFC 3168, 2001, section 6.1.1 (agreement on ECN).
//!
//! Ours, where the sources are silent: what an end has to acknowledge rides on data if data leaves at
//! the same moment, as the last step of the handshake does; an end whose peer has closed closes too,
//! once what it wrote is sent; after closing it still answers what comes twice, without a timer
//! (TIME-WAIT lasts as long as someone asks); an end that gives up says nothing.

mod handshake;
mod state;

use std::sync::Arc;

use aqm_net::{Instant, Rng};

use crate::config::CheckedConfig;
use crate::config::connection::{Close, FinAck, Handshake};
use crate::counts::GaveUp;

use crate::receiver::Receiver;
use crate::recovery::TimerContext;
use crate::segment::{Flags, Segment};
use crate::sender::{ENDLESS, Overhead, Sender};

/// States of a connection (RFC 9293, section 3.3.2), as far as they differ in what an end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// CLOSED, not yet opened.
    Closed,
    /// LISTEN.
    Listening,
    /// SYN-SENT.
    Opening,
    /// SYN-RECEIVED.
    Answering,
    /// ESTABLISHED, and the states of closing until both FINs are acknowledged.
    Open,
    /// CLOSED or TIME-WAIT.
    Done,
    /// It gave up.
    Failed(GaveUp),
}

/// What is to be sent before any data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Nothing,
    /// A SYN, or its answer.
    Syn,
    /// An acknowledgement that does not wait for data: the one that ends the handshake, or that of a FIN.
    Ack,
}

/// One end of a connection, in a cache line: what it needs to receive. What it needs to send is kept apart and made
/// when there is something to send that has to be acknowledged.
#[repr(C)]
pub struct Endpoint {
    receiver: Receiver,
    tcp: Arc<CheckedConfig>,
    sender: Option<Box<Sender>>,
    /// Acknowledgements sent that carried nothing else.
    acks_sent: u32,
    /// How many SYNs, or answers to one, have been sent, as far as this counts.
    syns_sent: u8,
    phase: Phase,
    /// Whether the application has said that it will write no more.
    finished: bool,
    /// What is to be sent before any data.
    ahead: Ahead,
}

impl CheckedConfig {
    /// An end of a connection, not yet opened.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        Endpoint {
            receiver: Receiver::new(),
            tcp: Arc::clone(self),
            sender: None,
            acks_sent: 0,
            syns_sent: 0,
            phase: Phase::Closed,
            finished: false,
            ahead: Ahead::Nothing,
        }
    }
}

impl Endpoint {
    /// Gives it the random numbers it needs for `send_overhead`; without it the parameter has no effect.
    #[must_use]
    pub fn with_chance(mut self, chance: impl FnOnce() -> Rng) -> Self {
        let longest = self.tcp.config.connection.send_overhead;
        if !longest.is_zero() {
            self.sending().0.set_overhead(Overhead::new(longest, chance()));
        }
        self
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            return;
        }
        self.sending();
        if self.tcp.config.connection.handshake == Handshake::None {
            self.begin_at_once(now);
        } else {
            self.phase = Phase::Opening;
            self.ahead = Ahead::Syn;
        }
    }

    /// Waits for the other end to open the connection.
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

    /// Gives it `bytes` bytes to send; `None` for data without end. Ignored once it closes: after
    /// [`finish`](Self::finish), or when the other end's FIN has come.
    pub fn write(&mut self, bytes: Option<u64>, now: Instant) {
        if self.finished {
            return;
        }
        let (sender, tcp) = self.sending();
        sender.write(bytes.map_or(ENDLESS, |bytes| tcp.end(bytes)), now, tcp);
    }

    /// Nothing more will be written: the end closes when all is sent.
    pub fn finish(&mut self) {
        if self.tcp.config.connection.close == Close::Fin {
            let (sender, _) = self.sending();
            sender.fin = sender.end < ENDLESS;
        }
        self.finished = true;
        if self.phase == Phase::Open {
            self.close_if_over();
        }
    }

    /// A segment arrived.
    #[inline]
    pub fn on_segment(&mut self, segment: &Segment, now: Instant) {
        if self.phase != Phase::Open && !self.shakes_hands(segment.flags, now) {
            return;
        }
        if segment.flags.has(Flags::SYN) {
            return self.on_repeated_syn(segment.flags);
        }
        let carries = segment.len > 0 || segment.flags.has(Flags::FIN);
        if carries {
            let at = || context(&self.sender, now, &self.tcp);
            self.receiver.on_segment(segment, at, &self.tcp.config);
        }
        if let Some(sender) = &mut self.sender
            && sender.sent() > sender.una()
        {
            sender.on_ack(segment, !carries, now, &self.tcp);
        }
        if self.receiver.has_fin() && !self.finished {
            if self.tcp.config.connection.fin_ack == FinAck::Alone {
                self.ahead = Ahead::Ack;
            }
            self.finish();
        }
        self.close_if_over();
    }

    /// A SYN came though the connection is open.
    #[cold]
    fn on_repeated_syn(&mut self, flags: Flags) {
        // The answer to it was lost, or to its answer (RFC 9293, 3.10.7.4).
        if self.tcp.config.connection.handshake == Handshake::ThreeWay {
            self.receiver.acknowledge();
        } else if !flags.has(Flags::ACK) {
            self.ahead = Ahead::Syn;
        }
    }

    /// Time has passed: timers may be due.
    pub fn on_timer(&mut self, now: Instant) {
        self.receiver.on_timer(context(&self.sender, now, &self.tcp));
        let Some(sender) = &mut self.sender else { return };
        sender.on_timer(now, &self.tcp);
        if !sender.timer.is_due(now) {
            return;
        }
        sender.counts.timeouts += 1;
        let opening = matches!(self.phase, Phase::Opening | Phase::Answering);
        let config = &self.tcp.config;
        let limit = if opening { config.connection.max_syn_retries } else { config.connection.max_retries };
        if limit.is_some_and(|limit| sender.timer.retries >= limit) {
            self.phase = Phase::Failed(if opening { GaveUp::NoAnswer } else { GaveUp::NoProgress });
            sender.timer.stop();
        } else if opening {
            self.ahead = Ahead::Syn;
            sender.timer.back_off(now, &self.tcp.config.rto);
        } else {
            sender.on_timeout(now, &self.tcp);
        }
    }

    /// The next segment to send; ask until there is none.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let mut data = None;
        if self.ahead != Ahead::Nothing {
            if self.ahead == Ahead::Syn {
                return Some(self.send_syn(now));
            }
            self.ahead = Ahead::Nothing;
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
                Segment { seq: self.sent(), wire, ..Segment::default() }
            }
            None => return None,
        };
        self.receiver.fill_in(&mut segment, &self.tcp.config);
        if self.tcp.has_timestamps {
            segment.sent = now;
        }
        Some(segment)
    }

    /// Whether `poll_transmit` may have another segment after one that it gave; it says so in doubt.
    #[inline(always)]
    pub fn may_transmit(&self) -> bool {
        self.ahead != Ahead::Nothing
            || self.receiver.is_due()
            || self.sender.as_ref().is_some_and(|sender| sender.may_transmit(&self.tcp))
    }

    /// When `on_timer` wants to be called next.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.gave_up().is_some() {
            return None;
        }
        let next = self.sender.as_ref().map_or(Instant::NEVER, |sender| sender.next_timer());
        let next = next.min(self.receiver.timer());
        (next != Instant::NEVER).then_some(next)
    }

    /// Payload bytes that arrived in order, each counted once; padding counts.
    #[inline]
    pub fn received(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Bytes written here that the other end has acknowledged, a FIN as one more; padding counts.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.una())
    }

    /// Whether the connection is closed and nothing of it is left at this end; never if it gave up.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether the connection is closed at this end, or given up.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Failed(_))
    }

    /// Why it gave up, if it did.
    #[inline]
    pub fn gave_up(&self) -> Option<GaveUp> {
        match self.phase {
            Phase::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// What it keeps in order to send, for whoever wants to have it in the cache.
    #[inline]
    pub fn sending_state(&self) -> Option<&impl Sized> {
        self.sender.as_deref()
    }

    /// Bytes sent and not acknowledged, a FIN as one.
    pub fn in_flight(&self) -> u64 {
        self.sent() - self.acknowledged()
    }

    /// The end of everything sent.
    #[inline]
    fn sent(&self) -> u64 {
        self.sender.as_ref().map_or(0, |sender| sender.sent())
    }

    /// What the sending half answers, or would answer if there were one.
    #[inline(always)]
    fn ask<T>(&self, question: impl FnOnce(&Sender) -> T) -> T {
        match &self.sender {
            Some(sender) => question(sender),
            None => question(&new_sender(&self.tcp, self.phase)),
        }
    }

    /// The sending half, made if there is none yet, and how it behaves.
    fn sending(&mut self) -> (&mut Sender, &CheckedConfig) {
        let sender = self.sender.get_or_insert_with(|| Box::new(new_sender(&self.tcp, self.phase)));
        (sender, &self.tcp)
    }

    /// Both ends have agreed that packets may be marked, or have not.
    fn set_ecn(&mut self, agreed: bool) {
        if agreed {
            let (sender, tcp) = self.sending();
            sender.set_ecn(tcp);
        }
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

/// A sending half as it would be in this phase if it had been there from the beginning. Later than in the
/// handshake, none was needed to open the connection.
#[cold]
fn new_sender(tcp: &CheckedConfig, phase: Phase) -> Sender {
    let mut sender = Sender::new(tcp);
    if matches!(phase, Phase::Open | Phase::Done) {
        sender.begin(false, tcp);
    }
    sender
}

/// The present, and what an end knows of the path.
#[inline]
fn context<'a>(sender: &'a Option<Box<Sender>>, now: Instant, tcp: &'a CheckedConfig) -> TimerContext<'a> {
    let estimator = sender.as_ref().map_or(&tcp.unmeasured, |sender| &sender.timer.estimator);
    TimerContext { now, estimator, config: &tcp.config.rto }
}

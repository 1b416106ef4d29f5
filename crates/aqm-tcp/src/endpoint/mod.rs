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

use std::sync::Arc;

use aqm_net::{Instant, Rng, Span};

use crate::config::CheckedConfig;
use crate::config::connection::{Close, FinAck, Handshake};
use crate::config::ecn::EcnMode;
use crate::config::sack::SackBytes;
use crate::counts::{Counts, GaveUp};
use crate::overhead::Overhead;
use crate::receiver::Receiver;
use crate::segment::{Flags, Segment};
use crate::sender::{ENDLESS, Sender};

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
    Failed,
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

/// One end of a connection. It is told what happened and asked what follows. The order of the fields here and
/// in its two halves puts what a packet touches on few cache lines.
#[repr(C)]
pub struct Endpoint {
    receiver: Receiver,
    tcp: Arc<CheckedConfig>,
    /// How many SYNs, or answers to one, have been sent.
    syns_sent: u32,
    phase: Phase,
    gave_up: Option<GaveUp>,
    /// Whether the application has said that it will write no more.
    finished: bool,
    /// What is to be sent before any data.
    ahead: Ahead,
    sender: Sender,
}

impl CheckedConfig {
    /// An end of a connection, not yet opened.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        Endpoint {
            sender: Sender::new(self),
            receiver: Receiver::new(),
            tcp: Arc::clone(self),
            phase: Phase::Closed,
            gave_up: None,
            finished: false,
            ahead: Ahead::Nothing,
            syns_sent: 0,
        }
    }
}

impl Endpoint {
    /// Gives it the random numbers it needs for `send_overhead`; without it the parameter has no effect.
    #[must_use]
    pub fn with_chance(mut self, chance: impl FnOnce() -> Rng) -> Self {
        let longest = self.tcp.config.connection.send_overhead;
        if !longest.is_zero() {
            self.sender.set_overhead(Overhead::new(longest, chance()));
        }
        self
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Instant) {
        if self.phase != Phase::Closed {
            return;
        }
        if self.tcp.config.connection.handshake == Handshake::None {
            self.sender.set_ecn(self.tcp.config.ecn.mode == EcnMode::On, &self.tcp);
            self.establish(now);
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
            self.open(now);
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
        let bytes = bytes.map_or(ENDLESS, |bytes| self.tcp.end(bytes));
        self.sender.write(bytes, now, &self.tcp);
    }

    /// Nothing more will be written: the end closes when all is sent.
    pub fn finish(&mut self) {
        if self.sender.end < ENDLESS {
            self.sender.fin = self.tcp.config.connection.close == Close::Fin;
        }
        self.finished = true;
        if self.phase == Phase::Open {
            self.close_if_over();
        }
    }

    /// A segment arrived.
    pub fn on_segment(&mut self, segment: &Segment, now: Instant) {
        if self.phase != Phase::Open && !self.shakes_hands(segment, now) {
            return;
        }
        if segment.flags.has(Flags::SYN) {
            // The answer to it was lost, or to its answer (RFC 9293, 3.10.7.4).
            if self.tcp.config.connection.handshake == Handshake::ThreeWay {
                self.receiver.acknowledge();
            } else if !segment.flags.has(Flags::ACK) {
                self.ahead = Ahead::Syn;
            }
            return;
        }
        let carries = segment.len > 0 || segment.flags.has(Flags::FIN);
        if carries {
            let at = self.sender.timer.context(now, &self.tcp.config.rto);
            self.receiver.on_segment(segment, at, &self.tcp.config);
        }
        if self.sender.sent() > self.sender.una() {
            self.sender.on_ack(segment, !carries, now, &self.tcp);
        }
        if self.receiver.has_fin() && !self.finished {
            if self.tcp.config.connection.fin_ack == FinAck::Alone {
                self.ahead = Ahead::Ack;
            }
            self.finish();
        }
        self.close_if_over();
    }

    /// Time has passed: timers may be due.
    pub fn on_timer(&mut self, now: Instant) {
        let at = self.sender.timer.context(now, &self.tcp.config.rto);
        self.receiver.on_timer(at);
        self.sender.on_timer(now, &self.tcp);
        if !self.sender.timer.is_due(now) {
            return;
        }
        self.sender.counts.timeouts += 1;
        let opening = matches!(self.phase, Phase::Opening | Phase::Answering);
        let config = &self.tcp.config;
        let limit = if opening { config.connection.max_syn_retries } else { config.connection.max_retries };
        if limit.is_some_and(|limit| self.sender.timer.retries >= limit) {
            self.gave_up = Some(if opening { GaveUp::NoAnswer } else { GaveUp::NoProgress });
            self.phase = Phase::Failed;
            self.sender.timer.stop();
        } else if opening {
            self.ahead = Ahead::Syn;
            self.sender.timer.back_off(now, &self.tcp.config.rto);
        } else {
            self.sender.on_timeout(now, &self.tcp);
        }
    }

    /// The next segment to send; ask until there is none.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.ahead == Ahead::Syn {
            return Some(self.send_syn(now));
        }
        let alone = std::mem::replace(&mut self.ahead, Ahead::Nothing) == Ahead::Ack;
        let data = if self.phase == Phase::Open && !alone && !self.sender.is_acknowledged() {
            self.sender.poll_transmit(now, &self.tcp)
        } else {
            None
        };
        let mut segment = match data {
            Some(segment) => segment,
            None if self.receiver.is_due() && self.phase != Phase::Failed => {
                self.sender.counts.acks_sent += 1;
                let wire = self.tcp.config.connection.ack_size.bytes() as u16;
                Segment { seq: self.sender.sent(), wire, ..Segment::default() }
            }
            None => return None,
        };
        self.receiver.fill_in(&mut segment, &self.tcp.config);
        if !segment.sacks.is_empty() {
            let option = match self.tcp.config.sack.option_bytes {
                SackBytes::Counted => 4, // kind, length, and padding to a word
                SackBytes::Blocks => 0,
            };
            segment.wire = segment.wire.saturating_add(option + 8 * segment.sacks.count());
        }
        Some(segment)
    }

    /// When `on_timer` wants to be called next.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase == Phase::Failed {
            return None;
        }
        let next = self.sender.next_timer().min(self.receiver.timer());
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
        self.sender.una()
    }

    /// Whether the connection is closed and nothing of it is left at this end; never if it gave up.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Why it gave up, if it did.
    pub fn gave_up(&self) -> Option<GaveUp> {
        self.gave_up
    }

    /// What it has done so far.
    #[inline]
    pub fn counts(&self) -> &Counts {
        &self.sender.counts
    }

    /// The window that packets tell routers: whole segments, at least 1, without inflation.
    #[inline]
    pub fn window_hint(&self) -> u16 {
        self.sender.window_hint(&self.tcp)
    }

    /// The congestion window, in segments, without inflation.
    pub fn cwnd(&self) -> f64 {
        self.sender.cwnd()
    }

    /// The slow-start threshold, in segments.
    pub fn ssthresh(&self) -> f64 {
        self.sender.ssthresh()
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Span> {
        self.sender.timer.estimator.srtt(&self.tcp.config.rto)
    }

    /// The round-trip time's variation.
    pub fn rttvar(&self) -> Option<Span> {
        self.sender.timer.estimator.rttvar(&self.tcp.config.rto)
    }

    /// The retransmission time-out, backed off.
    pub fn rto(&self) -> Span {
        self.sender.timer.rto(&self.tcp.config.rto)
    }

    /// By what the time-out is multiplied.
    pub fn backoff(&self) -> u32 {
        self.sender.timer.estimator.backoff()
    }

    /// Duplicate acknowledgements since the last new one.
    pub fn dupacks(&self) -> u32 {
        self.sender.dupacks()
    }

    /// Bytes sent and not acknowledged, a FIN as one.
    pub fn in_flight(&self) -> u64 {
        self.sender.sent() - self.sender.una()
    }

    #[inline]
    fn close_if_over(&mut self) {
        if self.finished
            && self.sender.is_acknowledged()
            && (self.receiver.has_fin() || self.tcp.config.connection.close == Close::None)
        {
            self.phase = Phase::Done;
        }
    }
}

//! The opening of a connection.
//!
//! RFC 9293, sections 3.5 and 3.10.7; RFC 3168, section 6.1.1 (ECN negotiation).

use aqm_net::Instant;

use super::{Endpoint, PendingControl, Phase};
use crate::config::connection::{Handshake, HandshakeAck, RepeatedSyn};
use crate::config::ecn::EcnMode;
use crate::segment::{Flags, Segment};

impl Endpoint {
    /// Processes a segment that arrives before the connection is open or after the connection is closed. Returns
    /// whether the segment needs further processing.
    #[cold]
    pub(super) fn process_handshake(&mut self, flags: Flags, now: Instant) -> bool {
        let three_way = self.tcp.config.connection.handshake == Handshake::ThreeWay;
        let capable = self.tcp.config.ecn.mode == EcnMode::On;
        let (syn, ack) = (flags.has(Flags::SYN), flags.has(Flags::ACK));
        match self.phase {
            Phase::Listening if syn && !ack => {
                self.set_ecn(capable && flags.has(Flags::ECE.union(Flags::CWR)));
                self.pending_control = PendingControl::Syn;
                if three_way {
                    self.sender_mut();
                    self.phase = Phase::Answering;
                } else {
                    self.establish(now);
                }
                false
            }
            Phase::Opening if syn && ack => {
                self.set_ecn(capable && flags.has(Flags::ECE));
                self.on_answer(now);
                if three_way {
                    self.receiver.acknowledge();
                    if self.tcp.config.connection.handshake_ack == HandshakeAck::Alone {
                        self.pending_control = PendingControl::Ack;
                    }
                }
                false
            }
            Phase::Answering if syn => {
                if !ack && self.tcp.config.connection.repeated_syn != RepeatedSyn::Ignored {
                    self.pending_control = PendingControl::Syn;
                    let (sender, tcp) = self.sender_mut();
                    // The acknowledgement of a SYN that was sent twice is not a round-trip sample (Karn).
                    sender.timer.forget();
                    if tcp.config.connection.repeated_syn == RepeatedSyn::Restarts {
                        sender.timer.restart(now, &tcp.config.rto);
                    }
                }
                false
            }
            Phase::Answering if ack => {
                self.on_answer(now);
                true
            }
            phase => phase == Phase::Done,
        }
    }

    /// Completes the handshake after this endpoint's SYN or SYN-ACK has been acknowledged.
    fn on_answer(&mut self, now: Instant) {
        let (sender, tcp) = self.sender_mut();
        let sampled = sender.timer.on_ack(0, now, &tcp.config.rto);
        if let Some(rto) = tcp.config.rto.after_syn_loss.filter(|_| !sampled) {
            sender.timer.estimator.restart_from(rto);
        }
        self.establish(now);
    }

    /// Establishes the connection without a handshake.
    pub(super) fn begin_at_once(&mut self, now: Instant) {
        self.set_ecn(self.tcp.config.ecn.mode == EcnMode::On);
        self.establish(now);
    }

    /// Starts the data transfer.
    fn establish(&mut self, now: Instant) {
        if let Some(sender) = &mut self.sender {
            sender.established_at = now;
            sender.begin(self.syns_sent > 1, &self.tcp);
        }
        self.phase = Phase::Open;
        self.close_if_over();
    }

    /// Returns a SYN or SYN-ACK.
    pub(super) fn send_syn(&mut self, now: Instant) -> Segment {
        self.pending_control = PendingControl::Nothing;
        let config = &self.tcp.config;
        let opening = self.phase == Phase::Opening;
        let agreed = self.sender.as_ref().is_some_and(|sender| sender.has_ecn());
        let (mut flags, size) = match (opening, config.ecn.mode == EcnMode::On, agreed) {
            (true, true, _) => (Flags::SYN.union(Flags::ECE).union(Flags::CWR), config.connection.syn_size),
            (true, false, _) => (Flags::SYN, config.connection.syn_size),
            (false, _, true) => (Flags::SYN.union(Flags::ACK).union(Flags::ECE), config.connection.ack_size),
            (false, _, false) => (Flags::SYN.union(Flags::ACK), config.connection.ack_size),
        };
        if self.syns_sent > 0 {
            flags = flags.union(Flags::RETRANSMISSION);
        }
        if let Some(sender) = &mut self.sender
            && matches!(self.phase, Phase::Opening | Phase::Answering)
        {
            if self.syns_sent == 0 {
                sender.timer.time(0, now);
                sender.timer.restart(now, &config.rto);
            }
            sender.counts.segments_sent += 1;
        }
        self.syns_sent = self.syns_sent.saturating_add(1);
        Segment { wire: size.bytes() as u16, flags, ..Segment::default() }
    }
}

//! Opens a connection.
//!
//! RFC 9293, sections 3.5 and 3.10.7; RFC 3168, section 6.1.1 (negotiation of ECN); RFC 9768, section 3.1 (AccECN).

use aqm_net::{Ecn, Instant};

use super::{Endpoint, PendingControl, Phase};
use crate::accurate_ecn;
use crate::config::connection::{Handshake, HandshakeAck, RepeatedSyn};
use crate::config::ecn::{EcnMode, Feedback};
use crate::receiver::MarkFeedback;
use crate::segment::{Flags, Segment};

impl Endpoint {
    /// Processes a segment with the timestamp `sent` that arrives before the connection is open or after the connection
    /// is closed. Returns whether the segment needs further processing.
    #[cold]
    pub(super) fn process_handshake(&mut self, flags: Flags, ecn: Ecn, sent: Instant, now: Instant) -> bool {
        let three_way = self.tcp.config.connection.handshake == Handshake::ThreeWay;
        let (syn, ack) = (flags.has(Flags::SYN), flags.has(Flags::ACK));
        match self.phase {
            Phase::Listening if syn && !ack => {
                self.on_syn_ecn(flags, ecn);
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
                self.on_syn_ack_ecn(flags, ecn);
                self.on_answer(sent, now);
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
                    // An acknowledgement of a SYN that was sent twice cannot be used as a round-trip sample (Karn's
                    // algorithm).
                    sender.timer.forget();
                    if tcp.config.connection.repeated_syn == RepeatedSyn::Restarts {
                        sender.timer.restart(now, &tcp.config.rto);
                    }
                }
                false
            }
            Phase::Answering if ack || self.tcp.is_quic => {
                self.on_answer(sent, now);
                true
            }
            phase => phase == Phase::Done,
        }
    }

    /// Returns the feedback that this endpoint offers; `None` if ECN is disabled.
    fn offered_feedback(&self) -> Option<Feedback> {
        (self.tcp.config.ecn.mode == EcnMode::On).then_some(self.tcp.ecn.feedback)
    }

    /// Processes the ECN codes of a SYN and selects the most accurate feedback that both endpoints support.
    fn on_syn_ecn(&mut self, flags: Flags, ecn: Ecn) {
        let requests_ecn = flags.has(Flags::ECE.union(Flags::CWR));
        let feedback = self.offered_feedback().filter(|_| requests_ecn).map(|ours| match ours {
            Feedback::Accurate if !flags.has(Flags::AE) => Feedback::Classic,
            // A SYN does not distinguish DCTCP from classic ECN (RFC 8257, section 3.5).
            Feedback::Accurate | Feedback::Dctcp | Feedback::Classic => ours,
        });
        self.agree(feedback, None);
        if let Some(sender) = &mut self.sender {
            sender.set_syn_ecn(ecn);
        }
    }

    /// Processes the ECN codes of a SYN/ACK.
    fn on_syn_ack_ecn(&mut self, code: Flags, ecn: Ecn) {
        let feedback = self.offered_feedback().and_then(|ours| match ours {
            Feedback::Accurate if accurate_ecn::accepts(code) => Some(Feedback::Accurate),
            Feedback::Dctcp if code.has(Flags::ECE) => Some(Feedback::Dctcp),
            // RFC 9768, table 2: the other endpoint supports only classic ECN.
            _ if code.has(Flags::ECE) && !code.has(Flags::CWR) => Some(Feedback::Classic),
            _ => None,
        });
        self.agree(feedback, Some(accurate_ecn::handshake_code(ecn)));
    }

    /// Sets the feedback on which both endpoints agreed. `code` is the code that the endpoint that opened the
    /// connection uses to report the ECN bits of the SYN/ACK.
    fn agree(&mut self, feedback: Option<Feedback>, code: Option<Flags>) {
        if let Some(feedback) = feedback {
            match feedback {
                Feedback::Classic => {}
                Feedback::Dctcp => self.receiver.set_feedback(MarkFeedback::dctcp()),
                Feedback::Accurate => {
                    let has_option = self.tcp.ecn.has_option;
                    self.receiver.set_feedback(MarkFeedback::accurate(has_option, code));
                }
            }
            let (sender, tcp) = self.sender_mut();
            sender.set_ecn(feedback, tcp);
        }
        if let Some(required) = self.tcp.ecn.required
            && !feedback.is_some_and(|feedback| feedback.satisfies(required))
        {
            let (sender, tcp) = self.sender_mut();
            sender.fall_back(tcp);
        }
    }

    /// Completes the handshake after a segment with the timestamp `sent` has acknowledged this endpoint's SYN or
    /// SYN-ACK.
    fn on_answer(&mut self, sent: Instant, now: Instant) {
        let (sender, tcp) = self.sender_mut();
        if tcp.has_timestamps {
            sender.set_timestamp(sent);
        }
        let sampled = sender.timer.on_ack(0, now, &tcp.config.rto);
        if let Some(rto) = tcp.config.rto.after_syn_loss.filter(|_| !sampled) {
            sender.timer.estimator.restart_from(rto, &tcp.config.rto);
        }
        self.establish(now);
    }

    /// Establishes the connection without a handshake.
    pub(super) fn begin_at_once(&mut self, now: Instant) {
        self.agree(self.offered_feedback(), None);
        self.establish(now);
    }

    /// Marks the connection as established, and starts the data transfer.
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
        // An endpoint that answers a SYN has already agreed on the feedback.
        let feedback = if opening {
            self.offered_feedback()
        } else {
            self.sender.as_ref().and_then(|sender| sender.feedback())
        };
        let (mut flags, size) = if opening {
            let code = match feedback {
                None => Flags::default(),
                Some(Feedback::Accurate) => accurate_ecn::ACE,
                Some(Feedback::Classic | Feedback::Dctcp) => Flags::ECE.union(Flags::CWR),
            };
            (Flags::SYN.union(code), config.connection.syn_size)
        } else {
            let code = match feedback {
                None => Flags::default(),
                Some(Feedback::Accurate) => {
                    let syn_ecn = self.sender.as_ref().map_or(Ecn::NotEct, |sender| sender.syn_ecn());
                    accurate_ecn::handshake_code(syn_ecn)
                }
                Some(Feedback::Classic | Feedback::Dctcp) => Flags::ECE,
            };
            let size = config.connection.syn_ack_size.unwrap_or(config.connection.ack_size);
            (Flags::SYN.union(Flags::ACK).union(code), size)
        };
        let ecn = if feedback.is_some() && self.tcp.ecn.on_syn {
            self.tcp.ecn.codepoint.ecn()
        } else {
            Ecn::NotEct
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
        let sent = if self.tcp.has_timestamps { now } else { Instant::START };
        Segment { wire: size.bytes() as u16, flags, ecn, sent, ..Segment::default() }
    }
}

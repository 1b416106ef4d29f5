//! Echoes: datagrams that the client sends at equal intervals and that the server returns at once.

use std::collections::BTreeMap;

use aqm_net::{Ecn, Instant};

use crate::probe_record::{Phase, Probe, ProbeKind};
use crate::{ArrivedDatagram, TrafficContext};

/// Size of an echo on the wire, in bytes (aqmlab's choice).
pub(super) const BYTES: u64 = 100;

/// Both ends of the echoes.
#[derive(Clone, Default)]
pub(super) struct Echoes {
    /// Positions of the echoes in the record, by number of the datagram to the server.
    sent: Vec<usize>,
    /// Number of the datagram to the server, by number of its reply.
    returned: BTreeMap<u64, u64>,
    replies: u64,
}

impl Echoes {
    /// Sends an echo and records it.
    pub(super) fn send(&mut self, phase: Phase, probes: &mut Vec<Probe>, cx: &mut dyn TrafficContext) {
        self.sent.push(probes.len());
        let (tcp, tls, response) = (None, None, None);
        probes.push(Probe { start: cx.now(), phase, kind: ProbeKind::Echo, tcp, tls, response });
        cx.datagram_back(0, BYTES as u16, Ecn::NotEct);
    }

    /// Returns a datagram that has arrived at the server, or records a reply that has arrived at the client.
    pub(super) fn on_datagram(
        &mut self,
        arrived: &ArrivedDatagram,
        probes: &mut [Probe],
        cx: &mut dyn TrafficContext,
    ) {
        if arrived.back {
            self.returned.insert(self.replies, arrived.number);
            self.replies += 1;
            return cx.datagram(0, BYTES as u16, Ecn::NotEct);
        }
        let position =
            self.returned.remove(&arrived.number).and_then(|number| self.sent.get(number as usize));
        if let Some(probe) = position.and_then(|&position| probes.get_mut(position)) {
            probe.response = Some(Instant::since(cx.now(), probe.start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RecordingContext;
    use aqm_net::Span;

    fn arrival(number: u64, back: bool) -> ArrivedDatagram {
        ArrivedDatagram { flow: 0, back, number, sent: Instant::START, bytes: 100, ecn: Ecn::NotEct }
    }

    #[test]
    fn a_reply_belongs_to_its_echo_when_others_are_lost() {
        let (mut echoes, mut probes) = (Echoes::default(), Vec::new());
        let mut cx = RecordingContext::default();
        for millis in [0, 10, 20, 30] {
            cx.now = Instant::START + Span::from_millis(millis);
            echoes.send(Phase::Idle, &mut probes, &mut cx);
        }
        // Echo 0 is lost on the way to the server, and the reply to echo 2 on the way back.
        for number in [1, 2, 3] {
            echoes.on_datagram(&arrival(number, true), &mut probes, &mut cx);
        }
        cx.now = Instant::START + Span::from_millis(50);
        for reply in [0, 2] {
            echoes.on_datagram(&arrival(reply, false), &mut probes, &mut cx);
        }
        let times: Vec<_> = probes.iter().map(|probe| probe.response).collect();
        let millis = |count| Some(Span::from_millis(count));
        assert_eq!(times, [None, millis(40), None, millis(20)]);
        assert_eq!((cx.sent_back.len(), cx.sent.len()), (4, 3));
    }
}

//! QUIC's loss recovery, which numbers packets instead of data: each packet has a new number, acknowledgements report
//! ranges of numbers, and the data of a lost packet is sent again in a packet with another number.
//!
//! J. Iyengar, I. Swett, "QUIC Loss Detection and Congestion Control", RFC 9002, 2021, sections 5 to 7 and appendices A
//! and B. Names in backticks are from the RFC. `packets.rs` detects losses, and `content.rs` determines which data must
//! be sent again.
//!
//! aqmlab's choices where the source is silent: all packets belong to one packet number space, because the handshake
//! consists of one packet in each direction; only packets with data have numbers; a probe timeout sends two packets,
//! which carry new data if there is any; no probe timeout is set while no data is missing; an acknowledgement of a
//! packet that was considered lost is ignored.

mod content;
mod packets;

use aqm_net::{Instant, Span};

use super::delivery_rate::DeliveryRate;
use super::sent::Stamp;
use super::{
    AckKind, AckOutcome, AnyRecovery, LossRecovery, ProbeTimeouts, ReceivedAck, Stream, TimerContext,
    Transmission, Windows,
};
use crate::config::Config;
use crate::congestion_control::RecoveryPhase;
use crate::packet_ranges::PacketRanges;
use content::Content;
use packets::{Losses, PERSISTENT_CONGESTION_THRESHOLD, Packets, Thresholds};

pub(super) const HAS_SACK: bool = true;

/// Number of packets that a probe timeout sends (section 6.2.4: one or two).
const PROBES: u32 = 2;

/// Minimum congestion window in packets (section 7.2).
const MINIMUM_WINDOW: u64 = 2;

/// Creates the recovery for `quic`.
pub(super) fn new(config: &Config) -> AnyRecovery {
    AnyRecovery::other(Quic::new(config))
}

/// State of a QUIC sender.
struct Quic {
    packets: Packets,
    content: Content,
    thresholds: Thresholds,
    /// `max_ack_delay`.
    max_ack_delay: Span,
    /// `min_rtt` and `latest_rtt`; `None` before the first sample.
    rtt: Option<RoundTrip>,
    /// `loss_time`.
    loss_time: Instant,
    /// Expiry time of the probe timer; `NEVER` if the timer is not running.
    probe_time: Instant,
    /// Departure time of the last packet (`time_of_last_ack_eliciting_packet`).
    last_sent: Instant,
    /// `pto_count`.
    probe_timeouts: u32,
    /// Number of probe timeouts since the connection was opened.
    all_probe_timeouts: u32,
    /// Number of probes that must be sent regardless of the window.
    probes: u32,
    /// Number of the first packet of the current recovery period (`congestion_recovery_start_time`).
    recovery_start: Option<u64>,
    /// Maximum number of bytes in flight.
    window: u64,
    /// Sequence number at which the receiver's window ends.
    receiver_end: u64,
    rate: Option<Box<DeliveryRate>>,
}

/// Round-trip times that the smoothed round-trip time does not include.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    least: Span,
    latest: Span,
}

impl Quic {
    fn new(config: &Config) -> Self {
        Self {
            packets: Packets::default(),
            content: Content::default(),
            thresholds: Thresholds {
                packets: config.recovery.dupthresh.into(),
                granularity: config.rto.tick,
            },
            max_ack_delay: config.receiver.delayed_ack_timer,
            rtt: None,
            loss_time: Instant::NEVER,
            probe_time: Instant::NEVER,
            last_sent: Instant::START,
            probe_timeouts: 0,
            all_probe_timeouts: 0,
            probes: 0,
            recovery_start: None,
            window: 0,
            receiver_end: 0,
            rate: None,
        }
    }

    /// Returns the length of the next piece of new data, if there is new data that the receiver's window permits.
    fn fresh(&self, stream: Stream) -> Option<u64> {
        let seq = self.content.end();
        let len = stream.segment(seq);
        (len > 0 && seq + len <= self.receiver_end).then_some(len)
    }

    /// Returns whether the congestion window permits another packet.
    fn has_room(&self) -> bool {
        self.packets.bytes_in_flight() < self.window
    }

    /// Detects losses. Returns the kind of event that the losses constitute; `None` if no packet is lost, or if the
    /// losses belong to a recovery period that has already reduced the window.
    fn detect_losses(&mut self, at: TimerContext<'_>) -> Option<AckKind> {
        let latest = self.rtt.map_or(Span::ZERO, |rtt| rtt.latest);
        let rtt = at.srtt().map_or(latest, |srtt| srtt.max(latest));
        let Self { packets, content, rate, .. } = self;
        let Losses { newest, longest, next } =
            packets.detect_losses(at.now, rtt, self.thresholds, |index, number, packet| {
                content.on_lost(packet.piece, number);
                if let Some(rate) = rate {
                    rate.on_lost(index, packet.seq, packet.len.into());
                }
            });
        self.loss_time = next;
        let newest = newest?;
        let period = self.probe_timeout(at).saturating_mul(PERSISTENT_CONGESTION_THRESHOLD);
        if self.rtt.is_some() && longest >= period {
            self.recovery_start = None;
            return Some(AckKind::PersistentCongestion);
        }
        if self.recovery_start.is_some_and(|start| newest < start) {
            return None;
        }
        self.recovery_start = Some(self.packets.next());
        Some(AckKind::Loss)
    }

    /// Returns the duration of the probe timeout without back-off (section 6.2.1).
    fn probe_timeout(&self, at: TimerContext<'_>) -> Span {
        at.rto() + self.max_ack_delay
    }

    /// Sets the probe timer (`SetLossDetectionTimer`).
    fn set_probe_timer(&mut self, at: TimerContext<'_>) {
        let is_needed = self.packets.bytes_in_flight() > 0 && !self.content.is_complete();
        let back_off = 1_u64 << self.probe_timeouts.min(16);
        let wait = self.probe_timeout(at).saturating_mul(back_off).min(at.config.max);
        self.probe_time = if is_needed { self.last_sent + wait } else { Instant::NEVER };
    }

    /// Removes the packets whose fate is known.
    fn remove_settled(&mut self) {
        let settled = self.packets.remove_settled();
        if let Some(rate) = &mut self.rate {
            (0..settled).for_each(|_| rate.pop_front());
        }
    }
}

impl LossRecovery for Quic {
    fn on_ack(&mut self, received: &ReceivedAck, at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        let (mut delivered, mut acked, mut newest) = (0, 0, None);
        let Self { packets, content, rate, .. } = self;
        for (from, to) in PacketRanges::of(received.sacks).ranges(received.ack) {
            packets.acknowledge(from, to, |index, number, packet| {
                delivered += u64::from(packet.len);
                newest = newest.max(Some((number, packet.sent)));
                acked += content.on_arrived(packet.piece);
                if let Some(rate) = rate {
                    let stamp = Stamp { number, sent: packet.sent };
                    rate.on_delivered(index, packet.len.into(), stamp);
                }
            });
        }
        let Some((newest, sent)) = newest else { return AckOutcome::NONE };
        let mut sample = Instant::NEVER;
        if newest + 1 == received.ack {
            let latest = at.now.since(sent);
            // The first smoothed round-trip time is the sample of the handshake.
            let before = self.rtt.map(|rtt| rtt.least).or_else(|| at.srtt());
            let least = before.map_or(latest, |least| least.min(latest));
            self.rtt = Some(RoundTrip { least, latest });
            // Section 5.3: the delay that the receiver reports is subtracted unless the result is below the minimum.
            let delay = Span::from_nanos(received.echo.nanos()).min(self.max_ack_delay);
            sample = if latest >= least + delay { sent + delay } else { sent };
        }
        // The losses and the probe timer depend on an estimate that includes this sample (`OnAckReceived`).
        let mut estimator = at.estimator.clone();
        if sample != Instant::NEVER {
            estimator.sample(sample, at.now, at.config);
        }
        let at = TimerContext { estimator: &estimator, ..at };
        let lost = self.detect_losses(at);
        self.probe_timeouts = 0;
        self.probes = 0;
        self.remove_settled();
        self.set_probe_timer(at);
        let kind = match (lost, self.recovery_start) {
            (Some(kind), _) => kind,
            (None, Some(start)) if newest < start => AckKind::Partial,
            (None, Some(_)) => {
                self.recovery_start = None;
                AckKind::Exit
            }
            (None, None) => AckKind::Advance,
        };
        let newest = if sample == Instant::NEVER { Instant::NEVER } else { sent };
        AckOutcome { acked, delivered, sent: sample, newest, kind, ..AckOutcome::NONE }
    }

    fn on_timeout(&mut self, _at: TimerContext<'_>, _config: &Config) {}

    fn on_timer(&mut self, at: TimerContext<'_>, _config: &Config) -> AckOutcome {
        if self.loss_time <= at.now {
            let kind = self.detect_losses(at);
            self.remove_settled();
            self.set_probe_timer(at);
            return AckOutcome { kind: kind.unwrap_or(AckKind::Stale), ..AckOutcome::NONE };
        }
        self.probe_timeouts += 1;
        self.all_probe_timeouts += 1;
        self.probes = PROBES;
        self.last_sent = at.now;
        self.set_probe_timer(at);
        AckOutcome::NONE
    }

    fn timer(&self) -> Instant {
        // No probe timer runs while a time threshold is pending (`GetPtoTimeAndSpace` follows `GetLossTimeAndSpace`).
        if self.loss_time == Instant::NEVER { self.probe_time } else { self.loss_time }
    }

    fn set_windows(&mut self, windows: Windows, _config: &Config) {
        self.window = windows.congestion.max(MINIMUM_WINDOW).saturating_mul(windows.mss);
        self.receiver_end = self.content.una().saturating_add(windows.receiver.saturating_mul(windows.mss));
    }

    fn has_next(&self, stream: Stream) -> bool {
        (self.probes > 0 && !self.content.is_complete())
            || ((self.has_room() || self.probes > 0)
                && (self.content.has_waiting() || self.fresh(stream).is_some()))
    }

    fn is_urgent(&self, _config: &Config) -> bool {
        self.probes > 0
    }

    fn next(&mut self, stream: Stream, at: TimerContext<'_>) -> Option<Transmission> {
        if !self.has_room() && self.probes == 0 {
            return None;
        }
        let packet = self.packets.next();
        let (piece, seq, len, is_retransmission) =
            if let Some((piece, seq, len)) = self.content.resend(packet) {
                (piece, seq, len, true)
            } else if let Some(len) = self.fresh(stream) {
                let (piece, seq) = self.content.add(len, packet);
                (piece, seq, len, false)
            } else {
                let skipped = PROBES.checked_sub(self.probes).filter(|_| self.probes > 0)?;
                let missing = self.content.probe(packet, skipped as usize);
                let Some((piece, seq, len)) = missing else {
                    self.probes = 0;
                    return None;
                };
                (piece, seq, len, true)
            };
        self.probes = self.probes.saturating_sub(1);
        self.packets.send(piece, seq, len, at.now);
        if let Some(rate) = &mut self.rate {
            rate.on_new(len, self.packets.bytes_in_flight(), at.now);
        }
        self.last_sent = at.now;
        self.set_probe_timer(at);
        Some(Transmission { seq, len, is_retransmission })
    }

    fn una(&self) -> u64 {
        self.content.una()
    }

    fn sent(&self) -> u64 {
        self.content.end()
    }

    fn outstanding(&self) -> u64 {
        self.packets.bytes_in_flight()
    }

    fn flight(&self) -> u64 {
        self.packets.bytes_in_flight()
    }

    fn dupacks(&self) -> u32 {
        0
    }

    fn records_times(&self) -> bool {
        true
    }

    fn phase(&self) -> RecoveryPhase {
        if self.recovery_start.is_some() { RecoveryPhase::Recovery } else { RecoveryPhase::Open }
    }

    fn has_lost(&self) -> bool {
        self.content.has_waiting()
    }

    fn measure_rate(&mut self, is_on: bool) {
        self.rate = is_on.then(Box::default);
    }

    fn rate(&mut self) -> Option<&mut DeliveryRate> {
        self.rate.as_deref_mut()
    }

    fn packet_number(&self) -> Option<u64> {
        self.packets.next().checked_sub(1)
    }

    fn probe_timeouts(&self) -> ProbeTimeouts {
        ProbeTimeouts { consecutive: self.probe_timeouts, total: self.all_probe_timeouts }
    }
}

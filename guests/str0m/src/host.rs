//! One end of a WebRTC connection of str0m.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock, SystemTime};

use aqm_guest::{Answer, End, Event, Payload, Problem};
use aqm_net::{Ecn, Instant};
use guest_common::report_received;
use str0m::bwe::{Bitrate, BweKind};
use str0m::format::Codec;
use str0m::media::{MediaKind, Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::rtcp::Rtcp;
use str0m::rtp::{RawPacket, RtpWrite, Ssrc};
use str0m::{Candidate, Event as RtcEvent, IceCreds, Input, Output, Rtc};

use crate::config::{Config, MIN_RATE};
use crate::crypto;

/// The estimate with which a call begins in bits per second: kDefaultStartBitrateBps of libwebrtc
/// (`api/transport/bitrate_settings.h`).
const START_RATE: u64 = 300_000;

/// Frames of the video in a second, as in the test cases of RFC 8867 that `reference/gcc_original` runs.
const FRAMES_PER_SECOND: u64 = 30;

/// Clock rate of RTP for video in Hz (RFC 7741, section 4.1).
const VIDEO_CLOCK: u64 = 90_000;

/// Maximum length of an RTP payload: with the RTP header, its extensions (at most 36 bytes) and the tag (16 bytes), a
/// packet has at most 1200 bytes.
const MAX_PAYLOAD: u64 = 1136;

/// Interval at which str0m reports the round-trip time (aqmlab's choice).
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// Calls of str0m at the same time, after which the guest lets 100 us pass, as the tests of str0m do.
const MAX_CALLS: u32 = 1000;
const PAUSE: u64 = 100_000;

const SECOND: u64 = 1_000_000_000;
const VIDEO: &str = "vid";
/// The streams of the video and of its retransmissions.
const STREAM: u32 = 1000;
const RETRANSMISSIONS: u32 = 1001;

/// One end of the connection.
pub struct Host {
    end: End,
    rtc: Rtc,
    /// Instant of time 0.
    zero: Clock,
    /// State of the generator from which str0m draws identifiers.
    random: u64,
    /// Time in nanoseconds at which str0m must be called.
    due: u64,
    source: Option<Source>,
    /// Estimate of the bandwidth and rate of the video that the server reported last, in bits per second.
    reported: [u64; 2],
    /// The date in the last report that this end sent, if the end stores dates.
    pub reported_date: Option<SystemTime>,
}

/// The video that the server sends.
struct Source {
    config: Config,
    kind: Pt,
    /// Time of the first frame.
    begin: Option<u64>,
    frames: u64,
    packets: u64,
    is_over: bool,
    /// str0m's estimate of the bandwidth in bits per second.
    estimate: u64,
}

impl Source {
    /// Returns the rate of the video in bits per second.
    fn target(&self) -> u64 {
        if self.is_over { 0 } else { self.estimate.clamp(MIN_RATE, self.config.max_rate) }
    }

    /// Returns the time of the next frame.
    fn next(&self) -> Option<u64> {
        self.begin.filter(|_| !self.is_over).map(|begin| begin + self.frames * SECOND / FRAMES_PER_SECOND)
    }
}

/// Returns the address of an end. The path does not use addresses.
fn address(end: End) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + end as u8)), 5000)
}

/// Returns the credentials of ICE, which a signalling protocol would exchange.
fn credentials(end: End) -> IceCreds {
    // A password has at least 22 characters (RFC 8839, section 5.4).
    IceCreds { ufrag: end.name().to_owned(), pass: format!("password-of-the-{}", end.name()) }
}

fn problem(error: impl std::fmt::Display) -> Problem {
    error.to_string().into()
}

impl Host {
    /// Creates one end. `zero` is the instant of time 0. `with_dates` says whether the end stores the date of the last
    /// report that it sent, for which str0m copies each packet.
    ///
    /// # Errors
    /// Returns an error if str0m rejects the parameters.
    pub fn new(end: End, config: Config, seed: u64, zero: Clock, with_dates: bool) -> Result<Self, Problem> {
        fastrand::seed(seed);
        let mut builder = Rtc::builder()
            .set_crypto_provider(Arc::new(crypto::provider()))
            .set_local_ice_credentials(credentials(end))
            .set_rtp_mode(true)
            .enable_raw_packets(with_dates)
            .set_stats_interval(Some(STATISTICS_INTERVAL));
        if end == End::Server {
            builder = builder.enable_bwe(Some(Bitrate::bps(START_RATE)));
        }
        let mut rtc = builder.build(zero);
        rtc.add_local_candidate(Candidate::host(address(end), "udp").map_err(problem)?);
        rtc.add_remote_candidate(Candidate::host(address(end.other()), "udp").map_err(problem)?);
        let (mid, stream, retransmissions) =
            (Mid::from(VIDEO), Ssrc::from(STREAM), Some(Ssrc::from(RETRANSMISSIONS)));
        let is_client = end == End::Client;
        let mut direct = rtc.direct_api();
        direct.set_remote_ice_credentials(credentials(end.other()));
        // Both ends have the same certificate.
        let fingerprint = direct.local_dtls_fingerprint().clone();
        direct.set_remote_fingerprint(fingerprint);
        direct.set_ice_controlling(is_client);
        direct.start_dtls(is_client).map_err(problem)?;
        direct.declare_media(mid, MediaKind::Video);
        if is_client {
            direct.expect_stream_rx(stream, retransmissions, mid, None);
            direct.enable_twcc_feedback();
        } else {
            direct.declare_stream_tx(stream, retransmissions, mid, None);
            rtc.bwe().set_bitrate(Bitrate::ZERO, Bitrate::bps(config.max_rate));
        }
        let format = rtc.codec_config().find(|format| format.spec().codec == Codec::Vp8);
        let kind = format.ok_or("str0m has no VP8")?.pt();
        let source =
            Source { config, kind, begin: None, frames: 0, packets: 0, is_over: false, estimate: START_RATE };
        Ok(Self {
            end,
            rtc,
            zero,
            random: fastrand::get_seed(),
            due: 0,
            source: (!is_client).then_some(source),
            reported: [0; 2],
            reported_date: None,
        })
    }

    /// Handles the datagrams that arrive at `now` and the timers that are due at `now`.
    ///
    /// # Errors
    /// Returns an error if str0m reports an error.
    pub fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        // The generator belongs to the thread, which two guests may share.
        fastrand::seed(self.random);
        let answer = self.answer(now.nanos(), &received);
        self.random = fastrand::get_seed();
        answer
    }

    fn answer(&mut self, now: u64, received: &[Payload]) -> Result<Answer, Problem> {
        let mut answer = Answer::default();
        for Payload { data, .. } in received {
            let receive = Receive {
                proto: Protocol::Udp,
                source: address(self.end.other()),
                destination: address(self.end),
                contents: data.as_slice().try_into().map_err(problem)?,
            };
            self.rtc.handle_input(Input::Receive(self.instant(now), receive)).map_err(problem)?;
            self.poll(now, &mut answer)?;
        }
        self.send_frames(now, &mut answer)?;
        // str0m asks for another call at the same time after each packet of its pacer.
        let mut calls = 0;
        while self.due <= now && calls < MAX_CALLS {
            calls += 1;
            self.rtc.handle_input(Input::Timeout(self.instant(now))).map_err(problem)?;
            self.poll(now, &mut answer)?;
        }
        if self.due <= now {
            self.due = now + PAUSE;
        }
        if let Some(source) = &self.source {
            let values = [("estimate_bps", source.estimate), ("target_bps", source.target())];
            for ((name, value), reported) in values.into_iter().zip(&mut self.reported) {
                if value != *reported && source.begin.is_some() {
                    *reported = value;
                    answer.events.push(Event { name: name.to_owned(), value: value as f64 });
                }
            }
        }
        let next = self.source.as_ref().and_then(Source::next).unwrap_or(u64::MAX);
        answer.wake = Some(Instant::from_nanos(self.due.min(next).max(now + 1)));
        Ok(answer)
    }

    fn instant(&self, now: u64) -> Clock {
        self.zero + Duration::from_nanos(now)
    }

    /// Takes the outputs of str0m, until str0m waits.
    fn poll(&mut self, now: u64, answer: &mut Answer) -> Result<(), Problem> {
        loop {
            match self.rtc.poll_output().map_err(problem)? {
                Output::Timeout(at) => {
                    let due = at.saturating_duration_since(self.zero).as_nanos();
                    self.due = u64::try_from(due).unwrap_or(u64::MAX);
                    return Ok(());
                }
                Output::Transmit(sent) => {
                    answer.datagrams.push(Payload {
                        flow: 0,
                        ecn: Ecn::NotEct,
                        data: sent.contents.to_vec(),
                    });
                }
                Output::Event(event) => self.handle(&event, now, answer),
            }
        }
    }

    fn handle(&mut self, event: &RtcEvent, now: u64, answer: &mut Answer) {
        match (event, &mut self.source) {
            (RtcEvent::Connected, Some(source)) => source.begin = Some(now),
            (RtcEvent::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }), Some(source)) => {
                source.estimate = estimate.as_u64();
            }
            (RtcEvent::PeerStats(statistics), Some(_)) => {
                if let Some(rtt) = statistics.rtt {
                    answer.events.push(Event { name: "rtt_s".to_owned(), value: rtt.as_secs_f64() });
                }
            }
            (RtcEvent::RtpPacket(packet), None) => report_received(&mut answer.events, packet.payload.len()),
            (RtcEvent::RawPacket(packet), _) => {
                if let RawPacket::RtcpTx(Rtcp::SenderReport(report)) = &**packet {
                    self.reported_date = Some(report.sender_info.ntp_time);
                }
            }
            _ => {}
        }
    }

    /// Sends the frames that are due.
    fn send_frames(&mut self, now: u64, answer: &mut Answer) -> Result<(), Problem> {
        while let Some(source) =
            self.source.as_mut().filter(|source| source.next().is_some_and(|at| at <= now))
        {
            let elapsed = source.frames as f64 / FRAMES_PER_SECOND as f64;
            if source.config.duration.is_some_and(|duration| elapsed >= duration) {
                source.is_over = true;
                self.rtc.bwe().set_bitrate(Bitrate::ZERO, Bitrate::ZERO);
                return self.poll(now, answer);
            }
            let bytes = source.target() / 8 / FRAMES_PER_SECOND;
            let time = source.frames * VIDEO_CLOCK / FRAMES_PER_SECOND;
            source.frames += 1;
            let packets = bytes.div_ceil(MAX_PAYLOAD);
            let (kind, first) = (source.kind, source.packets);
            source.packets += packets;
            for packet in 0..packets {
                let length = bytes * (packet + 1) / packets - bytes * packet / packets;
                let number = (1 + first + packet).into();
                let payload = vec![0; length as usize];
                let write = RtpWrite::new(kind, number, time as u32, self.instant(now), payload)
                    .marker(packet + 1 == packets)
                    .nackable(true);
                let mut direct = self.rtc.direct_api();
                direct.stream_tx(&STREAM.into()).ok_or("str0m has no stream")?.write_rtp(write);
                self.poll(now, answer)?;
            }
        }
        Ok(())
    }
}

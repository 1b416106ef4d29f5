//! A call between two str0m peers, and the encoder whose rate follows the estimate.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use str0m::bwe::{Bitrate, BweKind};
use str0m::format::Codec;
use str0m::media::{MediaKind, Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{RtpWrite, Ssrc};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// The estimate with which a call begins: kDefaultStartBitrateBps of libwebrtc (api/transport/bitrate_settings.h).
pub const START_RATE: u64 = 300_000;
/// Rate of the audio payload.
pub const AUDIO_RATE: u64 = 32_000;
/// Lowest rate of the video encoder (RFC 8867, section 4.3).
pub const MIN_VIDEO_RATE: u64 = 150_000;
const AUDIO_INTERVAL: u64 = 20_000_000;
const FRAMES_PER_SECOND: u64 = 30;
/// With the RTP header, its extensions (at most 36 bytes) and the tag (16 bytes), a packet has at most 1,200 bytes.
const MAX_PAYLOAD: u64 = 1_136;
/// Interval at which str0m reports its estimate without the smoothing of its event.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// The estimate that the encoder follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// `Event::EgressBitrateEstimate`, a mean over 3 s that str0m reports when it changes by 5 %.
    Event,
    /// The estimate itself, as encoders in libwebrtc do. str0m contains it in its statistics.
    Estimate,
}

impl Follows {
    pub const ALL: [Self; 2] = [Self::Event, Self::Estimate];

    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Estimate => "estimate",
        }
    }
}

/// The media that a peer sends.
pub struct Source {
    follows: Follows,
    max_rate: u64,
    /// Times in nanoseconds between which the source sends nothing.
    pause: Option<(u64, u64)>,
    paused: bool,
    audio: (Pt, Ssrc),
    video: (Pt, Ssrc),
    next_audio: u64,
    first_frame: u64,
    frames: u64,
    sent: [u64; 2],
    /// The estimate without smoothing.
    pub estimate: u64,
    /// The estimate of the event.
    smoothed: u64,
}

impl Source {
    fn new(follows: Follows, max_rate: u64, pause: Option<(u64, u64)>, ssrc: u32) -> Self {
        Self {
            follows,
            max_rate,
            pause,
            paused: false,
            audio: (0.into(), ssrc.into()),
            video: (0.into(), (ssrc + 1).into()),
            next_audio: u64::MAX,
            first_frame: u64::MAX,
            frames: 0,
            sent: [0; 2],
            estimate: START_RATE,
            smoothed: START_RATE,
        }
    }

    /// Rate of the video encoder, in bits per second.
    pub fn target(&self) -> u64 {
        if self.paused {
            return 0;
        }
        let estimate = if self.follows == Follows::Event { self.smoothed } else { self.estimate };
        estimate.saturating_sub(AUDIO_RATE).clamp(MIN_VIDEO_RATE, self.max_rate)
    }

    fn next_frame(&self) -> u64 {
        self.first_frame.saturating_add(self.frames * 1_000_000_000 / FRAMES_PER_SECOND)
    }

    fn pause_edge(&self) -> u64 {
        match self.pause {
            Some((from, _)) if !self.paused => from,
            Some((_, until)) => until,
            None => u64::MAX,
        }
    }

    pub fn next(&self) -> u64 {
        self.next_audio.min(self.next_frame()).min(self.pause_edge())
    }
}

/// One end of a call.
pub struct Peer {
    rtc: Rtc,
    base: Instant,
    address: SocketAddr,
    remote: SocketAddr,
    /// Time in nanoseconds at which str0m wants to be called.
    pub due: u64,
    pub source: Option<Source>,
    /// Offset of the source after the connection, in nanoseconds.
    offset: u64,
    /// Packets that str0m sends.
    pub out: VecDeque<Vec<u8>>,
}

/// What a call consists of.
pub struct Call {
    /// The media of the two peers, if they send any: maximum rate of the video, and pause in nanoseconds.
    pub media: [Option<Media>; 2],
    pub follows: Follows,
    /// Offsets of the two sources after the connection, in nanoseconds.
    pub offsets: [u64; 2],
    pub number: u32,
}

#[derive(Clone, Copy)]
pub struct Media {
    pub max_rate: u64,
    pub pause: Option<(u64, u64)>,
}

const AUDIO: &str = "aud";
const VIDEO: &str = "vid";

/// Returns the two peers of a call that begins `now`.
pub fn peers(call: &Call, crypto: &Arc<str0m::crypto::CryptoProvider>, base: Instant, now: u64) -> [Peer; 2] {
    let start = base + Duration::from_nanos(now);
    let address = |side: u8| SocketAddr::from(([10, 0, side, call.number as u8], 5000));
    let mut peers = [0_u8, 1].map(|side| {
        let media = call.media[usize::from(side)];
        let mut config = Rtc::builder()
            .set_crypto_provider(Arc::clone(crypto))
            .set_rtp_mode(true)
            .set_stats_interval(Some(REPORT_INTERVAL));
        if media.is_some() {
            config = config.enable_bwe(Some(Bitrate::bps(START_RATE)));
        }
        let ssrc = 1000 + 100 * call.number + 10 * u32::from(side);
        Peer {
            rtc: config.build(start),
            base,
            address: address(side),
            remote: address(1 - side),
            due: now,
            source: media.map(|media| Source::new(call.follows, media.max_rate, media.pause, ssrc)),
            offset: call.offsets[usize::from(side)],
            out: VecDeque::new(),
        }
    });
    let addresses = [peers[0].address, peers[1].address];
    let credentials = peers.each_mut().map(|peer| peer.rtc.direct_api().local_ice_credentials());
    let fingerprints = peers.each_mut().map(|peer| peer.rtc.direct_api().local_dtls_fingerprint().clone());
    for side in 0..2 {
        let (own, other) = (addresses[side], addresses[1 - side]);
        let candidate =
            |address| Candidate::host(address, "udp").expect("an address of a host is a candidate");
        let rtc = &mut peers[side].rtc;
        rtc.add_local_candidate(candidate(own));
        rtc.add_remote_candidate(candidate(other));
        let mut direct = rtc.direct_api();
        direct.set_remote_ice_credentials(credentials[1 - side].clone());
        direct.set_remote_fingerprint(fingerprints[1 - side].clone());
        direct.set_ice_controlling(side == 0);
        direct.start_dtls(side == 0).expect("DTLS starts once");
        direct.declare_media(Mid::from(AUDIO), MediaKind::Audio);
        direct.declare_media(Mid::from(VIDEO), MediaKind::Video);
    }
    for side in 0..2 {
        let Some(source) = &peers[side].source else { continue };
        let (audio, video) = (source.audio.1, source.video.1);
        let rtx: Ssrc = (*video + 1).into();
        let mut direct = peers[side].rtc.direct_api();
        direct.declare_stream_tx(audio, None, Mid::from(AUDIO), None);
        direct.declare_stream_tx(video, Some(rtx), Mid::from(VIDEO), None);
        let mut direct = peers[1 - side].rtc.direct_api();
        direct.expect_stream_rx(audio, None, Mid::from(AUDIO), None);
        direct.expect_stream_rx(video, Some(rtx), Mid::from(VIDEO), None);
        direct.enable_twcc_feedback();
        let payload_type = |codec| {
            let found = peers[side].rtc.codec_config().find(|format| format.spec().codec == codec);
            found.expect("str0m has the codec by default").pt()
        };
        let types = [payload_type(Codec::Opus), payload_type(Codec::Vp8)];
        let source = peers[side].source.as_mut().expect("the peer sends media");
        source.audio.0 = types[0];
        source.video.0 = types[1];
        let desired = source.max_rate + AUDIO_RATE;
        peers[side].rtc.bwe().set_bitrate(Bitrate::ZERO, Bitrate::bps(desired));
    }
    peers
}

impl Peer {
    fn instant(&self, now: u64) -> Instant {
        self.base + Duration::from_nanos(now)
    }

    /// Takes the outputs of str0m, until it has no more.
    fn poll(&mut self, now: u64) {
        loop {
            match self.rtc.poll_output().expect("the peers understand each other") {
                Output::Timeout(at) => {
                    let due = at.saturating_duration_since(self.base).as_nanos();
                    self.due = u64::try_from(due).unwrap_or(u64::MAX).max(now);
                    return;
                }
                Output::Transmit(transmit) => self.out.push_back(transmit.contents.to_vec()),
                Output::Event(event) => self.on_event(&event, now),
            }
        }
    }

    fn on_event(&mut self, event: &Event, now: u64) {
        let Some(source) = &mut self.source else { return };
        match event {
            Event::Connected => {
                source.next_audio = now;
                source.first_frame = now + self.offset;
            }
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                source.smoothed = estimate.as_u64()
            }
            Event::PeerStats(stats) => {
                source.estimate = stats.bwe_tx.map_or(source.estimate, |estimate| estimate.as_u64());
            }
            _ => {}
        }
    }

    /// Calls str0m at `now` until nothing more is due.
    pub fn on_time(&mut self, now: u64) {
        // str0m asks to be called at once after each packet of its pacer.
        for _ in 0..1000 {
            self.rtc.handle_input(Input::Timeout(self.instant(now))).expect("time passes");
            self.poll(now);
            if self.due > now {
                return;
            }
        }
        // The tests of str0m advance the time by 100 us if it still asks to be called at once.
        self.due = now + 100_000;
    }

    /// Hands a packet to str0m.
    pub fn receive(&mut self, packet: &[u8], now: u64) {
        let contents = packet.try_into().expect("the other peer sends only known packets");
        let (source, destination) = (self.remote, self.address);
        let receive = Receive { proto: Protocol::Udp, source, destination, contents };
        self.rtc.handle_input(Input::Receive(self.instant(now), receive)).expect("the packet is understood");
        self.poll(now);
    }

    /// Sends the audio packet and the frame that are due.
    pub fn send_media(&mut self, now: u64) {
        let Some(source) = &mut self.source else { return };
        if source.pause_edge() <= now {
            source.paused = !source.paused;
            if !source.paused {
                source.pause = None;
            }
            let desired = if source.paused { 0 } else { source.max_rate + AUDIO_RATE };
            self.rtc.bwe().set_bitrate(Bitrate::ZERO, Bitrate::bps(desired));
            self.poll(now);
        }
        let Some(source) = &mut self.source else { return };
        if source.next_audio <= now {
            source.next_audio += AUDIO_INTERVAL;
            let bytes = AUDIO_RATE * AUDIO_INTERVAL / 8 / 1_000_000_000;
            if !source.paused {
                self.write(false, bytes, true, now);
            }
        }
        let Some(source) = &mut self.source else { return };
        if source.next_frame() <= now {
            source.frames += 1;
            let frame = source.target() / 8 / FRAMES_PER_SECOND;
            let packets = frame.div_ceil(MAX_PAYLOAD);
            for packet in 0..packets {
                let bytes = frame * (packet + 1) / packets - frame * packet / packets;
                self.write(true, bytes, packet + 1 == packets, now);
            }
        }
    }

    fn write(&mut self, video: bool, bytes: u64, marker: bool, now: u64) {
        let wallclock = self.instant(now);
        let source = self.source.as_mut().expect("only a source writes");
        let ((kind, ssrc), clock) = if video { (source.video, 90) } else { (source.audio, 48) };
        let sent = &mut source.sent[usize::from(video)];
        *sent += 1;
        let packet = RtpWrite::new(
            kind,
            (*sent).into(),
            (now * clock / 1_000_000) as u32,
            wallclock,
            vec![0; bytes as usize],
        )
        .marker(marker)
        .nackable(video);
        self.rtc.direct_api().stream_tx(&ssrc).expect("the stream is declared").write_rtp(packet);
        self.poll(now);
    }
}

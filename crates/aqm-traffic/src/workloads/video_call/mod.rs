//! Video calls whose rate adapts to the network, as in WebRTC. Both endpoints of a call send audio and video to each
//! other. The audio has a constant rate, and a rate control determines the rate of the video.
//!
//! Sources: RFC 3550 and RFC 7587 (audio: RTP, Opus); draft-ietf-rmcat-gcc-02 and libwebrtc (rate control, pacer,
//! retransmissions, key frames, freezes); RFC 8888 (feedback); RFC 4585 and RFC 4588 (requests, retransmissions).
//!
//! Each direction of a call is one flow, which carries audio, video, padding of probes, and the feedback and requests
//! that belong to the other direction (BUNDLE, RFC 9143). The contents of a datagram reach the other end only when the
//! datagram arrives: lost feedback is lost information.
//!
//! aqmlab's choices, where the sources are silent: the encoder follows the target rate with the next frame; frames and
//! packets have no jitter, and encoding takes no time; packets contain neither header extensions nor authentication
//! tags; clocks of both ends agree.

mod datagrams;
mod encoder;
mod freezes;
mod pacer;
mod receiver;
mod recent_bytes;
mod record;
mod sender;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{ConfigError, Ecn, Instant, Rate, Span, choices, parameters};

use self::datagrams::{
    Content, KEY_FRAME_REQUEST_BYTES, MediaPacket, RTP_HEADERS, UnderWay, feedback_bytes, nack_bytes,
};
use self::encoder::Encoder;
use self::pacer::Paced;
use self::receiver::{CHECK, Receiver};
use self::record::Recorder;
use self::sender::{MAX_PAYLOAD, Sender, VideoRates};
use crate::call_record::{CallFlow, CallRecord};
use crate::datagram_ecn::DatagramEcn;
use crate::description::Application;
use crate::distributions::{Distribution as _, Uniform};
use crate::parameters::{Period, check_datagrams, check_link_header, start_offset};
use crate::rate_control::{self, Media, Reporting};
use crate::{ArrivedDatagram, Build, BuildContext, TrafficContext, Workload};

choices! {
    /// Audio of a call. The rates are rates of the codec, without headers.
    pub enum Audio {
        /// No audio.
        None = "none",
        /// Opus at 12 kb/s.
        Opus12 = "opus-12",
        /// Opus at 20 kb/s.
        Opus20 = "opus-20",
        /// Opus at 24 kb/s.
        Opus24 = "opus-24",
        /// Opus at 32 kb/s.
        Opus32 = "opus-32",
        /// Opus at 64 kb/s.
        Opus64 = "opus-64",
    }
}

/// Interval of audio packets (RFC 7587, section 4.2: the default of 20 ms).
const AUDIO_INTERVAL: Span = Span::from_millis(20);

impl Audio {
    /// Returns the size of an audio packet, including headers; `None` without audio.
    fn packet(self) -> Option<u16> {
        let kbps: u64 = match self {
            Self::None => return None,
            Self::Opus12 => 12,
            Self::Opus20 => 20,
            Self::Opus24 => 24,
            Self::Opus32 => 32,
            Self::Opus64 => 64,
        };
        // At 1 kb/s, 20 ms contain 2.5 B.
        Some((RTP_HEADERS + kbps * 5 / 2) as u16)
    }

    /// Returns the rate including headers, in bits per second.
    fn rate_bps(self) -> f64 {
        self.packet().map_or(0.0, |bytes| 8.0 * f64::from(bytes) / AUDIO_INTERVAL.seconds())
    }
}

parameters! {
    /// Video calls whose rate adapts to the network (WebRTC): both endpoints send audio and video to each other.
    pub struct Config {
        /// Number of calls. Each call has its own hosts.
        pub calls: u32 = 1, "aqmlab's choice";
        /// Whether both endpoints send. If false, only the forward direction carries audio and video, and the backward
        /// direction carries feedback.
        pub both_ways: bool = true, "aqmlab's choice";
        /// Rate control, which determines the rate of the video.
        pub control: rate_control::Config = rate_control::Config::default(), "libwebrtc";
        /// Audio codec. Audio packets are sent every 20 ms.
        pub audio: Audio = Audio::Opus32, "libwebrtc: `kDefaultBitrate` for mono is 32 kb/s";
        /// Frames per second.
        pub frame_rate: f64 = 30.0, "libwebrtc: `kDefaultVideoMaxFramerate` of 60 allows 30";
        /// Minimum video rate, including headers.
        pub min_rate: Rate = Rate::from_bps(30_000), "libwebrtc: `kDefaultMinVideoBitrateBps`";
        /// Maximum video rate, including headers.
        pub max_rate: Rate = Rate::from_bps(2_500_000), "libwebrtc: `GetMaxDefaultVideoBitrateKbps` for 1280x720";
        /// Available video rates in ascending order, such as the rates of resolutions; by default, all rates from
        /// `min_rate` to `max_rate` are available.
        pub rates: Vec<Rate> = Vec::new(), "aqmlab's choice";
        /// Ratio between the size of a key frame and the mean size of a frame.
        pub key_frame: f64 = 4.0, "aqmlab's choice; libwebrtc's `MaxIntraTarget` for VP8 is between 3 and 9";
        /// Interval of feedback. With the rate control `scream`, the receiver also sends feedback after each video frame.
        pub feedback_every: Span = Span::from_millis(50), "libwebrtc: `kMinInterval` of transport-wide feedback";
        /// Whether missing video packets are retransmitted on request (NACK, RTX). If false, the receiver requests a
        /// key frame after a loss.
        pub retransmit: bool = true, "libwebrtc";
        /// Earliest start of a call.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which calls begin at random times.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Time at which all calls end; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
        /// Time at which the endpoints stop sending audio and video until `resume`; by default, the endpoints do not
        /// pause.
        pub pause: Option<Span> = None, "RFC 8867, section 5.8";
        /// Time at which the endpoints resume sending audio and video.
        pub resume: Option<Span> = None, "RFC 8867, section 5.8";
        /// ECN bits of the packets of audio and video. Rate controls receive the marks with the feedback; `scream` responds
        /// to the marks, and `gcc` and `fixed` ignore the marks.
        #[serde(flatten)]
        pub ecn: DatagramEcn = DatagramEcn::default();
    }
}

/// Maximum number of calls. A larger number is assumed to be a typing error.
const MAX_CALLS: u32 = 10_000;
/// Maximum rate of the video. A larger rate is assumed to be a typing error.
const MAX_RATE: u64 = 1_000_000_000;
/// Interval at which rate controls handle the passing of time (libwebrtc: `kProcessInterval` of the network controller).
const CONTROL_INTERVAL: Span = Span::from_millis(25);

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let problem = format_args!("must be between 1 and {MAX_CALLS} (got {})", self.calls);
        ConfigError::unless((1..=MAX_CALLS).contains(&self.calls), "calls", problem)?;
        let sensible = (1.0..=240.0).contains(&self.frame_rate);
        let problem = format_args!("must be between 1 and 240 (got {})", self.frame_rate);
        ConfigError::unless(sensible, "frame_rate", problem)?;
        ConfigError::unless(self.min_rate.bps() > 0, "min_rate", "must be greater than zero")?;
        let problem = format_args!("must be between `min_rate`, which is {}, and 1Gbps", self.min_rate);
        let sensible = (self.min_rate.bps()..=MAX_RATE).contains(&self.max_rate.bps());
        ConfigError::unless(sensible, "max_rate", problem)?;
        let ascends = self.rates.windows(2).all(|two| two[0] < two[1]);
        let positive = self.rates.first().is_none_or(|lowest| lowest.bps() > 0);
        ConfigError::unless(ascends && positive, "rates", "must list rates in ascending order")?;
        let problem = format_args!("must be between 1 and 20 (got {})", self.key_frame);
        ConfigError::unless((1.0..=20.0).contains(&self.key_frame), "key_frame", problem)?;
        let sensible = (Span::from_millis(1)..=Span::from_millis(10_000)).contains(&self.feedback_every);
        ConfigError::unless(sensible, "feedback_every", "must be between 1ms and 10s")?;
        check_link_header(RTP_HEADERS, "audio", context)?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let pause = self.pause(period)?;
        let legs = if self.both_ways { 2.0 } else { 1.0 } * f64::from(self.calls);
        let highest = self.rates.last().map_or(self.max_rate, |last| self.max_rate.min(*last));
        let audio_bps = self.audio.rate_bps();
        let most = Rate::from_bps(highest.bps() + audio_bps as u64);
        let media = Media { most, ecn: self.ecn.bits()? };
        let control = self.control.build(media).map_err(|error| error.within("control"))?;
        let media_packets = highest.bps() as f64 / (8 * MAX_PAYLOAD) as f64
            + self.frame_rate
            + 1.0 / AUDIO_INTERVAL.seconds();
        let additional_feedback = match control.reporting() {
            Reporting::Regular => 0.0,
            Reporting::Frames { packets } => self.frame_rate + media_packets / f64::from(packets),
        };
        let each = media_packets + 1.0 / self.feedback_every.seconds() + additional_feedback;
        check_datagrams(legs * each * period.seconds(), "calls")?;
        let rates = VideoRates {
            bounds_bps: (self.min_rate.bps() as f64, self.max_rate.bps() as f64),
            steps_bps: self.rates.iter().map(|rate| rate.bps() as f64).collect(),
        };
        let mut calls = VideoCalls {
            legs: Vec::new(),
            under_way: vec![UnderWay::default(); 2 * self.calls as usize],
            due: BinaryHeap::new(),
            wakes_at: Instant::NEVER,
            audio: self.audio.packet(),
            frame_interval: Span::from_seconds(1.0 / self.frame_rate),
            feedback_every: self.feedback_every,
            ecn: media.ecn,
            reporting: control.reporting(),
            end: period.end,
            pause,
            calls: self.calls,
        };
        let frame_phases = Uniform::below(1.0);
        for call in 0..self.calls {
            let begins = period.start + start_offset(self.stagger, call, context);
            let mut random = context.streams.named(&format!("{}/phase", context.name), u64::from(call));
            for back in [false, true] {
                // The numbers are drawn for both directions, so that the forward direction does not depend on the
                // backward direction.
                let phases = [0; 2].map(|_| frame_phases.sample(&mut random));
                let encoder = Encoder::new(self.frame_rate, self.key_frame);
                calls.legs.push(Leg {
                    flow: CallFlow { flow: call, back },
                    sender: Sender::new(control.clone(), encoder, rates.clone(), audio_bps),
                    receiver: Receiver::new(self.retransmit),
                    recorder: Recorder::new(CallFlow { flow: call, back }),
                    releases_at: Instant::NEVER,
                    checks: false,
                    paused: false,
                });
                if back && !self.both_ways {
                    continue;
                }
                let leg = calls.legs.len() as u32 - 1;
                let at = |phase: f64, interval: Span| begins + Span::from_seconds(phase * interval.seconds());
                calls.due.push(Reverse((begins, leg, Event::Control)));
                calls.due.push(Reverse((at(phases[0], calls.frame_interval), leg, Event::Frame)));
                calls.due.push(Reverse((begins + self.feedback_every, leg, Event::Feedback)));
                if calls.audio.is_some() {
                    calls.due.push(Reverse((at(phases[1], AUDIO_INTERVAL), leg, Event::Audio)));
                }
            }
        }
        Ok(Box::new(calls))
    }

    fn sends_datagrams(&self) -> bool {
        true
    }

    fn observes_datagrams(&self) -> bool {
        true
    }

    fn own_hosts(&self) -> bool {
        true
    }

    fn hosts(&self) -> u64 {
        self.calls.into()
    }

    fn application(&self) -> Option<Application> {
        Some(Application::VideoCall { frame_rate: self.frame_rate })
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some("live runs do not support workloads that respond to datagrams")
    }
}

impl Config {
    /// Returns the begin and the end of the pause.
    fn pause(&self, period: Period) -> Result<(Instant, Instant), ConfigError> {
        let (pause, resume) = match (self.pause, self.resume) {
            (None, None) => return Ok((Instant::NEVER, Instant::NEVER)),
            (Some(_), None) => return Err(ConfigError::at("resume", "is required if `pause` is set")),
            (None, Some(_)) => return Err(ConfigError::at("pause", "is required if `resume` is set")),
            (Some(pause), Some(resume)) => (Instant::START + pause, Instant::START + resume),
        };
        ConfigError::unless(pause >= period.start, "pause", "must not be earlier than `start`")?;
        ConfigError::unless(resume > pause, "resume", "must be later than `pause`")?;
        Ok((pause, resume))
    }
}

/// What happens at a time in one direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The rate control handles the passing of time.
    Control,
    Audio,
    Frame,
    /// The pacer releases packets.
    Release,
    /// The receiver sends feedback.
    Feedback,
    /// The receiver looks for missing packets.
    Check,
}

/// One direction of a call.
#[derive(Clone)]
struct Leg {
    flow: CallFlow,
    sender: Sender,
    receiver: Receiver,
    recorder: Recorder,
    /// Time of the next event `Release`; `NEVER` if there is none.
    releases_at: Instant,
    /// Whether there is an event `Check`.
    checks: bool,
    /// Whether the sender pauses.
    paused: bool,
}

/// The running workload.
#[derive(Clone)]
struct VideoCalls {
    /// The directions. Direction 2c is the forward direction of call c, and direction 2c + 1 the backward direction.
    legs: Vec<Leg>,
    /// Datagrams under way, by direction.
    under_way: Vec<UnderWay>,
    due: BinaryHeap<Reverse<(Instant, u32, Event)>>,
    /// Time of the next requested wake-up.
    wakes_at: Instant,
    /// Size of an audio packet.
    audio: Option<u16>,
    frame_interval: Span,
    feedback_every: Span,
    ecn: Ecn,
    reporting: Reporting,
    end: Instant,
    pause: (Instant, Instant),
    calls: u32,
}

impl Workload for VideoCalls {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        if self.wakes_at <= now {
            self.wakes_at = Instant::NEVER;
        }
        while let Some(&Reverse((at, leg, event))) = self.due.peek().filter(|due| due.0.0 <= now) {
            self.due.pop();
            self.handle(event, leg, at, cx);
        }
        self.sleep(cx);
    }

    fn on_datagram(&mut self, arrived: &ArrivedDatagram, cx: &mut dyn TrafficContext) {
        let leg = 2 * arrived.flow + u32::from(arrived.back);
        let Some(content) =
            self.under_way.get_mut(leg as usize).and_then(|stream| stream.take(arrived.number))
        else {
            return;
        };
        let now = cx.now();
        // The other contents belong to the other direction.
        let other = &mut self.legs[(leg ^ 1) as usize];
        match content {
            Content::Media(packet) => self.on_media(leg, packet, arrived, cx),
            Content::Feedback(reports) => {
                other.sender.on_feedback(&reports, now);
                self.schedule_release(leg ^ 1, now);
            }
            Content::Nack(sequences) => {
                other.sender.on_nack(&sequences, now);
                self.schedule_release(leg ^ 1, now);
            }
            Content::KeyFrameRequest => other.sender.encoder.request_key_frame(now),
        }
        self.sleep(cx);
    }

    /// Passes facts about the workload to `show`. The facts are complete only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let seconds = || self.legs.iter().flat_map(|leg| &leg.recorder.record().seconds);
        let frames = || self.legs.iter().flat_map(|leg| &leg.recorder.record().frames);
        let count = seconds().filter(|one| one.packets_sent > 0).count().max(1) as f64;
        let mut delays: Vec<f64> =
            frames().filter_map(|one| Some(one.rendered?.since(one.captured).seconds())).collect();
        delays.sort_by(f64::total_cmp);
        show("calls", f64::from(self.calls));
        show("frames_sent", frames().count() as f64);
        show("frames_rendered", delays.len() as f64);
        show("key_frames", frames().filter(|one| one.key).count() as f64);
        show("freezes", seconds().map(|one| one.freezes).sum::<u64>() as f64);
        show("frozen_s", seconds().map(|one| one.frozen_s).sum());
        show("mean_target_bps", seconds().map(|one| one.target_bps).sum::<f64>() / count);
        let received: u64 = seconds().map(|one| one.received_bytes).sum();
        show("mean_received_bps", received as f64 * 8.0 / count);
        if !delays.is_empty() {
            show("mean_frame_delay_s", delays.iter().sum::<f64>() / delays.len() as f64);
            show("frame_delay_95_s", delays[(delays.len() * 95).div_ceil(100) - 1]);
        }
        show("retransmissions", self.legs.iter().map(|leg| leg.sender.retransmitted).sum::<u64>() as f64);
        show("probes", self.legs.iter().map(|leg| leg.sender.probes).sum::<u64>() as f64);
    }

    fn call_records(&self) -> Vec<&CallRecord> {
        self.legs.iter().map(|leg| leg.recorder.record()).collect()
    }
}

impl VideoCalls {
    /// Requests a wake-up at the time of the next event.
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        if let Some(&Reverse((at, ..))) = self.due.peek().filter(|due| due.0.0 < self.wakes_at) {
            self.wakes_at = at;
            cx.wake_at(at.max(cx.now()));
        }
    }

    /// Schedules an event, unless the calls are over by then.
    fn schedule(&mut self, event: Event, leg: u32, at: Instant) {
        if at < self.end {
            self.due.push(Reverse((at, leg, event)));
        }
    }

    /// Handles an event that is due at `at`.
    fn handle(&mut self, event: Event, leg: u32, at: Instant, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        let paused = (self.pause.0..self.pause.1).contains(&now);
        let one = &mut self.legs[leg as usize];
        match event {
            Event::Control => {
                one.sender.on_timer(now);
                one.recorder.sample_target(one.sender.control.target_rate(), now);
                self.schedule_release(leg, now);
                self.schedule(Event::Control, leg, at + CONTROL_INTERVAL);
            }
            Event::Audio => {
                if let Some(bytes) = self.audio.filter(|_| !paused) {
                    self.send_media(leg, Paced { bytes, video: None, probe: None }, cx);
                }
                self.schedule(Event::Audio, leg, at + AUDIO_INTERVAL);
            }
            Event::Frame => {
                if paused {
                    one.paused = true;
                } else {
                    let resumes = std::mem::take(&mut one.paused);
                    let (frame, bytes) = one.sender.send_frame(resumes, now);
                    one.recorder.on_frame_sent(bytes, frame.key, now);
                    self.schedule_release(leg, now);
                }
                self.schedule(Event::Frame, leg, at + self.frame_interval);
            }
            Event::Release => {
                if one.releases_at == at {
                    one.releases_at = Instant::NEVER;
                    self.release(leg, cx);
                }
            }
            Event::Feedback => {
                self.send_feedback(leg, cx);
                self.schedule(Event::Feedback, leg, at + self.feedback_every);
            }
            Event::Check => {
                one.checks = false;
                self.check_missing(leg, cx);
            }
        }
    }

    /// Sends feedback about the packets of a direction that have arrived since the last feedback, if any.
    fn send_feedback(&mut self, leg: u32, cx: &mut dyn TrafficContext) {
        let reports = self.legs[leg as usize].receiver.take_reports();
        if !reports.is_empty() {
            let bytes = feedback_bytes(reports.len());
            self.send(leg ^ 1, (bytes, Ecn::NotEct), Content::Feedback(reports), cx);
        }
    }

    /// Releases the packets of a direction's pacer that are due.
    fn release(&mut self, leg: u32, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        let mut released = Vec::new();
        self.legs[leg as usize].sender.release(now, &mut |packet| released.push(packet));
        for packet in released {
            self.send_media(leg, packet, cx);
        }
        self.schedule_release(leg, now);
    }

    /// Schedules the next release of packets, unless an earlier release is scheduled.
    fn schedule_release(&mut self, leg: u32, now: Instant) {
        let one = &mut self.legs[leg as usize];
        let Some(at) = one.sender.pacer.next_release().map(|at| at.max(now)) else { return };
        if at < one.releases_at {
            one.releases_at = at;
            self.schedule(Event::Release, leg, at);
        }
    }

    fn send_media(&mut self, leg: u32, packet: Paced, cx: &mut dyn TrafficContext) {
        let Paced { bytes, video, probe } = packet;
        let one = &mut self.legs[leg as usize];
        let number = one.sender.number(bytes, probe, cx.now());
        one.recorder.on_sent(bytes, cx.now());
        let media = Content::Media(MediaPacket { number, video });
        self.send(leg, (bytes, self.ecn), media, cx);
    }

    /// Sends a datagram in a direction.
    fn send(&mut self, leg: u32, (bytes, ecn): (u16, Ecn), content: Content, cx: &mut dyn TrafficContext) {
        self.under_way[leg as usize].push(content);
        let CallFlow { flow, back } = self.legs[leg as usize].flow;
        if back {
            cx.datagram_back(flow, bytes, ecn);
        } else {
            cx.datagram(flow, bytes, ecn);
        }
    }

    fn on_media(
        &mut self,
        leg: u32,
        packet: MediaPacket,
        arrived: &ArrivedDatagram,
        cx: &mut dyn TrafficContext,
    ) {
        let now = cx.now();
        let Leg { receiver, recorder, .. } = &mut self.legs[leg as usize];
        receiver.on_packet(packet.number, arrived.ecn, now);
        recorder.on_received(arrived.bytes, arrived.sent, now);
        if let Some(video) = packet.video {
            receiver.on_video(video, now, &mut |one| {
                recorder.on_frame_rendered(one.frame.number, one.freeze, now);
            });
            self.check_missing(leg, cx);
        }
        let Reporting::Frames { packets } = self.reporting else { return };
        let ends_frame =
            packet.video.is_some_and(|one| one.sequence + 1 == one.frame.first + one.frame.packets);
        if ends_frame || self.legs[leg as usize].receiver.unreported() > packets as usize {
            self.send_feedback(leg, cx);
        }
    }

    /// Sends the requests of a direction's receiver that are due, and schedules the next event `Check` if requests may
    /// follow.
    fn check_missing(&mut self, leg: u32, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        let one = &mut self.legs[leg as usize];
        if !one.receiver.is_waiting() {
            return;
        }
        let requests = one.receiver.take_requests(now);
        let checks = std::mem::replace(&mut one.checks, true);
        if !requests.packets.is_empty() {
            let bytes = nack_bytes(&requests.packets);
            self.send(leg ^ 1, (bytes, Ecn::NotEct), Content::Nack(requests.packets), cx);
        }
        if requests.key_frame {
            let bytes = KEY_FRAME_REQUEST_BYTES;
            self.send(leg ^ 1, (bytes, Ecn::NotEct), Content::KeyFrameRequest, cx);
        }
        if !checks {
            self.schedule(Event::Check, leg, now + CHECK);
        }
    }
}

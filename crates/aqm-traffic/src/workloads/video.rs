//! Adaptive video over HTTP, as in DASH and HLS clients. Each client fetches segments with a fixed play time over one
//! persistent connection, one request after another. For each segment, the client chooses a bit rate from a ladder.
//!
//! A client requests the next segment when the last segment has arrived and the buffer has room for another segment.
//! While the buffer is filling, each request is sent as soon as the previous segment has arrived. Once the buffer is
//! full, there is about one request per segment play time, so that bursts and pauses alternate. Playback begins when
//! the buffer contains `start_up`, stalls when the buffer is empty, and resumes when the buffer contains `resume`. The
//! adaptation chooses the bit rate:
//!
//! - `throughput`: the highest rate of the ladder that is at most `safety` times the harmonic mean of the throughputs
//!   of the last `samples` segments, measured from the request to the last byte (J. Jiang, V. Sekar, H. Zhang,
//!   "Improving Fairness, Efficiency, and Stability in HTTP-based Adaptive Video Streaming with FESTIVE", CoNEXT 2012;
//!   the `ThroughputRule` of dash.js). The first segment has the lowest rate on the ladder.
//! - `buffer`: the rate of BBA-0, which depends only on the buffer level (T.-Y. Huang, R. Johari, N. McKeown, M.
//!   Trunnell, M. Watson, "A Buffer-Based Approach to Rate Adaptation", SIGCOMM 2014, algorithm 1). If the buffer level
//!   is at most `reservoir`, BBA-0 chooses the lowest rate. If the buffer level is at least `reservoir` plus `cushion`,
//!   BBA-0 chooses the highest rate. Between these levels, a straight line maps the buffer level to a rate. The chosen
//!   rate changes when the line reaches the next rate on the ladder.
//!
//! The table `transfers` contains one row per segment. All segments of a viewer belong to one flow, and the size of a
//! segment identifies its rate.
//!
//! aqmlab's choices, where the sources are silent: all segments with the same rate have the same size; video and audio
//! form a single stream; a segment is played only after it has arrived completely; the client does not add any delay to
//! that of the network; a viewer whose connection has failed stops watching.

use std::collections::{BTreeSet, VecDeque};

use aqm_net::{ConfigError, Instant, Rate, Size, Span, choices, parameters};

use crate::description::{Application, Playback};
use crate::parameters::{Period, check_request, check_transfers, start_offset};
use crate::{Build, BuildContext, Conversation, Exchange, TrafficContext, Workload};

choices! {
    /// Rule by which a client chooses the bit rate of the next segment.
    pub enum Adaptation {
        /// The rate depends on the throughputs of the last segments.
        Throughput = "throughput",
        /// The rate depends on the buffer level (BBA-0).
        Buffer = "buffer",
    }
}

parameters! {
    /// Adaptive video over HTTP (DASH, HLS): viewers fetch segments one after another, and the client chooses the bit
    /// rate of each segment.
    pub struct Config {
        /// Number of viewers. Each viewer has its own host.
        pub viewers: u32 = 1, "aqmlab's choice";
        /// Available bit rates, in ascending order.
        pub ladder: Vec<Rate> = ladder(), "Aaron et al., \"Per-Title Encode Optimization\", 2015: Netflix's previous ladder";
        /// Play time of a segment.
        pub segment: Span = Span::from_millis(4_000), "Huang et al. 2014";
        /// Play time of the whole video; by default, the video is longer than the run.
        pub length: Option<Span> = None, "aqmlab's choice";
        /// Maximum play time that the buffer can hold.
        pub buffer: Span = Span::from_millis(30_000), "dash.js: `bufferTimeAtTopQuality`; Huang et al. 2014: 240 s";
        /// Buffer level at which playback begins.
        pub start_up: Span = Span::from_millis(2_500), "ExoPlayer 2: `DEFAULT_BUFFER_FOR_PLAYBACK_MS`";
        /// Buffer level at which playback resumes after a stall.
        pub resume: Span = Span::from_millis(5_000),
            "ExoPlayer 2: `DEFAULT_BUFFER_FOR_PLAYBACK_AFTER_REBUFFER_MS`";
        /// Rule by which a client chooses the bit rate of the next segment.
        pub adaptation: Adaptation = Adaptation::Throughput, "dash.js; a buffer takes minutes to fill";
        /// With `throughput`, the maximum fraction of the measured throughput that the client uses.
        pub safety: f64 = 0.9, "dash.js: `bandwidthSafetyFactor`";
        /// With `throughput`, the number of recent segments that are used to measure the throughput.
        pub samples: u32 = 4, "dash.js: a sliding window of four";
        /// With `buffer`, the highest buffer level at which the lowest rate is chosen; by default, 3/8 of `buffer`.
        pub reservoir: Option<Span> = None, "Huang et al. 2014: 90 s of 240 s";
        /// With `buffer`, the difference between `reservoir` and the buffer level at which the highest rate is chosen;
        /// by default, this level is 9/10 of `buffer`.
        pub cushion: Option<Span> = None, "Huang et al. 2014: 126 s, up to 216 s of 240 s";
        /// Size of the request that the client sends for a segment.
        pub request: Size = Size::from_bytes(300), "aqmlab's choice";
        /// Earliest arrival time of a viewer.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Length of the interval after `start` in which viewers arrive at random times.
        pub stagger: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no segment is requested; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
    }
}

/// Returns Netflix's fixed ladder, from 320x240 to 1920x1080.
fn ladder() -> Vec<Rate> {
    const KBPS: [u64; 10] = [235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800];
    KBPS.iter().map(|kbps| Rate::from_bps(kbps * 1000)).collect()
}

/// Maximum number of viewers. A larger number is assumed to be a typing error.
const MAX_VIEWERS: u32 = 100_000;

/// Maximum size of a segment in bytes. A larger size is assumed to be a typing error.
const MAX_SEGMENT: u64 = 10_000_000_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let problem = format_args!("must be between 1 and {MAX_VIEWERS} (got {})", self.viewers);
        ConfigError::unless((1..=MAX_VIEWERS).contains(&self.viewers), "viewers", problem)?;
        let ascends = !self.ladder.is_empty() && self.ladder.windows(2).all(|two| two[0] < two[1]);
        ConfigError::unless(ascends, "ladder", "must list bit rates in ascending order")?;
        ConfigError::unless(!self.segment.is_zero(), "segment", "must be greater than zero")?;
        let ladder: Vec<Step> = self.ladder.iter().map(|&rate| Step::new(rate, self.segment)).collect();
        let sensible = ladder.iter().all(|step| (1..=MAX_SEGMENT).contains(&step.bytes));
        ConfigError::unless(sensible, "ladder", "must result in segments of 1B to 10GB")?;
        let needed = self.segment + self.start_up.max(self.resume);
        let problem =
            "must be at least `segment` longer than `start_up` and at least `segment` longer than `resume`";
        ConfigError::unless(self.buffer >= needed, "buffer", problem)?;
        let segments = self.segments();
        ConfigError::unless(segments != Some(0), "length", "must be greater than zero")?;
        let safety = self.safety > 0.0 && self.safety <= 10.0;
        ConfigError::unless(safety, "safety", "must be above 0 and at most 10")?;
        ConfigError::unless((1..=1000).contains(&self.samples), "samples", "must be between 1 and 1000")?;
        let (_, cushion) = self.thresholds();
        ConfigError::unless(!cushion.is_zero(), "cushion", "must be greater than zero")?;
        check_request(Some(self.request))?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let most = period.seconds() / self.segment.seconds() + self.buffer.seconds() / self.segment.seconds();
        let each = segments.map_or(most, |segments| most.min(segments as f64));
        check_transfers(f64::from(self.viewers) * each, "viewers", "lower it")?;
        let arrival = |number| Instant::START + self.start + start_offset(self.stagger, number, context);
        Ok(Box::new(Video {
            viewers: (0..self.viewers).map(|number| Viewer::new(arrival(number))).collect(),
            pending: BTreeSet::new(),
            config: self.clone(),
            ladder,
            segments,
            thresholds: self.thresholds(),
            period,
            totals: RequestTotals::default(),
        }))
    }

    fn own_hosts(&self) -> bool {
        true
    }

    fn hosts(&self) -> u64 {
        self.viewers.into()
    }

    fn application(&self) -> Option<Application> {
        Some(Application::Video(Playback {
            segment_s: self.segment.seconds(),
            start_up_s: self.start_up.seconds(),
            resume_s: self.resume.seconds(),
            segments: self.segments(),
            stop_s: self.stop.map(Span::seconds),
        }))
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some("live runs do not support clients that choose their requests during the run")
    }
}

impl Config {
    /// Returns the number of segments of the video; `None` if the video does not end.
    fn segments(&self) -> Option<u64> {
        // `build` rejects segments with a play time of zero.
        let segment = self.segment.nanos().max(1);
        self.length.map(|length| length.nanos().div_ceil(segment))
    }

    /// Returns the reservoir and the cushion.
    fn thresholds(&self) -> (Span, Span) {
        let reservoir = self.reservoir.unwrap_or(share(self.buffer, 3.0 / 8.0));
        (reservoir, self.cushion.unwrap_or(share(self.buffer, 0.9) - reservoir))
    }
}

/// Returns the fraction `share` of a time span.
fn share(whole: Span, share: f64) -> Span {
    Span::from_nanos((whole.nanos() as f64 * share) as u64)
}

/// A bit rate of the ladder.
#[derive(Clone, Copy)]
struct Step {
    bps: f64,
    /// Size of a segment with this bit rate, in bytes.
    bytes: u64,
}

impl Step {
    fn new(rate: Rate, segment: Span) -> Self {
        let bps = rate.bps() as f64;
        Self { bps, bytes: (bps * segment.seconds() / 8.0 + 0.5) as u64 }
    }
}

/// The running workload.
#[derive(Clone)]
struct Video {
    config: Config,
    ladder: Vec<Step>,
    /// Number of segments of the video; `None` if the video does not end.
    segments: Option<u64>,
    /// With `buffer`, the reservoir and the cushion.
    thresholds: (Span, Span),
    period: Period,
    viewers: Vec<Viewer>,
    /// Pending requests. Each request consists of the time at which a viewer's buffer has room for another segment, and
    /// the viewer.
    pending: BTreeSet<(Instant, u32)>,
    totals: RequestTotals,
}

/// Totals of the segments that have been requested so far.
#[derive(Clone, Default)]
struct RequestTotals {
    segments: u64,
    /// Sum of the bit rates of the requested segments.
    bps: f64,
    switches: u64,
}

/// A viewer.
#[derive(Clone)]
struct Viewer {
    /// Time of the latest request; before the first request, the viewer's arrival time.
    requested_at: Instant,
    /// Number of requested segments.
    segments: u64,
    /// Ladder index of the segment that was requested last.
    step: usize,
    /// Throughputs of the last segments, in bits per second.
    rates: VecDeque<f64>,
    player: Player,
}

impl Viewer {
    fn new(arrival: Instant) -> Self {
        Self {
            requested_at: arrival,
            segments: 0,
            step: 0,
            rates: VecDeque::new(),
            player: Player::new(arrival),
        }
    }
}

impl Workload for Video {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        for number in 0..self.viewers.len() as u32 {
            self.schedule_request(self.viewers[number as usize].requested_at, number, cx);
        }
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        while let Some(&(at, number)) = self.pending.first().filter(|(at, _)| *at <= cx.now()) {
            self.pending.remove(&(at, number));
            self.request(number, cx);
        }
    }

    fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        let Some(viewer) = self.viewers.get_mut(number as usize) else { return };
        let duration = now.since(viewer.requested_at).seconds().max(1e-9);
        if viewer.rates.len() == self.config.samples as usize {
            viewer.rates.pop_front();
        }
        viewer.rates.push_back(self.ladder[viewer.step].bytes as f64 * 8.0 / duration);
        let is_last = self.segments == Some(viewer.segments);
        viewer.player.receive(now.min(self.period.end), is_last, &self.config);
        if is_last {
            return;
        }
        let room = self.config.buffer - self.config.segment;
        let full = viewer.player.level() - room;
        if full.is_zero() {
            self.request(number, cx);
        } else {
            self.schedule_request(now + full, number, cx);
        }
    }

    fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        if let Some(viewer) = self.viewers.get_mut(number as usize) {
            viewer.player.stop(cx.now().min(self.period.end));
        }
        self.pending.retain(|(_, viewer)| *viewer != number);
    }

    /// Passes facts about the workload to `show`: bit rates and stalls, for the segments that have arrived. At the end
    /// of the run, the facts are complete except for the segments that are still in the buffer.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let RequestTotals { segments, bps, switches } = self.totals;
        let stalls: u64 = self.viewers.iter().map(|viewer| viewer.player.stalls).sum();
        let stalled: f64 = self.viewers.iter().map(|viewer| viewer.player.stalled.seconds()).sum();
        show("segments", segments as f64);
        show("mean_bit_rate_bps", if segments == 0 { 0.0 } else { bps / segments as f64 });
        show("switches", switches as f64);
        show("stalls", stalls as f64);
        show("stalled_s", stalled);
    }
}

impl Video {
    /// Schedules a viewer's next request at `at`, which is the time at which the viewer's buffer has room for a
    /// segment.
    fn schedule_request(&mut self, at: Instant, number: u32, cx: &mut dyn TrafficContext) {
        if at < self.period.end {
            self.pending.insert((at, number));
            cx.wake_at(at);
        }
    }

    /// Requests a viewer's next segment, unless the period is over.
    fn request(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        if now >= self.period.end {
            return;
        }
        self.viewers[number as usize].player.advance(now);
        let step = self.choose(&self.viewers[number as usize]);
        let viewer = &mut self.viewers[number as usize];
        let is_first = viewer.segments == 0;
        self.totals.segments += 1;
        self.totals.bps += self.ladder[step].bps;
        self.totals.switches += u64::from(!is_first && step != viewer.step);
        (viewer.step, viewer.requested_at) = (step, now);
        viewer.segments += 1;
        let is_last = self.segments == Some(viewer.segments);
        let exchange = Exchange::immediate(self.config.request.bytes(), self.ladder[step].bytes);
        if is_first {
            cx.converse(Conversation {
                number: Some(number),
                host: number,
                ..Conversation::single(exchange)
            });
        } else {
            cx.request(number, exchange);
        }
        if is_last {
            cx.finish(number);
        }
    }

    /// Returns the ladder index of a viewer's next segment.
    fn choose(&self, viewer: &Viewer) -> usize {
        match self.config.adaptation {
            Adaptation::Throughput => self.by_throughput(&viewer.rates),
            Adaptation::Buffer => {
                by_buffer(&self.ladder, self.thresholds, viewer.step, viewer.player.level())
            }
        }
    }

    /// Returns the highest ladder index whose bit rate can be sustained with the throughputs `rates`.
    fn by_throughput(&self, rates: &VecDeque<f64>) -> usize {
        if rates.is_empty() {
            return 0;
        }
        let mean = rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
        let usable = self.config.safety * mean;
        self.ladder.iter().rposition(|step| step.bps <= usable).unwrap_or(0)
    }
}

/// Implements algorithm 1 of Huang et al. Returns the ladder index that is chosen if the previous index was `before`
/// and the buffer level is `level`.
fn by_buffer(ladder: &[Step], (reservoir, cushion): (Span, Span), before: usize, level: Span) -> usize {
    let highest = ladder.len() - 1;
    if level <= reservoir {
        return 0;
    }
    if level >= reservoir + cushion {
        return highest;
    }
    let (least, most) = (ladder[0].bps, ladder[highest].bps);
    let line = least + (most - least) * ((level - reservoir).seconds() / cushion.seconds());
    let (above, below) = ((before + 1).min(highest), before.saturating_sub(1));
    if line >= ladder[above].bps {
        ladder.iter().rposition(|step| step.bps < line).unwrap_or(0)
    } else if line <= ladder[below].bps {
        ladder.iter().position(|step| step.bps > line).unwrap_or(highest)
    } else {
        before
    }
}

/// The player of a viewer.
#[derive(Clone, Debug)]
struct Player {
    /// Total play time of the segments that have arrived.
    received: Span,
    /// Total play time that had been played by the time `since`.
    played: Span,
    since: Instant,
    state: State,
    /// Total duration of stalls until the time `since`.
    stalled: Span,
    stalls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Playback has not begun.
    StartingUp,
    Playing,
    /// The buffer is empty.
    Stalled,
    /// All segments have arrived. The player plays the rest of the buffer.
    Finishing,
}

impl Player {
    fn new(arrival: Instant) -> Self {
        Self {
            received: Span::ZERO,
            played: Span::ZERO,
            since: arrival,
            state: State::StartingUp,
            stalled: Span::ZERO,
            stalls: 0,
        }
    }

    /// Advances playback to the time `now`.
    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.since);
        let playable = passed.min(self.level());
        match self.state {
            State::StartingUp => {}
            State::Finishing => self.played = self.played + playable,
            State::Playing => {
                self.played = self.played + playable;
                if passed > playable {
                    self.state = State::Stalled;
                    self.stalls += 1;
                    self.stalled = self.stalled + (passed - playable);
                }
            }
            State::Stalled => self.stalled = self.stalled + passed,
        }
        self.since = now;
    }

    /// Adds a received segment to the buffer.
    fn receive(&mut self, now: Instant, is_last: bool, config: &Config) {
        self.advance(now);
        self.received = self.received + config.segment;
        match self.state {
            _ if is_last => self.state = State::Finishing,
            State::StartingUp if self.level() >= config.start_up => self.state = State::Playing,
            State::Stalled if self.level() >= config.resume => self.state = State::Playing,
            _ => {}
        }
    }

    /// Records that no further segments will arrive.
    fn stop(&mut self, now: Instant) {
        self.advance(now);
        self.state = State::Finishing;
    }

    /// Returns the buffer level at the time `since`.
    fn level(&self) -> Span {
        self.received - self.played
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RecordingContext, context, fact, run, run_conversing};

    /// Runs viewers on a path whose rate, in bits per second, is a function of time.
    fn watch(config: &Config, seconds: u64, bps: impl Fn(f64) -> f64) -> Watched {
        let mut workload = config.build(&context(1, seconds)).unwrap();
        let end = Instant::START + Span::from_millis(seconds * 1000);
        let recording = run_conversing(&mut *workload, end, |at, exchange| {
            assert_eq!((exchange.request, exchange.pause, exchange.think), (300, Span::ZERO, Span::ZERO));
            Span::from_seconds(exchange.response as f64 * 8.0 / bps(at.seconds()))
        });
        let first = recording.conversations.iter().map(|(at, one)| (at.seconds(), one.first.response));
        let more = recording.requests.iter().map(|(at, _, exchange)| (at.seconds(), exchange.response));
        let facts = ["segments", "mean_bit_rate_bps", "switches", "stalls", "stalled_s"];
        Watched {
            requests: first.chain(more).collect(),
            facts: facts.map(|name| fact(&*workload, name)),
            last: recording.finished.last().map(|finished| finished.0.seconds()),
        }
    }

    struct Watched {
        /// Times of requests, and sizes in bytes of the requested segments.
        requests: Vec<(f64, u64)>,
        /// Number of segments, mean bit rate, number of switches, number of stalls, and total duration of stalls in
        /// seconds.
        facts: [f64; 5],
        /// Time at which the workload finished the conversation.
        last: Option<f64>,
    }

    impl Watched {
        /// Returns the bit rates of the requested segments in kb/s, if segments have a play time of 4 s.
        fn kbps(&self) -> Vec<u64> {
            self.requests.iter().map(|(_, bytes)| bytes * 8 / 4000).collect()
        }
    }

    #[test]
    fn the_first_segment_has_the_lowest_rate_and_the_next_nine_tenths_of_the_throughput() {
        let watched = watch(&Config::default(), 60, |_| 3e6);
        // 0.9 * 3 Mb/s is 2.7 Mb/s.
        assert_eq!(watched.kbps()[..4], [235, 2350, 2350, 2350]);
        assert_eq!(watched.facts[2], 1.0);
        let mean = (235.0 + 2350.0 * (watched.facts[0] - 1.0)) / watched.facts[0];
        assert!((watched.facts[1] / 1e3 - mean).abs() < 1e-6);
    }

    #[test]
    fn the_buffer_fills_first_and_then_requests_follow_play() {
        let watched = watch(&Config::default(), 100, |_| 3e6);
        let gaps: Vec<f64> = watched.requests.windows(2).map(|two| two[1].0 - two[0].0).collect();
        // The first gap is 235 * 4 / 3000 s long, and the second gap is 2350 * 4 / 3000 s long.
        assert!((gaps[0] - 0.3133).abs() < 1e-3 && (gaps[1] - 3.1333).abs() < 1e-3, "{gaps:?}");
        let full = gaps.iter().position(|gap| (gap - 4.0).abs() < 1e-6).unwrap();
        assert!(gaps[1..full - 1].iter().all(|gap| (gap - 3.1333).abs() < 1e-3));
        assert!(gaps[full..].iter().all(|gap| (gap - 4.0).abs() < 1e-6), "{gaps:?}");
        // When the viewer waits for the first time, the buffer contains 30 s minus one segment. This buffer level is
        // the received play time minus the time since the first segment arrived.
        let (wait_start, received) = (watched.requests[full].0, 4.0 * full as f64);
        assert!((received - (wait_start - 0.3133) - 26.0).abs() < 1e-3, "{wait_start} {received}");
    }

    #[test]
    fn the_rate_follows_the_harmonic_mean_of_the_last_four() {
        let config = Config { buffer: Span::from_millis(600_000), ..Config::default() };
        // After the rate falls from 3 to 1 Mb/s, the harmonic means are 4 / (3/3 + 1/1) = 2, 4 / (2/3 + 2/1) = 1.5, 1.2
        // and 1. Multiplied by 0.9, they are 1.8, 1.35, 1.08 and 0.9.
        let watched = watch(&config, 100, |at| if at < 20.0 { 3e6 } else { 1e6 });
        let kbps = watched.kbps();
        let last = kbps.iter().rposition(|&rate| rate == 2350).unwrap();
        assert!(watched.requests[last].0 >= 20.0 && watched.requests[last - 1].0 < 20.0);
        assert_eq!(kbps[last + 1..last + 6], [1750, 1050, 1050, 750, 750]);
    }

    #[test]
    fn a_path_below_the_lowest_rate_causes_repeated_stalls() {
        // At this rate, a segment with 235 kb/s takes 4.7 s. After the first stall, two segments are needed to resume.
        let watched = watch(&Config::default(), 200, |_| 200e3);
        assert!(watched.kbps().iter().all(|&rate| rate == 235));
        let [segments, _, _, stalls, stalled] = watched.facts;
        // Of the 200 s, the first 4.7 s pass before playback begins, and 4 s can be played out of every further 4.7 s.
        // After a stall, two segments are buffered, which last for half a minute.
        assert!((5.0..8.0).contains(&stalls) && (25.0..35.0).contains(&stalled), "{stalls} {stalled}");
        let come = 4.0 * (segments - 1.0);
        let buffered = come - (200.0 - 4.7 - stalled);
        assert!((-4.7..8.0).contains(&buffered), "{buffered}");
    }

    #[test]
    fn play_stalls_with_an_empty_buffer_and_resumes_with_two_segments() {
        let config = Config::default();
        let mut player = Player::new(Instant::START);
        let at = |seconds: f64| Instant::START + Span::from_seconds(seconds);
        player.receive(at(1.0), false, &config);
        assert_eq!(player.state, State::Playing);
        player.receive(at(6.0), false, &config);
        assert_eq!(
            (player.state, player.stalls, player.level()),
            (State::Stalled, 1, Span::from_millis(4000))
        );
        player.receive(at(7.5), false, &config);
        assert_eq!((player.state, player.stalled), (State::Playing, Span::from_millis(2500)));
        player.receive(at(9.5), true, &config);
        assert_eq!(player.level(), Span::from_millis(10_000));
        player.advance(at(60.0));
        assert_eq!((player.level(), player.stalls), (Span::ZERO, 1), "the end is not a stall");
    }

    #[test]
    fn the_buffer_chooses_the_rate_as_bba_0_does() {
        let seconds = |seconds: u64| Span::from_millis(seconds * 1000);
        let config = Config {
            adaptation: Adaptation::Buffer,
            buffer: seconds(240),
            ladder: [1, 2, 3, 4, 5].map(|mbps| Rate::from_bps(mbps * 1_000_000)).to_vec(),
            ..Config::default()
        };
        // The line rises from 1 Mb/s at 90 s to 5 Mb/s at 216 s, that is, by 1 Mb/s per 31.5 s.
        let choose = |before: usize, level: u64| by_buffer(&config, before, seconds(level));
        assert_eq!([0, 90, 216, 240].map(|level| choose(2, level)), [0, 0, 4, 4]);
        assert_eq!([100, 121, 122, 152, 154].map(|level| choose(0, level)), [0, 0, 1, 1, 2]);
        // The rate falls only when the line has fallen to the next lower rate of the ladder.
        assert_eq!([160, 155, 122, 121].map(|level| choose(2, level)), [2, 2, 2, 1]);
    }

    /// Returns the ladder index that BBA-0 chooses if the previous index was `before` and the buffer level is `level`.
    fn by_buffer(config: &Config, before: usize, level: Span) -> usize {
        let ladder: Vec<Step> = config.ladder.iter().map(|&rate| Step::new(rate, config.segment)).collect();
        let (reservoir, cushion) = config.thresholds();
        super::by_buffer(&ladder, (reservoir, cushion), before, level)
    }

    #[test]
    fn bba_0_on_a_fast_path_climbs_the_ladder_as_the_buffer_fills() {
        let config = Config { adaptation: Adaptation::Buffer, ..Config::default() };
        let kbps = watch(&config, 200, |_| 20e6).kbps();
        assert_eq!(kbps[..3], [235, 235, 235]);
        assert!(kbps.windows(2).all(|two| two[0] <= two[1]), "{kbps:?}");
        assert_eq!(kbps.last(), Some(&4300), "26 s are buffered, and from 27 s on the highest is chosen");
    }

    #[test]
    fn a_video_of_a_length_ends_with_its_last_segment() {
        let config = Config { length: Some(Span::from_millis(18_000)), ..Config::default() };
        let watched = watch(&config, 100, |_| 3e6);
        assert_eq!(
            (watched.requests.len(), watched.last, watched.facts[3]),
            (5, Some(watched.requests[4].0), 0.0)
        );
        assert_eq!(watch(&Config::default(), 100, |_| 3e6).last, None);
        let single = Config { length: Some(Span::from_millis(3_000)), ..Config::default() };
        let watched = watch(&single, 10, |_| 3e6);
        assert_eq!((watched.requests.len(), watched.last), (1, Some(0.0)));
    }

    #[test]
    fn viewers_come_in_a_time_and_each_has_a_host_and_a_connection() {
        let stagger = Span::from_millis(10_000);
        let config = Config { viewers: 50, stagger, start: Span::from_millis(5_000), ..Config::default() };
        assert_eq!((config.own_hosts(), config.hosts()), (true, 50));
        let mut workload = config.build(&context(1, 100)).unwrap();
        let recording = run(&mut *workload);
        let hosts: BTreeSet<u32> = recording.conversations.iter().map(|(_, one)| one.host).collect();
        assert_eq!(hosts.len(), 50);
        assert!(
            recording
                .conversations
                .iter()
                .all(|(at, one)| { (5.0..15.0).contains(&at.seconds()) && one.number == Some(one.host) })
        );
    }

    #[test]
    fn no_requests_follow_the_stop_or_a_failed_connection() {
        let config = Config { stop: Some(Span::from_millis(50_000)), ..Config::default() };
        let watched = watch(&config, 100, |_| 3e6);
        assert!(watched.requests.iter().all(|request| request.0 < 50.0) && watched.requests.len() > 10);
        let mut workload = Config::default().build(&context(1, 100)).unwrap();
        let mut recording = RecordingContext::default();
        workload.start(&mut recording);
        workload.on_wake(&mut recording);
        workload.on_connection_failed(0, &mut recording);
        workload.on_wake(&mut recording);
        assert_eq!((recording.conversations.len(), recording.requests.len()), (1, 0));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.build(&context(1, 100)).err().unwrap().path;
        let rates = |bps: &[u64]| bps.iter().map(|&bps| Rate::from_bps(bps)).collect();
        assert_eq!(path(Config { viewers: 0, ..Config::default() }), "viewers");
        for ladder in [&[][..], &[2000, 1000], &[1000, 1000], &[1_000_000_000_000]] {
            assert_eq!(path(Config { ladder: rates(ladder), ..Config::default() }), "ladder");
        }
        assert_eq!(path(Config { segment: Span::ZERO, ..Config::default() }), "segment");
        assert_eq!(path(Config { buffer: Span::from_millis(8_999), ..Config::default() }), "buffer");
        assert_eq!(path(Config { length: Some(Span::ZERO), ..Config::default() }), "length");
        assert_eq!(path(Config { safety: 0.0, ..Config::default() }), "safety");
        assert_eq!(path(Config { samples: 0, ..Config::default() }), "samples");
        assert_eq!(path(Config { request: Size::from_bytes(0), ..Config::default() }), "request");
        let buffer = Adaptation::Buffer;
        let cushion = Some(Span::ZERO);
        assert_eq!(path(Config { adaptation: buffer, cushion, ..Config::default() }), "cushion");
        assert_eq!(path(Config { stop: Some(Span::ZERO), ..Config::default() }), "stop");
    }
}

//! The control on a path that consists of one link.

use super::*;

/// One-way delay without queueing, in each direction.
const DELAY: Span = Span::from_millis(25);
const PACKET: u16 = 1000;
/// Interval of frames and of feedback.
const FRAME: Span = Span::from_millis(20);

/// A link with a queue.
#[derive(Clone, Copy)]
struct Link {
    bps: f64,
    /// Longest queue; longer queues drop packets.
    limit: Span,
    /// Queue from which packets are marked.
    marks_from: Span,
}

const LINK: Link = Link { bps: 2e6, limit: Span::from_millis(300), marks_from: Span::from_millis(10_000) };

/// A sender whose frames follow the target rate, and a receiver that sends feedback after each frame.
struct Path {
    control: Box<dyn RateControl>,
    ecn: Ecn,
    now: Instant,
    number: u64,
    link_free: Instant,
    under_way: VecDeque<PacketReport>,
    /// Sum of the queueing delays, number of sent packets, and longest queueing delay.
    queued: (f64, u64, f64),
}

impl Path {
    fn new(config: &Config, ecn: Ecn) -> Self {
        let media = Media { most: Rate::from_bps(5_000_000), ecn };
        Self {
            control: config.build(media).unwrap(),
            ecn,
            now: Instant::START,
            number: 0,
            link_free: Instant::START,
            under_way: VecDeque::new(),
            queued: (0.0, 0, 0.0),
        }
    }

    /// Sends a packet.
    fn send(&mut self, at: Instant, link: Link) {
        self.control.on_sent(SentPacket { number: self.number, bytes: PACKET, at, probe: None });
        let start = self.link_free.max(at);
        let queue = start.since(at);
        let accepted = queue <= link.limit;
        if accepted {
            self.link_free = start + Span::from_seconds(8.0 * f64::from(PACKET) / link.bps);
            self.queued =
                (self.queued.0 + queue.seconds(), self.queued.1 + 1, self.queued.2.max(queue.seconds()));
        }
        let marked = self.ecn != Ecn::NotEct && queue >= link.marks_from;
        let ecn = if marked { Ecn::Ce } else { self.ecn };
        let arrival = accepted.then(|| self.link_free + DELAY);
        self.under_way.push_back(PacketReport { number: self.number, arrival, ecn });
        self.number += 1;
    }

    /// Runs for some seconds. Returns the mean target rate and the mean queueing delay.
    fn run(&mut self, seconds: u64, link: Link) -> (f64, f64) {
        let (mut sum, frames) = (0.0, seconds * 50);
        self.queued = (0.0, 0, 0.0);
        for _ in 0..frames {
            let known = self.now.earlier_by(DELAY);
            let last = self.under_way.iter().rposition(|one| one.arrival.is_some_and(|at| at <= known));
            let reports: Vec<_> = self.under_way.drain(..last.map_or(0, |last| last + 1)).collect();
            self.control.on_feedback(&reports, self.now);
            self.control.on_timer(self.now);
            let nominal_bytes = self.control.target_rate() * FRAME.seconds() / 8.0;
            let bytes = nominal_bytes as u64;
            let frame = MediaFrame { bytes, nominal_bytes, queued: Span::ZERO, interval: FRAME };
            self.control.on_frame(frame);
            let gap = Span::from_seconds(8.0 * f64::from(PACKET) / self.control.pacing_rate());
            let (mut at, mut rest) = (self.now, nominal_bytes);
            while rest > 0.0 && self.control.send_window() >= f64::from(PACKET) {
                self.send(at, link);
                at += gap;
                rest -= f64::from(PACKET);
            }
            sum += self.control.target_rate();
            self.now += FRAME;
        }
        (sum / frames as f64, self.queued.0 / self.queued.1 as f64)
    }
}

#[test]
fn the_rate_follows_the_capacity_and_the_queue_stays_below_its_target() {
    let mut path = Path::new(&Config::default(), Ecn::NotEct);
    path.run(20, LINK);
    for bps in [2e6, 1e6, 3e6] {
        let link = Link { bps, ..LINK };
        path.run(15, link);
        let (rate, delay) = path.run(20, link);
        assert!((0.7 * bps..bps).contains(&rate), "{rate} of {bps}");
        assert!(delay < 0.06, "{delay} at {bps}");
    }
}

#[test]
fn marks_of_l4s_keep_the_queue_short() {
    let link = Link { marks_from: Span::from_millis(5), ..LINK };
    let mean = |ecn| {
        let mut path = Path::new(&Config::default(), ecn);
        path.run(30, link);
        path.run(30, link)
    };
    let ((unmarked, long), (rate, delay)) = (mean(Ecn::NotEct), mean(Ecn::Ect1));
    assert!(delay < 0.01 && delay < long / 2.0, "{delay} and {long}");
    assert!(rate > 0.6 * unmarked, "{rate} and {unmarked}");
}

#[test]
fn the_rate_reaches_the_maximum_and_stays_there() {
    let mut path = Path::new(&Config::default(), Ecn::NotEct);
    let link = Link { bps: 20e6, ..LINK };
    path.run(30, link);
    let (rate, delay) = path.run(10, link);
    assert!(rate > 4.9e6, "{rate}");
    assert!(delay < 0.005, "{delay}");
}

#[test]
fn the_bytes_in_flight_are_limited_when_feedback_stops() {
    let mut control = Path::new(&Config::default(), Ecn::NotEct).control;
    // Three times the minimum window of 3000 B.
    assert_eq!(control.send_window(), 9000.0);
    for number in 0..9 {
        let at = Instant::START;
        control.on_sent(SentPacket { number, bytes: PACKET, at, probe: None });
    }
    assert_eq!(control.send_window(), 0.0);
    control.on_timer(Instant::START + Span::from_millis(501));
    assert_eq!(control.send_window(), 9000.0);
}

#[test]
fn the_first_target_rate_belongs_to_the_minimum_window_and_the_initial_round_trip_time() {
    let control = Path::new(&Config::default(), Ecn::NotEct).control;
    let expected = 0.8 / 1.02 / 1.2 * 8.0 * 3000.0 / 0.05;
    assert!((control.target_rate() - expected).abs() < 1e-6, "{}", control.target_rate());
}

#[test]
fn feedback_without_new_information_changes_nothing() {
    let mut path = Path::new(&Config::default(), Ecn::Ect1);
    path.run(5, LINK);
    let mut control = path.control.clone();
    let before = (control.target_rate(), control.send_window());
    let late = PacketReport { number: 0, arrival: None, ecn: Ecn::NotEct };
    control.on_feedback(&[late], path.now);
    assert_eq!((control.target_rate(), control.send_window()), before);
}

#[test]
fn a_compensation_of_competing_flows_and_jitter_can_be_selected() {
    let config = Config { competing_flows: true, reduce_jitter: true, ..Config::default() };
    let mut path = Path::new(&config, Ecn::NotEct);
    path.run(20, LINK);
    let (rate, delay) = path.run(20, LINK);
    assert!((1e6..2e6).contains(&rate) && delay < 0.2, "{rate} {delay}");
}

#[test]
fn invalid_parameters_are_rejected() {
    let media = Media { most: Rate::from_bps(1_000_000), ecn: Ecn::NotEct };
    let path = |config: Config| config.build(media).err().unwrap().path;
    assert_eq!(path(Config { min_rate: Rate::from_bps(0), ..Config::default() }), "min_rate");
    assert_eq!(path(Config { target_delay: Span::ZERO, ..Config::default() }), "target_delay");
    let max_target_delay = Span::from_millis(59);
    assert_eq!(path(Config { max_target_delay, ..Config::default() }), "max_target_delay");
    let low = Config { min_rate: Rate::from_bps(5_000_000), ..Config::default() };
    assert_eq!(low.build(media).unwrap().target_rate(), 1e6, "the application limits the rate");
}

//! The control on a path that consists of one link.

use aqm_net::Ecn;

use super::*;

/// A sender that always sends at its target rate, a link with a queue, and a receiver that sends feedback every 50 ms.
struct Path {
    control: Box<dyn RateControl>,
    now: Instant,
    number: u64,
    sent_until: Instant,
    link_free: Instant,
    /// Packets under way, with their arrival times; `None` if the queue dropped the packet.
    under_way: VecDeque<(u64, Option<Instant>)>,
    /// Rates that the sender has probed.
    probed: Vec<f64>,
}

/// One-way delay without queueing.
const DELAY: Span = Span::from_millis(50);
const PACKET: u16 = 1200;

fn media(bps: u64) -> Media {
    Media { most: Rate::from_bps(bps), ecn: Ecn::NotEct }
}

impl Path {
    fn new(config: &Config) -> Self {
        Self {
            control: config.build(media(5_000_000)).unwrap(),
            now: Instant::START,
            number: 0,
            sent_until: Instant::START,
            link_free: Instant::START,
            under_way: VecDeque::new(),
            probed: Vec::new(),
        }
    }

    /// Sends a packet on a link with this rate, unless the link's queue is longer than 300 ms or `lost` is true.
    fn send(&mut self, probe: Option<u32>, bps: f64, lost: bool) {
        let at = self.sent_until;
        self.control.on_sent(SentPacket { number: self.number, bytes: PACKET, at, probe });
        let start = self.link_free.max(at);
        let accepted = start.since(at) <= Span::from_millis(300) && !lost;
        if accepted {
            self.link_free = start + Span::from_seconds(8.0 * f64::from(PACKET) / bps);
        }
        self.under_way.push_back((self.number, accepted.then(|| self.link_free + DELAY)));
        self.number += 1;
    }

    /// Runs for some seconds on a link with this rate. Every `loss`-th packet is lost, if `loss` is not zero. Returns
    /// the mean target rate.
    fn run(&mut self, seconds: u64, bps: f64, loss: u64) -> f64 {
        let mut sum = 0.0;
        for _ in 0..seconds * 40 {
            self.now += Span::from_millis(25);
            self.control.on_timer(self.now);
            while let Some(probe) = self.control.next_probe() {
                self.probed.push(probe.rate_bps);
                let packets = (probe.bytes / u64::from(PACKET)).max(5);
                for _ in 0..=packets {
                    let gap = Span::from_seconds(8.0 * f64::from(PACKET) / probe.rate_bps);
                    self.send(Some(probe.number), bps, false);
                    self.sent_until += gap;
                }
            }
            while self.sent_until < self.now {
                self.send(None, bps, loss > 0 && self.number.is_multiple_of(loss));
                let gap = 8.0 * f64::from(PACKET) / self.control.target_rate();
                self.sent_until += Span::from_seconds(gap);
            }
            if self.now.nanos().is_multiple_of(50_000_000) {
                // Feedback needs as long as a packet in an empty queue.
                let known = self.now.earlier_by(DELAY);
                let arrived = self
                    .under_way
                    .iter()
                    .rposition(|(_, arrival)| arrival.is_some_and(|arrival| arrival <= known));
                let count = arrived.map_or(0, |last| last + 1);
                let reports: Vec<PacketReport> = self
                    .under_way
                    .drain(..count)
                    .map(|(number, arrival)| PacketReport { number, arrival, ecn: Ecn::NotEct })
                    .collect();
                self.control.on_feedback(&reports, self.now);
            }
            sum += self.control.target_rate();
        }
        sum / (seconds * 40) as f64
    }

    /// Returns the present queueing delay in seconds.
    fn queue(&self) -> f64 {
        self.link_free.since(self.now).seconds()
    }
}

#[test]
fn the_initial_probes_find_the_rate_of_the_link_within_a_second() {
    let mut path = Path::new(&Config::default());
    path.run(1, 2e6, 0);
    assert_eq!(path.probed[..2], [900e3, 1.8e6]);
    let found = path.control.target_rate();
    assert!((1.4e6..2.1e6).contains(&found), "{found}");
}

#[test]
fn without_probes_the_rate_grows_by_eight_per_cent_per_second() {
    let mut path = Path::new(&Config { probing: false, ..Config::default() });
    path.run(5, 2e6, 0);
    let before = path.control.target_rate();
    path.run(5, 2e6, 0);
    let growth = path.control.target_rate() / before;
    assert!((1.4..1.55).contains(&growth), "{growth} is not 1.08^5, which is 1.47");
    assert!(path.probed.is_empty());
}

#[test]
fn the_rate_uses_most_of_the_link_with_a_short_queue() {
    let mut path = Path::new(&Config::default());
    path.run(20, 1e6, 0);
    let mean = path.run(60, 1e6, 0);
    assert!((0.75e6..1.05e6).contains(&mean), "{mean}");
    assert!(path.queue() < 0.2, "{}", path.queue());
}

#[test]
fn the_rate_follows_a_slower_link_within_two_seconds_and_drains_the_queue() {
    let mut path = Path::new(&Config::default());
    path.run(30, 2.5e6, 0);
    path.run(2, 0.6e6, 0);
    assert!(path.control.target_rate() < 0.6e6, "{}", path.control.target_rate());
    path.run(3, 0.6e6, 0);
    assert!(path.queue() < 0.1, "{}", path.queue());
    let mean = path.run(20, 0.6e6, 0);
    assert!((0.4e6..0.63e6).contains(&mean), "{mean}");
}

#[test]
fn random_loss_of_five_per_cent_holds_the_rate_and_of_twenty_per_cent_lowers_the_rate() {
    let start_rate = Rate::from_bps(2_000_000);
    let mut path = Path::new(&Config { start_rate, probing: false, ..Config::default() });
    path.run(10, 5e6, 20);
    let before = path.control.target_rate();
    path.run(10, 5e6, 20);
    assert!((path.control.target_rate() / before - 1.0).abs() < 0.02, "{before}");
    path.run(5, 5e6, 5);
    assert!(path.control.target_rate() < 0.75 * before, "{}", path.control.target_rate());
}

#[test]
fn the_rule_of_libwebrtc_takes_five_per_cent_of_loss_as_inherent_and_limits_the_rate_at_twenty_per_cent() {
    let start_rate = Rate::from_bps(1_000_000);
    let loss_rule = LossRule::Libwebrtc;
    let mut path = Path::new(&Config { start_rate, loss_rule, probing: false, ..Config::default() });
    path.run(5, 5e6, 20);
    let before = path.control.target_rate();
    path.run(10, 5e6, 20);
    assert!(path.control.target_rate() > 1.5 * before, "{} and {before}", path.control.target_rate());
    path.run(10, 5e6, 5);
    // The limit is 75 kb/s / (0.2 - 0.05).
    assert!(path.control.target_rate() < 600e3, "{}", path.control.target_rate());
}

#[test]
fn invalid_parameters_are_rejected() {
    let path = |config: Config| config.build(media(1000)).err().unwrap().path;
    assert_eq!(path(Config { min_rate: Rate::from_bps(0), ..Config::default() }), "min_rate");
    assert_eq!(path(Config { start_rate: Rate::from_bps(1000), ..Config::default() }), "start_rate");
    assert_eq!(path(Config { start_rate: Rate::from_bps(40_000_000), ..Config::default() }), "start_rate");
    assert_eq!(path(Config { pacing_factor: 0.9, ..Config::default() }), "pacing_factor");
}

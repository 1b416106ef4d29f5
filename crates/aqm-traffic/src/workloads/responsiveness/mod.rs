//! Responsiveness: a test that loads a line with more and more connections and measures how long requests take
//! meanwhile. The results are round trips per minute (RPM).
//!
//! Source: C. Paasch, R. Meyer, S. Cheshire, W. Hawkins, "Responsiveness under Working Conditions",
//! draft-ietf-ippm-responsiveness-09, 2025 ("the draft"). Before the load, successive requests measure the idle line, as
//! in Cloudflare's `cf-mach` 0.4.0. Echoes are not part of the draft: they show the delay and the loss that datagrams
//! experience, like IRTT.
//!
//! The client is the receiver of the workload's data. Every probe is recorded ([`ProbeRecord`]); the scores are computed
//! from the record.
//!
//! aqmlab's choices, where the draft is silent: foreign and self probes alternate, and with `probing = "rate"`, there are
//! no probes in the first interval, because the capacity is still unknown. The capacity is the largest goodput of an interval. A result counts
//! probes that began in the last intervals and are complete. A load-generating connection that TCP gives up on is
//! replaced in the next interval, as by `cf-mach`; the draft aborts the test. When a phase ends, all of its connections
//! end at once, without RST segments. By default, the hosts have no send buffers between HTTP and TCP, as if
//! `TCP_NOTSENT_LOWAT` were very small (draft, section 6.1.1).

mod echoes;
mod running;
mod stability;
#[cfg(test)]
mod tests;

use aqm_net::{ConfigError, Size, Span, choices, parameters};

use self::running::Responsiveness;
use crate::description::{Application, LineTest};
use crate::http::{CLIENT_HELLO, Priority, SERVER_FLIGHT, TransportNeed, Version};
use crate::parameters::{check_datagrams, check_link_header, check_request, check_transfers};
use crate::probe_record::Phase;
use crate::{Build, BuildContext, Exchange, Workload};

choices! {
    /// Directions in which a test loads the line.
    pub enum Directions {
        /// To the client and then from the client.
        Both = "both",
        /// To the client.
        Download = "download",
        /// From the client.
        Upload = "upload",
    }
}

choices! {
    /// Times at which a test sends probes while it loads the line.
    pub enum Probing {
        /// At a rate: foreign and self probes alternate, also while earlier probes are in progress (draft, section 5.3).
        Rate = "rate",
        /// One probe at a time: when a probe is complete, a probe of the other kind begins, as in cf-mach 0.4.0. The
        /// first probe begins with the load. `probes_per_second` and `probe_share` have no effect.
        Sequential = "sequential",
    }
}

impl Directions {
    /// Returns the phases with load, in order.
    fn phases(self) -> &'static [Phase] {
        match self {
            Self::Both => &[Phase::Download, Phase::Upload],
            Self::Download => &[Phase::Download],
            Self::Upload => &[Phase::Upload],
        }
    }
}

parameters! {
    /// Responsiveness: a speed test that measures requests on a loaded line (RPM).
    pub struct Config {
        /// Directions in which the test loads the line, one after the other.
        pub directions: Directions = Directions::Both, "draft, section 5.1.2: sequential tests";
        /// Start of the test.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Number of requests that measure the idle line, one after the other, each on a new connection.
        pub idle_probes: u32 = 20, "cf-mach 0.4.0, `src/rpm.rs`";
        /// Interval at which the test adds connections and checks whether the results are stable (`ID`).
        pub interval: Span = Span::from_millis(5000), "draft, section 5.2";
        /// Number of intervals of a moving average (`MAD`).
        pub moving_average: u32 = 4, "draft, section 5.2";
        /// Share of the samples that the trimmed means keep (`TMP`).
        pub trim: f64 = 0.95, "draft, section 5.2";
        /// Largest standard deviation of stable averages, as a share of the last average (`SDT`).
        pub tolerance: f64 = 0.05, "draft, section 5.2";
        /// Number of load-generating connections in the first interval (`INP`).
        pub initial_connections: u32 = 1, "draft, section 5.2";
        /// Number of connections that each further interval adds (`INC`).
        pub added_connections: u32 = 1, "draft, section 5.2";
        /// Maximum number of load-generating connections (`MNP`).
        pub max_connections: u32 = 16, "draft, section 5.2";
        /// Times at which probes are sent. With `sequential`, more probes begin while the delay is short, so that the
        /// score is higher on a line whose delay varies.
        pub probing: Probing = Probing::Rate, "draft, section 5.3";
        /// Maximum number of probes per second, half of which are foreign probes (`MPS`).
        pub probes_per_second: f64 = 100.0, "draft, section 5.2";
        /// Share of the capacity that the probes may use (`PTC`). A foreign probe counts as 5000 B, and a self probe as
        /// 1000 B (draft, section 5.3).
        pub probe_share: f64 = 0.05, "draft, section 5.2";
        /// Time after which a direction ends even if the results are not stable.
        pub limit: Span = Span::from_millis(100_000), "aqmlab's choice: twenty intervals";
        /// Version of HTTP, `1.1` or `2`. With HTTP/1.1, which cannot send requests on a busy connection, a self probe
        /// is the smoothed round-trip time of the TCP that sends the load (draft, section 5.3).
        pub http: Version = Version::Two, "draft, section 5.4";
        /// Whether connections use TLS 1.3.
        pub tls: bool = true, "draft, section 5.1.4";
        /// Size of the request of a probe.
        pub request: Size = Size::from_bytes(100), "aqmlab's choice: the headers";
        /// Size of the response to a probe.
        pub response: Size = Size::from_bytes(100), "aqmlab's choice: headers and 1 B (draft, section 5.3)";
        /// Size of the client's first TLS message. The message has about 1500 B if the client offers a post-quantum key
        /// exchange.
        pub client_hello: Size = Size::from_bytes(CLIENT_HELLO), "RFC 7685: 512 B with padding, and the header of the record";
        /// Size of the server's TLS messages, which contain the certificates.
        pub server_flight: Size = Size::from_bytes(SERVER_FLIGHT), "aqmlab's choice: a chain of two certificates with ECDSA keys";
        /// Whether the client uses Nagle's algorithm (RFC 9293, section 3.7.4), as cf-mach 0.4.0 does. The first request
        /// on a new connection then waits until the client's last TLS message is acknowledged.
        pub nagle: bool = false, "draft, section 5.3: the request follows the handshake";
        /// Size of the HTTP/2 frames of an upload. A self probe waits until the client has sent the frame in progress;
        /// 1 B if the probe waits only for the packet in progress. Clients that do not limit frames send 16,384 B
        /// (RFC 9113, section 4.2).
        pub upload_frame: Size = Size::from_bytes(1), "draft, section 6.1.1: no queueing in hosts";
        /// Number of bytes that the hosts pass from HTTP to TCP before TCP can send them, as `TCP_NOTSENT_LOWAT` allows. A
        /// self probe waits behind these bytes.
        pub send_buffer: Size = Size::from_bytes(0), "draft, section 6.1.1: no queueing in hosts";
        /// Interval between echoes; no echoes if the interval is zero. An echo is a datagram of 100 B that the server
        /// returns.
        pub echo_every: Span = Span::from_millis(100), "aqmlab's choice";
    }
}

/// Maximum number of connections and of probes per second. A larger number is assumed to be a typing error.
const MAX_CONNECTIONS: u32 = 10_000;
const MAX_PROBES: f64 = 100_000.0;
/// Maximum size of the hosts' send buffers: the default limit of Linux's send buffers (`net.ipv4.tcp_wmem`).
const MAX_SEND_BUFFER: Size = Size::from_bytes(4_194_304);

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let http2 = match self.http {
            Version::Two => true,
            Version::One => false,
            Version::Three => return Err(ConfigError::at("http", "must be \"1.1\" or \"2\" (got \"3\")")),
        };
        let problem = format_args!("must be greater than zero (got {})", self.interval);
        ConfigError::unless(!self.interval.is_zero(), "interval", problem)?;
        let problem =
            format_args!("must be at least `interval`, which is {} (got {})", self.interval, self.limit);
        ConfigError::unless(self.limit >= self.interval, "limit", problem)?;
        let problem = format_args!("must be between 1 and 1000 (got {})", self.moving_average);
        ConfigError::unless((1..=1000).contains(&self.moving_average), "moving_average", problem)?;
        for (path, share) in [("trim", self.trim), ("probe_share", self.probe_share)] {
            let problem = format_args!("must be above 0 and at most 1 (got {share})");
            ConfigError::unless(share > 0.0 && share <= 1.0, path, problem)?;
        }
        let problem = format_args!("must be above 0 (got {})", self.tolerance);
        ConfigError::unless(self.tolerance > 0.0, "tolerance", problem)?;
        let problem = format_args!("must be between 1 and {MAX_CONNECTIONS} (got {})", self.max_connections);
        ConfigError::unless(
            (1..=MAX_CONNECTIONS).contains(&self.max_connections),
            "max_connections",
            problem,
        )?;
        let problem = format_args!(
            "must be between 1 and `max_connections`, which is {} (got {})",
            self.max_connections, self.initial_connections
        );
        let within = (1..=self.max_connections).contains(&self.initial_connections);
        ConfigError::unless(within, "initial_connections", problem)?;
        let problem =
            format_args!("must be above 0 and at most {MAX_PROBES} (got {})", self.probes_per_second);
        let within = self.probes_per_second > 0.0 && self.probes_per_second <= MAX_PROBES;
        ConfigError::unless(within, "probes_per_second", problem)?;
        let sizes = [
            ("request", self.request),
            ("response", self.response),
            ("client_hello", self.client_hello),
            ("server_flight", self.server_flight),
            ("upload_frame", self.upload_frame),
        ];
        for (path, size) in sizes {
            check_request(Some(size)).map_err(|error| ConfigError::at(path, error.problem))?;
        }
        let seconds = context.duration.seconds();
        check_transfers(2.0 * seconds * self.probes_per_second, "probes_per_second", "reduce the number")?;
        check_transfers(f64::from(self.idle_probes), "idle_probes", "reduce the number")?;
        if !self.echo_every.is_zero() {
            check_datagrams(2.0 * seconds / self.echo_every.seconds(), "echo_every")?;
            check_link_header(echoes::BYTES, "echo_every", context)?;
        }
        let handshake =
            self.tls.then(|| Exchange::immediate(self.client_hello.bytes(), self.server_flight.bytes()));
        let problem = "is a property of the request after a TLS handshake: set `tls` to true";
        ConfigError::unless(self.tls || !self.nagle, "nagle", problem)?;
        let problem = "HTTP/1.1 has no frames: set `http` to \"2\"";
        ConfigError::unless(http2 || self.upload_frame.bytes() == 1, "upload_frame", problem)?;
        let problem = "delays streams, which HTTP/1.1 does not have: set `http` to \"2\"";
        ConfigError::unless(http2 || self.send_buffer.bytes() == 0, "send_buffer", problem)?;
        let problem = format_args!("must be at most {MAX_SEND_BUFFER} (got {})", self.send_buffer);
        ConfigError::unless(self.send_buffer <= MAX_SEND_BUFFER, "send_buffer", problem)?;
        let streams = http2.then_some(Priority::RoundRobin);
        Ok(Box::new(Responsiveness::new(self.clone(), streams, handshake, context)))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn observes_datagrams(&self) -> bool {
        true
    }

    fn application(&self) -> Option<Application> {
        Some(Application::Responsiveness(LineTest {
            directions: self.directions.phases().iter().map(|&phase| Phase::NAMES[phase as usize]).collect(),
            has_idle: self.idle_probes > 0,
            has_echoes: !self.echo_every.is_zero(),
            tls: self.tls,
            window_s: self.interval.saturating_mul(self.moving_average.into()).seconds(),
            intervals: self.moving_average,
            trim: self.trim,
        }))
    }

    fn transport(&self) -> Option<TransportNeed> {
        Some(TransportNeed::Bytes)
    }

    fn simulated_only(&self) -> Option<&'static str> {
        Some("live runs do not support clients that choose their requests during the run: run a test program")
    }
}

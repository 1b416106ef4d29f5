//! PackMime-HTTP: the Web traffic of many users, modelled as a sequence of connections over one link. Each connection
//! has its own request, response and delays.
//!
//! Sources: J. Cao, W. S. Cleveland, Y. Gao, K. Jeffay, F. D. Smith & M. Weigle, "Stochastic Models for Generating
//! Synthetic HTTP Source Traffic", INFOCOM 2004, and the implementation in ns-2 (ns-2 manual, chapter "PackMime-HTTP"),
//! which contains the model's fits to Bell Labs traces. Gaps, request sizes and round-trip times have long memory
//! ([`fractional`]). Small response sizes and large response sizes occur in separate runs. All distributions depend on
//! the rate of new connections. The traffic does not depend on the network, so the workload is an open loop.
//!
//! The fits use logits to base 2, as in ns-2; natural logits do not reproduce the gaps and runs that ns-2 generates.
//!
//! aqmlab's choices, where the source is silent:
//! - aqmlab uses only some of the points of each fit. The resulting sizes and times are within 1.5 % of those that the
//!   full tables yield.
//! - aqmlab draws the gap before the first connection in the same way as all other gaps.
//! - aqmlab reduces sizes above `maximum` to the maximum.
//! - aqmlab delays all packets of a connection. In ns-2, a delay box removes a connection when its first FIN arrives,
//!   so that later packets are not delayed.

mod fourier;
mod fractional;
mod persistent;
mod tables;

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, choices, parameters};

use crate::distributions::{self, Distribution as _, Sizes, Times, Weibull};
use crate::parameters::{Period, check_transfers};
use crate::wire::Wire;
use crate::{Build, BuildContext, Conversation, Exchange, TrafficContext, Workload};
use fractional::{Memory, SumDifference};
use persistent::Persistent;
use tables::{CLIENT_TIMES, DOWNLOADS, LARGE_REQUESTS, SERVER_TIMES, SHORT_RESPONSES, SMALL_REQUESTS};

choices! {
    /// Version of HTTP, which determines the number of exchanges per connection.
    pub enum Http {
        /// Each connection carries one request and one response.
        OneZero = "1.0",
        /// Some connections are persistent and carry the objects of one or more pages, one object after another.
        OneOne = "1.1",
    }
}

choices! {
    /// Scope of the random effects that determine the gaps on persistent connections.
    pub enum GapEffects {
        /// The effects are drawn for each connection, as in the model.
        Connection = "connection",
        /// The effects are drawn once for the whole workload, as in ns-2.
        Workload = "workload",
    }
}

parameters! {
    /// PackMime-HTTP: the Web traffic of many users, modelled as connections with requests, responses and delays.
    pub struct Config {
        /// Number of new connections per second. All distributions of the model depend on this number.
        pub connections_per_second: f64 = 100.0, "aqmlab's choice";
        /// Version of HTTP, which determines the number of exchanges per connection.
        pub http: Http = Http::OneZero, "ns-2, PackMimeHTTP: `http_1_1_` off";
        /// Scope of the random effects that determine the gaps on persistent connections.
        pub gap_effects: GapEffects = GapEffects::Connection, "Cao et al. 2004";
        /// Sizes of requests; by default, the model's sizes, which have long memory.
        pub request_sizes: Option<distributions::Config> = None, "Cao et al. 2004";
        /// Sizes of responses; by default, the model's sizes, which occur in runs of short responses and runs of
        /// downloads.
        pub response_sizes: Option<distributions::Config> = None, "Cao et al. 2004";
        /// Delay between the arrival of the complete request at the server and the start of the response; by default,
        /// the delay that the model specifies.
        pub server_delay: Option<distributions::Config> = None, "Cao et al. 2004";
        /// Maximum size of a request or a response. Larger sizes are reduced to this maximum. The default is the last
        /// size in the table of downloads. Without a maximum, sizes beyond the last size in the table would follow an
        /// unbounded Pareto tail with index 1.23.
        pub maximum: Size = Size::from_bytes(61_603_116), "aqmlab's choice: the last knot of the fit";
        /// Start of the gap before the first connection.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no connection begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
    }
}

/// Range of connection rates for which the model's distributions retain their shape.
const RATES: [f64; 2] = [0.1, 100_000.0];

/// Size of a response, in bytes. If the first response on a persistent connection is larger than this size, the sizes
/// of the later responses are drawn separately.
const LARGE_RESPONSE: u64 = 275;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let (rate, [least, most]) = (self.connections_per_second, RATES);
        if !(least..=most).contains(&rate) {
            let problem = format!("must be between {least} and {most} (got {rate})");
            return Err(ConfigError::at("connections_per_second", problem));
        }
        if self.maximum.bytes() == 0 {
            return Err(ConfigError::at("maximum", "must be at least 1B"));
        }
        let period = Period::new(self.start, self.stop, context.duration)?;
        check_transfers(rate * period.seconds(), "connections_per_second", "lower it")?;
        let stream = |purpose| context.streams.named(&format!("{}/{purpose}", context.name), 0);
        let model = RateModel::new(rate);
        let sizes = |config: &Option<distributions::Config>, path: &str| {
            let build = |config: &distributions::Config| config.sizes(Some(context.packetisation));
            config.as_ref().map(build).transpose().map_err(|error| error.within(path))
        };
        let server_delay = self.server_delay.as_ref().map(distributions::Config::times).transpose();
        let gap_effects = self.gap_effects;
        let persists = || Persistent::new(gap_effects, [stream("persistent"), stream("gaps")]);
        Ok(Box::new(PackMime {
            arrivals: SumDifference::new(
                Memory { d: 0.33, lags: 1000 },
                model.arrivals,
                [stream("arrivals"), stream("arrivals/white")],
            ),
            gap: model.gap,
            requests: SumDifference::new(
                Memory { d: 0.31, lags: 5000 },
                model.requests,
                [stream("requests"), stream("requests/white")],
            ),
            client_times: SumDifference::new(
                Memory { d: 0.31, lags: 1000 },
                model.client_times,
                [stream("client-times"), stream("client-times/white")],
            ),
            server_times: SumDifference::new(
                Memory { d: 0.32, lags: 1000 },
                model.server_times,
                [stream("server-times"), stream("server-times/white")],
            ),
            responses: Responses::new(model.runs, [stream("runs"), stream("responses")]),
            request_sizes: sizes(&self.request_sizes, "request_sizes")?,
            request_rng: stream("request-sizes"),
            response_sizes: sizes(&self.response_sizes, "response_sizes")?,
            response_rng: stream("response-sizes"),
            server_delay: server_delay.map_err(|error| error.within("server_delay"))?,
            server_delay_rng: stream("server-delays"),
            persistent: (self.http == Http::OneOne).then(persists),
            maximum: self.maximum.bytes(),
            connections_per_second: rate,
            wire: Wire::of(context.packetisation),
            rate: context.rate,
            period,
            next: period.start,
            offered: Offered::default(),
        }))
    }

    fn own_hosts(&self) -> bool {
        false
    }

    fn connection_rate(&self) -> Option<&'static str> {
        Some("connections_per_second")
    }
}

/// The parts of the model that depend on the rate of new connections.
struct RateModel {
    /// Fractions of white noise in the sum-difference processes of gaps, request sizes, and the two parts of the
    /// round-trip time.
    arrivals: f64,
    requests: f64,
    client_times: f64,
    server_times: f64,
    /// Gaps between connections, in seconds.
    gap: Weibull,
    /// Lengths of the runs of short responses and of downloads.
    runs: [Weibull; 2],
}

impl RateModel {
    fn new(rate: f64) -> Self {
        let share = |constant: f64, slope: f64| logistic(constant + slope * libm::log2(rate));
        let shape = share(0.352, 0.388);
        Self {
            arrivals: share(0.333, 0.414),
            requests: share(0.123, 0.494),
            client_times: share(-0.445, 0.554),
            server_times: share(-0.053, 0.396),
            // With this scale, the mean gap is the inverse of the rate.
            gap: Weibull { shape, scale: 1.0 / (rate * libm::tgamma(1.0 + 1.0 / shape)) },
            runs: [
                Weibull { shape: share(0.718, 0.357), scale: 0.775 },
                Weibull { shape: share(1.293, 0.316), scale: 3.11 },
            ],
        }
    }
}

/// Returns the inverse of the logit to base 2, which the fits use.
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp2(-x))
}

/// The running workload.
#[derive(Clone)]
struct PackMime {
    connections_per_second: f64,
    arrivals: SumDifference,
    gap: Weibull,
    requests: SumDifference,
    client_times: SumDifference,
    server_times: SumDifference,
    responses: Responses,
    /// Distributions that replace those of the model.
    request_sizes: Option<Sizes>,
    request_rng: Rng,
    response_sizes: Option<Sizes>,
    response_rng: Rng,
    server_delay: Option<Times>,
    server_delay_rng: Rng,
    /// State of the persistent connections, which exist only with HTTP/1.1.
    persistent: Option<Persistent>,
    maximum: u64,
    wire: Wire,
    rate: Rate,
    period: Period,
    /// Start of the next connection.
    next: Instant,
    offered: Offered,
}

/// Totals of the connections, exchanges and bytes that have been offered so far.
#[derive(Clone, Default)]
struct Offered {
    connections: u64,
    exchanges: u64,
    request_bytes: u64,
    response_bytes: u64,
    wire_bytes: u64,
}

impl Workload for PackMime {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let conversation = self.conversation();
        self.offered.connections += 1;
        for exchange in std::iter::once(&conversation.first).chain(&conversation.rest) {
            self.offered.exchanges += 1;
            self.offered.request_bytes += exchange.request;
            self.offered.response_bytes += exchange.response;
            self.offered.wire_bytes += self.wire.bytes(exchange.response);
        }
        cx.converse(conversation);
        self.sleep(cx);
    }

    /// Passes facts about the workload to `show`. The realised values cover the whole period and are therefore complete
    /// only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let Offered { connections, exchanges, request_bytes, response_bytes, wire_bytes } = self.offered;
        let mean = |bytes: u64| if exchanges == 0 { 0.0 } else { bytes as f64 / exchanges as f64 };
        show("nominal_connections_per_second", self.connections_per_second);
        show("connections", connections as f64);
        show("exchanges", exchanges as f64);
        show("mean_request_bytes", mean(request_bytes));
        show("mean_response_bytes", mean(response_bytes));
        show("realised_load", self.period.load(wire_bytes, self.rate));
    }
}

impl PackMime {
    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        let gap = self.gap.exceeded_with(self.arrivals.exceeded());
        self.next += nanos(gap * 1e9);
        if self.next < self.period.end {
            cx.wake_at(self.next);
        }
    }

    fn conversation(&mut self) -> Conversation {
        let request = match &self.request_sizes {
            Some(sizes) => sizes.sample(&mut self.request_rng) as f64,
            None => request(self.requests.exceeded()),
        };
        let response = match &self.response_sizes {
            Some(sizes) => sizes.sample(&mut self.response_rng) as f64,
            None => self.responses.sample(),
        };
        let immediate = Exchange::immediate(whole(request, self.maximum), whole(response, self.maximum));
        let first = Exchange { think: self.server_delay(), ..immediate };
        Conversation {
            rest: self.following(first),
            client_delay: one_way(client_time(self.client_times.exceeded())),
            server_delay: one_way(server_time(self.server_times.exceeded())),
            ..Conversation::single(first)
        }
    }

    /// Returns the exchanges that follow the first exchange if the connection is persistent.
    fn following(&mut self, first: Exchange) -> Vec<Exchange> {
        let Some(persistent) = &mut self.persistent else { return Vec::new() };
        let Some(pauses) = persistent.pauses() else { return Vec::new() };
        let effects = (first.response > LARGE_RESPONSE).then(|| persistent.size_effects());
        let mut exchanges = Vec::with_capacity(pauses.len());
        for pause in pauses {
            let response = match (&self.response_sizes, effects, &mut self.persistent) {
                (Some(sizes), ..) => whole(sizes.sample(&mut self.response_rng) as f64, self.maximum),
                (None, Some(effects), Some(persistent)) => whole(persistent.size(effects), self.maximum),
                _ => first.response,
            };
            let think = self.server_delay();
            exchanges.push(Exchange { pause, think, response, ..first });
        }
        exchanges
    }

    fn server_delay(&mut self) -> Span {
        match &self.server_delay {
            Some(times) => times.sample_span(&mut self.server_delay_rng),
            None => server_delay(&mut self.server_delay_rng),
        }
    }
}

/// Converts a size to whole bytes.
fn whole(bytes: f64, maximum: u64) -> u64 {
    (bytes as u64).clamp(1, maximum)
}

/// Rounds a time to nanoseconds.
fn nanos(nanos: f64) -> Span {
    Span::from_nanos((nanos + 0.5) as u64)
}

/// Returns the request size in bytes that is exceeded with probability `p`.
fn request(p: f64) -> f64 {
    if p >= 0.5 {
        SMALL_REQUESTS.at((1.0 - p) / 0.5)
    } else {
        libm::exp2(LARGE_REQUESTS.at(libm::log2(p / 0.5)))
    }
}

/// Returns the client's part of the round-trip time, in milliseconds, that is exceeded with probability `p`.
fn client_time(p: f64) -> f64 {
    let root = CLIENT_TIMES.at(-libm::log10(p));
    let square = root * root;
    square * square * root
}

/// Returns the server's part of the round-trip time, in milliseconds, that is exceeded with probability `p`.
fn server_time(p: f64) -> f64 {
    let root = SERVER_TIMES.at(-libm::log10(p));
    root * root * root
}

/// Returns half of the given part of the round-trip time, which is in milliseconds.
fn one_way(millis: f64) -> Span {
    nanos(millis * 0.5e6)
}

/// Draws the server's delay, which is at most 0.1 s.
fn server_delay(rng: &mut Rng) -> Span {
    let answers_per_second = Weibull { shape: 0.63, scale: 305.0 }.sample(rng).max(10.0);
    nanos(1e9 / answers_per_second)
}

/// Response sizes. Runs of short responses, which confirm that the client's cached copy is valid, alternate with runs
/// of downloads. The first run consists of downloads.
#[derive(Clone)]
struct Responses {
    runs: [Weibull; 2],
    state: usize,
    /// Number of responses that remain in the current run.
    left: f64,
    run_lengths: Rng,
    sizes: Rng,
}

const SHORT: usize = 0;
const DOWNLOAD: usize = 1;

impl Responses {
    fn new(runs: [Weibull; 2], [run_lengths, sizes]: [Rng; 2]) -> Self {
        // Initially, an empty run of short responses has just ended, so that a run of downloads follows.
        Self { runs, state: SHORT, left: 0.0, run_lengths, sizes }
    }

    /// Returns the size of the next response, in bytes.
    fn sample(&mut self) -> f64 {
        if self.left < 1.0 {
            self.state = SHORT + DOWNLOAD - self.state;
            self.left = libm::ceil(self.runs[self.state].sample(&mut self.run_lengths)).max(1.0);
        }
        self.left -= 1.0;
        match self.state {
            DOWNLOAD => download(self.sizes.uniform_positive()),
            _ => SHORT_RESPONSES.at(self.sizes.uniform()),
        }
    }
}

/// Returns the download size in bytes that is exceeded with probability `p`.
fn download(p: f64) -> f64 {
    libm::exp2(DOWNLOADS.at(libm::log2(p)))
}

#[cfg(test)]
mod tests;

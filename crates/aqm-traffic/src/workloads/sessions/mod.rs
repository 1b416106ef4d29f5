//! Web users. Each user browses continuously, with a think time between pages. A user fetches the objects of a page one
//! after another, with gaps between the starts of the objects. Each object has its own connection (HTTP/1.0).
//!
//! Sources: A. Feldmann, A. C. Gilbert, P. Huang & W. Willinger, "Dynamics of IP Traffic: A Study of the Role of
//! Variability and the Impact of Control", SIGCOMM 1999, and the implementation of its model in ns-2
//! (webcache/webtraf.cc). In ns-2, the first object of a page begins when the page begins. The think time between two
//! pages starts when the first of the two pages begins or, as an option since November 2001, when the last object of
//! this page ends. The numbers are from L. Guo & I. Matta, "The War Between Mice and Elephants", 2001.
//!
//! aqmlab's choices, where the source is silent: all users start when the run starts, and each user's first page begins
//! after a think time. The pages, sizes, gaps and think times of a user, and their order, depend neither on the network
//! nor on the number of users. In the closed loop, if TCP gives up on the transfer of an object, the object is
//! considered complete once its connection has been removed.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, choices, parameters};

use crate::distributions::{
    self, Amount, Counts, Sizes, Times, bounded_pareto, discrete_uniform, exponential,
};
use crate::fetching::{self, Fetching};
use crate::http::{Http, TransportNeed};
use crate::parameters::{Period, check_load, check_request, check_transfers, request_bytes};
use crate::schedule::Schedule;
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

choices! {
    /// Event that starts a user's think time before the next page.
    pub enum ThinkFrom {
        /// The start of the page, regardless of the page's transfers. The traffic is an open loop, as in ns-2 before
        /// November 2001.
        PageStart = "page-start",
        /// The end of the page's last object. The traffic is a closed loop.
        PageEnd = "page-end",
    }
}

parameters! {
    /// Web users who browse continuously: pages of several objects, with think times between the pages.
    pub struct Config {
        /// Number of users. Set either `users` or `load`.
        pub users: Option<u32> = None, "no default: either `users` or `load` is required";
        /// Offered load as a fraction of the bottleneck's rate. The load determines the number of users. The load
        /// counts the bytes that transfers need on the wire without retransmissions. Set either `load` or `users`. With
        /// `think_from = "page-end"`, users also wait for their objects, so the actual load is at most this value.
        pub load: Option<f64> = None, "no default: either `users` or `load` is required";
        /// Think times.
        pub think_time: distributions::Config = exponential(9500), "aqmlab's choice: the talk does not specify think times";
        /// Event that starts the think time.
        pub think_from: ThinkFrom = ThinkFrom::PageStart, "ns-2 before November 2001";
        /// Number of objects per page.
        pub objects: distributions::Config = web_objects(), "Guo & Matta talk, Web model";
        /// Gaps between the starts of a page's objects.
        pub object_gap: distributions::Config = exponential(50), "aqmlab's choice: the talk does not specify the gaps";
        /// Sizes of the objects.
        pub sizes: distributions::Config = web_sizes(), "Guo & Matta talk, Web model; the unit is aqmlab's choice";
        /// Size of the request that the client sends for each object. The response is sent over the same connection.
        /// Without a request, the server opens the connection and sends the object.
        pub request: Option<Size> = None, "aqmlab's choice: responses only";
        /// Number of persistent connections over which a client fetches the objects of a page. Each connection fetches
        /// the next object when its previous object is complete (HTTP/1.1). All objects are known when the page begins,
        /// so `object_gap` must be zero. By default, each object has its own connection. The load is always computed as
        /// if each object had its own connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub connections: Option<u32> = None, "Feldmann et al. 1999: HTTP/1.0; RFC 7928, section 7.2: 6";
        /// Version of HTTP, and the properties of its connections.
        #[serde(flatten)]
        pub http: Http = Http::default();
        /// Number of hosts on each side. Each host has its own access link, and users are assigned to hosts in turn.
        pub hosts: u32 = 1, "aqmlab's choice";
        /// Time at which the first think time of each user starts.
        pub start: Span = Span::ZERO, "aqmlab's choice";
        /// Time after which no page begins; by default, the end of the run.
        pub stop: Option<Span> = None, "aqmlab's choice";
    }
}

/// Returns exponentially distributed times with this mean.
fn exponential(millis: u64) -> distributions::Config {
    distributions::Config::exponential(exponential::Config::of(Amount::millis(millis)))
}

/// Number of objects per page.
fn web_objects() -> distributions::Config {
    distributions::Config::discrete_uniform(discrete_uniform::Config::of(2, 7))
}

/// Returns the sizes of files. The unit is the packet: if these numbers were bytes, nearly every file would fit into
/// one packet. The mean is 21.2 packets, plus half a packet because sizes are rounded up.
fn web_sizes() -> distributions::Config {
    distributions::Config::bounded_pareto(bounded_pareto::Config {
        shape: 1.2,
        minimum: Some(Amount::Packets(4)),
        maximum: Some(Amount::Packets(200_000)),
    })
}

/// Maximum number of users. A larger number is assumed to be a typing error.
const MAX_USERS: u32 = 100_000;
/// Maximum number of objects per page. A larger number is assumed to be a typing error.
const MAX_OBJECTS: u64 = 10_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let objects = self.objects.counts(MAX_OBJECTS).map_err(|error| error.within("objects"))?;
        let think_time = self.think_time.times().map_err(|error| error.within("think_time"))?;
        ConfigError::unless(think_time.mean() > 0.0, "think_time", "must be greater than zero")?;
        let object_gap = self.object_gap.times().map_err(|error| error.within("object_gap"))?;
        let sizes = self.sizes.sizes(Some(context.packetisation)).map_err(|error| error.within("sizes"))?;
        check_request(self.request)?;
        let persistence = self.http.persistence(self.connections, self.request)?;
        let gapless = persistence.is_none() || object_gap.mean() == 0.0;
        let problem = "must be zero with persistent connections: use a constant of 0s";
        ConfigError::unless(gapless, "object_gap", problem)?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let wire = Wire::of(context.packetisation);
        let mean_objects = objects.mean();
        // Time from one page of a user to the next, in seconds, if transfers take no time.
        let cycle = match self.think_from {
            ThinkFrom::PageStart => think_time.mean() / 1e9,
            ThinkFrom::PageEnd => think_time.mean() / 1e9 + (mean_objects - 1.0) * (object_gap.mean() / 1e9),
        };
        let user = Pace {
            objects: mean_objects / cycle,
            load: mean_objects * wire.mean(&sizes) / (cycle * context.rate.bytes_per_second()),
        };
        let users = self.count(user.load)?;
        let problem = format_args!("must be between 1 and the number of users, {users} (got {})", self.hosts);
        ConfigError::unless((1..=users).contains(&self.hosts), "hosts", problem)?;
        let path = if self.users.is_some() { "users" } else { "load" };
        let expected = f64::from(users) * user.objects * period.seconds();
        check_transfers(expected, path, "reduce the value, or increase `think_time`")?;
        Ok(Box::new(Sessions {
            users: (0..users).map(|user| User::new(user, context)).collect(),
            schedule: Schedule::new(),
            under_way: BTreeMap::new(),
            fetching: Fetching::new(persistence, self.request),
            think_time,
            object_gap,
            objects,
            sizes,
            wire,
            rate: context.rate,
            nominal_load: f64::from(users) * user.load,
            period,
            offered: Offered::default(),
            config: self.clone(),
        }))
    }

    fn own_hosts(&self) -> bool {
        self.hosts > 1
    }

    fn hosts(&self) -> u64 {
        self.hosts.into()
    }

    fn fetches_pages(&self) -> bool {
        true
    }

    fn shares_connections(&self) -> bool {
        self.connections.is_some() || self.http.http.is_some()
    }

    fn transport(&self) -> Option<TransportNeed> {
        self.http.transport()
    }

    fn simulated_only(&self) -> Option<&'static str> {
        fetching::SIMULATED_ONLY.filter(|_| self.shares_connections())
    }
}

/// Maximum mean activity of one user, as a number of objects per second and as a load.
struct Pace {
    /// Number of objects per second.
    objects: f64,
    /// Load as a fraction of the bottleneck's rate.
    load: f64,
}

impl Config {
    /// Returns the number of users, if each user offers the load `each`.
    fn count(&self, each: f64) -> Result<u32, ConfigError> {
        match (self.users, self.load) {
            (Some(users), None) if (1..=MAX_USERS).contains(&users) => Ok(users),
            (Some(users), None) => {
                let problem = format!("must be between 1 and {MAX_USERS} (got {users})");
                Err(ConfigError::at("users", problem))
            }
            (None, Some(load)) => {
                check_load(load)?;
                let users = libm::round(load / each);
                if !(1.0..=f64::from(MAX_USERS)).contains(&users) {
                    let problem = format!(
                        "requires {users} users with a load of {each:.2e} each; the number must be between 1 and {MAX_USERS}"
                    );
                    return Err(ConfigError::at("load", problem));
                }
                Ok(users as u32)
            }
            (None, None) => Err(ConfigError::at("users", "is missing: set either `users` or `load`")),
            (Some(_), Some(_)) => Err(ConfigError::at("load", "set either `users` or `load`, not both")),
        }
    }
}

/// The running workload.
#[derive(Clone)]
struct Sessions {
    config: Config,
    users: Vec<User>,
    /// Pending events.
    schedule: Schedule<Event>,
    /// Incomplete pages of a closed loop, keyed by page number. For each page, the map contains the user and the number
    /// of incomplete objects.
    under_way: BTreeMap<u64, (u32, u32)>,
    /// Pages whose objects share connections; `None` if each object has its own connection.
    fetching: Option<Fetching>,
    think_time: Times,
    object_gap: Times,
    /// Number of objects per page.
    objects: Counts,
    sizes: Sizes,
    wire: Wire,
    rate: Rate,
    nominal_load: f64,
    period: Period,
    offered: Offered,
}

/// The random streams of a user.
#[derive(Clone)]
struct User {
    think: Rng,
    objects: Rng,
    gaps: Rng,
    sizes: Rng,
}

impl User {
    fn new(number: u32, context: &BuildContext<'_>) -> Self {
        let stream =
            |purpose| context.streams.named(&format!("{}/{purpose}", context.name), u64::from(number));
        Self {
            think: stream("think"),
            objects: stream("objects"),
            gaps: stream("gaps"),
            sizes: stream("sizes"),
        }
    }
}

/// The kinds of events.
#[derive(Clone, Copy)]
enum Event {
    /// The next page of a user begins.
    Page { user: u32 },
    /// An object of a page begins.
    Object { user: u32, page: u64, page_objects: u32, bytes: u64 },
}

/// Totals of the pages, objects and bytes that have been offered so far.
#[derive(Clone, Default)]
struct Offered {
    pages: u64,
    objects: u64,
    wire_bytes: u64,
}

impl Workload for Sessions {
    fn start(&mut self, cx: &mut dyn TrafficContext) {
        for user in 0..self.users.len() as u32 {
            self.think(user, self.period.start);
        }
        self.schedule.request_wake(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        while let Some((at, event)) = self.schedule.pop_due(now) {
            match event {
                Event::Page { user } => self.begin_page(user, at, cx),
                Event::Object { user, page, page_objects, bytes } => {
                    self.offered.objects += 1;
                    self.offered.wire_bytes += self.wire.bytes(bytes);
                    let request = self.config.request.map(request_bytes);
                    let host = user % self.config.hosts;
                    let bytes = Some(bytes);
                    cx.open(Transfer { bytes, request, page: Some(page), page_objects, host });
                }
            }
        }
        self.schedule.request_wake(cx);
    }

    fn on_done(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        self.complete_object(transfer, cx);
    }

    fn on_failed(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        self.complete_object(transfer, cx);
    }

    fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let complete = self.fetching.as_mut().and_then(|fetching| fetching.on_response(number, cx));
        self.complete_page(complete, cx);
    }

    fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let complete = self.fetching.as_mut().and_then(|fetching| fetching.on_connection_failed(number, cx));
        self.complete_page(complete, cx);
    }

    /// Passes facts about the workload to `show`. The realised load covers the whole period and is therefore complete
    /// only at the end of the run.
    fn facts(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("users", self.users.len() as f64);
        show("nominal_load", self.nominal_load);
        show("mean_object_bytes", self.sizes.mean());
        show("mean_object_wire_bytes", self.wire.mean(&self.sizes));
        show("pages", self.offered.pages as f64);
        show("objects", self.offered.objects as f64);
        show("realised_load", self.period.load(self.offered.wire_bytes, self.rate));
    }
}

impl Sessions {
    /// Removes a complete or failed object from its page in a closed loop. After the page's last object, the user's
    /// think time begins.
    fn complete_object(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        let Some(page) = transfer.page else { return };
        let Some((_, missing)) = self.under_way.get_mut(&page) else { return };
        *missing -= 1;
        if *missing == 0 {
            self.complete_page(Some(page), cx);
        }
    }

    /// Removes a complete page. In a closed loop, the user's next think time begins at this point.
    fn complete_page(&mut self, page: Option<u64>, cx: &mut dyn TrafficContext) {
        let Some((user, _)) = page.and_then(|page| self.under_way.remove(&page)) else { return };
        self.think(user, cx.now());
        self.schedule.request_wake(cx);
    }

    /// Starts a user's think time at `from`. After the think time, a page begins, unless the period is over.
    fn think(&mut self, user: u32, from: Instant) {
        let next = from + self.think_time.sample_span(&mut self.users[user as usize].think);
        if next < self.period.end {
            self.schedule.add(next, Event::Page { user });
        }
    }

    /// Draws the objects of a page. The first object begins immediately; if objects share connections, the number of
    /// objects that begin immediately is the number of connections.
    fn begin_page(&mut self, user: u32, now: Instant, cx: &mut dyn TrafficContext) {
        let page = self.offered.pages;
        self.offered.pages += 1;
        let page_objects = self.objects.sample(&mut self.users[user as usize].objects) as u32;
        let mut at = now;
        let mut sizes = VecDeque::new();
        for object in 0..page_objects {
            let random = &mut self.users[user as usize];
            if object > 0 {
                at += self.object_gap.sample_span(&mut random.gaps);
            }
            let bytes = self.sizes.sample(&mut random.sizes);
            if self.fetching.is_some() {
                self.offered.objects += 1;
                self.offered.wire_bytes += self.wire.bytes(bytes);
                sizes.push_back(bytes);
            } else {
                self.schedule.add(at, Event::Object { user, page, page_objects, bytes });
            }
        }
        if let Some(fetching) = &mut self.fetching {
            fetching.begin(page, sizes, user % self.config.hosts, cx);
        }
        match self.config.think_from {
            ThinkFrom::PageStart => self.think(user, now),
            ThinkFrom::PageEnd => {
                self.under_way.insert(page, (user, page_objects));
            }
        }
    }
}

#[cfg(test)]
mod tests;

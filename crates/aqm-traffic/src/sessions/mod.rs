//! Web users: each browses for ever, page after page with time to think between them, and fetches
//! the objects of a page one after another's start, each over a connection of its own (HTTP/1.0).
//!
//! A. Feldmann, A. C. Gilbert, P. Huang & W. Willinger, "Dynamics of IP Traffic: A Study of the Role
//! of Variability and the Impact of Control", SIGCOMM 1999; its form in ns-2 (webcache/webtraf.cc),
//! where the first object of a page begins with the page, and the time between two pages is counted
//! from start to start or, since November 2001 and by choice, from the end of the last object. The
//! numbers are those of L. Guo & I. Matta, "The War Between Mice and Elephants", 2001.
//!
//! Ours, where the source is silent: users browse from the start of the run, each after a first
//! time to think; a user keeps the pages, sizes, gaps and times to think it has, in their order,
//! whatever the network does and however many users there are. In the closed loop an object whose
//! transfer TCP gives up is over for its user when the connection is gone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use aqm_net::{ConfigError, Instant, Rate, Rng, Size, Span, choices, parameters};

use crate::distributions::{
    self, Amount, Counts, Sizes, Times, bounded_pareto, discrete_uniform, exponential,
};
use crate::fetching::{self, Fetching, check_connections};
use crate::parameters::{Period, check_load, check_request, check_transfers, request_bytes};
use crate::wire::Wire;
use crate::{Build, BuildContext, TrafficContext, Transfer, Workload};

choices! {
    /// From when on a user thinks before the next page.
    pub enum ThinkFrom {
        /// From the start of the page, whatever becomes of it: an open loop, ns-2's before November 2001.
        PageStart = "page-start",
        /// From the end of its last object: a closed loop.
        PageEnd = "page-end",
    }
}

parameters! {
    /// Web users who browse for ever: pages of some objects, and time to think between the pages.
    pub struct Config {
        /// How many users; give this or `load`.
        pub users: Option<u32> = None, "no default: this or `load` must be given";
        /// The offered load as a share of the bottleneck's rate, in bytes on the wire of first
        /// transmissions, from which the number of users follows; give this or `users`. With
        /// `think_from = "page-end"` users also wait for their objects, so that it is the most they can offer.
        pub load: Option<f64> = None, "no default: this or `users` must be given";
        /// The time a user thinks.
        pub think_time: distributions::Config = exponential(9500), "ours: the talk does not say";
        /// From when on a user thinks.
        pub think_from: ThinkFrom = ThinkFrom::PageStart, "ns-2 before November 2001";
        /// How many objects a page has.
        pub objects: distributions::Config = web_objects(), "Guo & Matta talk, Web model";
        /// From the start of an object to the start of the next one.
        pub object_gap: distributions::Config = exponential(50), "ours: the talk does not say";
        /// How large the objects are.
        pub sizes: distributions::Config = web_sizes(), "Guo & Matta talk, Web model; the unit is ours";
        /// What the client sends over the connection to ask for an object, which then comes back on it;
        /// left out: the server opens the connection and sends unasked.
        pub request: Option<Size> = None, "ours: responses only";
        /// Over how many persistent connections the objects of a page are fetched, each of which takes the next one when
        /// it has the one before (HTTP/1.1); all are then known when the page begins, so `object_gap` must be zero. Left
        /// out, each over a connection of its own. The load counts connections as if each object had its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub connections: Option<u32> = None, "Feldmann et al. 1999: HTTP/1.0; RFC 7928, section 7.2: 6";
        /// Hosts on each side, with access lines of their own, that the users are dealt out to in turn.
        pub hosts: u32 = 1, "ours";
        /// When the users begin to think before their first page.
        pub start: Span = Span::ZERO, "ours";
        /// From when on no page begins; left out, the end of the run.
        pub stop: Option<Span> = None, "ours";
    }
}

/// Exponential times with this mean.
fn exponential(millis: u64) -> distributions::Config {
    distributions::Config::exponential(exponential::Config::of(Amount::millis(millis)))
}

/// How many objects a page has.
fn web_objects() -> distributions::Config {
    distributions::Config::discrete_uniform(discrete_uniform::Config::of(2, 7))
}

/// The sizes of files. The unit is the packet, because as bytes these numbers leave every file in one packet:
/// 21.2 packets on average, and half a packet more where they are rounded up.
fn web_sizes() -> distributions::Config {
    distributions::Config::bounded_pareto(bounded_pareto::Config {
        shape: 1.2,
        minimum: Some(Amount::Packets(4)),
        maximum: Some(Amount::Packets(200_000)),
    })
}

/// More users than this are taken for a slip of the pen.
const MOST_USERS: u32 = 100_000;
/// More objects to a page than this are taken for one, too.
const MOST_OBJECTS: u64 = 10_000;

impl Build for Config {
    fn build(&self, context: &BuildContext<'_>) -> Result<Box<dyn Workload>, ConfigError> {
        let objects = self.objects.counts(MOST_OBJECTS).map_err(|error| error.within("objects"))?;
        let think_time = self.think_time.times().map_err(|error| error.within("think_time"))?;
        ConfigError::unless(think_time.mean() > 0.0, "think_time", "must be longer than zero")?;
        let object_gap = self.object_gap.times().map_err(|error| error.within("object_gap"))?;
        let sizes = self.sizes.sizes(Some(context.packetisation)).map_err(|error| error.within("sizes"))?;
        check_request(self.request)?;
        check_connections(self.connections, self.request)?;
        let gapless = self.connections.is_none() || object_gap.mean() == 0.0;
        ConfigError::unless(
            gapless,
            "object_gap",
            "must be zero with `connections`: write a constant of 0s",
        )?;
        let period = Period::new(self.start, self.stop, context.duration)?;
        let wire = Wire::of(context.packetisation);
        let mean_objects = objects.mean();
        // Seconds from a page of a user to the next one, if no object took any time.
        let cycle = match self.think_from {
            ThinkFrom::PageStart => think_time.mean() / 1e9,
            ThinkFrom::PageEnd => think_time.mean() / 1e9 + (mean_objects - 1.0) * (object_gap.mean() / 1e9),
        };
        let user = Pace {
            objects: mean_objects / cycle,
            load: mean_objects * wire.mean(&sizes) / (cycle * context.rate.bytes_per_second()),
        };
        let users = self.count(user.load)?;
        let problem = format_args!("must be between 1 and the number of users, {users}, is {}", self.hosts);
        ConfigError::unless((1..=users).contains(&self.hosts), "hosts", problem)?;
        let place = if self.users.is_some() { "users" } else { "load" };
        let expected = f64::from(users) * user.objects * period.seconds();
        check_transfers(expected, place, "lower it, or let users think longer")?;
        Ok(Box::new(Sessions {
            users: (0..users).map(|user| User::new(user, context)).collect(),
            schedule: BinaryHeap::new(),
            planned: 0,
            asked: Instant::NEVER,
            under_way: BTreeMap::new(),
            fetching: Fetching::new(self.connections, self.request),
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
        self.connections.is_some()
    }

    fn simulated_only(&self) -> Option<&'static str> {
        self.connections.and(fetching::SIMULATED_ONLY)
    }
}

/// What one user does at most, on average.
struct Pace {
    /// Objects in a second.
    objects: f64,
    /// Its share of the bottleneck's rate.
    load: f64,
}

impl Config {
    /// The number of users, each of whom offers the load `each`.
    fn count(&self, each: f64) -> Result<u32, ConfigError> {
        match (self.users, self.load) {
            (Some(users), None) if (1..=MOST_USERS).contains(&users) => Ok(users),
            (Some(users), None) => {
                let problem = format!("must be between 1 and {MOST_USERS}, is {users}");
                Err(ConfigError::at("users", problem))
            }
            (None, Some(load)) => {
                check_load(load)?;
                let users = libm::round(load / each);
                if !(1.0..=f64::from(MOST_USERS)).contains(&users) {
                    let problem = format!(
                        "makes {users} users of {each:.2e} each, must be between 1 and {MOST_USERS} users"
                    );
                    return Err(ConfigError::at("load", problem));
                }
                Ok(users as u32)
            }
            (None, None) => Err(ConfigError::at("users", "is missing: give either `users` or `load`")),
            (Some(_), Some(_)) => Err(ConfigError::at("load", "give either `users` or `load`, not both")),
        }
    }
}

/// The running workload.
#[derive(Clone)]
struct Sessions {
    config: Config,
    users: Vec<User>,
    /// What begins when, the earliest on top. Only for the earliest a wake-up is asked for.
    schedule: BinaryHeap<Reverse<Due>>,
    /// How many entries the schedule has had.
    planned: u64,
    /// The earliest wake-up that is asked for.
    asked: Instant,
    /// Of each page of a closed loop that is not over, by its number: whose it is, and how many
    /// objects are missing.
    under_way: BTreeMap<u64, (u32, u32)>,
    /// Pages whose objects share connections, if they do.
    fetching: Option<Fetching>,
    think_time: Times,
    object_gap: Times,
    /// Of a page.
    objects: Counts,
    sizes: Sizes,
    wire: Wire,
    rate: Rate,
    nominal_load: f64,
    period: Period,
    offered: Offered,
}

/// The randomness of a user.
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

/// What begins when; at equal moments what was planned first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    number: u64,
    what: What,
}

/// What can begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The next page of a user.
    Page { user: u32 },
    /// An object of a page that has begun.
    Object { user: u32, page: u64, page_objects: u32, bytes: u64 },
}

/// What was offered so far.
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
        self.sleep(cx);
    }

    fn on_wake(&mut self, cx: &mut dyn TrafficContext) {
        let now = cx.now();
        if self.asked <= now {
            self.asked = Instant::NEVER;
        }
        while let Some(Reverse(due)) = self.schedule.peek().filter(|due| due.0.at <= now) {
            let (at, what) = (due.at, due.what);
            self.schedule.pop();
            match what {
                What::Page { user } => self.begin_page(user, at, cx),
                What::Object { user, page, page_objects, bytes } => {
                    self.offered.objects += 1;
                    self.offered.wire_bytes += self.wire.bytes(bytes);
                    let request = self.config.request.map(request_bytes);
                    let host = user % self.config.hosts;
                    let bytes = Some(bytes);
                    cx.open(Transfer { bytes, request, page: Some(page), page_objects, host });
                }
            }
        }
        self.sleep(cx);
    }

    fn on_done(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        self.leave_object(transfer, cx);
    }

    fn on_failed(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        self.leave_object(transfer, cx);
    }

    fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let over = self.fetching.as_mut().and_then(|fetching| fetching.on_response(number, cx));
        self.leave_page(over, cx);
    }

    fn on_hung_up(&mut self, number: u32, cx: &mut dyn TrafficContext) {
        let over = self.fetching.as_mut().and_then(|fetching| fetching.on_hung_up(number, cx));
        self.leave_page(over, cx);
    }

    /// The realised load is that of the whole period, so it is complete at the end of the run.
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
    /// An object is there, or will never be; after the last one of a closed loop's page its user thinks.
    fn leave_object(&mut self, transfer: Transfer, cx: &mut dyn TrafficContext) {
        let Some(page) = transfer.page else { return };
        let Some((_, missing)) = self.under_way.get_mut(&page) else { return };
        *missing -= 1;
        if *missing == 0 {
            self.leave_page(Some(page), cx);
        }
    }

    /// A page is over: in a closed loop its user thinks.
    fn leave_page(&mut self, page: Option<u64>, cx: &mut dyn TrafficContext) {
        let Some((user, _)) = page.and_then(|page| self.under_way.remove(&page)) else { return };
        self.think(user, cx.now());
        self.sleep(cx);
    }

    /// The user thinks from `from` on; then a page begins, unless it is too late for one.
    fn think(&mut self, user: u32, from: Instant) {
        let next = from + self.think_time.sample_span(&mut self.users[user as usize].think);
        if next < self.period.end {
            self.plan(next, What::Page { user });
        }
    }

    /// Decides what the page is made of; its first object begins at once, or all that have a connection.
    fn begin_page(&mut self, user: u32, now: Instant, cx: &mut dyn TrafficContext) {
        let page = self.offered.pages;
        self.offered.pages += 1;
        let page_objects = self.objects.sample(&mut self.users[user as usize].objects) as u32;
        let mut at = now;
        let mut together = VecDeque::new();
        for object in 0..page_objects {
            let random = &mut self.users[user as usize];
            if object > 0 {
                at += self.object_gap.sample_span(&mut random.gaps);
            }
            let bytes = self.sizes.sample(&mut random.sizes);
            if self.fetching.is_some() {
                self.offered.objects += 1;
                self.offered.wire_bytes += self.wire.bytes(bytes);
                together.push_back(bytes);
            } else {
                self.plan(at, What::Object { user, page, page_objects, bytes });
            }
        }
        if let Some(fetching) = &mut self.fetching {
            fetching.begin(page, together, user % self.config.hosts, cx);
        }
        match self.config.think_from {
            ThinkFrom::PageStart => self.think(user, now),
            ThinkFrom::PageEnd => {
                self.under_way.insert(page, (user, page_objects));
            }
        }
    }

    fn plan(&mut self, at: Instant, what: What) {
        self.schedule.push(Reverse(Due { at, number: self.planned, what }));
        self.planned += 1;
    }

    fn sleep(&mut self, cx: &mut dyn TrafficContext) {
        if let Some(Reverse(due)) = self.schedule.peek().filter(|due| due.0.at < self.asked) {
            self.asked = due.at;
            cx.wake_at(due.at);
        }
    }
}

#[cfg(test)]
mod tests;

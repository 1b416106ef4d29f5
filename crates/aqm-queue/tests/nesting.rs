//! Every queue works in every position of another one: in a class of HTB, as the queue of each flow, in each wrapper.

use aqm_link::{Port, Ties};
use aqm_net::{Ecn, Instant, Packet, Rate, Span, Streams};
use aqm_queue::qdisc::Root;
use aqm_queue::testing::Fates;
use aqm_queue::testing::invariants;
use aqm_queue::{Config, Label, Protocol, Reason};
use serde_json::{Value, json};

const LINE: Rate = Rate::from_bps(10_000_000);

/// The position of a queue inside another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Position {
    /// In the only class of HTB.
    Leaf,
    /// As each flow's queue, at this parameter of this scheduler.
    Flow(&'static str, &'static str),
    /// In this wrapper, at this parameter.
    Wrapper(&'static str, &'static str),
}

impl Position {
    /// All positions: all disciplines with a parameter for a queue.
    fn all() -> Vec<Self> {
        let of = |kind: &'static str, parameter: &'static str| {
            if Config::every().iter().any(|config| config.kind() == kind && config.has_flow_queues()) {
                Self::Flow(kind, parameter)
            } else {
                Self::Wrapper(kind, parameter)
            }
        };
        let open = Config::catalog().into_iter().filter_map(|entry| {
            let parameter = entry.parameters.iter().find(|field| field.schema.family == Some("queues"))?;
            Some(of(entry.name, parameter.name))
        });
        [Self::Leaf].into_iter().chain(open).collect()
    }

    /// The table of the outer discipline with this queue in it.
    fn with(self, queue: Value) -> Value {
        match self {
            Self::Leaf => json!({"kind": "htb", "classes": {"all": {"rate": "8Mbps", "queue": queue}}}),
            Self::Flow(kind, parameter) => json!({"kind": kind, parameter: queue}),
            // The outer discipline's own decisions are not tested.
            Self::Wrapper("ce-threshold", parameter) => {
                json!({"kind": "ce-threshold", "threshold": "9999p", parameter: queue})
            }
            Self::Wrapper("policer", parameter) => {
                json!({"kind": "policer", "rate": "9Gbps", "burst": "9MB", parameter: queue})
            }
            Self::Wrapper(kind, parameter) => json!({"kind": kind, parameter: queue}),
        }
    }

    /// The path of the queue's parameters.
    fn path(self) -> String {
        match self {
            Self::Leaf => "classes.all.queue".to_owned(),
            Self::Flow(_, parameter) | Self::Wrapper(_, parameter) => parameter.to_owned(),
        }
    }

    /// Whether the queue must be work-conserving.
    fn needs_work_conserving(self) -> bool {
        !matches!(self, Self::Wrapper(..))
    }
}

fn read(table: Value) -> Config {
    Config::read(table).unwrap()
}

fn port(config: &Config) -> Port {
    let mut queue = invariants::watched(config, LINE).unwrap_or_else(|errors| panic!("{config:?}: {errors}"));
    for (number, dscp) in [(0, 46), (1, 0)] {
        let label = Label { traffic: format!("{number}"), protocol: Protocol::Udp, port: 0, dscp };
        queue.on_label(number, &label);
    }
    Port::new(queue, LINE, Streams::new(1).named("queue", 0), Ties::DepartureFirst)
}

/// Offers packets of four flows and two labels at twice the link rate. Returns the time of the last arrival.
fn flood(port: &mut Port, packets: u32, fates: &mut Fates) -> Instant {
    let mut now = Instant::START;
    for id in 0..packets {
        let (flow, label) = (id % 4, (id % 2) as u16);
        let packet = Packet { id, flow, label, bytes: 1000, ecn: Ecn::Ect0, cwnd: 9, ..Packet::default() };
        port.accept(packet, now, fates, |_| {});
        now += Span::from_nanos(400_000);
    }
    now
}

#[test]
fn every_queue_works_in_every_position_except_shapers_where_not_allowed() {
    let positions = Position::all();
    assert!(
        positions.len() >= 10 && positions.contains(&Position::Wrapper("policer", "queue")),
        "{positions:?}"
    );
    assert!(positions.contains(&Position::Flow("drr", "child")));
    for config in Config::every() {
        for position in &positions {
            let outer = read(position.with(config.to_value()));
            if config.holds_back() && position.needs_work_conserving() {
                let errors = outer.build(LINE).err().unwrap();
                assert_eq!(errors.first().path, format!("{}.kind", position.path()));
                continue;
            }
            let mut port = port(&outer);
            let mut fates = Fates::default();
            let end = flood(&mut port, 300, &mut fates);
            port.serve(end + Span::from_millis(3_600_000), &mut fates, |_| {});
            let counters = port.counters(end);
            assert_eq!(port.discipline().backlog().packets, 0, "{outer:?}");
            assert_eq!(counters.arrivals, counters.departures + counters.drops, "{outer:?}");
        }
    }
}

#[test]
fn the_needs_of_a_queue_are_those_of_the_outer_discipline_in_every_position() {
    let needs = |config: &Config| [config.needs_classes(), config.needs_windows(), config.needs_hosts()];
    for config in Config::every().into_iter().filter(|config| !config.holds_back()) {
        for position in Position::all() {
            let outer = needs(&read(position.with(config.to_value())));
            let without = needs(&read(position.with(json!({"kind": "drop-tail"}))));
            let expected = [0, 1, 2].map(|kind| needs(&config)[kind] || without[kind]);
            assert_eq!(outer, expected, "{} in {position:?}", config.kind());
        }
    }
}

#[test]
fn errors_of_an_inner_queue_are_reported_with_its_path() {
    for position in Position::all() {
        let errors =
            read(position.with(json!({"kind": "drop-tail", "limit": "0p"}))).build(LINE).err().unwrap();
        assert_eq!(errors.first().path, format!("{}.limit", position.path()));
    }
}

#[test]
fn headers_are_known_in_every_position() {
    // Packets with expedited forwarding are marked at once, and others are not.
    let queue = json!({
        "kind": "codel", "ce_threshold": "0s", "ce_threshold_selector": 46 << 2, "ce_threshold_mask": 0xfc,
    });
    for position in Position::all() {
        let mut fates = Fates::default();
        let mut port = port(&read(position.with(queue.clone())));
        flood(&mut port, 60, &mut fates);
        let marked: Vec<u16> = fates.marked_packets().map(|packet| packet.label).collect();
        assert!(marked.len() > 5 && marked.iter().all(|label| *label == 0), "{position:?}: {marked:?}");
        assert!(fates.list.iter().all(|fate| fate.why == Reason::CeThreshold), "{position:?}");
    }
}

#[test]
fn the_numbers_that_led_to_a_drop_are_reported_from_every_position() {
    let queue = json!({"kind": "codel", "target": "1ms", "interval": "10ms", "ecn": false});
    for position in Position::all() {
        let mut fates = Fates::default();
        flood(&mut port(&read(position.with(queue.clone()))), 300, &mut fates);
        let drops = fates.list.iter().filter(|fate| fate.why == Reason::Sojourn).count();
        assert!(drops > 5, "{position:?}: {drops}");
        // The wrapper may report drops of its own: only CoDel counts them.
        let counted = fates.evidence.iter().filter(|evidence| evidence.count.is_some()).count();
        assert_eq!(counted, drops, "{position:?}");
    }
}

#[test]
fn tc_shows_inner_queues_of_classes_and_wrappers_as_children() {
    for config in Config::every() {
        for position in Position::all() {
            let outer = read(position.with(config.to_value()));
            if outer.build(LINE).is_err() {
                continue;
            }
            let mut port = port(&outer);
            let now = flood(&mut port, 100, &mut Fates::default());
            let counters = port.counters(now);
            let root = Root {
                device: "line",
                config: &outer,
                rate: LINE,
                queue: port.discipline(),
                counters: &counters,
            };
            let shown = root.shown(now);
            let name = format!("{} in {position:?}: {shown:?}", config.kind());
            if matches!(position, Position::Flow(..)) {
                assert_eq!(shown.len(), 1, "{name}");
                continue;
            }
            let rate = if position == Position::Leaf { Rate::from_bps(8_000_000) } else { LINE };
            let kind =
                config.tc_options(rate).map_or(json!(config.kind()), |options| options["kind"].clone());
            let part = |name: &str| shown[1][name].clone();
            assert_eq!(
                [part("kind"), part("handle"), part("parent")],
                [kind, json!("2:"), json!("1:1")],
                "{name}"
            );
            let count = |part: &str| shown[1][part].as_u64().unwrap();
            assert_eq!(count("packets") + count("drops") + count("qlen"), 100, "{name}");
            assert_eq!(
                [shown[0]["packets"].clone(), shown[0]["qlen"].clone()],
                [part("packets"), part("qlen")]
            );
            assert!(part("options").is_object() && part("root").is_null(), "{name}");
        }
    }
}

#[test]
fn a_chain_of_queues_has_handles_and_parents_in_turn() {
    let codel = json!({"kind": "codel", "limit": "50p"});
    let chain = ["ack-filter", "policer", "ce-threshold"]
        .iter()
        .fold(codel, |queue, kind| json!({"kind": kind, "queue": queue}));
    let leaves =
        json!({"a": {"rate": "1Mbps", "queue": chain}, "b": {"rate": "1Mbps", "queue": {"kind": "red"}}});
    let config = read(json!({"kind": "htb", "classes": leaves, "default": "a"}));
    let queue = config.build(LINE).unwrap();
    let counters = aqm_queue::Counters::default();
    let root =
        Root { device: "line", config: &config, rate: LINE, queue: queue.as_ref(), counters: &counters };
    let shown = root.shown(Instant::START);
    let part = |name: &str| shown.iter().map(|object| object[name].clone()).collect::<Vec<_>>();
    let kinds = ["htb", "ce-threshold", "policer", "ack-filter", "codel", "red"];
    assert_eq!(part("kind"), kinds.map(|kind| json!(kind)));
    assert_eq!(part("handle"), ["1:", "2:", "3:", "4:", "5:", "6:"].map(|handle| json!(handle)));
    let parents = [json!(null), json!("1:1"), json!("2:1"), json!("3:1"), json!("4:1"), json!("1:2")];
    assert_eq!(part("parent"), parents);
}

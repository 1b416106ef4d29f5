//! Every parameter of every queue has an effect, in each setting that accepts another value of it: packets have other
//! fates, or gauges or statistics have other values. Where a parameter cannot have an effect, other values are
//! rejected.
//!
//! The values tried are those of the queue's test cases and those derived from one value, such as its half or the other
//! keywords of a choice. `bases` contains settings in which some parameters matter, and `IDLE` lists the parameters
//! that matter elsewhere.

use std::collections::BTreeMap;

use aqm_link::{Departure, Port, Ties};
use aqm_net::registry::Entry;
use aqm_net::{Ecn, Field, Instant, Packet, Rate, Schema, Several, Span, Streams};
use aqm_queue::{Acknowledgement, Config, Gauge, Label, Observer, Protocol, QueueDiscipline, Reason};
use serde_json::{Value, json};

const LINE: Rate = Rate::from_bps(10_000_000);

/// A parameter that is accepted but has no effect in some settings.
struct Exception {
    names: &'static [&'static str],
    /// The settings without effect.
    holds: fn(&Value) -> bool,
    reason: &'static str,
}

/// Parameters without effect in any traffic, and parameters that these 5000 packets do not exercise.
const EXCEPTIONS: [Exception; 22] = [
    Exception {
        names: &["stab.overhead", "stab.mpu", "stab.linklayer"],
        holds: |table| table["queue"].is_null() || table["queue"]["kind"] == "red",
        reason: "the inner queue counts packets",
    },
    Exception {
        names: &["fq.pacing"],
        holds: |_| true,
        reason: "without `maxrate` nothing is paced, and with `maxrate` pacing must be on; `tc` shows the parameter",
    },
    Exception {
        names: &["sfq.redflowlimit"],
        holds: |table| !table["min"].is_null() && !table["max"].is_null(),
        reason: "the parameter enables RED, whose thresholds are set explicitly",
    },
    Exception {
        names: &["red.ecn", "rio.ecn"],
        holds: |table| !table["mark_p"].is_null(),
        reason: "`mark_p` determines when a packet is marked, and `ecn` only has to be on",
    },
    Exception {
        names: &["pie.derandomise", "pie.cap_adjustment"],
        holds: |table| table["profile"] == "linux",
        reason: "only Linux's value is accepted",
    },
    Exception {
        names: &[
            "red.gentle",
            "shred.red.gentle",
            "self-configuring-red.red.gentle",
            "self-configuring-red.beta",
            "self-configuring-red.top",
            "adaptive-red.top",
            "adaptive-red.target_low",
            "adaptive-red.beta",
            "rio-ps.short_max_share",
            "rio-ps.short_max_p",
            "rem.ecn",
            "rem.scale_by_size",
        ],
        holds: has_defaults,
        reason: "with the defaults, averages and probabilities change too slowly, and queues are too long, for so few packets",
    },
    Exception {
        names: &["blue.start", "cake.start", "cobalt.start", "fq-codel.start", "sfb.start"],
        holds: |_| true,
        reason: "the first packets must find the state that `start` sets, as tested in `start.rs` for each queue",
    },
    Exception {
        names: &["blue.increment", "blue.decrement", "blue.idle_repeats", "blue.ecn"],
        holds: |table| table["freeze_time"] == "1s",
        reason: "the line was idle in the second before each loss, and an update was made at that time",
    },
    Exception {
        names: &["avq.alpha", "avq.gamma", "avq.limit"],
        holds: |table| table["initial_capacity"] == 0.0,
        reason: "the virtual capacity is always 0, so every packet is dropped",
    },
    Exception {
        names: &["fq-codel.drop_batch"],
        holds: |table| table["limit"] == "10240p",
        reason: "the limit is never reached",
    },
    Exception {
        names: &["sfb.penalty_rate", "sfb.penalty_burst", "sfb.db"],
        holds: |table| table["increment"].as_f64() < Some(0.1),
        reason: "no flow reaches the probability 1",
    },
    Exception {
        names: &["sfb.db"],
        holds: |table| table["rehash"] == "600s",
        reason: "no flow has the probability 1 in the last minute before the bins change",
    },
    Exception {
        names: &["adaptive-red.target_low", "adaptive-red.top", "adaptive-red.bounds"],
        holds: |table| table["min_th"].is_null() && table["weight"] == 0.2,
        reason: "with automatic thresholds `max_p` only moves downwards",
    },
    Exception {
        names: &["rio.spare_short_queue"],
        holds: |table| table["coupling"] != "decoupled",
        reason: "an average of several classes is seldom above `min_th` while one packet is queued",
    },
    Exception {
        names: &["blue.freeze"],
        holds: |table| table["freeze"] == "shared",
        reason: "the link is never idle so soon after a loss",
    },
    Exception {
        names: &["avq.limit", "avq.gamma", "avq.alpha"],
        holds: |table| table["virtual_limit"] == "1B",
        reason: "a virtual queue of one byte admits no packet",
    },
    Exception {
        names: &["cobalt.interval", "cobalt.ecn", "pie.ecn", "pie.bytemode", "pie.mtu"],
        holds: |table| table["limit"] == "5001B",
        reason: "the buffer is full before the controller acts",
    },
    Exception {
        names: &["pie.cap_adjustment"],
        holds: |table| table["profile"] == "rfc",
        reason: "above 10 %, the probability never rises so fast",
    },
    Exception {
        names: &["dualpi2.coupling", "dualpi2.drop_overload", "dualpi2.drop_early"],
        holds: |table| table["memory_limit"] == "3kB" || table["limit"] == "9p" || table["limit"] == "5001B",
        reason: "the buffer is full before the probability reaches its bound",
    },
    Exception {
        names: &["choke.limit"],
        holds: |table| table["max"] == "6p" && table["burst"] == 3,
        reason: "the average follows so quickly that at most `max` packets are queued",
    },
    Exception {
        names: &["drr.drop", "rr.drop", "stfq.drop", "scfq.drop", "wfq.drop", "pfq.drop"],
        holds: |table| table["child"]["limit"] == "9p",
        reason: "the inner disciplines are full before the buffer is",
    },
    Exception {
        names: &["fq.initial_quantum", "fq.refill_delay", "fq.buckets"],
        holds: |table| table["maxrate"] == "400kbps" || table["maxrate"] == "8kbps",
        reason: "the pause after every packet is longer than a round of the other flows",
    },
];

/// The reason for rules on classes that lend, in settings without such classes.
const OF_LENDERS: [&str; 3] = ["htb.classes.priority", "htb.classes.quantum", "htb.r2q"];

/// Whether all parameters have their defaults.
fn has_defaults(table: &Value) -> bool {
    Config::every().iter().any(|config| config.to_value() == *table)
}

/// Whether a class of HTB may exceed its rate.
fn lends(table: &Value) -> bool {
    let mut classes = table["classes"].as_object().into_iter().flatten();
    classes.any(|(_, class)| !class["ceil"].is_null() || !class["parent"].is_null())
}

impl Exception {
    fn covers(&self, name: &str, table: &Value) -> bool {
        self.names.contains(&name) && (self.holds)(table)
    }
}

/// Further settings in which parameters are changed.
fn bases() -> Vec<Value> {
    let htb = |default: &str| {
        let classes = json!({"slow": {"rate": "2Mbps"}, "fast": {"rate": "7Mbps"}});
        json!({"kind": "htb", "classes": classes, "default": default})
    };
    let all = [htb("slow"), htb("fast"), json!({"kind": "rio-ps", "limit": "60p", "weight": 0.05})];
    all.map(|table| Config::read(table).unwrap().to_value()).to_vec()
}

/// A digest of all events.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, words: &[u64]) {
        for word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
    }

    fn add_departure(&mut self, departure: &Departure) {
        self.add(&[departure.packet.id.into(), departure.packet.ecn as u64, departure.start.nanos()]);
    }

    fn add_gauges(&mut self, queue: &dyn QueueDiscipline) {
        queue.gauges(&mut |Gauge { name, value, .. }| {
            name.bytes().for_each(|byte| self.add(&[byte.into()]));
            self.add(&[value.to_bits()]);
        });
    }
}

impl Observer for Digest {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.add(&[packet.id.into(), why.code().into(), now.nanos()]);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.add(&[packet.id.into(), 100 + u64::from(why.code()), now.nanos()]);
    }

    /// Small packets of odd flows are bare acknowledgements. The number is the window.
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        (packet.bytes < 100 && packet.flow % 2 == 1).then(|| Acknowledgement {
            bare: true,
            number: packet.id.into(),
            ..Acknowledgement::default()
        })
    }
}

/// The digest for packets of many kinds, with idle times and floods; `None` if the table is not a valid queue. The
/// phases of timers are drawn from `seed`.
pub(crate) fn outcome(table: &Value, seed: u64) -> Option<u64> {
    let mut queue = Config::read(table.clone()).ok()?.build(LINE).ok()?;
    queue.on_start(&mut Streams::new(seed).named("queue-start", 0));
    let streams = Streams::new(1);
    let mut rng = streams.named("arrivals", 0);
    let mut port = Port::new(queue, LINE, streams.named("queue", 0), Ties::DepartureFirst);
    for number in 0..8 {
        let protocol = if number % 3 == 0 { Protocol::Udp } else { Protocol::Tcp };
        let dscp = [0, 8, 10, 26, 34, 46, 48, 1][usize::from(number)];
        port.on_label(
            number,
            &Label { traffic: format!("flow {number}"), protocol, port: 1000 * number, dscp },
        );
    }
    let (mut digest, mut sent) = (Digest::default(), Digest::default());
    let (mut now, mut load, mut flows) = (Instant::START, 1.0, 1);
    for id in 0..5000_u32 {
        if id % 250 == 0 {
            load = [0.5, 0.9, 1.2, 2.0, 6.0][rng.below(5) as usize];
            flows = [1, 3, 8, 8, 400][rng.below(5) as usize];
            let pause = [0, 0, 1, 20, 1000, 700_000][rng.below(6) as usize];
            if id == 0 {
                // A flood at the start of the run, because some parameters concern the start.
                load = 6.0;
            } else {
                now += Span::from_millis(pause);
            }
        }
        let flow = rng.below(flows) as u32;
        let packet = Packet {
            id,
            flow,
            bytes: [64, 64, 500, 1000, 1500, 1500, 1514, 3000][rng.below(8) as usize],
            cwnd: 1 + rng.below(40) as u16,
            ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][(flow % 5) as usize],
            class: (flow % 4) as u8,
            source: (flow % 3) as u16,
            destination: (flow / 2 % 5) as u16,
            label: (flow % 8) as u16,
            ..Packet::default()
        };
        now += Span::from_nanos((900.0 * 800.0 * 2.0 * rng.uniform() / load) as u64);
        port.accept(packet, now, &mut digest, |departure| sent.add_departure(&departure));
        if id % 10 == 0 {
            digest.add_gauges(port.discipline());
        }
    }
    port.serve(now + Span::from_millis(60_000), &mut digest, |departure| sent.add_departure(&departure));
    digest.add_gauges(port.discipline());
    let statistics = port.discipline().tc_statistics(now + Span::from_millis(60_000)).to_string();
    statistics.bytes().for_each(|byte| digest.add(&[byte.into()]));
    digest.add(&[sent.0]);
    Some(digest.0)
}

/// The paths in a table at which the parameter at `path` occurs, including all entries of lists and of tables by name.
fn pointers(table: &Value, path: &[&Field]) -> Vec<String> {
    let mut pointers = vec![String::new()];
    for (depth, field) in path.iter().enumerate() {
        pointers = pointers.into_iter().map(|pointer| format!("{pointer}/{}", field.name)).collect();
        if depth + 1 < path.len() && field.schema.several.is_some() {
            let keys = |pointer: String| -> Vec<String> {
                match table.pointer(&pointer) {
                    Some(Value::Array(list)) => (0..list.len()).map(|k| format!("{pointer}/{k}")).collect(),
                    Some(Value::Object(object)) if field.schema.several == Some(Several::ByName) => {
                        object.keys().map(|key| format!("{pointer}/{key}")).collect()
                    }
                    _ => vec![pointer],
                }
            };
            pointers = pointers.into_iter().flat_map(keys).collect();
        }
    }
    pointers
}

/// Values other than this one.
fn others(value: &Value, field: &Field) -> Vec<Value> {
    const FACTORS: [f64; 9] = [0.5, 2.0, 0.0, 0.9, 0.1, 0.01, 10.0, 100.0, 0.001];
    let schema = &field.schema;
    if !schema.choices.is_empty() {
        return schema.choices.iter().map(|choice| json!(choice.word)).collect();
    }
    if schema.family.is_some() {
        return vec![json!({"kind": "drop-tail", "limit": "7p"}), json!({"kind": "codel", "target": "1ms"})];
    }
    match value {
        Value::Bool(is) => vec![json!(!is)],
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            let whole = |number: f64| json!(number.max(0.0) as u64);
            let scaled =
                FACTORS.into_iter().flat_map(|factor| [json!(number * factor), whole(number * factor)]);
            scaled.chain([whole(number + 1.0), whole(number - 1.0)]).collect()
        }
        Value::String(text) => {
            let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
            let (number, unit) = text.split_at(digits);
            match number.parse::<f64>() {
                Ok(0.0) => some(schema),
                Ok(number) => {
                    let scaled = |factor: f64| {
                        let number = number * factor;
                        // Numbers of packets and bytes are whole.
                        [json!(format!("{number}{unit}")), json!(format!("{number:.0}{unit}"))]
                    };
                    FACTORS.into_iter().flat_map(scaled).collect()
                }
                Err(_) => Vec::new(),
            }
        }
        Value::Array(_) => vec![json!([1]), json!([2]), json!([5, 9]), json!([2, 1]), json!([])],
        _ => some(schema),
    }
}

/// Values of this type, if there is no initial value.
fn some(schema: &Schema) -> Vec<Value> {
    match schema.r#type {
        "true or false" => vec![json!(true), json!(false)],
        "number" => [0.0, 0.05, 0.5, 1.0, 3.0].map(Value::from).to_vec(),
        "whole number" => [0, 1, 2, 3, 7, 50, 1000].map(Value::from).to_vec(),
        _ => {
            let with_units = |number: &str| -> Vec<Value> {
                schema.units.iter().map(|unit| json!(format!("{number}{unit}"))).collect()
            };
            ["0", "1", "3", "20", "150", "400", "2000", "50000"].into_iter().flat_map(with_units).collect()
        }
    }
}

/// All parameters of a table, including those of nested tables.
fn paths<'a>(fields: &'a [Field], above: &[&'a Field], found: &mut Vec<Vec<&'a Field>>) {
    for field in fields {
        let path: Vec<&Field> = above.iter().copied().chain([field]).collect();
        if field.schema.family.is_none() && !field.schema.fields.is_empty() {
            paths(&field.schema.fields, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// The effect of a parameter at one path of a setting.
#[derive(PartialEq)]
enum Effect {
    Changes,
    /// No other value is accepted, or there is none to try.
    Fixed,
    None,
}

/// The effects of the parameter at `path` at each of its occurrences in the setting `base`. `known` are values to try
/// in addition to those derived from its own value.
fn effects(
    base: &Value,
    path: &[&Field],
    known: &[Value],
    outcome: &mut impl FnMut(&Value) -> Option<u64>,
) -> Vec<Effect> {
    let own = outcome(base);
    assert!(own.is_some(), "{base} is no queue");
    let effect_at = |pointer: String| {
        let Some(value) = base.pointer(&pointer) else { return Effect::Fixed };
        let mut effect = Effect::Fixed;
        for other in others(value, path[path.len() - 1])
            .iter()
            .chain(known)
            .filter(|other| *other != value && !other.is_null())
        {
            let mut table = base.clone();
            table.pointer_mut(&pointer).into_iter().for_each(|value| *value = other.clone());
            match outcome(&table) {
                None => {}
                digest if digest == own => effect = Effect::None,
                _ => return Effect::Changes,
            }
        }
        effect
    };
    pointers(base, path).into_iter().map(effect_at).collect()
}

/// The parameters without effect in a setting, by name and setting.
fn without_effect(
    entry: &Entry,
    bases: &[&Value],
    outcome: &mut impl FnMut(&Value) -> Option<u64>,
) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    paths(&entry.parameters, &[], &mut all);
    let mut without = Vec::new();
    for path in all {
        let values = |table: &Value| -> Vec<Value> {
            pointers(table, &path).iter().filter_map(|pointer| table.pointer(pointer).cloned()).collect()
        };
        let known: Vec<Value> = bases.iter().flat_map(|table| values(table)).collect();
        let names: Vec<&str> = path.iter().map(|field| field.name).collect();
        let name = format!("{}.{}", entry.name, names.join("."));
        let effects: Vec<Vec<Effect>> =
            bases.iter().map(|base| effects(base, &path, &known, outcome)).collect();
        let changes = |found: &Vec<Effect>| found.contains(&Effect::Changes);
        let is_silent = |found: &Vec<Effect>| found.contains(&Effect::None) && !changes(found);
        let silent = effects.iter().zip(bases).filter(|(found, _)| is_silent(found));
        without.extend(silent.map(|(_, base)| (name.clone(), (*base).clone())));
        let is_known = EXCEPTIONS.iter().any(|exception| exception.names.contains(&name.as_str()));
        assert!(effects.iter().any(changes) || is_known, "{name} does nothing anywhere");
    }
    without
}

/// ns-3!706: FQ-PIE ignored its parameters.
#[test]
fn every_parameter_has_an_effect_where_another_value_is_accepted() {
    let settings: Vec<Value> = Config::corners().iter().map(Config::to_value).chain(bases()).collect();
    let mut outcomes: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut outcome = |table: &Value| *outcomes.entry(table.to_string()).or_insert_with(|| outcome(table, 1));
    let without = Config::catalog().into_iter().flat_map(|entry| {
        let bases: Vec<&Value> = settings.iter().filter(|table| table["kind"] == entry.name).collect();
        without_effect(&entry, &bases, &mut outcome)
    });
    let without: Vec<(String, Value)> =
        without.filter(|(name, table)| !OF_LENDERS.contains(&name.as_str()) || lends(table)).collect();
    let unknown: Vec<_> = without
        .iter()
        .filter(|(name, table)| !EXCEPTIONS.iter().any(|exception| exception.covers(name, table)))
        .collect();
    assert!(unknown.is_empty(), "refuse the parameter in these settings, or say why not: {unknown:#?}");
    for Exception { names, holds, reason } in &EXCEPTIONS {
        for name in *names {
            let is_needed = without.iter().any(|(found, table)| found == name && holds(table));
            assert!(is_needed, "{name} is no exception any more: {reason}");
        }
    }
}

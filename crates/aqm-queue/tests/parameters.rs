//! Every parameter of every queue does something: it has a value with which packets meet other fates, or gauges show
//! something else.
//!
//! Values to try are those of the queue's corners and what can be made of one value: its half, the other words of a
//! choice. `bases` has settings in which some parameters matter, `IDLE` the parameters that matter elsewhere.

use std::collections::BTreeMap;

use aqm_net::registry::Entry;
use aqm_net::{Ecn, Field, Instant, Packet, Rate, Schema, Several, Span, Streams};
use aqm_queue::{
    Acknowledgement, Config, Departure, Gauge, Label, Observer, Port, Protocol, QueueDiscipline, Reason, Ties,
};
use serde_json::{Value, json};

const LINE: Rate = Rate::from_bps(10_000_000);

/// Parameters that change neither fates nor gauges, and why.
const IDLE: [(&str, &str); 2] = [
    ("fq-pie.memory_limit", "the kernel refuses nothing beyond it, but counts: `tc` shows `overmemory`"),
    ("fq.pacing", "without `maxrate` nothing is paced, and with it pacing must be on: `tc` shows it"),
];

/// Further settings from which parameters are changed.
fn bases() -> Vec<Value> {
    let htb = |default: &str| {
        let classes = json!({"slow": {"rate": "2Mbps"}, "fast": {"rate": "7Mbps"}});
        json!({"kind": "htb", "classes": classes, "default": default})
    };
    let all = [htb("slow"), htb("fast"), json!({"kind": "rio-ps", "limit": "60p", "weight": 0.05})];
    all.map(|table| Config::read(table).unwrap().to_value()).to_vec()
}

/// All that happened, in one number.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, words: &[u64]) {
        for word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
    }

    fn add_departure(&mut self, one: &Departure) {
        self.add(&[one.packet.id.into(), one.packet.ecn as u64, one.start.nanos()]);
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

    /// Small packets of odd flows are bare acknowledgements; the number is the window.
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        (packet.bytes < 100 && packet.flow % 2 == 1).then(|| Acknowledgement {
            bare: true,
            number: packet.id.into(),
            ..Acknowledgement::default()
        })
    }
}

/// What happens to packets of many kinds, in idle times and floods; `None` if there is no such queue. The phases of
/// timers are drawn from `seed`.
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
                // A flood as the run begins: some parameters are about the start.
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
        port.accept(packet, now, &mut digest, |one| sent.add_departure(&one));
        if id % 10 == 0 {
            digest.add_gauges(port.discipline());
        }
    }
    port.serve(now + Span::from_millis(60_000), &mut digest, |one| sent.add_departure(&one));
    digest.add_gauges(port.discipline());
    digest.add(&[sent.0]);
    Some(digest.0)
}

/// The places in a table where the parameter at `path` stands; of lists and of tables by name all.
fn places(table: &Value, path: &[&Field]) -> Vec<String> {
    let mut places = vec![String::new()];
    for (depth, field) in path.iter().enumerate() {
        places = places.into_iter().map(|place| format!("{place}/{}", field.name)).collect();
        if depth + 1 < path.len() && field.schema.several.is_some() {
            let keys = |place: String| -> Vec<String> {
                match table.pointer(&place) {
                    Some(Value::Array(list)) => (0..list.len()).map(|k| format!("{place}/{k}")).collect(),
                    Some(Value::Object(one)) if field.schema.several == Some(Several::ByName) => {
                        one.keys().map(|key| format!("{place}/{key}")).collect()
                    }
                    _ => vec![place],
                }
            };
            places = places.into_iter().flat_map(keys).collect();
        }
    }
    places
}

/// Other values than this one.
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
                        // Packets and bytes are whole.
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

/// Values of this type, as there is none to begin with.
fn some(schema: &Schema) -> Vec<Value> {
    match schema.r#type {
        "true or false" => vec![json!(true), json!(false)],
        "number" => [0.0, 0.05, 0.5, 1.0, 3.0].map(Value::from).to_vec(),
        "whole number" => [0, 1, 2, 3, 7, 50, 1000].map(Value::from).to_vec(),
        _ => {
            let with_units = |number: &str| -> Vec<Value> {
                schema.units.iter().map(|unit| json!(format!("{number}{unit}"))).collect()
            };
            ["0", "1", "3", "20", "400", "2000", "50000"].into_iter().flat_map(with_units).collect()
        }
    }
}

/// All parameters of a table, with those of tables inside.
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

/// The parameters of a queue, by name, that change nothing in any of these settings.
fn without_effect(
    entry: &Entry,
    bases: &[&Value],
    outcome: &mut impl FnMut(&Value) -> Option<u64>,
) -> Vec<String> {
    let mut all = Vec::new();
    paths(&entry.parameters, &[], &mut all);
    let mut without = Vec::new();
    for path in all {
        let values = |table: &Value| -> Vec<Value> {
            places(table, &path).iter().filter_map(|place| table.pointer(place).cloned()).collect()
        };
        let known: Vec<Value> = bases.iter().flat_map(|table| values(table)).collect();
        let mut changes = |base: &Value| {
            let own = outcome(base);
            assert!(own.is_some(), "{base} is no queue");
            places(base, &path).into_iter().any(|place| {
                let Some(value) = base.pointer(&place) else { return false };
                let others = others(value, path[path.len() - 1]);
                others.iter().chain(&known).filter(|other| *other != value).any(|other| {
                    let mut table = base.clone();
                    table.pointer_mut(&place).into_iter().for_each(|value| *value = other.clone());
                    outcome(&table).is_some_and(|one| Some(one) != own)
                })
            })
        };
        if !bases.iter().any(|base| changes(base)) {
            let name: Vec<&str> = path.iter().map(|field| field.name).collect();
            without.push(format!("{}.{}", entry.name, name.join(".")));
        }
    }
    without
}

/// ns-3!706: FQ-PIE did not heed its parameters.
#[test]
fn every_parameter_changes_something() {
    let settings: Vec<Value> = Config::corners().iter().map(Config::to_value).chain(bases()).collect();
    let mut outcomes: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut outcome = |table: &Value| *outcomes.entry(table.to_string()).or_insert_with(|| outcome(table, 1));
    let without_effect = |entry: Entry| {
        let bases: Vec<&Value> = settings.iter().filter(|table| table["kind"] == entry.name).collect();
        without_effect(&entry, &bases, &mut outcome)
    };
    let without: Vec<String> = Config::catalog().into_iter().flat_map(without_effect).collect();
    assert_eq!(without, IDLE.map(|(name, _)| name), "left changes nothing, of right we know");
}

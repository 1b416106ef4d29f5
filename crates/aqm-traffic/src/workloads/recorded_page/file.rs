//! The file of a recorded page: a table in CSV format with a line for each object. The first line contains the names of
//! the columns. Blank lines and text after a `#` are ignored.
//!
//! An object may depend on objects of earlier lines only. Therefore, the dependencies have no cycle.

use aqm_net::{Span, data_lines};

use crate::Exchange;

/// Names of the columns, in the order of the file.
pub(super) const COLUMNS: [&str; 12] = [
    "object",
    "label",
    "host",
    "after",
    "event",
    "delay_ms",
    "request_bytes",
    "think_ms",
    "response_bytes",
    "urgency",
    "awaited_by",
    "extra_rtt_ms",
];

/// Maximum number of objects. A larger number is assumed to be a typing error.
const MAX_OBJECTS: usize = 10_000;
/// Maximum number of hosts. A larger number is assumed to be a typing error.
const MAX_HOSTS: u32 = 1000;
/// Maximum size of a request in bytes. A larger size is assumed to be a typing error.
const MAX_REQUEST: u64 = 1_000_000;
/// Maximum size of a response in bytes.
const MAX_RESPONSE: u64 = 1_000_000_000_000_000;
/// Maximum delay in milliseconds: one hour. A longer delay is assumed to be a typing error.
const MAX_DELAY_MS: f64 = 3.6e6;

/// An event in the transfer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The client requests the object.
    Request,
    /// The first byte of the response arrives.
    FirstByte,
    /// The last byte of the response arrives.
    End,
}

/// The event of a page that waits for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AwaitedBy {
    /// Neither event.
    Nothing,
    /// The load event.
    Load,
    /// The first rendering and the load event.
    Render,
}

/// An object of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    /// Number of the host, counted from zero.
    pub(super) host: u32,
    /// Positions of the objects on which the object depends, counted from zero.
    pub(super) parents: Vec<u32>,
    /// Event of each parent that must occur before the client discovers the object.
    pub(super) event: Event,
    /// Time from the last of these events or, without parents, from the start of the page, to the discovery.
    pub(super) delay: Span,
    /// Request and response.
    pub(super) exchange: Exchange,
    pub(super) awaited_by: AwaitedBy,
}

/// The objects and hosts of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    /// Additional round-trip time of each host.
    pub(super) extra_rtt: Vec<Span>,
    /// Objects that depend on each object.
    pub(super) children: Vec<Vec<u32>>,
}

impl Page {
    /// Parses the contents of a file.
    pub(super) fn parse(content: &str) -> Result<Self, String> {
        let mut lines = data_lines(content);
        let header = lines.next().map(|(_, text)| fields(text)).unwrap_or_default();
        if header != COLUMNS {
            return Err(format!("must begin with a line that contains the columns {}", COLUMNS.join(",")));
        }
        let mut page = Self { objects: Vec::new(), extra_rtt: Vec::new(), children: Vec::new() };
        for (number, text) in lines {
            page.add(&fields(text)).map_err(|problem| format!("line {number}: {problem}"))?;
        }
        if page.objects.is_empty() {
            return Err("contains no objects: expected a line for each object".to_owned());
        }
        if page.objects.iter().all(|object| object.awaited_by == AwaitedBy::Nothing) {
            return Err("has no object for which the load event waits: set `awaited_by` of an object to \
                        `load` or `render`"
                .to_owned());
        }
        Ok(page)
    }

    /// Adds the object of a line.
    fn add(&mut self, fields: &[&str]) -> Result<(), String> {
        let [number, _, host, after, event, delay, request, think, response, urgency, awaited_by, extra] =
            *fields
        else {
            return Err(format!("has {} columns (expected {})", fields.len(), COLUMNS.len()));
        };
        if self.objects.len() == MAX_OBJECTS {
            return Err(format!("is one object too many: a page may have {MAX_OBJECTS} objects"));
        }
        let position = self.objects.len() as u32;
        if number.parse() != Ok(position + 1) {
            return Err(format!("`object` must be {}, the next number (got `{number}`)", position + 1));
        }
        let host = whole("host", host, 1, MAX_HOSTS.into())? as u32 - 1;
        let parents = after.split_whitespace().map(|parent| self.parent(parent)).collect::<Result<_, _>>()?;
        let event = match event {
            "request" => Event::Request,
            "first-byte" => Event::FirstByte,
            "end" => Event::End,
            _ => return Err(format!("`event` must be request, first-byte or end (got `{event}`)")),
        };
        let awaited_by = match awaited_by {
            "render" => AwaitedBy::Render,
            "load" => AwaitedBy::Load,
            "nothing" => AwaitedBy::Nothing,
            _ => return Err(format!("`awaited_by` must be render, load or nothing (got `{awaited_by}`)")),
        };
        let exchange = Exchange {
            pause: Span::ZERO,
            request: whole("request_bytes", request, 1, MAX_REQUEST)?,
            think: time("think_ms", think)?,
            response: whole("response_bytes", response, 1, MAX_RESPONSE)?,
            urgency: whole("urgency", urgency, 0, 7)? as u8,
        };
        let delay = time("delay_ms", delay)?;
        self.set_extra_rtt(host, time("extra_rtt_ms", extra)?)?;
        let object = Object { host, parents, event, delay, exchange, awaited_by };
        for &parent in &object.parents {
            self.children[parent as usize].push(position);
        }
        self.children.push(Vec::new());
        self.objects.push(object);
        Ok(())
    }

    /// Returns the position of the object on which the next object depends.
    fn parent(&self, text: &str) -> Result<u32, String> {
        let known = self.objects.len();
        let number = text.parse::<usize>().ok().filter(|number| (1..=known).contains(number));
        let problem = || format!("`after` must contain numbers of objects of earlier lines (got `{text}`)");
        number.map(|number| number as u32 - 1).ok_or_else(problem)
    }

    /// Sets the additional round-trip time of a host. All objects of a host must have the same value.
    fn set_extra_rtt(&mut self, host: u32, extra: Span) -> Result<(), String> {
        let earlier = self.objects.iter().any(|object| object.host == host);
        if self.extra_rtt.len() <= host as usize {
            self.extra_rtt.resize(host as usize + 1, Span::ZERO);
        }
        let known = std::mem::replace(&mut self.extra_rtt[host as usize], extra);
        if earlier && known != extra {
            return Err(format!("`extra_rtt_ms` must be the same for all objects of host {}", host + 1));
        }
        Ok(())
    }

    /// Returns the total size of all responses in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.exchange.response).fold(0, u64::saturating_add)
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

fn whole(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let value = text.parse::<u64>().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("`{name}` must be a whole number from {least} to {most} (got `{text}`)"))
}

fn time(name: &str, text: &str) -> Result<Span, String> {
    let millis = text.parse::<f64>().ok().filter(|millis| (0.0..=MAX_DELAY_MS).contains(millis));
    let problem =
        || format!("`{name}` must be a number of milliseconds from 0 to {MAX_DELAY_MS} (got `{text}`)");
    millis.map(|millis| Span::from_seconds(millis / 1000.0)).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn page(lines: &str) -> Result<Page, String> {
        Page::parse(&format!("{}\n{lines}", COLUMNS.join(",")))
    }

    #[test]
    fn a_page_is_a_graph_of_objects() {
        let page = page(
            "1,document 1,1,,end,0,400,12.5,9000,0,render,0\n\
             2,style 1,1,1,first-byte,3,300,0,2000,0,render,0 # a comment\n\
             \n3,image 1,2,1 2,end,1.5,200,0.25,50000,3,load,40\n",
        )
        .unwrap();
        let [root, _, image] = page.objects.as_slice() else { panic!() };
        assert_eq!((root.parents.len(), root.exchange.think), (0, Span::from_nanos(12_500_000)));
        assert_eq!((image.host, image.parents.as_slice(), image.event), (1, [0, 1].as_slice(), Event::End));
        assert_eq!((image.delay, image.exchange.request), (Span::from_nanos(1_500_000), 200));
        assert_eq!(image.awaited_by, AwaitedBy::Load);
        assert_eq!(page.extra_rtt, [Span::ZERO, Span::from_millis(40)]);
        assert_eq!(page.children, [vec![1, 2], vec![2], vec![]]);
        assert_eq!(page.bytes(), 61_000);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let root = "1,document 1,1,,end,0,400,0,9000,0,render,0\n";
        let problem = |line: &str| page(&format!("{root}{line}")).unwrap_err();
        for (line, expected) in [
            ("2,a,1", "line 3: has 3 columns (expected 12)"),
            ("3,a,1,,end,0,1,0,1,0,load,0", "line 3: `object` must be 2, the next number (got `3`)"),
            ("2,a,0,,end,0,1,0,1,0,load,0", "line 3: `host` must be a whole number from 1 to 1000 (got `0`)"),
            (
                "2,a,1,2,end,0,1,0,1,0,load,0",
                "line 3: `after` must contain numbers of objects of earlier lines (got `2`)",
            ),
            (
                "2,a,1,,begin,0,1,0,1,0,load,0",
                "line 3: `event` must be request, first-byte or end (got `begin`)",
            ),
            (
                "2,a,1,,end,-1,1,0,1,0,load,0",
                "line 3: `delay_ms` must be a number of milliseconds from 0 to 3600000 (got `-1`)",
            ),
            (
                "2,a,1,,end,0,1,nan,1,0,load,0",
                "line 3: `think_ms` must be a number of milliseconds from 0 to 3600000 (got `nan`)",
            ),
            ("2,a,1,,end,0,1,0,1,8,load,0", "line 3: `urgency` must be a whole number from 0 to 7 (got `8`)"),
            (
                "2,a,1,,end,0,1,0,1,0,paint,0",
                "line 3: `awaited_by` must be render, load or nothing (got `paint`)",
            ),
            (
                "2,a,1,,end,0,1,0,1,0,load,5",
                "line 3: `extra_rtt_ms` must be the same for all objects of host 1",
            ),
        ] {
            assert_eq!(problem(line), expected);
        }
        for request in ["0", "1000001", "x"] {
            let line = format!("2,a,1,,end,0,{request},0,1,0,load,0");
            assert!(problem(&line).starts_with("line 3: `request_bytes` must be"), "{request}");
        }
    }

    #[test]
    fn a_file_without_a_page_is_rejected() {
        assert!(Page::parse("").unwrap_err().starts_with("must begin with a line"));
        assert!(Page::parse("1,2,3").unwrap_err().starts_with("must begin with a line"));
        assert!(page("").unwrap_err().starts_with("contains no objects"));
        let idle = "1,a,1,,end,0,400,0,9000,0,nothing,0";
        assert!(page(idle).unwrap_err().starts_with("has no object for which the load event waits"));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the environment sets the number of cases")]
    fn mangled_files_are_rejected_or_read() {
        let whole = format!(
            "{}\n1,document 1,1,,end,0,400,12.5,9000,0,render,0\n2,image 1,2,1,first-byte,1,9,0,5,3,load,4\n",
            COLUMNS.join(",")
        );
        let cases = std::env::var("AQM_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
        let mut rng = aqm_net::Streams::new(7).named("mangled", 0);
        for _ in 0..cases {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(3) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = b",\n#-9e. 1x"[rng.below(10) as usize],
                    _ => bytes.insert(at, b"0123456789,"[rng.below(11) as usize]),
                }
            }
            let text = String::from_utf8(bytes).unwrap();
            match Page::parse(&text) {
                Ok(page) => assert!(page.objects.len() <= 4),
                Err(problem) => assert!(!problem.is_empty()),
            }
        }
    }
}

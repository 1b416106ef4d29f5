//! Pages whose objects a client fetches over a few persistent connections, as browsers do with HTTP/1.1: each connection
//! takes the next object of the page when it has the one before, and closes when none is left.
//!
//! Ours: the objects of a page are all known when it begins, and asked for in their order; every page opens its
//! connections anew; one that is gone, because TCP gave up, is replaced if objects are left, and its object is lost.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::{ConfigError, Size};

use crate::{Conversation, Exchange, TrafficContext};

/// More connections to a page than this are taken for a slip of the pen.
const MOST_CONNECTIONS: u32 = 1000;

/// Why that cannot be played live.
pub(crate) const SIMULATED_ONLY: Option<&str> =
    Some("a client that decides only then what it asks for is not played live: leave out `connections`");

/// Checks how many connections a page has, and that its objects are asked for.
pub(crate) fn check_connections(connections: Option<u32>, request: Option<Size>) -> Result<(), ConfigError> {
    let Some(connections) = connections else { return Ok(()) };
    let problem = format_args!("must be between 1 and {MOST_CONNECTIONS}, is {connections}");
    ConfigError::unless((1..=MOST_CONNECTIONS).contains(&connections), "connections", problem)?;
    let problem = "is missing: over `connections` of its own the client asks for each object";
    ConfigError::unless(request.is_some(), "request", problem)
}

/// Pages that are fetched so.
#[derive(Clone)]
pub(crate) struct Fetching {
    /// How many connections a page has at most.
    connections: u32,
    /// Bytes of a request.
    request: u64,
    pages: BTreeMap<u64, Page>,
    /// The page of each connection, by its number.
    page_of: BTreeMap<u32, u64>,
    /// The number of the next connection.
    next: u32,
}

/// A page of which something is missing.
#[derive(Clone)]
struct Page {
    /// The sizes of the objects that were not asked for yet.
    left: VecDeque<u64>,
    /// Objects under way.
    under_way: u32,
    objects: u32,
    host: u32,
}

impl Fetching {
    /// Over so many connections to a page, each object asked for with a request; nothing if a page has as many
    /// connections as objects.
    pub(crate) fn new(connections: Option<u32>, request: Option<Size>) -> Option<Self> {
        let (connections, request) = (connections?, request?.bytes());
        Some(Self { connections, request, pages: BTreeMap::new(), page_of: BTreeMap::new(), next: 0 })
    }

    /// A page begins: objects of these sizes, on a host.
    pub(crate) fn begin(&mut self, page: u64, sizes: VecDeque<u64>, host: u32, cx: &mut dyn TrafficContext) {
        let objects = sizes.len() as u32;
        self.pages.insert(page, Page { left: sizes, under_way: 0, objects, host });
        for _ in 0..self.connections.min(objects) {
            self.connect(page, cx);
        }
    }

    /// The response of a connection has come: the page that is over with it, if one is.
    pub(crate) fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) -> Option<u64> {
        let &id = self.page_of.get(&number)?;
        let page = self.pages.get_mut(&id)?;
        if let Some(bytes) = page.left.pop_front() {
            cx.ask(number, Exchange::at_once(self.request, bytes));
            self.finish_if_last(id, number, cx);
            return None;
        }
        self.page_of.remove(&number);
        cx.finish(number);
        self.leave_object(id)
    }

    /// A connection is gone: the page that is over with it, if one is.
    pub(crate) fn on_hung_up(&mut self, number: u32, cx: &mut dyn TrafficContext) -> Option<u64> {
        let id = self.page_of.remove(&number)?;
        let page = self.leave_object(id);
        if page.is_none() {
            self.connect(id, cx);
        }
        page
    }

    /// An object of a page is not under way any more: the page, if nothing of it is left.
    fn leave_object(&mut self, id: u64) -> Option<u64> {
        let page = self.pages.get_mut(&id)?;
        page.under_way -= 1;
        if page.under_way > 0 || !page.left.is_empty() {
            return None;
        }
        self.pages.remove(&id);
        Some(id)
    }

    /// Opens a connection for the next object of a page, if there is one.
    fn connect(&mut self, id: u64, cx: &mut dyn TrafficContext) {
        let Some(page) = self.pages.get_mut(&id) else { return };
        let Some(bytes) = page.left.pop_front() else { return };
        page.under_way += 1;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.page_of.insert(number, id);
        cx.converse(Conversation {
            number: Some(number),
            page: Some(id),
            page_objects: page.objects,
            host: page.host,
            ..Conversation::of(Exchange::at_once(self.request, bytes))
        });
        self.finish_if_last(id, number, cx);
    }

    /// The connection that carries the last object closes after it: the server's FIN rides on it.
    fn finish_if_last(&mut self, id: u64, number: u32, cx: &mut dyn TrafficContext) {
        if self.pages.get(&id).is_some_and(|page| page.left.is_empty()) {
            cx.finish(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Span};

    use super::*;
    use crate::Workload;
    use crate::testing::{RecordingContext, run_conversing};

    /// A page whose objects have so many bytes each.
    #[derive(Clone)]
    struct OnePage {
        fetching: Fetching,
        sizes: Vec<u64>,
        over: Vec<(Instant, u64)>,
    }

    impl OnePage {
        fn new(connections: u32, sizes: &[u64]) -> Self {
            let fetching = Fetching::new(Some(connections), Some(Size::from_bytes(300))).unwrap();
            Self { fetching, sizes: sizes.to_vec(), over: Vec::new() }
        }
    }

    impl Workload for OnePage {
        fn start(&mut self, cx: &mut dyn TrafficContext) {
            self.fetching.begin(7, self.sizes.iter().copied().collect(), 3, cx);
        }
        fn on_wake(&mut self, _: &mut dyn TrafficContext) {}
        fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) {
            self.over.extend(self.fetching.on_response(number, cx).map(|page| (cx.now(), page)));
        }
        fn on_hung_up(&mut self, number: u32, cx: &mut dyn TrafficContext) {
            self.over.extend(self.fetching.on_hung_up(number, cx).map(|page| (cx.now(), page)));
        }
    }

    /// A millisecond for each byte.
    fn fetched(page: &mut OnePage) -> RecordingContext {
        run_conversing(page, Instant::NEVER, |_, exchange| Span::from_millis(exchange.response))
    }

    #[test]
    fn each_connection_takes_the_next_object_when_it_has_one_and_the_page_is_over_with_the_last() {
        let mut page = OnePage::new(2, &[10, 30, 5, 5, 40]);
        let recording = fetched(&mut page);
        let first: Vec<u64> = recording.conversations.iter().map(|(_, one)| one.first.response).collect();
        let millis = |at: Instant| at.nanos() / 1_000_000;
        let more: Vec<_> =
            recording.asked.iter().map(|&(at, number, it)| (millis(at), number, it.response)).collect();
        assert_eq!((first, more), (vec![10, 30], vec![(10, 0, 5), (15, 0, 5), (20, 0, 40)]));
        assert_eq!(page.over, [(Instant::from_nanos(60_000_000), 7)]);
        let conversation = &recording.conversations[0].1;
        assert_eq!((conversation.page, conversation.page_objects, conversation.host), (Some(7), 5, 3));
        // The first with the request for the last object, the second when nothing is left for it.
        let finished: Vec<_> = recording.finished.iter().map(|&(at, number)| (millis(at), number)).collect();
        assert_eq!(finished, [(20, 0), (30, 1), (60, 0)]);
    }

    #[test]
    fn a_page_has_no_more_connections_than_objects() {
        let mut page = OnePage::new(6, &[10, 20]);
        let recording = fetched(&mut page);
        assert_eq!((recording.conversations.len(), recording.asked.len()), (2, 0));
        assert_eq!(page.over, [(Instant::from_nanos(20_000_000), 7)]);
    }

    #[test]
    fn a_connection_that_is_gone_is_replaced_while_objects_are_left() {
        let mut page = OnePage::new(1, &[10, 20]);
        let mut recording = RecordingContext::default();
        page.start(&mut recording);
        page.on_hung_up(0, &mut recording);
        assert_eq!((recording.conversations[1].1.number, page.over.len()), (Some(1), 0));
        page.on_hung_up(1, &mut recording);
        assert_eq!((recording.conversations.len(), page.over.len()), (2, 1));
        page.on_response(1, &mut recording);
        assert_eq!(page.over.len(), 1, "it is over once");
    }

    #[test]
    fn connections_need_a_request_and_a_number_that_makes_sense() {
        let place = |connections, request| check_connections(connections, request).unwrap_err().place;
        let request = Some(Size::from_bytes(300));
        assert_eq!([place(Some(0), request), place(Some(1001), request)], ["connections"; 2]);
        assert_eq!(place(Some(6), None), "request");
        assert!(check_connections(Some(6), request).is_ok() && check_connections(None, None).is_ok());
    }
}

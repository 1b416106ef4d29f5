//! Pages whose objects a client fetches over persistent connections. With HTTP/1.1, a few connections fetch one object
//! at a time: a connection requests the next object of the page when its previous object is complete, and closes when
//! there are no more objects to request. With HTTP/2 and HTTP/3, one connection carries all objects at the same time.
//!
//! aqmlab's choices: all objects of a page are known when the page begins, and are requested in order. Every page opens
//! new connections. If the transport gives up on a connection, the objects in progress on this connection are lost. If
//! the page has more objects to request, another connection replaces the failed connection.

use std::collections::{BTreeMap, VecDeque};

use aqm_net::Size;

use crate::http::Persistence;
use crate::{Conversation, Exchange, TrafficContext};

/// The reason why a workload with persistent connections cannot run live.
pub(crate) const SIMULATED_ONLY: Option<&str> = Some(
    "live runs do not support clients that choose their requests during the run: remove `connections` and `http`",
);

/// The pages in progress and their connections.
#[derive(Clone)]
pub(crate) struct Fetching {
    persistence: Persistence,
    /// Size of a request in bytes.
    request: u64,
    pages: BTreeMap<u64, Page>,
    /// The page to which each connection belongs, keyed by the connection's number.
    page_of: BTreeMap<u32, u64>,
    /// Number of the next connection.
    next: u32,
}

/// A page whose objects are not all complete.
#[derive(Clone)]
struct Page {
    /// Sizes of the objects that have not been requested yet.
    left: VecDeque<u64>,
    /// Number of objects that have been requested but are not yet complete.
    under_way: u32,
    objects: u32,
    host: u32,
}

impl Fetching {
    /// Creates the state for requests of `request` bytes. Returns `None` if each object has its own connection.
    pub(crate) fn new(persistence: Option<Persistence>, request: Option<Size>) -> Option<Self> {
        let (persistence, request) = (persistence?, request?.bytes());
        Some(Self { persistence, request, pages: BTreeMap::new(), page_of: BTreeMap::new(), next: 0 })
    }

    /// Starts a page on a host. `sizes` contains the sizes of the page's objects.
    pub(crate) fn begin(&mut self, page: u64, sizes: VecDeque<u64>, host: u32, cx: &mut dyn TrafficContext) {
        let objects = sizes.len() as u32;
        self.pages.insert(page, Page { left: sizes, under_way: 0, objects, host });
        for _ in 0..self.persistence.connections.min(objects) {
            self.connect(page, cx);
        }
    }

    /// Handles a complete response on a connection. Returns the page if it is now complete.
    pub(crate) fn on_response(&mut self, number: u32, cx: &mut dyn TrafficContext) -> Option<u64> {
        let &id = self.page_of.get(&number)?;
        let page = self.pages.get_mut(&id)?;
        if let Some(bytes) = page.left.pop_front() {
            cx.request(number, Exchange::immediate(self.request, bytes));
            self.finish_if_last(id, number, cx);
            return None;
        }
        if page.under_way == 1 || self.persistence.streams.is_none() {
            self.page_of.remove(&number);
            cx.finish(number);
        }
        self.leave_objects(id, 1)
    }

    /// Handles the failure of a connection. Returns the page if none of its objects remain.
    pub(crate) fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) -> Option<u64> {
        let id = self.page_of.remove(&number)?;
        let lost = match self.persistence.streams {
            Some(_) => self.pages.get(&id)?.under_way,
            None => 1,
        };
        let page = self.leave_objects(id, lost);
        if page.is_none() {
            self.connect(id, cx);
        }
        page
    }

    /// Removes objects in progress from a page. Returns the page if none of its objects remain.
    fn leave_objects(&mut self, id: u64, objects: u32) -> Option<u64> {
        let page = self.pages.get_mut(&id)?;
        page.under_way -= objects;
        if page.under_way > 0 || !page.left.is_empty() {
            return None;
        }
        self.pages.remove(&id);
        Some(id)
    }

    /// Opens a connection for the next object of a page or, with streams, for all objects, if there is an object left to
    /// request.
    fn connect(&mut self, id: u64, cx: &mut dyn TrafficContext) {
        let Some(page) = self.pages.get_mut(&id) else { return };
        let Some(bytes) = page.left.pop_front() else { return };
        let request = self.request;
        let exchange = |bytes| Exchange::immediate(request, bytes);
        let rest: Vec<Exchange> = match self.persistence.streams {
            Some(_) => page.left.drain(..).map(exchange).collect(),
            None => Vec::new(),
        };
        page.under_way += 1 + rest.len() as u32;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.page_of.insert(number, id);
        cx.converse(Conversation {
            number: Some(number),
            page: Some(id),
            page_objects: page.objects,
            host: page.host,
            rest,
            streams: self.persistence.streams,
            handshake: self.persistence.handshake,
            ..Conversation::single(exchange(bytes))
        });
        self.finish_if_last(id, number, cx);
    }

    /// Finishes the conversation if the page's last object has been requested, so that the server's last segment
    /// carries the FIN.
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
    use crate::http::Priority;
    use crate::testing::{RecordingContext, run_conversing};

    /// A workload that consists of a single page, with the sizes of the page's objects in bytes.
    #[derive(Clone)]
    struct OnePage {
        fetching: Fetching,
        sizes: Vec<u64>,
        over: Vec<(Instant, u64)>,
    }

    impl OnePage {
        fn new(connections: u32, sizes: &[u64]) -> Self {
            Self::over(Persistence { connections, streams: None, handshake: None }, sizes)
        }

        fn over(persistence: Persistence, sizes: &[u64]) -> Self {
            let fetching = Fetching::new(Some(persistence), Some(Size::from_bytes(300))).unwrap();
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
        fn on_connection_failed(&mut self, number: u32, cx: &mut dyn TrafficContext) {
            self.over.extend(self.fetching.on_connection_failed(number, cx).map(|page| (cx.now(), page)));
        }
    }

    /// Fetches the page. Each transfer takes one millisecond per byte.
    fn fetched(page: &mut OnePage) -> RecordingContext {
        run_conversing(page, Instant::NEVER, |_, exchange| Span::from_millis(exchange.response))
    }

    #[test]
    fn each_connection_fetches_the_next_object_until_the_page_is_complete() {
        let mut page = OnePage::new(2, &[10, 30, 5, 5, 40]);
        let recording = fetched(&mut page);
        let first: Vec<u64> = recording.conversations.iter().map(|(_, one)| one.first.response).collect();
        let millis = |at: Instant| at.nanos() / 1_000_000;
        let more: Vec<_> =
            recording.requests.iter().map(|&(at, number, it)| (millis(at), number, it.response)).collect();
        assert_eq!((first, more), (vec![10, 30], vec![(10, 0, 5), (15, 0, 5), (20, 0, 40)]));
        assert_eq!(page.over, [(Instant::from_nanos(60_000_000), 7)]);
        let conversation = &recording.conversations[0].1;
        assert_eq!((conversation.page, conversation.page_objects, conversation.host), (Some(7), 5, 3));
        // The first connection finishes when it requests the last object. The second connection finishes when there are
        // no more objects to request.
        let finished: Vec<_> = recording.finished.iter().map(|&(at, number)| (millis(at), number)).collect();
        assert_eq!(finished, [(20, 0), (30, 1), (60, 0)]);
    }

    #[test]
    fn a_page_has_no_more_connections_than_objects() {
        let mut page = OnePage::new(6, &[10, 20]);
        let recording = fetched(&mut page);
        assert_eq!((recording.conversations.len(), recording.requests.len()), (2, 0));
        assert_eq!(page.over, [(Instant::from_nanos(20_000_000), 7)]);
    }

    #[test]
    fn a_failed_connection_is_replaced_while_objects_are_left() {
        let mut page = OnePage::new(1, &[10, 20]);
        let mut recording = RecordingContext::default();
        page.start(&mut recording);
        page.on_connection_failed(0, &mut recording);
        assert_eq!((recording.conversations[1].1.number, page.over.len()), (Some(1), 0));
        page.on_connection_failed(1, &mut recording);
        assert_eq!((recording.conversations.len(), page.over.len()), (2, 1));
        page.on_response(1, &mut recording);
        assert_eq!(page.over.len(), 1, "the page is complete once");
    }

    #[test]
    fn with_streams_one_connection_requests_all_objects_at_once() {
        let handshake = Some(Exchange::immediate(517, 3000));
        let persistence = Persistence { connections: 1, streams: Some(Priority::RoundRobin), handshake };
        let mut page = OnePage::over(persistence, &[10, 20, 30]);
        let mut recording = RecordingContext::default();
        page.start(&mut recording);
        let conversation = &recording.conversations[0].1;
        let responses: Vec<u64> = conversation.rest.iter().map(|exchange| exchange.response).collect();
        assert_eq!((conversation.first.response, responses), (10, vec![20, 30]));
        assert_eq!((conversation.streams, conversation.handshake), (Some(Priority::RoundRobin), handshake));
        assert_eq!(conversation.page_objects, 3);
        for left in [2, 1, 0] {
            assert!(page.over.is_empty());
            page.on_response(0, &mut recording);
            assert_eq!(page.over.len(), usize::from(left == 0));
        }
        assert_eq!((recording.conversations.len(), recording.requests.len()), (1, 0));
    }

    #[test]
    fn with_streams_a_failed_connection_ends_the_page() {
        let persistence = Persistence { connections: 1, streams: Some(Priority::InOrder), handshake: None };
        let mut page = OnePage::over(persistence, &[10, 20, 30]);
        let mut recording = RecordingContext::default();
        page.start(&mut recording);
        page.on_response(0, &mut recording);
        page.on_connection_failed(0, &mut recording);
        assert_eq!((page.over.len(), recording.conversations.len()), (1, 1));
    }
}

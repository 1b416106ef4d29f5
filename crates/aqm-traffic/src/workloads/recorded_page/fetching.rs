//! The requests of a load: the discovery of objects, the connections to each host, and the events of objects.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::file::{AwaitedBy, Event, Page};
use super::{RecordedPage, Scheduled};
use crate::page_record::ObjectFetch;
use crate::{Conversation, TrafficContext};

/// A load in progress.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) user: u32,
    /// Number of parents of each object whose event has not occurred.
    waits_for: Vec<u32>,
    /// Position of each discovered object in the record.
    rows: Vec<Option<usize>>,
    /// Number of objects that are not complete: all objects, those for which the load event waits, and those for which
    /// the first rendering waits.
    incomplete: [u32; 3],
    hosts: Vec<Pool>,
}

/// The connections to a host.
#[derive(Clone, Default)]
struct Pool {
    /// All connections.
    all: Vec<u32>,
    /// Connections without a request in progress, if each connection carries one object at a time.
    idle: VecDeque<u32>,
    /// Objects that wait for a connection, in the order in which they will be requested.
    waiting: VecDeque<u32>,
}

/// A connection of a load.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) load: u64,
    host: u32,
    /// The requested objects in the order of the requests.
    objects: Vec<u32>,
}

impl Load {
    /// Creates a load by this user.
    pub(super) fn new(page: &Page, user: u32) -> Self {
        let awaited = |by| page.objects.iter().filter(|object| object.awaited_by >= by).count() as u32;
        Self {
            user,
            waits_for: page.objects.iter().map(|object| object.parents.len() as u32).collect(),
            rows: vec![None; page.objects.len()],
            incomplete: [AwaitedBy::Nothing, AwaitedBy::Load, AwaitedBy::Render].map(awaited),
            hosts: vec![Pool::default(); page.extra_rtt.len()],
        }
    }

    /// Returns the numbers of all connections.
    pub(super) fn connections(&self) -> impl Iterator<Item = u32> {
        self.hosts.iter().flat_map(|pool| pool.all.iter().copied())
    }
}

impl RecordedPage {
    /// Handles the discovery of an object: the client requests the object or puts the object into the queue of its host.
    pub(super) fn discover(&mut self, number: u64, object: u32, cx: &mut dyn TrafficContext) {
        let Some(load) = self.loads.get_mut(&number) else { return };
        let one = &self.page.objects[object as usize];
        load.rows[object as usize] = Some(self.record.objects.len());
        self.record.objects.push(ObjectFetch {
            page: number,
            object: object + 1,
            host: one.host + 1,
            bytes: one.exchange.response,
            discovered: cx.now(),
            requested: None,
            first_byte: None,
            completed: None,
        });
        let pool = &mut load.hosts[one.host as usize];
        let open = match self.persistence.streams {
            Some(_) => pool.all.first().copied(),
            None => pool.idle.pop_front(),
        };
        if let Some(connection) = open {
            self.request(connection, object, cx);
        } else if pool.all.len() < self.persistence.connections as usize {
            self.connect(number, object, cx);
        } else {
            let urgency = |object: u32| self.page.objects[object as usize].exchange.urgency;
            let position = pool.waiting.partition_point(|&other| urgency(other) <= urgency(object));
            pool.waiting.insert(position, object);
        }
    }

    /// Requests an object over an open connection.
    fn request(&mut self, connection: u32, object: u32, cx: &mut dyn TrafficContext) {
        cx.request(connection, self.page.objects[object as usize].exchange);
        self.note_request(connection, object, cx.now());
    }

    /// Opens a connection for an object.
    fn connect(&mut self, number: u64, object: u32, cx: &mut dyn TrafficContext) {
        let Some(load) = self.loads.get_mut(&number) else { return };
        let one = &self.page.objects[object as usize];
        let connection = self.next_connection;
        self.next_connection = self.next_connection.wrapping_add(1);
        load.hosts[one.host as usize].all.push(connection);
        let state = Connection { load: number, host: one.host, objects: Vec::new() };
        self.connections.insert(connection, state);
        cx.converse(Conversation {
            number: Some(connection),
            page: Some(number),
            page_objects: self.page.objects.len() as u32,
            // A connection that carries one object at a time has streams as well, so that all versions of HTTP report
            // the same events. The order of the streams has no effect in this case.
            streams: Some(self.persistence.streams.unwrap_or(crate::http::Priority::InOrder)),
            handshake: self.persistence.handshake,
            server_delay: Span::from_nanos(self.page.extra_rtt[one.host as usize].nanos() / 2),
            host: load.user % self.hosts,
            ..Conversation::single(one.exchange)
        });
        self.note_request(connection, object, cx.now());
    }

    /// Records the request of an object.
    fn note_request(&mut self, connection: u32, object: u32, now: Instant) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        connection.objects.push(object);
        let load = connection.load;
        if let Some(row) = self.row(load, object) {
            row.requested = Some(now);
        }
        self.occur(load, object, Event::Request, now);
    }

    /// Returns the row of a discovered object.
    fn row(&mut self, load: u64, object: u32) -> Option<&mut ObjectFetch> {
        let row = self.loads.get(&load)?.rows[object as usize]?;
        self.record.objects.get_mut(row)
    }

    /// Returns the load and the object of an exchange.
    fn object_of(&self, connection: u32, exchange: u32) -> Option<(u64, u32)> {
        let connection = self.connections.get(&connection)?;
        Some((connection.load, *connection.objects.get(exchange as usize)?))
    }

    /// Handles the first byte of an exchange's response.
    pub(super) fn on_object_begun(&mut self, number: u32, exchange: u32, cx: &mut dyn TrafficContext) {
        let Some((load, object)) = self.object_of(number, exchange) else { return };
        if let Some(row) = self.row(load, object) {
            row.first_byte = Some(cx.now());
        }
        self.occur(load, object, Event::FirstByte, cx.now());
    }

    /// Handles the last byte of an exchange's response. With HTTP/1.1, the connection carries the next object.
    pub(super) fn on_object_complete(&mut self, number: u32, exchange: u32, cx: &mut dyn TrafficContext) {
        let Some((id, object)) = self.object_of(number, exchange) else { return };
        let now = cx.now();
        if let Some(row) = self.row(id, object) {
            row.completed = Some(now);
        }
        self.occur(id, object, Event::End, now);
        let Some(load) = self.loads.get_mut(&id) else { return };
        let one = &self.page.objects[object as usize];
        let row = &mut self.record.loads[id as usize];
        row.objects += 1;
        let ends = [
            (AwaitedBy::Nothing, &mut row.complete),
            (AwaitedBy::Load, &mut row.load),
            (AwaitedBy::Render, &mut row.render),
        ];
        for (left, (by, end)) in load.incomplete.iter_mut().zip(ends) {
            if one.awaited_by >= by {
                *left -= 1;
                *end = (*left == 0).then_some(now);
            }
        }
        if load.incomplete[0] == 0 {
            return self.end_load(id, false, cx);
        }
        if self.persistence.streams.is_some() {
            return;
        }
        let Some(connection) = self.connections.get(&number) else { return };
        let pool = &mut load.hosts[connection.host as usize];
        match pool.waiting.pop_front() {
            Some(next) => self.request(number, next, cx),
            None => pool.idle.push_back(number),
        }
    }

    /// Schedules the discovery of the objects that depend on this event.
    fn occur(&mut self, id: u64, object: u32, event: Event, now: Instant) {
        let page = std::sync::Arc::clone(&self.page);
        for &child in &page.children[object as usize] {
            let one = &page.objects[child as usize];
            let Some(load) = self.loads.get_mut(&id).filter(|_| one.event == event) else { continue };
            let waits_for = &mut load.waits_for[child as usize];
            *waits_for -= 1;
            if *waits_for == 0 {
                self.schedule.add(now + one.delay, Scheduled::Discovery { load: id, object: child });
            }
        }
    }
}

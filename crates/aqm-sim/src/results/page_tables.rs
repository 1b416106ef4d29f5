//! The schemas of the tables of recorded pages.

use aqm_net::{Instant, table};
use aqm_traffic::page_record::{ObjectFetch, PageLoad};

table! {
    /// A load of a recorded page by a user.
    ///
    /// Only runs with workloads of the kind `recorded-page` have this table. Rows of a workload are in the order in which
    /// the loads begin, and include the warm-up.
    PageLoadRow as "page_loads" {
        /// Workload of the page.
        traffic: Word(u32),
        /// Number of the load within its workload; equal to the column `page` of the table `pages`.
        page: Whole(u64),
        /// Number of the user within the workload.
        user: Whole(u64),
        /// Time at which the load begins.
        start_s: Real(f64),
        /// Time from the start to the last byte of the last render-blocking object; missing if such an object did not
        /// arrive, or if the page has no render-blocking objects.
        render_s: MaybeReal(Option<f64>),
        /// Time from the start to the last byte of the last object for which the load event of the page waits; missing if
        /// such an object did not arrive.
        load_s: MaybeReal(Option<f64>),
        /// Time from the start to the last byte of the last object; missing if an object did not arrive.
        duration_s: MaybeReal(Option<f64>),
        /// Number of objects that arrived.
        objects: Whole(u64),
        /// Whether a connection of the page failed. A failed connection ends the load.
        failed: Truth(bool),
    }
}

impl PageLoadRow {
    pub(crate) fn new(traffic: u32, load: &PageLoad) -> Self {
        let after = |at: Option<Instant>| at.map(|at| at.since(load.start).seconds());
        Self {
            traffic,
            page: load.page,
            user: load.user.into(),
            start_s: load.start.seconds(),
            render_s: after(load.render),
            load_s: after(load.load),
            duration_s: after(load.complete),
            objects: load.objects.into(),
            failed: load.failed,
        }
    }
}

table! {
    /// An object of a recorded page.
    ///
    /// Only runs with workloads of the kind `recorded-page` have this table. Times count from the start of the load. Rows
    /// of a workload are in the order in which the client discovers the objects, and include the warm-up. An object that
    /// the client does not discover has no row.
    PageObjectRow as "page_objects" {
        /// Workload of the page.
        traffic: Word(u32),
        /// Number of the load within its workload.
        page: Whole(u64),
        /// Number of the object in the file of the page, counted from 1.
        object: Whole(u64),
        /// Number of the object's host.
        host: Whole(u64),
        /// Size of the response in bytes.
        size_bytes: Whole(u64),
        /// Time at which the client discovers the object.
        discovered_s: Real(f64),
        /// Time at which the client sends the request or, if the client opens a connection for the object, the first
        /// packet of the handshake; missing if the object waits for a connection at the end of the load.
        requested_s: MaybeReal(Option<f64>),
        /// Arrival time of the first byte of the response; missing if no byte arrived.
        first_byte_s: MaybeReal(Option<f64>),
        /// Arrival time of the last byte of the response; missing if the response is incomplete.
        end_s: MaybeReal(Option<f64>),
    }
}

impl PageObjectRow {
    /// Creates the row of an object of a load that began at `start`.
    pub(crate) fn new(traffic: u32, start: Instant, object: &ObjectFetch) -> Self {
        let after = |at: Option<Instant>| at.map(|at| at.since(start).seconds());
        Self {
            traffic,
            page: object.page,
            object: object.object.into(),
            host: object.host.into(),
            size_bytes: object.bytes,
            discovered_s: object.discovered.since(start).seconds(),
            requested_s: after(object.requested),
            first_byte_s: after(object.first_byte),
            end_s: after(object.completed),
        }
    }
}

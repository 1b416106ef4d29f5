//! What a workload of recorded pages records over time, for the result tables.

use aqm_net::Instant;

/// A load of a page by a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLoad {
    /// Number of the load within the workload, counted from zero.
    pub page: u64,
    /// Number of the user within the workload.
    pub user: u32,
    /// Time at which the load begins.
    pub start: Instant,
    /// Arrival time of the last byte of the last render-blocking object; `None` if such an object is missing.
    pub render: Option<Instant>,
    /// Arrival time of the last byte of the last object for which the load event waits; `None` if such an object is
    /// missing.
    pub load: Option<Instant>,
    /// Arrival time of the last byte of the last object; `None` if an object is missing.
    pub complete: Option<Instant>,
    /// Number of objects that have arrived.
    pub objects: u32,
    /// Whether a connection of the page failed.
    pub failed: bool,
}

/// An object of a page that a client has discovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFetch {
    /// Number of the load to which the object belongs.
    pub page: u64,
    /// Number of the object in the file of the page, counted from one.
    pub object: u32,
    /// Number of the object's host.
    pub host: u32,
    /// Size of the response in bytes.
    pub bytes: u64,
    /// Time at which the client discovers the object.
    pub discovered: Instant,
    /// Time at which the client requests the object or opens a connection for the object.
    pub requested: Option<Instant>,
    /// Arrival time of the first byte of the response.
    pub first_byte: Option<Instant>,
    /// Arrival time of the last byte of the response.
    pub completed: Option<Instant>,
}

/// The record of all page loads of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRecord {
    /// The loads in the order of their numbers.
    pub loads: Vec<PageLoad>,
    /// The objects in the order of discovery.
    pub objects: Vec<ObjectFetch>,
}

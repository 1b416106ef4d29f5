//! The event engine: the events, the order of events, and the event queue.
//!
//! `event.rs` defines events and the order of events that occur in the same nanosecond. `event_queue.rs` stores packets
//! in lanes (`ring.rs`), and timers and the remaining packets in a timing wheel (`wheel.rs`). `prefetch.rs` and
//! `huge_pages.rs` give hints to the processor and the operating system.

pub(crate) mod event;
pub(crate) mod event_queue;
pub(crate) mod huge_pages;
pub(crate) mod prefetch;
pub(crate) mod ring;
pub(crate) mod wheel;

//! TCP: a sender of data, a receiver, their timers and the sender's window law.
//!
//! Nothing here waits, reads a clock or knows a network. An end is told what happened
//! (`on_segment`, `on_timer`) and asked what follows (`poll_transmit`, `poll_timeout`). One end
//! sends data, the other acknowledges it; [`Config`] says how, [`Tcp`] is a checked `Config`.
//!
//! What is split, because the papers vary it separately: when a segment counts as lost
//! ([`Scoreboard`]), how far the window opens ([`control`]) and how long to wait ([`rtt`]).

pub mod control;
mod counts;
mod overhead;
mod profile;
mod receiver;
pub mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod settings;

pub use counts::{Counts, GaveUp};
pub use profile::{
    Close, Config, DelayedAck, ExitAck, FastRetransmitGuard, GrowthWhenLimited, Handshake, Hint, LastSegment,
    LimitedTransmit, ReductionBasis, RepeatedTimeout, profiles, read,
};
pub use receiver::Receiver;
pub use scoreboard::{News, Scoreboard};
pub use segment::{Flags, Segment};
pub use sender::Sender;
pub use settings::Tcp;

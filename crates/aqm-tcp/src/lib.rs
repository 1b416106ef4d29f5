//! TCP: two ends that open a connection, send data both ways and close it.
//!
//! Nothing here waits, reads a clock or knows a network. An [`Endpoint`] is told what happened
//! (`on_segment`, `on_timer`) and asked what follows (`poll_transmit`, `poll_timeout`). [`Config`]
//! says how it behaves, [`CheckedConfig`] is a checked `Config`.
//!
//! What is split, because the papers vary it separately: when a segment counts as lost and what is
//! sent again (`recovery`), how far the window opens ([`control`]) and how long to wait ([`rtt`]).

mod adaptive_ack;
pub mod control;
mod counts;
mod endpoint;
mod overhead;
mod presets;
mod profile;
mod profiles;
mod receiver;
mod recovery;
pub mod rtt;
mod segment;
mod sender;
mod settings;
mod timer;

pub use counts::{Counts, GaveUp};
pub use endpoint::Endpoint;
pub use presets::{Preset, presets, transport};
pub use profile::{
    BackOffEnd, Close, Config, DelayedAck, Doubtful, Dsack, EcnUse, ExitAck, ExitWindow, FastRetransmitGuard,
    FinAck, Frto, GrowthWhenLimited, Handshake, HandshakeAck, Hint, IdleRestart, Inflation, LastSegment,
    LimitedTransmit, MarkResponse, Nagle, PartialAckTimer, Pipe, PrrBound, PrrShare, Recovery, Reduction,
    ReductionBasis, RepeatedSyn, RepeatedTimeout, RttSamples, SackBytes, SacksAtTimeout, TimeoutLoses,
    TimerFollows, TimerRestart, Undo,
};
pub use profiles::{Profile, lay_over, profiles, read};
pub use rtt::{MinRto, RtoArithmetic, TimerClock};
pub use segment::{Flags, Sacks, Segment};
pub use settings::CheckedConfig;

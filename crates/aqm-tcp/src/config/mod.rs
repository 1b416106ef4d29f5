//! What one may choose about TCP: every parameter with its choices, its default and the default's source.
//!
//! A table of a scenario is a file here: `[tcp.rto]` is `rto.rs`; the parameters of a congestion control are
//! with the congestion control. The defaults are the profile `rfc`, TCP Reno without SACK and timestamps as
//! today's RFCs have it. Other sets of values are in `profiles.rs`; `check.rs` says what may be combined.

mod check;
pub mod connection;
pub mod cwnd;
pub mod ecn;
pub mod receiver;
pub mod recovery;
pub mod rto;
pub mod sack;

use aqm_net::parameters;
use serde_json::Value;

pub use check::CheckedConfig;
use connection::Connection;
use cwnd::Cwnd;
use ecn::Ecn;
use receiver::Receiver;
use recovery::Recovery;
use rto::Rto;
use sack::Sack;

use crate::congestion_control::Control;

parameters! {
    /// TCP: connections whose ends both send, acknowledge and answer congestion.
    pub struct Config {
        /// Segments, opening and closing.
        pub connection: Connection = Connection::default(), "RFC 9293";
        /// The congestion control: what moves the congestion window.
        pub congestion_control: Control = Control::default(), "RFC 5681";
        /// What a sender does with its congestion window, whichever congestion control moves it.
        pub cwnd: Cwnd = Cwnd::default(), "RFC 5681";
        /// How losses are found and repaired.
        pub recovery: Recovery = Recovery::default(), "RFC 5681, 3.2";
        /// Selective acknowledgements, with the recoveries `sack` and `rack`.
        pub sack: Sack = Sack::default(), "RFC 2018, RFC 6675";
        /// The retransmission timer.
        pub rto: Rto = Rto::default(), "RFC 6298";
        /// The window a receiver offers, and when it acknowledges.
        pub receiver: Receiver = Receiver::default(), "RFC 9293; RFC 5681, 4.2";
        /// Explicit congestion notification.
        pub ecn: Ecn = Ecn::default(), "RFC 3168";
    }
}

impl Config {
    /// The table in full, every default filled in.
    ///
    /// # Panics
    /// Never: every parameter can be written.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("parameters can be written")
    }
}

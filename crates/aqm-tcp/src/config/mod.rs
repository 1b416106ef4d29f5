//! TCP parameters, with their allowed values, their defaults, and the source of each default.
//!
//! Each table of a scenario has its own file in this folder. For example, the table `[tcp.rto]` is in `rto.rs`. The
//! parameters of each congestion control are in the file of that congestion control. The defaults are those of the
//! profile `rfc`: TCP Reno without SACK or timestamps, according to the current RFCs. Other sets of values are in
//! `profiles.rs`, and the valid combinations are in `check.rs`.

mod check;
pub mod connection;
pub mod cwnd;
pub mod ecn;
pub mod pacing;
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
use pacing::Pacing;
use receiver::Receiver;
use recovery::Recovery;
use rto::Rto;
use sack::Sack;

use crate::congestion_control::Control;

parameters! {
    /// TCP connections, whose endpoints send data, acknowledge data, and respond to congestion.
    pub struct Config {
        /// Segment sizes, and the opening and closing of connections.
        pub connection: Connection = Connection::default(), "RFC 9293";
        /// Congestion control, which is the algorithm that sets the congestion window.
        pub congestion_control: Control = Control::default(), "RFC 5681";
        /// Rules for the congestion window that do not depend on the congestion control.
        pub cwnd: Cwnd = Cwnd::default(), "RFC 5681";
        /// Loss detection and retransmission.
        pub recovery: Recovery = Recovery::default(), "RFC 5681, 3.2";
        /// Selective acknowledgements, which `recovery.kind = "sack"` and `"rack"` use.
        pub sack: Sack = Sack::default(), "RFC 2018, RFC 6675";
        /// Retransmission timer.
        pub rto: Rto = Rto::default(), "RFC 6298";
        /// Receive window and delayed acknowledgements.
        pub receiver: Receiver = Receiver::default(), "RFC 9293; RFC 5681, 4.2";
        /// Explicit congestion notification.
        pub ecn: Ecn = Ecn::default(), "RFC 3168";
        /// Spacing of segments in time.
        #[serde(skip_serializing_if = "Pacing::is_default")]
        pub pacing: Pacing = Pacing::default(), "Linux";
    }
}

impl Config {
    /// Returns the complete table, including every default.
    ///
    /// # Panics
    /// Never panics, because every parameter can be serialized.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("every parameter can be serialized")
    }
}

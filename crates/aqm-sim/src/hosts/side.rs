//! The two ends of a flow, which also identify the two directions of its packets.

/// An end of a flow, and the index of arrays with a value for each end. The direction of a packet is identified by the
/// end to which it travels: data travel to the receiver, requests and acknowledgements to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// The end that sends the data of a transfer.
    Sender,
    /// The end that receives the data of a transfer.
    Receiver,
}

impl Side {
    /// Returns the other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

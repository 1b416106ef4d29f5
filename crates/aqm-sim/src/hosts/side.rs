//! The two ends of a flow, which also identify the two directions of the flow's packets.

/// An end of a flow, which is also the index of arrays with a value for each end. The end to which a packet travels
/// identifies the direction of the packet. Data packets travel to the receiver, and requests and acknowledgements
/// travel to the sender.
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

//! The two ends of a flow, and with them the two directions of its packets.

/// An end of a flow, and the index of arrays that hold something for each end. The direction of a packet is
/// told by the end it travels to: data go to the receiver, requests and acknowledgements to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// Where the data of a transfer come from.
    Sender,
    /// Where the data of a transfer go.
    Receiver,
}

impl Side {
    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

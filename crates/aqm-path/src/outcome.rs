//! The outcome of a datagram, and the identifiers that an outcome contains.

use aqm_net::{Ecn, Instant};
use aqm_queue::Reason;

/// The direction in which a datagram travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Over the links in `forward`.
    Forward,
    /// Over the links in `reverse`.
    Reverse,
}

impl Direction {
    /// Returns the opposite direction.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
}

/// Number of a datagram. The datagrams of a path are numbered from zero in the order in which they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramId(pub(crate) u64);

impl DatagramId {
    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Number of a flow. The flows of a path are numbered from zero in the order in which they are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) u32);

impl FlowId {
    /// Returns the identifier of the flow with this number, for programs that store numbers.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Identifier of a link; [`Path::link_name`](crate::Path::link_name) returns the name of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// The ECN mark of a delivered datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The link whose queue marked the datagram. If several queues marked the datagram, this is the first of them.
    pub link: LinkId,
    /// Reason for the mark.
    pub reason: Reason,
    /// Time of the mark.
    pub at: Instant,
}

/// The outcome of a datagram. Each datagram has one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The datagram left the last link of the path.
    Delivered {
        /// Number of the datagram.
        id: DatagramId,
        /// Flow of the datagram.
        flow: FlowId,
        /// Direction of the datagram.
        direction: Direction,
        /// ECN codepoint after the datagram has passed all queues.
        ecn: Ecn,
        /// The mark, if a queue of the path marked the datagram.
        mark: Option<Mark>,
        /// Time at which the datagram arrives at the end of the path.
        at: Instant,
    },
    /// The datagram was dropped by a queue or lost on a link.
    Dropped {
        /// Number of the datagram.
        id: DatagramId,
        /// Flow of the datagram.
        flow: FlowId,
        /// Direction of the datagram.
        direction: Direction,
        /// The link that dropped or lost the datagram.
        link: LinkId,
        /// Reason for the drop; [`Reason::LineLoss`] if the datagram was lost on the link.
        reason: Reason,
        /// Time at which the datagram was dropped. A lost datagram is dropped when its transmission begins.
        at: Instant,
    },
}

impl Outcome {
    /// Returns the number of the datagram.
    pub const fn id(&self) -> DatagramId {
        match *self {
            Self::Delivered { id, .. } | Self::Dropped { id, .. } => id,
        }
    }

    /// Returns the flow of the datagram.
    pub const fn flow(&self) -> FlowId {
        match *self {
            Self::Delivered { flow, .. } | Self::Dropped { flow, .. } => flow,
        }
    }

    /// Returns the direction of the datagram.
    pub const fn direction(&self) -> Direction {
        match *self {
            Self::Delivered { direction, .. } | Self::Dropped { direction, .. } => direction,
        }
    }

    /// Returns the time at which the datagram was delivered or dropped.
    pub const fn at(&self) -> Instant {
        match *self {
            Self::Delivered { at, .. } | Self::Dropped { at, .. } => at,
        }
    }
}

//! What a workload of calls records over time, for the result tables.

use aqm_net::Instant;

/// A direction of a call: the number of the flow, and whether the flow is a backward flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFlow {
    /// Number of the flow within the workload.
    pub flow: u32,
    /// Whether the flow is a backward flow.
    pub back: bool,
}

/// One second of one direction of a call. Packets are packets of audio, video and padding; feedback is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallSecond {
    /// Number of the second since the start of the run, counted from zero.
    pub second: u64,
    /// Mean target rate of the rate control, in bits per second.
    pub target_bps: f64,
    /// Bytes of the packets that were sent in this second.
    pub sent_bytes: u64,
    /// Bytes of the packets that arrived in this second.
    pub received_bytes: u64,
    /// Number of packets that were sent in this second.
    pub packets_sent: u64,
    /// Number of packets, out of `packets_sent`, that arrived before the end of the run.
    pub packets_received: u64,
    /// Sum of the one-way delays of the packets that `packets_received` counts, in seconds.
    pub delay_sum_s: f64,
    /// Number of frames that were sent in this second.
    pub frames_sent: u64,
    /// Number of frames that were rendered in this second.
    pub frames_rendered: u64,
    /// Number of freezes that ended in this second.
    pub freezes: u64,
    /// Total duration of these freezes, in seconds.
    pub frozen_s: f64,
}

/// A video frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallFrame {
    /// Time at which the frame was captured, encoded and passed to the pacer.
    pub captured: Instant,
    /// Size in bytes, including headers.
    pub bytes: u64,
    /// Whether the frame can be decoded without another frame.
    pub key: bool,
    /// Time at which the receiver rendered the frame; `None` if the frame was not rendered.
    pub rendered: Option<Instant>,
    /// Duration of the freeze that the frame ended, in seconds; 0 if there was no freeze.
    pub freeze_s: f64,
}

/// The record of one direction of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// The direction.
    pub flow: CallFlow,
    /// The seconds in which the call was active, in order.
    pub seconds: Vec<CallSecond>,
    /// The frames in the order of capture.
    pub frames: Vec<CallFrame>,
}

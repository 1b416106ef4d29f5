//! The schemas of the tables of video calls.

use aqm_net::table;
use aqm_traffic::call_record::{CallFrame, CallSecond};

table! {
    /// One second of one direction of a video call.
    ///
    /// Only runs with workloads of the kind `video-call` have this table. Rows of a flow are in chronological order, and
    /// include the warm-up. Packets are packets of audio, video and padding, without feedback and requests. Sizes and
    /// rates include headers.
    CallRow as "calls" {
        /// Begin of the second.
        time_s: Real(f64),
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Whether the direction is the backward direction of the call.
        backward: Truth(bool),
        /// Mean target rate of the sender's rate control.
        target_bps: Real(f64),
        /// Rate of the packets that were sent in this second.
        sent_bps: Real(f64),
        /// Rate of the packets that arrived in this second.
        received_bps: Real(f64),
        /// Number of packets that were sent in this second.
        packets_sent: Whole(u64),
        /// Number of packets, out of `packets_sent`, that arrived before the end of the run.
        packets_received: Whole(u64),
        /// Mean one-way delay of these packets; missing if no packet arrived.
        delay_s: MaybeReal(Option<f64>),
        /// Number of video frames that were captured in this second.
        frames_sent: Whole(u64),
        /// Number of video frames that were rendered in this second.
        frames_rendered: Whole(u64),
        /// Number of freezes that ended in this second.
        freezes: Whole(u64),
        /// Total duration of these freezes.
        frozen_s: Real(f64),
    }
}

impl CallRow {
    /// Creates the row of a second. `flow` contains the number of the flow, its workload, and whether the flow is a
    /// backward flow.
    pub(crate) fn new((flow, traffic, backward): (u64, u32, bool), second: &CallSecond) -> Self {
        let received = second.packets_received;
        Self {
            time_s: second.second as f64,
            flow,
            traffic,
            backward,
            target_bps: second.target_bps,
            sent_bps: 8.0 * second.sent_bytes as f64,
            received_bps: 8.0 * second.received_bytes as f64,
            packets_sent: second.packets_sent,
            packets_received: received,
            delay_s: (received > 0).then(|| second.delay_sum_s / received as f64),
            frames_sent: second.frames_sent,
            frames_rendered: second.frames_rendered,
            freezes: second.freezes,
            frozen_s: second.frozen_s,
        }
    }
}

table! {
    /// A video frame of a video call.
    ///
    /// Only runs with workloads of the kind `video-call` have this table. Rows of a flow are in the order of capture,
    /// and include the warm-up.
    FrameRow as "frames" {
        /// Time at which the frame was captured, encoded and passed to the pacer.
        time_s: Real(f64),
        /// Number of the flow.
        flow: Whole(u64),
        /// Workload of the flow.
        traffic: Word(u32),
        /// Whether the direction is the backward direction of the call.
        backward: Truth(bool),
        /// Number of the frame within the flow.
        frame: Whole(u64),
        /// Size of the frame, including the headers of its packets.
        size_bytes: Whole(u64),
        /// Whether the frame is a key frame, which can be decoded without another frame.
        key: Truth(bool),
        /// Time from capture to rendering, which includes the pacer; missing if the frame was not rendered.
        delay_s: MaybeReal(Option<f64>),
        /// Duration of the freeze that the frame ended; 0 if there was no freeze.
        freeze_s: Real(f64),
    }
}

impl FrameRow {
    /// Creates the row of the frame `number`. `flow` contains the number of the flow, its workload, and whether the flow
    /// is a backward flow.
    pub(crate) fn new((flow, traffic, backward): (u64, u32, bool), number: u64, frame: &CallFrame) -> Self {
        Self {
            time_s: frame.captured.seconds(),
            flow,
            traffic,
            backward,
            frame: number,
            size_bytes: frame.bytes,
            key: frame.key,
            delay_s: frame.rendered.map(|at| at.since(frame.captured).seconds()),
            freeze_s: frame.freeze_s,
        }
    }
}

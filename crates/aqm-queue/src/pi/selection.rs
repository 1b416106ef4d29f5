//! Random selection of arriving packets to drop or mark, with a probability that a controller computes; used by PI and
//! REM.

use aqm_net::{ErrorCollector, Packet, Size, choices, parameters};

use crate::start::Start;
use crate::{Context, Evidence, Fifo, Reason};

choices! {
    /// Condition for marking an ECN-capable packet instead of dropping it.
    pub enum EcnRule {
        /// Packets are never marked.
        Off = "off",
        /// Packets are marked unless the queue is full.
        Always = "always",
    }
}

parameters! {
    /// Selection of arriving packets by a controller.
    pub struct Selection {
        /// Typical packet size, which is used to convert bytes to packets, and is the reference size for
        /// `scale_by_size`.
        pub mean_packet: Size = Size::from_bytes(500), "ns-2";
        /// Whether the probability is multiplied by the ratio of the packet size to `mean_packet`.
        pub scale_by_size: bool = false, "ns-2: PI's `bytes_`; REM: with `qib_`";
        /// Treatment of an ECN-capable packet that is selected to be dropped. A selected packet that is not ECN-capable
        /// is always dropped.
        pub ecn: EcnRule = EcnRule::Off, "ns-2: PI's `setbit_`, REM's `markpkts_`; in the papers, packets are marked";
        /// State of the controller at the start of the run. `settled`: the controller has been running for a long time.
        /// `fresh`: the controller starts at the beginning of the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

impl Selection {
    /// Reports every invalid parameter.
    pub(super) fn check(&self, errors: &mut ErrorCollector) {
        errors.check(self.mean_packet.bytes() > 0, "mean_packet", "must be at least 1B");
    }

    /// Drops, marks or enqueues an arriving `packet`, which is selected with the probability `p`.
    #[inline(always)]
    pub(super) fn admit(&self, mut packet: Packet, p: f64, fifo: &mut Fifo, cx: &mut Context<'_>) {
        if !fifo.has_room_for(&packet) {
            return cx.drop(packet, Reason::Overflow);
        }
        let mean = self.mean_packet.bytes() as f64;
        let size = if self.scale_by_size { f64::from(packet.bytes) / mean } else { 1.0 };
        let p = (p * size).min(1.0);
        if p > 0.0
            && let draw = cx.rng.uniform()
            && draw < p
        {
            if self.ecn == EcnRule::Off || !packet.ecn.can_be_marked() {
                return cx.drop_on(packet, Reason::Early, Evidence::drawn(p, draw));
            }
            cx.mark(&mut packet, Reason::Early);
        }
        fifo.push(packet);
    }
}

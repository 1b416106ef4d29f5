//! Delays of arriving packets at a host. The packets of a flow are processed in order of arrival.

use aqm_net::{Instant, Span};

use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::hosts::side::Side;

/// The delays of all flows, by slot. The list is empty as long as no host delays packets.
#[derive(Default)]
pub(crate) struct HostDelays {
    flows: Vec<FlowDelays>,
}

/// The delays of the packets of one flow.
#[derive(Clone, Copy, Default)]
struct FlowDelays {
    /// Additional delay of the packets that arrive at each end, by side.
    extra: [Span; 2],
    /// Time at which each end processes its last packet, by side.
    processed_at: [Instant; 2],
}

impl HostDelays {
    /// Opens a flow in `slot`. `extra` contains the additional delays of the flow's packets, by side.
    pub(crate) fn open(&mut self, slot: u32, extra: [Span; 2]) {
        *self.of(slot) = FlowDelays { extra, processed_at: [Instant::START; 2] };
    }

    /// Increases the delays of the flow in `slot` by `more`, which contains one value for each side.
    pub(crate) fn lengthen(&mut self, slot: u32, more: [Span; 2]) {
        for (extra, more) in self.of(slot).extra.iter_mut().zip(more) {
            *extra = *extra + more;
        }
    }

    /// Returns the time at which a packet that arrives at `now` is processed. `work` is the processing time of the
    /// packet.
    pub(crate) fn processed_at(&mut self, (slot, side): (u32, Side), now: Instant, work: Span) -> Instant {
        let FlowDelays { extra, processed_at } = self.of(slot);
        let processed_at = &mut processed_at[side as usize];
        *processed_at = (now + extra[side as usize] + work).max(*processed_at);
        *processed_at
    }

    /// Prefetches the delays of the flow in `slot`.
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.flows, slot as usize);
    }

    /// Returns the delays of the flow in `slot`. The delays are zero if no host was delaying packets when the flow was
    /// opened.
    fn of(&mut self, slot: u32) -> &mut FlowDelays {
        if self.flows.len() <= slot as usize {
            let capacity = self.flows.capacity();
            self.flows.resize(slot as usize + 1, FlowDelays::default());
            if self.flows.capacity() > capacity {
                prefer_huge_pages(&self.flows);
            }
        }
        &mut self.flows[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_flow_stay_in_order_and_do_not_delay_others() {
        let mut delays = HostDelays::default();
        let (at, after) = (Instant::from_nanos, Span::from_nanos);
        delays.open(3, [after(60), after(10)]);
        delays.lengthen(3, [after(40), Span::ZERO]);
        let process =
            |delays: &mut HostDelays, to, now, work| delays.processed_at(to, at(now), after(work)).nanos();
        let (sender, receiver) = ((3, Side::Sender), (3, Side::Receiver));
        assert_eq!(process(&mut delays, sender, 1000, 50), 1150);
        assert_eq!(process(&mut delays, sender, 1001, 0), 1150, "not before the previous packet");
        assert_eq!(process(&mut delays, receiver, 1001, 0), 1011);
        assert_eq!(process(&mut delays, (0, Side::Sender), 1001, 7), 1008, "this flow has no delays");
        delays.open(3, [Span::ZERO; 2]);
        assert_eq!(process(&mut delays, sender, 1002, 0), 1002, "another flow uses the slot");
    }
}

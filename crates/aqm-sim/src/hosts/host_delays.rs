//! How long packets wait at their hosts before they are processed, in the order of their arrival.

use aqm_net::{Instant, Span};

use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::hosts::side::Side;

/// The delays of all flows, by slot: none are kept while no host takes time.
#[derive(Default)]
pub(crate) struct HostDelays {
    flows: Vec<FlowDelays>,
}

/// The delays of the packets of one flow.
#[derive(Clone, Copy, Default)]
struct FlowDelays {
    /// By side, how long a packet that arrives there is delayed before the host processes it.
    extra: [Span; 2],
    /// By side, when the host has processed the last packet that arrived.
    processed_at: [Instant; 2],
}

impl HostDelays {
    /// A flow is opened in `slot`, whose packets are delayed by so much on each side.
    pub(crate) fn open(&mut self, slot: u32, extra: [Span; 2]) {
        *self.of(slot) = FlowDelays { extra, processed_at: [Instant::START; 2] };
    }

    /// Packets of the flow in `slot` are delayed on each side by so much more.
    pub(crate) fn lengthen(&mut self, slot: u32, more: [Span; 2]) {
        for (extra, more) in self.of(slot).extra.iter_mut().zip(more) {
            *extra = *extra + more;
        }
    }

    /// When a packet is processed that arrives now and that the host works on for `work`.
    pub(crate) fn processed_at(&mut self, (slot, side): (u32, Side), now: Instant, work: Span) -> Instant {
        let FlowDelays { extra, processed_at } = self.of(slot);
        let processed_at = &mut processed_at[side as usize];
        *processed_at = (now + extra[side as usize] + work).max(*processed_at);
        *processed_at
    }

    /// Asks for those of the flow in `slot`.
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.flows, slot as usize);
    }

    /// Those of the flow in `slot`; a flow that was opened while no host took time has none.
    fn of(&mut self, slot: u32) -> &mut FlowDelays {
        if self.flows.len() <= slot as usize {
            let room = self.flows.capacity();
            self.flows.resize(slot as usize + 1, FlowDelays::default());
            if self.flows.capacity() > room {
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
    fn packets_of_a_flow_stay_in_order_on_each_side_and_others_do_not_wait_for_them() {
        let mut delays = HostDelays::default();
        let (at, after) = (Instant::from_nanos, Span::from_nanos);
        delays.open(3, [after(60), after(10)]);
        delays.lengthen(3, [after(40), Span::ZERO]);
        let process =
            |delays: &mut HostDelays, to, now, work| delays.processed_at(to, at(now), after(work)).nanos();
        let (sender, receiver) = ((3, Side::Sender), (3, Side::Receiver));
        assert_eq!(process(&mut delays, sender, 1000, 50), 1150);
        assert_eq!(process(&mut delays, sender, 1001, 0), 1150, "not before the one before it");
        assert_eq!(process(&mut delays, receiver, 1001, 0), 1011);
        assert_eq!(process(&mut delays, (0, Side::Sender), 1001, 7), 1008, "nothing was said of this flow");
        delays.open(3, [Span::ZERO; 2]);
        assert_eq!(process(&mut delays, sender, 1002, 0), 1002, "the slot is used again by another flow");
    }
}

//! A discipline of its own for each flow.
//!
//! A child admits, drops and marks as it likes, at both ends; the flow's chain of packets mirrors what
//! waits in it, so the order knows the packet that is likely to come next, and the shared buffer knows who fills
//! it. An idle flow keeps its child until 65,536 other flows have fallen idle since.

use aqm_net::{ConfigError, ConfigErrors, Instant, Packet, Rate, Rng};

use crate::{Acknowledgement, Config, Context, Label, Observer, QueueDiscipline, Reason};

/// The running disciplines, by flow.
#[derive(Clone)]
pub(super) struct Children {
    /// One that has seen no packet, and knows every label.
    fresh: Box<dyn QueueDiscipline>,
    running: Vec<Option<Box<dyn QueueDiscipline>>>,
    /// Who may have fallen idle with the packet last sent.
    emptied: Option<u32>,
    /// What a child has dropped, until the flow's chain knows.
    pub dropped: Vec<u32>,
}

impl Children {
    /// Children of one kind, for a line of this rate; the parameters are checked.
    pub fn new(child: &Config, rate: Rate) -> Result<Self, ConfigErrors> {
        let problem = format_args!("must send whenever it is asked: `{}` holds packets back", child.kind());
        ConfigError::unless(!child.holds_back(), "child.kind", problem)?;
        let fresh = child.build(rate).map_err(|errors| errors.within("child"))?;
        Ok(Self { fresh, running: Vec::new(), emptied: None, dropped: Vec::new() })
    }

    /// The children of flows that have a number.
    pub fn running(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
        self.running.iter().filter_map(|child| child.as_deref())
    }

    /// `flow` is new: it gets a child that has seen nothing.
    pub fn on_new_flow(&mut self, flow: u32) {
        if self.running.len() <= flow as usize {
            self.running.resize_with(flow as usize + 1, || None);
        }
        self.running[flow as usize] = Some(self.fresh.clone());
    }

    /// A run begins: the children of all flows have timers of the same phase.
    pub fn on_start(&mut self, chance: &mut Rng) {
        self.fresh.on_start(chance);
    }

    /// Tells all of them, and those to come.
    pub fn on_label(&mut self, number: u16, label: &Label) {
        let running = self.running.iter_mut().flatten();
        running.chain([&mut self.fresh]).for_each(|child| child.on_label(number, label));
    }

    /// Offers `packet` to the child of `flow`.
    pub fn enqueue(&mut self, flow: u32, packet: Packet, cx: &mut Context<'_>) {
        self.with(flow, cx, |child, cx| child.enqueue(packet, cx));
    }

    /// Asks the child of `flow`, which has something, for a packet.
    pub fn dequeue(&mut self, flow: u32, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.with(flow, cx, |child, cx| child.dequeue(cx));
        self.emptied = Some(flow);
        packet
    }

    /// The line is free again: a child that gave its last packet, and has got none since, hears that it
    /// is idle.
    pub fn on_line_free(&mut self, cx: &mut Context<'_>) {
        if let Some(flow) = self.emptied.take() {
            self.with(flow, cx, |child, cx| {
                if child.backlog().packets == 0 {
                    child.dequeue(cx);
                }
            });
        }
    }

    fn with<T>(
        &mut self,
        flow: u32,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> T,
    ) -> T {
        let mut witness = Witness { dropped: &mut self.dropped, outer: cx.observer };
        let mut cx = Context { now: cx.now, rng: cx.rng, observer: &mut witness };
        let child = self.running[flow as usize].as_mut().expect("a flow has a child");
        act(child.as_mut(), &mut cx)
    }
}

/// Notes drops on their way to the observer.
struct Witness<'a> {
    dropped: &'a mut Vec<u32>,
    outer: &'a mut dyn Observer,
}

impl Observer for Witness<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.dropped.push(packet.id);
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.outer.marked(packet, why, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(packet)
    }
}

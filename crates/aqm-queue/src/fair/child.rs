//! A separate queue discipline (a child) for each flow.
//!
//! A child may drop and mark packets both on arrival and on departure. The flow's chain of packets mirrors the child's
//! queue. The scheduler uses the chain to find the packet that will probably be sent next, and the shared buffer uses
//! the chain to compute the flow's backlog. An idle flow keeps its child until 65,536 other flows have become idle
//! after it.

use aqm_net::{ConfigError, ConfigErrors, Instant, Packet, Rate, Rng};

use crate::{Acknowledgement, Config, Context, Evidence, Label, Observer, QueueDiscipline, Reason};

/// The children, indexed by flow number.
#[derive(Clone)]
pub(super) struct Children {
    /// A discipline that has received all labels but no packets. Each new flow gets a clone of this discipline.
    fresh: Box<dyn QueueDiscipline>,
    running: Vec<Option<Box<dyn QueueDiscipline>>>,
    /// The flow that sent the last packet. This flow may have become idle.
    emptied: Option<u32>,
    /// Packets that a child has dropped but that are still in the flow's chain.
    pub dropped: Vec<u32>,
}

impl Children {
    /// Creates a table of children of one kind, for a link with this rate. The parameters must have been checked.
    pub fn new(child: &Config, rate: Rate) -> Result<Self, ConfigErrors> {
        let problem = format_args!("must be work-conserving, but `{}` delays packets", child.kind());
        ConfigError::unless(!child.holds_back(), "child.kind", problem)?;
        let fresh = child.build(rate).map_err(|errors| errors.within("child"))?;
        Ok(Self { fresh, running: Vec::new(), emptied: None, dropped: Vec::new() })
    }

    /// Returns the children of all flows to which a number is assigned.
    pub fn running(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
        self.running.iter().filter_map(|child| child.as_deref())
    }

    /// Creates a child for the new `flow`.
    pub fn on_new_flow(&mut self, flow: u32) {
        if self.running.len() <= flow as usize {
            self.running.resize_with(flow as usize + 1, || None);
        }
        self.running[flow as usize] = Some(self.fresh.clone());
    }

    /// Starts a run. The timers of all children have the same phase.
    pub fn on_start(&mut self, chance: &mut Rng) {
        self.fresh.on_start(chance);
    }

    /// Passes the label to the children of all current and future flows.
    pub fn on_label(&mut self, number: u16, label: &Label) {
        let running = self.running.iter_mut().flatten();
        running.chain([&mut self.fresh]).for_each(|child| child.on_label(number, label));
    }

    /// Enqueues `packet` in the child of `flow`.
    pub fn enqueue(&mut self, flow: u32, packet: Packet, cx: &mut Context<'_>) {
        self.with(flow, cx, |child, cx| child.enqueue(packet, cx));
    }

    /// Dequeues a packet from the child of `flow`, which must not be empty.
    pub fn dequeue(&mut self, flow: u32, cx: &mut Context<'_>) -> Option<Packet> {
        let packet = self.with(flow, cx, |child, cx| child.dequeue(cx));
        self.emptied = Some(flow);
        packet
    }

    /// Must be called when the link becomes free. If the child that sent the last packet is still empty, calls the
    /// child's `dequeue` once more, so that the child becomes idle.
    pub fn on_link_free(&mut self, cx: &mut Context<'_>) {
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
        let mut recorder = DropRecorder { dropped: &mut self.dropped, outer: cx.observer };
        let mut cx = Context { now: cx.now, rng: cx.rng, observer: &mut recorder };
        let child = self.running[flow as usize].as_mut().expect("a flow has a child");
        act(child.as_mut(), &mut cx)
    }
}

/// Records which packets are dropped, and forwards all reports to the observer.
struct DropRecorder<'a> {
    dropped: &'a mut Vec<u32>,
    outer: &'a mut dyn Observer,
}

impl Observer for DropRecorder<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.dropped.push(packet.id);
        self.outer.dropped(packet, why, now);
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.outer.marked(packet, why, now);
    }

    fn evidence(&mut self, evidence: &Evidence) {
        self.outer.evidence(evidence);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.outer.acknowledgement(packet)
    }
}

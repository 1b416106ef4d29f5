//! The stage: hosts, flows and workloads on a network, from the first event to the last.

use std::collections::BTreeMap;
use std::sync::Arc;

use aqm_net::{Ecn, Instant, Packet, Rng, Span, Streams};
use aqm_queue::edge::LONG;
use aqm_tcp::{CheckedConfig, Endpoint, Segment};
use aqm_traffic::{Conversation, TrafficContext, Transfer, Workload};

use crate::conversation;
use crate::event_queue::Timer;
use crate::flow::{Arrived, Ends, Flow, RECEIVER, SENDER};
use crate::network::{Classes, HostEvent, LinkSnapshot, Network};
use crate::prefetch::prefetch_part;
use crate::recorder::{Payload, Recorder};
use crate::scenario::Scenario;
use crate::tables::{EdgeRow, FlowRow, GaugeRow, PageRow, QueueRow, TransferRow};
use crate::topology::Topology;

/// What a workload asked for.
enum Action {
    Wake(Instant),
    Open(Transfer),
    Converse(Conversation),
    Datagram(u32, u16, Ecn),
}

/// Where a workload leaves its wishes.
struct ActionQueue<'a> {
    now: Instant,
    actions: &'a mut Vec<Action>,
}

impl TrafficContext for ActionQueue<'_> {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        self.actions.push(Action::Wake(at));
    }
    fn open(&mut self, transfer: Transfer) {
        self.actions.push(Action::Open(transfer));
    }
    fn converse(&mut self, conversation: Conversation) {
        self.actions.push(Action::Converse(conversation));
    }
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.actions.push(Action::Datagram(flow, bytes, ecn));
    }
}

/// A page of which some objects are under way.
struct Page {
    opened: Instant,
    objects: u64,
    missing: u64,
    bytes: u64,
}

/// What the stage knows of a workload.
struct WorkloadState {
    workload: Box<dyn Workload>,
    /// The slots of its streams of datagrams, by their number within the workload.
    streams: Vec<Option<u32>>,
    flows_opened: u64,
    extra_delay: [Span; 2],
    gauged: bool,
}

/// Everything that a run leaves behind, before it becomes tables.
pub(crate) struct RunRecord {
    pub(crate) flows: Vec<FlowRow>,
    pub(crate) transfers: Vec<TransferRow>,
    pub(crate) pages: Vec<PageRow>,
    pub(crate) queue: Vec<QueueRow>,
    pub(crate) edges: Vec<EdgeRow>,
    pub(crate) gauges: Vec<GaugeRow>,
    pub(crate) recorder: Recorder,
    /// The managed links when the measurement began, and at the end.
    pub(crate) snapshots: [Vec<LinkSnapshot>; 2],
    /// Their service classes at the same moments.
    pub(crate) classes: [Vec<Classes>; 2],
    pub(crate) events: u64,
    /// What the workloads say of their loads, by position.
    pub(crate) facts: Vec<Vec<(&'static str, f64)>>,
}

pub(crate) struct World<'a, N> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    net: N,
    recorder: Recorder,
    /// By workload.
    tcp: Vec<Arc<CheckedConfig>>,
    flows: Vec<Flow>,
    /// By slot, when a transfer's sender knew that all of it had arrived; `NEVER` until then. Apart from the
    /// flows, whose room is counted.
    acknowledged: Vec<Instant>,
    free: Vec<u32>,
    next_flow: u32,
    workloads: Vec<WorkloadState>,
    actions: Vec<Action>,
    pages: BTreeMap<(u32, u64), Page>,
    /// Whether the warm-up is over.
    measuring: bool,
    jitter: Rng,
    /// Whether any host has jitter, or any flow extra delay.
    hosts_take_time: bool,
    managed: Vec<u32>,
    record: RunRecord,
}

impl<'a, N: Network> World<'a, N> {
    pub(crate) fn new(scenario: &'a Scenario, topology: &'a Topology, net: N) -> Self {
        let workloads = (0..scenario.traffic.len()).map(|position| {
            let one = &scenario.traffic[position];
            WorkloadState {
                workload: scenario
                    .workload(position, topology)
                    .expect("the workload was built when the scenario was read"),
                streams: Vec::new(),
                flows_opened: 0,
                extra_delay: one.extra_delay,
                gauged: scenario.record.gauges.contains(&one.name),
            }
        });
        let histories = scenario.traffic.iter().map(|one| scenario.record.histories.contains(&one.name));
        let managed = scenario.links.iter().enumerate().filter(|(_, link)| link.queue.is_some());
        let record = RunRecord {
            flows: Vec::new(),
            transfers: Vec::new(),
            pages: Vec::new(),
            queue: Vec::new(),
            edges: Vec::new(),
            gauges: Vec::new(),
            recorder: Recorder::default(),
            snapshots: [Vec::new(), Vec::new()],
            classes: [Vec::new(), Vec::new()],
            events: 0,
            facts: Vec::new(),
        };
        Self {
            scenario,
            topology,
            net,
            recorder: Recorder::new(scenario.record.drops, histories.collect()),
            tcp: scenario.traffic.iter().map(|one| Arc::new(scenario.tcp_of(one))).collect(),
            // Flows with hosts of their own are all open in the end; room for them is taken at once.
            flows: Vec::with_capacity(scenario.traffic.iter().map(|one| one.config.hosts() as usize).sum()),
            acknowledged: Vec::new(),
            free: Vec::new(),
            next_flow: 0,
            workloads: workloads.collect(),
            actions: Vec::new(),
            pages: BTreeMap::new(),
            measuring: false,
            jitter: Streams::new(scenario.seed).named("host/jitter", 0),
            hosts_take_time: !scenario.jitter.is_zero()
                || scenario.traffic.iter().any(|one| !one.extra_delay[1].is_zero()),
            managed: managed.map(|(number, _)| number as u32).collect(),
            record,
        }
    }

    /// Runs from the first event to the last.
    pub(crate) fn run(mut self) -> RunRecord {
        let end = Instant::START + self.scenario.duration;
        self.net.set_timer(Instant::START + self.scenario.warm_up, 0, Timer::WarmUp);
        if !self.scenario.record.queue_every.is_zero() {
            self.net.set_timer(Instant::START + self.scenario.record.queue_every, 0, Timer::Sample);
        }
        for position in 0..self.workloads.len() as u32 {
            self.call_workload(position, Instant::START, |workload, cx| workload.start(cx));
        }
        while let Some((now, happening)) = self.net.next(end, &mut self.recorder) {
            self.step(now, happening);
        }
        self.finish(end)
    }

    fn step(&mut self, now: Instant, happening: HostEvent) {
        match happening {
            HostEvent::Arrived(packet) => self.on_arrival(packet, now),
            HostEvent::Processed(packet) => self.on_packet(packet, now),
            HostEvent::Timer(Timer::Sender(slot)) => self.on_flow_timer(slot, SENDER, now),
            HostEvent::Timer(Timer::Receiver(slot)) => self.on_flow_timer(slot, RECEIVER, now),
            HostEvent::Timer(Timer::NextAction(slot)) => self.on_turn(slot, now),
            HostEvent::Timer(Timer::Workload(position)) => {
                self.call_workload(position, now, |workload, cx| workload.on_wake(cx));
            }
            HostEvent::Timer(Timer::WarmUp) => self.begin_measuring(now),
            HostEvent::Timer(Timer::Sample) => self.sample(now),
            HostEvent::Timer(Timer::Port(_)) => unreachable!("the network serves its ports itself"),
        }
        if !(self.recorder.dropped.is_empty() && self.recorder.marked.is_empty()) {
            self.apply_fates(now);
        }
    }

    /// A packet is at its host, which looks at it after the time it takes, in the order of arrival.
    fn on_arrival(&mut self, packet: Packet, now: Instant) {
        if let Some(next) = self.net.ahead() {
            let (slot, forward) = self.recorder.payloads.address(next.id);
            let [head, end] = Flow::parts(if forward { RECEIVER } else { SENDER });
            prefetch_part(&self.flows, slot as usize, head);
            prefetch_part(&self.flows, slot as usize, end);
        }
        if !self.hosts_take_time {
            return self.on_packet(packet, now);
        }
        let (slot, forward) = self.recorder.payloads.address(packet.id);
        let flow = &mut self.flows[slot as usize];
        let side = if forward { RECEIVER } else { SENDER };
        let jitter = self.scenario.jitter.nanos() as f64 * self.jitter.uniform();
        let through = now + flow.extra_delay[side] + Span::from_nanos(jitter as u64);
        flow.processed_at[side] = flow.processed_at[side].max(through);
        self.net.hold(packet, flow.processed_at[side]);
    }

    fn on_packet(&mut self, packet: Packet, now: Instant) {
        if self.recorder.has_history(&packet) {
            self.recorder.note_arrived(&packet, now);
        }
        let Payload { mut segment, slot, forward } = self.recorder.payloads.take(packet.id);
        segment.ecn = packet.ecn;
        let flow = &mut self.flows[slot as usize];
        flow.in_flight -= 1;
        let (side, size) = (if forward { RECEIVER } else { SENDER }, flow.goal);
        let Ends::Tcp(ends) = &mut flow.ends else {
            if let Ends::Datagrams { arrived, .. } = &mut flow.ends {
                arrived.count += 1;
                arrived.bytes += u64::from(packet.bytes);
                arrived.travelled = arrived.travelled + now.since(Instant::from_nanos(segment.ack));
            }
            return self.retire_if_over(slot, now);
        };
        ends[side].on_segment(&segment, now);
        if forward {
            if packet.class == LONG {
                flow.long += 1;
            }
            let completed = flow.completed == Instant::NEVER && ends[RECEIVER].received() >= size;
            let goes_on = completed && flow.cold.as_ref().is_some_and(|cold| cold.goes_on());
            if completed && !goes_on {
                ends[RECEIVER].finish();
            }
            if flow.first_byte == Instant::NEVER && segment.len > 0 {
                flow.first_byte = now;
            }
            flow.pump((RECEIVER, slot), now, &mut self.net, &mut self.recorder);
            if completed {
                flow.completed = now;
                self.on_completion(slot, now);
                if goes_on {
                    self.go_on(slot, now);
                }
                return self.retire_if_over(slot, now);
            }
        } else {
            if flow.asked_for && Some(ends[SENDER].received()) >= flow.transfer.request.map(u64::from) {
                flow.on_request(slot, now, &mut self.net);
            }
            if flow.completed != Instant::NEVER && flow.is_acknowledged() {
                let since = &mut self.acknowledged[slot as usize];
                *since = now.min(*since);
            }
            flow.pump((SENDER, slot), now, &mut self.net, &mut self.recorder);
            if flow.gauged {
                self.gauge(slot, now);
                return self.retire_if_over(slot, now);
            }
        }
        if flow.is_over() {
            self.retire(slot);
        }
    }

    fn on_flow_timer(&mut self, slot: u32, side: usize, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        let timer = if side == SENDER { Timer::Sender(slot) } else { Timer::Receiver(slot) };
        if flow.is_due(side, timer, now, &mut self.net) {
            let Ends::Tcp(ends) = &mut flow.ends else { return };
            ends[side].on_timer(now);
            flow.pump((side, slot), now, &mut self.net, &mut self.recorder);
            if side == SENDER && flow.gauged {
                self.gauge(slot, now);
            }
        }
        self.retire_if_over(slot, now);
    }

    /// It is the turn of an end of a conversation.
    fn on_turn(&mut self, slot: u32, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        flow.timers -= 1;
        let side = flow.take_turn(now);
        flow.pump((side, slot), now, &mut self.net, &mut self.recorder);
        self.retire_if_over(slot, now);
    }

    /// An exchange of a conversation is over, and another one follows.
    fn go_on(&mut self, slot: u32, now: Instant) {
        self.write_transfer_row(slot);
        self.flows[slot as usize].go_on(slot, now, &mut self.net);
    }

    /// All payload of a transfer has arrived.
    fn on_completion(&mut self, slot: u32, now: Instant) {
        let Flow { traffic, transfer, .. } = self.flows[slot as usize];
        if let Some(number) = transfer.page
            && let Some(page) = self.pages.get_mut(&(traffic, number))
        {
            page.missing -= 1;
            if page.missing == 0 {
                let page = self.pages.remove(&(traffic, number)).expect("the page was just found");
                self.record.pages.push(page_row(traffic, number, &page, Some(now)));
            }
        }
        self.call_workload(traffic, now, |workload, cx| workload.on_done(transfer, cx));
    }

    /// Calls a workload and carries out what it asks for.
    fn call_workload(
        &mut self,
        position: u32,
        now: Instant,
        call: impl FnOnce(&mut dyn Workload, &mut dyn TrafficContext),
    ) {
        let mut actions = std::mem::take(&mut self.actions);
        let state = &mut self.workloads[position as usize];
        call(state.workload.as_mut(), &mut ActionQueue { now, actions: &mut actions });
        for action in actions.drain(..) {
            match action {
                Action::Wake(at) => self.net.set_timer(at.max(now), 0, Timer::Workload(position)),
                Action::Open(transfer) => self.open(position, transfer, now),
                Action::Converse(conversation) => self.converse(position, conversation, now),
                Action::Datagram(stream, bytes, ecn) => {
                    self.send_datagram(position, stream, (bytes, ecn), now)
                }
            }
        }
        self.actions = actions;
    }

    fn open(&mut self, position: u32, transfer: Transfer, now: Instant) {
        if let Some(number) = transfer.page {
            let page = self.pages.entry((position, number)).or_insert(Page {
                opened: now,
                objects: transfer.page_objects.into(),
                missing: transfer.page_objects.into(),
                bytes: 0,
            });
            page.bytes += transfer.bytes.unwrap_or(0);
        }
        let mut ends = self.ends(position);
        let opener = match transfer.request {
            None => {
                ends[SENDER].write(transfer.bytes, now);
                ends[SENDER].finish();
                SENDER
            }
            Some(bytes) => {
                ends[RECEIVER].write(Some(bytes.into()), now);
                RECEIVER
            }
        };
        ends[1 - opener].listen(now);
        ends[opener].open(now);
        let slot = self.add_flow(position, transfer, Ends::Tcp(ends), now);
        self.flows[slot as usize].pump((opener, slot), now, &mut self.net, &mut self.recorder);
    }

    /// Opens a connection for a conversation, when its client does.
    fn converse(&mut self, position: u32, conversation: Conversation, now: Instant) {
        let (first, host, delay) = (conversation.first, conversation.host, conversation.client_delay);
        self.hosts_take_time |= !(delay.is_zero() && conversation.server_delay.is_zero());
        let mut ends = self.ends(position);
        ends[RECEIVER].write(Some(first.request), now);
        ends[SENDER].listen(now);
        let transfer = conversation::transfer(&first, first.request, host);
        let slot = self.add_flow(position, transfer, Ends::Tcp(ends), now);
        let flow = &mut self.flows[slot as usize];
        flow.converse(conversation);
        flow.set_turn(now + delay, slot, &mut self.net);
    }

    /// The ends of the next connection of a workload.
    fn ends(&self, position: u32) -> [Endpoint; 2] {
        let (streams, number) = (Streams::new(self.scenario.seed), u64::from(self.next_flow));
        let tcp = &self.tcp[position as usize];
        let sender = tcp.endpoint().with_chance(|| streams.named("tcp/send-overhead", number));
        [sender, tcp.endpoint()]
    }

    fn send_datagram(&mut self, position: u32, stream: u32, (bytes, ecn): (u16, Ecn), now: Instant) {
        let streams = &mut self.workloads[position as usize].streams;
        if streams.len() <= stream as usize {
            streams.resize(stream as usize + 1, None);
        }
        let slot = streams[stream as usize].unwrap_or_else(|| {
            let transfer = Transfer { bytes: None, request: None, page: None, page_objects: 0, host: stream };
            let ends = Ends::Datagrams { sent: 0, arrived: Arrived::default() };
            self.add_flow(position, transfer, ends, now)
        });
        self.workloads[position as usize].streams[stream as usize] = Some(slot);
        let flow = &mut self.flows[slot as usize];
        let Ends::Datagrams { sent, .. } = &mut flow.ends else { return };
        // Where a TCP segment says what has arrived, a datagram says when it was sent.
        let (seq, ack) = (*sent, now.nanos());
        let segment = Segment { seq, ack, len: bytes.into(), wire: bytes, ..Segment::default() };
        *sent += 1;
        flow.in_flight += 1;
        let packet = Packet {
            id: self.recorder.payloads.put(Payload { segment, slot, forward: true }),
            flow: flow.number,
            hop: flow.forward,
            bytes,
            ecn,
            label: position as u16,
            ..Packet::default()
        };
        if self.recorder.has_history(&packet) {
            self.recorder.note_sent(&packet, now);
        }
        self.net.send(packet, now, &mut self.recorder);
    }

    fn add_flow(&mut self, position: u32, transfer: Transfer, ends: Ends, now: Instant) -> u32 {
        let state = &mut self.workloads[position as usize];
        let [least, most] = state.extra_delay;
        let mut extra_delay = least;
        if most > least {
            let name = format!("{}/extra-delay", self.scenario.traffic[position as usize].name);
            let mut rng = Streams::new(self.scenario.seed).named(&name, state.flows_opened);
            extra_delay = least + Span::from_nanos(rng.below((most - least).nanos() + 1));
        }
        state.flows_opened += 1;
        let routes = self.topology.routes[position as usize];
        let host =
            if self.scenario.traffic[position as usize].config.own_hosts() { transfer.host } else { 0 };
        let flow = Flow {
            number: self.next_flow,
            traffic: position,
            asked_for: transfer.request.is_some(),
            transfer,
            ends,
            forward: routes.forward(host),
            back: routes.back(host),
            extra_delay: [extra_delay; 2],
            opened: now,
            first_byte: Instant::NEVER,
            completed: Instant::NEVER,
            goal: transfer.bytes.unwrap_or(u64::MAX),
            closed: Instant::NEVER,
            dropped: 0,
            marked: 0,
            long: 0,
            cold: None,
            in_flight: 0,
            gauged: state.gauged,
            timers: 0,
            timer_at: [Instant::NEVER; 2],
            processed_at: [Instant::START; 2],
        };
        self.next_flow += 1;
        if let Some(slot) = self.free.pop() {
            self.flows[slot as usize] = flow;
            self.acknowledged[slot as usize] = Instant::NEVER;
            return slot;
        }
        self.flows.push(flow);
        self.acknowledged.push(Instant::NEVER);
        (self.flows.len() - 1) as u32
    }

    /// Tells flows of the packets that queues dropped and marked.
    fn apply_fates(&mut self, now: Instant) {
        while let Some(packet) = self.recorder.dropped.pop() {
            let payload = self.recorder.payloads.take(packet.id);
            let flow = &mut self.flows[payload.slot as usize];
            flow.in_flight -= 1;
            flow.dropped += u64::from(payload.forward);
            self.retire_if_over(payload.slot, now);
        }
        while let Some(slot) = self.recorder.marked.pop() {
            self.flows[slot as usize].marked += 1;
        }
    }

    #[inline]
    fn retire_if_over(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        if !flow.is_over() {
            return;
        }
        let Flow { traffic, transfer, completed, .. } = *flow;
        self.retire(slot);
        if completed == Instant::NEVER {
            self.call_workload(traffic, now, |workload, cx| workload.on_failed(transfer, cx));
        }
    }

    fn retire(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        if !self.measuring {
            // What it did, it did before the measurement began.
            flow.begin_measuring();
        }
        self.write_rows(slot);
        self.free.push(slot);
        // A slot is freed once: an open flow is never over.
        self.flows[slot as usize].closed = Instant::NEVER;
    }

    fn write_rows(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        self.record.flows.push(flow.row(self.scenario.duration - self.scenario.warm_up));
        self.write_transfer_row(slot);
    }

    fn write_transfer_row(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        let tcp = &self.tcp[flow.traffic as usize];
        let acknowledged = self.acknowledged[slot as usize];
        self.record.transfers.extend(flow.transfer_row(acknowledged, |bytes| tcp.segments(bytes)));
    }

    fn begin_measuring(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.recorder);
        self.record.snapshots[0] = self.net.snapshot(now);
        self.record.classes[0] = self.net.classes(now);
        self.measuring = true;
        for flow in &mut self.flows {
            flow.begin_measuring();
        }
    }

    fn sample(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.recorder);
        for (&link, snapshot) in self.managed.iter().zip(self.net.snapshot(now)) {
            self.record.queue.push(QueueRow {
                time_s: now.seconds(),
                link,
                length_packets: snapshot.backlog.packets,
                length_bytes: snapshot.backlog.bytes,
                average: snapshot.average,
                probability: snapshot.probability,
                max_p: snapshot.max_p,
                active_flows: snapshot.active_flows,
                arrivals: snapshot.counters.arrivals,
                drops: snapshot.counters.drops,
                marks: snapshot.counters.marks,
            });
        }
        for (node, snapshot) in self.net.edge_snapshots(now).into_iter().enumerate() {
            self.record.edges.push(EdgeRow {
                time_s: now.seconds(),
                node: node as u32,
                flows: snapshot.flows as u64,
                threshold: snapshot.threshold,
                evicted: snapshot.evicted as u64,
            });
        }
        self.net.set_timer(now + self.scenario.record.queue_every, 0, Timer::Sample);
    }

    fn gauge(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        let Ends::Tcp([sender, _]) = &flow.ends else { return };
        self.record.gauges.push(GaugeRow {
            time_s: now.seconds(),
            flow: flow.number.into(),
            traffic: flow.traffic,
            cwnd_segments: sender.cwnd(),
            ssthresh_segments: sender.ssthresh(),
            srtt_s: sender.srtt().map(Span::seconds),
            rto_s: sender.rto().seconds(),
            dupacks: sender.dupacks().into(),
        });
    }

    fn finish(mut self, end: Instant) -> RunRecord {
        self.net.catch_up(end, &mut self.recorder);
        self.apply_fates(end);
        self.record.snapshots[1] = self.net.snapshot(end);
        self.record.classes[1] = self.net.classes(end);
        self.record.flows.reserve_exact(self.flows.len() - self.free.len());
        let mut idle = vec![false; self.flows.len()];
        for &slot in &self.free {
            idle[slot as usize] = true;
        }
        for slot in 0..self.flows.len() as u32 {
            if !idle[slot as usize] {
                self.write_rows(slot);
            }
        }
        let unfinished: Vec<PageRow> = self
            .pages
            .iter()
            .map(|(&(traffic, number), page)| page_row(traffic, number, page, None))
            .collect();
        let mut record = self.record;
        record.pages.extend(unfinished);
        // Rows are written when a flow ends; tables are read in the order of opening.
        record.flows.sort_unstable_by_key(|row| row.flow);
        // The exchanges of a conversation were written in their order.
        record.transfers.sort_by_key(|row| row.flow);
        record.pages.sort_unstable_by_key(|row| (row.traffic, row.page));
        record.recorder = self.recorder;
        record.events = self.net.events();
        record.facts = self
            .workloads
            .iter()
            .map(|state| {
                let mut facts = Vec::new();
                state.workload.facts(&mut |name, value| facts.push((name, value)));
                facts
            })
            .collect();
        record
    }
}

fn page_row(traffic: u32, number: u64, page: &Page, done: Option<Instant>) -> PageRow {
    PageRow {
        traffic,
        page: number,
        start_s: page.opened.seconds(),
        objects: page.objects,
        size_bytes: page.bytes,
        duration_s: done.map(|at| at.since(page.opened).seconds()),
        complete: done.is_some(),
    }
}

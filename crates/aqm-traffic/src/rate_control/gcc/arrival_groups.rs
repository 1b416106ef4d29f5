//! Inter-arrival groups: packets that were sent within 5 ms form a group, and so do packets that the path releases in a
//! burst (draft-ietf-rmcat-gcc-02, section 5.2; libwebrtc, `goog_cc/inter_arrival_delta.cc`).

use aqm_net::{Instant, Span};

/// Maximum difference between the send times of a group's first and last packet (`kSendTimeGroupLength`).
const GROUP_LENGTH: Span = Span::from_millis(5);
/// Maximum gap between two arrivals of a burst (`kBurstDeltaThreshold`).
const BURST_GAP: Span = Span::from_millis(5);
/// Maximum duration of a burst (`kMaxBurstDuration`).
const MAX_BURST: Span = Span::from_millis(100);

/// The differences between two consecutive groups, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deltas {
    /// Difference between the send times of the groups' last packets.
    pub(super) send_ms: f64,
    /// Difference between the arrival times of the groups' last packets.
    pub(super) arrival_ms: f64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Instant,
    first_arrival: Instant,
    last_sent: Instant,
    last_arrival: Instant,
}

/// Divides packets into groups.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivalGroups {
    previous: Option<Group>,
    current: Option<Group>,
}

impl ArrivalGroups {
    /// Adds a packet. If the packet begins a new group, and two groups are complete, returns the differences between
    /// these two groups.
    pub(super) fn add(&mut self, sent: Instant, arrival: Instant) -> Option<Deltas> {
        let single =
            Group { first_sent: sent, first_arrival: arrival, last_sent: sent, last_arrival: arrival };
        let Some(group) = &mut self.current else {
            self.current = Some(single);
            return None;
        };
        if sent < group.first_sent {
            // The network has reordered the packet.
            return None;
        }
        if group.ends_before(sent, arrival) {
            let complete = *group;
            self.current = Some(single);
            let before = self.previous.replace(complete)?;
            return Some(Deltas {
                send_ms: millis_between(before.last_sent, complete.last_sent),
                arrival_ms: millis_between(before.last_arrival, complete.last_arrival),
            });
        }
        group.last_sent = group.last_sent.max(sent);
        group.last_arrival = group.last_arrival.max(arrival);
        None
    }
}

impl Group {
    /// Returns whether a packet belongs to the next group.
    fn ends_before(&self, sent: Instant, arrival: Instant) -> bool {
        !self.bursts_with(sent, arrival) && sent.since(self.first_sent) > GROUP_LENGTH
    }

    /// Returns whether the path released a packet in a burst with this group, so that the packet waited less than the
    /// packets before.
    fn bursts_with(&self, sent: Instant, arrival: Instant) -> bool {
        let send_delta = millis_between(self.last_sent, sent);
        let arrival_delta = millis_between(self.last_arrival, arrival);
        send_delta == 0.0
            || (arrival_delta < send_delta
                && arrival.since(self.last_arrival) <= BURST_GAP
                && arrival.since(self.first_arrival) < MAX_BURST)
    }
}

/// Returns the milliseconds from `earlier` to `later`; negative if `later` is the earlier time.
fn millis_between(earlier: Instant, later: Instant) -> f64 {
    (later.nanos() as f64 - earlier.nanos() as f64) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds packets with these send and arrival times in milliseconds.
    fn add(packets: &[(u64, u64)]) -> Vec<Deltas> {
        let at = |millis: u64| Instant::START + Span::from_millis(millis);
        let mut groups = ArrivalGroups::default();
        packets.iter().filter_map(|&(sent, arrival)| groups.add(at(sent), at(arrival))).collect()
    }

    #[test]
    fn packets_within_five_milliseconds_form_a_group() {
        // Three groups: 0 to 5 ms, 20 to 24 ms, and from 40 ms on, which ends the second.
        let found = add(&[(0, 50), (5, 60), (20, 75), (24, 88), (40, 100)]);
        assert_eq!(found, [Deltas { send_ms: 19.0, arrival_ms: 28.0 }]);
    }

    #[test]
    fn packets_that_the_path_releases_together_form_a_group() {
        // The path holds the second and third packets until 100 ms and releases them within 1 ms.
        let found = add(&[(0, 50), (20, 100), (40, 101), (60, 110), (80, 130)]);
        assert_eq!(
            found,
            [Deltas { send_ms: 40.0, arrival_ms: 51.0 }, Deltas { send_ms: 20.0, arrival_ms: 9.0 }]
        );
    }

    #[test]
    fn a_reordered_packet_is_ignored() {
        let found = add(&[(0, 50), (20, 70), (10, 71), (40, 90), (60, 110)]);
        assert_eq!(found, [Deltas { send_ms: 20.0, arrival_ms: 20.0 }; 2]);
    }
}

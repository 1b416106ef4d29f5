//! A managed link: a port, who hears what its queue does, and when it must be served without a packet.

use aqm_net::Instant;
use aqm_queue::Port;

use crate::event::{Timer, rank_of_timer};
use crate::event_queue::EventQueue;
use crate::transit::{InTransit, LinkObserver};

/// A port, and what the engine knows of its link.
pub(crate) struct Managed {
    pub(crate) port: Port,
    /// The number of the link.
    pub(crate) link: u32,
    /// Whether its packets are recorded.
    pub(crate) traced: bool,
    /// When its timer expires; `NEVER` without one.
    pub(crate) timer_at: Instant,
}

impl Managed {
    /// What hears of fates while the port is called.
    #[inline]
    pub(crate) fn observer<'a>(&self, transit: &'a mut InTransit) -> LinkObserver<'a> {
        transit.at_link(self.link, self.port.arrivals(), self.traced)
    }

    /// Sees to it that the port is served when its queue, which holds back what waits, is ready.
    #[inline]
    pub(crate) fn arm(&mut self, port: u32, event_queue: &mut EventQueue) {
        if let Some(at) = self.port.held_until()
            && at < self.timer_at
        {
            self.timer_at = at;
            let timer = Timer::Port(port);
            event_queue.put_timer(at, rank_of_timer(timer, 0), timer);
        }
    }
}

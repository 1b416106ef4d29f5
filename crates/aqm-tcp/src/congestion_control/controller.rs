//! A sender's congestion window and what moves it.
//!
//! M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009, sections 3.1 and 4.1.

use super::reno::Reno;
use super::{
    AckInfo, AckSample, Build, Congestion, CongestionControl, CongestionSignal, Window, WindowEvent,
};

/// The congestion window of one sender and the congestion control that moves it.
pub struct Controller {
    window: Window,
    control: AnyControl,
}

/// The congestion control of a running sender: Reno in place, since most of what is simulated uses it.
pub enum AnyControl {
    /// Reno.
    Reno(Reno),
    /// Any other.
    Other(Box<dyn CongestionControl>),
}

impl AnyControl {
    /// A congestion control that is not Reno.
    pub fn of(control: impl CongestionControl + 'static) -> Self {
        Self::Other(Box::new(control))
    }

    /// Where it has not to be known which.
    fn any(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Reno(reno) => reno,
            Self::Other(control) => &mut **control,
        }
    }
}

impl Controller {
    /// A window of `cwnd` segments, moved as `config` says; its parameters have been checked.
    pub fn new(config: &dyn Build, cwnd: f64, ssthresh: f64) -> Self {
        Self { window: Window::new(config.window_rules(), cwnd, ssthresh), control: config.build() }
    }

    /// The congestion window (`cwnd`), in segments; fractions count towards the next segment.
    #[inline]
    pub fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    /// Where slow start ends (`ssthresh`), in segments.
    #[inline]
    pub fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    /// Whether the window is below `ssthresh`.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// The handshake is over: data may flow.
    pub fn open(&mut self, cwnd: f64, ssthresh: f64) {
        self.window.open(cwnd, ssthresh);
    }

    /// New data was acknowledged.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckInfo) {
        match &mut self.control {
            AnyControl::Reno(reno) => reno.on_ack(&mut self.window, ack),
            // A copy, so that what Reno does not look at is never computed for it.
            AnyControl::Other(control) => control.on_ack(&mut self.window, &{ *ack }),
        }
    }

    /// Whether it is to be told of samples of the round trip.
    pub fn uses_samples(&self) -> bool {
        match &self.control {
            AnyControl::Reno(reno) => reno.uses_samples(),
            AnyControl::Other(control) => control.uses_samples(),
        }
    }

    /// Something arrived, and [`on_ack`](Self::on_ack) may follow.
    pub fn on_sample(&mut self, sample: &AckSample) {
        self.control.any().on_sample(&mut self.window, sample);
    }

    /// There is congestion: the window is reduced, and after a time-out starts again from one segment.
    pub fn on_congestion(&mut self, congestion: &Congestion) {
        if !congestion.repeated {
            self.control.any().reduce(&mut self.window, congestion);
        }
        if congestion.signal == CongestionSignal::Timeout {
            self.window.restart();
            self.control.any().on_event(WindowEvent::Timeout);
        }
    }

    /// The window must not exceed `cwnd` segments from now on; `ssthresh` stays. So it is after an idle time
    /// (RFC 5681, section 4.1) and where a recovery ends with little in flight (RFC 6582).
    pub fn cap(&mut self, cwnd: f64) {
        self.window.cwnd = self.window.cwnd.min(cwnd);
        self.control.any().on_event(WindowEvent::Moved);
    }

    /// A reduction is taken back: the window and `ssthresh` are at least what they were (Linux:
    /// `tcp_undo_cwnd_reduction`).
    pub fn restore(&mut self, cwnd: f64, ssthresh: f64) {
        self.window.cwnd = self.window.cwnd.max(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.control.any().on_event(WindowEvent::Moved);
    }
}

//! The congestion window of a sender, together with the sender's congestion control.
//!
//! M. Allman, V. Paxson, E. Blanton, RFC 5681, 2009, sections 3.1 and 4.1.

use aqm_net::Rng;

use super::reno::Reno;
use super::slow_start_exit::WithExit;
use super::{
    AckInfo, AckSample, Build, Congestion, CongestionControl, CongestionSignal, ControlReport, LostSegment,
    RateSample, Transmit, Window, WindowEvent,
};

/// The congestion window of one sender, and the congestion control that changes this window.
pub struct Controller {
    window: Window,
    control: AnyControl,
}

/// The congestion control of one sender. Reno is stored without a box, because most simulations use Reno.
pub enum AnyControl {
    /// Reno.
    Reno(Reno),
    /// Any other congestion control.
    Other(Box<dyn CongestionControl>),
}

impl AnyControl {
    /// Boxes a congestion control other than Reno.
    pub fn of(control: impl CongestionControl + 'static) -> Self {
        Self::Other(Box::new(control))
    }

    /// Returns the congestion control as a trait object.
    pub(super) fn any(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Reno(reno) => reno,
            Self::Other(control) => &mut **control,
        }
    }

    /// Returns the pacing rate in bytes per second, if the congestion control sets one.
    pub(super) fn pacing_rate(&self) -> Option<f64> {
        match self {
            Self::Reno(_) => None,
            Self::Other(control) => control.pacing_rate(),
        }
    }

    /// Returns the state and the estimates of the congestion control.
    pub(super) fn report(&self) -> ControlReport {
        match self {
            Self::Reno(_) => ControlReport::default(),
            Self::Other(control) => control.report(),
        }
    }
}

impl Controller {
    /// Creates a window of `cwnd` segments and the congestion control that `config` describes. The parameters in
    /// `config` must have been checked.
    pub fn new(config: &dyn Build, cwnd: f64, ssthresh: f64) -> Self {
        let (rules, limited_slow_start) = (config.window_rules(), config.limited_slow_start());
        let mut window = Window::new(&rules, limited_slow_start, cwnd, ssthresh);
        window.is_model_based = config.uses_rates();
        Self { window, control: WithExit::add_to(config.build(), rules.slow_start_exit) }
    }

    /// Returns the congestion window (`cwnd`) in segments. Fractions of a segment accumulate until they add up to a
    /// whole segment.
    #[inline]
    pub fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    /// Returns the slow-start threshold (`ssthresh`) in segments.
    #[inline]
    pub fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    /// Returns whether the window is below `ssthresh`.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Sets the initial window after the handshake.
    pub fn open(&mut self, cwnd: f64, ssthresh: f64) {
        self.window.open(cwnd, ssthresh);
    }

    /// Processes an acknowledgement of new data.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckInfo) {
        match &mut self.control {
            AnyControl::Reno(reno) => reno.on_ack(&mut self.window, ack),
            // The copy ensures that the fields that Reno does not read are not computed for Reno.
            AnyControl::Other(control) if !self.window.is_model_based => {
                control.on_ack(&mut self.window, &{ *ack });
            }
            AnyControl::Other(_) => {}
        }
    }

    /// Returns whether the congestion control uses round-trip samples.
    pub fn uses_samples(&self) -> bool {
        match &self.control {
            AnyControl::Reno(reno) => reno.uses_samples(),
            AnyControl::Other(control) => control.uses_samples(),
        }
    }

    /// Processes the arrival of data at the receiver. A call to [`on_ack`](Self::on_ack) may follow.
    pub fn on_sample(&mut self, sample: &AckSample) {
        self.control.any().on_sample(&mut self.window, sample);
    }

    /// Reduces the window because of congestion. After a timeout, the window restarts from one segment.
    pub fn on_congestion(&mut self, congestion: &Congestion) {
        if !congestion.repeated {
            self.control.any().reduce(&mut self.window, congestion);
        }
        if congestion.signal == CongestionSignal::Timeout && !self.window.is_model_based {
            self.window.restart();
            self.control.any().on_event(WindowEvent::Timeout);
        }
    }

    /// Limits the window to at most `cwnd` segments and leaves `ssthresh` unchanged. This is necessary after an idle
    /// period (RFC 5681, section 4.1) and at the end of a recovery if little data is in flight (RFC 6582).
    pub fn cap(&mut self, cwnd: f64) {
        if self.window.is_model_based {
            return;
        }
        self.window.cwnd = self.window.cwnd.min(cwnd);
        self.control.any().on_event(WindowEvent::Capped);
    }

    /// Limits a window that has just grown to at most `cwnd` segments. In contrast to [`cap`](Self::cap), the
    /// congestion control is not notified, and continues as if the window had grown less.
    pub fn limit_growth(&mut self, cwnd: f64) {
        if !self.window.is_model_based {
            self.window.cwnd = self.window.cwnd.min(cwnd);
        }
    }

    /// Undoes a reduction. The window and `ssthresh` are raised at least to the given values (Linux:
    /// `tcp_undo_cwnd_reduction`).
    pub fn restore(&mut self, cwnd: f64, ssthresh: f64) {
        if !self.window.is_model_based {
            self.window.cwnd = self.window.cwnd.max(cwnd);
            self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        }
        self.control.any().on_event(WindowEvent::Undone);
    }

    /// Reports that the sender paces its segments.
    pub fn set_paced(&mut self) {
        self.control.any().set_paced();
    }

    /// Returns whether only the congestion control changes the window.
    pub fn is_model_based(&self) -> bool {
        self.window.is_model_based
    }

    /// Sets the congestion control's generator of random numbers.
    pub fn set_random(&mut self, random: Rng) {
        self.control.any().set_random(random);
    }

    /// Returns whether the congestion control itself limits the rate.
    pub fn limits_rate(&mut self) -> bool {
        self.control.any().limits_rate()
    }

    /// Processes a transmission of data when no other data is in the network.
    pub fn on_transmit(&mut self, transmit: &Transmit) {
        self.control.any().on_transmit(&mut self.window, transmit);
    }

    /// Processes a segment that is considered lost.
    pub fn on_lost(&mut self, lost: &LostSegment) {
        self.control.any().on_lost(&mut self.window, lost);
    }

    /// Processes an acknowledgement after all other effects of the acknowledgement.
    pub fn on_rates(&mut self, sample: &RateSample) {
        self.control.any().on_rates(&mut self.window, sample);
    }

    /// Processes a timeout of a model-based congestion control. At this time, `in_flight` bytes remain in the network,
    /// and the payload of a full segment is `mss` bytes.
    pub fn on_model_timeout(&mut self, in_flight: u64, mss: u64) {
        self.control.any().on_timeout(&mut self.window, in_flight, mss);
    }

    /// Returns the pacing rate in bytes per second, if the congestion control sets one.
    pub fn pacing_rate(&self) -> Option<f64> {
        self.control.pacing_rate()
    }

    /// Returns the state and the estimates of the congestion control.
    pub fn report(&self) -> ControlReport {
        self.control.report()
    }
}

//! Rules that end slow start early and can be combined with any congestion control.
//!
//! aqmlab's choices: an exit rule observes only the initial slow start, as RFC 9406 recommends. After the first loss,
//! mark or timeout, the rule has no effect.

use aqm_net::choices;

use super::hystart_plus_plus::HyStartPlusPlus;
use super::search::Search;
use super::{
    AckInfo, AckSample, AnyControl, Congestion, CongestionControl, ControlReport, SenderState, Window,
    WindowEvent,
};

choices! {
    /// Rule that ends the initial slow start before a loss or mark occurs.
    pub enum SlowStartExit {
        /// No rule. Slow start lasts until a loss, a mark or `ssthresh`.
        None = "none",
        /// Slow start ends after the round-trip time has increased (RFC 9406). Requires SACK, which provides enough
        /// round-trip samples.
        HyStartPlusPlus = "hystart++",
        /// Slow start ends when the delivery rate no longer follows the sending rate (SEARCH,
        /// draft-chung-ccwg-search-09).
        Search = "search",
    }
}

impl SlowStartExit {
    /// Returns whether no rule is selected.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Decision of a slow-start exit rule after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Slow start continues.
    Continue,
    /// Congestion avoidance begins.
    Exit,
}

/// State of the exit rule of one sender.
#[derive(Clone, Debug)]
enum Exit {
    HyStartPlusPlus(HyStartPlusPlus),
    Search(Search),
}

/// A congestion control that is combined with a slow-start exit rule.
pub(super) struct WithExit {
    control: AnyControl,
    /// The exit rule; `None` after the initial slow start.
    exit: Option<Exit>,
}

impl WithExit {
    /// Adds the exit rule that `exit` selects to `control`.
    pub fn add_to(control: AnyControl, exit: SlowStartExit) -> AnyControl {
        let exit = match exit {
            SlowStartExit::None => return control,
            SlowStartExit::HyStartPlusPlus => Exit::HyStartPlusPlus(HyStartPlusPlus::new()),
            SlowStartExit::Search => Exit::Search(Search::new()),
        };
        AnyControl::of(Self { control, exit: Some(exit) })
    }

    /// Returns the state of HyStart++, if the sender uses HyStart++ and is in its initial slow start.
    fn hystart(&self) -> Option<&HyStartPlusPlus> {
        match &self.exit {
            Some(Exit::HyStartPlusPlus(hystart)) => Some(hystart),
            _ => None,
        }
    }
}

impl CongestionControl for WithExit {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        let hystart = self.hystart().filter(|_| window.in_slow_start());
        let counted = hystart.map_or(ack.counted, |hystart| hystart.growth(ack.counted));
        self.control.any().on_ack(window, &AckInfo { counted, ..*ack });
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        self.exit = None;
        self.control.any().reduce(window, congestion);
    }

    fn on_event(&mut self, event: WindowEvent) {
        self.control.any().on_event(event);
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        if window.in_slow_start() {
            let decision = match &mut self.exit {
                Some(Exit::HyStartPlusPlus(hystart)) => hystart.on_sample(sample),
                Some(Exit::Search(search)) => search.on_sample(sample),
                None => Decision::Continue,
            };
            if decision == Decision::Exit {
                window.ssthresh = window.cwnd;
                self.exit = None;
            }
        }
        self.control.any().on_sample(window, sample);
    }

    fn set_paced(&mut self) {
        if let Some(Exit::HyStartPlusPlus(hystart)) = &mut self.exit {
            hystart.set_paced();
        }
        self.control.any().set_paced();
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.control.pacing_rate()
    }

    fn report(&self) -> ControlReport {
        let report = self.control.report();
        let is_conservative = self.hystart().is_some_and(HyStartPlusPlus::is_conservative);
        let state = is_conservative.then_some(SenderState::ConservativeSlowStart);
        ControlReport { state: report.state.or(state), ..report }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;

    use super::*;
    use crate::congestion_control::Control;
    use crate::testing::{Bottleneck, ack, loss, timeout};

    const RTT: Span = Span::from_millis(40);

    /// Returns every congestion control that can be combined with a slow-start exit rule.
    fn controls(exit: &str) -> Vec<Control> {
        let table = |kind: &str| {
            let mut table = serde_json::json!({ "kind": kind, "slow_start_exit": exit });
            if kind == "ledbat" {
                table["slow_start"] = true.into();
            }
            serde_json::json!({ "congestion_control": table })
        };
        let read = |kind: &&str| crate::read(table(kind)).ok().map(|config| config.congestion_control);
        let controls: Vec<Control> = Control::NAMES.iter().filter_map(read).collect();
        assert!(controls.len() >= 6);
        controls
    }

    /// Returns a path that delivers ten segments per millisecond.
    fn path(control: &Control) -> Bottleneck {
        Bottleneck::new(&**control, 10.0, RTT)
    }

    #[test]
    fn both_exits_end_slow_start_of_every_congestion_control_soon_after_the_path_is_full() {
        // The rate is ten segments per millisecond and the round-trip time is 40 ms, so the path holds 400 segments. In
        // the five rounds of CSS, the window grows by a factor of up to 1.25^5 = 3.05.
        for (exit, most) in [("hystart++", 3500.0), ("search", 2500.0)] {
            for control in controls(exit) {
                let mut path = path(&control);
                while path.step() && path.controller.cwnd() < 5000.0 {}
                let window = path.controller.cwnd();
                assert!((400.0..most).contains(&window), "{exit}, {}: {window}", control.kind());
                assert!((path.controller.ssthresh() - window).abs() <= 1.0);
            }
        }
    }

    #[test]
    fn without_an_exit_slow_start_continues() {
        for control in
            controls("none").iter().filter(|control| !["ledbat", "vegas"].contains(&control.kind()))
        {
            let mut path = path(control);
            while path.step() && path.controller.cwnd() < 5000.0 {}
            assert!(path.controller.cwnd() >= 5000.0, "{}", control.kind());
        }
    }

    #[test]
    fn conservative_slow_start_is_a_state_and_grows_by_a_quarter() {
        let reno = &controls("hystart++")[0];
        let mut path = path(reno);
        while path.controller.report().state.is_none() {
            path.step();
        }
        assert_eq!(path.controller.report().state, Some(SenderState::ConservativeSlowStart));
        let before = path.controller.cwnd();
        // The bursts of slow start fill a queue before the window fills the path of 400 segments.
        assert!((250.0..400.0).contains(&before), "{before}");
        path.step();
        assert_eq!(path.controller.cwnd(), before + 0.25);
        path.controller.on_congestion(&loss(before));
        assert_eq!(path.controller.report().state, None);
        assert_eq!(path.controller.cwnd(), before / 2.0);
    }

    #[test]
    fn a_loss_or_timeout_disables_the_exit() {
        for congestion in [loss(5000.0), timeout(5000.0)] {
            for exit in ["hystart++", "search"] {
                let mut path = path(&controls(exit)[0]);
                for _ in 0..30 {
                    path.step();
                }
                path.controller.on_congestion(&congestion);
                path.controller.cap(10.0);
                let ssthresh = path.controller.ssthresh();
                assert_eq!(ssthresh, 2500.0);
                while path.step() {}
                assert_eq!(path.controller.cwnd(), ssthresh, "{exit}");
            }
        }
    }

    #[test]
    fn hystart_plus_plus_limits_an_acknowledgement_to_eight_segments_unless_the_sender_is_paced() {
        for (is_paced, window) in [(false, 18.0), (true, 30.0)] {
            let mut controller = path(&controls("hystart++")[0]).controller;
            if is_paced {
                controller.set_paced();
            }
            controller.on_ack(&ack(20.0));
            assert_eq!(controller.cwnd(), window);
        }
    }

    #[test]
    fn the_default_is_not_part_of_a_complete_table() {
        let reno = |table| serde_json::to_value(&crate::read(table).unwrap().congestion_control).unwrap();
        let table = |exit| serde_json::json!({ "congestion_control": { "slow_start_exit": exit } });
        assert_eq!(reno(table("none")), reno(serde_json::json!({})));
        assert_eq!(reno(table("none")).get("slow_start_exit"), None);
        assert_eq!(reno(table("search"))["slow_start_exit"], "search");
    }
}

//! A propagation delay that changes in steps.

use aqm_net::{ConfigErrors, ErrorCollector, Span, parameters};

parameters! {
    /// A change of a line's propagation delay.
    pub struct DelayStep {
        /// When.
        pub at: Option<Span> = None, "no default: it must be given";
        /// To how much, one way.
        pub delay: Option<Span> = None, "no default: it must be given";
    }
}

/// The steps of a scenario.
pub(super) fn read(steps: &[DelayStep]) -> Result<Vec<(Span, Span)>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let mut read: Vec<(Span, Span)> = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        errors.check(step.at.is_some(), format!("{place}.at"), "is missing: write when, such as \"10s\"");
        let problem = "is missing: write how long packets take, such as \"30ms\"";
        errors.check(step.delay.is_some(), format!("{place}.delay"), problem);
        let (Some(at), Some(delay)) = (step.at, step.delay) else { continue };
        if let Some(&(before, _)) = read.last() {
            let problem = format_args!("must be later than that of the step before, {before}");
            errors.check(before < at, format!("{place}.at"), problem);
        }
        read.push((at, delay));
    }
    errors.finish(read)
}

//! A propagation delay that changes in steps.

use aqm_net::{ConfigErrors, ErrorCollector, Span, parameters};

parameters! {
    /// A change of the link's propagation delay.
    pub struct DelayStep {
        /// Time of the change.
        pub at: Option<Span> = None, "no default: required";
        /// New one-way propagation delay.
        pub delay: Option<Span> = None, "no default: required";
    }
}

/// Checks the delay steps of a scenario and returns them as pairs of a time and a delay.
pub(super) fn read(steps: &[DelayStep]) -> Result<Vec<(Span, Span)>, ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let mut read: Vec<(Span, Span)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        errors.check(step.at.is_some(), format!("{index}.at"), "is missing: set a time, for example \"10s\"");
        let problem = "is missing: set a delay, for example \"30ms\"";
        errors.check(step.delay.is_some(), format!("{index}.delay"), problem);
        let (Some(at), Some(delay)) = (step.at, step.delay) else { continue };
        if let Some(&(before, _)) = read.last() {
            let problem = format_args!("must be later than the previous step at {before} (got {at})");
            errors.check(before < at, format!("{index}.at"), problem);
        }
        read.push((at, delay));
    }
    errors.finish(read)
}

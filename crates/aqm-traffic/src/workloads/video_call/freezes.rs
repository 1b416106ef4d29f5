//! Freezes of the video, as WebRTC counts them: a gap between two rendered frames that is at least three times, and at
//! least 150 ms longer than, the mean of the last 30 gaps (W3C, "Identifiers for WebRTC's Statistics API",
//! `freezeCount`; libwebrtc, `video/video_stream_buffer_controller` and `VideoQualityObserver`).

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

/// Number of gaps in the mean (`kAvgInterframeDelaysWindowSizeFrames`), and minimum number of gaps
/// (`kMinFrameSamplesToDetectFreeze`).
const WINDOW: usize = 30;
const LEAST: usize = 5;
/// Minimum difference to the mean gap (`kMinIncreaseForFreezeMs`).
const INCREASE: Span = Span::from_millis(150);

/// Detects freezes.
#[derive(Clone, Debug, Default)]
pub(super) struct Freezes {
    gaps: VecDeque<Span>,
    last: Option<Instant>,
}

impl Freezes {
    /// Handles a rendered frame. Returns the length of the freeze that the frame ends; zero if there was no freeze. If
    /// the sender has paused before the frame, the gap is not counted.
    pub(super) fn on_frame(&mut self, now: Instant, resumes: bool) -> Span {
        let Some(gap) = self.last.replace(now).filter(|_| !resumes).map(|last| now.since(last)) else {
            return Span::ZERO;
        };
        self.gaps.push_back(gap);
        if self.gaps.len() > WINDOW {
            self.gaps.pop_front();
        }
        if self.gaps.len() < LEAST {
            return Span::ZERO;
        }
        let sum: u64 = self.gaps.iter().map(|gap| gap.nanos()).sum();
        let mean = Span::from_nanos(sum / self.gaps.len() as u64);
        if gap >= mean.saturating_mul(3).max(mean + INCREASE) { gap } else { Span::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders 30 frames every 33 ms, and another after a gap. Returns the freeze in milliseconds.
    fn freeze(gap: u64, resumes: bool) -> u64 {
        let mut freezes = Freezes::default();
        let at = |millis| Instant::START + Span::from_millis(millis);
        assert!((0..30).all(|frame| freezes.on_frame(at(33 * frame), false).is_zero()));
        freezes.on_frame(at(29 * 33 + gap), resumes).nanos() / 1_000_000
    }

    #[test]
    fn a_gap_of_the_mean_and_150_ms_is_a_freeze() {
        // The mean includes the gap: (29 * 33 + 190) / 30 is 38.2 ms, so the threshold is 188.2 ms.
        assert_eq!([187, 190, 1000].map(|gap| freeze(gap, false)), [0, 190, 1000]);
        assert_eq!(freeze(1000, true), 0, "a pause of the sender is not a freeze");
    }

    #[test]
    fn at_a_low_frame_rate_a_freeze_is_three_times_the_mean() {
        let mut freezes = Freezes::default();
        let at = |seconds: u64| Instant::START + Span::from_millis(1000 * seconds);
        assert!((0..30).all(|frame| freezes.on_frame(at(frame), false).is_zero()));
        assert!(freezes.on_frame(at(29 + 3), false).is_zero());
        assert!(!freezes.on_frame(at(32 + 4), false).is_zero());
    }
}

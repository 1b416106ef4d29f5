//! The video encoder: the size of each frame follows the target rate at once.
//!
//! aqmlab's choices, where encoders differ: all frames between two key frames have the same size, apart from changes of
//! the target rate. A key frame is `key_frame` times as large. During the second after a key frame, the other frames
//! are smaller, so that the rate is right on average.

use aqm_net::{Instant, Span};

/// Minimum interval between a key frame and the next requested key frame (libwebrtc: `kMinKeyframeSendIntervalMs`).
const KEY_INTERVAL: Span = Span::from_millis(300);
/// Time in which the encoder saves the bytes by which a key frame exceeds other frames.
const SAVING_S: f64 = 1.0;
/// Maximum share of a frame that the encoder saves.
const MAX_SAVING: f64 = 0.5;

/// The encoder of one direction.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    frame_rate: f64,
    /// Ratio between the sizes of a key frame and of another frame.
    key_frame: f64,
    /// Bytes to save, and bytes to save per frame.
    debt: f64,
    saving: f64,
    key_wanted: bool,
    last_key: Option<Instant>,
}

impl Encoder {
    /// Creates an encoder. The first frame is a key frame.
    pub(super) fn new(frame_rate: f64, key_frame: f64) -> Self {
        Self { frame_rate, key_frame, debt: 0.0, saving: 0.0, key_wanted: true, last_key: None }
    }

    /// Handles a request for a key frame.
    pub(super) fn request_key_frame(&mut self, now: Instant) {
        self.key_wanted |= self.last_key.is_none_or(|last| now.since(last) >= KEY_INTERVAL);
    }

    /// Returns the interval of frames.
    pub(super) fn interval(&self) -> Span {
        Span::from_seconds(1.0 / self.frame_rate)
    }

    /// Encodes the next frame at this video rate. Returns the frame's size in bytes, including headers, and whether the
    /// frame is a key frame.
    pub(super) fn encode(&mut self, rate_bps: f64, now: Instant) -> (f64, bool) {
        let mean = rate_bps / 8.0 / self.frame_rate;
        if std::mem::take(&mut self.key_wanted) {
            self.last_key = Some(now);
            self.debt += (self.key_frame - 1.0) * mean;
            self.saving = self.debt / (SAVING_S * self.frame_rate);
            return (self.key_frame * mean, true);
        }
        let saved = self.saving.min(self.debt).min(MAX_SAVING * mean);
        self.debt -= saved;
        (mean - saved, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_right_over_the_second_after_a_key_frame() {
        let mut encoder = Encoder::new(30.0, 4.0);
        let frames: Vec<(f64, bool)> = (0..61).map(|_| encoder.encode(2.4e6, Instant::START)).collect();
        assert_eq!(frames[0], (40_000.0, true));
        assert!(frames[1..31].iter().all(|frame| (frame.0 - 9_000.0).abs() < 1e-6 && !frame.1));
        assert!(frames[31..].iter().all(|frame| (frame.0 - 10_000.0).abs() < 1e-6));
    }

    #[test]
    fn requested_key_frames_are_300_ms_apart() {
        let mut encoder = Encoder::new(30.0, 4.0);
        let at = |millis| Instant::START + Span::from_millis(millis);
        encoder.encode(1e6, at(0));
        encoder.request_key_frame(at(299));
        assert!(!encoder.encode(1e6, at(299)).1);
        encoder.request_key_frame(at(300));
        assert!(encoder.encode(1e6, at(333)).1);
        assert!(!encoder.encode(1e6, at(366)).1);
    }
}

//! The record of one direction of a call.

use aqm_net::{Instant, Span};

use crate::call_record::{CallFlow, CallFrame, CallRecord, CallSecond};

const SECOND: u64 = 1_000_000_000;

/// Records a direction while the call is running.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    record: CallRecord,
    /// Number of samples of the target rate in the last second.
    samples: u64,
}

impl Recorder {
    pub(super) fn new(flow: CallFlow) -> Self {
        Self { record: CallRecord { flow, seconds: Vec::new(), frames: Vec::new() }, samples: 0 }
    }

    /// Returns the record so far.
    pub(super) fn record(&self) -> &CallRecord {
        &self.record
    }

    /// Samples the target rate.
    pub(super) fn sample_target(&mut self, bps: f64, now: Instant) {
        let before = self.record.seconds.len();
        let number = now.nanos() / SECOND;
        self.at(now);
        if self.record.seconds.len() > before {
            self.samples = 0;
        }
        // Samples are at equal intervals and in the order of time, so that the last second is the present.
        if let Some(last) = self.record.seconds.last_mut().filter(|last| last.second == number) {
            last.target_bps = (last.target_bps * self.samples as f64 + bps) / (self.samples + 1) as f64;
            self.samples += 1;
        }
    }

    pub(super) fn on_sent(&mut self, bytes: u16, now: Instant) {
        let second = self.at(now);
        second.sent_bytes += u64::from(bytes);
        second.packets_sent += 1;
    }

    pub(super) fn on_received(&mut self, bytes: u16, sent: Instant, now: Instant) {
        self.at(now).received_bytes += u64::from(bytes);
        let second = self.at(sent);
        second.packets_received += 1;
        second.delay_sum_s += now.since(sent).seconds();
    }

    pub(super) fn on_frame_sent(&mut self, bytes: u64, key: bool, now: Instant) {
        self.at(now).frames_sent += 1;
        self.record.frames.push(CallFrame { captured: now, bytes, key, rendered: None, freeze_s: 0.0 });
    }

    pub(super) fn on_frame_rendered(&mut self, number: u64, freeze: Span, now: Instant) {
        let second = self.at(now);
        second.frames_rendered += 1;
        if !freeze.is_zero() {
            second.freezes += 1;
            second.frozen_s += freeze.seconds();
        }
        if let Some(frame) = self.record.frames.get_mut(number as usize) {
            frame.rendered = Some(now);
            frame.freeze_s = freeze.seconds();
        }
    }

    /// Returns the second that contains `at`. All seconds from the first to the last are recorded.
    fn at(&mut self, at: Instant) -> &mut CallSecond {
        let number = at.nanos() / SECOND;
        let seconds = &mut self.record.seconds;
        let first = seconds.first().map_or(number, |first| first.second);
        let position = number.saturating_sub(first) as usize;
        while seconds.len() <= position {
            let second = first + seconds.len() as u64;
            seconds.push(CallSecond { second, ..CallSecond::default() });
        }
        &mut seconds[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_count_in_the_second_of_their_sending_and_bytes_in_that_of_their_arrival() {
        let mut recorder = Recorder::new(CallFlow { flow: 3, back: true });
        let at = |millis| Instant::START + Span::from_millis(millis);
        recorder.sample_target(1e6, at(2000));
        recorder.sample_target(2e6, at(2500));
        recorder.on_sent(1000, at(2950));
        recorder.on_received(1000, at(2950), at(3050));
        recorder.sample_target(3e6, at(3000));
        let seconds = &recorder.record().seconds;
        assert_eq!(seconds.iter().map(|one| one.second).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(
            (seconds[0].packets_received, seconds[0].received_bytes, seconds[0].sent_bytes),
            (1, 0, 1000)
        );
        assert!((seconds[0].delay_sum_s - 0.1).abs() < 1e-12);
        assert_eq!((seconds[1].packets_received, seconds[1].received_bytes), (0, 1000));
        assert_eq!(seconds[0].target_bps, 1.5e6);
    }
}

//! The contents and sizes of the datagrams of a video call.

use std::collections::VecDeque;

use aqm_net::Instant;

use crate::rate_control::PacketReport;

/// Size of the IPv4, UDP and RTP headers, in bytes.
pub(super) const RTP_HEADERS: u64 = 40;
/// Size of the IPv4 and UDP headers, in bytes.
const IP_AND_UDP: u64 = 28;
/// Size of the original sequence number in a retransmission (RFC 4588, section 4).
pub(super) const RETRANSMISSION_HEADER: u16 = 2;

/// The content of a datagram.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Media(MediaPacket),
    /// Reports about the media packets of the other direction.
    Feedback(Vec<PacketReport>),
    /// Sequence numbers of missing video packets of the other direction.
    Nack(Vec<u64>),
    /// A request for a key frame of the other direction (PLI).
    KeyFrameRequest,
}

/// A packet of audio, video or padding.
#[derive(Clone, Copy, Debug)]
pub(super) struct MediaPacket {
    /// Number among all media packets of the direction (transport-wide sequence number).
    pub(super) number: u64,
    /// Video; `None` for audio and padding.
    pub(super) video: Option<VideoPacket>,
}

/// A packet of a video frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct VideoPacket {
    /// Number among all video packets of the direction.
    pub(super) sequence: u64,
    pub(super) frame: FrameInfo,
}

/// A video frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrameInfo {
    /// Number among all frames of the direction.
    pub(super) number: u64,
    /// Sequence number of the frame's first packet.
    pub(super) first: u64,
    /// Number of packets.
    pub(super) packets: u64,
    pub(super) captured: Instant,
    /// Whether the frame can be decoded without another frame.
    pub(super) key: bool,
    /// Whether the frame is the first after a pause of the sender.
    pub(super) resumes: bool,
}

/// Returns the size of feedback about `reports` packets: an RTCP header, the sender's SSRC and a timestamp; for audio
/// and video, a header of 8 B; and 2 B per report, padded to 4 B (RFC 8888, section 3.1).
pub(super) fn feedback_bytes(reports: usize) -> u16 {
    let bytes = IP_AND_UDP + 12 + 2 * 8 + (2 * reports as u64).next_multiple_of(4);
    bytes.min(u64::from(u16::MAX)) as u16
}

/// Returns the size of a request for the video packets with these sequence numbers, in ascending order: 12 B, and 4 B
/// for a packet and the 16 packets that follow (RFC 4585, section 6.2.1).
pub(super) fn nack_bytes(sequences: &[u64]) -> u16 {
    let (mut blocks, mut covered) = (0, 0);
    for &sequence in sequences {
        if sequence >= covered {
            blocks += 1;
            covered = sequence + 17;
        }
    }
    (IP_AND_UDP + 12 + 4 * blocks).min(u64::from(u16::MAX)) as u16
}

/// Size of a request for a key frame (RFC 4585, section 6.3.1).
pub(super) const KEY_FRAME_REQUEST_BYTES: u16 = IP_AND_UDP as u16 + 12;

/// Number of later datagrams after which a datagram that has not arrived is given up. The network reorders datagrams by
/// much less.
const REORDERING: usize = 4096;

/// The contents of the datagrams of a stream that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    /// Number of the first datagram in `contents`.
    first: u64,
    contents: VecDeque<Option<Content>>,
}

impl UnderWay {
    /// Adds the content of the stream's next datagram.
    pub(super) fn push(&mut self, content: Content) {
        self.contents.push_back(Some(content));
    }

    /// Returns the content of a datagram that has arrived.
    pub(super) fn take(&mut self, number: u64) -> Option<Content> {
        let position = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let content = self.contents.get_mut(position)?.take();
        let given_up = position.saturating_sub(REORDERING);
        let gone = self.contents.iter().skip(given_up).take_while(|one| one.is_none()).count();
        self.contents.drain(..given_up + gone);
        self.first += (given_up + gone) as u64;
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_has_the_size_of_rfc_8888() {
        // 28 B of headers, 28 B without reports, and 2 B per report, padded to 4 B.
        assert_eq!([0, 1, 2, 3, 100].map(feedback_bytes), [56, 60, 60, 64, 256]);
        assert_eq!(KEY_FRAME_REQUEST_BYTES, 40);
    }

    #[test]
    fn a_nack_covers_seventeen_packets_per_block() {
        assert_eq!(nack_bytes(&[5]), 44);
        assert_eq!(nack_bytes(&[5, 6, 21]), 44);
        assert_eq!(nack_bytes(&[5, 22]), 48);
    }

    #[test]
    fn each_content_arrives_once_and_lost_contents_are_forgotten() {
        let mut under_way = UnderWay::default();
        (0..10_000).for_each(|number| under_way.push(Content::Nack(vec![number])));
        let mut take = |number| match under_way.take(number) {
            Some(Content::Nack(one)) => one.first().copied(),
            _ => None,
        };
        assert_eq!([0, 2, 1, 1].map(&mut take), [Some(0), Some(2), Some(1), None]);
        // Number 3 is lost.
        assert_eq!([4, 9_999, 9_998, 3].map(&mut take), [Some(4), Some(9_999), Some(9_998), None]);
        assert!(under_way.contents.len() <= REORDERING + 1, "{}", under_way.contents.len());
    }
}

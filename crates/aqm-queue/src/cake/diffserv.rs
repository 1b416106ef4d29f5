//! CAKE's tins: assigns packets to tins, and computes the share of each tin.
//!
//! A tin is a class of Differentiated Services. A tin that has not used up its rate is served before tins of lower
//! priority. A tin that has used up its rate shares the remaining capacity with other tins. The tables and shares are
//! taken from Linux 6.1. The names of code points are from RFC 2474, RFC 2597, RFC 3246, RFC 5865 and RFC 8622. The
//! names of the older bits of the type-of-service field are from RFC 1349.

use aqm_net::choices;

choices! {
    /// Number of tins, and the service classes assigned to them.
    pub enum Diffserv {
        /// One tin for all packets.
        BestEffort = "besteffort",
        /// Three tins: bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Four tins: bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
        /// Eight tins; the higher a tin's priority, the smaller its share.
        Diffserv8 = "diffserv8",
        /// Eight tins, selected by the three bits of the former IP precedence.
        Precedence = "precedence",
    }
}

/// The share of a tin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The rate up to which the tin has priority, in bytes per second; 0 if the shaper is off.
    pub rate: u64,
    /// The tin's quantum in bytes (`tin_quantum`), used if the shaper is off.
    pub quantum: u16,
}

/// Lower effort (RFC 8622), which replaced class selector 1.
const LE: u8 = 1;
const CS1: u8 = 8;
/// The bits of RFC 1349 that request throughput and low delay.
const THROUGHPUT: u8 = 2;
const LOW_DELAY: u8 = 4;
/// Voice traffic: voice-admit (RFC 5865) and expedited forwarding (RFC 3246).
const VA: u8 = 44;
const EF: u8 = 46;

impl Diffserv {
    /// Returns the tin of packets with this code point.
    pub fn tin(self, dscp: u8) -> u8 {
        let class = dscp >> 3;
        // In code points of assured forwarding, the upper three bits contain the class, and the next two bits contain
        // the drop precedence.
        let assured = (1..=4).contains(&class) && matches!(dscp & 7, 2 | 4 | 6);
        let is_selector = dscp & 7 == 0;
        match self {
            Self::BestEffort => 0,
            Self::Precedence => class,
            Self::Diffserv3 => match dscp {
                LE | CS1 => 1,
                LOW_DELAY | VA | EF => 2,
                _ if is_selector && class >= 6 => 2,
                _ => 0,
            },
            Self::Diffserv4 => match dscp {
                LE | CS1 => 1,
                VA | EF => 3,
                LOW_DELAY => 2,
                _ if is_selector && class >= 4 => 3,
                _ if is_selector && class >= 2 => 2,
                _ if assured && class >= 2 => 2,
                _ => 0,
            },
            Self::Diffserv8 => match dscp {
                LE => 0,
                THROUGHPUT => 1,
                LOW_DELAY => 4,
                VA | EF => 6,
                _ if is_selector => [2, 1, 5, 3, 6, 6, 7, 7][class as usize],
                _ if assured => [2, 1, 4, 3, 3, 2, 2, 2][class as usize],
                _ => 2,
            },
        }
    }

    /// Returns the share of each tin at the shaper rate `rate`, in bytes per second. A rate of 0 means that the rate is
    /// unlimited.
    pub(super) fn shares(self, rate: u64) -> Vec<Share> {
        let parts =
            |logs: &[u32]| logs.iter().map(|log| Share { rate: rate >> log, quantum: 1024 >> log }).collect();
        match self {
            Self::BestEffort => vec![Share { rate, quantum: u16::MAX }],
            Self::Diffserv3 => parts(&[0, 4, 2]),
            Self::Diffserv4 => parts(&[0, 4, 1, 2]),
            Self::Diffserv8 | Self::Precedence => {
                let seven_eighths = |share: &Share| {
                    Some(Share {
                        rate: (share.rate * 7) >> 3,
                        quantum: ((u32::from(share.quantum) * 7) >> 3) as u16,
                    })
                };
                std::iter::successors(Some(Share { rate, quantum: 256 }), seven_eighths).take(8).collect()
            }
        }
    }

    /// Returns the tins in order of priority, which is also the order in which `tc` lists them.
    pub fn order(self) -> &'static [usize] {
        match self {
            Self::BestEffort => &[0],
            Self::Diffserv3 => &[1, 0, 2],
            Self::Diffserv4 => &[1, 0, 2, 3],
            Self::Diffserv8 | Self::Precedence => &[0, 1, 2, 3, 4, 5, 6, 7],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_is_in_the_kernels_tin() {
        // Each row contains the tins of eight code points.
        let tables = [
            (Diffserv::BestEffort, ["00000000"; 8]),
            (
                Diffserv::Diffserv3,
                [
                    "01002000", "10000000", "00000000", "00000000", "00000000", "00002020", "20000000",
                    "20000000",
                ],
            ),
            (
                Diffserv::Diffserv4,
                [
                    "01002000", "10000000", "20202020", "20202020", "30202020", "30003030", "30000000",
                    "30000000",
                ],
            ),
            (
                Diffserv::Diffserv8,
                [
                    "20124222", "12121212", "52424242", "32323232", "62323232", "62226262", "72222222",
                    "72222222",
                ],
            ),
            (
                Diffserv::Precedence,
                [
                    "00000000", "11111111", "22222222", "33333333", "44444444", "55555555", "66666666",
                    "77777777",
                ],
            ),
        ];
        for (diffserv, rows) in tables {
            for (row, dscp) in (0_u8..8).flat_map(|row| (0..8).map(move |column| (row, row * 8 + column))) {
                let expected = rows[usize::from(row)].as_bytes()[usize::from(dscp % 8)] - b'0';
                assert_eq!(diffserv.tin(dscp), expected, "{diffserv:?} {dscp}");
                assert!(usize::from(expected) < diffserv.order().len());
            }
        }
    }

    #[test]
    fn tins_share_the_rate_as_in_the_kernel() {
        let shares = |diffserv: Diffserv| -> Vec<(u64, u16)> {
            diffserv.shares(1_250_000).iter().map(|share| (share.rate, share.quantum)).collect()
        };
        assert_eq!(shares(Diffserv::BestEffort), [(1_250_000, 65_535)]);
        assert_eq!(shares(Diffserv::Diffserv3), [(1_250_000, 1024), (78_125, 64), (312_500, 256)]);
        assert_eq!(
            shares(Diffserv::Diffserv4),
            [(1_250_000, 1024), (78_125, 64), (625_000, 512), (312_500, 256)]
        );
        let eight = shares(Diffserv::Diffserv8);
        assert_eq!(eight, shares(Diffserv::Precedence));
        assert_eq!((eight.len(), eight[1], eight[7]), (8, (1_093_750, 224), (490_868, 98)));
        for diffserv in [Diffserv::BestEffort, Diffserv::Diffserv3, Diffserv::Diffserv4, Diffserv::Diffserv8]
        {
            let mut order = diffserv.order().to_vec();
            order.sort_unstable();
            assert_eq!(order, (0..diffserv.shares(0).len()).collect::<Vec<_>>());
        }
    }
}

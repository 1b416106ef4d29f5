//! CAKE's tins: which packets are in which, and what each may have.
//!
//! A tin is a class of Differentiated Services, and has a rate up to which it goes before those of lower priority.
//! Beyond, tins share what is left. Tables and shares are those of Linux 6.1; its names of code points are those of
//! RFC 2474, RFC 2597, RFC 3246, RFC 5865 and RFC 8622, and of RFC 1349 for what is older.

use aqm_net::choices;

choices! {
    /// How many tins there are, and for which packets.
    pub enum Diffserv {
        /// One for all.
        BestEffort = "besteffort",
        /// Bulk, best effort, voice.
        Diffserv3 = "diffserv3",
        /// Bulk, best effort, video, voice.
        Diffserv4 = "diffserv4",
        /// Eight, of which those with a higher priority may have less.
        Diffserv8 = "diffserv8",
        /// Eight, by the three bits of IP's old precedence.
        Precedence = "precedence",
    }
}

/// What a tin may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Up to which rate it goes first, in bytes per second; 0 if there is no limit.
    pub rate: u64,
    /// What it sends in its turn where there is no limit, in bytes (`tin_quantum`).
    pub quantum: u16,
}

/// Lower effort (RFC 8622), and class selector 1, which was used for it before.
const LE: u8 = 1;
const CS1: u8 = 8;
/// The bits of RFC 1349 that ask for throughput and for little delay.
const THROUGHPUT: u8 = 2;
const LOW_DELAY: u8 = 4;
/// Voice: admitted (RFC 5865) and expedited forwarding (RFC 3246).
const VA: u8 = 44;
const EF: u8 = 46;

impl Diffserv {
    /// The tin of packets with this code point.
    pub fn tin(self, dscp: u8) -> u8 {
        let class = dscp >> 3;
        // Assured forwarding: the class in the upper three bits, the precedence of drops in the next two.
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

    /// What the tins may have of a `rate` in bytes per second, 0 for unlimited.
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

    /// The tins in the order in which they are shown, that of their priorities.
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
    fn every_code_point_is_in_the_tin_that_the_kernel_puts_it_into() {
        // A row for each eight code points.
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
                let told = rows[usize::from(row)].as_bytes()[usize::from(dscp % 8)] - b'0';
                assert_eq!(diffserv.tin(dscp), told, "{diffserv:?} {dscp}");
                assert!(usize::from(told) < diffserv.order().len());
            }
        }
    }

    #[test]
    fn tins_share_the_rate_as_the_kernel_says() {
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

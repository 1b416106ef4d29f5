//! A size table in front of a queue: makes the inner queue use the length that each packet would have on another link.
//!
//! The source is `tc-stab(8)`. The table is computed as in `tc` (iproute2, `tc_core.c`), and is read as in the kernel
//! (`net/sched/sch_api.c`, `__qdisc_calculate_pkt_len`). The length is the packet's length plus `overhead`, but at
//! least `mpu`. With `linklayer = "atm"`, the length is the total length of the ATM cells: 53 bytes for each 48 bytes
//! or part of 48 bytes. The table has 512 slots of 4 bytes each, so with `mpu` or ATM, lengths are first rounded up to
//! multiples of 4 bytes. A length above 2048 bytes is computed from several slots.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, Size, choices};
use serde_json::{Value, json};

use crate::Context;
use crate::tc::{self, Qdisc};
use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};

wrapper! {
    /// A size table in front of a queue: for limits, quanta, rates and all other byte counts, the inner queue uses the
    /// length that a packet would have on another link.
    ///
    /// Only the inner queue uses this length; the simulated link sends the packet with its original length. Therefore,
    /// if the inner queue is a shaper (`htb`, `fq` with `maxrate`), the shaper enforces a rate as it would be measured
    /// on the other link, while transmission times on the simulated link do not change. `cake` does not need a size
    /// table, because `cake` has its own framing parameters.
    ///
    /// Differences from Linux:
    ///
    /// - The `mtu` and `tsize` parameters of the table have the default values of `tc` (2047 and 512) and cannot be
    ///   changed.
    /// - A length is at most 65,535 bytes.
    /// - The memory that a packet uses is computed from the packet's length according to the table, whereas the kernel
    ///   counts the memory that is actually allocated.
    /// - `tc` shows the table as part of the queue, whereas aqmlab shows the table as a queue that contains another
    ///   queue. The outer backlog is based on the original lengths of packets, and the inner backlog is based on the
    ///   lengths according to the table.
    pub struct Config {
        /// Number of bytes that the other link adds to each packet. The number may be negative.
        pub overhead: i64 = 0, "tc-stab";
        /// Minimum length of a packet on the other link.
        pub mpu: Size = Size::from_bytes(0), "tc-stab";
        /// Link layer of the other link.
        pub linklayer: LinkLayer = LinkLayer::Ethernet, "tc-stab";
    }
}

choices! {
    /// The link layer of the other link.
    pub enum LinkLayer {
        /// Packets are sent unchanged.
        Ethernet = "ethernet",
        /// Packets are sent in ATM cells of 53 bytes, of which 48 are data, as on ADSL.
        Atm = "atm",
    }
}

/// The allowed range of the overhead.
const OVERHEADS: std::ops::RangeInclusive<i64> = -2047..=2047;
/// The largest packet in the table (`mtu`), which also limits `mpu`.
const MAX_LENGTH: u64 = 2047;
/// The number of slots of the table (`tsize`), and the binary logarithm of the number of bytes per slot (`cell_log`).
const SLOTS: u32 = 512;
const SLOT_LOG: u32 = 2;

impl Config {
    fn wrapper(&self, _link: Rate) -> Result<Stab, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let problem = format_args!("must be from {} to {}", OVERHEADS.start(), OVERHEADS.end());
        errors.check(OVERHEADS.contains(&self.overhead), "overhead", problem);
        errors.check(self.mpu.bytes() <= MAX_LENGTH, "mpu", format_args!("must be at most {MAX_LENGTH}B"));
        let table = Table {
            overhead: self.overhead as i32,
            mpu: self.mpu.bytes() as u32,
            is_atm: self.linklayer == LinkLayer::Atm,
        };
        errors.finish(Stab { table, bytes: 0 })
    }

    fn as_tc(&self, rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let default = crate::Config::drop_tail(<_>::default());
        let mut qdisc = tc::inner(self.queue.as_deref().unwrap_or(&default), rate, "queue")?;
        let argument = |name: &str, value: String| vec![name.to_owned(), value];
        qdisc.limits.iter_mut().for_each(|(path, _)| *path = format!("queue.{path}"));
        qdisc.size_table = vec![
            argument("overhead", self.overhead.to_string()),
            argument("mpu", self.mpu.bytes().to_string()),
            argument("linklayer", json!(self.linklayer).as_str().unwrap_or_default().to_owned()),
            argument("mtu", MAX_LENGTH.to_string()),
            argument("tsize", SLOTS.to_string()),
        ];
        Ok(qdisc)
    }

    fn own_corners() -> Vec<Value> {
        vec![
            json!({"overhead": 32, "linklayer": "atm", "mpu": "70B", "queue": {"kind": "drop-tail", "limit": "9kB"}}),
            json!({"overhead": -14, "queue": {"kind": "fq", "maxrate": "3Mbps"}}),
            json!({"mpu": "600B", "queue": {"kind": "linux-red", "limit": "24kB", "min": "2kB", "max": "9kB"}}),
        ]
    }
}

/// The size table, which contains the lengths on the other link.
#[derive(Clone, Copy)]
struct Table {
    overhead: i32,
    mpu: u32,
    is_atm: bool,
}

impl Table {
    /// Returns the length that a packet of this size would have on the other link.
    #[inline]
    fn length(self, bytes: u16) -> u16 {
        let length = i32::from(bytes) + self.overhead;
        if !self.is_atm && self.mpu == 0 {
            return length.clamp(1, u16::MAX.into()) as u16;
        }
        let slot = ((length - 1).max(0) as u32) >> SLOT_LOG;
        let length = if slot < SLOTS {
            self.in_slot(slot)
        } else {
            self.in_slot(SLOTS - 1) * (slot / SLOTS) + self.in_slot(slot % SLOTS)
        };
        length.clamp(1, u16::MAX.into()) as u16
    }

    /// Returns the length that is stored in this slot of the table (`tc_adjust_size`).
    fn in_slot(self, slot: u32) -> u32 {
        let length = ((slot + 1) << SLOT_LOG).max(self.mpu);
        if self.is_atm { length.div_ceil(48) * 53 } else { length }
    }
}

/// A size table and its state.
#[derive(Clone)]
struct Stab {
    table: Table,
    /// The total original size of the queued packets, in bytes.
    bytes: u64,
}

impl Wrapper for Stab {
    /// The original size of the packet in bytes.
    type Note = u16;

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<u16>, cx: &mut Context<'_>) {
        self.bytes += u64::from(packet.bytes);
        inside.enqueue_with_length(packet, self.table.length(packet.bytes), packet.bytes, cx);
    }

    fn on_removed(&mut self, _slot: u32, bytes: u16) {
        self.bytes -= u64::from(bytes);
    }

    fn backlog(&self, inside: &Inside<u16>) -> Backlog {
        Backlog { bytes: self.bytes, ..inside.backlog() }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Instant;

    use super::*;
    use crate::testing::{Driver, packet};

    fn lengths(overhead: i32, mpu: u32, is_atm: bool, sizes: &[u16]) -> Vec<u16> {
        let table = Table { overhead, mpu, is_atm };
        sizes.iter().map(|bytes| table.length(*bytes)).collect()
    }

    /// The expected lengths were computed by hand from `tc_calc_size_table` and `__qdisc_calculate_pkt_len`.
    #[test]
    fn lengths_are_those_of_the_kernels_table() {
        // If no table is used, only the overhead is added.
        assert_eq!(lengths(22, 0, false, &[64, 1514, 65_530]), [86, 1536, 65_535]);
        assert_eq!(lengths(-60, 0, false, &[40, 64]), [1, 4]);
        // Each slot covers 4 bytes: a packet of 1514 bytes belongs to slot 378, whose length is 1516 bytes.
        assert_eq!(lengths(0, 64, false, &[40, 64, 65, 1514]), [64, 64, 68, 1516]);
        // A packet of 40 + 10 bytes needs two cells, and a packet of 1500 + 40 bytes needs 33 cells. A length of 1540
        // bytes belongs to slot (1540 - 1) / 4 = 384, whose length is 1540 bytes.
        assert_eq!(lengths(10, 0, true, &[38, 40]), [53, 106]);
        assert_eq!(lengths(40, 0, true, &[1500]), [33 * 53]);
        // A length of 3000 bytes would belong to slot 749, which does not exist. The result is therefore the length of
        // the last slot plus the length of slot 237, which is 952 bytes.
        assert_eq!(lengths(0, 0, true, &[3000]), [43 * 53 + 20 * 53]);
    }

    #[test]
    fn an_inner_shaper_enforces_the_rate_of_the_cells_and_packets_leave_unchanged() {
        let class = json!({"rate": "1Mbps", "burst": "1B", "cburst": "1B"});
        let inside = json!({"kind": "htb", "classes": {"all": class}});
        let table = json!({"kind": "stab", "overhead": 40, "linklayer": "atm", "queue": inside});
        let mut driver = Driver::at_rate(table, Rate::from_bps(1_000_000_000), 1);
        (0..11).for_each(|_| {
            driver.offer(packet(1500));
        });
        assert_eq!(driver.queue.backlog(), Backlog { packets: 11, bytes: 16_500 });
        let mut sent = Vec::new();
        while let Some(at) = (driver.queue.backlog().packets > 0).then_some(driver.now) {
            match driver.take() {
                Some(packet) => {
                    assert_eq!(packet.bytes, 1500);
                    sent.push(at);
                }
                None => driver.now = driver.queue.next_ready().expect("the packet is delayed"),
            }
        }
        // Each packet consists of 33 cells of 53 bytes, which are sent at 1 Mb/s.
        let between = sent[10].since(sent[0]).nanos() / 10;
        assert!(between.abs_diff(33 * 53 * 8 * 1000) < 1000, "{between} ns");
        assert!(sent[0] == Instant::START);
    }

    #[test]
    fn limits_use_lengths_of_the_table_and_fates_report_bytes_of_packets() {
        let queue = json!({"kind": "drop-tail", "limit": "3kB"});
        let table = json!({"kind": "stab", "overhead": 400, "queue": queue});
        let mut driver = Driver::new(table, 1);
        let dropped: Vec<bool> = (0..3).map(|_| driver.offer(packet(1100))).collect();
        assert_eq!(dropped, [false, false, true]);
        assert!(driver.fates.dropped_packets().all(|packet| packet.bytes == 1100));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for (table, path) in [(json!({"overhead": 2048}), "overhead"), (json!({"mpu": "3kB"}), "mpu")] {
            let mut table = table;
            table["kind"] = json!("stab");
            let errors = crate::Config::read(table)
                .unwrap()
                .build(Rate::default())
                .err()
                .expect("the table is invalid");
            assert_eq!(errors.first().path, path);
        }
    }
}

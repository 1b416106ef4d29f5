//! Conversion of RED's parameters to the kernel's parameters by Linux's command `tc`.
//!
//! iproute2 (A. Kuznetsov): `tc_red.c`, `tc_core.c` and the manual page tc-red; versions up to 6.1.
//!
//! The kernel computes with shifts only. The weight is therefore a power of 1/2, in Linux 2.4 also the slope of the
//! drop function, and the decay of the average while the link is idle is a table of shifts, one for each cell of idle
//! time.
//!
//! The kernel looks up the table in microseconds, but tc computes the table in ticks of the kernel's packet scheduler.
//! Both had the same unit in Linux 2.4. Today a tick is 64 ns, so that the average decays 15.6 times as slowly as
//! intended.
//!
//! Where tc's result is undefined in C, aqmlab rejects the value, for example a packet whose transmission takes less
//! than one microsecond.

use aqm_net::{ConfigError, Rate, Size};

/// The largest power of 1/2, as its logarithm (`Wlog`), with which a burst of `burst` packets of `avpkt` bytes that
/// arrives at an empty queue does not raise the average above `min`.
///
/// # Errors
/// If `burst` is too small or too large.
pub(crate) fn weight_log(burst: Option<u32>, min: u64, max: u64, avpkt: u64) -> Result<u32, ConfigError> {
    let automatic = (2 * u128::from(min) + u128::from(max)) / (3 * u128::from(avpkt));
    let burst = burst.map_or(automatic as f64, f64::from);
    let min = min as f64 / avpkt as f64;
    let room = burst + 1.0 - min;
    ConfigError::unless(
        room >= 1.0,
        "burst",
        format_args!("must be at least min, which is {min} packets (got {burst})"),
    )?;
    let fits = |log: &u32| {
        let weight = power_of_half(*log);
        room <= (1.0 - libm::pow(1.0 - weight, burst)) / weight
    };
    (1..32).find(fits).ok_or_else(|| ConfigError::at("burst", format!("is too large (got {burst})")))
}

/// `2^-log`.
pub(crate) fn power_of_half(log: u32) -> f64 {
    libm::ldexp(1.0, -(log as i32))
}

/// The smallest power of two, as its logarithm (`Plog`), that exceeds `width / probability`, where `width` is `max -
/// min` in bytes.
///
/// # Errors
/// If the power does not fit into 32 bits.
pub(crate) fn probability_log(probability: f64, width: u64) -> Result<u32, ConfigError> {
    let share = probability / width as f64;
    (0..32).find(|&log| share * libm::ldexp(1.0, log as i32) > 1.0).ok_or_else(|| {
        let least = width as f64 * power_of_half(31);
        ConfigError::at(
            "probability",
            format!("must be above {least} with these thresholds (got {probability})"),
        )
    })
}

/// The clock whose ticks tc uses for the transmission time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Microseconds.
    Micros,
    /// Ticks of 64 ns; 15.625 ticks are one microsecond.
    Ticks,
}

/// Decay of the average during an idle time (`Stab`, `Scell_log`).
#[derive(Clone, Debug)]
pub(crate) struct IdleTable {
    /// Logarithm of the length of one cell: a cell is `2^cell_log` microseconds long.
    pub cell_log: u32,
    /// Number of bits by which the average is shifted to the right; zero means less than one bit.
    pub shifts: [u8; 256],
}

/// The largest shift in the table.
const MAX_SHIFT: f64 = 31.0;

impl IdleTable {
    /// The table for a weight of `2^-weight_log`.
    ///
    /// # Errors
    /// If the transmission of `avpkt` takes too little or too much time at this `rate`.
    pub fn new(weight_log: u32, avpkt: Size, rate: Rate, clock: Clock) -> Result<Self, ConfigError> {
        let bytes_per_second = u128::from(rate.bps() / 8);
        let micros = (u128::from(avpkt.bytes()) * 1_000_000).checked_div(bytes_per_second).unwrap_or(0);
        let problem =
            format_args!("must take at least 1us to send at {rate}, because tc counts whole microseconds");
        ConfigError::unless(micros > 0, "avpkt", problem)?;
        let ticks = match clock {
            Clock::Micros => micros,
            Clock::Ticks => micros * 125 / 8,
        };
        let decay = -libm::log1p(-power_of_half(weight_log)) / ticks as f64;
        let cells = |log: u32| MAX_SHIFT / decay * power_of_half(log);
        let Some(cell_log) = (0..32).find(|&log| cells(log) < 512.0) else {
            let problem = format!("takes too long to send at {rate} with this weight of the average");
            return Err(ConfigError::at("avpkt", problem));
        };
        let mut shifts = [0; 256];
        for (cell, shift) in (0_u64..).zip(&mut shifts) {
            *shift = ((cell << cell_log) as f64 * decay).min(MAX_SHIFT) as u8;
        }
        shifts[255] = MAX_SHIFT as u8;
        Ok(Self { cell_log, shifts })
    }

    /// The value of `average` after an idle time of `micros` microseconds. In the first cells, where a shift by one bit
    /// is too coarse, the average decreases linearly, but never to less than half.
    pub fn after(&self, average: u64, micros: u64) -> u64 {
        let micros = micros.min(255 << self.cell_log);
        match self.shifts[(micros >> self.cell_log) as usize] {
            0 => {
                let fall = (u128::from(average) * u128::from(micros)) >> self.cell_log;
                if fall < u128::from(average / 2) { average - fall as u64 } else { average / 2 }
            }
            shift => average >> shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_for_a_burst_is_the_weight_that_the_kernel_reports() {
        // min, max, mean packet, burst (or tc's default): Wlog.
        for (min, max, mean, burst, log) in [
            (5_000, 18_000, 500, None, 4),
            (5_000, 18_000, 1_000, None, 3),
            (5_000, 18_000, 1_500, None, 3),
            (5_120, 18_432, 500, None, 4),
            (5_120, 18_432, 1_000, None, 3),
            (5_120, 18_432, 1_500, None, 3),
            (5_000, 18_000, 1_500, Some(6), 3),
            (30_000, 90_000, 1_000, Some(52), 5),
            (7_500, 22_500, 1_000, Some(14), 4),
            (30_000, 90_000, 1_000, Some(243), 10),
            (30_000, 90_000, 1_000, Some(270), 11),
        ] {
            assert_eq!(weight_log(burst, min, max, mean).unwrap(), log, "{min} {mean} {burst:?}");
        }
        assert!(
            weight_log(Some(4), 5_000, 18_000, 1_000)
                .unwrap_err()
                .problem
                .contains("at least min, which is 5 ")
        );
        assert!(weight_log(Some(u32::MAX), 5_000, 18_000, 1_000).unwrap_err().problem.contains("too large"));
    }

    #[test]
    fn a_kibibyte_halves_the_maximum_probability_of_linux_2_4() {
        for (width, log, effective) in [(13_000, 17, 0.0992), (13_312, 18, 0.0508)] {
            assert_eq!(probability_log(0.1, width).unwrap(), log);
            assert!((width as f64 * power_of_half(log) - effective).abs() < 5e-5);
        }
        assert_eq!(probability_log(1e-9, 13_000).unwrap_err().path, "probability");
    }

    #[test]
    fn the_table_has_the_cells_that_the_kernel_reports_and_decays_16_times_too_slowly() {
        let table =
            |clock| IdleTable::new(3, Size::from_bytes(1500), Rate::from_bps(140_000), clock).unwrap();
        let (ticks, micros) = (table(Clock::Ticks), table(Clock::Micros));
        assert_eq!((ticks.cell_log, micros.cell_log), (20, 16));
        // In one second a 140 kb/s link could send 11.67 packets. The intended shift is 1.56, which is 11.67 times
        // -ln(7/8); 16 s in ticks are 1.02 times one second in microseconds.
        assert_eq!((micros.after(1 << 40, 1_000_000), ticks.after(1 << 40, 16_000_000)), (1 << 39, 1 << 39));
        // 85714 us are 1,339,281 ticks, and one cell adds a shift of 0.104547: a shift of 5 is reached in cell 48.
        assert_eq!([47, 48].map(|cell| ticks.after(1 << 40, cell << 20)), [1 << 36, 1 << 35]);
        // A cell is 65.5 ms or 1.05 s long: half way to one half, the average has decreased by a quarter.
        assert_eq!((micros.after(1 << 40, 1 << 14), ticks.after(1 << 40, 1 << 18)), (3 << 38, 3 << 38));
        assert_eq!((micros.after(1 << 40, 0), micros.after(1 << 40, u64::MAX)), (1 << 40, 1 << 9));
    }

    #[test]
    fn a_packet_whose_time_tc_cannot_represent_is_rejected() {
        let table = |bps| IdleTable::new(3, Size::from_bytes(1000), Rate::from_bps(bps), Clock::Ticks);
        assert!(table(8_000_000_000).is_ok());
        assert!(table(8_000_000_008).unwrap_err().problem.contains("at least 1us"));
        assert!(table(8).unwrap_err().problem.contains("takes too long"));
    }
}

//! Converts RED's parameters to the kernel's parameters, as Linux's command `tc` does.
//!
//! The sources are `tc_red.c`, `tc_core.c` and the manual page tc-red of iproute2 (A. Kuznetsov), in versions up to
//! 6.1.
//!
//! The kernel uses only bit shifts in its computations. The weight is therefore a power of 1/2; in Linux 2.4, the slope
//! of the drop function is also a power of 1/2. For the decay of the average while the link is idle, the kernel uses a
//! table of shifts, with one shift for each cell of idle time.
//!
//! The kernel looks up the idle time in microseconds in the table, but `tc` computes the table in ticks of the kernel's
//! packet scheduler. In Linux 2.4, a tick was a microsecond. Today, a tick is 64 ns, so that the decay of the average
//! takes 15.6 times as long as intended.
//!
//! aqmlab rejects values for which the result of `tc` is undefined in C, for example a packet whose transmission takes
//! less than one microsecond.

use aqm_net::{ConfigError, Rate, Size};

/// Returns the weight of the average, as a negative binary logarithm (`Wlog`). The weight is the largest power of 1/2
/// for which a burst of `burst` packets of `avpkt` bytes, arriving at an empty queue, does not raise the average above
/// `min`.
///
/// # Errors
/// Returns an error if `burst` is too small or too large.
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

/// Returns `2^-log`.
pub(crate) fn power_of_half(log: u32) -> f64 {
    libm::ldexp(1.0, -(log as i32))
}

/// Returns the binary logarithm (`Plog`) of the smallest power of two that exceeds `width / probability`, where `width`
/// is `max - min` in bytes.
///
/// # Errors
/// Returns an error if the power does not fit into 32 bits.
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

/// The clock whose ticks `tc` uses for the transmission time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// A clock with ticks of one microsecond.
    Micros,
    /// A clock with ticks of 64 ns, so that 15.625 ticks are one microsecond.
    Ticks,
}

/// The decay of the average during an idle period (`Stab`, `Scell_log`).
#[derive(Clone, Debug)]
pub(crate) struct IdleTable {
    /// Binary logarithm of the length of a cell, which is `2^cell_log` microseconds.
    pub cell_log: u32,
    /// For each cell, the number of bits by which the average is shifted to the right. Zero means less than one bit.
    pub shifts: [u8; 256],
}

/// The largest shift in the table.
const MAX_SHIFT: f64 = 31.0;

impl IdleTable {
    /// Creates the table for a weight of `2^-weight_log`.
    ///
    /// # Errors
    /// Returns an error if the transmission of `avpkt` bytes takes too little or too much time at this `rate`.
    pub fn new(weight_log: u32, avpkt: Size, rate: Rate, clock: Clock) -> Result<Self, ConfigError> {
        let bytes_per_second = u128::from(rate.bps() / 8);
        let micros = (u128::from(avpkt.bytes()) * 1_000_000).checked_div(bytes_per_second).unwrap_or(0);
        let problem = format_args!(
            "must have a transmission time of at least 1us at {rate}, because tc computes in whole microseconds"
        );
        ConfigError::unless(micros > 0, "avpkt", problem)?;
        let ticks = match clock {
            Clock::Micros => micros,
            Clock::Ticks => micros * 125 / 8,
        };
        let decay = -libm::log1p(-power_of_half(weight_log)) / ticks as f64;
        let cells = |log: u32| MAX_SHIFT / decay * power_of_half(log);
        let Some(cell_log) = (0..32).find(|&log| cells(log) < 512.0) else {
            let problem =
                format!("takes too long to transmit at {rate} for this weight of the average queue length");
            return Err(ConfigError::at("avpkt", problem));
        };
        let mut shifts = [0; 256];
        for (cell, shift) in (0_u64..).zip(&mut shifts) {
            *shift = ((cell << cell_log) as f64 * decay).min(MAX_SHIFT) as u8;
        }
        shifts[255] = MAX_SHIFT as u8;
        Ok(Self { cell_log, shifts })
    }

    /// Returns the value of `average` after an idle time of `micros` microseconds. In the first cells, in which a shift
    /// by one bit would be too large, the average decreases linearly, but never to less than half of its value.
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
        // Each row contains min, max, the mean packet size, burst (or the default of `tc`) and the expected Wlog.
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
        // In one second, a link of 140 kb/s could send 11.67 packets. The intended shift is 1.56, which is 11.67 times
        // -ln(7/8). With the table in ticks, an idle time of 16 s has the same effect as an idle time of 1.02 s with
        // the table in microseconds.
        assert_eq!((micros.after(1 << 40, 1_000_000), ticks.after(1 << 40, 16_000_000)), (1 << 39, 1 << 39));
        // 85714 us are 1,339,281 ticks, and each cell increases the shift by 0.104547, so that the shift is 5 in cell
        // 48.
        assert_eq!([47, 48].map(|cell| ticks.after(1 << 40, cell << 20)), [1 << 36, 1 << 35]);
        // A cell is 65.5 ms long if the table is in microseconds, and 1.05 s long if the table is in ticks. Halfway to
        // the time at which the average is halved, the average has decreased by a quarter.
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

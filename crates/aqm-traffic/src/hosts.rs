//! Whether flows share access lines. A parameter of several workloads.

use aqm_net::{ConfigError, choices};

choices! {
    /// Where the flows of a workload start and end.
    pub enum Hosts {
        /// Each flow has a host of its own on each side.
        Own = "own",
        /// All flows of the workload share one host on each side.
        Shared = "shared",
    }
}

impl Hosts {
    /// How many hosts of their own `flows` flows use.
    pub(crate) fn count(self, flows: u32) -> u64 {
        match self {
            Self::Own => u64::from(flows),
            Self::Shared => 1,
        }
    }

    /// The host of flow number `flow`.
    pub(crate) fn of(self, flow: u32) -> u32 {
        match self {
            Self::Own => flow,
            Self::Shared => 0,
        }
    }
}

/// More flows than this are taken for a slip of the pen.
const MOST_FLOWS: u32 = 1_000_000;

/// Checks the number of flows of a workload.
pub(crate) fn check_flows(flows: u32) -> Result<(), ConfigError> {
    if !(1..=MOST_FLOWS).contains(&flows) {
        return Err(ConfigError::at("flows", format!("must be between 1 and {MOST_FLOWS}, is {flows}")));
    }
    Ok(())
}

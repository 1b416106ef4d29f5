//! RED and its variants: queues whose drop probability rises with the average queue length.
//!
//! The queues of ns-2 and of papers share the parts of [`core`]: the average queue length (`average.rs`), the drop
//! function (`curve.rs`) and the spacing of drops (`spacing.rs`). `adaptation.rs` adjusts `max_p` in Adaptive RED and
//! Self-Configuring RED. SHRED uses the congestion window of each packet's sender (`window_average.rs`). RIO and RIO-PS
//! have one average for each class.
//!
//! The queues of Linux (`linux_red.rs`, `choke.rs`, `gred.rs`, and SFQ) use the kernel's integer arithmetic
//! (`linux_core.rs`) and the tables that iproute2 computes from the parameters of `tc` (`tc.rs`).

pub(crate) mod adaptation;
pub(crate) mod adaptive_red;
pub(crate) mod average;
pub(crate) mod choke;
pub(crate) mod core;
pub(crate) mod curve;
pub(crate) mod gred;
pub(crate) mod linux_core;
pub(crate) mod linux_red;
#[expect(clippy::module_inception, reason = "the family is named after its first algorithm")]
pub(crate) mod red;
pub(crate) mod rio;
pub(crate) mod rio_ps;
pub(crate) mod self_configuring_red;
pub(crate) mod shred;
pub(crate) mod spacing;
pub(crate) mod tc;
pub(crate) mod window_average;

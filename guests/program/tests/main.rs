//! The stacks in programs of their own, as `aqmlab guest check` runs the stacks.

mod admission;
mod arguments;

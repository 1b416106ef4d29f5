//! The workloads. Each kind in the registry of [`Config`](crate::Config) has its own file or folder.

pub(crate) mod call;
pub(crate) mod ftp;
pub(crate) mod guest;
pub(crate) mod packmime;
#[cfg(test)]
pub(crate) mod polling;
pub(crate) mod probes;
pub(crate) mod program;
pub(crate) mod recorded_page;
pub(crate) mod replay;
pub(crate) mod responsiveness;
pub(crate) mod sessions;
pub(crate) mod streaming;
pub(crate) mod udp;
pub(crate) mod video;
pub(crate) mod video_call;
pub(crate) mod web;

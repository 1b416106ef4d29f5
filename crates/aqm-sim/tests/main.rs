//! All integration tests of the crate in one program, which is linked once.

mod asking;
mod bad_input;
mod bbr;
mod calls;
mod classes;
mod common;
mod conversations;
mod edges;
mod guests;
mod histories;
mod http;
mod identities;
mod ledbat;
mod plan;
mod recorded_pages;
mod reproducible;
mod responsiveness;
mod snapshots;
mod theory;
mod video_calls;

//! Transport libraries as guests in virtual time (`docs/guides/guests.md`).

pub mod run;
pub mod stacks;

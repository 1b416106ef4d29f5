//! Runs of the guest in programs of their own, as `aqmlab guest check` runs the guest.

use guest_common::testing::program;

const PROGRAM: &str = env!("CARGO_BIN_EXE_aqmlab-tquic");
const CONTROLS: [&str; 4] = ["cubic", "bbr", "bbr3", "copa"];

#[test]
fn two_runs_with_the_same_seed_are_equal_with_every_control() {
    program::assert_equal_runs(PROGRAM, &CONTROLS);
}

#[test]
fn the_seed_determines_the_contents_of_datagrams() {
    program::assert_seeded_contents(PROGRAM);
}

#[test]
fn unknown_keys_are_refused() {
    program::assert_unknown_keys_are_refused(PROGRAM);
}

#[test]
fn the_page_names_the_version_in_the_lock_file_and_the_controls() {
    let page = include_str!("../../../docs/guides/tquic-guest.md");
    program::assert_page(page, include_str!("../Cargo.lock"), "tquic 1.6.0", &CONTROLS);
}

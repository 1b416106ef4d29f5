//! Virtual time and seeded random numbers for libraries that ask the system for the time and for entropy.
//!
//! A program that contains this crate defines the functions of the C library that return the time and random numbers
//! ([`symbols`]). Therefore, `Instant::now()`, the keys of `HashMap`, and libraries in C receive the time of the guest's
//! current call and numbers that the guest's seed determines. The functions replace those of the whole program. Therefore,
//! each library is a program of its own, and is not a stack of `aqmlab-guests`.

pub mod symbols;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::{env, io};

use aqm_guest::{Answer, Guest, Payload, Problem, Start, frames};
use aqm_net::Instant;

/// The environment variable that turns off features of the processor in BoringSSL (`crypto/cpu_intel.cc`).
const FEATURES: &str = "OPENSSL_ia32cap";
/// The value that turns off the instruction RDRAND (bit 30 of the register ECX of CPUID's leaf 1), from which BoringSSL takes
/// random numbers on processors of Intel.
const NO_RDRAND: &str = "~0x4000000000000000";

/// Exit status if the exchange of frames fails, as of aqmlab for invalid arguments.
const FAILED: u8 = 2;

/// Answers requests from standard input in virtual time until the guest is stopped or standard input ends. The program must
/// call this function first, because the function starts the program again if BoringSSL could use RDRAND.
pub fn serve(guest: &mut dyn Guest) -> ExitCode {
    let mut guest = Timed(guest);
    let served = without_rdrand()
        .and_then(|()| frames::serve(&mut guest, &mut io::stdin().lock(), &mut io::stdout().lock()));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Replaces the program by itself, unless RDRAND is off. A constructor of BoringSSL may read the variable before `main`, so
/// that the program cannot set the variable for itself.
#[expect(clippy::disallowed_methods, reason = "the variable does not configure the guest")]
fn without_rdrand() -> io::Result<()> {
    if env::var(FEATURES).as_deref() == Ok(NO_RDRAND) {
        return Ok(());
    }
    Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).env(FEATURES, NO_RDRAND).exec())
}

/// A guest whose clock shows the time of the current call.
struct Timed<'a>(&'a mut dyn Guest);

impl Guest for Timed<'_> {
    fn start(&mut self, start: &Start) -> Result<Option<Instant>, Problem> {
        symbols::set_time(Instant::START);
        entropy::seed(start.seed);
        self.0.start(start)
    }

    fn run(&mut self, now: Instant, received: Vec<Payload>) -> Result<Answer, Problem> {
        symbols::set_time(now);
        self.0.run(now, received)
    }

    fn stop(&mut self) -> Result<(), Problem> {
        self.0.stop()
    }
}

//! The table of all stacks.

use aqm_guest::Guest;
use serde::Serialize;

/// A transport library as a guest.
#[derive(Clone, Debug, Serialize)]
pub struct Stack {
    /// Name of the stack.
    pub name: &'static str,
    /// The crate that implements the transport.
    pub library: &'static str,
    /// Version of this crate.
    pub version: &'static str,
    /// Licence of this crate (SPDX).
    pub licence: &'static str,
    /// Values of `control` in the configuration: the library's congestion controls.
    pub controls: &'static [&'static str],
    /// Returns a new guest.
    #[serde(skip)]
    pub build: fn() -> Box<dyn Guest>,
}

/// All stacks.
pub const STACKS: &[Stack] = &[
    Stack {
        name: "noq",
        library: "noq-proto",
        version: "1.4.0",
        licence: "MIT OR Apache-2.0",
        controls: &["newreno", "cubic", "bbr3"],
        build: || Box::new(noq_guest::Noq::default()),
    },
    Stack {
        name: "quinn",
        library: "quinn-proto",
        version: "0.11.19",
        licence: "MIT OR Apache-2.0",
        controls: &["newreno", "cubic", "bbr"],
        build: || Box::new(quinn_guest::Quinn::default()),
    },
    Stack {
        name: "s2n-quic",
        library: "s2n-quic",
        version: "1.91.0",
        licence: "Apache-2.0",
        controls: &["cubic", "bbr"],
        build: || Box::new(s2n_quic_guest::S2nQuic::default()),
    },
    Stack {
        name: "smoltcp",
        library: "smoltcp",
        version: "0.14.0",
        licence: "0BSD",
        controls: &["reno", "cubic", "none"],
        build: || Box::new(smoltcp_guest::Smoltcp::default()),
    },
    Stack {
        name: "str0m",
        library: "str0m",
        version: "0.25.0",
        licence: "MIT OR Apache-2.0",
        controls: &["gcc"],
        build: || Box::new(str0m_guest::Str0m::default()),
    },
];

/// Returns the stack with this name.
///
/// # Errors
/// Returns a message that contains the names of all stacks, if no stack has this name.
pub fn find(name: &str) -> Result<&'static Stack, String> {
    STACKS.iter().find(|stack| stack.name == name).ok_or_else(|| {
        let names: Vec<_> = STACKS.iter().map(|stack| stack.name).collect();
        format!("the stack must be one of {} (got {name})", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use aqm_guest::{End, Start};

    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../Cargo.lock");
        for Stack { library, version, .. } in STACKS {
            let entry = format!("[[package]]\nname = \"{library}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{library} {version}");
        }
    }

    #[test]
    fn the_page_of_each_stack_names_its_version_and_its_controls() {
        for stack in STACKS {
            let page = format!("{}/../../docs/guides/{}-guest.md", env!("CARGO_MANIFEST_DIR"), stack.name);
            let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
            assert!(page.contains(&format!("{} {}", stack.library, stack.version)), "{}", stack.name);
            for control in stack.controls {
                assert!(page.contains(&format!("`{control}`")), "{}: {control}", stack.name);
            }
        }
    }

    #[test]
    fn each_stack_accepts_its_controls_and_refuses_others() {
        for stack in STACKS {
            let start = |config: String| (stack.build)().start(&Start { end: End::Server, seed: 1, config });
            for control in stack.controls {
                start(format!(r#"{{"control": "{control}"}}"#))
                    .unwrap_or_else(|problem| panic!("{} with {control}: {problem}", stack.name));
            }
            for config in [r#"{"control": "unknown"}"#, r#"{"no_such_field": 1}"#] {
                let problem = start(config.to_owned()).expect_err(stack.name).to_string();
                assert!(problem.starts_with("configuration: unknown "), "{}: {problem}", stack.name);
            }
        }
    }
}

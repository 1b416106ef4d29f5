//! The guests of all stacks.

use aqm_guest::{Guest, STACKS};

/// Returns a new guest of the stack with this name.
///
/// # Errors
/// Returns a message that contains the names of all stacks, if no stack has this name.
pub fn build(name: &str) -> Result<Box<dyn Guest>, String> {
    Ok(match name {
        "noq" => Box::new(noq_guest::Noq::default()),
        "quinn" => Box::new(quinn_guest::Quinn::default()),
        "s2n-quic" => Box::new(s2n_quic_guest::S2nQuic::default()),
        "smoltcp" => Box::new(smoltcp_guest::Smoltcp::default()),
        "str0m" => Box::new(str0m_guest::Str0m::default()),
        _ => {
            let names: Vec<_> = STACKS.iter().map(|stack| stack.name).collect();
            return Err(format!("the stack must be one of {} (got {name})", names.join(", ")));
        }
    })
}

#[cfg(test)]
mod tests {
    use aqm_guest::{End, STACKS, Stack, Start};

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
            let start = |config: String| {
                build(stack.name).expect(stack.name).start(&Start { end: End::Server, seed: 1, config })
            };
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

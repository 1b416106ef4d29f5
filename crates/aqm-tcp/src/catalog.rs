//! Catalogue of all TCP plug-ins, aliases and profiles, for the documentation.

use aqm_net::Parameter as _;
use aqm_net::registry::{Entry, Family};

use crate::config::recovery::RecoveryKind;
use crate::congestion_control::Control;
use crate::{Config, aliases, profiles, transport};

const TCP: Family = Family { name: "tcp", title: "TCP" };
const RECOVERIES: Family = Family { name: "recoveries", title: "TCP recovery" };
const ALIASES: Family = Family { name: "aliases", title: "TCP alias" };
const PROFILES: Family = Family { name: "profiles", title: "TCP profile" };

/// Returns the entries of the `[tcp]` table, the congestion controls, the recoveries, the aliases and the profiles.
pub fn catalog() -> Vec<Entry> {
    let mut all = vec![Entry::of_parameters::<Config>("tcp", TCP)];
    all.extend(Control::catalog());
    let recovery = |kind: aqm_net::Choice| {
        let values = serde_json::json!({ "recovery": { "kind": kind.word } });
        Entry::of_values(kind.word, RECOVERIES, kind.doc, values)
    };
    all.extend(RecoveryKind::schema().choices.into_iter().map(recovery));
    all.extend(aliases().iter().map(|alias| {
        let values = transport(alias.name).expect("an alias is a transport");
        Entry::of_values(alias.name, ALIASES, alias.about, values)
    }));
    all.extend(profiles().into_iter().map(|profile| {
        let values = profile.config.to_value();
        let entry = Entry::of_values(profile.name, PROFILES, profile.about, values);
        Entry { sources: profile.sources, ..entry }
    }));
    all
}

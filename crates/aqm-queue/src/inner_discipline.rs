//! A discipline among the parameters of another.

use std::ops::Deref;

use aqm_net::registry::Parameter;
use serde::{Deserialize, Serialize};

use crate::Config;

/// The parameters of the discipline inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InnerDiscipline(Box<Config>);

impl Deref for InnerDiscipline {
    type Target = Config;
    fn deref(&self) -> &Config {
        &self.0
    }
}

impl Parameter for InnerDiscipline {
    fn kind() -> String {
        "table with a `kind`: any queue discipline".to_owned()
    }
}

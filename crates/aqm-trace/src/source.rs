//! Registry of packet sources.

use aqm_net::registry;

use crate::packets::Build;
use crate::{file, generate};

registry! {
    /// The parameters of a packet source of any kind.
    pub enum Config: Build, "trace-sources" = "trace source" {
        "generated" => generate,
        "file" => file,
    }
}

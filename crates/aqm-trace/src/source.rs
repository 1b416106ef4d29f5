//! Where packets come from: the registry of kinds.

use aqm_net::registry;

use crate::packets::Build;
use crate::{file, generate};

registry! {
    /// The parameters of any source of packets.
    pub enum Config: Build, "trace-sources" = "trace source" {
        "generated" => generate,
        "file" => file,
    }
}

//! Registry of the sources of packets.

use aqm_net::registry;

use crate::packets::Build;
use crate::{file, generate};

registry! {
    /// The parameters of a source of packets, which may be of any kind.
    pub enum Config: Build, "trace-sources" = "trace source" {
        "generated" => generate,
        "file" => file,
    }
}

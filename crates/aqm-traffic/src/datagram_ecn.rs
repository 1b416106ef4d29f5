//! The ECN bits of datagrams, which are parameters of all workloads that send datagrams.

use aqm_net::{Codepoint, ConfigError, Ecn, parameters};

parameters! {
    /// ECN bits of the datagrams of a workload.
    pub struct DatagramEcn {
        /// Whether the datagrams are ECN-capable, in which case routers may mark them. The workload does not respond to
        /// marks.
        pub ecn: bool = false, "aqmlab's choice";
        /// Codepoint of ECN-capable datagrams. The value `ect1` identifies the datagrams as L4S traffic (RFC 9331).
        pub codepoint: Codepoint = Codepoint::Ect0, "RFC 3168, section 5";
    }
}

impl DatagramEcn {
    /// Returns the ECN bits of a datagram.
    ///
    /// # Errors
    /// Returns an error if `codepoint` is set but `ecn` is false.
    pub(crate) fn bits(&self) -> Result<Ecn, ConfigError> {
        let has_effect = self.ecn || self.codepoint == Codepoint::Ect0;
        ConfigError::unless(has_effect, "codepoint", "has an effect only with `ecn = true`")?;
        Ok(if self.ecn { self.codepoint.ecn() } else { Ecn::NotEct })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_carry_the_codepoint_if_they_are_ecn_capable() {
        let bits = |ecn, codepoint| DatagramEcn { ecn, codepoint }.bits();
        assert_eq!(bits(false, Codepoint::Ect0).unwrap(), Ecn::NotEct);
        assert_eq!(bits(true, Codepoint::Ect0).unwrap(), Ecn::Ect0);
        assert_eq!(bits(true, Codepoint::Ect1).unwrap(), Ecn::Ect1);
        assert_eq!(bits(false, Codepoint::Ect1).unwrap_err().path, "codepoint");
    }
}

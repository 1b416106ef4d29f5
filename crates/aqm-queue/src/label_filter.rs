//! Filters that select packets by the header fields of their labels, for classes (`htb`) and stations (`wifi`).

use aqm_net::{ConfigErrors, Parameter, Schema, Several, parameters};
use serde::Serialize;
use serde_json::Value;

use crate::packet_label::{Label, Protocol};

parameters! {
    /// The conditions that a packet must satisfy. Conditions that are omitted are not checked.
    pub struct Filter {
        /// Names of workloads. The packet must belong to one of these workloads, in either direction.
        pub traffic: Vec<String> = Vec::new(), "aqmlab's choice";
        /// Protocol of the packet.
        pub protocol: Option<Protocol> = None, "aqmlab's choice";
        /// Port numbers. The destination port of the data must be one of these ports. For an acknowledgement, the
        /// destination port of the acknowledged data is used.
        pub port: Vec<u64> = Vec::new(), "aqmlab's choice";
        /// Code points (RFC 2474). The packet's code point must be one of these code points.
        pub dscp: Vec<u64> = Vec::new(), "aqmlab's choice";
    }
}

impl Filter {
    fn matches(&self, label: &Label) -> bool {
        let among = |list: &[u64], value: u64| list.is_empty() || list.contains(&value);
        (self.traffic.is_empty() || self.traffic.contains(&label.traffic))
            && self.protocol.is_none_or(|protocol| protocol == label.protocol)
            && among(&self.port, label.port.into())
            && among(&self.dscp, label.dscp.into())
    }
}

/// A list of filters. At least one of these filters must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Filters(Vec<Filter>);

impl Filters {
    /// No filter.
    pub(crate) const NONE: Self = Self(Vec::new());

    /// Returns whether at least one filter matches the label.
    pub(crate) fn match_label(&self, label: &Label) -> bool {
        self.0.iter().any(|filter| filter.matches(label))
    }

    /// Returns the filters in the order of the scenario.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.0.iter()
    }

    /// Returns the names of workloads that occur in the filters.
    pub(crate) fn traffic(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|filter| &filter.traffic).map(String::as_str)
    }

    /// Returns whether there is no filter, in which case no packet matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Parameter for Filters {
    fn schema() -> Schema {
        Schema { several: Some(Several::OneOrList), ..Filter::schema() }
    }
    fn read(value: Value) -> Result<Self, ConfigErrors> {
        if value.is_array() {
            Vec::read(value).map(Self)
        } else {
            Filter::read(value).map(|filter| Self(vec![filter]))
        }
    }
}

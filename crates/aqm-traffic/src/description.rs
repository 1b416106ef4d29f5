//! Properties of a workload that analysis programs need but that are not part of a run's result tables.

use serde::Serialize;

use crate::Config;
use crate::workloads::call::Codec;

/// Properties of a workload that analysis programs need.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// Whether the workload sends datagrams instead of using TCP.
    pub sends_datagrams: bool,
    /// Whether the workload's transfers are parts of pages.
    pub fetches_pages: bool,
    /// Whether the workload records the loads of its pages and the times of their objects.
    pub records_pages: bool,
    /// Whether the objects of a page share connections.
    pub shares_connections: bool,
    /// Whether the workload consists of guests.
    pub has_guests: bool,
    /// Whether the workload's transfers never end.
    pub is_endless: bool,
    /// Name of the parameter that sets the number of new connections per second; `None` if there is no such parameter.
    pub connection_rate: Option<&'static str>,
    /// Audio or video that the workload carries; `None` if the workload carries neither.
    #[serde(flatten)]
    pub application: Option<Application>,
}

/// Audio or video that a workload carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Application {
    /// Voice in both directions. Each flow carries the voice data that one of the endpoints receives.
    Call {
        /// Voice codec.
        codec: Codec,
        /// Duration of the voice data in one datagram, in seconds.
        frame_s: f64,
    },
    /// Audio and video in both directions, whose rate adapts to the network. Each flow carries what one of the
    /// endpoints receives.
    VideoCall {
        /// Frames per second.
        frame_rate: f64,
    },
    /// Video. Each flow belongs to one viewer, and each transfer is a segment.
    Video(Playback),
    /// An application whose datagrams are useless after a deadline, for example a game.
    Deadline {
        /// Longest useful one-way delay, in seconds.
        deadline_s: f64,
    },
    /// A test of responsiveness, whose probes are in the table `test_probes`.
    Responsiveness(LineTest),
}

/// Parameters of a test of responsiveness.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineTest {
    /// Phases with load, in order: `download`, `upload`.
    pub directions: Vec<&'static str>,
    /// Whether the test measures the idle line.
    pub has_idle: bool,
    /// Whether the test sends echoes.
    pub has_echoes: bool,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Number of seconds at the end of a phase whose probes count.
    pub window_s: f64,
    /// Number of intervals in these seconds.
    pub intervals: u32,
    /// Share of the samples that the trimmed means keep.
    pub trim: f64,
}

/// Playback parameters of a video. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Playback {
    /// Play time of a segment.
    pub segment_s: f64,
    /// Buffer level at which playback begins.
    pub start_up_s: f64,
    /// Buffer level at which playback resumes after a stall.
    pub resume_s: f64,
    /// Number of segments of the video; `None` if the video is longer than the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// Time at which the viewers stop watching; `None` if the viewers watch until the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
}

impl Config {
    /// Returns the properties of the workload for analysis programs.
    pub fn describe(&self) -> Description {
        Description {
            sends_datagrams: self.sends_datagrams(),
            fetches_pages: self.fetches_pages(),
            records_pages: self.records_pages(),
            shares_connections: self.shares_connections(),
            has_guests: self.has_guests(),
            is_endless: self.is_endless(),
            connection_rate: self.connection_rate(),
            application: self.application(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the kinds of workloads for whose default configuration `holds` returns true.
    fn kinds(holds: impl Fn(&Description) -> bool) -> Vec<&'static str> {
        let all = Config::every();
        all.iter().filter(|one| holds(&one.describe())).map(Config::kind).collect()
    }

    fn describe(table: Value) -> Value {
        json!(Config::read(table).unwrap().describe())
    }

    #[test]
    fn each_kind_has_its_properties() {
        assert_eq!(kinds(|one| one.sends_datagrams), ["udp", "streaming", "call", "video-call", "guest"]);
        assert_eq!(kinds(|one| one.has_guests), ["guest"]);
        assert_eq!(kinds(|one| one.fetches_pages), ["web", "sessions", "probes", "recorded-page"]);
        assert_eq!(kinds(|one| one.records_pages), ["recorded-page"]);
        assert_eq!(kinds(|one| one.shares_connections), ["recorded-page"]);
        assert_eq!(kinds(|one| one.is_endless), ["ftp"]);
        assert_eq!(kinds(|one| one.connection_rate.is_some()), ["packmime"]);
        assert_eq!(kinds(|one| one.application.is_some()), ["video", "call", "video-call", "responsiveness"]);
    }

    #[test]
    fn the_measures_of_datagrams_and_tests_need_their_parameters() {
        let game = describe(json!({"kind": "udp", "rate": "64kbps", "deadline": "50ms"}));
        assert_eq!(game["deadline"], json!({"deadline_s": 0.05}));
        let test = describe(json!({"kind": "responsiveness", "directions": "upload", "idle_probes": 0}));
        let expected = json!({
            "directions": ["upload"], "has_idle": false, "has_echoes": true, "tls": true,
            "window_s": 20.0, "intervals": 4, "trim": 0.95,
        });
        assert_eq!(test["responsiveness"], expected);
    }

    #[test]
    fn a_rate_of_connections_is_a_parameter() {
        let entries = Config::catalog();
        for (one, entry) in Config::every().iter().zip(&entries) {
            let Some(name) = one.connection_rate() else { continue };
            assert!(entry.parameters.iter().any(|field| field.name == name), "{name} of {}", entry.name);
        }
    }

    #[test]
    fn objects_share_connections_where_their_number_is_given() {
        for kind in ["web", "sessions"] {
            let table = json!({"kind": kind, "connections": 6, "request": "300B"});
            assert_eq!(describe(table)["shares_connections"], true);
        }
    }

    #[test]
    fn transfers_of_a_given_size_end() {
        let size = json!({"kind": "constant", "value": "1MB"});
        assert_eq!(describe(json!({"kind": "ftp"}))["is_endless"], true);
        assert_eq!(describe(json!({"kind": "ftp", "sizes": size}))["is_endless"], false);
    }

    #[test]
    fn an_application_is_described_in_seconds() {
        let call = describe(json!({"kind": "call", "codec": "gsm-efr", "every": "10ms"}));
        assert_eq!(call["call"], json!({"codec": "gsm-efr", "frame_s": 0.01}));
        assert_eq!(call.get("video"), None);
        let seen = describe(json!({"kind": "video-call", "frame_rate": 15.0}));
        assert_eq!(seen["video_call"], json!({"frame_rate": 15.0}));
        let film = describe(json!({"kind": "video"}));
        assert_eq!(film["video"], json!({"segment_s": 4.0, "start_up_s": 2.5, "resume_s": 5.0}));
        let short = json!({"kind": "video", "segment": "300ms", "length": "1s", "stop": "2min"});
        let short = &describe(short)["video"];
        assert_eq!((&short["segments"], &short["stop_s"]), (&json!(4), &json!(120.0)));
    }
}

//! The test cases of RFC 8867: the path, the flows and the phases of each case.

/// Times and capacities in bits per second, in the order of the times. The first time is 0 s.
pub type Steps = &'static [(u64, u64)];

/// A media flow of a case. Times are in seconds.
pub struct Flow {
    /// Whether the media travels in the backward direction of the path.
    pub backward: bool,
    pub start: u64,
    /// One-way propagation delay in milliseconds.
    pub delay: u64,
    /// The time from which to which the flow sends no media.
    pub pause: Option<(u64, u64)>,
}

pub struct Case {
    /// Section of RFC 8867.
    pub section: &'static str,
    /// Duration in seconds.
    pub duration: u64,
    /// The capacity from which the length of the queue is computed: 300 ms at this rate.
    pub reference: u64,
    pub forward: Steps,
    /// Capacity of the backward direction, if this direction is congested.
    pub backward: Option<Steps>,
    /// Flows of different calls, except in section 5.3, whose two flows are the directions of one call.
    pub flows: Vec<Flow>,
    /// Time at which one long TCP transfer begins in the forward direction.
    pub tcp: Option<u64>,
    /// Boundaries of the phases in the forward and in the backward direction, in seconds.
    pub phases: [&'static [u64]; 2],
}

const DELAY: u64 = 50;

fn flow(start: u64) -> Flow {
    Flow { backward: false, start, delay: DELAY, pause: None }
}

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    vec![
        Case {
            section: "5.1",
            duration: 100,
            reference: 1_000_000,
            forward: &[(0, 1_000_000), (40, 2_500_000), (60, 600_000), (80, 1_000_000)],
            backward: None,
            flows: vec![flow(0)],
            tcp: None,
            phases: [&[0, 40, 60, 80, 100], &[]],
        },
        Case {
            section: "5.2",
            duration: 125,
            reference: 2_000_000,
            forward: &[(0, 4_000_000), (25, 2_000_000), (50, 3_500_000), (75, 1_000_000), (100, 2_000_000)],
            backward: None,
            flows: vec![flow(0), flow(0)],
            tcp: None,
            phases: [&[0, 25, 50, 75, 100, 125], &[]],
        },
        Case {
            section: "5.3",
            duration: 100,
            reference: 1_000_000,
            forward: &[(0, 2_000_000), (20, 1_000_000), (40, 500_000), (60, 2_000_000)],
            backward: Some(&[(0, 2_000_000), (35, 800_000), (70, 2_000_000)]),
            flows: vec![flow(0), Flow { backward: true, ..flow(0) }],
            tcp: None,
            phases: [&[0, 20, 40, 60, 100], &[0, 35, 70, 100]],
        },
        Case {
            section: "5.4",
            duration: 120,
            reference: 3_500_000,
            forward: &[(0, 3_500_000)],
            backward: None,
            flows: vec![flow(0), flow(20), flow(40)],
            tcp: None,
            phases: [&[0, 20, 40, 120], &[]],
        },
        Case {
            section: "5.5",
            duration: 300,
            reference: 4_000_000,
            forward: &[(0, 4_000_000)],
            backward: None,
            flows: [10, 25, 50, 100, 150]
                .into_iter()
                .zip([0, 10, 20, 30, 40])
                .map(|(delay, start)| Flow { delay, ..flow(start) })
                .collect(),
            tcp: None,
            phases: [&[0, 10, 20, 30, 40, 100, 200, 300], &[]],
        },
        Case {
            section: "5.6",
            duration: 120,
            reference: 2_000_000,
            forward: &[(0, 2_000_000)],
            backward: None,
            flows: vec![flow(5)],
            tcp: Some(0),
            phases: [&[5, 30, 60, 90, 120], &[]],
        },
        Case {
            section: "5.8",
            duration: 120,
            reference: 3_500_000,
            forward: &[(0, 3_500_000)],
            backward: None,
            flows: vec![Flow { pause: Some((40, 60)), ..flow(0) }, flow(0), flow(0)],
            tcp: None,
            phases: [&[0, 40, 60, 120], &[]],
        },
    ]
}

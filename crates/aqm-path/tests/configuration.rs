//! Valid and invalid configurations, and misuse of a path.

use aqm_path::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn errors(text: &str) -> Vec<String> {
    let Err(errors) = Path::from_toml(text) else { panic!("{text} is accepted") };
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn invalid_values_are_rejected_with_their_paths_in_the_configuration() {
    let found = errors(
        r#"
        forward = [
            { rate = "10Mb", delay = "20ms", queue = { kind = "codel", target = "5" } },
            { rate = "10Mbps", delay = "20ms", name = "core", queue = { kind = "codell" } },
        ]
        reverse = [{ rate = "10Mbps", dely = "20ms" }]
        traffic = { voice = { dscp = 64, hosts = 0 } }
        "#,
    );
    let beginnings = [
        "reverse.0.dely: unknown key `dely`; did you mean `delay`?",
        "forward.0.rate: `10Mb`: unknown unit `Mb`",
        "forward.0.queue.target: ",
        "forward.1.queue.kind: unknown kind `codell`; did you mean `codel`?",
        "reverse.0.delay: is missing",
        "traffic.voice.dscp: must be a whole number from 0 to 63 (got 64)",
    ];
    for beginning in beginnings {
        assert!(found.iter().any(|error| error.starts_with(beginning)), "{beginning}: {found:#?}");
    }
}

#[test]
fn invalid_lists_of_links_are_rejected() {
    let link = r#"{ rate = "1Mbps", delay = "1ms" }"#;
    let named = r#"{ rate = "1Mbps", delay = "1ms", name = "a" }"#;
    let many = format!("forward = [{}]", vec![link; 65].join(", "));
    for (text, expected) in [
        ("", "forward: is missing: add a list of links"),
        ("forward = []", "forward: must contain 1 to 64 links (got 0)"),
        (many.as_str(), "forward: must contain 1 to 64 links (got 65)"),
        (
            r#"forward = [{ rate = "1Mbps", delay = "59min" }, { rate = "1Mbps", delay = "1ms", delay_steps = [{ at = "1s", delay = "61s" }] }]"#,
            "forward: the sum of the delays must be at most 1h (got 3601s)",
        ),
        ("forward = 3", "forward: must be a list of links (got 3)"),
        ("forward = [3]", "forward.0: must be a table (got 3)"),
        (&format!("forward = [{link}]\nreverse = []"), "reverse: must contain 1 to 64 links (got 0)"),
        (
            &format!("forward = [{named}]\nreverse = [{named}]"),
            "reverse.0.name: is the name of another link (got `a`)",
        ),
        (
            r#"forward = [{ rate = "1Mbps", delay = "1ms", name = "a b" }]"#,
            "forward.0.name: must consist of 1 to 59 letters, digits, `-`, `_` or `+` (got \"a b\")",
        ),
        (
            r#"forward = [{ rate = "1Mbps", delay = "1ms", from = "a" }]"#,
            "forward.0.from: is not a key of a path",
        ),
        (
            &format!("forward = [{link}]\nforwards = 1"),
            "forwards: unknown key `forwards`; did you mean `forward`?",
        ),
        (&format!("forward = [{link}]\nseed = -1"), "seed: "),
        (&format!("forward = [{link}]\ntraffic = {{}}"), "traffic: must contain at least one table"),
        (
            r#"forward = [{ rate = "1Mbps", delay = "1ms", loss = { probability = 0.1 } }]"#,
            "forward.0.queue: is missing: a link without a queue has a constant rate and delay",
        ),
        ("forward = [", "line 1: "),
    ] {
        let found = errors(text);
        assert!(found.iter().any(|error| error.starts_with(expected)), "{text}: {found:#?}");
    }
    assert!(Path::from_json("[1]").unwrap_err().to_string().starts_with("must be a table"));
    assert!(Path::from_json("{").unwrap_err().to_string().contains("line 1"));
}

#[test]
fn the_default_reverse_links_never_drop_datagrams() {
    let text = r#"
        forward = [
            { rate = "8Mbps", delay = "1ms", queue = { kind = "drop-tail", limit = "2p" } },
            { rate = "4Mbps", delay = "2ms", queue = { kind = "drop-tail", limit = "2p" } },
        ]
    "#;
    let mut path = Path::from_toml(text).unwrap();
    let flow = path.open_flow();
    for direction in [Direction::Reverse, Direction::Forward] {
        for _ in 0..100 {
            path.send(Datagram { flow, direction, bytes: 1000, ecn: Ecn::NotEct }, at(0)).unwrap();
        }
    }
    let (mut delivered, mut dropped) = ([0, 0], [0, 0]);
    while let Some(outcome) = path.poll(at(10_000)) {
        let counts = if matches!(outcome, Outcome::Delivered { .. }) { &mut delivered } else { &mut dropped };
        counts[usize::from(outcome.direction() == Direction::Reverse)] += 1;
    }
    // In the forward direction, one datagram is in transmission and two datagrams wait.
    assert_eq!((delivered, dropped), ([3, 100], [97, 0]));
    assert_eq!(
        path.links().iter().map(|link| link.name.as_str()).collect::<Vec<_>>(),
        ["forward-0", "forward-1"]
    );
}

#[test]
fn a_path_without_queues_only_delays_datagrams() {
    let mut path = Path::from_toml(r#"forward = [{ rate = "8Mbps", delay = "1ms" }]"#).unwrap();
    let flow = path.open_flow();
    for _ in 0..10_000 {
        path.send(Datagram { flow, direction: Direction::Forward, bytes: 1000, ecn: Ecn::NotEct }, at(0))
            .unwrap();
    }
    let times: Vec<u64> = std::iter::from_fn(|| path.poll(at(60_000))).map(|one| one.at().nanos()).collect();
    assert!(times.iter().copied().eq((1..=10_000).map(|number| 1_000_000 * (number + 1))));
}

#[test]
fn files_are_passed_by_name() {
    let text = r#"forward = [{ delay = "1ms", rate_file = "rates.csv", queue = { kind = "codel" } }]"#;
    let config = Config::from_toml(text).unwrap();
    assert_eq!(config.files().unwrap(), ["rates.csv"]);
    let missing = Path::new(&config).unwrap_err().to_string();
    assert!(missing.starts_with("forward.0.rate_file: the file `rates.csv` was not read"), "{missing}");
    let mut path = Path::new(&config.with_file("rates.csv", "0,8Mbps\n1,4Mbps\n")).unwrap();
    let flow = path.open_flow();
    let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1000, ecn: Ecn::NotEct };
    for millis in [0, 2000] {
        path.send(datagram, at(millis)).unwrap();
    }
    let times: Vec<u64> = std::iter::from_fn(|| path.poll(at(9000))).map(|one| one.at().nanos()).collect();
    assert_eq!(times, [2_000_000, 2_003_000_000]);
}

#[test]
fn queues_read_the_labels_and_hosts_of_flows() {
    let text = r#"
        forward = [{ rate = "1Mbps", delay = "1ms", queue = { kind = "htb", default = "bulk", classes = {
            voice = { rate = "900kbps", match = { dscp = [46] } },
            game = { rate = "50kbps", match = { port = [5004], protocol = "udp" } },
            bulk = { rate = "50kbps" },
        } } }]
        traffic = { bulk = {}, voice = { dscp = 46, hosts = 2 } }
    "#;
    let mut path = Path::from_toml(text).unwrap();
    let named = |name: &str| FlowOptions { traffic: Some(name.to_owned()), ..FlowOptions::default() };
    let bulk = path.open_flow_with(&named("bulk")).unwrap();
    let voice = path.open_flow_with(&FlowOptions { host: 1, ..named("voice") }).unwrap();
    let game = path.open_flow_with(&FlowOptions { port: Some(5004), ..named("bulk") }).unwrap();
    let dscp = path.open_flow_with(&FlowOptions { dscp: Some(46), ..FlowOptions::default() }).unwrap();
    for flow in [vec![bulk; 20], vec![game, voice, dscp]].concat() {
        let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1250, ecn: Ecn::NotEct };
        path.send(datagram, at(0)).unwrap();
    }
    let view = path.links().remove(0);
    assert_eq!((view.arrivals, view.length_packets), (23, 22));
    let order: Vec<FlowId> = std::iter::from_fn(|| path.poll(at(60_000))).map(|one| one.flow()).collect();
    assert_eq!(order.len(), 23);
    // The classes of the last three datagrams have enough tokens for a datagram.
    let position = |flow| order.iter().position(|&other| other == flow).unwrap();
    assert!([voice, dscp, game].iter().all(|&flow| position(flow) < 10), "{order:?}");

    let mut error = |options| path.open_flow_with(&options).unwrap_err().to_string();
    assert_eq!(
        error(named("voise")),
        "unknown traffic `voise`; did you mean `voice`? allowed: `bulk`, `voice`"
    );
    assert_eq!(error(FlowOptions { host: 2, ..named("voice") }), "host: must be less than 2 (got 2)");
    assert_eq!(
        error(FlowOptions { dscp: Some(64), ..named("voice") }),
        "dscp: must be from 0 to 63 (got 64)"
    );
}

#[test]
fn a_path_whose_links_never_drop_rejects_datagrams_before_times_overflow() {
    let mut path = Path::from_toml(r#"forward = [{ rate = "16bps", delay = "1ms" }]"#).unwrap();
    let flow = path.open_flow();
    let datagram = Datagram { flow, direction: Direction::Forward, bytes: 65_535, ecn: Ecn::NotEct };
    let latest = Instant::from_nanos(10 * 365 * 86_400_000_000_000);
    let sent = (0..100_000).take_while(|_| path.send(datagram, latest).is_ok()).count();
    assert_eq!(sent, 2_000_000_000_usize.div_ceil(65_535));
    assert_eq!(path.send(datagram, latest), Err(SendError::Full));
    assert_eq!(path.poll(latest), None);
    let delivered = std::iter::from_fn(|| path.poll(Instant::NEVER)).count();
    assert_eq!((delivered, path.in_transit()), (sent, 0));
}

#[test]
fn misuse_is_an_error_and_does_not_change_the_path() {
    let text = r#"forward = [{ rate = "8Mbps", delay = "1ms", queue = { kind = "codel" } }]"#;
    let mut path = Path::from_toml(text).unwrap();
    let flow = path.open_flow();
    let datagram = Datagram { flow, direction: Direction::Forward, bytes: 1000, ecn: Ecn::NotEct };
    path.send(datagram, at(5)).unwrap();
    let mut error = |datagram, now| path.send(datagram, now).unwrap_err().to_string();
    assert_eq!(
        error(datagram, at(4)),
        "now: must not be earlier than 5000000 ns, the time of the previous call (got 4000000 ns)"
    );
    for bytes in [0, 65_536, usize::MAX] {
        let expected = format!("bytes: must be from 1 to 65535 (got {bytes})");
        assert_eq!(error(Datagram { bytes, ..datagram }, at(5)), expected);
    }
    let flow = FlowId::from_number(1);
    assert_eq!(error(Datagram { flow, ..datagram }, at(5)), "flow: no flow of this path has the number 1");
    assert!(error(datagram, Instant::NEVER).starts_with("now: must be at most 315360000000000000 ns"));
    assert_eq!(path.in_transit(), 1);
    assert_eq!(path.poll(at(4)), None);
    assert_eq!(path.poll(Instant::NEVER).map(|outcome| outcome.at()), Some(at(7)));
    assert_eq!((path.poll(Instant::NEVER), path.next_due()), (None, None));
    // The time of the last poll has passed.
    assert!(matches!(path.send(datagram, at(8)), Err(SendError::Past { .. })));
}

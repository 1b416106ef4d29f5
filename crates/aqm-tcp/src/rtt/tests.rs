//! Tests that compare estimates with published values, and tests of the timeout's limits, of the back-off and of ticks.

use super::*;

fn after(config: &Rto, samples: &[u64]) -> Vec<(f64, f64)> {
    let mut estimator = Estimator::new(config);
    let millis = |span: Option<Span>| span.unwrap().nanos() as f64 / 1e6;
    let step = |&rtt: &u64| {
        estimator.sample(Instant::START, Instant::START + Span::from_millis(rtt), config);
        (millis(estimator.srtt(config)), millis(estimator.rttvar(config)))
    };
    samples.iter().map(step).collect()
}

#[test]
fn the_timeout_of_linux_is_at_least_srtt_plus_the_minimum() {
    let config = Rto { arithmetic: RtoArithmetic::Linux, min: Span::from_millis(200), ..Rto::default() };
    let mut estimator = Estimator::new(&config);
    let mut now = Instant::START;
    let mut rounds = 0;
    let mut rto_after = |rtt: u64, times: usize| {
        for _ in 0..times {
            let sent = now;
            now += Span::from_millis(rtt);
            rounds += 1;
            estimator.reach(rounds, rounds);
            estimator.sample(sent, now, &config);
        }
        (estimator.rto().nanos() + 500_000) / 1_000_000
    };
    assert_eq!(rto_after(100, 1), 300, "first sample: SRTT plus four times its half");
    assert_eq!(rto_after(100, 200), 300);
    assert_eq!(
        rto_after(400, 1),
        438,
        "SRTT rises by an eighth of 300 ms, the term of the variation to 300 ms"
    );
    assert_eq!(rto_after(400, 200), 600);
    assert_eq!(rto_after(100, 1), 563, "a much shorter round trip changes SRTT only");
}

#[test]
fn published_samples_give_published_estimates() {
    assert_eq!(after(&Rto::default(), &[1000, 1200, 900]), [(1000., 500.), (1025., 425.), (1009.375, 350.)]);
    let gains = |gain| Rto { srtt_gain: gain, rttvar_gain: gain, ..Rto::default() };
    assert_eq!(after(&gains(0.1), &[1200, 950, 1400]), [(1200., 600.), (1175., 565.), (1197.5, 531.)]);
    assert_eq!(after(&gains(0.0), &[1000, 2000, 3000]), [(1000., 500.); 3]);
    assert_eq!(after(&gains(1.0), &[1000, 2500, 7000]), [(1000., 500.), (2500., 1500.), (7000., 4500.)]);
}

#[test]
fn before_any_sample_the_timeout_is_the_initial_one() {
    let estimator = Estimator::new(&Rto::default());
    assert_eq!(estimator.rto(), Span::from_millis(1000));
    assert_eq!((estimator.srtt(&Rto::default()), estimator.rttvar(&Rto::default())), (None, None));
}

#[test]
fn the_timeout_is_srtt_plus_four_variations_within_its_limits() {
    let wide = Rto { min: Span::from_millis(1), ..Rto::default() };
    let mut estimator = Estimator::new(&Rto::default());
    estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &Rto::default());
    assert_eq!(estimator.rto(), Span::from_millis(1000));
    let mut estimator = Estimator::new(&wide);
    estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &wide);
    assert_eq!(estimator.rto(), Span::from_millis(300));
    let coarse = Rto { tick: Span::from_millis(500), ..wide };
    estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &coarse);
    assert_eq!(estimator.rto(), Span::from_millis(600), "4 RTTVAR counts as at least a tick");
}

#[test]
fn the_back_off_doubles_until_the_maximum_and_ends_with_a_sample() {
    for arithmetic in [RtoArithmetic::Exact, RtoArithmetic::Ticks] {
        let config = Rto { arithmetic, tick: Span::from_millis(10), ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        let mut seconds = Vec::new();
        for _ in 0..60 {
            seconds.push(estimator.rto().nanos() / 1_000_000_000);
            estimator.back_off(&config);
        }
        assert_eq!(seconds[..9], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(seconds[59], 60);
        estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &config);
        assert_eq!((estimator.backoff(), estimator.rto()), (1, Span::from_millis(1000)));
    }
}

#[test]
fn the_minimum_applies_before_or_after_the_back_off() {
    let seconds = |min_applies| {
        let config = Rto { min_applies, ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &config);
        [(); 4].map(|()| {
            let rto = estimator.rto();
            estimator.back_off(&config);
            rto.nanos() as f64 / 1e9
        })
    };
    assert_eq!(seconds(MinRto::BeforeBackOff), [1.0, 2.0, 4.0, 8.0]);
    assert_eq!(seconds(MinRto::AfterBackOff), [1.0, 1.0, 1.2, 2.4], "0.3 s, doubled three times");
}

#[test]
fn a_timer_on_the_wheel_expires_on_a_tick_of_a_resolution_that_depends_on_its_wait() {
    let millis = Span::from_millis;
    let at = |clock, phase, now, wait| {
        let config = Rto { clock, tick: millis(10), tick_phase: millis(phase), ..Rto::default() };
        config.expiry(Instant::START + millis(now), millis(wait)).nanos() / 1_000_000
    };
    let wheel = |now, wait| at(TimerClock::Wheel, 0, now, wait);
    assert_eq!(at(TimerClock::Exact, 0, 13, 41), 54);
    assert_eq!([wheel(0, 40), wheel(9, 40), wheel(9, 41), wheel(10, 40)], [50, 50, 60, 60]);
    assert_eq!([wheel(0, 620), wheel(0, 630), wheel(0, 640)], [630, 640, 720], "each 8th tick from 63 on");
    assert_eq!([wheel(0, 5030), wheel(0, 5040)], [5040, 5120], "each 64th from 504 on");
    assert_eq!(at(TimerClock::Wheel, 75, 0, 40), 45, "the tick at 120 ms after 75");
}

#[test]
fn in_linux_a_round_trip_ends_when_its_data_is_acknowledged() {
    let config = Rto { arithmetic: RtoArithmetic::Linux, min: Span::from_millis(200), ..Rto::default() };
    let rto = |acknowledged: u64| {
        let mut estimator = Estimator::new(&config);
        for rtt in [400, 400, 400] {
            estimator.reach(acknowledged, 10);
            estimator.sample(Instant::START, Instant::START + Span::from_millis(rtt), &config);
        }
        estimator.rto().nanos() / 1_000_000
    };
    assert_eq!(rto(10), 1200, "the first variation is kept");
    assert!(rto(11) < 1200);
}

#[test]
fn ticks_count_from_the_phase_of_the_clock() {
    let with = |phase| Rto {
        arithmetic: RtoArithmetic::Ticks,
        tick: Span::from_millis(10),
        tick_phase: Span::from_millis(phase),
        min: Span::from_millis(200),
        ..Rto::default()
    };
    let srtt = |config: Rto| {
        let mut estimator = Estimator::new(&config);
        estimator.sample(Instant::START, Instant::from_nanos(44_768_000), &config);
        estimator.srtt(&config).unwrap()
    };
    assert_eq!(srtt(with(5)), Span::from_millis(40));
    assert_eq!(srtt(with(6)), Span::from_millis(50));
}

#[test]
fn in_ticks_a_long_back_off_discards_the_estimate() {
    let config = Rto { arithmetic: RtoArithmetic::Ticks, tick: Span::from_millis(10), ..Rto::default() };
    let mut estimator = Estimator::new(&config);
    estimator.sample(Instant::START, Instant::START + Span::from_millis(300), &config);
    for _ in 0..3 {
        estimator.back_off(&config);
        assert_eq!(estimator.srtt(&config), Some(Span::from_millis(300)));
    }
    estimator.back_off(&config);
    assert_eq!(estimator.srtt(&config), None);
    estimator.sample(Instant::START, Instant::START + Span::from_millis(50), &config);
    assert_eq!(estimator.srtt(&config), Some(Span::from_millis(50)));
}

#[test]
fn in_ticks_a_round_trip_is_at_least_a_tick_and_a_timeout_at_least_two() {
    let millis = Span::from_millis;
    let config = Rto { arithmetic: RtoArithmetic::Ticks, tick: millis(10), min: millis(1), ..Rto::default() };
    let mut estimator = Estimator::new(&config);
    estimator.sample(Instant::START, Instant::START + millis(1), &config);
    assert_eq!(estimator.srtt(&config), Some(millis(10)));
    let short = Rto { initial: millis(1), ..config };
    assert_eq!(Estimator::new(&short).rto(), millis(20));
}

#[test]
fn the_back_off_rises_to_64_even_beyond_the_maximum() {
    let config = Rto { max: Span::from_millis(2000), ..Rto::default() };
    let mut estimator = Estimator::new(&config);
    (0..20).for_each(|_| estimator.back_off(&config));
    assert_eq!((estimator.backoff(), estimator.rto()), (64, config.max));
}

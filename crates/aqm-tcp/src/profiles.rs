//! Named sets of TCP parameters, with the source of each value, and the parser of `[tcp]` tables.
//!
//! The profile `rfc` consists of the default values of `Config`: TCP Reno without SACK and timestamps, according to the
//! current RFCs.
//!
//! The profiles `ns-2.*` model `Agent/TCP/Reno` and `Agent/TCPSink` with the defaults of one ns-2 release each,
//! according to the release's `ns-default.tcl`, `CHANGES.html` (the dates), `tcp.cc`, `tcp-reno.cc`, `tcp-newreno.cc`,
//! `tcp-sack1.cc` and `tcp-sink.cc`. The releases are 2.1b8 of 6 June 2001, 2.26 of 26 February 2003, and 2.35 of 4
//! November 2011. With `recovery.kind = "newreno"` or `"sack"`, these profiles model the agents `Newreno` and `Sack1`
//! of the release. The profiles `ns-2.*-full` model ns-2's two-way agent `Agent/TCP/FullTcp` (Reno) or, with `"sack"`,
//! `FullTcp/Sack`, according to `tcp-full.cc` and `rq.cc` of 2.35. One of these profiles uses the defaults of 2.35, and
//! the other uses the defaults of 2.26. According to `tcp-full.cc` 1.113 of 24 July 2002 and ns-2's CVS up to 2.35,
//! these defaults are the only difference between the two releases for Reno without ECN marks. In release 2.26,
//! `FullTcp/Sack` kept the window constant after a timeout until all data that was sent before the timeout was
//! acknowledged, and counted marks differently. M. Weigle of UNC fixed these faults from May to July 2002, and the
//! fixes were committed to CVS with `tcp-full.cc` of 19 June 2005.
//!
//! The profiles `linux-*` model two Linux kernels: version 2.4.17 of 2001, according to its `tcp.h`, the `tcp_input.c`
//! of the 2.4 series and P. Sarolahti, A. Kuznetsov, "Congestion Control in Linux TCP", 2002; and version 6.1 of 2022,
//! according to its `tcp.h`, `tcp_input.c`, `tcp_output.c`, `tcp_timer.c`, `tcp_recovery.c`, `tcp_cubic.c` and
//! `ip-sysctl.rst`.
//!
//! This file is long because it contains a single list whose entries must be easy to compare with each other.
//!
//! The profile `quic` consists of the values of RFC 9000, RFC 9002 and RFC 9438.
//!
//! aqmlab's choices where the sources are silent: all connections share one `rto.tick_phase`, whereas ns-2 draws a
//! random phase for each connection; the round-trip time of the handshake is always used as a sample, although Linux
//! 2.4 discards this sample if timestamps are off.

use aqm_net::{ConfigError, ConfigErrors, Parameter as _, Size, Span, unknown};
use serde_json::Value;

use crate::config::Config;
use crate::config::connection::{Close, FinAck, Handshake, HandshakeAck, LastSegment, Nagle, RepeatedSyn};
use crate::config::cwnd::{GrowthWhenLimited, Hint, IdleRestart, ReductionBasis, RepeatedTimeout};
use crate::config::ecn::{Feedback, MarkResponse};
use crate::config::pacing::PacingMode;
use crate::config::receiver::DelayedAck;
use crate::config::recovery::{
    ExitAck, ExitWindow, FastRetransmitGuard, Frto, Inflation, LimitedTransmit, PartialAckTimer, PrrBound,
    PrrShare, RecoveryKind, Reduction, TimeoutLoses, Undo,
};
use crate::config::rto::{BackOffEnd, RestartedBy, RttSamples, TimerRestart};
use crate::config::rto::{MinRto, RtoArithmetic, TimerClock};
use crate::config::sack::{Dsack, NextSeg, Pipe, SackBytes, SacksAtTimeout};
use crate::congestion_control::{
    Control, CubicConfig, DctcpConfig, Decrease, Growth, HighSpeedConfig, HyStart, LimitedSlowStart,
    LossRate, LowWindowReduction, RenoConfig, ShareArithmetic, SlowStartEnd, SlowStartExit, SsthreshRounding,
    WindowRules,
};

/// A named set of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name by which scenarios select the profile.
    pub name: &'static str,
    /// Description in one or two sentences.
    pub about: &'static str,
    /// Parameters.
    pub config: Config,
    /// Parameters that differ from `rfc`, as paths within `[tcp]`, with the source of each value. The path
    /// `congestion_control.kind` means that the profile's congestion control differs from the congestion control of
    /// `rfc` and uses its own default parameters. Each parameter that differs from these defaults has its own path.
    pub sources: Vec<(&'static str, &'static str)>,
    /// Other congestion controls for which this profile sets parameters that differ from their default values.
    pub controls: Vec<Control>,
}

impl Profile {
    fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, config: Config::default(), sources: Vec::new(), controls: Vec::new() }
    }
}

/// Sets parameters of a profile and records the sources of the parameter values. `congestion_control.x` denotes a
/// parameter of Reno.
macro_rules! set {
    (@ $profile:ident, congestion_control, $value:expr, $source:literal) => {
        $profile.config.congestion_control = $value;
        $profile.sources.push(("congestion_control.kind", $source));
    };
    (@ $profile:ident, congestion_control.$field:ident, $value:expr, $source:literal) => {
        if let Control::reno(reno) = &mut $profile.config.congestion_control {
            reno.$field = $value;
        }
        $profile.sources.push((concat!("congestion_control.", stringify!($field)), $source));
    };
    // A group of parameters, such as `window`, has no table of its own in scenarios. The table `congestion_control`
    // contains the keys of the group, so the path in `sources` does not contain the name of the group.
    (@ $profile:ident, congestion_control.$group:ident.$field:ident, $value:expr, $source:literal) => {
        if let Control::reno(reno) = &mut $profile.config.congestion_control {
            reno.$group.$field = $value;
        }
        $profile.sources.push((concat!("congestion_control.", stringify!($field)), $source));
    };
    (@ $profile:ident, $table:ident.$field:ident, $value:expr, $source:literal) => {
        $profile.config.$table.$field = $value;
        $profile.sources.push((concat!(stringify!($table), ".", stringify!($field)), $source));
    };
    ($profile:ident: $( $($part:ident).+ = $value:expr, $source:literal; )+) => {
        $( set!(@ $profile, $($part).+, $value, $source); )+
    };
}

/// Returns all profiles, with the default profile first.
pub fn profiles() -> Vec<Profile> {
    let rfc = "TCP Reno according to the current RFCs, without SACK and timestamps.";
    let rfc = Profile::new("rfc", rfc);
    vec![rfc, ns_2001(), ns_2003(), ns_2003_full(), ns_2_35(), ns_2_35_full(), linux_2_4(), linux_6(), quic()]
}

/// Returns a profile with the values that all ns-2 profiles share.
fn ns_2(name: &'static str, about: &'static str) -> Profile {
    let mut ns = Profile::new(name, about);
    set! { ns:
        cwnd.initial = 2, "windowInit_ 2, since 26 May 2001";
        cwnd.ssthresh_after_syn_loss = Some(2.0), "tcp.cc, slowdown: at least 2 after any timeout";
        receiver.window = 20, "window_ 20";
        recovery.max_burst = Some(2), "tcp-newreno.cc, recv: send_much(0, 0, 2)";
        sack.at_timeout = SacksAtTimeout::Forgotten, "tcp-sack1.cc, timeout: ClearScoreBoard";
        sack.dsack = Dsack::Off, "generateDSacks_ false";
        cwnd.reduction_basis = ReductionBasis::Window, "tcp.cc, slowdown: window()";
        cwnd.growth_when_limited = GrowthWhenLimited::Grows, "control_increase_ 0";
        cwnd.repeated_timeout = RepeatedTimeout::Halves, "tcp.cc, timeout: CLOSE_SSTHRESH_HALF at each timeout";
        rto.arithmetic = RtoArithmetic::Ticks, "tcp.cc, rtt_update";
        connection.max_syn_retries = None, "tcp.cc never gives up";
        connection.max_retries = None, "tcp.cc never gives up";
        receiver.delayed_ack = DelayedAck::Off, "Agent/TCPSink acknowledges each segment";
        receiver.delayed_ack_timer = Span::from_millis(100), "Agent/TCPSink/DelAck: interval_ 100ms";
        congestion_control.window.slow_start_end = SlowStartEnd::PastThreshold, "tcp.cc, opencwnd: adds one segment below ssthresh_";
    }
    ns
}

/// Returns a profile with the values that all ns-2 profiles with one-way agents share.
fn one_way_ns_2(name: &'static str, about: &'static str) -> Profile {
    let mut ns = ns_2(name, about);
    set! { ns:
        cwnd.idle_restart = IdleRestart::OneSegment, "slow_start_restart_ true; tcp.cc, timeout: CLOSE_CWND_ONE";
        connection.mss = Size::from_bytes(1000), "packetSize_ 1000";
        connection.handshake = Handshake::TwoWay, "syn_ true, since 17 May 2001: SYN and SYN-ACK are exchanged";
        connection.close = Close::None, "one-way TCP has no FIN";
        connection.last_segment = LastSegment::Padded, "tcp.cc, sendmsg: counts whole segments";
        sack.pipe = Pipe::Counted, "tcp-sack1.cc: pipe_";
        sack.option_bytes = SackBytes::Blocks, "tcp-sink.cc: 8 B for each block";
        recovery.exit_ack = ExitAck::Grows, "tcp-reno.cc, recv: recv_newack_helper opens the window";
        rto.after_syn_loss = None, "tcp.cc: only a sample ends the back-off";
    }
    ns
}

/// Returns a profile with the values that all ns-2 profiles with one-way agents from before 2004 share.
fn early_ns_2(name: &'static str, about: &'static str) -> Profile {
    let mut ns = earlier(one_way_ns_2(name, about));
    set! { ns:
        cwnd.initial_after_syn_loss = 2, "windowInit_ unchanged: bugfix_ss_ introduced on 13 June 2006";
        recovery.partial_ack_timer = PartialAckTimer::Each, "newreno_changes1_ 0, until 5 May 2003";
        recovery.exit_window = ExitWindow::Ssthresh, "partial_window_deflation_ 0, until 5 May 2003";
    }
    ns
}

/// Adds the values that all ns-2 agents from before 2004 share.
fn earlier(mut ns: Profile) -> Profile {
    set! { ns:
        rto.initial = Span::from_millis(6000), "rtxcur_init_ 6.0, until 21 January 2006";
        rto.max = Span::from_millis(100_000_000), "maxrto_ 100000, until 28 March 2007";
        congestion_control.window.ssthresh_rounding = SsthreshRounding::Whole, "precisionReduce_ false, until 24 January 2006";
    }
    ns
}

fn ns_2001() -> Profile {
    let about = "ns-2.1b8's Agent/TCP/Reno and Agent/TCPSink with the defaults of June 2001.";
    let mut ns = early_ns_2("ns-2.2001", about);
    set! { ns:
        connection.header = Size::from_bytes(0), "useHeaders_ false, until 28 November 2001: packetSize_ includes the header";
        recovery.limited_transmit = LimitedTransmit::Off, "singledup_ 0, until 28 November 2001";
        rto.tick = Span::from_millis(100), "tcpTick_ 0.1, until 7 March 2002";
        rto.min_applies = MinRto::AfterBackOff, "rfc2988_ introduced on 7 March 2002";
    }
    ns
}

fn ns_2003() -> Profile {
    let about = "ns-2.26's Agent/TCP/Reno and Agent/TCPSink with the defaults of February 2003.";
    let mut ns = early_ns_2("ns-2.2003", about);
    set! { ns:
        recovery.limited_transmit = LimitedTransmit::Next, "singledup_ 1, since 28 November 2001; tcp.cc, send_one";
        rto.tick = Span::from_millis(10), "tcpTick_ 0.01, since 7 March 2002";
    }
    ns
}

fn ns_2_35() -> Profile {
    let about = "ns-2.35's Agent/TCP/Reno and Agent/TCPSink with their defaults.";
    let mut ns = later(one_way_ns_2("ns-2.35", about));
    set! { ns:
        recovery.limited_transmit = LimitedTransmit::Next, "singledup_ 1, since 28 November 2001; tcp.cc, send_one";
        recovery.fast_retransmit_guard = FastRetransmitGuard::RecoverOrFirst, "bugFix_ true, bugfix_ss_ 1";
    }
    ns
}

fn ns_2003_full() -> Profile {
    let about = "ns-2.35's two-way Agent/TCP/FullTcp with the defaults of ns-2.26, February 2003.";
    let mut ns = earlier(full_ns_2("ns-2.2003-full", about));
    set! { ns:
        rto.tick = Span::from_millis(10), "tcpTick_ 0.01, since 7 March 2002";
    }
    ns
}

fn ns_2_35_full() -> Profile {
    later(full_ns_2("ns-2.35-full", "ns-2.35's two-way Agent/TCP/FullTcp with its defaults."))
}

/// Returns a profile with the values that all ns-2 profiles with two-way agents share.
fn full_ns_2(name: &'static str, about: &'static str) -> Profile {
    let mut ns = ns_2(name, about);
    set! { ns:
        connection.mss = Size::from_bytes(536), "segsize_ 536";
        connection.handshake_ack = HandshakeAck::Alone, "tcp-full.cc, recv: a pure ACK";
        connection.repeated_syn = RepeatedSyn::Ignored, "tcp-full.cc, recv in TCPS_SYN_RECEIVED";
        connection.fin_ack = FinAck::Alone, "tcp-full.cc, recv: acknowledges before the application closes";
        connection.nagle = Nagle::On, "nodelay_ false";
        cwnd.idle_restart = IdleRestart::ToInitialWindow, "tcp-full.cc, foutput: slowdown(CLOSE_CWND_INIT)";
        recovery.limited_transmit = LimitedTransmit::Off, "tcp-full.cc, recv: no action before the third duplicate acknowledgement";
        recovery.fast_retransmit_guard = FastRetransmitGuard::AfterTimeout, "tcp-full.cc, dupack_action";
        recovery.inflation = Inflation::InWindow, "tcp-full.cc, extra_ack; dupack_action: cwnd_ = ssthresh_ + dupacks_";
        sack.pipe = Pipe::Ns2Full, "tcp-full.cc, SackFullTcpAgent";
        sack.option_bytes = SackBytes::Unpadded, "sack_option_size_ 2, sack_block_size_ 8";
        ecn.response = MarkResponse::Ns2Full, "tcp.cc, ecn; tcp-full.cc, recv, timeout_action, foutput";
        recovery.exit_ack = ExitAck::GrowsWithSack, "tcp-full.cc, recv: opencwnd after ack_action";
        cwnd.initial_after_syn_loss = 2, "bugfix_ss_ exists only in one-way TCP";
        rto.back_off_end = BackOffEnd::Progress, "tcp-full.cc, newack: t_backoff_ = 1";
        rto.restart = TimerRestart::BeforeSample, "tcp-full.cc, newack: set_rtx_timer is called first";
    }
    ns
}

/// Adds the values that all ns-2.35 agents share.
fn later(mut ns: Profile) -> Profile {
    set! { ns:
        recovery.exit_window = ExitWindow::Deflated, "exit_recovery_fix_ 0";
        rto.tick = Span::from_millis(10), "tcpTick_ 0.01, since 7 March 2002";
        rto.initial = Span::from_millis(3000), "rtxcur_init_ 3.0, since 21 January 2006";
        rto.min = Span::from_millis(200), "minrto_ 0.2, since 14 October 2004";
        congestion_control.window.ssthresh_rounding = SsthreshRounding::Down, "precisionReduce_ true, since 24 January 2006";
        congestion_control.limited_slow_start = LimitedSlowStart::UntilReduction, "tcp.cc, opencwnd and reset";
    }
    ns.controls = vec![ns_2_high_speed()];
    ns
}

fn linux_2_4() -> Profile {
    let about = "Linux 2.4.17 with SACK and without timestamps, as in the Helsinki testbed.";
    let mut linux = Profile::new("linux-2.4", about);
    set! { linux:
        connection.syn_size = Size::from_bytes(52), "RFC 9293, RFC 2018, RFC 7323: MSS, SACK-permitted, window scale";
        connection.handshake_ack = HandshakeAck::Alone, "tcp_input.c, tcp_rcv_synsent_state_process: sent immediately";
        cwnd.initial = 2, "tcp_input.c, tcp_init_cwnd: 2 unless the round trip is below 20 ms";
        cwnd.ssthresh_after_syn_loss = Some(2.0), "tcp_input.c, tcp_enter_loss; later kernels undo the reduction";
        receiver.window = 44, "ip-sysctl.txt: tcp_rmem 87380 results in a window of 65535 B";
        recovery.kind = RecoveryKind::Sack, "tcp_input.c: sysctl_tcp_sack 1";
        recovery.reduction = Reduction::RateHalving, "tcp_input.c, tcp_cwnd_down";
        cwnd.reduction_basis = ReductionBasis::Window, "tcp.h, tcp_recalc_ssthresh: half of snd_cwnd";
        rto.arithmetic = RtoArithmetic::Linux, "tcp_input.c, tcp_rtt_estimator";
        rto.samples = RttSamples::FirstSegment, "tcp_input.c, tcp_clean_rtx_queue and tcp_ack_no_tstamp";
        congestion_control.growth = Growth::Segments, "tcp_input.c, tcp_cong_avoid: snd_cwnd_cnt";
        congestion_control.window.ssthresh_rounding = SsthreshRounding::Segments, "tcp.h, tcp_recalc_ssthresh: snd_cwnd >> 1";
        receiver.first_window = Some(4), "tcp_output.c, tcp_select_initial_window: 5840 B";
        receiver.delayed_ack = DelayedAck::Adaptive, "tcp_input.c, tcp_event_data_recv; tcp_grow_window";
        rto.tick = Span::from_millis(10), "asm-i386/param.h: HZ 100";
        rto.initial = Span::from_millis(3000), "tcp.h: TCP_TIMEOUT_INIT";
        rto.after_syn_loss = None, "tcp_input.c, tcp_init_metrics: only a sample ends the back-off";
        rto.min = Span::from_millis(200), "tcp.h: TCP_RTO_MIN";
        rto.max = Span::from_millis(120_000), "tcp.h: TCP_RTO_MAX";
        connection.max_syn_retries = Some(5), "tcp.h: TCP_SYN_RETRIES";
        receiver.quick_acks = 16, "tcp.h: TCP_MAX_QUICKACKS";
    }
    linux
}

fn linux_6() -> Profile {
    let about = "Linux 6.1 with its defaults: CUBIC, SACK with RACK-TLP and PRR, timestamps.";
    let mut linux = Profile::new("linux-6", about);
    set! { linux:
        connection.mss = Size::from_bytes(1448), "tcp_timestamps 1: 12 B less payload";
        connection.header = Size::from_bytes(52), "tcp_timestamps 1: RFC 7323, appendix A";
        connection.syn_size = Size::from_bytes(60), "MSS, SACK-permitted, timestamps, window scale";
        connection.ack_size = Size::from_bytes(52), "as `connection.header`";
        connection.handshake_ack = HandshakeAck::Alone, "tcp_input.c, tcp_rcv_synsent_state_process: sent immediately";
        connection.repeated_syn = RepeatedSyn::Restarts, "tcp_minisocks.c, tcp_check_req: mod_timer_pending";
        cwnd.initial_after_syn_loss = 10, "tcp_input.c, tcp_init_transfer: 1 segment from the second loss on";
        recovery.kind = RecoveryKind::Rack, "tcp_sack 1, tcp_recovery 1, tcp_early_retrans 3";
        recovery.reduction = Reduction::Prr, "tcp_input.c, tcp_cwnd_reduction";
        recovery.prr_bound = PrrBound::SafeAck, "tcp_input.c, tcp_cwnd_reduction: FLAG_SND_UNA_ADVANCED, no loss";
        recovery.prr_share = PrrShare::Window, "tcp_input.c, tcp_cwnd_reduction: prior_cwnd";
        sack.next_seg = NextSeg::LostOnly, "tcp_output.c, tcp_xmit_retransmit_queue: only segments marked as lost";
        recovery.timeout_loses = TimeoutLoses::Late, "tcp_input.c, tcp_timeout_mark_lost";
        recovery.frto = Frto::On, "tcp_frto 2; tcp_input.c, tcp_process_loss";
        recovery.undo = Undo::DsackOrTimestamps, "tcp_input.c, tcp_may_undo: undo_retrans, tcp_packet_delayed";
        recovery.exit_ack = ExitAck::GrowsWithSack, "tcp_input.c, tcp_cong_control follows tcp_fastretrans_alert";
        cwnd.growth_when_limited = GrowthWhenLimited::GrowsIfUsed, "tcp_output.c, tcp_cwnd_validate";
        cwnd.repeated_timeout = RepeatedTimeout::HoldsInRecovery, "tcp_input.c, tcp_enter_loss";
        cwnd.abc_limit = None, "tcp_cong.c, tcp_slow_start and tcp_cong_avoid_ai: count acknowledged segments";
        cwnd.hint = Hint::AtLeastInFlight, "tcp_input.c, tcp_cwnd_reduction: snd_cwnd";
        cwnd.reduction_basis = ReductionBasis::Window, "tcp_cubic.c, cubictcp_recalc_ssthresh: based on snd_cwnd";
        ecn.response = MarkResponse::Linux, "tcp_input.c, tcp_enter_cwr, tcp_try_to_open, tcp_ecn_check_ce";
        rto.arithmetic = RtoArithmetic::Linux, "tcp_input.c, tcp_rtt_estimator";
        rto.samples = RttSamples::FirstSegment, "tcp_input.c, tcp_clean_rtx_queue: first_ackt, then first_sackt";
        rto.restarted_by = RestartedBy::OldestSegment, "tcp_input.c, tcp_rearm_rto; FLAG_SET_XMIT_TIMER";
        rto.clock = TimerClock::Wheel, "kernel/time/timer.c, calc_index";
        rto.tick = Span::from_millis(4), "kernel/Kconfig.hz: HZ 250";
        receiver.delayed_ack = DelayedAck::Adaptive, "tcp_input.c, tcp_event_data_recv; tcp_moderate_rcvbuf 1";
        rto.min = Span::from_millis(200), "tcp.h: TCP_RTO_MIN";
        rto.max = Span::from_millis(120_000), "tcp.h: TCP_RTO_MAX";
        connection.max_syn_retries = Some(6), "tcp.h: TCP_SYN_RETRIES";
        receiver.quick_acks = 16, "tcp.h: TCP_MAX_QUICKACKS";
        congestion_control = Control::cubic(linux_cubic()), "the kernel's default since 2.6.19";
    }
    linux.sources.extend([
        ("congestion_control.ssthresh_rounding", "tcp_cubic.c, cubictcp_recalc_ssthresh"),
        ("congestion_control.hystart", "tcp_cubic.c: hystart 1, hystart_detect 3"),
        ("congestion_control.growth", "tcp_cubic.c, bictcp_update; tcp_cong.c, tcp_cong_avoid_ai"),
    ]);
    linux.controls = vec![linux_reno(), Control::cubic(linux_cubic()), linux_dctcp()];
    linux
}

fn quic() -> Profile {
    let about = "QUIC with CUBIC, HyStart++ and pacing: RFC 9000, RFC 9002, RFC 9438 and RFC 9406.";
    let mut quic = Profile::new("quic", about);
    set! { quic:
        connection.mss = Size::from_bytes(1437), "1500 B minus `connection.header`; RFC 9000, 14.3: path MTU discovery";
        connection.header = Size::from_bytes(63), "IPv4 20, UDP 8, short header 11 (RFC 9000, 17.3.1), AEAD 16 (RFC 9001, 5.3), STREAM frame 8 (RFC 9000, 19.8)";
        connection.syn_size = Size::from_bytes(1228), "RFC 9000, 14.1: the first datagram has at least 1200 B, plus IPv4 and UDP";
        connection.ack_size = Size::from_bytes(61), "IPv4 20, UDP 8, short header 11, AEAD 16, ACK frame 6 (RFC 9000, 19.3)";
        connection.syn_ack_size = Some(Size::from_bytes(1228)), "RFC 9000, 14.1; aqmlab's choice: the server's handshake fits into one datagram";
        connection.close = Close::None, "RFC 9000, 10.1: the connection ends without an exchange of packets";
        cwnd.initial_after_syn_loss = 10, "RFC 9002, 7.2: no other window after the loss of a handshake packet";
        cwnd.abc_limit = None, "RFC 9002, B.5: all acknowledged bytes count";
        cwnd.growth_when_limited = GrowthWhenLimited::GrowsIfUsed, "RFC 9002, 7.8; the rule is Linux's";
        cwnd.idle_restart = IdleRestart::Off, "aqmlab's choice; RFC 9002, 7.8, permits RFC 7661";
        cwnd.reduction_basis = ReductionBasis::Window, "RFC 9002, B.6";
        receiver.delayed_ack_timer = Span::from_millis(25), "RFC 9000, 18.2: `max_ack_delay`";
        recovery.kind = RecoveryKind::Quic, "RFC 9002";
        recovery.exit_ack = ExitAck::GrowsWithSack, "RFC 9002, B.5: only packets sent before the recovery do not count";
        rto.initial = Span::from_millis(999), "RFC 9002, 6.2.2: `kInitialRtt` 333 ms, probe timeout 3 times this value";
        rto.after_syn_loss = None, "RFC 9002 has no such rule";
        rto.min = Span::from_millis(1), "RFC 9002, 6.1.2: `kGranularity`";
        rto.tick = Span::from_millis(1), "RFC 9002, 6.1.2: `kGranularity`";
        rto.samples = RttSamples::FirstSegment, "RFC 9002, 5.1: every acknowledgement of the largest packet number";
        ecn.feedback = Some(Feedback::Accurate), "RFC 9000, 19.3.2: counts of marked packets";
        ecn.acks = Some(true), "RFC 9000, 13.4: all packets";
        pacing.mode = PacingMode::On, "RFC 9002, 7.7";
        pacing.slow_start_ratio = 1.25, "RFC 9002, 7.7: N = 1.25";
        pacing.avoidance_ratio = 1.25, "RFC 9002, 7.7: N = 1.25";
        congestion_control = Control::cubic(quic_cubic()), "RFC 9438; RFC 9002, 7, permits any congestion control";
    }
    quic.sources
        .push(("congestion_control.slow_start_exit", "RFC 9438, 4.10: SHOULD use HyStart++ (RFC 9406)"));
    quic.controls = vec![Control::cubic(quic_cubic())];
    quic
}

/// Returns the parameters of CUBIC over QUIC.
fn quic_cubic() -> CubicConfig {
    let window = WindowRules { slow_start_exit: SlowStartExit::HyStartPlusPlus, ..WindowRules::default() };
    CubicConfig { window, ..CubicConfig::default() }
}

/// Returns the parameters of Linux's CUBIC (`tcp_cubic.c`: `cubictcp_recalc_ssthresh`, `hystart_update`,
/// `bictcp_update`).
fn linux_cubic() -> CubicConfig {
    CubicConfig {
        window: linux_window(),
        hystart: HyStart::Linux,
        growth: Growth::Segments,
        ..CubicConfig::default()
    }
}

/// Returns the window parameters with which a reduced window is rounded as in Linux.
fn linux_window() -> WindowRules {
    WindowRules { ssthresh_rounding: SsthreshRounding::Segments, ..WindowRules::default() }
}

/// Returns the parameters of Linux's Reno (`tcp_cong.c`: `tcp_cong_avoid_ai`, `tcp_reno_ssthresh`).
fn linux_reno() -> Control {
    Control::reno(RenoConfig { growth: Growth::Segments, window: linux_window(), ..RenoConfig::default() })
}

/// Returns the parameters of Linux's DCTCP (`tcp_dctcp.c`: `dctcp_update_alpha`, `dctcp_ssthresh`).
fn linux_dctcp() -> Control {
    Control::dctcp(DctcpConfig {
        share_arithmetic: ShareArithmetic::Parts,
        growth: Growth::Segments,
        window: linux_window(),
        ..DctcpConfig::default()
    })
}

/// Returns the parameters of ns-2.35's HighSpeed TCP (`tcp.cc`: `windowOption_ 8`).
fn ns_2_high_speed() -> Control {
    let window = WindowRules {
        ssthresh_rounding: SsthreshRounding::Down,
        slow_start_end: SlowStartEnd::PastThreshold,
        ..WindowRules::default()
    };
    Control::highspeed(HighSpeedConfig {
        loss_rate: LossRate::Continuous,
        slow_start_reduction: Decrease::Half,
        timeout_reduction: Decrease::Half,
        low_window_reduction: LowWindowReduction::AllButLast,
        window,
        limited_slow_start: LimitedSlowStart::UntilReduction,
        ..HighSpeedConfig::default()
    })
}

/// Parses a `[tcp]` table. The table contains a `profile` (by default `rfc`) and the parameters whose values differ
/// from the profile.
///
/// # Errors
/// Returns an error if the profile or a parameter is unknown or malformed.
pub fn read(value: Value) -> Result<Config, ConfigErrors> {
    let Value::Object(mut table) = value else {
        return Err(ConfigError::at("", "must be a table").into());
    };
    let name = table.remove("profile").unwrap_or_else(|| "rfc".into());
    let known = profiles();
    let Some(profile) = known.into_iter().find(|profile| name == profile.name) else {
        let names: Vec<&str> = profiles().iter().map(|profile| profile.name).collect();
        let problem = match name {
            Value::String(name) => unknown("profile", &name, &names),
            other => format!("must be one of {} (got {other})", names.join(", ")),
        };
        return Err(ConfigError::at("profile", problem).into());
    };
    let mut base = profile.config;
    // If the table specifies only the kind of the congestion control, the parameter values are taken from the profile.
    let kind = table.get("congestion_control").and_then(|control| control.get("kind"));
    if let Some(control) =
        profile.controls.into_iter().find(|control| kind.is_some_and(|kind| kind == control.kind()))
    {
        base.congestion_control = control;
    }
    let mut full = base.to_value();
    merge(&mut full, Value::Object(table), base.congestion_control.kind());
    Config::read(full)
}

/// Overlays a `[tcp]` table on another `[tcp]` table before they are parsed. If `over` specifies a `profile`, `over`
/// replaces `base` entirely.
pub fn overlay(base: &Value, over: Value) -> Value {
    if over.get("profile").is_some() || !over.is_object() {
        return over;
    }
    let mut both = base.clone();
    merge(&mut both, over, &kind_of(base));
    both
}

/// Returns the kind of the congestion control of a `[tcp]` table. If the table does not specify the kind, the kind is
/// determined by the table's profile.
fn kind_of(table: &Value) -> String {
    if let Some(Value::String(kind)) = table.pointer("/congestion_control/kind") {
        return kind.clone();
    }
    let name = table.get("profile").and_then(Value::as_str).unwrap_or("rfc");
    let profile = profiles().into_iter().find(|profile| profile.name == name);
    profile.map_or_else(String::new, |profile| profile.config.congestion_control.kind().to_owned())
}

/// Overlays `over` on `base`, table by table. `kind` is the kind of the congestion control of `base`. If `over`
/// specifies a different kind, the congestion control in `over` inherits no parameters from the congestion control in
/// `base`.
fn merge(base: &mut Value, over: Value, kind: &str) {
    let named = over.pointer("/congestion_control/kind");
    if let (Some(named), Some(table)) = (named, base.as_object_mut())
        && named != kind
    {
        table.remove("congestion_control");
    }
    fill(base, over);
}

/// Copies all values of `over` into `base`.
fn fill(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                fill(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

//! Configures the devices and routes of a host, using rtnetlink in the network namespace of the calling thread.
//!
//! Sources: Linux, `Documentation/networking/ip-sysctl.rst`; rtnetlink(7). The async runtime that the crate `rtnetlink`
//! needs exists only during a call.

use std::net::Ipv4Addr;

use futures_util::{StreamExt as _, TryStreamExt as _};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteScope, RouteType,
};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Error, Handle, LinkUnspec, RouteMessageBuilder};
use serde::Serialize;

use crate::LiveError;
use crate::host::tun;
use crate::tcp::kernel_tcp::RouteSettings;

/// Maximum number of packets in the device's queue. With the default of 500, the device's queue would overflow if the
/// router stalled, and the emulated queues would not count these losses.
const DEVICE_QUEUE: u32 = 10_000;

/// The qdisc of the device. The machine's default qdisc is not used, because it might pace packets (`fq`) or drop
/// packets.
const QDISC: &str = "noqueue";

/// `RTAX_FEATURE_ECN` of rtnetlink.h.
const FEATURE_ECN: u32 = 1;

/// The bit for `RTAX_RTO_MIN` in the lock mask of a route. The kernel uses a route's minimum RTO only if this metric is
/// locked.
const LOCK_RTO_MIN: u32 = 1 << 13;

/// Prefix length of a host's addresses, in bits.
const PREFIX_BITS: u8 = 16;

/// Counters of the packets that a TUN device has transferred or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceStatistics {
    /// Packets from the host.
    pub tx_packets: u64,
    /// Bytes of the packets from the host.
    pub tx_bytes: u64,
    /// Packets from the host that were dropped because the device's queue was full. These packets did not reach an
    /// emulated queue.
    pub tx_dropped: u64,
    /// Packets from the host whose transfer failed.
    pub tx_errors: u64,
    /// Packets to the host.
    pub rx_packets: u64,
    /// Bytes of the packets to the host.
    pub rx_bytes: u64,
    /// Packets to the host that were dropped because no buffer space was available.
    pub rx_dropped: u64,
    /// Packets to the host that were malformed.
    pub rx_errors: u64,
}

/// The effective settings of a TUN device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    pub mtu: Option<u32>,
    pub txqueuelen: Option<u32>,
    pub gso_max_segs: Option<u32>,
    pub qdisc: Option<String>,
}

impl Device {
    /// Returns the settings that [`bring_up`] applies. `gso_max_segs` is 1, because otherwise a BPF program would see
    /// segments that are larger than a packet and are split later.
    pub fn expected(mtu: u16) -> Self {
        Self {
            mtu: Some(u32::from(mtu)),
            txqueuelen: Some(DEVICE_QUEUE),
            gso_max_segs: Some(1),
            qdisc: Some(QDISC.to_owned()),
        }
    }
}

/// Returns the network address 10.`prefix`.0.0.
fn network(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, prefix, 0, 0)
}

/// Returns the first host address in 10.`prefix`.0.0/16.
pub(crate) fn first_address(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, prefix, 0, 1)
}

/// Assigns the addresses 10.`prefix`.0.0/16 to a host, and enables the host's loopback device and TUN device.
pub(crate) fn bring_up(prefix: u8, mtu: u16) -> Result<(), LiveError> {
    with_netlink("cannot set up the devices of a host", async |mut netlink| {
        let loopback = index_of(&netlink, "lo").await?;
        netlink.link().set(LinkUnspec::new_with_index(loopback).up().build()).execute().await?;
        let device = index_of(&netlink, tun::NAME).await?;
        let mut qdisc = TcMessage::with_index(i32::try_from(device).unwrap_or_default());
        qdisc.header.parent = TcHandle::ROOT;
        qdisc.attributes.push(TcAttribute::Kind(QDISC.to_owned()));
        let settings = LinkUnspec::new_with_index(device)
            .mtu(u32::from(mtu))
            .txqueuelen(DEVICE_QUEUE)
            .append_extra_attribute(LinkAttribute::GsoMaxSegs(1));
        netlink.link().set(settings.build()).execute().await?;
        netlink.link().set(LinkUnspec::new_with_index(device).up().build()).execute().await?;
        send(&mut netlink, RouteNetlinkMessage::NewQueueDiscipline(qdisc)).await?;
        // Some programs look up addresses only if a device other than the loopback device has an address.
        netlink.address().add(device, first_address(prefix).into(), 32).execute().await?;
        let mut local = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(network(prefix), PREFIX_BITS)
            .output_interface(loopback)
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .build();
        local.header.table = libc::RT_TABLE_LOCAL;
        netlink.route().add(local).execute().await
    })
}

/// Sets the route from the host with the prefix `prefix` to the host with the prefix `peer`.
pub(crate) fn route(prefix: u8, peer: u8, settings: &RouteSettings) -> Result<(), LiveError> {
    let control = settings.congctl.as_ref().map(|name| format!(" (congestion control `{name}`)"));
    let what = format!("cannot set the route of a host{}", control.unwrap_or_default());
    with_netlink(&what, async |netlink| {
        let device = index_of(&netlink, tun::NAME).await?;
        let mut route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(network(peer), PREFIX_BITS)
            .output_interface(device)
            .scope(RouteScope::Link)
            .pref_source(first_address(prefix))
            .build();
        route.attributes.push(RouteAttribute::Metrics(metrics(settings)));
        netlink.route().add(route).replace().execute().await
    })
}

/// Returns the settings of the route to the host with the prefix `peer`, as reported by the kernel.
pub(crate) fn route_in_force(peer: u8) -> Result<RouteSettings, LiveError> {
    let route = with_netlink("cannot read the route of a host", async |netlink| {
        let mut routes =
            std::pin::pin!(netlink.route().get(RouteMessageBuilder::<Ipv4Addr>::new().build()).execute());
        let mut found = None;
        while let Some(route) = routes.try_next().await? {
            let destination = RouteAttribute::Destination(RouteAddress::Inet(network(peer)));
            if route.header.table == RouteHeader::RT_TABLE_MAIN && route.attributes.contains(&destination) {
                found = Some(settings(&route));
            }
        }
        Ok(found)
    })?;
    route.ok_or_else(|| LiveError::new("cannot read the route of a host", "the route is missing"))
}

/// Returns the settings of the TUN device, as reported by the kernel.
pub(crate) fn device_in_force() -> Result<Device, LiveError> {
    let message = device()?;
    let mut device = Device::default();
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => device.mtu = Some(mtu),
            LinkAttribute::TxQueueLen(packets) => device.txqueuelen = Some(packets),
            LinkAttribute::GsoMaxSegs(segments) => device.gso_max_segs = Some(segments),
            LinkAttribute::Qdisc(kind) => device.qdisc = Some(kind),
            _ => {}
        }
    }
    Ok(device)
}

/// Returns the counters of the TUN device.
pub(crate) fn statistics() -> Result<DeviceStatistics, LiveError> {
    let found = device()?.attributes.into_iter().find_map(|attribute| match attribute {
        LinkAttribute::Stats64(counts) => Some(counts),
        _ => None,
    });
    let counts = found
        .ok_or_else(|| LiveError::new("cannot read the counters of a device", "the kernel reports none"))?;
    Ok(DeviceStatistics {
        tx_packets: counts.tx_packets,
        tx_bytes: counts.tx_bytes,
        tx_dropped: counts.tx_dropped,
        tx_errors: counts.tx_errors,
        rx_packets: counts.rx_packets,
        rx_bytes: counts.rx_bytes,
        rx_dropped: counts.rx_dropped,
        rx_errors: counts.rx_errors,
    })
}

fn device() -> Result<LinkMessage, LiveError> {
    with_netlink("cannot read the device of a host", async |netlink| link(&netlink, tun::NAME).await)
}

/// Runs `task` with a netlink socket in the namespace of the calling thread.
fn with_netlink<T>(what: &str, task: impl AsyncFnOnce(Handle) -> Result<T, Error>) -> Result<T, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(|error| LiveError::new(what, error))?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| LiveError::new(what, error))?;
        tokio::spawn(connection);
        task(handle).await.map_err(|error| match error {
            Error::NetlinkError(message) => LiveError::new(what, message.to_io()),
            other => LiveError::new(what, other),
        })
    })
}

/// Sends a request that creates or replaces an object, and waits until the kernel acknowledges the request.
async fn send(netlink: &mut Handle, message: RouteNetlinkMessage) -> Result<(), Error> {
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let mut answers = std::pin::pin!(netlink.request(request)?);
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload
            && error.code.is_some()
        {
            return Err(Error::NetlinkError(error));
        }
    }
    Ok(())
}

async fn link(netlink: &Handle, name: &str) -> Result<LinkMessage, Error> {
    let mut links = std::pin::pin!(netlink.link().get().match_name(name).execute());
    links.try_next().await?.ok_or(Error::RequestFailed)
}

async fn index_of(netlink: &Handle, name: &str) -> Result<u32, Error> {
    Ok(link(netlink, name).await?.header.index)
}

fn metrics(settings: &RouteSettings) -> Vec<RouteMetric> {
    let mut metrics = vec![
        RouteMetric::Advmss(settings.advmss),
        RouteMetric::InitCwnd(settings.initcwnd),
        RouteMetric::RtoMin(settings.rto_min_ms),
        RouteMetric::Lock(LOCK_RTO_MIN),
        RouteMetric::Window(settings.window),
    ];
    metrics.extend(settings.congctl.clone().map(RouteMetric::CcAlgo));
    if settings.ecn {
        metrics.push(RouteMetric::Features(FEATURE_ECN));
    }
    if settings.quickack {
        metrics.push(RouteMetric::QuickAck(1));
    }
    if let Some(segments) = settings.initrwnd {
        metrics.push(RouteMetric::InitRwnd(segments));
    }
    metrics
}

fn settings(route: &RouteMessage) -> RouteSettings {
    let mut settings = RouteSettings::default();
    for attribute in &route.attributes {
        let RouteAttribute::Metrics(metrics) = attribute else { continue };
        for metric in metrics {
            match metric {
                RouteMetric::Advmss(bytes) => settings.advmss = *bytes,
                RouteMetric::InitCwnd(segments) => settings.initcwnd = *segments,
                RouteMetric::RtoMin(ms) => settings.rto_min_ms = *ms,
                RouteMetric::Window(bytes) => settings.window = *bytes,
                RouteMetric::CcAlgo(name) => settings.congctl = Some(name.clone()),
                RouteMetric::Features(bits) => settings.ecn = bits & FEATURE_ECN != 0,
                RouteMetric::QuickAck(on) => settings.quickack = *on != 0,
                RouteMetric::InitRwnd(segments) => settings.initrwnd = Some(*segments),
                _ => {}
            }
        }
    }
    settings
}

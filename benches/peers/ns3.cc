// The workloads of scenarios/bench/ on ns-3's public API: `ns3 w1|w2|w3 SECONDS [WEB_SCHEDULE]` prints, as JSON, how
// many packets the bottleneck forwarded and how many events there were. Whoever runs it takes the time from outside.
//
//   source hosts --- access --- L ===== bottleneck ===== R --- access --- destination hosts
//
// Lines, queue and numbers of flows are those of the scenarios, and nothing is recorded. Routers take only packets sent
// to the interface they came in by: otherwise ns-3 would look through all their addresses for each packet, a fifth of
// its time. On purpose differs what follows.
// - TCP: NewReno's window with SACK, which is ns-3's default; without SACK and without delayed acknowledgements the
//   recovery of 3.37 sends far more than was lost, and the workload would be another one. The least time-out is 1 s,
//   its default, for with ns-2's 0.2 s it times out without a loss. Connections begin with a handshake, and their
//   headers are real ones.
// - Packets have 2 bytes more on the line (PPP), and one packet waits in the device behind the queue.
// - A Web object is a connection of its own, opened and closed; ns-2 uses its agents again.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace ns3;

struct Workload
{
    std::string rate, delay, accessRate;
    uint32_t queuePackets; // 0: RED
    uint32_t flows;
    double startsWithin;
    uint32_t segmentBytes;
    uint32_t datagramSources;
    double datagramBps; // of each source
};

static Workload
Named(const std::string& name)
{
    if (name == "w1" || name == "w2")
    {
        return {"10Mbps", "60ms", "100Mbps", 0, name == "w1" ? 50u : 10u, 5, 934, 0, 0};
    }
    if (name == "w3")
    {
        return {"50Mbps", "48ms", "1Gbps", 624, 4, 1, 960, 100, 250e3};
    }
    throw std::invalid_argument("w1, w2 or w3");
}

static void
SetTcp(const Workload& workload)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(workload.segmentBytes));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4000000));
    // A connection never gives up, and leaves its port soon after it is closed.
    Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(100));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(1));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
}

// The two routers, and hosts on access lines of their own.
class Dumbbell
{
  public:
    explicit Dumbbell(const Workload& workload)
    {
        m_stack.SetRoutingHelper(m_routing);
        m_routers.Create(2);
        m_stack.Install(m_routers);

        PointToPointHelper bottleneck;
        bottleneck.SetDeviceAttribute("DataRate", StringValue(workload.rate));
        bottleneck.SetChannelAttribute("Delay", StringValue(workload.delay));
        bottleneck.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
        NetDeviceContainer devices = bottleneck.Install(m_routers);
        TrafficControlHelper forward;
        TrafficControlHelper back;
        if (workload.queuePackets > 0)
        {
            QueueSizeValue limit(QueueSize(QueueSizeUnit::PACKETS, workload.queuePackets));
            forward.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", limit);
        }
        else
        {
            forward.SetRootQueueDisc("ns3::RedQueueDisc",
                                     "MaxSize", StringValue("225p"),
                                     "MinTh", DoubleValue(30),
                                     "MaxTh", DoubleValue(90),
                                     "LInterm", DoubleValue(10),
                                     "QW", DoubleValue(0.0008),
                                     "MeanPktSize", UintegerValue(974),
                                     "Gentle", BooleanValue(false),
                                     "LinkBandwidth", DataRateValue(DataRate(workload.rate)),
                                     "LinkDelay", TimeValue(Time(workload.delay)));
        }
        back.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue("100000p"));
        queue = forward.Install(devices.Get(0)).Get(0);
        back.Install(devices.Get(1));
        Ipv4AddressHelper addresses("10.255.0.0", "255.255.255.0");
        Ipv4InterfaceContainer ends = addresses.Assign(devices);
        RoutesOf(m_routers.Get(0))->AddNetworkRouteTo("10.2.0.0", "255.255.0.0", ends.GetAddress(1), 1);
        RoutesOf(m_routers.Get(1))->AddNetworkRouteTo("10.1.0.0", "255.255.0.0", ends.GetAddress(0), 1);

        m_access.SetDeviceAttribute("DataRate", StringValue(workload.accessRate));
        m_access.SetChannelAttribute("Delay", StringValue("1ms"));
        m_access.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
        m_access.DisableFlowControl(); // otherwise ns-3 gives each of these lines an FQ-CoDel
    }

    Ptr<Node> Source()
    {
        return Host(0);
    }

    Ptr<Node> Destination(Ipv4Address& address)
    {
        Ptr<Node> host = Host(1);
        address = host->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
        return host;
    }

    Ptr<QueueDisc> queue;

  private:
    Ptr<Ipv4StaticRouting> RoutesOf(Ptr<Node> node)
    {
        return m_routing.GetStaticRouting(node->GetObject<Ipv4>());
    }

    Ptr<Node> Host(uint32_t side)
    {
        Ptr<Node> host = CreateObject<Node>();
        m_stack.Install(host);
        std::string network = "10." + std::to_string(side + 1) + "." + std::to_string(m_hosts[side]++) + ".0";
        Ipv4AddressHelper addresses(network.c_str(), "255.255.255.0");
        Ipv4InterfaceContainer ends = addresses.Assign(m_access.Install(host, m_routers.Get(side)));
        RoutesOf(host)->SetDefaultRoute(ends.GetAddress(1), 1);
        return host;
    }

    NodeContainer m_routers;
    InternetStackHelper m_stack;
    Ipv4StaticRoutingHelper m_routing;
    PointToPointHelper m_access;
    uint32_t m_hosts[2] = {0, 0};
};

static void
AddTransfers(Dumbbell& net, const Workload& workload)
{
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t flow = 0; flow < workload.flows; flow++)
    {
        Ipv4Address address;
        Ptr<Node> source = net.Source();
        Ptr<Node> destination = net.Destination(address);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sink.Install(destination);
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(address, 9));
        sender.Install(source).Start(Seconds(start->GetValue(0, workload.startsWithin)));
    }
}

// Web objects: a connection for each, at the times and of the sizes of a schedule.
class Web
{
  public:
    Web(Dumbbell& net, const char* schedule)
    {
        std::ifstream file(schedule);
        double start;
        uint32_t bytes;
        uint32_t packets;
        while (file >> start >> bytes >> packets)
        {
            m_objects.push_back({start, bytes});
        }
        if (m_objects.empty())
        {
            throw std::invalid_argument("no Web objects");
        }
        m_source = net.Source();
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 80));
        sink.Install(net.Destination(m_to));
        Simulator::Schedule(Seconds(m_objects[0].start), &Web::Open, this, 0u);
    }

  private:
    struct Object
    {
        double start;
        uint32_t bytes;
    };

    void Open(uint32_t number)
    {
        Ptr<Socket> socket = Socket::CreateSocket(m_source, TcpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), 2000 + number % 60000));
        socket->SetConnectCallback(MakeBoundCallback(&Web::Send, m_objects[number].bytes),
                                   MakeNullCallback<void, Ptr<Socket>>());
        socket->Connect(InetSocketAddress(m_to, 80));
        if (number + 1 < m_objects.size())
        {
            Time next = Seconds(m_objects[number + 1].start);
            Simulator::Schedule(next - Simulator::Now(), &Web::Open, this, number + 1);
        }
    }

    static void Send(uint32_t bytes, Ptr<Socket> socket)
    {
        socket->Send(Create<Packet>(bytes));
        socket->Close();
    }

    std::vector<Object> m_objects;
    Ptr<Node> m_source;
    Ipv4Address m_to;
};

// Datagrams with exponential gaps.
class Poisson
{
  public:
    Poisson(Ptr<Node> host, Ipv4Address to, double bps)
        : m_socket(Socket::CreateSocket(host, UdpSocketFactory::GetTypeId())),
          m_gap(CreateObject<ExponentialRandomVariable>()),
          m_meanGap(8 * PACKET_BYTES / bps)
    {
        m_socket->Connect(InetSocketAddress(to, 9));
        Wait();
    }

  private:
    static constexpr uint32_t PACKET_BYTES = 1000;
    static constexpr uint32_t HEADERS = 28; // IPv4 and UDP

    void Wait()
    {
        Simulator::Schedule(Seconds(m_gap->GetValue(m_meanGap, 0)), &Poisson::Send, this);
    }

    void Send()
    {
        m_socket->Send(Create<Packet>(PACKET_BYTES - HEADERS));
        Wait();
    }

    Ptr<Socket> m_socket;
    Ptr<ExponentialRandomVariable> m_gap;
    double m_meanGap;
};

static std::vector<Poisson*>
AddDatagrams(Dumbbell& net, const Workload& workload)
{
    std::vector<Poisson*> sources;
    if (workload.datagramSources > 0)
    {
        Ipv4Address address;
        PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        sink.Install(net.Destination(address));
        for (uint32_t number = 0; number < workload.datagramSources; number++)
        {
            sources.push_back(new Poisson(net.Source(), address, workload.datagramBps));
        }
    }
    return sources;
}

int
main(int argc, char** argv)
{
    const std::string name = argc > 1 ? argv[1] : "";
    const double seconds = argc > 2 ? std::atof(argv[2]) : 100;
    const Workload workload = Named(name);
    Config::SetDefault("ns3::Ipv4::WeakEsModel", BooleanValue(false));
    SetTcp(workload);

    Dumbbell net(workload);
    AddTransfers(net, workload);
    Web* web = name == "w2" ? new Web(net, argc > 3 ? argv[3] : "") : nullptr;
    std::vector<Poisson*> datagrams = AddDatagrams(net, workload);

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const QueueDisc::Stats& stats = net.queue->GetStats();
    std::printf("{\"packets\": %u, \"events\": %llu}\n",
                stats.nTotalSentPackets,
                static_cast<unsigned long long>(Simulator::GetEventCount()));
    for (Poisson* source : datagrams)
    {
        delete source;
    }
    delete web;
    Simulator::Destroy();
}

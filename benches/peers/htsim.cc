// The workloads W1 and W3 of scenarios/bench/ on htsim's classes: `htsim w1|w3 SECONDS [direct]` prints, as JSON, how
// many packets the bottleneck forwarded and how many events there were. Whoever runs it takes the time from outside.
//
// Every line of the scenarios is a queue and a pipe here, for acknowledgements as well; with `direct` the hosts stand
// at the bottleneck and acknowledgements wait nowhere, as in htsim's own dumbbells, which is less work. Its TCP is
// simpler on purpose: no SACK, no bytes for headers, and time-outs found every 10 ms by looking at every flow. It has no
// RED: the bottleneck of W1 drops one packet in ten above 30 packets, and every one above 90. It has no Web traffic by a
// schedule, hence no W2.
#include "cbr.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "randomqueue.h"
#include "tcp.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Stands behind the bottleneck and counts.
class Counter : public PacketSink
{
  public:
    void receivePacket(Packet& packet) override
    {
        packets++;
        packet.sendOn();
    }

    const string& nodename() override
    {
        return m_name;
    }

    uint64_t packets = 0;

  private:
    string m_name = "counter";
};

// Datagrams of 1000 bytes with exponential gaps.
class Poisson : public CbrSrc
{
  public:
    Poisson(EventList& events, linkspeed_bps rate)
        : CbrSrc(events, rate),
          m_meanGap(8e12 * 1000 / rate)
    {
        _mss = 1000;
    }

    void doNextEvent() override
    {
        _period = static_cast<simtime_picosec>(-m_meanGap * std::log(1 - drand()));
        CbrSrc::doNextEvent();
    }

  private:
    double m_meanGap;
};

struct Workload
{
    uint64_t mbps;
    double delayMs;
    uint64_t accessMbps;
    int packetBytes;
    int flows;
    double startsWithinMs;
    int datagramSources;
};

static const Workload W1 = {10, 60, 100, 974, 50, 5000, 0};
static const Workload W3 = {50, 48, 1000, 1000, 4, 1000, 100};

int
main(int argc, char** argv)
{
    const bool w1 = argc > 1 && string(argv[1]) == "w1";
    const Workload& workload = w1 ? W1 : W3;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 100;
    const bool direct = argc > 3 && string(argv[3]) == "direct";
    srand(1);
    Packet::set_packet_size(workload.packetBytes);
    // It reports each time-out on its output, which is not what is measured.
    std::cout.setstate(std::ios_base::failbit);

    EventList events;
    events.setEndtime(timeFromSec(seconds));
    const simtime_picosec access = timeFromMs(1.0);
    const mem_b ample = memFromPkt(100000);
    auto queueOf = [&](uint64_t mbps) { return new Queue(speedFromMbps(mbps), ample, events, nullptr); };

    Queue* bottleneck = w1 ? new RandomQueue(speedFromMbps(workload.mbps), memFromPkt(90), events, nullptr, memFromPkt(60))
                           : new Queue(speedFromMbps(workload.mbps), memFromPkt(625), events, nullptr);
    Counter counter;
    Pipe forward(timeFromMs(workload.delayMs), events);
    Queue* backQueue = queueOf(workload.mbps);
    Pipe back(timeFromMs(workload.delayMs), events);
    TcpRtxTimerScanner timeouts(timeFromMs(10.0), events);

    // From a host by its line over the bottleneck, or back, to the line of the other host.
    using Hops = std::vector<PacketSink*>;
    auto line = [&](Queue* queue) { return direct ? Hops{} : Hops{queue, new Pipe(access, events)}; };
    auto route = [&](const Hops& first, const Hops& middle, const Hops& last, PacketSink* end) {
        route_t* hops = new route_t();
        for (const Hops& some : {first, middle, last, Hops{end}})
        {
            for (PacketSink* hop : some)
            {
                hops->push_back(hop);
            }
        }
        return hops;
    };
    const Hops over = {bottleneck, &counter, &forward};
    const Hops under = direct ? Hops{&back} : Hops{backQueue, &back};
    for (int flow = 0; flow < workload.flows; flow++)
    {
        TcpSrc* source = new TcpSrc(nullptr, nullptr, events);
        TcpSink* sink = new TcpSink();
        timeouts.registerTcp(*source);
        auto own = [&] { return line(queueOf(workload.accessMbps)); };
        source->connect(*route(own(), over, own(), sink), *route(own(), under, own(), source), *sink,
                        timeFromMs(drand() * workload.startsWithinMs));
    }
    Queue* shared = queueOf(workload.accessMbps);
    for (int number = 0; number < workload.datagramSources; number++)
    {
        Poisson* source = new Poisson(events, 250000);
        CbrSink* sink = new CbrSink();
        source->connect(*route(line(queueOf(workload.accessMbps)), over, line(shared), sink), *sink,
                        timeFromMs(drand() * 32));
    }

    uint64_t happened = 0;
    while (events.doNextEvent())
    {
        happened++;
    }
    std::printf("{\"packets\": %llu, \"events\": %llu}\n",
                static_cast<unsigned long long>(counter.packets),
                static_cast<unsigned long long>(happened));
}

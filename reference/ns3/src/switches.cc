// switches.cc - single rules of ns-3.37's TcpSocketBase taken away at run time, to tell what each does.
//
//   GROW=1      the acknowledgement that ends the state after a time-out (CA_LOSS) opens the window, as each
//               acknowledgement of new data does in slow start (RFC 5681, section 3.1); ns-3.37 leaves it alone
//   RESTART=1   the first retransmission of a recovery restarts the retransmission timer (RFC 6675, section 6,
//               permits that); in ns-3.37 only acknowledgements of new data do
//
// A library to load before the scenario program, whose table of virtual functions it changes:
//   g++ -std=c++17 -O2 -fPIC -shared -o switches.so src/switches.cc -ldl
//   GROW=1 LD_PRELOAD=./switches.so ./dumbbell --minRto=0.2 ...
#include <dlfcn.h>
#include <sys/mman.h>

// The standard headers come before the words below are taken away.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#define private public
#define protected public
#include "ns3/simulator.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-socket-base.h"
#undef private
#undef protected

using namespace ns3;

namespace
{

using NewAck = void (*)(TcpSocketBase*, const SequenceNumber32&, bool);
using ReTxTimeout = void (*)(TcpSocketBase*);
using UpdateRttHistory = void (*)(TcpSocketBase*, const SequenceNumber32&, uint32_t, bool);

NewAck g_newAck;
ReTxTimeout g_timeout;
UpdateRttHistory g_history;
bool g_grows, g_restarts;
std::map<TcpSocketBase*, int> g_state; // after the last acknowledgement or time-out
std::map<TcpSocketBase*, bool> g_restarted; // in this recovery

void OnNewAck(TcpSocketBase* socket, const SequenceNumber32& ack, bool resetRto)
{
    const int state = socket->m_tcb->m_congState.Get();
    if (g_grows && g_state[socket] == TcpSocketState::CA_LOSS && state == TcpSocketState::CA_OPEN)
    {
        socket->m_congestionControl->IncreaseWindow(socket->m_tcb, 1);
    }
    g_state[socket] = state;
    g_newAck(socket, ack, resetRto);
}

void OnTimeout(TcpSocketBase* socket)
{
    g_timeout(socket);
    g_state[socket] = socket->m_tcb->m_congState.Get();
}

// Called once for each segment that is sent.
void OnSegment(TcpSocketBase* socket, const SequenceNumber32& seq, uint32_t size, bool again)
{
    bool& restarted = g_restarted[socket];
    if (socket->m_tcb->m_congState != TcpSocketState::CA_RECOVERY)
    {
        restarted = false;
    }
    else if (g_restarts && again && !restarted)
    {
        restarted = true;
        socket->m_retxEvent.Cancel();
        socket->m_retxEvent = Simulator::Schedule(socket->m_rto.Get(), &TcpSocketBase::ReTxTimeout, socket);
    }
    g_history(socket, seq, size, again);
}

// `table` is that of TcpSocketBase. Puts `own` in the place of the virtual function with this symbol, and returns that.
template <class Function> Function Replace(void** table, const char* symbol, Function own)
{
    constexpr int ENTRIES = 200; // more than TcpSocketBase has
    constexpr uintptr_t PAGE = 4096;
    void* theirs = dlsym(RTLD_DEFAULT, symbol);
    for (int at = 0; theirs && at < ENTRIES; ++at)
    {
        if (table[at] == theirs)
        {
            void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&table[at]) & ~(PAGE - 1));
            mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE);
            table[at] = reinterpret_cast<void*>(own);
            return reinterpret_cast<Function>(theirs);
        }
    }
    std::fprintf(stderr, "switches: %s is not there\n", symbol);
    std::exit(1);
}

__attribute__((constructor)) void Begin()
{
    g_grows = std::getenv("GROW");
    g_restarts = std::getenv("RESTART");
    void** table = static_cast<void**>(dlsym(RTLD_DEFAULT, "_ZTVN3ns313TcpSocketBaseE"));
    g_newAck = Replace(table, "_ZN3ns313TcpSocketBase6NewAckERKNS_14SequenceNumberIjiEEb", &OnNewAck);
    g_timeout = Replace(table, "_ZN3ns313TcpSocketBase11ReTxTimeoutEv", &OnTimeout);
    g_history = Replace(table, "_ZN3ns313TcpSocketBase16UpdateRttHistoryERKNS_14SequenceNumberIjiEEjb", &OnSegment);
}

} // namespace

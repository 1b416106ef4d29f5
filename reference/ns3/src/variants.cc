// variants.cc - the scenario program with own TCP parts for single faults of ns-3.37, to tell what each does:
//   ExactPrr        RFC 6937 with 64-bit products: TcpPrrRecovery multiplies prr_delivered by ssthresh in
//                   32 bits, which wraps after 2^32 / ssthresh bytes of a recovery
//   ExactNewReno    adds mss * mss / cwnd per acknowledgement with its fraction of a byte, which TcpNewReno
//                   leaves out
//   ExactHighSpeed  the formulas of RFC 3649 in place of its table, and with fractions; the acknowledgement
//                   that ends a recovery opens no window
//   ExactCubic      the acknowledgement that ends a recovery opens no window, and the count of
//                   acknowledgements starts again with each step
//   ExactRtt        no round-trip sample from a SYN that was sent again, and then a time-out of 3 s for the
//                   first data (RFC 6298, 5.7): ns-3 takes the time since the first SYN, over 3 s, as one
// Built like dumbbell.cc, which it includes.
#include "ns3/tcp-socket-base.h"

#include <cmath>

#define private public // the counter of TcpCubic
#include "ns3/tcp-cubic.h"
#undef private
#include "dumbbell.cc"

namespace ns3
{

class ExactPrr : public TcpClassicRecovery
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("ns3::ExactPrr").SetParent<TcpClassicRecovery>().AddConstructor<ExactPrr>();
        return id;
    }

    std::string GetName() const override
    {
        return "ExactPrr";
    }

    void EnterRecovery(Ptr<TcpSocketState> tcb, uint32_t, uint32_t unacked, uint32_t delivered) override
    {
        m_delivered = m_out = 0;
        m_flight = std::max(1U, unacked);
        DoRecovery(tcb, delivered);
    }

    void DoRecovery(Ptr<TcpSocketState> tcb, uint32_t delivered) override
    {
        m_delivered += delivered;
        int64_t pipe = tcb->m_bytesInFlight, ssthresh = tcb->m_ssThresh, mss = tcb->m_segmentSize, count;
        if (pipe > ssthresh)
        {
            count = (m_delivered * ssthresh + m_flight - 1) / m_flight - m_out;
        }
        else
        {
            count = std::min(std::max<int64_t>(m_delivered - m_out, delivered) + mss, ssthresh - pipe);
        }
        count = std::max(count, m_out > 0 ? int64_t(0) : mss);
        tcb->m_cWnd = uint32_t(pipe + count);
        tcb->m_cWndInfl = tcb->m_cWnd;
    }

    void ExitRecovery(Ptr<TcpSocketState> tcb) override
    {
        tcb->m_cWndInfl = tcb->m_cWnd;
    }

    void UpdateBytesSent(uint32_t bytes) override
    {
        m_out += bytes;
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<ExactPrr>(this);
    }

  private:
    int64_t m_delivered = 0, m_out = 0, m_flight = 1;
};

NS_OBJECT_ENSURE_REGISTERED(ExactPrr);

class ExactNewReno : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::ExactNewReno").SetParent<TcpNewReno>().AddConstructor<ExactNewReno>();
        return id;
    }

    std::string GetName() const override
    {
        return "ExactNewReno";
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<ExactNewReno>(this);
    }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        if (segmentsAcked > 0)
        {
            double mss = tcb->m_segmentSize;
            m_fraction += mss * mss / tcb->m_cWnd.Get();
            tcb->m_cWnd += uint32_t(m_fraction);
            m_fraction -= std::floor(m_fraction);
        }
    }

  private:
    double m_fraction = 0;
};

NS_OBJECT_ENSURE_REGISTERED(ExactNewReno);

class ExactHighSpeed : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id =
            TypeId("ns3::ExactHighSpeed").SetParent<TcpNewReno>().AddConstructor<ExactHighSpeed>();
        return id;
    }

    std::string GetName() const override
    {
        return "ExactHighSpeed";
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<ExactHighSpeed>(this);
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override
    {
        double w = bytesInFlight / double(tcb->m_segmentSize);
        return uint32_t(std::max(2.0, std::floor(w * (1 - Share(w)))) * tcb->m_segmentSize);
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        if (segmentsAcked <= 1) // every segment is acknowledged: more ends a recovery
        {
            TcpNewReno::IncreaseWindow(tcb, segmentsAcked);
        }
    }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        if (segmentsAcked > 0)
        {
            double mss = tcb->m_segmentSize, w = tcb->m_cWnd.Get() / mss, b = Share(w);
            double a = w <= 38 ? 1 : std::max(1.0, w * w * 0.078 * std::pow(w, -1.2) * 2 * b / (2 - b));
            m_fraction += a / w * mss;
            tcb->m_cWnd += uint32_t(m_fraction);
            m_fraction -= std::floor(m_fraction);
        }
    }

  private:
    static double Share(double w)
    {
        return w <= 38 ? 0.5
                       : std::max(0.1, 0.5 - 0.4 * (std::log(w) - std::log(38.)) / (std::log(83000.) - std::log(38.)));
    }

    double m_fraction = 0;
};

NS_OBJECT_ENSURE_REGISTERED(ExactHighSpeed);

class ExactCubic : public TcpCubic
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::ExactCubic").SetParent<TcpCubic>().AddConstructor<ExactCubic>();
        return id;
    }

    std::string GetName() const override
    {
        return "ExactCubic";
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<ExactCubic>(this);
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        if (segmentsAcked <= 1)
        {
            uint32_t before = tcb->m_cWnd;
            TcpCubic::IncreaseWindow(tcb, segmentsAcked);
            m_cWndCnt = tcb->m_cWnd != before ? 0 : m_cWndCnt;
        }
    }
};

NS_OBJECT_ENSURE_REGISTERED(ExactCubic);

class ExactRtt : public RttMeanDeviation
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::ExactRtt").SetParent<RttMeanDeviation>().AddConstructor<ExactRtt>();
        return id;
    }

    TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    Ptr<RttEstimator> Copy() const override
    {
        return CopyObject<ExactRtt>(this);
    }

    void Measurement(Time measure) override
    {
        if (m_nSamples == 0 && measure >= Seconds(o.connTimeout)) // only a SYN's can be so long
        {
            m_estimatedRtt = Seconds(3); // the time-out without a variation; the next sample is the first
            m_estimatedVariation = Time(0);
            return;
        }
        RttMeanDeviation::Measurement(measure);
    }
};

NS_OBJECT_ENSURE_REGISTERED(ExactRtt);

} // namespace ns3

// Goodput of ns-3.44's TcpNewReno over the lossy last hop of tests/reference/ns3, with rules of its
// loss recovery replaced one by one, to see what each is worth.
//
//     g++ -std=c++20 -O1 -DNDEBUG -I$NS3/include tools/ns3_rules.cc -o ns3_rules -L$NS3/lib64 \
//         -Wl,-rpath,$NS3/lib64,--allow-shlib-undefined \
//         -lns3.44-{core,network,internet,point-to-point,applications,traffic-control,stats}
//     ./ns3_rules --delay=5 --loss=0.05 --run=1 --flight --exit-ack --two --forget
//
// $NS3 is the folder `ns3` of the package ns3 (3.44.post0) of PyPI. Prints run, goodput in kbit/s,
// segments sent, retransmissions, and timeouts per 100 s. Alternatives to ns-3's rules:
//
//   --flight    a timeout halves FlightSize (RFC 5681, equation 4), not what SACK leaves in the
//               pipe
//   --exit-ack  the ACK that ends the recovery after a timeout opens the window as others do; in
//               ns-3 it counts only what lies above the recovery point, which usually is nothing
//   --two       the ACK that begins a fast recovery may send two segments
//   --forget    a retransmission that SACK reports is no longer in the pipe; in ns-3 it stays until
//               the cumulative ACK passes it

#include <any>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/network-module.h"
// The scoreboard has no other way in.
#define private public
#define protected public
#include "ns3/tcp-tx-buffer.h"
#include "ns3/tcp-socket-base.h"
#undef private
#undef protected
#include "ns3/applications-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{
bool g_flight, g_exitAck, g_two, g_forget, g_trace;
//! Counting begins here, s.
constexpr double WARM_UP = 20;
uint64_t g_sent, g_resent, g_timeouts, g_before;
TcpSocketBase* g_socket;
Ptr<PacketSink> g_sink;

double Clock()
{
    return Simulator::Now().GetSeconds();
}
} // namespace

class Window : public TcpNewReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::RulesWindow")
                               .SetParent<TcpNewReno>()
                               .AddConstructor<Window>();
        return id;
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Window>(this);
    }

    // Asked at the beginning of a recovery, after the state has been set, and at a timeout, before.
    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t pipe) override
    {
        bool timeout = !m_begins;
        m_begins = false;
        uint32_t flight = s->m_highTxMark.Get() - s->m_lastAckedSeq;
        uint32_t half = (timeout && g_flight ? flight : pipe) / 2;
        if (g_trace)
        {
            const char* what = timeout ? "timeout" : "recovery";
            printf("%.6f %s pipe %u flight %u\n", Clock(), what, pipe, flight);
        }
        return std::max(2 * s->m_segmentSize, half);
    }

    void CongestionStateSet(Ptr<TcpSocketState> s,
                            const TcpSocketState::TcpCongState_t next) override
    {
        m_begins = next == TcpSocketState::CA_RECOVERY;
        m_ends = s->m_congState == TcpSocketState::CA_LOSS && next == TcpSocketState::CA_OPEN;
        TcpNewReno::CongestionStateSet(s, next);
    }

    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        TcpNewReno::IncreaseWindow(s, m_ends && g_exitAck ? std::max(segments, 1U) : segments);
        m_ends = false;
    }

  private:
    bool m_begins = false;
    bool m_ends = false;
};

class Recovery : public TcpPrrRecovery
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("ns3::RulesRecovery")
                               .SetParent<TcpPrrRecovery>()
                               .AddConstructor<Recovery>();
        return id;
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<Recovery>(this);
    }

    void EnterRecovery(Ptr<TcpSocketState> s,
                       uint32_t duplicates,
                       uint32_t flight,
                       uint32_t delivered) override
    {
        Forget(s);
        TcpPrrRecovery::EnterRecovery(s, duplicates, flight, delivered);
        if (g_two && s->m_cWnd < 2 * s->m_segmentSize)
        {
            s->m_cWnd = 2 * s->m_segmentSize;
        }
    }

    void DoRecovery(Ptr<TcpSocketState> s, uint32_t delivered, bool duplicate) override
    {
        Forget(s);
        TcpPrrRecovery::DoRecovery(s, delivered, duplicate);
    }

  private:
    void Forget(Ptr<TcpSocketState> s)
    {
        if (!g_forget)
        {
            return;
        }
        Ptr<TcpTxBuffer> board = g_socket->m_txBuffer;
        for (TcpTxItem* item : board->m_sentList)
        {
            if (item->m_sacked && item->m_retrans)
            {
                item->m_retrans = false;
                board->m_retrans -= item->GetPacket()->GetSize();
            }
        }
        s->m_bytesInFlight = board->BytesInFlight();
    }
};

NS_OBJECT_ENSURE_REGISTERED(Window);
NS_OBJECT_ENSURE_REGISTERED(Recovery);

namespace
{
void State(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t next)
{
    g_timeouts += next == TcpSocketState::CA_LOSS && Clock() >= WARM_UP;
}

void Sent(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    g_sent += packet->GetSize() > 0 && Clock() >= WARM_UP;
    if (g_trace && packet->GetSize() > 0)
    {
        printf("%.6f snd %u\n", Clock(), header.GetSequenceNumber().GetValue() / 1000 + 1);
    }
}

void Resent(Ptr<const Packet>,
            const TcpHeader&,
            const Address&,
            const Address&,
            Ptr<const TcpSocketBase>)
{
    g_resent += Clock() >= WARM_UP;
}

void Acked(Ptr<const Packet>, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    if (g_trace)
    {
        std::cout << std::fixed << Clock() << " ack " << header << std::endl;
    }
}

void Pipe(uint32_t, uint32_t now)
{
    if (g_trace)
    {
        printf("%.6f pipe %u\n", Clock(), now);
    }
}

void Watch(Ptr<Node> sender)
{
    ObjectVectorValue sockets;
    sender->GetObject<TcpL4Protocol>()->GetAttribute("SocketList", sockets);
    Ptr<TcpSocketBase> socket = DynamicCast<TcpSocketBase>(sockets.Get(0));
    g_socket = PeekPointer(socket);
    socket->TraceConnectWithoutContext("CongState", MakeCallback(&State));
    socket->TraceConnectWithoutContext("Tx", MakeCallback(&Sent));
    socket->TraceConnectWithoutContext("Rx", MakeCallback(&Acked));
    socket->TraceConnectWithoutContext("Retransmission", MakeCallback(&Resent));
    socket->TraceConnectWithoutContext("BytesInFlight", MakeCallback(&Pipe));
}

void Count()
{
    g_before = g_sink->GetTotalRx();
}

NetDeviceContainer Link(Ptr<Node> a, Ptr<Node> b, const std::string& rate, Time delay)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", TimeValue(delay));
    return link.Install(a, b);
}

void Defaults()
{
    auto type = [](const char* name) { return TypeIdValue(TypeId::LookupByName(name)); };
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", type("ns3::RulesWindow"));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", type("ns3::RulesRecovery"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(500'000));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1'000'000));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", QueueSizeValue(QueueSize("1000p")));
}
} // namespace

int main(int count, char** words)
{
    double delay = 5, loss = 0.05, measured = 200;
    uint32_t run = 1;
    CommandLine line;
    line.AddValue("delay", "of the last hop, one way, ms", delay);
    line.AddValue("loss", "of data on the last hop", loss);
    line.AddValue("measured", "seconds after the first 20", measured);
    line.AddValue("run", "RNG run number", run);
    line.AddValue("flight", "a timeout halves FlightSize", g_flight);
    line.AddValue("exit-ack", "the ACK that ends a timeout's recovery opens the window", g_exitAck);
    line.AddValue("two", "two segments at the beginning of a recovery", g_two);
    line.AddValue("forget", "retransmissions that SACK reports leave the pipe", g_forget);
    line.AddValue("trace", "print what is sent and acknowledged", g_trace);
    line.Parse(count, words);
    RngSeedManager::SetSeed(12345);
    RngSeedManager::SetRun(run);
    Defaults();

    NodeContainer nodes(3);
    NetDeviceContainer wired = Link(nodes.Get(0), nodes.Get(1), "10Mbps", MilliSeconds(20));
    Time away = MicroSeconds(int64_t(1000 * delay));
    NetDeviceContainer hop = Link(nodes.Get(1), nodes.Get(2), "2Mbps", away);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    addresses.Assign(wired);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    Ipv4Address receiver = addresses.Assign(hop).GetAddress(1);
    TrafficControlHelper().Uninstall(wired);
    TrafficControlHelper().Uninstall(hop);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
    errors->SetAttribute("ErrorUnit", EnumValue(RateErrorModel::ERROR_UNIT_PACKET));
    errors->SetAttribute("ErrorRate", DoubleValue(loss));
    errors->AssignStreams(100);
    hop.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    g_sink = DynamicCast<PacketSink>(sink.Install(nodes.Get(2)).Get(0));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(receiver, 5000));
    bulk.SetAttribute("SendSize", UintegerValue(1000));
    bulk.Install(nodes.Get(0)).Start(Seconds(0.1));
    Simulator::Schedule(Seconds(0.100001), &Watch, nodes.Get(0));
    Simulator::Schedule(Seconds(WARM_UP), &Count);
    Simulator::Stop(Seconds(WARM_UP + measured));
    Simulator::Run();
    double goodput = (g_sink->GetTotalRx() - g_before) * 8 / measured / 1000;
    double timeouts = 100 * g_timeouts / measured;
    printf("%u %.1f %lu %lu %.2f\n", run, goodput, g_sent, g_resent, timeouts);
    return 0;
}

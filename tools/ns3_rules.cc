// Goodput of ns-3.44's senders over the lossy last hop of tests/reference/ns3, with rules of theirs
// replaced one by one, to see what each is worth.
//
//     g++ -std=c++20 -O1 -DNDEBUG -I$NS3/include tools/ns3_rules.cc -o ns3_rules -L$NS3/lib64 \
//         -Wl,-rpath,$NS3/lib64,--allow-shlib-undefined \
//         -lns3.44-{core,network,internet,point-to-point,applications,traffic-control,stats}
//     ./ns3_rules --window=Veno --delay=5 --loss=0.05 --run=1 --flight --exit-ack --two --forget
//
// $NS3 is the folder `ns3` of the package ns3 (3.44.post0) of PyPI. Prints run, goodput in kbit/s,
// segments sent, retransmissions, and timeouts per 100 s. `--window` is a rule of ns-3 without the
// `Tcp` of its name; `--no-sack` switches SACK off. Alternatives to ns-3's rules, in the socket and
// in what it tells window rules:
//
//   --flight    a timeout halves FlightSize (RFC 5681, equation 4), not what SACK leaves in the
//               pipe
//   --flight-at-loss  a fast recovery reduces FlightSize without what limited transmit has sent
//               (RFC 5681, section 3.2), not what SACK leaves in the pipe
//   --exit-ack  the ACK that ends the recovery after a timeout opens the window as others do; in
//               ns-3 it counts only what lies above the recovery point, which usually is nothing
//   --exit-fast the ACK that ends a fast recovery does not open the window (RFC 6675, section 5);
//               in ns-3 it does
//   --two       the ACK that begins a fast recovery may send two segments
//   --forget    a retransmission that SACK reports is no longer in the pipe; in ns-3 it stays until
//               the cumulative ACK passes it
//   --prr       proportional rate reduction counts what SACK reports, and no segment more for each
//               duplicate ACK
//   --recover-fs  proportional rate reduction measures by the flight without what SACK had told
//               before (RFC 9937, RecoverFS); in ns-3 by the pipe, which leaves out what is lost
//   --restart   a fast retransmit restarts the timer, as in Linux and ns-2; in ns-3 only an ACK of
//               new data does
//   --fresh     a window rule gets the segments that an ACK reports first; in ns-3 one for each
//               duplicate ACK, and all again with the ACK that covers them
//   --receiver  cwnd does not grow above the receive window, which limits the sender then; in
//               ns-3 it does, and LinuxReno halves that
//   --fractions the part of a segment by which an ACK opens the window has fractions of a byte;
//               ns-3 cuts them off. For NewReno, LinuxReno, Veno and Westwood+
//   --all       all that a timeout has marked lost is sent again; in ns-3 only what lies below the
//               highest SACK (RFC 6675, NextSeg, rule 1.b). For Bbr
//   --clear     without SACK: an ACK of new data, unless it is partial, forgets the duplicate ACKs
//               before it; in ns-3 they go on to stand for later segments, and each such ACK marks
//               the first segment lost
//   --classic   fast recovery inflates the window (RFC 6582), without proportional rate reduction
//   --more      a fast recovery begins only if more than the last one's recovery point is
//               acknowledged (RFC 6582, section 3.2, step 2); in ns-3 also if just that is
//   --guard     after the recovery from a timeout no fast recovery begins before all that was sent
//               by then is acknowledged; in ns-3 before the timeout
//   --karn      a timeout that was backed off stays until a segment sent once has been timed (RFC
//               6298, section 5); in ns-3 each ACK of new data takes the back-off away
//   --samples   a window rule gets each round-trip time, not the smoothed one
//   --sacked    a window rule gets a round-trip time of what SACK reports too, from each ACK that
//               reports something sent once; in ns-3 only ACKs of new data measure one, and others
//               repeat the last
//
// and in single window rules:
//
//   --parts     LinuxReno opens its window a part of a segment with each ACK (RFC 5681, equation
//               3); in ns-3 a whole segment after a window's worth
//   --rounds    Veno measures over round trips; in ns-3 over the last ACK
//   --few       Veno halves if its last round trip had fewer than three samples (with --rounds)
//   --half      Vegas halves FlightSize on a loss; in ns-3 it takes one segment off
//   --above     a round of Vegas' ends with the ACK of a segment sent in it, as in Linux; in ns-3
//               with the last one sent before it, a segment sooner
//   --cap       the end of a recovery does not raise cwnd above its value before the loss
//               (Westwood+)
//   --curve     Cubic grows and reduces as RFC 9438 says (sections 4.2 to 4.7), in fractions of a
//               segment; in ns-3 curve and window are whole segments, with alpha constant
//   --interval  Westwood+'s samples last from ACK to ACK, pauses included, and its filter begins
//               with the first; in ns-3 a pause before an ACK is in none, and it begins with 0
//   --data-rtt  Westwood+'s smallest round-trip time is one of data; in ns-3 it is the handshake's,
//               whose segments take hardly any time to send

#include <algorithm>
#include <any>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/network-module.h"
// The scoreboard and Veno's round-trip times have no other way in.
#define private public
#define protected public
#include "ns3/tcp-tx-buffer.h"
#include "ns3/tcp-bbr.h"
#include "ns3/tcp-cubic.h"
#include "ns3/tcp-linux-reno.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/tcp-vegas.h"
#include "ns3/tcp-veno.h"
#include "ns3/tcp-westwood-plus.h"
#include "ns3/tcp-socket-base.h"
#undef private
#undef protected
#include "ns3/applications-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{
bool g_flight, g_flightAtLoss, g_exitAck, g_exitFast, g_two, g_forget, g_prr, g_fresh, g_samples;
bool g_rounds, g_few, g_half, g_cap, g_interval, g_guard, g_noSack, g_trace;
bool g_all, g_clear, g_classic, g_curve, g_karn, g_more, g_parts, g_above, g_dataRtt, g_sacked;
bool g_recoverFs, g_restart, g_receiver, g_fractions;
//! Segments sent more than once, by sequence number.
std::set<SequenceNumber32> g_twice;
//! Round-trip time of the newest segment sent once that the ACK in progress reports first; or 0.
Time g_newest;
//! The timeout has been backed off, at this number of round-trip samples.
bool g_backedOff;
uint32_t g_samplesThen;
std::string g_window = "NewReno";
constexpr uint32_t SEGMENT = 1000;
//! Counting begins here, s.
constexpr double WARM_UP = 20;
//! What NextSeg takes for the highest SACK is replaced until the next ACK; the true one.
bool g_widened;
SequenceNumber32 g_highestSack;
uint64_t g_sent, g_resent, g_timeouts, g_before, g_deliveredBefore;
TcpSocketBase* g_socket;
Ptr<PacketSink> g_sink;

double Clock()
{
    return Simulator::Now().GetSeconds();
}
} // namespace

//! Bytes that ACKs and SACK have reported, each once.
uint64_t Delivered()
{
    return g_socket->m_rateOps->GetConnectionRate().m_delivered;
}

//! Segments that the ACK in progress reports first.
uint32_t Fresh()
{
    return (Delivered() - g_deliveredBefore) / SEGMENT;
}

uint32_t Flight(Ptr<const TcpSocketState> s)
{
    return s->m_highTxMark.Get() - s->m_lastAckedSeq;
}

#include "ns3_window_rules.h"

#define RULES_TYPE(Name)                                                           \
    TypeId Name::GetTypeId()                                                       \
    {                                                                              \
        static TypeId id = TypeId("ns3::Rules" #Name)                              \
                               .SetParent<Tcp##Name>()                             \
                               .AddConstructor<Name>();                            \
        return id;                                                                 \
    }                                                                              \
    NS_OBJECT_ENSURE_REGISTERED(Name)

RULES_TYPE(NewReno);
RULES_TYPE(LinuxReno);
RULES_TYPE(Veno);
RULES_TYPE(Vegas);
RULES_TYPE(WestwoodPlus);
RULES_TYPE(Cubic);
RULES_TYPE(Bbr);

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
        m_before = s->m_cWnd;
        TcpPrrRecovery::EnterRecovery(s, duplicates, flight, delivered);
        if (g_recoverFs)
        {
            m_recoveryFlightSize = flight - g_socket->m_txBuffer->GetSacked() + delivered;
            m_prrDelivered = 0;
            DoRecovery(s, delivered, true);
        }
        if (g_two && s->m_cWnd < 2 * s->m_segmentSize)
        {
            s->m_cWnd = 2 * s->m_segmentSize;
        }
    }

    void DoRecovery(Ptr<TcpSocketState> s, uint32_t delivered, bool duplicate) override
    {
        Forget(s);
        TcpPrrRecovery::DoRecovery(s, delivered, duplicate && !g_prr);
    }

    void ExitRecovery(Ptr<TcpSocketState> s) override
    {
        TcpPrrRecovery::ExitRecovery(s);
        if (g_cap)
        {
            s->m_cWnd = std::min(s->m_cWnd.Get(), m_before);
        }
    }

  private:
    uint32_t m_before = 0;

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

NS_OBJECT_ENSURE_REGISTERED(Recovery);

namespace
{
//! Sets the timeout and restarts the timer: after NewAck, that takes back what it has done.
void Restore(Time timeout)
{
    g_socket->m_rto = timeout;
    if (!g_socket->m_retxEvent.IsExpired())
    {
        g_socket->m_retxEvent.Cancel();
        g_socket->m_retxEvent =
            Simulator::Schedule(timeout, &TcpSocketBase::ReTxTimeout, g_socket);
    }
}

void State(TcpSocketState::TcpCongState_t before, TcpSocketState::TcpCongState_t next)
{
    if (g_guard && before == TcpSocketState::CA_LOSS && next == TcpSocketState::CA_OPEN)
    {
        g_socket->m_recover = g_socket->m_tcb->m_highTxMark;
    }
    bool ended = before == TcpSocketState::CA_RECOVERY || before == TcpSocketState::CA_LOSS;
    if (g_more && ended && next == TcpSocketState::CA_OPEN)
    {
        g_socket->m_recover = g_socket->m_recover + 1;
    }
    if (g_restart && next == TcpSocketState::CA_RECOVERY)
    {
        Simulator::ScheduleNow(&Restore, g_socket->m_rto.Get());
    }
    g_timeouts += next == TcpSocketState::CA_LOSS && Clock() >= WARM_UP;
}

// Called before the timeout is set.
void Timeout(Time before, Time now)
{
    uint32_t samples = g_socket->m_rtt->GetNSamples();
    if (now > before)
    {
        g_backedOff =
            g_socket->m_retxEvent.IsExpired() || (g_backedOff && samples == g_samplesThen);
        g_samplesThen = samples;
    }
    else if (g_karn && g_backedOff && samples == g_samplesThen)
    {
        Simulator::ScheduleNow(&Restore, before);
    }
    else
    {
        g_backedOff = false;
    }
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
            const TcpHeader& header,
            const Address&,
            const Address&,
            Ptr<const TcpSocketBase>)
{
    g_twice.insert(header.GetSequenceNumber());
    g_resent += Clock() >= WARM_UP;
}

//! The round-trip time of the newest segment sent once that an ACK is the first to report, or 0.
Time Newest(const TcpHeader& header)
{
    TcpOptionSack::SackList blocks;
    if (header.HasOption(TcpOption::SACK))
    {
        blocks = DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK))->GetSackList();
    }
    Time sent;
    for (const TcpTxItem* item : g_socket->m_txBuffer->m_sentList)
    {
        SequenceNumber32 from = item->m_startSeq;
        SequenceNumber32 to = from + item->GetSeqSize();
        auto has = [&](const auto& block) { return block.first <= from && to <= block.second; };
        bool acked = to <= header.GetAckNumber();
        bool reported = acked || std::any_of(blocks.begin(), blocks.end(), has);
        if (reported && !item->m_sacked && !g_twice.contains(from))
        {
            sent = std::max(sent, item->m_lastSent);
        }
    }
    return sent.IsZero() ? sent : Simulator::Now() - sent;
}

void Acked(Ptr<const Packet>, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    Ptr<TcpTxBuffer> board = g_socket->m_txBuffer;
    SequenceNumber32 number = header.GetAckNumber();
    bool recovers = g_socket->m_tcb->m_congState == TcpSocketState::CA_RECOVERY;
    bool partial = recovers && number < g_socket->m_recover;
    if (g_clear && g_noSack && number > board->HeadSequence() && !partial)
    {
        board->ResetRenoSack();
    }
    if (g_widened)
    {
        board->m_highestSack.second = g_highestSack;
        g_widened = false;
    }
    g_deliveredBefore = Delivered();
    g_newest = Newest(header);
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
    socket->TraceConnectWithoutContext("RTO", MakeCallback(&Timeout));
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
    std::string window = "ns3::Rules" + g_window;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", type(window.c_str()));
    const char* recovery = g_classic ? "ns3::TcpClassicRecovery" : "ns3::RulesRecovery";
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", type(recovery));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(500'000));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1'000'000));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(!g_noSack));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", QueueSizeValue(QueueSize("1000p")));
}

/** Each rule that may be replaced is an option. */
void AddRules(CommandLine& line)
{
    line.AddValue("flight", "a timeout halves FlightSize", g_flight);
    line.AddValue("exit-ack", "the ACK that ends a timeout's recovery opens the window", g_exitAck);
    line.AddValue("exit-fast", "the ACK that ends a fast recovery opens nothing", g_exitFast);
    line.AddValue("flight-at-loss", "a fast recovery reduces FlightSize", g_flightAtLoss);
    line.AddValue("prr", "PRR counts what SACK tells once", g_prr);
    line.AddValue("recover-fs", "PRR measures by the flight", g_recoverFs);
    line.AddValue("restart", "a fast retransmit restarts the timer", g_restart);
    line.AddValue("receiver", "cwnd stays within the receive window", g_receiver);
    line.AddValue("fractions", "cwnd opens by fractions of a byte too", g_fractions);
    line.AddValue("fresh", "window rules count each segment once", g_fresh);
    line.AddValue("samples", "window rules are told each round-trip time", g_samples);
    line.AddValue("sacked", "window rules are told round-trip times of SACKs", g_sacked);
    line.AddValue("parts", "LinuxReno opens its window in parts of a segment", g_parts);
    line.AddValue("rounds", "Veno measures over round trips", g_rounds);
    line.AddValue("few", "Veno halves if its last round trip had less than 3 samples", g_few);
    line.AddValue("half", "Vegas halves FlightSize on a loss", g_half);
    line.AddValue("above", "Vegas' rounds end with a segment sent in them", g_above);
    line.AddValue("cap", "no window above the one before the recovery at its end", g_cap);
    line.AddValue("interval", "Westwood+ samples from ACK to ACK, pauses included", g_interval);
    line.AddValue("data-rtt", "Westwood+ leaves out the handshake's round-trip time", g_dataRtt);
    line.AddValue("all", "all that a timeout has marked lost is sent again", g_all);
    line.AddValue("karn", "the back-off stays until a segment sent once is timed", g_karn);
    line.AddValue("more", "a fast recovery needs more than the last one acknowledged", g_more);
    line.AddValue("clear", "without SACK, duplicate ACKs are forgotten", g_clear);
    line.AddValue("classic", "fast recovery without PRR", g_classic);
    line.AddValue("curve", "Cubic as RFC 9438 says", g_curve);
    line.AddValue("window", "rule of ns-3, without Tcp", g_window);
    line.AddValue("guard", "no fast recovery before all sent is acknowledged", g_guard);
    line.AddValue("no-sack", "without SACK", g_noSack);
    line.AddValue("two", "two segments at the beginning of a recovery", g_two);
    line.AddValue("forget", "retransmissions that SACK reports leave the pipe", g_forget);
    line.AddValue("trace", "print what is sent and acknowledged", g_trace);
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
    AddRules(line);
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

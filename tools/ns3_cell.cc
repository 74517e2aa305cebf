// Goodput of TCP in a cell of ns-3.44 with 802.11n: the runs of tests/reference/ns3/cell.csv.
//
//     g++ -std=c++20 -O1 -DNDEBUG -I$NS3/include tools/ns3_cell.cc -o ns3_cell -L$NS3/lib64 \
//         -Wl,-rpath,$NS3/lib64,--allow-shlib-undefined -lns3.44-{core,network,internet}\
//         -lns3.44-{point-to-point,applications,traffic-control,stats,mobility,propagation,wifi}
//     ./ns3_cell --stations=5 --mcs=7 --fer=0.1 --up --measured=4 --run=1
//
// $NS3 is the folder `ns3` of the package ns3 (3.44.post0) of PyPI. Prints the goodput of each
// station in kbit/s. All stations receive all frames with the same power, so that frames that
// collide are lost. Errors hit each MPDU of data, also within an aggregate.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace
{
constexpr uint16_t PORT = 5000;
// s; all stations are associated by then.
constexpr double START = 3;
std::vector<Ptr<PacketSink>> g_sinks;
std::vector<uint64_t> g_before;

//! Loses MPDUs of data at a rate; TCP ACKs and frames of the MAC never.
class DataFrames : public ErrorModel
{
  public:
    DataFrames(double rate, int64_t stream)
    {
        m_rate->SetRate(rate);
        m_rate->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        m_rate->AssignStreams(stream);
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() >= 400 && m_rate->IsCorrupt(packet);
    }

    void DoReset() override
    {
    }

    Ptr<RateErrorModel> m_rate = CreateObject<RateErrorModel>();
};

void Count()
{
    for (auto& sink : g_sinks)
    {
        g_before.push_back(sink->GetTotalRx());
    }
}

//! The constants of TCP and of the queues.
void SetDefaults(uint32_t window)
{
    auto type = TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", type);
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1448 * window));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4'000'000));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", QueueSizeValue(QueueSize("9000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("9000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(7));
}

//! The access point, node 1, and the stations after it.
NetDeviceContainer InstallWifi(NodeContainer nodes, uint32_t mcs, bool aggregates)
{
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211n);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue("HtMcs" + std::to_string(mcs)),
                                 "ControlMode",
                                 StringValue("HtMcs0"));
    Ptr<YansWifiChannel> channel = CreateObject<YansWifiChannel>();
    Ptr<FixedRssLossModel> power = CreateObject<FixedRssLossModel>();
    power->SetRss(-40);
    channel->SetPropagationLossModel(power);
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    YansWifiPhyHelper phy;
    phy.SetChannel(channel);
    phy.Set("ChannelSettings", StringValue("{36, 20, BAND_5GHZ, 0}"));
    WifiMacHelper mac;
    SsidValue ssid(Ssid("cell"));
    UintegerValue longest(aggregates ? 65535 : 0);
    mac.SetType("ns3::ApWifiMac", "Ssid", ssid, "BE_MaxAmpduSize", longest);
    NetDeviceContainer air = wifi.Install(phy, mac, nodes.Get(1));
    mac.SetType("ns3::StaWifiMac", "Ssid", ssid, "BE_MaxAmpduSize", longest);
    for (uint32_t i = 2; i < nodes.GetN(); i++)
    {
        air.Add(wifi.Install(phy, mac, nodes.Get(i)));
    }
    MobilityHelper places;
    places.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    for (uint32_t i = 1; i < nodes.GetN(); i++)
    {
        places.Install(nodes.Get(i));
    }
    return air;
}

//! One endless flow of each station.
void InstallFlows(NodeContainer nodes, Ipv4InterfaceContainer wired, Ipv4InterfaceContainer air,
                  bool up)
{
    for (uint32_t i = 0; i < nodes.GetN() - 2; i++)
    {
        uint16_t port = PORT + i;
        Ptr<Node> to = up ? nodes.Get(0) : nodes.Get(2 + i);
        Ptr<Node> from = up ? nodes.Get(2 + i) : nodes.Get(0);
        Ipv4Address address = up ? wired.GetAddress(0) : air.GetAddress(1 + i);
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        g_sinks.push_back(DynamicCast<PacketSink>(sink.Install(to).Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(address, port));
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        bulk.Install(from).Start(Seconds(START + 0.01 * i));
    }
}
} // namespace

int main(int count, char** words)
{
    uint32_t stations = 1, mcs = 7, run = 1, window = 160;
    double fer = 0, warm = 5, measured = 4;
    bool up = false, single = false;
    CommandLine line;
    line.AddValue("stations", "besides the access point", stations);
    line.AddValue("mcs", "of data", mcs);
    line.AddValue("window", "of the receivers, segments", window);
    line.AddValue("fer", "errors of MPDUs of data", fer);
    line.AddValue("warm", "time before the measurement, s", warm);
    line.AddValue("measured", "measured time, s", measured);
    line.AddValue("run", "RNG run number", run);
    line.AddValue("up", "the stations send", up);
    line.AddValue("single", "no aggregation", single);
    line.Parse(count, words);
    RngSeedManager::SetSeed(12345);
    RngSeedManager::SetRun(run);
    SetDefaults(window);

    NodeContainer nodes(2 + stations);
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    wire.SetChannelAttribute("Delay", StringValue("5ms"));
    NetDeviceContainer wired = wire.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer air = InstallWifi(nodes, mcs, !single);
    for (uint32_t i = 0; fer > 0 && i < air.GetN(); i++)
    {
        Ptr<DataFrames> errors = Create<DataFrames>(fer, 100 + i);
        DynamicCast<WifiNetDevice>(air.Get(i))->GetPhy()->SetPostReceptionErrorModel(errors);
    }
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    Ipv4InterfaceContainer line_side = addresses.Assign(wired);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    Ipv4InterfaceContainer air_side = addresses.Assign(air);
    TrafficControlHelper().Uninstall(wired);
    TrafficControlHelper().Uninstall(air);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    // Requests of ARP that collide would delay the start of some flows by seconds.
    NeighborCacheHelper().PopulateNeighborCache();

    InstallFlows(nodes, line_side, air_side, up);
    Simulator::Schedule(Seconds(warm), &Count);
    Simulator::Stop(Seconds(warm + measured));
    Simulator::Run();
    for (uint32_t i = 0; i < g_sinks.size(); i++)
    {
        double bytes = g_sinks[i]->GetTotalRx() - g_before[i];
        printf("%.1f%c", bytes * 8 / measured / 1000, i + 1 < g_sinks.size() ? ' ' : '\n');
    }
    return 0;
}

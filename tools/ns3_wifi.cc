// Goodput of ns-3.44's TcpNewReno over the 802.11b last hop of tests/reference/ns3/wifi.csv, with
// and without beacons.
//
//     g++ -std=c++20 -O1 -DNDEBUG -I$NS3/include tools/ns3_wifi.cc -o ns3_wifi -L$NS3/lib64 \
//         -Wl,-rpath,$NS3/lib64,--allow-shlib-undefined -lns3.44-{core,network,internet}\
//         -lns3.44-{point-to-point,applications,traffic-control,stats,mobility,wifi}
//     ./ns3_wifi --loss=0.01 --attempts=7 --run=1 --silent
//
// $NS3 is the folder `ns3` of the package ns3 (3.44.post0) of PyPI. Prints run and goodput in
// kbit/s. With `--silent` the access point sends one beacon at the start, which the station needs,
// and the next after the end.

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
constexpr double WARM_UP = 5;
constexpr double MEASURED = 20;
uint64_t g_before;
Ptr<PacketSink> g_sink;

//! Loses data frames at a rate; shorter frames never.
class DataFrames : public ErrorModel
{
  public:
    explicit DataFrames(double rate)
    {
        m_rate->SetRate(rate);
        m_rate->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        m_rate->AssignStreams(100);
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() >= 200 && m_rate->IsCorrupt(packet);
    }

    void DoReset() override
    {
    }

    Ptr<RateErrorModel> m_rate = CreateObject<RateErrorModel>();
};

void Count()
{
    g_before = g_sink->GetTotalRx();
}

void Defaults(uint32_t attempts)
{
    auto type = [](const char* name) { return TypeIdValue(TypeId::LookupByName(name)); };
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", type("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(300'000));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1'000'000));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(1)));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", QueueSizeValue(QueueSize("1000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("1000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(attempts));
}

/** The devices of the access point and the station, 5 m apart. */
NetDeviceContainer Cell(const NodeContainer& nodes, bool silent)
{
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode", StringValue("DsssRate11Mbps"),
                                 "ControlMode", StringValue("DsssRate2Mbps"));
    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    WifiMacHelper mac;
    Ssid ssid("cell");
    Time interval = MicroSeconds(1024 * (silent ? 60'000 : 100));
    mac.SetType("ns3::ApWifiMac",
                "Ssid",
                SsidValue(ssid),
                "QosSupported",
                BooleanValue(false),
                "EnableBeaconJitter",
                BooleanValue(!silent),
                "BeaconInterval",
                TimeValue(interval));
    NetDeviceContainer air = wifi.Install(phy, mac, nodes.Get(1));
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "QosSupported", BooleanValue(false));
    air.Add(wifi.Install(phy, mac, nodes.Get(2)));
    MobilityHelper places;
    Ptr<ListPositionAllocator> list = CreateObject<ListPositionAllocator>();
    list->Add(Vector(0, 0, 0));
    list->Add(Vector(5, 0, 0));
    places.SetPositionAllocator(list);
    places.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    places.Install(nodes.Get(1));
    places.Install(nodes.Get(2));
    return air;
}
} // namespace

int main(int count, char** words)
{
    double loss = 0;
    uint32_t run = 1, attempts = 7;
    bool silent = false;
    CommandLine line;
    line.AddValue("loss", "of data frames", loss);
    line.AddValue("attempts", "transmissions of a frame at most", attempts);
    line.AddValue("run", "RNG run number", run);
    line.AddValue("silent", "no beacons while it is measured", silent);
    line.Parse(count, words);
    RngSeedManager::SetSeed(12345);
    RngSeedManager::SetRun(run);
    Defaults(attempts);

    NodeContainer nodes(3);
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    wire.SetChannelAttribute("Delay", StringValue("20ms"));
    NetDeviceContainer wired = wire.Install(nodes.Get(0), nodes.Get(1));

    NetDeviceContainer air = Cell(nodes, silent);
    if (loss > 0)
    {
        Ptr<DataFrames> errors = Create<DataFrames>(loss);
        DynamicCast<WifiNetDevice>(air.Get(1))->GetPhy()->SetPostReceptionErrorModel(errors);
    }
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.1.0", "255.255.255.0");
    addresses.Assign(wired);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    Ipv4Address receiver = addresses.Assign(air).GetAddress(1);
    TrafficControlHelper().Uninstall(wired);
    TrafficControlHelper().Uninstall(air);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    g_sink = DynamicCast<PacketSink>(sink.Install(nodes.Get(2)).Get(0));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(receiver, 5000));
    bulk.SetAttribute("SendSize", UintegerValue(1000));
    bulk.Install(nodes.Get(0)).Start(Seconds(0.5));
    Simulator::Schedule(Seconds(WARM_UP), &Count);
    Simulator::Stop(Seconds(WARM_UP + MEASURED));
    Simulator::Run();
    printf("%u %.1f\n", run, (g_sink->GetTotalRx() - g_before) * 8 / MEASURED / 1000);
    return 0;
}

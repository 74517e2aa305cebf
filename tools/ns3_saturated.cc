// Goodput of saturated stations in a cell of ns-3.44: the runs of tests/reference/ns3/saturated.csv.
//
//     g++ -std=c++20 -O1 -DNDEBUG -I$NS3/include tools/ns3_saturated.cc -o ns3_saturated \
//         -L$NS3/lib64 -Wl,-rpath,$NS3/lib64,--allow-shlib-undefined \
//         -lns3.44-{core,network,applications,stats,mobility,propagation,wifi}
//     ./ns3_saturated --standard=ax --stations=15 --mcs=9 --width=40 --ampdu=0 --rts --run=1
//
// $NS3 is the folder `ns3` of the package ns3 (3.44.post0) of PyPI. Prints the goodput of all
// stations together in kbit/s, from packets of 1500 bytes without IP. All stations receive all
// frames with the same power, so that frames that collide are lost.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace
{
constexpr double START = 1;
constexpr double WARM = 2;
constexpr uint32_t BYTES = 1500;
uint64_t g_bytes = 0;

void Received(Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now() >= Seconds(WARM))
    {
        g_bytes += packet->GetSize();
    }
}
} // namespace

int main(int count, char** words)
{
    std::string standard = "ax";
    uint32_t stations = 5, mcs = 7, width = 20, ampdu = 0, run = 1, txop = 0;
    double measured = 4;
    bool rts = false;
    CommandLine line;
    line.AddValue("standard", "n, ac or ax", standard);
    line.AddValue("stations", "besides the access point", stations);
    line.AddValue("mcs", "of data", mcs);
    line.AddValue("width", "MHz", width);
    line.AddValue("ampdu", "longest A-MPDU, bytes", ampdu);
    line.AddValue("txop", "TXOP limit, us, a multiple of 32", txop);
    line.AddValue("rts", "before each transmission", rts);
    line.AddValue("measured", "s", measured);
    line.AddValue("run", "RNG run number", run);
    line.Parse(count, words);
    RngSeedManager::SetSeed(12345);
    RngSeedManager::SetRun(run);
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold",
                       UintegerValue(rts ? 0 : 4692480));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("400p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(7));
    std::map<std::string, std::pair<WifiStandard, std::string>> known{
        {"n", {WIFI_STANDARD_80211n, "HtMcs"}},
        {"ac", {WIFI_STANDARD_80211ac, "VhtMcs"}},
        {"ax", {WIFI_STANDARD_80211ax, "HeMcs"}}};
    auto [which, prefix] = known.at(standard);

    NodeContainer nodes(1 + stations);
    WifiHelper wifi;
    wifi.SetStandard(which);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode", StringValue(prefix + std::to_string(mcs)),
                                 "ControlMode", StringValue("OfdmRate24Mbps"));
    Ptr<YansWifiChannel> channel = CreateObject<YansWifiChannel>();
    Ptr<FixedRssLossModel> power = CreateObject<FixedRssLossModel>();
    power->SetRss(-20);
    channel->SetPropagationLossModel(power);
    channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
    YansWifiPhyHelper phy;
    phy.SetChannel(channel);
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(width) + ", BAND_5GHZ, 0}"));
    WifiMacHelper mac;
    SsidValue ssid(Ssid("cell"));
    UintegerValue longest(ampdu);
    mac.SetType("ns3::ApWifiMac", "Ssid", ssid, "BE_MaxAmpduSize", longest);
    NetDeviceContainer air = wifi.Install(phy, mac, nodes.Get(0));
    mac.SetType("ns3::StaWifiMac", "Ssid", ssid, "BE_MaxAmpduSize", longest);
    for (uint32_t i = 1; i < nodes.GetN(); i++)
    {
        air.Add(wifi.Install(phy, mac, nodes.Get(i)));
    }
    for (uint32_t i = 0; i < air.GetN(); i++)
    {
        auto edca = DynamicCast<WifiNetDevice>(air.Get(i))->GetMac()->GetQosTxop(AC_BE);
        edca->SetTxopLimit(MicroSeconds(txop));
    }
    MobilityHelper places;
    places.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    places.Install(nodes);
    PacketSocketHelper sockets;
    sockets.Install(nodes);
    for (uint32_t i = 1; i < nodes.GetN(); i++)
    {
        PacketSocketAddress address;
        address.SetSingleDevice(air.Get(i)->GetIfIndex());
        address.SetPhysicalAddress(air.Get(0)->GetAddress());
        address.SetProtocol(1);
        auto client = CreateObject<PacketSocketClient>();
        client->SetRemote(address);
        client->SetAttribute("PacketSize", UintegerValue(BYTES));
        client->SetAttribute("MaxPackets", UintegerValue(0));
        client->SetAttribute("Interval", TimeValue(MicroSeconds(30 * stations)));
        client->SetStartTime(Seconds(START) + MicroSeconds(7 * i));
        nodes.Get(i)->AddApplication(client);
    }
    PacketSocketAddress any;
    any.SetSingleDevice(air.Get(0)->GetIfIndex());
    any.SetPhysicalAddress(air.Get(0)->GetAddress());
    any.SetProtocol(1);
    auto server = CreateObject<PacketSocketServer>();
    server->SetLocal(any);
    server->TraceConnectWithoutContext("Rx", MakeCallback(&Received));
    nodes.Get(0)->AddApplication(server);
    Simulator::Stop(Seconds(WARM + measured));
    Simulator::Run();
    printf("%.1f\n", g_bytes * 8 / measured / 1000);
    return 0;
}

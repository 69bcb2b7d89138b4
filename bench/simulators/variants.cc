// One long TCP flow in ns-3 over a lossy link of CTCP's Fig. 3a, by the name of its congestion control; data packets are lost independently
// before the bottleneck, at no cost in its capacity (CTCP section 6.1).
// variants NAME [key=value]...; prints the goodput after the warm-up in Mbit/s, and timeouts.
#include "network.h"

#include "ns3/applications-module.h"

using namespace ns3;

namespace
{
uint64_t g_timeouts = 0;

// Loses packets that carry data, independently of each other.
class DataErrors : public ErrorModel
{
  public:
    double rate = 0;

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() > 100 && m_draw->GetValue() < rate;
    }

    void DoReset() override
    {
    }

    Ptr<UniformRandomVariable> m_draw = CreateObject<UniformRandomVariable>();
};

void
OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    g_timeouts += now == TcpSocketState::CA_LOSS;
}

NetDeviceContainer
Link(Ptr<Node> a, Ptr<Node> b, double mbps, double ms, int queue, Ipv4AddressHelper& addresses)
{
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue(Megabits(mbps)));
    wire.SetChannelAttribute("Delay", StringValue(Milliseconds(ms)));
    wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(queue) + "p"));
    NetDeviceContainer devices = wire.Install(a, b);
    addresses.Assign(devices);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(devices);
    return devices;
}
} // namespace

int
main(int argc, char** argv)
{
    Arguments arguments = {{"mbps", 25}, {"rtt_ms", 25}, {"queue", 52}, {"loss", 0}, {"seed", 1}, {"warmup", 5}, {"seconds", 305}};
    const std::string name = argc > 1 ? argv[1] : "NewReno";
    ReadArguments(argc - 1, argv + 1, arguments);
    const bool plus = name == "WestwoodPlus";
    TypeId variant;
    if (!TypeId::LookupByNameFailSafe("ns3::Tcp" + (plus ? "Westwood" : name), &variant))
    {
        std::cerr << "unknown congestion control: " << name << std::endl;
        return 2;
    }
    Config::SetDefault("ns3::TcpWestwood::ProtocolType", EnumValue(plus ? TcpWestwood::WESTWOODPLUS : TcpWestwood::WESTWOOD));
    // More than the path and its queue ever hold.
    ConfigureTcp(1024, variant);
    RngSeedManager::SetSeed(arguments["seed"]);

    NodeContainer nodes;
    nodes.Create(4);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const double mbps = arguments["mbps"];
    const double side = arguments["rtt_ms"] / 20;
    const NetDeviceContainer near = Link(nodes.Get(0), nodes.Get(1), 10 * mbps, side, 10000, addresses);
    Link(nodes.Get(1), nodes.Get(2), mbps, arguments["rtt_ms"] / 2 - 2 * side, arguments["queue"], addresses);
    Link(nodes.Get(2), nodes.Get(3), 10 * mbps, side, 10000, addresses);
    Ptr<DataErrors> errors = CreateObject<DataErrors>();
    errors->rate = arguments["loss"];
    near.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    Ptr<PacketSink> sink = DynamicCast<PacketSink>(sinks.Install(nodes.Get(3)).Get(0));
    const Ipv4Address far = nodes.Get(3)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far, 5000));
    source.SetAttribute("SendSize", UintegerValue(1460 * 100));
    source.Install(nodes.Get(0)).Start(Seconds(0));
    Simulator::Schedule(NanoSeconds(1), [] {
        Config::ConnectWithoutContext("/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/CongState", MakeCallback(&OnState));
    });
    uint64_t before = 0;
    Simulator::Schedule(Seconds(arguments["warmup"]), [&] { before = sink->GetTotalRx(); });
    Simulator::Stop(Seconds(arguments["seconds"]));
    Simulator::Run();
    const double seconds = arguments["seconds"] - arguments["warmup"];
    std::printf("%.4f %lu\n", (sink->GetTotalRx() - before) * 8 / seconds / 1e6, static_cast<unsigned long>(g_timeouts));
    Simulator::Destroy();
    return 0;
}

// Long TCP flows over a dumbbell in ns-3, with the arguments of `cargo run -p mendpath-tools -- dumbbell`; tcp=1 is DCTCP.
// Prints segments delivered after the warm-up, in all and of each flow, what the senders sent again, timeouts, the mean queue.
#include "network.h"

#include "ns3/applications-module.h"

using namespace ns3;

namespace
{
uint64_t g_again = 0;
uint64_t g_timeouts = 0;

// A segment below the highest one sent is sent again.
void
OnSent(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase> socket)
{
    static std::map<const TcpSocketBase*, SequenceNumber32> highest;
    auto [entry, first] = highest.emplace(PeekPointer(socket), header.GetSequenceNumber());
    if (packet->GetSize() > 0)
    {
        g_again += !first && header.GetSequenceNumber() <= entry->second;
        entry->second = std::max(entry->second, header.GetSequenceNumber());
    }
}

void
OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    g_timeouts += now == TcpSocketState::CA_LOSS;
}

void
Watch(uint32_t node)
{
    const std::string socket = "/NodeList/" + std::to_string(node) + "/$ns3::TcpL4Protocol/SocketList/0/";
    Config::ConnectWithoutContext(socket + "Tx", MakeCallback(&OnSent));
    Config::ConnectWithoutContext(socket + "CongState", MakeCallback(&OnState));
}
} // namespace

int
main(int argc, char** argv)
{
    Arguments arguments = {{"flows", 10}, {"mbps", 1000}, {"rtt_ms", 0.1}, {"queue", 100}, {"loss", 0}, {"seed", 1},
                           {"warmup", 0}, {"seconds", 1}, {"window", 65536}, {"tcp", 0}, {"mark", 0}, {"watch", 1}};
    ReadArguments(argc, argv, arguments);
    const int flows = arguments["flows"];
    const bool dctcp = arguments["tcp"] == 1;
    ConfigureTcp(arguments["window"], dctcp ? TcpDctcp::GetTypeId() : TcpNewReno::GetTypeId());
    RngSeedManager::SetSeed(arguments["seed"]);

    Ptr<Node> left = CreateObject<Node>();
    Ptr<Node> right = CreateObject<Node>();
    NodeContainer ends;
    ends.Create(2 * flows);
    InternetStackHelper internet;
    internet.Install(left);
    internet.Install(right);
    internet.Install(ends);

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    TrafficControlHelper control;
    QueueDiscContainer marking;
    const auto link = [&](Ptr<Node> a, Ptr<Node> b, double mbps, double ms, int queue, bool marks) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue(Megabits(mbps)));
        wire.SetChannelAttribute("Delay", StringValue(Milliseconds(ms)));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(marks ? 1 : queue) + "p"));
        NetDeviceContainer devices = wire.Install(a, b);
        if (marks)
        {
            // A threshold on the instantaneous queue, as in RFC 8257 section 5.
            TrafficControlHelper red;
            red.SetRootQueueDisc("ns3::RedQueueDisc", "MinTh", DoubleValue(arguments["mark"]), "MaxTh",
                                 DoubleValue(arguments["mark"]), "QW", DoubleValue(1), "UseEcn", BooleanValue(true),
                                 "UseHardDrop", BooleanValue(false), "Gentle", BooleanValue(false), "MaxSize",
                                 StringValue(std::to_string(queue) + "p"), "MeanPktSize", UintegerValue(1502),
                                 "LinkBandwidth", StringValue(Megabits(mbps)));
            marking = red.Install(devices);
        }
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        if (!marks)
        {
            control.Uninstall(devices);
        }
        addresses.NewNetwork();
        return std::make_pair(devices, interfaces);
    };
    const double mbps = arguments["mbps"];
    const double side = arguments["rtt_ms"] / 20;
    const auto middle =
        link(left, right, mbps, arguments["rtt_ms"] / 2 - 2 * side, arguments["queue"], arguments["mark"] > 0).first;
    if (arguments["loss"] > 0)
    {
        Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
        errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(arguments["loss"]);
        middle.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    }
    ApplicationContainer sinks;
    for (int i = 0; i < flows; ++i)
    {
        link(ends.Get(i), left, 10 * mbps, side, 10000, false);
        const auto far = link(ends.Get(flows + i), right, 10 * mbps, side, 10000, false).second;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
        sinks.Add(sink.Install(ends.Get(flows + i)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(0), 5000));
        source.SetAttribute("SendSize", UintegerValue(1460 * 100));
        source.Install(ends.Get(i)).Start(MicroSeconds(10 * i));
        if (arguments["watch"] > 0)
        {
            Simulator::Schedule(MicroSeconds(10 * i) + NanoSeconds(1), &Watch, ends.Get(i)->GetId());
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const auto delivered = [&](uint32_t i) { return DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx() / 1460; };
    std::vector<uint64_t> before(flows, 0);
    Simulator::Schedule(Seconds(arguments["warmup"]), [&] {
        for (int i = 0; i < flows; ++i)
        {
            before[i] = delivered(i);
        }
    });
    uint64_t sum = 0;
    uint64_t looks = 0;
    Ptr<Queue<Packet>> device = DynamicCast<PointToPointNetDevice>(middle.Get(0))->GetQueue();
    std::function<void()> look = [&] {
        sum += device->GetNPackets() + (marking.GetN() > 0 ? marking.Get(0)->GetNPackets() : 0);
        ++looks;
        Simulator::Schedule(NanoSeconds(37003), look);
    };
    if (arguments["watch"] > 0)
    {
        Simulator::Schedule(Seconds(arguments["warmup"]), look);
    }
    Simulator::Stop(Seconds(arguments["seconds"]));
    Simulator::Run();
    uint64_t all = 0;
    std::string shares;
    for (int i = 0; i < flows; ++i)
    {
        const uint64_t each = delivered(i) - before[i];
        all += each;
        shares += (i > 0 ? "," : "") + std::to_string(each);
    }
    std::cout << "{\"delivered\":" << all << ",\"shares\":[" << shares << "],\"retransmissions\":" << g_again
              << ",\"timeouts\":" << g_timeouts << ",\"queue\":" << double(sum) / std::max<uint64_t>(looks, 1) << "}"
              << std::endl;
    Simulator::Destroy();
    return 0;
}

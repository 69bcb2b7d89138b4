// The flows of a file over a leaf-spine fabric in ns-3: four leaves of 16 hosts, four spines, as `cargo run -p mendpath-tools -- simulator-speed leaf-spine`.
// A line of the file is a flow: start in ns, sender, receiver, bytes. Prints flows that arrived, the packet-hops that carried them, the mean completion time.
#include "network.h"

#include "ns3/applications-module.h"

#include <fstream>
#include <vector>

using namespace ns3;

namespace
{
constexpr uint32_t LEAVES = 4;
constexpr uint32_t SPINES = 4;
constexpr uint32_t HOSTS = 64;
constexpr uint32_t RACK = HOSTS / LEAVES;

struct Flow
{
    uint64_t start;
    uint32_t from;
    uint32_t to;
    uint64_t bytes;
    uint64_t arrived = 0;
};

std::vector<Flow> g_flows;
size_t g_left = 0;
double g_sum = 0;

void
OnArrival(Flow* flow, Ptr<const Packet> packet, const Address&)
{
    flow->arrived += packet->GetSize();
    if (flow->arrived == flow->bytes)
    {
        g_sum += Simulator::Now().GetNanoSeconds() - double(flow->start);
        if (--g_left == 0)
        {
            Simulator::Stop();
        }
    }
}

Ptr<Ipv4StaticRouting>
Routing(Ptr<Node> node)
{
    Ipv4StaticRoutingHelper helper;
    return helper.GetStaticRouting(node->GetObject<Ipv4>());
}
} // namespace

int
main(int argc, char** argv)
{
    std::ifstream file(argc == 2 ? argv[1] : "");
    for (Flow flow; file >> flow.start >> flow.from >> flow.to >> flow.bytes;)
    {
        g_flows.push_back(flow);
    }
    if (g_flows.empty())
    {
        std::cerr << "usage: leaf_spine FILE, with a flow on each line" << std::endl;
        return 2;
    }
    g_left = g_flows.size();
    ConfigureTcp(128, TcpNewReno::GetTypeId());
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(5)));

    NodeContainer hosts;
    NodeContainer switches; // leaves, then spines
    hosts.Create(HOSTS);
    switches.Create(LEAVES + SPINES);
    Ipv4StaticRoutingHelper routing;
    InternetStackHelper internet;
    internet.SetRoutingHelper(routing); // without the global one, which nobody fills
    internet.Install(hosts);
    internet.Install(switches);

    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    TrafficControlHelper control;
    const auto link = [&](Ptr<Node> a, Ptr<Node> b, double mbps, uint32_t queues_a, uint32_t queues_b) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue(Megabits(mbps)));
        wire.SetChannelAttribute("Delay", StringValue("5us"));
        NetDeviceContainer devices = wire.Install(a, b);
        const uint32_t queues[] = {queues_a, queues_b};
        for (uint32_t i = 0; i < 2; ++i)
        {
            DynamicCast<PointToPointNetDevice>(devices.Get(i))
                ->GetQueue()
                ->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, queues[i]));
        }
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        control.Uninstall(devices);
        addresses.NewNetwork();
        return interfaces;
    };

    std::vector<Ipv4Address> address;
    for (uint32_t host = 0; host < HOSTS; ++host)
    {
        const auto ends = link(hosts.Get(host), switches.Get(host / RACK), 10000, 10000, 250);
        address.push_back(ends.GetAddress(0));
        Routing(hosts.Get(host))->SetDefaultRoute(ends.GetAddress(1), ends.Get(0).second);
    }
    for (uint32_t leaf = 0; leaf < LEAVES; ++leaf)
    {
        for (uint32_t spine = 0; spine < SPINES; ++spine)
        {
            const auto ends = link(switches.Get(leaf), switches.Get(LEAVES + spine), 40000, 250, 250);
            for (uint32_t host = 0; host < HOSTS; ++host)
            {
                // Every receiver has a spine of its own, as in ns-2; ours hashes flows, which neither of them does.
                if (host / RACK == leaf)
                {
                    Routing(switches.Get(LEAVES + spine))
                        ->AddHostRouteTo(address[host], ends.GetAddress(0), ends.Get(1).second);
                }
                else if (host % SPINES == spine)
                {
                    Routing(switches.Get(leaf))->AddHostRouteTo(address[host], ends.GetAddress(1), ends.Get(0).second);
                }
            }
        }
    }

    uint64_t hops = 0;
    for (size_t i = 0; i < g_flows.size(); ++i)
    {
        Flow& flow = g_flows[i];
        const uint16_t port = 5000 + i;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer sinks = sink.Install(hosts.Get(flow.to));
        sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnArrival, &flow));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address[flow.to], port));
        source.SetAttribute("SendSize", UintegerValue(1460 * 100));
        source.SetAttribute("MaxBytes", UintegerValue(flow.bytes));
        source.Install(hosts.Get(flow.from)).Start(NanoSeconds(flow.start));
        // Every segment, and its acknowledgement.
        hops += 2 * ((flow.bytes + 1459) / 1460) * (flow.from / RACK == flow.to / RACK ? 2 : 4);
    }
    Simulator::Stop(Seconds(100));
    Simulator::Run();
    std::cout << "{\"flows\":" << g_flows.size() - g_left << ",\"hops\":" << hops
              << ",\"mean_ms\":" << g_sum / std::max<size_t>(g_flows.size() - g_left, 1) / 1e6 << "}" << std::endl;
    Simulator::Destroy();
    return g_left == 0 ? 0 : 1;
}

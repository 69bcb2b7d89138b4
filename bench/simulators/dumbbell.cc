// The dumbbell of docs/simulator.md in ns-3: TCP NewReno with SACK, bulk senders.
// dumbbell FLOWS SECONDS; prints segments delivered.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <iostream>

using namespace ns3;

int
main(int argc, char** argv)
{
    const int flows = argc > 1 ? std::atoi(argv[1]) : 10;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 1.0;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 26));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

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
    const auto link = [&](Ptr<Node> a, Ptr<Node> b, const char* rate, const char* delay, const char* queue) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue(rate));
        wire.SetChannelAttribute("Delay", StringValue(delay));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(queue));
        NetDeviceContainer devices = wire.Install(a, b);
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        control.Uninstall(devices);
        addresses.NewNetwork();
        return interfaces;
    };
    link(left, right, "1Gbps", "40us", "100p");
    ApplicationContainer sinks;
    for (int i = 0; i < flows; ++i)
    {
        link(ends.Get(i), left, "10Gbps", "5us", "10000p");
        const auto far = link(ends.Get(flows + i), right, "10Gbps", "5us", "10000p");
        const InetSocketAddress target(far.GetAddress(0), 5000);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
        sinks.Add(sink.Install(ends.Get(flows + i)));
        BulkSendHelper source("ns3::TcpSocketFactory", target);
        source.SetAttribute("SendSize", UintegerValue(1460 * 100));
        source.Install(ends.Get(i)).Start(MicroSeconds(10 * i));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); ++i)
    {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::cout << "delivered " << bytes / 1460 << std::endl;
    Simulator::Destroy();
    return 0;
}

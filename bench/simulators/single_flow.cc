// One TCP flow in ns-3 over 12 Mbit/s and 10 ms each way; the data packets with the given indices (from 0) are lost.
// single_flow SEGMENTS INDEX...; prints, in ms, the time from the end of the handshake until the last acknowledgement, and the
// timeouts, and the slow start threshold in segments.
#include "network.h"

#include "ns3/applications-module.h"

#include <set>

using namespace ns3;

namespace
{
// Loses the data packets with the given indices; packets without data are not counted.
class ListErrors : public ErrorModel
{
  public:
    std::set<uint64_t> lost;

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() > 100 && lost.count(m_index++) > 0;
    }

    void DoReset() override
    {
        m_index = 0;
    }

    uint64_t m_index = 0;
};

Time g_open;
Time g_last;
int g_timeouts = 0;
double g_threshold = 0;
SequenceNumber32 g_end;

void
OnReceived(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    if (header.GetFlags() & TcpHeader::SYN)
    {
        g_open = Simulator::Now();
    }
    else if (header.GetAckNumber() >= g_end && g_last.IsZero())
    {
        g_last = Simulator::Now();
        Simulator::Stop();
    }
}

void
OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
{
    g_timeouts += now == TcpSocketState::CA_LOSS;
}

void
OnThreshold(uint32_t, uint32_t now)
{
    g_threshold = now / 1460.0;
}
} // namespace

int
main(int argc, char** argv)
{
    const uint64_t segments = argc > 1 ? std::atoi(argv[1]) : 10;
    ConfigureTcp(65536, TcpNewReno::GetTypeId());
    NodeContainer ends;
    ends.Create(2);
    InternetStackHelper internet;
    internet.Install(ends);
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("12Mbps"));
    wire.SetChannelAttribute("Delay", StringValue("10ms"));
    wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));
    NetDeviceContainer devices = wire.Install(ends);
    devices.Get(1)->SetAttribute("DataRate", StringValue("12Gbps"));
    Ptr<ListErrors> errors = CreateObject<ListErrors>();
    for (int i = 2; i < argc; ++i)
    {
        errors->lost.insert(std::atoi(argv[i]));
    }
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
    sink.Install(ends.Get(1));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 5000));
    source.SetAttribute("MaxBytes", UintegerValue(segments * 1460));
    source.SetAttribute("SendSize", UintegerValue(1460));
    source.Install(ends.Get(0)).Start(Seconds(0));
    g_end = SequenceNumber32(1 + segments * 1460);
    Simulator::Schedule(NanoSeconds(1), [] {
        const std::string socket = "/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/";
        Config::ConnectWithoutContext(socket + "Rx", MakeCallback(&OnReceived));
        Config::ConnectWithoutContext(socket + "CongState", MakeCallback(&OnState));
        Config::ConnectWithoutContext(socket + "SlowStartThreshold", MakeCallback(&OnThreshold));
    });
    Simulator::Stop(Seconds(60));
    Simulator::Run();
    if (g_last.IsZero())
    {
        std::cout << "never " << g_timeouts << std::endl;
    }
    else
    {
        std::printf("%.6f %d %g\n", (g_last - g_open).GetSeconds() * 1000, g_timeouts, g_threshold);
    }
    Simulator::Destroy();
    return 0;
}

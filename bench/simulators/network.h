// What the programs beside it share: arguments as key=value, and TCP as this project's simulator has it.
#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

using Arguments = std::map<std::string, double>;

// Overwrites `arguments`, which holds the defaults, by the command line's; a key without a default is refused.
inline void
ReadArguments(int argc, char** argv, Arguments& arguments)
{
    for (int i = 1; i < argc; ++i)
    {
        const std::string word = argv[i];
        const auto sign = word.find('=');
        const auto found = arguments.find(word.substr(0, sign));
        if (sign == std::string::npos || found == arguments.end())
        {
            std::cerr << "unknown argument: " << word << std::endl;
            std::exit(2);
        }
        found->second = std::strtod(word.c_str() + sign + 1, nullptr);
    }
}

// NewReno with SACK, a window of `window` segments, clocks of a microsecond, every segment acknowledged.
// Without proportional rate reduction, which the models of the papers do not have, and without timestamps.
inline void
ConfigureTcp(uint32_t window, ns3::TypeId control)
{
    using namespace ns3;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(control));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1460 * window));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1460 * window));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
}

inline std::string
Milliseconds(double ms)
{
    return std::to_string(static_cast<uint64_t>(ms * 1e6 + 0.5)) + "ns";
}

inline std::string
Megabits(double mbps)
{
    return std::to_string(static_cast<uint64_t>(mbps * 1e6 + 0.5)) + "bps";
}

//! Programs for work on Mendpath itself, as subcommands of one: random scenarios, endurance,
//! floods, and the measurements that decisions and documents quote.
//!
//! A tool is a module with its `Arguments`, whose documentation is its help, and `run`.

mod account;
mod analysis_speed;
#[cfg(test)]
mod arguments;
mod connections;
mod console;
mod controllers;
mod flood;
mod fuzz_seeds;
mod house;
#[cfg(target_os = "linux")]
mod proxy_speed;
mod relay;
mod simulator;
mod soak;
#[cfg(target_os = "linux")]
mod trace_truth;
mod transport;

// As the tests of the crate call it that `controllers` has its network from.
extern crate congestion as mendpath_congestion;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controllers::{auto_evidence, ctcp_jitter};
use simulator::{
    critical_path, dumbbell, event_queues, htpc, lookahead, models, single_flow, speed, timeouts,
};
use transport::{
    beside, call, connect, fabric, fct, goodput, long_paths, never_worse, packet_cost, scenario,
    shared_bottleneck,
};

/// As in the binary `mendpath`, whose ends `soak` plays.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Programs for work on Mendpath itself: random scenarios, endurance, floods, and measurements.
///
/// What is measured needs a build with --release.
#[derive(Parser)]
#[command(name = "mendpath-tools", version)]
struct Command {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    // The transport in virtual time.
    Scenario(scenario::Arguments),
    Beside(beside::Arguments),
    Call(call::Arguments),
    Connect(connect::Arguments),
    Fct(fct::Arguments),
    Goodput(goodput::Arguments),
    LongPaths(long_paths::Arguments),
    NeverWorse(never_worse::Arguments),
    PacketCost(packet_cost::Arguments),
    Fabric(fabric::Arguments),
    SharedBottleneck(shared_bottleneck::Arguments),
    // The proxy pair in real time.
    Soak(Box<soak::Args>),
    Flood(Box<flood::Args>),
    Relay(relay::Args),
    #[cfg(target_os = "linux")]
    ProxySpeed(proxy_speed::Args),
    // Connections in real time.
    Connections(connections::Args),
    // Congestion controllers.
    AutoEvidence(auto_evidence::Arguments),
    /// What jitter, loss and route changes do to the controller `ctcp`: the figures of
    /// docs/decisions/0008.
    CtcpJitter,
    // The simulated TCP and its fabric.
    SimulatorSpeed(speed::Arguments),
    /// Event queues beside each other: the figures of docs/decisions/0009.
    EventQueues,
    /// Whether a large run could use several cores: the figures of docs/decisions/0029.
    Lookahead,
    Dumbbell(dumbbell::Arguments),
    SingleFlow(single_flow::Arguments),
    Htpc(htpc::Arguments),
    CriticalPath(critical_path::Arguments),
    Timeouts(timeouts::Arguments),
    /// The papers' curves that are worked out and not simulated: HTPC's Fig. 5, CTCP's Fig. 3,
    /// SLP's section II-A.
    Models,
    // The rest.
    AnalysisSpeed(analysis_speed::Arguments),
    #[cfg(target_os = "linux")]
    TraceTruth(trace_truth::Arguments),
    FuzzSeeds(fuzz_seeds::Arguments),
    House(house::Arguments),
}

fn main() -> ExitCode {
    console::end_with_the_reader();
    match Command::parse().tool {
        Tool::Scenario(arguments) => return scenario::run(arguments),
        Tool::Beside(arguments) => beside::run(&arguments),
        Tool::Call(arguments) => call::run(&arguments),
        Tool::Connect(arguments) => connect::run(&arguments),
        Tool::Fct(arguments) => return fct::run(&arguments),
        Tool::Goodput(arguments) => goodput::run(&arguments),
        Tool::LongPaths(arguments) => long_paths::run(&arguments),
        Tool::NeverWorse(arguments) => never_worse::run(&arguments),
        Tool::PacketCost(arguments) => return packet_cost::run(&arguments),
        Tool::Fabric(arguments) => fabric::run(&arguments),
        Tool::SharedBottleneck(arguments) => shared_bottleneck::run(&arguments),
        Tool::Soak(args) => return soak::run(*args),
        Tool::Flood(args) => return flood::run(*args),
        Tool::Connections(args) => return connections::run(&args),
        Tool::Relay(args) => return relay::run(&args),
        #[cfg(target_os = "linux")]
        Tool::ProxySpeed(args) => return proxy_speed::run(&args),
        Tool::AutoEvidence(arguments) => auto_evidence::run(&arguments),
        Tool::CtcpJitter => ctcp_jitter::run(),
        Tool::SimulatorSpeed(arguments) => return speed::run(&arguments),
        Tool::EventQueues => event_queues::run(),
        Tool::Lookahead => lookahead::run(),
        Tool::Dumbbell(arguments) => return dumbbell::run(&arguments),
        Tool::SingleFlow(arguments) => return single_flow::run(&arguments),
        Tool::Htpc(arguments) => htpc::run(&arguments),
        Tool::CriticalPath(arguments) => critical_path::run(&arguments),
        Tool::Timeouts(arguments) => timeouts::run(&arguments),
        Tool::Models => models::run(),
        Tool::AnalysisSpeed(arguments) => analysis_speed::run(&arguments),
        #[cfg(target_os = "linux")]
        Tool::TraceTruth(arguments) => return trace_truth::run(&arguments),
        Tool::FuzzSeeds(arguments) => return fuzz_seeds::run(&arguments),
        Tool::House(arguments) => return house::run(&arguments),
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_command_line_is_sound() {
        Command::command().debug_assert();
    }
}

//! What an idle connection costs, counted by the allocator: nothing hides from it.

use mendpath_tcpsim::{Profile, Sim, Tcp};
use netsim::fabric::{Options, topology::Dumbbell};
use peak_alloc::PeakAlloc;
use units::{BitRate, Duration};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[test]
fn an_idle_connection_takes_less_than_a_kibibyte() {
    const CONNECTIONS: usize = 4_096;
    let topology = Dumbbell::new(1, BitRate::from_mbps(1_000), Duration::from_micros(100), 100).build();
    let mut sim = Sim::new(&topology, &Options::default()).unwrap();
    let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    // One after the other, so that the network itself keeps no more than for one.
    let second = Duration::from_secs(1);
    let carry = |sim: &mut Sim| {
        let (connection, now) = (sim.connect(tcp, 0, 1).unwrap(), sim.now());
        sim.write(connection, 50_000, now).unwrap();
        sim.run(now + second).unwrap();
    };
    carry(&mut sim);
    let before = MEMORY.current_usage();
    (0..CONNECTIONS).for_each(|_| carry(&mut sim));
    let each = (MEMORY.current_usage() - before) / CONNECTIONS;
    assert!(sim.is_done() && sim.connection_memory().0 == CONNECTIONS + 1);
    // The connection, its place in the tables, its flow's record.
    assert!((300..1_024).contains(&each), "{each} bytes");
    let (count, counted) = sim.connection_memory();
    assert!(counted / count <= each, "the connections' own account: {} bytes of {each}", counted / count);
}

//! Timelines of single flows.

use super::Sim;
use crate::{record::FlowId, timeline::Timelines};

impl Sim {
    /// Writes down from now on what happens to `flows`. A second call takes the place of the first.
    ///
    /// ```
    /// use netsim::fabric::{Options, topology::Dumbbell};
    /// use mendpath_tcpsim::{Profile, Sim, Tcp, timeline::What};
    /// use units::{BitRate, Duration, Instant};
    ///
    /// let topology = Dumbbell::new(1, BitRate::from_mbps(100), Duration::from_millis(10), 100).build();
    /// let mut sim = Sim::new(&topology, &Options::default()).unwrap();
    /// let tcp = sim.add_profile(Profile::tcp(Tcp::default()));
    /// let flow = sim.add_flow(tcp, 0, 1, 1_000, Instant::ORIGIN).unwrap();
    /// let timelines = sim.watch(&[flow]);
    /// sim.run_until_done(Instant::MAX).unwrap();
    /// let events = timelines.of(flow).events;
    /// assert_eq!(events[0].what, What::Written { bytes: 1_000 });
    /// assert_eq!(events.last().unwrap().what, What::Finished);
    /// ```
    pub fn watch(&mut self, flows: &[FlowId]) -> Timelines {
        let timelines = Timelines::new(flows);
        let own = timelines.clone();
        self.fabric.watch(Box::new(move |at, sight, packet| own.log().on_packet_event(at, sight, packet)));
        self.world.timelines = Some(timelines.clone());
        timelines
    }
}

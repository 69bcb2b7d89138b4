//! NAT rebinding, migration and forged sources (RFC 9000 section 9).

use mendpath_proto::{NetworkPath, PathError, PathId, TransportConfig};
use units::Duration;

use super::net::{MS, Net, addr, home, server_addr};

const LIMIT: Duration = Duration::from_secs(30);

fn single_path() -> TransportConfig {
    TransportConfig { max_paths: 1, ..TransportConfig::default() }
}

fn loses_two_percent(n: u64) -> bool {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 5
}

#[test]
fn a_nat_may_forget_its_binding_in_the_middle_of_a_transfer() {
    for (transport, from_server) in
        [(single_path(), true), (single_path(), false), (TransportConfig::default(), true)]
    {
        let mut net = Net::new(transport);
        net.lose = Box::new(loses_two_percent);
        let mut rebound = 0;
        net.transfer(from_server, 2_000_000, LIMIT, |net, received| {
            let due = [100_000, 700_000, 1_300_000].into_iter().filter(|at| *at < received).count();
            if rebound < due {
                rebound = due;
                net.nat.insert(home(), addr(2, 2_000 + due as u16));
            }
        });
        net.run(Duration::from_secs(5));
        assert_eq!(net.server_path(PathId(0)).network.remote, addr(2, 2_003));
        assert_eq!(net.client.moves(), 0, "the client does not notice");
        assert!(net.server.moves() >= 3);
    }
}

#[test]
fn a_new_port_keeps_the_window_and_a_new_host_does_not() {
    for (to, keeps) in [(addr(2, 9), true), (addr(77, 9), false)] {
        let mut net = Net::new(single_path());
        net.transfer(true, 2_000_000, LIMIT, |_, _| {});
        let before = net.server_path(PathId(0)).window;
        let initial = 10 * 1_452;
        assert!(before > 4 * initial);
        net.nat.insert(home(), to);
        net.transfer(false, 100, LIMIT, |_, _| {});
        net.run(MS * 100);
        let after = net.server_path(PathId(0));
        assert_eq!(after.network.remote, to);
        assert_eq!(after.window > 4 * initial, keeps, "{after:?}");
    }
}

#[test]
fn one_of_two_paths_is_rebound() {
    let mut net = Net::new(TransportConfig::default());
    net.open_path(addr(3, 1_000));
    net.lose = Box::new(loses_two_percent);
    net.transfer(true, 3_000_000, LIMIT, |net, received| {
        if received > 500_000 {
            net.nat.insert(addr(3, 1_000), addr(3, 5_555));
        }
    });
    assert_eq!(net.server_path(PathId(1)).network.remote, addr(3, 5_555));
    assert_eq!(net.server_path(PathId(0)).network.remote, home());
}

#[test]
fn a_client_moves_to_another_address() {
    for transport in [single_path(), TransportConfig::default()] {
        let mut net = Net::new(transport);
        let mut hops = 0;
        net.transfer(true, 3_000_000, LIMIT, |net, received| {
            if received > 400_000 * (hops + 1) && hops < 4 {
                hops += 1;
                let (now, old) = (net.now, net.client().paths()[0].network.local);
                net.dead.push(old);
                net.client().migrate(now, PathId(0), addr(3, 6_000 + hops as u16)).unwrap();
            }
        });
        assert_eq!(hops, 4);
        net.run(Duration::from_secs(8));
        assert_eq!(net.server_path(PathId(0)).network.remote, addr(3, 6_004));
        // Every address had connection ids of its own, and spent ones were replaced.
        net.transfer(false, 1_000_000, LIMIT, |_, _| {});
    }
}

/// An attacker beside the route copies every tenth packet, and its copies arrive first (RFC 9000
/// section 9.3.3).
#[test]
fn forged_sources_neither_steal_nor_kill_the_connection() {
    for (from_server, victim) in [(true, addr(66, 1)), (false, addr(66, 1)), (true, addr(2, 7))] {
        let mut net = Net::new(single_path());
        net.copies = Box::new(move |to_server, n, _, _| (to_server && n % 10 == 0).then_some(victim));
        net.transfer(from_server, 1_000_000, LIMIT, |net, _| {
            let (received, sent) = net.traffic.get(&victim).copied().unwrap_or_default();
            assert!(sent <= 3 * received, "{sent} bytes to who sent {received}");
        });
        net.copies = Box::new(|_, _, _, _| None);
        assert!(net.server.moves() > 0, "the attack had no effect at all");
        net.run(Duration::from_secs(10));
        assert_eq!(net.server_path(PathId(0)).network.remote, home());
        net.transfer(from_server, 100_000, LIMIT, |_, _| {});
    }
}

/// The last packet before silence is forged: nobody speaks up from the true address, yet the path
/// returns.
#[test]
fn a_path_returns_when_the_new_address_does_not_answer() {
    let mut net = Net::new(single_path());
    let mut last = None;
    let victim = addr(66, 1);
    net.copies =
        Box::new(move |to_server, _, _, _| (to_server && last.replace(()).is_none()).then_some(victim));
    net.dead.push(home());
    let now = net.now;
    let id = net.client().open(mendpath_proto::Dir::Uni).unwrap();
    net.client().write(id, b"copied, and lost itself").unwrap();
    net.run(MS * 15);
    assert_eq!(net.now, now + MS * 15);
    net.dead.clear();
    net.lose = Box::new(|_| true);
    assert_eq!(net.server_path(PathId(0)).network.remote, victim);
    net.run(Duration::from_secs(6));
    assert_eq!(net.server_path(PathId(0)).network.remote, home());
    let (received, sent) = net.traffic[&victim];
    assert!(sent > 0 && sent <= 3 * received);
}

#[test]
fn servers_may_forbid_migration() {
    let server = TransportConfig { migration: false, ..TransportConfig::default() };
    let mut net = Net::with(TransportConfig::default(), server);
    let now = net.now;
    assert_eq!(net.client().migrate(now, PathId(0), addr(3, 1)), Err(PathError::MigrationDisabled));
    let other = NetworkPath { local: addr(3, 1), remote: server_addr() };
    assert_eq!(net.client().open_path(now, other), Err(PathError::MigrationDisabled));
    // A rebinding NAT does not ask. The server ignores what comes from elsewhere.
    net.nat.insert(home(), addr(2, 9));
    let id = net.client().open(mendpath_proto::Dir::Uni).unwrap();
    net.client().write(id, b"from elsewhere").unwrap();
    net.run(Duration::from_secs(2));
    assert_eq!(net.server_path(PathId(0)).network.remote, home());
    assert!(net.server().accept(mendpath_proto::Dir::Uni).is_none());
}

#[test]
fn clients_ignore_strange_servers_and_servers_do_not_migrate() {
    let mut net = Net::new(single_path());
    let now = net.now;
    assert_eq!(net.server().migrate(now, PathId(0), addr(9, 9)), Err(PathError::NotClient));
    let strange = addr(99, 443);
    let mut caught = Vec::new();
    let id = net.server().open(mendpath_proto::Dir::Uni).unwrap();
    net.server().write(id, b"hello").unwrap();
    let mut out = Vec::new();
    while let Some(transmit) = net.server().poll_transmit(now, 1, &mut out) {
        caught.push((transmit, core::mem::take(&mut out)));
    }
    for (_, data) in &caught {
        net.inject(false, NetworkPath { local: home(), remote: strange }, data.clone());
    }
    assert!(net.client().accept(mendpath_proto::Dir::Uni).is_none(), "the sender's address was never used");
    for (_, data) in caught {
        net.inject(false, NetworkPath { local: home(), remote: server_addr() }, data);
    }
    assert!(net.client().accept(mendpath_proto::Dir::Uni).is_some());
}

/// A translator forgets its binding, and what was on its way is lost with it: the server's probes
/// go to where nobody is, and a client that only receives has nothing in flight. It has to notice
/// the silence.
#[test]
fn a_client_that_waits_for_data_notices_that_it_was_moved() {
    for transport in [single_path(), TransportConfig::default()] {
        let mut net = Net::new(transport);
        let mut moved = None;
        let took = net.transfer(true, 2_000_000, LIMIT, |net, received| {
            if moved.is_none() && received > 700_000 {
                moved = Some(net.now);
                net.forget_everything_in_flight();
                net.nat.insert(home(), addr(2, 2_000));
            }
        });
        assert!(moved.is_some() && took < Duration::from_secs(4), "{took}");
        assert_eq!(net.server_path(PathId(0)).network.remote, addr(2, 2_000));
    }
}

/// The same, and the network goes on losing every fourth packet. No seed may end in the idle
/// timeout.
#[test]
fn a_client_that_is_moved_by_a_lossy_network_comes_back() {
    let mut moved = 0;
    for seed in 1..=50_u64 {
        let mut net = Net::new(single_path());
        let salt = seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
        net.lose = Box::new(move |n| (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0);
        let mut here = false;
        let took = net.transfer(true, 600_000, LIMIT * 2, |net, received| {
            if !here && received > 50_000 {
                here = true;
                net.forget_everything_in_flight();
                net.nat.insert(home(), addr(2, 2_000));
            }
        });
        moved += usize::from(here);
        assert!(took < LIMIT, "seed {seed}: {took}");
    }
    assert!(moved > 40, "{moved}");
}

/// The same with nothing but datagrams, as somebody who watches a live stream, or downloads through a
/// tunnel of packets: no stream says that more is to come.
#[test]
fn a_client_that_gets_datagrams_notices_that_it_was_moved() {
    for transport in [single_path(), TransportConfig::default()] {
        let mut net = Net::new(transport);
        assert!(watch(&mut net, 50) >= 49);
        net.forget_everything_in_flight();
        net.nat.insert(home(), addr(2, 2_000));
        // A second for noticing and for the detour's end, of the three.
        assert!(watch(&mut net, 150) > 100);
        assert_eq!(net.server_path(PathId(0)).network.remote, addr(2, 2_000));
    }
}

/// The server sends so many datagrams, 20 ms apart; returns how many arrive.
fn watch(net: &mut Net, count: usize) -> usize {
    let mut arrived = 0;
    for n in 0..count {
        net.server().send_datagram(vec![n as u8; 800].into()).unwrap();
        net.run(MS * 20);
        while net.client().receive_datagram().is_some() {
            arrived += 1;
        }
    }
    arrived
}

/// Datagrams that end: a client asks as often as for a stream, a server does not, and both are silent
/// after that. Each question pays a server to which its address is new for three full datagrams.
#[test]
fn datagrams_that_end_are_asked_after_a_few_times_by_the_client_alone() {
    for from_server in [true, false] {
        let transport = TransportConfig { max_idle_timeout: Duration::from_secs(40).into(), ..single_path() };
        let mut net = Net::new(transport);
        // The probes for the path's MTU are over.
        net.run(Duration::from_secs(1));
        let sender = if from_server { net.server() } else { net.client() };
        sender.send_datagram(vec![1; 800].into()).unwrap();
        net.run(MS * 200);
        let sent = |net: &mut Net| {
            let stats = net.client().stats();
            (stats.packets_sent, stats.bytes_sent)
        };
        let before = sent(&mut net);
        net.run(Duration::from_secs(22));
        let after = sent(&mut net);
        let (packets, bytes) = (after.0 - before.0, after.1 - before.1);
        assert_eq!(packets, if from_server { 6 } else { 0 });
        assert!(bytes >= packets * 1_200, "{bytes} bytes in {packets} packets");
        net.run(Duration::from_secs(10));
        assert_eq!(sent(&mut net), after, "silence");
    }
}

/// A stream that stays open while nothing is sent: a few questions, then silence, and the idle
/// timeout comes.
#[test]
fn a_quiet_stream_is_asked_after_a_few_times_and_then_left_alone() {
    let transport = TransportConfig { max_idle_timeout: Duration::from_secs(20).into(), ..single_path() };
    let mut net = Net::new(transport);
    let id = net.client().open(mendpath_proto::Dir::Bi).unwrap();
    net.client().write(id, b"who waits long").unwrap();
    net.run(MS * 200);
    let sent = |net: &mut Net| [net.client().stats().packets_sent, net.server().stats().packets_sent];
    let before = sent(&mut net);
    net.run(Duration::from_secs(15));
    let after = sent(&mut net);
    for (before, after) in before.into_iter().zip(after) {
        assert!((5..=14).contains(&(after - before)), "{before} to {after} packets");
    }
    net.run(Duration::from_secs(10));
    assert_eq!(sent(&mut net), after, "silence");
    net.run(Duration::from_secs(10));
    assert!(net.client().is_drained() && net.server().is_drained(), "the idle timeout still comes");
}

/// The first packets to a new address are lost, and it says nothing more by itself for a while: the
/// limit of three bytes for each of its own must have left something for another challenge (RFC
/// 9000 section 8.2.1).
#[test]
fn a_lost_challenge_leaves_budget_for_another() {
    // A copy of the client's packet would be another packet.
    let mut net = Net::new(TransportConfig { recovery: mendpath_proto::RecoveryKind::None, ..single_path() });
    // What the path carries is found out, and nothing is under way.
    net.run(Duration::from_secs(5));
    let new = addr(2, 2_000);
    net.nat.insert(home(), new);
    let id = net.client().open(mendpath_proto::Dir::Uni).unwrap();
    net.client().write(id, b"a small packet").unwrap();
    // The client's packet arrives; of what the server answers, the first datagram does not, and the
    // client is cut off from then on.
    net.run(MS * 10);
    net.forget_everything_in_flight();
    net.lose_to_server = true;
    let (received, sent) = net.traffic[&new];
    assert!(received < 200, "{received} bytes are no small packet");
    assert!(
        sent > 0 && received * 3 >= sent + 43,
        "{sent} bytes of 3 times {received} are gone with the first datagram"
    );
    net.run(MS * 500);
    let (_, later) = net.traffic[&new];
    assert!(later >= sent + 43 && later <= 3 * received, "{sent}, {later} bytes, limit 3 times {received}");
    net.lose_to_server = false;
    net.run(Duration::from_secs(2));
    assert!(net.server_path(PathId(0)).address_validated);
    assert_eq!(net.server_path(PathId(0)).network.remote, new);
}

/// The addresses that a path left are asked a few times, ever more rarely: no window holds these
/// datagrams back, so that their count has to.
#[test]
fn addresses_that_a_path_left_get_four_challenges() {
    let mut net = Net::new(single_path());
    net.transfer(true, 500_000, LIMIT, |_, _| {});
    net.run(Duration::from_secs(5));
    let before = net.traffic[&home()].1;
    net.nat.insert(home(), addr(2, 2_000));
    let id = net.client().open(mendpath_proto::Dir::Uni).unwrap();
    net.client().write(id, b"from elsewhere").unwrap();
    // The new address falls silent at once, so that the server has to wait for it until the move is
    // settled.
    net.run(MS * 12);
    net.lose_to_server = true;
    net.run(MS * 2_900);
    assert_eq!(net.server_path(PathId(0)).network.remote, addr(2, 2_000));
    let after = net.traffic[&home()].1;
    assert!((1_200..=4 * 1_200).contains(&(after - before)), "{} bytes to nobody", after - before);
}

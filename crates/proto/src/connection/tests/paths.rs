//! What only the inside of a connection shows of paths and their connection ids.

use super::*;

/// A connection that has sent two packets over path 1, of which its peer has acknowledged this one; where that path
/// runs, and when that came.
fn with_one_of_two_acknowledged(number: u64) -> (Connection, NetworkPath, Instant) {
    let (mut client, _) = connected_client();
    client.handshake.confirm_for_test();
    let local = std::net::SocketAddr::from(([127, 0, 0, 3], 1));
    let network = NetworkPath { local, ..client.paths[&PathId::ZERO].network() };
    let mut path = Path::new(PathId(1), network, &client.config, Instant::ORIGIN);
    path.open();
    (0..2).for_each(|sent| send_data(&mut path, sent));
    client.paths.insert(PathId(1), path);
    let (later, mut ack) = (Instant::ORIGIN + Duration::from_millis(20), Vec::new());
    crate::wire::encode_ack(Some(PathId(1)), 0, None, core::iter::once(number..=number), 100, &mut ack);
    receive_at(&mut client, later, &ack).unwrap();
    (client, network, later)
}

/// What a path carries is lent to one connection at a time: with a path that closed while it was busy it
/// was gone.
#[test]
fn what_was_learnt_of_a_path_is_kept_when_that_is_closed() {
    let (mut client, network, later) = with_one_of_two_acknowledged(0);
    let known = |client: &Connection| client.config.path_store.recall(&network).rtt;
    assert_eq!(known(&client), None, "something is under way");
    client.close_path(later, PathId(1), 0u8.into()).unwrap();
    assert_eq!(known(&client), Some(Duration::from_millis(20)));
}

/// The last packet may be one that nobody misses, as a copy or a probe: what the path carries was then told to no
/// other connection, not even by the close that followed.
#[test]
fn what_was_learnt_of_a_path_is_kept_when_the_last_packet_is_lost() {
    let (mut client, network, later) = with_one_of_two_acknowledged(1);
    let known = |client: &Connection| client.config.path_store.recall(&network).rtt;
    assert_eq!((client.paths[&PathId(1)].in_flight(), known(&client)), (1_200, None));
    client.on_loss_timeout(later + Duration::from_secs(1), Level::OneRtt, PathId(1));
    assert_eq!(client.paths[&PathId(1)].in_flight(), 0);
    assert_eq!(known(&client), Some(Duration::from_millis(20)));
}

/// A packet of data leaves, and nobody has heard of it yet.
fn send_data(path: &mut Path, number: u64) {
    let packet = crate::path::sending::NewPacket {
        number,
        level: Level::OneRtt,
        size: 1_200,
        purpose: crate::PacketPurpose::Data,
        ack_eliciting: true,
        frames: crate::path::sent::SentFrames::default(),
        source: crate::path::source::Source::Nothing,
    };
    path.on_packet_sent(Instant::ORIGIN, crate::path::space::Space::Data, packet);
}

/// Far more is in flight than the window holds by now, so that a challenge gets no answer, and a probe is due at
/// the same time.
#[test]
fn a_challenge_without_an_answer_keeps_no_probe_back() {
    let (mut client, _) = connected_client();
    client.handshake.confirm_for_test();
    let path = client.paths.get_mut(&PathId::ZERO).unwrap();
    for _ in 0..40 {
        let number = path.space().next_number();
        send_data(path, number);
    }
    path.on_challenge([7; 8]);
    path.ask_for_probe();
    assert!(client.poll_transmit(Instant::ORIGIN, 1, &mut Vec::new()).is_some());
    assert!(!client.paths[&PathId::ZERO].owes_probe());
}

/// RFC 9000 section 18.2 allows that long, and a probe timeout is longer (RFC 9002 section 6.2.1): debug builds
/// took the connection for one that had fallen asleep.
#[test]
fn a_peer_whose_acks_wait_for_sixteen_seconds_is_waited_for() {
    let (mut client, _) = connected_client();
    client.handshake.confirm_for_test();
    client.peer.max_ack_delay = Duration::from_millis((1 << 14) - 1);
    let sent = crate::path::sent::SentPacket::for_test(Instant::ORIGIN);
    client.paths.get_mut(&PathId::ZERO).unwrap().record_for_test(0, sent);
    assert_eq!(client.neglected(Instant::ORIGIN), None);
}

/// As at a server whose client has moved the faster path to another port: nothing but what comes from there lets a
/// full datagram go, and the answer to our challenge may be lost.
#[test]
fn data_do_not_wait_for_a_path_that_the_amplification_limit_holds_back() {
    assert_taken_while_the_faster_is_held_back(crate::PathStatus::Available);
}

#[test]
fn a_backup_takes_the_place_of_a_path_that_the_amplification_limit_holds_back() {
    assert_taken_while_the_faster_is_held_back(crate::PathStatus::Backup);
}

/// All data leaves on the slower path, of which the peer has said this.
fn assert_taken_while_the_faster_is_held_back(status: crate::PathStatus) {
    let (mut client, _) = connected_client();
    client.handshake.confirm_for_test();
    allow_data(&mut client);
    let cid = ConnectionId::new(&[9; 8]).unwrap();
    client.cids.on_new(PathId(1), 0, 0, cid, crate::wire::ResetToken([9; 16])).unwrap();
    let local = std::net::SocketAddr::from(([127, 0, 0, 3], 1));
    let slower = NetworkPath { local, ..client.paths[&PathId::ZERO].network() };
    let mut path = Path::new(PathId(1), slower, &client.config, Instant::ORIGIN);
    path.open();
    path.trust_address();
    path.on_status(0, status);
    send_data(&mut path, 0);
    client.paths.insert(PathId(1), path);
    send_data(client.path_zero(), 0);
    let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
    for (id, rtt_ms) in [(PathId::ZERO, 20), (PathId(1), 60)] {
        let mut ack = Vec::new();
        crate::wire::encode_ack(Some(id), 0, None, core::iter::once(0..=0), 100, &mut ack);
        receive_at(&mut client, at(rtt_ms), &ack).unwrap();
    }
    client.path_zero().distrust_address();
    // Three times that, less what has left, is just less than a datagram.
    client.path_zero().earn_budget(767);
    let id = client.open(Dir::Uni).unwrap();
    client.write(id, &[7; 500]).unwrap();
    let mut out = Vec::new();
    while let Some(transmit) = client.poll_transmit(at(60), 1, &mut out) {
        assert_eq!(transmit.path, slower);
        out.clear();
    }
    assert_eq!(client.stats().stream_bytes_sent, 500);
}

/// What is moved off a silent path goes over those that may carry data and answer, a metered one among them. How quick a
/// backup is, or one that is silent as well, says nothing of when it arrives.
#[test]
fn what_carries_data_now_is_told_apart_from_what_waits() {
    let (mut client, _) = connected_client();
    let network = client.paths[&PathId::ZERO].network();
    for id in 1..=4 {
        let mut path = Path::new(PathId(id), network, &client.config, Instant::ORIGIN);
        path.open();
        path.trust_address();
        let metered = PathLimits { carries: PathUse::Metered, rate: None };
        match id {
            1 => path.set_limits(metered),
            2 => path.on_status(0, crate::PathStatus::Backup),
            silent => {
                path.set_limits(if silent == 3 { metered } else { PathLimits::default() });
                path.on_probe_timeout(Instant::ORIGIN, crate::path::probe::Company::Another);
            }
        }
        client.paths.insert(PathId(id), path);
    }
    let mut seen = Vec::new();
    client.take_snapshots(Instant::ORIGIN, crate::path::snapshot::View::Recovery, &mut seen);
    let seen: Vec<_> = seen.iter().map(|path| (path.usable, path.carries_data, path.silent)).collect();
    let (regular, metered, backup) = ((true, true, false), (false, true, false), (false, false, false));
    assert_eq!(seen, [regular, metered, backup, (false, false, false), (false, false, true)]);
}

#[test]
fn multipath_frames_need_multipath_and_a_path_id_that_we_allow() {
    use crate::wire::{Frame, PathCidsBlocked, PathStatus, PathsBlocked, RetireConnectionId};
    let frames = |path| {
        [
            Frame::PathStatus(PathStatus { path, sequence: 1, backup: false }),
            Frame::PathsBlocked(PathsBlocked { maximum: path }),
            Frame::PathCidsBlocked(PathCidsBlocked { path, next_sequence: 0 }),
            Frame::RetireConnectionId(RetireConnectionId { path: Some(path), sequence: 0 }),
        ]
    };
    for frame in frames(PathId(8)) {
        let error = receive(&mut client(), &encoded(frame)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
    for frame in frames(PathId(7)) {
        let mut single = client();
        single.path_ids.limits = None;
        let error = receive(&mut single, &encoded(frame)).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
    }
    for frame in &frames(PathId(7))[..3] {
        receive(&mut client(), &encoded(frame.clone())).unwrap();
    }
    let beyond = Frame::PathCidsBlocked(PathCidsBlocked { path: PathId(7), next_sequence: 1 });
    let error = receive(&mut client(), &encoded(beyond)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// RFC 9000 section 18.2.
#[test]
fn a_preferred_address_needs_connection_ids() {
    use crate::wire::{PreferredAddress, ResetToken};
    let (connection_id, reset_token) = (ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16]));
    let preferred = PreferredAddress { ipv4: None, ipv6: None, connection_id, reset_token };
    let parameters = TransportParameters { preferred_address: Some(preferred), ..Default::default() };
    client().adopt_server_cids(&parameters).unwrap();
    let mut client = client();
    client.cids.set_initial_remote(ConnectionId::EMPTY);
    let error = client.adopt_server_cids(&parameters).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
}

#[test]
fn several_paths_need_connection_ids() {
    let parameters = |cid, initial_max_path_id| TransportParameters {
        initial_source_connection_id: Some(cid),
        initial_max_path_id,
        ..TransportParameters::default()
    };
    let (empty, some) = (ConnectionId::EMPTY, ConnectionId::new(&[7; 8]).unwrap());
    let client = client();
    client.check_multipath(&parameters(some, Some(PathId(1)))).unwrap();
    client.check_multipath(&parameters(empty, None)).unwrap();
    let error = client.check_multipath(&parameters(empty, Some(PathId::ZERO))).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let single = client_with(TransportConfig { max_paths: 1, ..TransportConfig::default() });
    single.check_multipath(&parameters(empty, Some(PathId(1)))).unwrap();
}

/// draft-ietf-quic-multipath-21 section 4: MAX_PATH_ID only ever raises the limit.
#[test]
fn no_fewer_paths_are_allowed_than_at_first() {
    use crate::wire::{Frame, MaxPathId};
    let mut client = client();
    client.peer.initial_max_path_id = Some(PathId(7));
    let allowed = |maximum| encoded(Frame::MaxPathId(MaxPathId { maximum: PathId(maximum) }));
    receive(&mut client, &allowed(7)).unwrap();
    let error = receive(&mut client, &allowed(6)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// draft-ietf-quic-multipath-21 section 4: what counts is what has been announced. Each path that is given up
/// makes room for another, and hundreds of such frames fit a packet.
#[test]
fn a_path_id_is_allowed_once_that_was_said() {
    use crate::wire::{Frame, PathAbandon};
    let abandon = |client: &mut Connection, path| {
        let abandon = PathAbandon { path: PathId(path), error_code: TransportErrorCode::NO_ERROR };
        receive(client, &encoded(Frame::PathAbandon(abandon)))
    };
    let (mut client, _) = connected_client();
    abandon(&mut client, 7).unwrap();
    let error = abandon(&mut client, 8).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    let (mut client, _) = connected_client();
    abandon(&mut client, 7).unwrap();
    send_all(&mut client);
    abandon(&mut client, 8).unwrap();
    abandon(&mut client, 9).unwrap_err();
}

/// Hundreds of such frames fit a packet: what they ask for was issued when there was a reason.
#[test]
fn who_asks_for_connection_ids_has_nothing_made_for_him() {
    use crate::wire::{Frame, MaxPathId, PathCidsBlocked};
    let mut client = client();
    for _ in 0..3 {
        let blocked = PathCidsBlocked { path: PathId(7), next_sequence: 0 };
        receive(&mut client, &encoded(Frame::PathCidsBlocked(blocked))).unwrap();
    }
    let allowed = |maximum| encoded(Frame::MaxPathId(MaxPathId { maximum: PathId(maximum) }));
    for maximum in 8..100 {
        receive(&mut client, &allowed(maximum)).unwrap();
    }
    assert!(client.control.is_empty(), "{:?}", client.control);
    // A path more that both allow is one.
    client.path_ids.limits = Some(super::multipath::MaxPathIds { local: PathId(8), remote: PathId(7) });
    receive(&mut client, &allowed(8)).unwrap();
    assert!(!client.control.is_empty());
}

/// RFC 9000 section 19.16. Its number is easily guessed.
#[test]
fn a_connection_id_that_never_left_cannot_be_retired() {
    use crate::wire::{Frame, RetireConnectionId};
    let (mut client, _) = connected_client();
    let retire = |client: &mut Connection, sequence| {
        let path = Some(PathId(1));
        receive(client, &encoded(Frame::RetireConnectionId(RetireConnectionId { path, sequence })))
    };
    client.issue_cids().unwrap();
    send_all(&mut client);
    retire(&mut client, 0).unwrap();
    send_all(&mut client);
    // The packet is taken for lost, and had only been late.
    client.move_data_off(PathId::ZERO);
    assert!(!client.control.is_empty());
    retire(&mut client, 1).unwrap();
    let error = retire(&mut client, 2).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

/// A peer that was asked for others meanwhile closed the connection with FRAME_ENCODING_ERROR.
#[test]
fn a_connection_id_that_leaves_again_has_none_above_it_retired() {
    use crate::wire::{Frame, Frames};
    let (mut client, _) = connected_client();
    client.issue_cids().unwrap();
    send_all(&mut client);
    client.handshake.confirm_for_test();
    assert!(client.rotate_cids(PathId(1)));
    client.move_data_off(PathId::ZERO);
    let mut payload = Vec::new();
    client.control.iter().for_each(|frame| client.encode_control(frame, &mut payload));
    let frames: Vec<_> = Frames::new(&payload).collect::<Result<_, _>>().unwrap();
    let of_path = frames.iter().filter_map(|frame| match frame {
        Frame::NewConnectionId(f) if f.path == Some(PathId(1)) => Some((f.sequence, f.retire_prior_to)),
        _ => None,
    });
    assert_eq!(of_path.collect::<Vec<_>>(), [(0, 0), (1, 1)]);
}

#[test]
fn a_connection_id_that_waits_to_be_retired_is_counted_once() {
    let mut client = client();
    for _ in 0..1_000 {
        client.owe_retirement(PathId(1), 3).unwrap();
    }
    assert_eq!(client.control.len(), 1);
}

#[test]
fn a_path_id_that_the_peer_gave_up_is_left_out() {
    use crate::wire::{Frame, PathAbandon};
    let mut client = client();
    for path in [PathId(1), PathId(2)] {
        let abandon = PathAbandon { path, error_code: TransportErrorCode::NO_ERROR };
        receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    }
    assert_eq!(client.next_path_id(PathId(7)), PathId(3));
    assert_eq!(client.next_path_id(PathId(7)), PathId(3), "it is still there");
}

/// draft-ietf-quic-multipath-21 section 3.4: who never hears it keeps what it knows of the path, or gives the
/// connection up.
#[test]
fn who_abandons_a_path_that_was_never_here_hears_the_same_from_us() {
    use crate::wire::{Frame, PathAbandon};
    let mut client = client();
    let answer = ControlFrame::PathAbandon { path: PathId(2) };
    let abandon = PathAbandon { path: PathId(2), error_code: TransportErrorCode::PATH_UNSTABLE_OR_POOR };
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    assert!(client.control.contains(&answer), "{:?}", client.control);
    client.control.clear();
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    assert!(client.control.is_empty(), "once is enough");
}

/// Section 3.3 of draft-ietf-quic-multipath-21: the frame may come over a faster path than the one that it
/// is about, and older news counts for nothing.
#[test]
fn what_is_said_of_a_path_before_it_is_there_counts_once_it_is() {
    use crate::wire::{Frame, PathAbandon, PathStatus, ResetToken};
    let mut client = client();
    let say = |client: &mut Connection, path, sequence, backup| {
        let status = PathStatus { path: PathId(path), sequence, backup };
        receive(client, &encoded(Frame::PathStatus(status))).unwrap();
    };
    say(&mut client, 1, 3, true);
    say(&mut client, 1, 2, false);
    client.cids.on_new(PathId(1), 0, 0, ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16])).unwrap();
    client.handshake.complete_for_test();
    let here = client.paths[&PathId::ZERO].network();
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 3));
    let id = client.open_path(Instant::ORIGIN, NetworkPath { local, ..here }).unwrap();
    assert!(id == PathId(1) && client.paths[&id].is_backup());
    say(&mut client, 1, 3, false);
    assert!(client.paths[&id].is_backup(), "it has been heard");
    say(&mut client, 1, 4, false);
    assert!(!client.paths[&id].is_backup());
    // Nothing is kept of what will not come.
    say(&mut client, 2, 0, true);
    let abandon = PathAbandon { path: PathId(2), error_code: TransportErrorCode::NO_ERROR };
    receive(&mut client, &encoded(Frame::PathAbandon(abandon))).unwrap();
    say(&mut client, 2, 1, true);
    assert!(client.path_ids.keeps_nothing());
}

/// draft-ietf-quic-multipath-21 section 3.4.2: late packets of ours may meet somebody who has forgotten the
/// path, and not the connection.
#[test]
fn a_reset_about_an_abandoned_path_is_none_of_the_connection() {
    use crate::wire::ResetToken;
    let mut client = client();
    client.handshake.complete_for_test();
    client.cids.on_new(PathId(1), 0, 0, ConnectionId::new(&[9; 8]).unwrap(), ResetToken([9; 16])).unwrap();
    let here = client.paths[&PathId::ZERO].network();
    let local = std::net::SocketAddr::from(([127, 0, 0, 1], 3));
    let id = client.open_path(Instant::ORIGIN, NetworkPath { local, ..here }).unwrap();
    assert!(client.cids.is_reset(&[9; 16]));
    client.cids.changed_reset_tokens();
    client.close_path(Instant::ORIGIN, id, 0u8.into()).unwrap();
    assert!(!client.cids.is_reset(&[9; 16]));
    assert_eq!(client.cids.changed_reset_tokens(), Some(Vec::new()), "the endpoint hears of it");
    assert!(client.cids.remote(id).is_some(), "a last word may still leave there");
}

#[test]
fn a_flood_of_retire_prior_to_ends_the_connection() {
    use crate::wire::{Frame, NewConnectionId, ResetToken};
    let mut client = client();
    let mut error = None;
    for n in 1..1_000u64 {
        let id = ConnectionId::new(&n.to_be_bytes()).unwrap();
        let frame = NewConnectionId {
            path: None,
            sequence: n,
            retire_prior_to: n,
            id,
            reset_token: ResetToken([n as u8; 16]),
        };
        if let Err(e) = receive(&mut client, &encoded(Frame::NewConnectionId(frame))) {
            error = Some((n, e.code));
            break;
        }
    }
    assert_eq!(
        error,
        Some((65, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR)),
        "eight for each of eight paths"
    );
    assert!(client.control.len() <= 64);
}

//! Connection ids that balancers read (QUIC-LB): any configuration, any destination.

use proto::QuicLb;

use crate::input::Input;

/// A configuration, a nonce, and bytes that somebody put where a connection id is.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (rotation, id, nonce) = (input.u8(), input.u8(), input.u8());
    let server_id: Vec<u8> = (0..id % 24).map(|_| input.u8()).collect();
    let config = QuicLb::new(rotation, &server_id, usize::from(nonce % 24));
    let can_be = rotation < 7
        && (1..=QuicLb::MAX_SERVER_ID).contains(&server_id.len())
        && (4..=19 - server_id.len().min(19)).contains(&usize::from(nonce % 24));
    assert_eq!(config.is_ok(), can_be);
    let Ok(mut config) = config else { return };
    config = config.encode_length(input.flag());
    if input.flag() {
        config = config.with_key(&std::array::from_fn(|_| input.u8()));
    }
    let nonce: Vec<u8> = (0..config.nonce_len()).map(|_| input.u8()).collect();
    let cid = config.encode(&nonce, input.u8());
    assert_eq!((cid.len(), cid[0] >> 5), (config.cid_len(), rotation));
    assert!(config.is_ours(&cid) && *config.server_id(&cid).expect("it is ours") == *server_id);

    let mut destination = Vec::new();
    while let Some(byte) = input.step() {
        destination.push(byte);
    }
    let read = config.server_id(&destination);
    let long_enough = destination.len() >= config.cid_len();
    assert_eq!(read.is_some(), long_enough && destination[0] >> 5 == rotation);
    assert!(read.is_none_or(|id| id.len() == server_id.len()));
}

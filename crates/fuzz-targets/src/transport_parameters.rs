//! Transport parameters of either side.

use proto::{Side, wire::TransportParameters};
use units::Duration;

/// The first byte chooses who sent them.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let from = if choice & 1 == 0 { Side::Client } else { Side::Server };
    let Ok(mut parameters) = TransportParameters::decode(bytes, from) else { return };
    // A timeout of more than our clock counts is cut, to what is no whole number of milliseconds.
    parameters.max_idle_timeout = Duration::from_millis(parameters.max_idle_timeout.as_millis());
    let wire = parameters.encode();
    let again = TransportParameters::decode(&wire, from).expect("what we write can be read");
    assert_eq!(again, parameters);
    assert_eq!(again.encode(), wire, "our own form is stable");
    assert!(parameters.ack_delay_exponent <= 20 && parameters.active_connection_id_limit.into_inner() >= 2);
    assert!(parameters.max_udp_payload_size.into_inner() >= 1_200);
}

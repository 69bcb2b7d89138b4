//! The crate quinn, with its BBR or its own CUBIC, and windows that 100 Mbit/s at 50 ms do not fill.

use std::{sync::Arc, time::Duration};

use crate::Congestion;

fn transport(congestion: Congestion) -> quinn::TransportConfig {
    let mut config = quinn::TransportConfig::default();
    if congestion == Congestion::Bbr {
        config.congestion_controller_factory(Arc::new(quinn::congestion::BbrConfig::default()));
    }
    config.stream_receive_window(quinn::VarInt::from_u32(16 << 20));
    config.receive_window(quinn::VarInt::from_u32(64 << 20));
    config.keep_alive_interval(Some(Duration::from_secs(5)));
    config
}

crate::forwarder!(quinn, transport);

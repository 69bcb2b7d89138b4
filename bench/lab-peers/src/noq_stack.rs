//! The crate noq, with its BBR v3 or its own CUBIC, and windows that 100 Mbit/s at 50 ms do not fill; one path.

use std::{sync::Arc, time::Duration};

use crate::Congestion;

fn transport(congestion: Congestion) -> noq::TransportConfig {
    let mut config = noq::TransportConfig::default();
    if congestion == Congestion::Bbr {
        config.congestion_controller_factory(Arc::new(noq::congestion::Bbr3Config::default()));
    }
    config.stream_receive_window(noq::VarInt::from_u32(16 << 20));
    config.receive_window(noq::VarInt::from_u32(64 << 20));
    config.keep_alive_interval(Some(Duration::from_secs(5)));
    config
}

crate::forwarder!(noq, transport);

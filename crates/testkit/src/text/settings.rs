//! Transport settings as `name=value`, only those that differ from the default.

use std::str::FromStr;

use proto::TransportConfig;
use units::Duration;

use super::{Words, exact};
use crate::scenario::default_transport;

/// A value that prints and parses.
trait Value: Sized {
    fn print(&self) -> String;
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! plain {
    ($($kind:ty),+) => {
        $(impl Value for $kind {
            fn print(&self) -> String {
                self.to_string()
            }

            fn parse(text: &str) -> Option<Self> {
                Self::from_str(text).ok()
            }
        })+
    };
}

plain!(bool, u8, u16, u32, u64, usize, proto::RecoveryKind, proto::ControllerKind, proto::SchedulerKind);

impl Value for std::time::Duration {
    fn print(&self) -> String {
        exact((*self).into())
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse::<Duration>().ok().map(Into::into)
    }
}

impl Value for Option<std::time::Duration> {
    fn print(&self) -> String {
        self.map_or_else(|| "never".to_owned(), |duration| duration.print())
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "never" { Some(None) } else { Value::parse(text).map(Some) }
    }
}

impl Value for Option<u64> {
    fn print(&self) -> String {
        self.map_or_else(|| "auto".to_owned(), |value| value.to_string())
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "auto" { Some(None) } else { text.parse().ok().map(Some) }
    }
}

/// One line per setting: everything else follows from the list.
macro_rules! settings {
    ($($name:literal = $($field:ident).+),+ $(,)?) => {
        /// The names of all settings.
        pub(crate) const NAMES: &[&str] = &[$($name),+];

        fn print(t: &TransportConfig, name: &str) -> Option<String> {
            match name {
                $($name => Some(t.$($field).+.print()),)+
                _ => None,
            }
        }

        /// Sets one; false if the value has the wrong form.
        fn set(t: &mut TransportConfig, name: &str, value: &str) -> Option<bool> {
            match name {
                $($name => Some(Value::parse(value).map(|value| t.$($field).+ = value).is_some()),)+
                _ => None,
            }
        }

        /// Gives one setting its default; false if it had it.
        pub(crate) fn reset(t: &mut TransportConfig, name: &str) -> bool {
            let default = default_transport();
            let before = print(t, name);
            match name {
                $($name => t.$($field).+ = default.$($field).+,)+
                _ => {}
            }
            before != print(t, name)
        }
    };
}

settings! {
    "max_idle_timeout" = max_idle_timeout,
    "keep_alive" = keep_alive,
    "receive_window" = receive_window,
    "stream_receive_window" = stream_receive_window,
    "initial_stream_window" = initial_stream_window,
    "send_buffer" = send_buffer,
    "max_concurrent_bidi" = max_concurrent_bidi,
    "max_concurrent_uni" = max_concurrent_uni,
    "datagram_receive_buffer" = datagram_receive_buffer,
    "datagram_send_buffer" = datagram_send_buffer,
    "reset_stream_at" = reset_stream_at,
    "max_paths" = max_paths,
    "initial_window_packets" = initial_window_packets,
    "initial_rtt" = initial_rtt,
    "initial_datagram_size" = initial_datagram_size,
    "max_datagram_size" = max_datagram_size,
    "jumbo_datagram_size" = jumbo_datagram_size,
    "ecn" = ecn,
    "key_update_interval" = key_update_interval,
    "recovery" = recovery,
    "controller" = controller,
    "scheduler" = scheduler,
    "repair.accept" = repair.accept,
    "repair.m_max" = repair.m_max,
    "repair.k_max" = repair.k_max,
    "repair.decoder_memory" = repair.decoder_memory,
    "repair.source_memory" = repair.source_memory,
}

/// The settings that differ from the default, separated by blanks.
pub(super) fn changed(transport: &TransportConfig) -> String {
    let default = default_transport();
    let differ = NAMES.iter().filter_map(|name| {
        let value = print(transport, name)?;
        (Some(&value) != print(&default, name).as_ref()).then(|| format!("{name}={value}"))
    });
    differ.collect::<Vec<_>>().join(" ")
}

pub(super) fn read(transport: &mut TransportConfig, words: &mut Words<'_>) -> Result<(), String> {
    for word in words.0.by_ref() {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not name=value"))?;
        match set(transport, name, value) {
            Some(true) => {}
            Some(false) => return Err(format!("{name}: `{value}` has the wrong form")),
            None => return Err(format!("`{name}` is no setting; there are: {}", NAMES.join(", "))),
        }
    }
    Ok(())
}

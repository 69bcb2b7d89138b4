//! The SOCKS5 front end: the greeting of a program, and the header of its UDP packets.

use std::future::Future;

use mendpath_cli::{
    client::{Credentials, fuzzing},
    target::{Host, is_name},
};
use tokio::io::AsyncWriteExt as _;

/// Bytes in flight between the program and the proxy.
const PIPE: usize = 4_096;

/// The first byte says whether a password is wanted; the rest is what the program sends.
pub fn run(data: &[u8]) {
    let Some((&choice, sent)) = data.split_first() else { return };
    let credentials = Credentials { user: "alice".into(), password: "open".into() };
    let credentials = (choice & 1 == 1).then_some(&credentials);
    block_on(async {
        let (mut program, proxy) = tokio::io::duplex(PIPE);
        let (target, ()) = tokio::join!(fuzzing::socks5_target(proxy, credentials), async {
            // The proxy may hang up early.
            let _ = program.write_all(sent).await;
            let _ = program.shutdown().await;
        });
        if let Some(target) = target {
            if credentials.is_some() {
                assert!(sent.windows(5).any(|window| window == b"alice"), "in without a password");
            }
            if let Host::Name(name) = target.host {
                assert!(is_name(&name));
            }
        }
        if let Some(packet) = fuzzing::socks5_unwrap(sent).await {
            let datagram = fuzzing::socks5_wrap(&packet).expect("it had a header");
            assert_eq!(fuzzing::socks5_unwrap(&datagram).await, Some(packet));
        }
    });
}

/// Runs a future that waits for nothing but other futures.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a clock cannot fail").block_on(future)
}

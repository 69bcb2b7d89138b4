//! A server that is told to stop lets what runs end first, and nobody new in.

use mendpath_cli::{client::Client, invitation::Invitation};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{process::Process, support::*};

struct Bed {
    server: Process,
    invitation: Invitation,
    /// A program's connection through the server, with an echo behind it.
    program: tokio::net::TcpStream,
    _state: tempfile::TempDir,
    /// Where its socket is.
    runtime: String,
}

async fn bed(drain_time: &str) -> Bed {
    let state = tempfile::tempdir().unwrap();
    let runtime = state.path().display().to_string();
    let place = format!("export XDG_RUNTIME_DIR='{runtime}'");
    let dir = state.path().join("state");
    let args =
        ["server", "--listen", "127.0.0.1:0", "--allow-private", "--drain-time", drain_time, "--state"];
    let server = Process::start_after(&place, &[&args[..], &[dir.to_str().unwrap()]].concat());
    let invitation: Invitation = server.line_with("mendpath://").parse().unwrap();
    let proxy = client(client_options(invitation.clone())).await.socks5.unwrap();
    let (mut program, code, _) = socks5(proxy, 1, echo_server().await).await;
    assert_eq!(code, 0);
    ping(&mut program).await;
    Bed { server, invitation, program, _state: state, runtime }
}

/// What is written comes back.
async fn ping(tcp: &mut tokio::net::TcpStream) {
    tcp.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    tcp.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"ping");
}

fn terminate(server: &Process) {
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_may_end_and_nobody_new_is_let_in() {
    within(async {
        let mut bed = bed("3600").await;
        terminate(&bed.server);
        let told = bed.server.line_with("draining");
        assert!(told.contains("1 client told to go elsewhere, 1 connection may end within 3600s"), "{told}");
        let refused = failure(client_options(bed.invitation.clone())).await.to_string();
        assert!(refused.contains("takes nobody in at the moment (it is being stopped)"), "{refused}");
        // Long after those that do nothing would have gone.
        ping(&mut bed.program).await;
        let heard = converse(&mut bed.program, b"the end ").await;
        assert_eq!(heard, b"the end goodbye");
        assert!(!bed.server.line_with("stopping").contains("cuts"));
        assert_eq!(bed.server.wait(), Some(0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_a_second_signal_end_it() {
    within(async {
        let mut slow = bed("3600").await;
        terminate(&slow.server);
        slow.server.line_with("draining");
        ping(&mut slow.program).await;
        terminate(&slow.server);
        slow.server.line_with("stopping at once");
        assert_eq!(slow.server.wait(), Some(0));
        assert!(slow.program.read(&mut [0]).await.is_err(), "cut, which is no end of stream");

        let mut bounded = bed("1").await;
        terminate(&bounded.server);
        bounded.server.line_with("stopping, which cuts 1 connection off");
        assert_eq!(bounded.server.wait(), Some(0));
        assert!(bounded.program.read(&mut [0]).await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_tells_it_and_waits() {
    within(async {
        let mut bed = bed("3600").await;
        let socket = format!("--socket={}/mendpath/server-{}.sock", bed.runtime, bed.server.id());
        let order = Process::start(&["server", "--drain", &socket]);
        let told = order.line_with("lets nobody in any more");
        assert!(told.contains("there is 1 client with 1 connection, and it ends within 3600s"), "{told}");
        // The service manager's signal that follows does not cut anything off.
        bed.server.line_with("draining");
        terminate(&bed.server);
        ping(&mut bed.program).await;
        let status = Process::start(&["status", &socket]);
        assert!(status.line_with("server on").contains("about to stop, 1 client"));
        converse(&mut bed.program, b"").await;
        order.line_with("the server has stopped");
        assert_eq!((bed.server.wait(), order.wait()), (Some(0), Some(0)));

        let nobody = Process::start(&["server", "--drain", &socket]);
        nobody.line_with("cannot ask the process at");
        assert_eq!(nobody.wait(), Some(1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_orders_it_says_how_long_it_may_take() {
    within(async {
        let mut bed = bed("3600").await;
        let socket = format!("--socket={}/mendpath/server-{}.sock", bed.runtime, bed.server.id());
        let order = |time| Process::start(&["server", "--drain", "--drain-time", time, &socket]);
        let patient = order("7200");
        let told = patient.line_with("lets nobody in any more");
        assert!(told.ends_with("and it ends within 7200s"), "{told}");
        let told = bed.server.line_with("draining");
        assert!(told.contains("may end within 7200s"), "{told}");
        ping(&mut bed.program).await;
        // Who has less patience has the last word.
        let hasty = order("1");
        assert!(hasty.line_with("lets nobody in any more").ends_with("and it ends within 1s"));
        bed.server.line_with("stopping, which cuts 1 connection off");
        assert_eq!((bed.server.wait(), patient.wait(), hasty.wait()), (Some(0), Some(0), Some(0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_nothing_does_not_hold_it_up() {
    within(async {
        let mut bed = bed("3600").await;
        converse(&mut bed.program, b"").await;
        let idle = Client::start(client_options(bed.invitation.clone())).await.unwrap();
        terminate(&bed.server);
        bed.server.line_with("stopping");
        assert_eq!(bed.server.wait(), Some(0));
        drop(idle);
    })
    .await;
}

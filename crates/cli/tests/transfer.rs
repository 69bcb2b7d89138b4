//! A file from one side to the other.

mod support;

use std::path::Path;

use mendpath_cli::{
    client::DialOptions,
    invitation::Invitation,
    token::Service,
    transfer::{ReceiveOptions, Receiver, SendOptions, Sent, send},
    transport::Choice,
};
use support::{ANY, pattern, within};

fn receiver(state: &Path, out: &Path, force: bool) -> Receiver {
    let options = ReceiveOptions {
        listen: ANY,
        advertise: None,
        state: state.to_owned(),
        out: out.to_owned(),
        force,
        transport: Choice::default(),
    };
    Receiver::bind(&options).unwrap()
}

async fn send_to(file: &Path, invitation: &Invitation) -> Result<Sent, mendpath_cli::failure::Failure> {
    let mut dial = DialOptions::new(invitation.clone(), Service::Files);
    dial.paths = vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
    send(SendOptions { file: file.to_owned(), dial }).await
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_arrives_whole_and_replaces_nothing() {
    within(async {
        let (state, from, to) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = from.path().join("holiday.tar");
        std::fs::write(&file, pattern(3_000_001)).unwrap();
        let receiving = receiver(state.path(), to.path(), false);
        let invitation = receiving.invitation().clone();

        let (sent, received) = tokio::join!(send_to(&file, &invitation), receiving.receive_one());
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.size, received.size), (3_000_001, 3_000_001));
        assert_eq!(std::fs::read(to.path().join("holiday.tar")).unwrap(), pattern(3_000_001));
        assert_eq!(names(to.path()), ["holiday.tar"], "no temporary file is left");

        // Once more: refused, and the receiver goes on waiting for something better.
        std::fs::write(&file, b"other").unwrap();
        let waiting = receiving.receive_one();
        let sending = async {
            let error = send_to(&file, &invitation).await.unwrap_err().to_string();
            assert!(error.contains("holiday.tar exists there") && error.contains("--force"), "{error}");
            let empty = from.path().join("empty");
            std::fs::write(&empty, b"").unwrap();
            send_to(&empty, &invitation).await.unwrap()
        };
        let (received, _) = tokio::join!(waiting, sending);
        assert_eq!(received.unwrap().size, 0);
        assert_eq!(std::fs::read(to.path().join("holiday.tar")).unwrap(), pattern(3_000_001));
        receiving.close().await;

        let receiving = receiver(state.path(), to.path(), true);
        let invitation = receiving.invitation().clone();
        let (sent, received) = tokio::join!(send_to(&file, &invitation), receiving.receive_one());
        sent.unwrap();
        received.unwrap();
        assert_eq!(std::fs::read(to.path().join("holiday.tar")).unwrap(), b"other");
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_sent_is_said_before_anybody_is_asked() {
    within(async {
        let state = tempfile::tempdir().unwrap();
        let receiving = receiver(state.path(), state.path(), false);
        let error =
            send_to(Path::new("/no/such/file"), receiving.invitation()).await.unwrap_err().to_string();
        assert!(error.contains("cannot send /no/such/file: there is no such file"), "{error}");
        let error = send_to(state.path(), receiving.invitation()).await.unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    })
    .await;
}

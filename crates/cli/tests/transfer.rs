//! A file from one side to the other.

mod support;

use std::path::Path;

use mendpath::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use mendpath_cli::{
    client::DialOptions,
    identity::CERTIFICATE_NAME,
    invitation::Invitation,
    protocol::{ALPN, Hello, MAX_MESSAGE, Reply, Request, Status, read_frame, write_frame},
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

/// Where nothing can be stored, whoever starts the receiver hears of it, and not the first sender. The
/// kernel's folder of processes takes no files, not even of root.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_folder_that_takes_no_files_is_refused_at_the_start() {
    let state = tempfile::tempdir().unwrap();
    let options = ReceiveOptions {
        listen: ANY,
        advertise: None,
        state: state.path().to_owned(),
        out: "/proc/self".into(),
        force: false,
        transport: Choice::default(),
    };
    let refused = Receiver::bind(&options).err().unwrap().to_string();
    assert!(refused.starts_with("cannot store files in /proc/self: "), "{refused}");
    assert!(refused.ends_with("name another with --out DIR."), "{refused}");
}

/// A directory is never replaced. That shows before the bytes are sent, not after.
#[tokio::test]
async fn a_directory_in_the_place_of_the_file_is_said_at_once() {
    within(async {
        let (state, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let to = tempfile::tempdir().unwrap();
        let receiving = receiver(state.path(), to.path(), true);
        let file = from.path().join("file");
        std::fs::write(&file, b"words").unwrap();
        std::fs::create_dir(to.path().join("file")).unwrap();
        let error = tokio::select! {
            sent = send_to(&file, receiving.invitation()) => sent.unwrap_err().to_string(),
            received = receiving.receive_one() => panic!("{received:?}"),
        };
        assert!(error.contains("the receiver says: file is a directory there"), "{error}");
        assert_eq!(names(to.path()), ["file"], "nothing was stored");
    })
    .await;
}

/// What only the receiving side can put right is not mended by trying again.
#[tokio::test]
async fn a_sender_hears_where_something_is_to_be_put_right() {
    within(async {
        let (state, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let to = tempfile::tempdir().unwrap();
        let receiving = receiver(state.path(), to.path(), false);
        let invitation = receiving.invitation().clone();
        let file = from.path().join("file");
        std::fs::write(&file, b"words").unwrap();
        to.close().unwrap();
        let error = tokio::select! {
            sent = send_to(&file, &invitation) => sent.unwrap_err().to_string(),
            received = receiving.receive_one() => panic!("{received:?}"),
        };
        assert!(
            error.contains("no such file or directory. Try again once that is put right there"),
            "{error}"
        );
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
        let pipe = state.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for other in [state.path(), &pipe] {
            let error = send_to(other, receiving.invitation()).await.unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
    })
    .await;
}

/// A connection as anybody can make who knows the receiver's key, without a hello.
async fn stranger(endpoint: &Endpoint, invitation: &Invitation) -> Connection {
    let config = ClientConfig::with_pinned_key(invitation.pin).alpn([ALPN]);
    let server = invitation.server.to_string().parse().unwrap();
    endpoint.connect_with(&config, server, CERTIFICATE_NAME).unwrap().await.unwrap()
}

/// Peers that connect and say nothing hold up nobody who has a token, however many there are, and
/// make room for each other.
#[tokio::test]
async fn silent_strangers_hold_up_no_sender() {
    within(async {
        let (state, from, to) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = from.path().join("file");
        std::fs::write(&file, pattern(100_000)).unwrap();
        let receiving = receiver(state.path(), to.path(), false);
        let invitation = receiving.invitation().clone();
        let sending = async {
            let endpoint = Endpoint::client(ANY).unwrap();
            let mut strangers = Vec::new();
            for _ in 0..100 {
                strangers.push(stranger(&endpoint, &invitation).await);
            }
            // The oldest makes room.
            strangers[0].closed().await;
            send_to(&file, &invitation).await.unwrap();
        };
        let (received, ()) = tokio::join!(receiving.receive_one(), sending);
        assert_eq!(received.unwrap().size, 100_000);
    })
    .await;
}

/// A stream with a first message on it.
async fn say(connection: &Connection, message: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, receive) = connection.open_bi().await.unwrap();
    write_frame(&mut send, message).await.unwrap();
    (send, receive)
}

async fn answer(receive: &mut RecvStream) -> Reply {
    Reply::decode(&read_frame(receive, MAX_MESSAGE).await.unwrap().unwrap()).unwrap()
}

/// A sender that was let in and has asked to send its five bytes.
struct Sender {
    connection: Connection,
    _control: (SendStream, RecvStream),
    send: SendStream,
    receive: RecvStream,
}

impl Sender {
    async fn ask(endpoint: &Endpoint, invitation: &Invitation, name: &str) -> Self {
        let connection = stranger(endpoint, invitation).await;
        let hello = Hello { service: Service::Files, token: invitation.token };
        let mut control = say(&connection, &hello.encode()).await;
        assert_eq!(answer(&mut control.1).await.status, Status::Ok);
        let request = Request::File { size: 5, name: name.to_owned() };
        let (send, receive) = say(&connection, &request.encode()).await;
        Self { connection, _control: control, send, receive }
    }

    async fn deliver(&mut self) {
        let checksum = ring::digest::digest(&ring::digest::SHA256, b"bytes");
        self.send.write_all(&[b"bytes", checksum.as_ref()].concat()).await.unwrap();
        assert_eq!(answer(&mut self.receive).await.status, Status::Ok);
    }
}

/// The file is there; whether its sender says goodbye does not matter.
#[tokio::test]
async fn a_file_is_received_before_its_sender_is_gone() {
    within(async {
        let (state, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let receiving = receiver(state.path(), to.path(), false);
        let endpoint = Endpoint::client(ANY).unwrap();
        let invitation = receiving.invitation().clone();
        let sending = async {
            let mut sender = Sender::ask(&endpoint, &invitation, "file").await;
            assert_eq!(answer(&mut sender.receive).await.status, Status::Ok, "it begins");
            sender.deliver().await;
            sender
        };
        let (received, sender) = tokio::join!(receiving.receive_one(), sending);
        assert_eq!(received.unwrap().path, to.path().join("file"));
        assert!(sender.connection.close_reason().is_none(), "nobody waited for its end");
        let (_, closed) = tokio::join!(receiving.close(), sender.connection.closed());
        assert!(closed.to_string().contains("closed"), "{closed}");
    })
    .await;
}

/// Linux says of some files that they are empty, and yet there is something in them: as in one that
/// grows, there is more than was announced.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_file_with_more_in_it_than_its_size_is_not_sent_in_part() {
    within(async {
        let (state, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let receiving = receiver(state.path(), to.path(), false);
        let invitation = receiving.invitation().clone();
        let error = tokio::select! {
            sent = send_to(Path::new("/proc/version"), &invitation) => sent.unwrap_err().to_string(),
            received = receiving.receive_one() => panic!("{received:?}"),
        };
        assert!(error.contains("it became longer"), "{error}");
    })
    .await;
}

/// Of several senders one sends at a time. The next gets its turn when that one fails, and is told
/// when it is too late.
#[tokio::test]
async fn one_sender_after_the_other() {
    within(async {
        let (state, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let receiving = receiver(state.path(), to.path(), false);
        let invitation = receiving.invitation().clone();
        let sending = async {
            let endpoint = Endpoint::client(ANY).unwrap();
            let mut first = Sender::ask(&endpoint, &invitation, "first").await;
            assert_eq!(answer(&mut first.receive).await.status, Status::Ok, "it begins");
            let mut second = Sender::ask(&endpoint, &invitation, "second").await;
            first.connection.close(0u8.into(), b"");
            assert_eq!(answer(&mut second.receive).await.status, Status::Ok, "the next one begins");
            let mut third = Sender::ask(&endpoint, &invitation, "third").await;
            second.deliver().await;
            let late = answer(&mut third.receive).await;
            assert_eq!(late.status, Status::TooMany);
            assert!(late.text.contains("it takes one; have it started again"), "{}", late.text);
        };
        let (received, ()) = tokio::join!(receiving.receive_one(), sending);
        assert_eq!(received.unwrap().path, to.path().join("second"));
        assert_eq!(names(to.path()), ["second"], "of the others nothing is left");
    })
    .await;
}

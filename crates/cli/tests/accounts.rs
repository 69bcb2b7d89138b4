//! Accounts of a running server: what its operator changes counts at once, and clients are told.

mod support;

use std::time::Duration;

use mendpath_cli::{
    accounts::{AccountId, Accounts, Name, Record, Store, Terms, now},
    client::{Client, ClientOptions},
    destination::DestinationPolicy::*,
    identity::Identity,
    invitation::Invitation,
    token::Service,
};
use support::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use units::{BitRate, Bytes};

const CONNECT: u8 = 1;

/// Somebody with access to the server's state.
struct Operator {
    store: Store,
    identity: Identity,
    invited: u8,
}

impl Operator {
    fn of(server: &Server) -> Self {
        let dir = server.state.path();
        Self {
            store: Store::open(dir).unwrap(),
            identity: Identity::load_or_create(dir).unwrap(),
            invited: 0,
        }
    }

    fn invite(&mut self, server: &Server, name: &str, terms: Terms) -> Invitation {
        self.invited += 1;
        let id = AccountId([self.invited; 16]);
        self.store.add(&[Record::new(id, name.parse().unwrap(), terms)]).unwrap();
        let token = self.identity.tokens.token(Service::Proxy, id.0);
        Invitation { token, ..server.invitation.clone() }
    }

    fn revoke(&mut self, name: &str) {
        self.store.revoke(&[name.parse().unwrap()], now()).unwrap();
    }
}

fn socks5_only(invitation: Invitation) -> ClientOptions {
    ClientOptions { http: None, ..client_options(invitation) }
}

/// A connection through the client's proxy to a host that echoes.
async fn echoing(client: &Client) -> TcpStream {
    let proxy = client.addresses.socks5.unwrap();
    let (mut tcp, code, _) = socks5(proxy, CONNECT, echo_server().await).await;
    assert_eq!(code, 0);
    tcp.write_all(b"here").await.unwrap();
    tcp.read_exact(&mut [0; 4]).await.unwrap();
    tcp
}

#[tokio::test]
async fn who_is_revoked_is_sent_away_and_told() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut operator = Operator::of(&server);
        let alice = operator.invite(&server, "alice", Terms::default());
        let bob = operator.invite(&server, "bob", Terms::default());
        let client = Client::start(socks5_only(alice.clone())).await.unwrap();
        let other = Client::start(socks5_only(bob)).await.unwrap();
        let mut tcp = echoing(&client).await;
        let mut others = echoing(&other).await;
        operator.revoke("alice");
        let mut byte = [0];
        let (failure, cut) = tokio::join!(client.run(), tcp.read(&mut byte));
        let words = "its operator revoked the invitation. Ask its operator for a new invitation.";
        assert!(failure.to_string().ends_with(words), "{failure}");
        assert!(cut.is_err(), "a connection that was cut looks like one");
        others.write_all(b"still").await.unwrap();
        others.read_exact(&mut [0; 5]).await.unwrap();
        let again = support::failure(socks5_only(alice)).await;
        assert!(again.to_string().ends_with(words), "{again}");
        assert!(Client::start(socks5_only(server.invitation.clone())).await.is_ok(), "the owner stays");
    })
    .await;
}

#[tokio::test]
async fn the_quota_ends_a_transfer_and_more_of_it_lets_in_again() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut operator = Operator::of(&server);
        let terms = Terms { quota: Some(Bytes(200_000)), ..Terms::default() };
        let invitation = operator.invite(&server, "alice", terms);
        let mut options = socks5_only(invitation.clone());
        options.wait_for_server = true;
        let client = Client::start(options).await.unwrap();
        let proxy = client.addresses.socks5.unwrap();
        let mut tcp = echoing(&client).await;
        tokio::spawn(client.run());
        let (mut read, mut write) = tcp.split();
        let data = vec![0; 1 << 20];
        let (mut heard, mut sink) = (0, [0; 16_384]);
        let cut = tokio::join!(write.write_all(&data), async {
            loop {
                match read.read(&mut sink).await {
                    Ok(0) => panic!("it ended in good order"),
                    Ok(n) => heard += n,
                    Err(_) => break,
                }
            }
        });
        drop(cut);
        assert!(heard < 200_000, "{heard} of a quota for both directions");
        let refused = support::failure(socks5_only(invitation)).await;
        assert!(refused.to_string().contains("what the invitation allows to pass is used up"), "{refused}");
        // The client that waits comes back by itself.
        operator.store.set_terms(&"alice".parse().unwrap(), &Terms::default(), true).unwrap();
        let (mut tcp, code, _) = socks5(proxy, CONNECT, echo_server().await).await;
        assert_eq!(code, 0);
        assert_eq!(converse(&mut tcp, b"hello ").await, b"hello goodbye");
    })
    .await;
}

#[tokio::test]
async fn an_invitation_ends_at_its_time() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut operator = Operator::of(&server);
        let soon = now() + Duration::from_secs(3_600);
        let invitation = operator.invite(&server, "alice", Terms { expires: Some(soon), ..Terms::default() });
        let client = Client::start(socks5_only(invitation)).await.unwrap();
        let now = Terms { expires: Some(now()), ..Terms::default() };
        operator.store.set_terms(&"alice".parse().unwrap(), &now, false).unwrap();
        let failure = client.run().await;
        assert!(failure.to_string().contains("the invitation has expired. Ask"), "{failure}");
    })
    .await;
}

#[tokio::test]
async fn an_account_reaches_what_it_is_allowed_to() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut operator = Operator::of(&server);
        let allow = vec!["127.0.0.0/31".parse().unwrap()];
        let invitation = operator.invite(&server, "alice", Terms { allow, ..Terms::default() });
        let proxy = client(socks5_only(invitation)).await.socks5.unwrap();
        let near = echo_server().await;
        let far = echo_server_at("127.0.0.2:0".parse().unwrap()).await;
        let (mut tcp, code, _) = socks5(proxy, CONNECT, near).await;
        assert_eq!(code, 0);
        assert_eq!(converse(&mut tcp, b"hello ").await, b"hello goodbye");
        let (_, code, _) = socks5(proxy, CONNECT, far).await;
        assert_eq!(code, 2, "not allowed by ruleset");
    })
    .await;
}

#[tokio::test]
async fn what_passes_is_counted_for_its_account() {
    within(async {
        let server = Server::start(AllowPrivate);
        let mut operator = Operator::of(&server);
        let terms = Terms { rate: Some(BitRate::from_mbps(1_000)), ..Terms::default() };
        let invitation = operator.invite(&server, "alice", terms);
        let proxy = client(socks5_only(invitation)).await.socks5.unwrap();
        let (mut tcp, _, _) = socks5(proxy, CONNECT, echo_server().await).await;
        let sent = pattern(300_000);
        assert_eq!(converse(&mut tcp, &sent).await.len(), sent.len() + b"goodbye".len());
        let alice: Name = "alice".parse().unwrap();
        // The server writes it down by itself.
        let usage = loop {
            let usage = operator.store.find(&alice).unwrap().usage;
            if usage.sum() > 0 {
                break usage;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!((usage.up, usage.down), (300_000, 300_007));
    })
    .await;
}

/// What an office has: listing and revoking stay quick because each is one query; the count of rows
/// is all that a test can tell.
#[tokio::test]
async fn ten_thousand_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let record = |number: u32| {
        let mut id = [1; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        Record::new(AccountId(id), format!("user{number}").parse().unwrap(), Terms::default())
    };
    let records: Vec<_> = (0..10_000).map(record).collect();
    store.add(&records).unwrap();
    let accounts = Accounts::open(Store::open(dir.path()).unwrap(), AccountId([0; 16])).unwrap();
    let last = accounts.find(records[9_999].id).await.unwrap();
    store.revoke(&[records[9_999].name.clone()], now()).unwrap();
    last.over().await;
    assert_eq!(store.list().unwrap().len(), 10_001);
    assert_eq!(accounts.find(records[0].id).await.unwrap().over_now(), None);
    accounts.close().await;
}

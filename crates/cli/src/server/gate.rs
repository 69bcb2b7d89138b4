//! Lets nobody in without a token: the control stream's hello, and its answer.
//!
//! Until then a client has one stream and 64 KiB ([`mendpath::Admission`]) and no seat: strangers
//! cannot take the seats of those who were invited.

use std::{sync::Arc, time::Duration};

use mendpath::{Connection, RecvStream, SendStream};
use tokio::time::{Instant, timeout_at};

use super::{
    Drain,
    seats::{Seat, Seats},
};
use crate::{
    accounts::{Account, AccountId, Accounts, Over},
    protocol::{CloseCode, DecodeError, Hello, MAX_MESSAGE, Reply, read_frame, write_frame},
    token::{Service, TokenSecret},
};

/// How long a client may take from its first packet to its hello.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks tokens for one service.
#[derive(Debug)]
pub struct Gate {
    tokens: TokenSecret,
    service: Service,
    seats: Option<Arc<Seats>>,
    accounts: Option<Arc<Accounts>>,
    drain: Option<Arc<Drain>>,
}

/// A client that was let in.
#[derive(Debug)]
pub struct Admitted {
    /// The control stream: its end is the client's goodbye.
    pub control: (SendStream, RecvStream),
    /// Its seat, if they are counted; dropped when the client is gone.
    pub seat: Option<Seat>,
    /// Its account, if there are some.
    pub account: Option<Arc<Account>>,
}

impl Gate {
    /// A gate for the tokens of this secret.
    pub fn new(tokens: TokenSecret, service: Service) -> Self {
        Self { tokens, service, seats: None, accounts: None, drain: None }
    }

    /// Lets in only so many clients at a time, and of one account no more than its share of them
    /// while there are others.
    #[must_use]
    pub fn with_seats(mut self, seats: usize) -> Self {
        self.seats = Some(Seats::new(seats));
        self
    }

    /// So many seats from now on, if they are counted.
    pub(super) fn set_seats(&self, seats: usize) {
        if let Some(counted) = &self.seats {
            counted.set_total(seats);
        }
    }

    /// Lets in only clients whose account is in order.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Arc<Accounts>) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Lets nobody in once the server drains.
    #[must_use]
    pub(super) fn with_drain(mut self, drain: Arc<Drain>) -> Self {
        self.drain = Some(drain);
        self
    }

    fn is_draining(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.is_on())
    }

    /// Waits for the client's hello and answers it.
    ///
    /// # Errors
    /// The code with which the connection was closed.
    pub async fn admit(&self, connection: &Connection) -> Result<Admitted, CloseCode> {
        self.admit_before(connection, Instant::now() + HELLO_TIMEOUT).await
    }

    /// The same, with a hello that must come before `deadline`.
    ///
    /// # Errors
    /// The code with which the connection was closed.
    pub async fn admit_before(
        &self,
        connection: &Connection,
        deadline: Instant,
    ) -> Result<Admitted, CloseCode> {
        let admitted = match timeout_at(deadline, self.hear(connection)).await {
            Ok(result) => result,
            Err(_) => Err(CloseCode::HelloTimeout),
        };
        if let Err(code) = admitted {
            let reason = match code {
                CloseCode::Unavailable if self.is_draining() => DRAINING,
                code => reason(code),
            };
            connection.close(code.into(), reason.as_bytes());
        }
        admitted
    }

    async fn hear(&self, connection: &Connection) -> Result<Admitted, CloseCode> {
        let (mut send, mut receive) = connection.accept_bi().await.map_err(|_| CloseCode::Done)?;
        let body = read_frame(&mut receive, MAX_MESSAGE).await.ok().flatten().ok_or(CloseCode::Protocol)?;
        let hello = Hello::decode(&body).map_err(|error| match error {
            DecodeError::Unknown("version") => CloseCode::Version,
            _ => CloseCode::Protocol,
        })?;
        if hello.service != self.service {
            return Err(CloseCode::WrongService);
        }
        if !self.tokens.accepts(self.service, hello.token.as_bytes()) {
            return Err(CloseCode::TokenRefused);
        }
        let id = AccountId(hello.token.id());
        let account = self.account(id).await?;
        if self.is_draining() {
            return Err(CloseCode::Unavailable);
        }
        let seat = match &self.seats {
            Some(seats) => {
                let accounts = self.accounts.as_ref().map_or(1, |accounts| accounts.in_order());
                Some(seats.take(id, accounts).ok_or(CloseCode::Unavailable)?)
            }
            None => None,
        };
        // Before the client hears of it: what it does next may need more than strangers have.
        connection.admit();
        write_frame(&mut send, &Reply::ok().encode()).await.map_err(|_| CloseCode::Done)?;
        Ok(Admitted { control: (send, receive), seat, account })
    }

    /// The account of a token that was accepted.
    async fn account(&self, id: AccountId) -> Result<Option<Arc<Account>>, CloseCode> {
        let Some(accounts) = &self.accounts else { return Ok(None) };
        let account = accounts.find(id).await.ok_or(CloseCode::TokenRefused)?;
        account.over_now().map_or(Ok(Some(account)), |over| Err(over.into()))
    }
}

impl From<Over> for CloseCode {
    fn from(over: Over) -> Self {
        match over {
            Over::Revoked => Self::Revoked,
            Over::Expired => Self::Expired,
            Over::UsedUp => Self::UsedUp,
        }
    }
}

/// Why a server that drains lets nobody in.
const DRAINING: &str = "it is being stopped";

/// For people who look at packets or logs.
pub(super) fn reason(code: CloseCode) -> &'static str {
    match code {
        CloseCode::Done => "",
        CloseCode::Protocol => "malformed hello",
        CloseCode::TokenRefused => "token refused",
        CloseCode::Version => "unknown protocol version",
        CloseCode::HelloTimeout => "no hello in time",
        CloseCode::WrongService => "another service",
        CloseCode::Unavailable => "it has as many clients as it takes, or as it takes of this account",
        CloseCode::Revoked => "the invitation was revoked",
        CloseCode::Expired => "the invitation has expired",
        CloseCode::UsedUp => "the invitation's quota is used up",
    }
}

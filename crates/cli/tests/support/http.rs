//! Origin servers that do what a test says, and programs that speak HTTP by hand: a library would
//! correct what is to be tried.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::ANY;

/// What an origin server has heard: for each connection the requests on it, head and body.
pub type Heard = Arc<Mutex<Vec<Vec<String>>>>;

/// An origin server.
pub struct Origin {
    pub address: SocketAddr,
    pub heard: Heard,
}

impl Origin {
    /// Every request on every connection.
    pub fn requests(&self) -> Vec<String> {
        self.heard.lock().unwrap().concat()
    }

    /// How many requests each connection brought.
    pub fn connections(&self) -> Vec<usize> {
        self.heard.lock().unwrap().iter().map(Vec::len).collect()
    }
}

/// What an origin server does after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It waits for the next request.
    Keep,
    /// It closes.
    Close,
    /// It closes with a reset.
    Reset,
}

/// An origin server that answers each request, head and body, with what `answer` makes of it.
pub async fn origin(answer: impl Fn(&str) -> (String, Then) + Send + Sync + 'static) -> Origin {
    let answer = Arc::new(answer);
    talking_origin(move |mut tcp, heard| {
        let answer = answer.clone();
        async move {
            while let Some(request) = hear_request(&mut tcp).await {
                let (said, then) = answer(&request);
                heard(request);
                if tcp.write_all(said.as_bytes()).await.is_err() || then == Then::Close {
                    return;
                }
                if then == Then::Reset {
                    // What was said arrives first.
                    let _ = tcp.read(&mut [0]).await;
                    socket2::SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).unwrap();
                    return;
                }
            }
        }
    })
    .await
}

/// An origin server that does with each connection what `talk` says, which tells what it heard.
pub async fn talking_origin<F>(
    talk: impl Fn(TcpStream, Box<dyn Fn(String) + Send + Sync>) -> F + Send + 'static,
) -> Origin
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(ANY).await.unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Heard::default());
    let books = heard.clone();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let number = {
                let mut books = books.lock().unwrap();
                books.push(Vec::new());
                books.len() - 1
            };
            let books = books.clone();
            let note = Box::new(move |request| books.lock().unwrap()[number].push(request));
            tokio::spawn(talk(tcp, note));
        }
    });
    Origin { address, heard }
}

/// A complete answer whose connection is kept.
pub fn ok(body: &str) -> (String, Then) {
    (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()), Then::Keep)
}

/// A request, head and body; `None` at the end of the connection.
pub async fn hear_request(tcp: &mut TcpStream) -> Option<String> {
    let mut request = hear_head(tcp).await?;
    let body = hear_body(tcp, &request).await?;
    request += &String::from_utf8(body).unwrap();
    Some(request)
}

/// Up to the empty line.
async fn hear_head(tcp: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// `None` if it is cut.
async fn hear_body(tcp: &mut TcpStream, head: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = field(head, "content-length") {
        body = vec![0; length.parse().unwrap()];
        tcp.read_exact(&mut body).await.ok()?;
    } else if field(head, "transfer-encoding") == Some("chunked") {
        while !body.ends_with(b"0\r\n\r\n") {
            body.push(tcp.read_u8().await.ok()?);
        }
    }
    Some(body)
}

/// The value of a field, whose name is given in lower case.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// A program's connection to the proxy.
pub struct Program(pub TcpStream);

impl Program {
    pub async fn new(proxy: SocketAddr) -> Self {
        Self(TcpStream::connect(proxy).await.unwrap())
    }

    pub async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next response, head and body.
    pub async fn hear(&mut self) -> (String, String) {
        let head = self.hear_head().await;
        let body = hear_body(&mut self.0, &head).await.expect("the body is cut");
        (head, String::from_utf8(body).unwrap())
    }

    /// The next response's head alone.
    pub async fn hear_head(&mut self) -> String {
        hear_head(&mut self.0).await.expect("the connection ended before the response")
    }

    /// Says and hears.
    pub async fn ask(&mut self, text: &str) -> (String, String) {
        self.say(text).await;
        self.hear().await
    }

    /// What comes until the connection ends, and whether it ended with a reset.
    pub async fn hear_rest(&mut self) -> (String, bool) {
        let mut rest = Vec::new();
        let ended = self.0.read_to_end(&mut rest).await;
        (String::from_utf8_lossy(&rest).into_owned(), ended.is_err())
    }
}

/// The status code of a response.
pub fn code(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

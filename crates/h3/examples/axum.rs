//! A router of axum by HTTP/3.
//!
//! ```sh
//! cargo run -p mendpath-h3 --example axum -- 127.0.0.1:4433
//! ```
//! It prints the pin of its key, which `--example client` takes.

use std::{error::Error, future::pending, net::SocketAddr};

use axum::{
    Router,
    extract::{Path, State},
    routing::{get, post},
};
use mendpath::{Endpoint, Identity, ServerConfig};
use mendpath_h3::{ALPN, Server};

/// What handlers share.
#[derive(Clone)]
struct Greeting(&'static str);

fn app() -> Router {
    Router::new()
        .route("/", get(|| async { "Ask for /hello/NAME, or post something to /echo.\n" }))
        .route("/hello/{name}", get(hello))
        .route("/echo", post(|text: String| async { text }))
        .with_state(Greeting("Hello"))
}

async fn hello(State(Greeting(word)): State<Greeting>, Path(name): Path<String>) -> String {
    format!("{word}, {name}.\n")
}

/// Serves until the endpoint is closed.
pub async fn serve(endpoint: Endpoint) {
    let app = app();
    while let Some(incoming) = endpoint.accept().await {
        let app = app.clone();
        tokio::spawn(async move {
            let served = match incoming.await {
                Ok(connection) => Server::default().serve(connection, app, pending()).await,
                Err(error) => return eprintln!("{error}"),
            };
            if let Err(error) = served {
                eprintln!("{error}");
            }
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listen: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:4433").parse()?;
    let identity = Identity::self_signed(["localhost"])?;
    let config = ServerConfig::with_identity(&identity)?.alpn([ALPN]);
    let endpoint = Endpoint::server(config, listen)?;
    println!("{} {}", endpoint.local_addrs()[0], identity.pin());
    serve(endpoint).await;
    Ok(())
}

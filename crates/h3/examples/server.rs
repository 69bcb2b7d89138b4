//! Greets whoever asks by HTTP/3.
//!
//! ```sh
//! cargo run -p mendpath-h3 --example server -- 127.0.0.1:4433
//! ```
//! It prints the pin of its key, which `--example client` takes.

use std::{convert::Infallible, error::Error, future::pending, net::SocketAddr};

use http::{Request, Response};
use http_body_util::Full;
use mendpath::{Endpoint, Identity, ServerConfig};
use mendpath_h3::{ALPN, Body, Server};
use tower::service_fn;

async fn greet(request: Request<Body>) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    let text = format!("You asked for {}.\n", request.uri().path());
    Ok(Response::new(Full::new(text.into())))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listen: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:4433").parse()?;
    let identity = Identity::self_signed(["localhost"])?;
    let config = ServerConfig::with_identity(&identity)?.alpn([ALPN]);
    let endpoint = Endpoint::server(config, listen)?;
    println!("{} {}", endpoint.local_addrs()[0], identity.pin());
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            // Any service of tower does, also an axum::Router.
            match incoming.await {
                Ok(connection) => {
                    if let Err(error) =
                        Server::default().serve(connection, service_fn(greet), pending()).await
                    {
                        eprintln!("{error}");
                    }
                }
                Err(error) => eprintln!("{error}"),
            }
        });
    }
    Ok(())
}

//! Fetches one page by HTTP/3 from `--example server`.
//!
//! ```sh
//! cargo run -p mendpath-h3 --example client -- 127.0.0.1:4433 PIN /hello
//! ```

use std::{error::Error, io::Write as _};

use bytes::Buf as _;
use mendpath::{ClientConfig, Endpoint};
use mendpath_h3::{ALPN, Connection};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(pin)) = (arguments.next(), arguments.next()) else {
        return Err("usage: client ADDRESS PIN [PATH]".into());
    };
    let path = arguments.next().unwrap_or_else(|| "/".to_owned());

    let config = ClientConfig::with_pinned_key(pin.parse()?).alpn([ALPN]);
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect_with(&config, address.parse()?, "localhost")?.await?;
    let (mut driver, mut requests) = h3::client::new(Connection::new(connection)).await?;
    let driving = tokio::spawn(async move { driver.wait_idle().await });

    let request = http::Request::get(format!("https://localhost{path}")).body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    eprintln!("{}", stream.recv_response().await?.status());
    while let Some(mut data) = stream.recv_data().await? {
        std::io::stdout().write_all(&data.copy_to_bytes(data.remaining()))?;
    }
    drop((stream, requests));
    driving.await?;
    endpoint.wait_idle().await;
    Ok(())
}

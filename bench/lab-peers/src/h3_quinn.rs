//! A web server: files of a directory, held in memory, by HTTP/3. Over quinn with its own settings
//! it is the peer of `mendpath serve`; the same over Mendpath tells what of a difference is the
//! transport's.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, sync::Arc};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use h3::{quic::BidiStream, server::RequestStream};
use http::{Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// What is served, and where.
#[derive(Args)]
pub(crate) struct Web {
    /// UDP address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// The directory.
    #[arg(long)]
    root: std::path::PathBuf,
    /// Certificate chain, PEM.
    #[arg(long)]
    cert: std::path::PathBuf,
    /// Its key, PEM.
    #[arg(long)]
    key: std::path::PathBuf,
    /// The transport.
    #[arg(long, value_enum, default_value_t = Over::Quinn)]
    over: Over,
}

/// What carries HTTP/3.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Over {
    Quinn,
    Mendpath,
}

type Files = BTreeMap<String, (Bytes, &'static str)>;

pub(crate) async fn run(web: Web) -> anyhow::Result<()> {
    let mut files = Files::new();
    read(&web.root, "/", &mut files)?;
    if let Some(index) = files.get("/index.html").cloned() {
        files.insert("/".to_owned(), index);
    }
    let files = Arc::new(files);
    let chain = CertificateDer::pem_file_iter(&web.cert)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&web.key)?;
    let mut tls =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    match web.over {
        Over::Quinn => over_quinn(tls, web.listen, files).await,
        Over::Mendpath => over_mendpath(tls, web.listen, files).await,
    }
}

async fn over_quinn(tls: rustls::ServerConfig, listen: SocketAddr, files: Arc<Files>) -> anyhow::Result<()> {
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = quinn::Endpoint::server(config, listen)?;
    while let Some(incoming) = endpoint.accept().await {
        let files = files.clone();
        tokio::spawn(report(
            async move { connection(h3_quinn::Connection::new(incoming.await?), files).await },
        ));
    }
    Ok(())
}

async fn over_mendpath(
    tls: rustls::ServerConfig,
    listen: SocketAddr,
    files: Arc<Files>,
) -> anyhow::Result<()> {
    let endpoint = mendpath::Endpoint::server(mendpath::ServerConfig::with_tls(tls), listen)?;
    while let Some(incoming) = endpoint.accept().await {
        let files = files.clone();
        tokio::spawn(report(async move {
            connection(mendpath_h3::Connection::new(incoming.await?), files).await
        }));
    }
    Ok(())
}

async fn report(served: impl Future<Output = anyhow::Result<()>>) {
    if let Err(error) = served.await {
        eprintln!("{error}");
    }
}

async fn connection<C>(quic: C, files: Arc<Files>) -> anyhow::Result<()>
where
    C: h3::quic::Connection<Bytes> + Send + 'static,
    C::BidiStream: BidiStream<Bytes> + Send + 'static,
{
    let mut connection = h3::server::Connection::new(quic).await?;
    while let Some(resolver) = connection.accept().await? {
        let files = files.clone();
        tokio::spawn(async move {
            let (request, stream) = resolver.resolve_request().await?;
            answer(files.get(request.uri().path()), stream).await
        });
    }
    Ok(())
}

async fn answer<S: BidiStream<Bytes>>(
    file: Option<&(Bytes, &'static str)>,
    mut stream: RequestStream<S, Bytes>,
) -> anyhow::Result<()> {
    let Some((bytes, kind)) = file else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        return Ok(stream.finish().await?);
    };
    let head = Response::builder()
        .header(http::header::CONTENT_TYPE, *kind)
        .header(http::header::CONTENT_LENGTH, bytes.len())
        .body(())?;
    stream.send_response(head).await?;
    stream.send_data(bytes.clone()).await?;
    Ok(stream.finish().await?)
}

fn read(directory: &Path, prefix: &str, files: &mut Files) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), files)?;
        } else {
            let kind = match name.rsplit('.').next() {
                Some("html") => "text/html",
                Some("css") => "text/css",
                Some("js") => "text/javascript",
                Some("bmp") => "image/bmp",
                _ => "application/octet-stream",
            };
            files.insert(name, (fs::read(entry.path())?.into(), kind));
        }
    }
    Ok(())
}

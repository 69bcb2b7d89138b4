//! A web server: files of a directory, held in memory, by HTTP/3. Over quinn with its own settings
//! it is the peer of `mendpath serve`; the same over Mendpath tells what of a difference is the
//! transport's. Answers have the fields that `serve` gives a file, so that what is compared sends the
//! same.

use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, sync::Arc, time::SystemTime};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use h3::{quic::BidiStream, server::RequestStream};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
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

type Files = BTreeMap<String, File>;

/// What is answered.
#[derive(Clone)]
struct File {
    bytes: Bytes,
    /// All but the date.
    fields: HeaderMap,
}

impl File {
    fn read(path: &Path, kind: &'static str) -> anyhow::Result<Self> {
        let modified = fs::metadata(path)?.modified()?;
        let since = modified.duration_since(SystemTime::UNIX_EPOCH)?;
        let bytes = Bytes::from(fs::read(path)?);
        let tag = format!("\"{:x}-{:x}.{:x}\"", bytes.len(), since.as_secs(), since.subsec_nanos());
        let said = |value: String| HeaderValue::try_from(value);
        let fields = HeaderMap::from_iter([
            (ETAG, said(tag)?),
            (LAST_MODIFIED, said(httpdate::fmt_http_date(modified))?),
            (VARY, HeaderValue::from_static("accept-encoding")),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
            (CONTENT_LENGTH, said(bytes.len().to_string())?),
            (CONTENT_TYPE, HeaderValue::from_static(kind)),
        ]);
        Ok(Self { bytes, fields })
    }

    fn head(&self) -> anyhow::Result<Response<()>> {
        let mut head = Response::new(());
        *head.headers_mut() = self.fields.clone();
        let date = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))?;
        head.headers_mut().insert(DATE, date);
        Ok(head)
    }
}

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
    file: Option<&File>,
    mut stream: RequestStream<S, Bytes>,
) -> anyhow::Result<()> {
    let Some(file) = file else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        return Ok(stream.finish().await?);
    };
    stream.send_response(file.head()?).await?;
    stream.send_data(file.bytes.clone()).await?;
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
            files.insert(name, File::read(&entry.path(), kind)?);
        }
    }
    Ok(())
}

//! What every stack that looks like quinn does alike.

use tokio::{io::copy, net::TcpStream};

/// Copies both directions to their ends.
pub(crate) async fn splice<R, W>(tcp: TcpStream, mut receive: R, mut send: W)
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    use tokio::io::AsyncWriteExt as _;
    let (mut read, mut write) = tcp.into_split();
    let forth = async {
        copy(&mut read, &mut send).await?;
        send.shutdown().await
    };
    let back = async {
        copy(&mut receive, &mut write).await?;
        write.shutdown().await
    };
    // A side that goes away ends the other by being dropped.
    let _ = tokio::try_join!(forth, back);
}

/// Both ends over a crate with quinn's interface; `$transport` makes its settings.
#[macro_export]
macro_rules! forwarder {
    ($quic:ident, $transport:ident) => {
        pub(crate) async fn run(end: $crate::End) -> anyhow::Result<()> {
            match end {
                $crate::End::Server { listen, origin, dir, congestion } => {
                    server(listen, origin, &dir, congestion).await
                }
                $crate::End::Client { bind, server, listen, dir, congestion } => {
                    client(bind, server, listen, &dir, congestion).await
                }
            }
        }

        async fn server(
            listen: std::net::SocketAddr,
            origin: std::net::SocketAddr,
            dir: &std::path::Path,
            congestion: $crate::Congestion,
        ) -> anyhow::Result<()> {
            let (chain, key) = $crate::certificate::make(dir)?;
            let mut config = $quic::ServerConfig::with_single_cert(chain, key)?;
            config.transport_config(std::sync::Arc::new($transport(congestion)));
            let endpoint = $quic::Endpoint::server(config, listen)?;
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else { return };
                    while let Ok((send, receive)) = connection.accept_bi().await {
                        tokio::spawn(async move {
                            let Ok(tcp) = tokio::net::TcpStream::connect(origin).await else { return };
                            let _ = tcp.set_nodelay(true);
                            $crate::forward::splice(tcp, receive, send).await;
                        });
                    }
                });
            }
            Ok(())
        }

        async fn client(
            bind: std::net::SocketAddr,
            server: std::net::SocketAddr,
            listen: std::net::SocketAddr,
            dir: &std::path::Path,
            congestion: $crate::Congestion,
        ) -> anyhow::Result<()> {
            let roots = $crate::certificate::find(dir).await?;
            let mut config = $quic::ClientConfig::with_root_certificates(roots)?;
            config.transport_config(std::sync::Arc::new($transport(congestion)));
            // Only one of the two stacks wants it mutable.
            #[allow(unused_mut)]
            let mut endpoint = $quic::Endpoint::client(bind)?;
            endpoint.set_default_client_config(config);
            let connection = endpoint.connect(server, $crate::certificate::NAME)?.await?;
            let listener = tokio::net::TcpListener::bind(listen).await?;
            loop {
                let (tcp, _) = tokio::select! {
                    accepted = listener.accept() => accepted?,
                    reason = connection.closed() => return Err(reason.into()),
                };
                tcp.set_nodelay(true)?;
                let connection = connection.clone();
                tokio::spawn(async move {
                    let Ok((send, receive)) = connection.open_bi().await else { return };
                    $crate::forward::splice(tcp, receive, send).await;
                });
            }
        }
    };
}

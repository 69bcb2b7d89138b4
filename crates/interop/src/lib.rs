//! Mendpath at the table with other QUIC stacks.
//!
//! A client and a server of `hq-interop`, the protocol of the public QUIC interop runner: HTTP/0.9
//! over streams. The client asks `GET /path` on a bidirectional stream, the server sends the file.
//! See docs/interop.md. It is for tests: the client verifies no server when told so, and neither
//! side knows who it talks to.
//!
//! Start with [`Args`] and [`run`].

mod args;
mod client;
mod failure;
mod hq;
mod runner;
mod server;
mod tls;

pub use args::{Args, ClientArgs, Command, ServerArgs};
pub use failure::Failure;

/// Does what the command line says.
///
/// # Errors
/// With one line for the person who typed it.
pub async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Server(args) => server::Server::start(&args)?.serve().await,
        Command::Client(args) => client::fetch(args).await,
        Command::Runner => match runner::command()? {
            runner::Order::Server(args) => server::Server::start(&args)?.serve().await,
            runner::Order::Client(batches) => {
                for args in batches {
                    client::fetch(args).await?;
                }
                Ok(())
            }
        },
    }
}

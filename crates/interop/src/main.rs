//! The command `mendpath-interop`: see [`mendpath_interop`].

use std::process::ExitCode;

use clap::Parser as _;
use mendpath_interop::Args;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match mendpath_interop::run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("mendpath-interop: {failure}");
            failure.exit_code()
        }
    }
}

//! `mendpath receive`.

use super::{Signals, print, state_dir};
use crate::{
    args::ReceiveArgs,
    console::say,
    failure::Failure,
    transfer::{ReceiveOptions, Received, Receiver},
    transport::Choice,
};

/// Returns the exit code.
pub(super) async fn run(args: ReceiveArgs) -> Result<u8, Failure> {
    let options = ReceiveOptions {
        listen: args.listen,
        advertise: args.advertise,
        state: state_dir(args.state)?,
        out: args.out,
        force: args.force,
        transport: Choice::default(),
    };
    let mut signals = Signals::with_hangup();
    let receiver = Receiver::bind(&options)?;
    print(&format!("{}\n", receiver.invitation()))?;
    say("waiting for `mendpath send FILE INVITATION`; the invitation is on stdout");
    let received = tokio::select! {
        received = receiver.receive_one() => Ok(received?),
        ending = signals.next() => Err(ending),
    };
    let code = match received {
        Ok(file) => {
            tell(&file);
            0
        }
        Err(ending) => {
            say("stopped; no file has arrived");
            ending.exit_code()
        }
    };
    receiver.close().await;
    Ok(code)
}

fn tell(file: &Received) {
    let seconds = file.took.as_secs_f64();
    say(format_args!(
        "received {}: {} in {seconds:.2} s, {:.1} Mbit/s, checksum right",
        file.path.display(),
        units::Bytes(file.size),
        file.size as f64 * 8.0 / seconds.max(1e-9) / 1e6
    ));
}

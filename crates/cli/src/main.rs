//! The binary: arguments in, exit code out.

use std::process::ExitCode;

use mendpath_cli::{
    commands,
    config::{Source, Unreadable},
    console,
    failure::Failure,
};

/// Gives memory back once a burst of traffic is over; the system's allocator keeps what the busiest
/// moment needed (docs/decisions/0016).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before there are threads.
    #[cfg(all(feature = "tunnel", target_os = "linux"))]
    if let Some(code) = mendpath_cli::tun::inside::main() {
        return code;
    }
    let (cli, reload) = match Source::process().read() {
        Ok(read) => read,
        Err(Unreadable::CommandLine(error)) => {
            return console::answer(&error).map_or_else(|failure| fail(&failure), ExitCode::from);
        }
        Err(Unreadable::Configuration(failure)) => return fail(&failure),
    };
    console::init_logs(cli.verbose, cli.log_format);
    let runtime = match commands::threads(&cli.command).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            console::say(format_args!(
                "error: cannot start: {error}. Check this user's limits of threads and open files."
            ));
            return ExitCode::FAILURE;
        }
    };
    let end = commands::end(&cli.command);
    let code = match runtime.block_on(commands::run(cli, reload)) {
        Ok(code) => code,
        Err(failure) => {
            console::say(format_args!("error: {failure}"));
            failure.exit_code()
        }
    };
    end(runtime);
    ExitCode::from(code)
}

/// Tells of a failure before anything was begun.
fn fail(failure: &Failure) -> ExitCode {
    console::say(format_args!("error: {failure}"));
    ExitCode::from(failure.exit_code())
}

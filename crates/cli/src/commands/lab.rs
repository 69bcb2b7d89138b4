//! `mendpath lab`.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use lab::{
    Adapter, Bulk, Cancel, Connection, Fetch, LabError, NetworkTemplate, Options, Plan, Progress, Report,
    Row, Scale, SetUp,
};

use super::{
    Ending, Signals,
    folder::Folder,
    is_in_foreground,
    outputs::{check_outputs, is_stdout, put},
    print, unwritable, write,
};
use crate::{
    args::{LabArgs, LabCommand, LabRunArgs},
    failure::{Failure, io_reason},
    lab_call, lab_relay,
    long_work::LongWork,
    task::came_to,
};

/// Returns the exit code: of `exec` that of its command.
pub(super) async fn run(args: LabArgs) -> Result<u8, Failure> {
    let done = match args.command {
        None => measure(plan_of_flags(&args)?, Scale::Paper, args.run, None).await,
        Some(LabCommand::List) => print(&list()),
        Some(LabCommand::Run { plan, scale, publish, publish_to, run }) => {
            let folder = publish.then(|| folder_of(&publish_to, &plan, scale));
            measure(find(&plan)?, scale, run, folder).await
        }
        Some(LabCommand::Exec { paths, server, seed, words }) => {
            let server: Option<Vec<String>> =
                server.map(|server| server.split_whitespace().map(str::to_owned).collect());
            let options = Options::new(PathBuf::new());
            let cancel = options.cancel.clone();
            let work = move || lab::execute(&paths, seed, server.as_deref(), &words, &options);
            let code = until_interrupted(cancel, CtrlC::IsTheCommands, work).await?;
            return Ok(u8::try_from(code).unwrap_or(1));
        }
        Some(LabCommand::RelayServer { listen, origin, admin, relay }) => {
            lab_relay::server(listen, origin, admin, &relay).await
        }
        Some(LabCommand::CallServer { listen, admin, protection, relay }) => {
            lab_call::server(listen, admin, protection, &relay).await
        }
        Some(LabCommand::CallClient { call, relay }) => lab_call::client(&call, &relay).await,
        Some(LabCommand::RelayClient { listen, server, from, relay }) => {
            lab_relay::client(listen, server, &from, &relay).await
        }
    };
    done.map(|()| 0)
}

/// What the flags say, as a plan.
fn plan_of_flags(args: &LabArgs) -> Result<Plan, Failure> {
    let usage = |wrong: &str| {
        let next = "See `mendpath lab --help` for an example, or run a plan of `mendpath lab list`";
        Failure::usage("cannot tell what to measure", wrong, next)
    };
    if args.paths.is_empty() || args.run.contenders.is_empty() {
        return Err(usage("there are no --path or no --contender"));
    }
    if args.fetch.is_none() && args.bulk.is_none() {
        return Err(usage("there is neither --fetch nor --bulk"));
    }
    let connection = if args.keep { Connection::Kept } else { Connection::New };
    let setup = if args.setup { SetUp::Counted } else { SetUp::Apart };
    let fetch = args.fetch.map(|size| {
        let count = args.run.count.unwrap_or(200);
        let (at_once, beside) = (args.at_once, args.beside);
        Fetch { connection, setup, limit: args.limit, at_once, beside, ..Fetch::of(size, count) }
    });
    let bulk = args.bulk.map(|size| Bulk { limit: args.limit, ..Bulk::of(size, args.transfers) });
    let paths = args.paths.iter().map(ToString::to_string).collect();
    let mut plan = Plan::of(NetworkTemplate { name: String::new(), paths, contenders: Vec::new() });
    plan.fetches.extend(fetch);
    plan.bulks.extend(bulk);
    plan.contenders.clone_from(&args.run.contenders);
    plan.check().map_err(|wrong| usage(&wrong))?;
    Ok(plan)
}

/// A plan of this name, or the file.
fn find(name: &str) -> Result<Plan, Failure> {
    let built_in = lab::PLANS.iter().find(|(known, _)| *known == name);
    let plan = match built_in {
        Some((name, text)) => Plan::parse(name, text),
        None => Plan::read(Path::new(name)),
    };
    plan.map_err(failure)
}

fn list() -> String {
    let mut text = "Plans (mendpath lab run NAME):\n".to_owned();
    for (name, plan) in lab::PLANS {
        let title = Plan::parse(name, plan).map_or_else(|error| error.to_string(), |plan| plan.title);
        text += &format!("  {name:<16} {title}\n");
    }
    text += "Adapters (contenders of these names):\n";
    for (name, adapter) in Adapter::built_in() {
        text += &format!("  {name:<16} {}\n", adapter.about);
    }
    text
}

/// Where a plan's data are kept: in a folder of its name.
fn folder_of(root: &Path, plan: &str, scale: Scale) -> PathBuf {
    let name = Path::new(plan).file_stem().unwrap_or_default().to_string_lossy();
    match scale {
        Scale::Paper => root.join(&*name),
        scale => root.join(format!("{name}-{}", scale.name())),
    }
}

async fn measure(
    mut plan: Plan,
    scale: Scale,
    args: LabRunArgs,
    folder: Option<PathBuf>,
) -> Result<(), Failure> {
    check_outputs(&[("--json", &args.json), ("--html", &args.html)])?;
    let folder = folder.map(Folder::make).transpose()?;
    if !args.contenders.is_empty() {
        plan.networks.iter_mut().for_each(|network| network.contenders.clear());
        plan.contenders.clone_from(&args.contenders);
    }
    plan.seed = args.seed.unwrap_or(plan.seed);
    let mut options = Options::new(program(&args)?);
    options.scale = scale;
    options.count = args.count;
    options.browser.clone_from(&args.browser);
    for file in &args.adapters {
        let (name, adapter) = adapter(file)?;
        options.adapters.insert(name, adapter);
    }
    let shown = Arc::new(LongWork::begin("lab", "{bar:30} {pos}/{len} {msg}"));
    let cancel = options.cancel.clone();
    let told = Arc::clone(&shown);
    let work = move || {
        let mut tell = |progress: Progress| told.show(progress.done, progress.total, &progress.now);
        lab::run(&plan, &options, &mut tell)
    };
    let report = until_interrupted(cancel, CtrlC::EndsTheLab, work).await;
    shown.end();
    let report = report?;
    let measured = check_measured(&report.rows);
    // Hours of work may be in it: what cannot go to one place goes to the others all the same.
    let published = match (&folder, &measured) {
        (Some(folder), Ok(())) => publish(&report, folder.path()),
        _ => Ok(()),
    };
    let shown = show(&report, &args);
    published.and(shown).and(measured)
}

/// That at least one of the contenders did something.
fn check_measured(rows: &[Row]) -> Result<(), Failure> {
    let errors: Option<Vec<&str>> = rows.iter().map(|row| row.error.as_deref()).collect();
    match errors.as_deref() {
        Some([first, ..]) => Err(Failure::new(
            "cannot measure any of the contenders",
            first,
            "See what is said of each; nothing was published",
        )),
        _ => Ok(()),
    }
}

/// Writes the data, and what is made from them; pictures of an earlier run go.
fn publish(report: &Report, folder: &Path) -> Result<(), Failure> {
    let old = std::fs::read_dir(folder).map_err(|error| unwritable(folder, &error))?;
    for file in old.flatten().map(|entry| entry.path()) {
        if file.extension().is_some_and(|extension| extension == "svg") {
            std::fs::remove_file(&file).map_err(|error| unwritable(&file, &error))?;
        }
    }
    write(&folder.join("results.json"), &lab::data(report))?;
    lab::published(report).iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

fn show(report: &Report, args: &LabRunArgs) -> Result<(), Failure> {
    let written = put_files(report, args);
    let to_stdout = [&args.html, &args.json].into_iter().flatten().any(|file| is_stdout(file));
    let printed = if to_stdout { Ok(()) } else { print(&lab::table(report)) };
    written.and(printed)
}

/// Each of them although another cannot be written.
fn put_files(report: &Report, args: &LabRunArgs) -> Result<(), Failure> {
    let html = args.html.as_deref().map_or(Ok(()), |file| put(file, &lab::html(report)));
    let json = args.json.as_deref().map_or(Ok(()), |file| put(file, &lab::json(report)));
    html.and(json)
}

fn program(args: &LabRunArgs) -> Result<PathBuf, Failure> {
    match &args.mendpath {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe().map_err(|error| {
            Failure::new("cannot find the running program", io_reason(&error), "Name it with --mendpath")
        }),
    }
}

fn adapter(file: &Path) -> Result<(String, Adapter), Failure> {
    let tried = format!("cannot use the adapter {}", file.display());
    let next = "See docs/lab.md for an example";
    let read = File::open(file).and_then(plans::whole_text);
    let text = read.map_err(|error| Failure::usage(&*tried, io_reason(&error), next))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let adapter = Adapter::parse(&name, &text).map_err(|wrong| Failure::usage(&*tried, wrong, next))?;
    Ok((name, adapter))
}

/// Who is meant by what is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CtrlC {
    EndsTheLab,
    /// The command has it too, and may have last words. The lab ends with it.
    IsTheCommands,
}

/// Does the lab's work on a thread that may wait, and lets it clean up when the user or the system
/// wants the program to end.
async fn until_interrupted<T: Send + 'static>(
    cancel: Cancel,
    ctrl_c: CtrlC,
    work: impl FnOnce() -> Result<T, LabError> + Send + 'static,
) -> Result<T, Failure> {
    let mut signals = Signals::with_hangup();
    let mut work = tokio::task::spawn_blocking(work);
    let (result, ending) = loop {
        tokio::select! {
            result = &mut work => break (result, None),
            ending = signals.next() => {
                let typed = ending == Ending::Interrupt && is_in_foreground();
                if !(typed && ctrl_c == CtrlC::IsTheCommands) {
                    cancel.cancel();
                    break (work.await, Some(ending));
                }
            }
        }
    };
    came_to(result).map_err(|error| match (error, ending) {
        (LabError::Interrupted, Some(ending)) => {
            let next = "Start it again; a smaller --count takes less time";
            Failure::stopped("stopped the lab", "what it had made is removed", next, ending.exit_code())
        }
        (error, _) => failure(error),
    })
}

fn failure(error: LabError) -> Failure {
    let next = match &error {
        LabError::NotRoot | LabError::NotLinux => {
            "Or use `mendpath demo`, which compares recovery schemes without root on any system"
        }
        LabError::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            "Root in a container is not enough: it needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
        }
        _ => "See `mendpath lab --help` and docs/lab.md",
    };
    let wrong = match &error {
        LabError::System { what, source } => format!("cannot {what}: {}", io_reason(source)),
        LabError::ReadPlan { path, source } => {
            format!("cannot read the plan {}: {}", path.display(), io_reason(source))
        }
        other => other.to_string(),
    };
    if error.is_usage() {
        Failure::usage("cannot run the lab", wrong, next)
    } else {
        Failure::new("cannot run the lab", wrong, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux has a device that is always full.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_can_be_written_is_where_something_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("results.json");
        let report = Report {
            schema: "mendpath-lab/1".into(),
            version: "0".into(),
            title: "a night's work".into(),
            about: String::new(),
            scale: "paper".into(),
            seed: 1,
            count: None,
            versions: std::collections::BTreeMap::new(),
            machine: lab::Machine::default(),
            rows: Vec::new(),
        };
        let args = LabRunArgs {
            contenders: Vec::new(),
            count: None,
            seed: None,
            mendpath: None,
            browser: None,
            adapters: Vec::new(),
            json: Some(json.clone()),
            html: Some("/dev/full".into()),
        };
        let failure = put_files(&report, &args).unwrap_err();
        assert!(failure.to_string().contains("the disk is full"), "{failure}");
        assert!(std::fs::read_to_string(json).unwrap().contains("a night's work"));
    }

    #[test]
    fn one_contender_that_works_is_a_result() {
        let works = Row::default();
        let fails = Row { error: Some("there is no such program".to_owned()), ..Row::default() };
        assert!(check_measured(&[fails.clone(), works]).is_ok());
        assert!(check_measured(&[]).is_ok(), "a plan without contenders is refused before");
        let failure = check_measured(&[fails.clone(), fails]).unwrap_err();
        assert_eq!((failure.exit_code(), failure.parts().1), (1, "there is no such program"));
    }
}

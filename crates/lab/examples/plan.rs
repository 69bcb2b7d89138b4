//! Runs a plan without the command line of mendpath: for work on the lab itself.
//!
//! ```text
//! cargo build -p mendpath-lab --example plan
//! sudo target/debug/examples/plan PLAN.toml MENDPATH-PROGRAM [paper] > results.json
//! ```

use std::{error::Error, io::Write as _, path::Path};

use lab::{Options, Plan, Scale, json, table};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(plan), Some(mendpath)) = (arguments.next(), arguments.next()) else {
        return Err("name a plan and the program mendpath".into());
    };
    let mut options = Options::new(mendpath.into());
    if arguments.next().as_deref() == Some("paper") {
        options.scale = Scale::Paper;
    }
    let report = lab::run(&Plan::read(Path::new(&plan))?, &options, &mut |progress| {
        let _ = writeln!(std::io::stderr(), "{}/{} {}", progress.done, progress.total, progress.now);
    })?;
    write!(std::io::stderr(), "{}", table(&report))?;
    write!(std::io::stdout(), "{}", json(&report))?;
    Ok(())
}

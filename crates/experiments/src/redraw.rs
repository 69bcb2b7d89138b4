//! What stands beside a plan, made again from its committed summary: no run is needed after a change
//! of how figures or tables look, and a test asks whether the files belong together.

use std::path::Path;

use plans::{PlanError, Scale};

use crate::{
    curves,
    plan::{Plan, PlanFileError},
    readme,
    summary::{Summary, committed_summary},
};

/// The files that belong to a committed summary.
#[derive(Clone, PartialEq, Debug)]
pub struct Redrawn {
    /// The scale.
    pub scale: Scale,
    /// What the summary says.
    pub summary: Summary,
    /// Names beside the plan, and contents: figures, and the README with its tables.
    pub files: Vec<(String, String)>,
    /// Figures that cannot be drawn, as their curves are not there.
    pub missing: Vec<String>,
    /// The README says that the summary is of another plan than stands there now: then there are no
    /// files, as they would say otherwise.
    pub is_of_another_plan: bool,
}

/// What belongs to the summary of `scale` that is committed beside a plan; `None` if there is none.
///
/// # Errors
/// If the plan or the summary cannot be used.
pub fn redraw(file: &Path, scale: Scale) -> Result<Option<Redrawn>, PlanFileError> {
    let mut plan = Plan::load(file, scale)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let name = committed_summary(scale);
    let Ok(csv) = std::fs::read_to_string(folder.join(&name)) else { return Ok(None) };
    let wrap = |error: PlanError| PlanFileError { file: folder.join(&name), line: None, error };
    let summary = Summary::read_csv(&plan, &csv).map_err(wrap)?;
    plan.seeds = if summary.seeds == 0 { plan.own_seeds } else { summary.seeds };
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let (mut files, mut missing) = (Vec::new(), Vec::new());
    if readme::plan_hash(&readme, scale).is_some_and(|hash| hash != plan.hash_text()) {
        return Ok(Some(Redrawn { scale, summary, files, missing, is_of_another_plan: true }));
    }
    for figure in &plan.figures {
        let beside = |ending: &str| match scale {
            Scale::Quick => format!("{}.{ending}", figure.file),
            scale => format!("{}-{}.{ending}", figure.file, scale.name()),
        };
        let curves = match std::fs::read_to_string(folder.join(beside("csv"))) {
            Ok(csv) => curves::read(&csv),
            Err(_) if figure.has_curves() => {
                missing.push(beside("csv"));
                continue;
            }
            Err(_) => Vec::new(),
        };
        files.push((beside("svg"), figure.draw(&plan, &summary, &curves)));
    }
    let tables = readme::tables(&plan, &summary);
    if let Some(text) = readme::filled(&readme, scale, &tables) {
        files.push(("README.md".to_owned(), text));
    }
    Ok(Some(Redrawn { scale, summary, files, missing, is_of_another_plan: false }))
}

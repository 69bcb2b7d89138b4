//! The files of an experiment.

use std::{
    io,
    path::{Path, PathBuf},
};

use plans::Scale;

use crate::{
    campaign::CampaignError,
    columns::{Columns, Data},
    plan::Plan,
    row::Row,
    summary::{Summary, settings},
};

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// In the order of writing.
    pub written: Vec<PathBuf>,
}

/// Every run: a row with plan, plan hash, version, scheme, axes, seed, trace hash, and a column per
/// metric. Where an axis has the name of one of our own columns, ours begins with `run_`.
pub fn runs_table(plan: &Plan, rows: &[Row]) -> Columns {
    let mut columns = Columns::default();
    let texts = |of: fn(&Row) -> &String| Data::Texts(rows.iter().map(|row| of(row).clone()).collect());
    let whole = |of: fn(&Row) -> u64| Data::Whole(rows.iter().map(|row| of(row) as i64).collect());
    columns.add(&own(plan, "plan"), texts(|row| &row.plan));
    columns.add(&own(plan, "plan_hash"), texts(|row| &row.plan_hash));
    columns.add(&own(plan, "version"), texts(|row| &row.version));
    columns.add(&own(plan, "scheme"), texts(|row| &row.scheme));
    for (place, axis) in plan.axes.iter().enumerate() {
        columns.add(&axis.name, settings(rows.iter().map(|row| &row.point[place].1).collect()));
    }
    columns.add(&own(plan, "seed"), whole(|row| row.seed));
    columns.add(&own(plan, "flows"), whole(|row| row.flows));
    columns.add(&own(plan, "trace"), texts(|row| &row.trace));
    columns.add(&own(plan, "hops"), whole(|row| row.hops));
    columns.add(
        &own(plan, "simulated_s"),
        Data::Numbers(rows.iter().map(|row| Some(row.simulated_s)).collect()),
    );
    for (place, metric) in plan.metrics.iter().enumerate() {
        let value = |row: &Row| row.metrics.get(place).and_then(|(_, value)| *value);
        columns.add(&metric.name, Data::Numbers(rows.iter().map(value).collect()));
    }
    columns
}

/// The distributions, one row per run and share.
pub fn distributions_table(plan: &Plan, rows: &[Row]) -> Columns {
    let all = || rows.iter().flat_map(|row| row.distribution.iter().map(move |point| (row, point)));
    let mut columns = Columns::default();
    columns.add(&own(plan, "plan_hash"), Data::Texts(all().map(|(row, _)| row.plan_hash.clone()).collect()));
    columns.add(&own(plan, "version"), Data::Texts(all().map(|(row, _)| row.version.clone()).collect()));
    columns.add(&own(plan, "scheme"), Data::Texts(all().map(|(row, _)| row.scheme.clone()).collect()));
    for (place, axis) in plan.axes.iter().enumerate() {
        columns.add(&axis.name, settings(all().map(|(row, _)| &row.point[place].1).collect()));
    }
    columns.add(&own(plan, "seed"), Data::Whole(all().map(|(row, _)| row.seed as i64).collect()));
    columns.add(&own(plan, "share"), Data::Numbers(all().map(|(_, point)| Some(point.1)).collect()));
    columns.add(&own(plan, "fct_ms"), Data::Numbers(all().map(|(_, point)| Some(point.0)).collect()));
    columns
}

/// What a column of ours is called: readers of tables take no name twice.
fn own(plan: &Plan, name: &str) -> String {
    let taken = plan.axes.iter().any(|axis| axis.name == name);
    if taken { format!("run_{name}") } else { name.to_owned() }
}

/// Writes `runs.parquet`, `distributions.parquet` (if there are any), `summary.csv`,
/// `summary.json`, `summary.md`, the figures, and the curves of those that show more than the
/// summary has, to `folder`.
///
/// # Errors
/// At the first file that cannot be written, or if a model cannot be worked out.
pub fn write_all(plan: &Plan, rows: &[Row], folder: &Path) -> Result<(Summary, Files), CampaignError> {
    let summary = Summary::new(plan, rows)?;
    let mut written = Vec::new();
    let facts =
        [("plan", plan.name.as_str()), ("scale", plan.scale.name()), ("plan_hash", &summary.plan_hash)];
    let mut tables = vec![("runs.parquet", runs_table(plan, rows))];
    if plan.distributions {
        tables.push(("distributions.parquet", distributions_table(plan, rows)));
    }
    for (name, table) in tables {
        let mut bytes = Vec::new();
        let file = folder.join(name);
        let wrap = |error| CampaignError::File { file: file.clone(), error: io::Error::other(error) };
        table.parquet(&mut bytes, &facts).map_err(wrap)?;
        write(&mut written, file, &bytes)?;
    }
    let json = serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n";
    let csv = summary.columns(plan).csv();
    let table = crate::readme::tables(plan, &summary);
    for (name, text) in [("summary.json", &json), ("summary.csv", &csv), ("summary.md", &table)] {
        write(&mut written, folder.join(name), text.as_bytes())?;
    }
    for figure in &plan.figures {
        let curves = figure.curves(plan, rows);
        if figure.has_curves() {
            let csv = crate::curves::table(&curves).csv();
            write(&mut written, folder.join(format!("{}.csv", figure.file)), csv.as_bytes())?;
        }
        let svg = figure.draw(plan, &summary, &curves);
        write(&mut written, folder.join(format!("{}.svg", figure.file)), svg.as_bytes())?;
    }
    Ok((summary, Files { written }))
}

fn write(written: &mut Vec<PathBuf>, file: PathBuf, bytes: &[u8]) -> Result<(), CampaignError> {
    std::fs::write(&file, bytes).map_err(|error| CampaignError::File { file: file.clone(), error })?;
    written.push(file);
    Ok(())
}

/// Puts the summary into the README beside the plan, between the marks of its scale, and copies
/// `summary.csv`, the figures and their curves there; at the paper's scale their names end in `-paper`, so that
/// both stand side by side.
///
/// # Errors
/// At the first file that cannot be read or written; a README without marks is left as it is.
pub fn publish(plan: &Plan, summary: &Summary, files: &Files) -> Result<Files, CampaignError> {
    let folder = plan.file.parent().unwrap_or(Path::new("."));
    let mut written = Vec::new();
    for from in &files.written {
        let Some(name) = published_name(from, plan.scale) else { continue };
        let bytes = std::fs::read(from);
        let bytes = bytes.map_err(|error| CampaignError::File { file: from.clone(), error })?;
        write(&mut written, folder.join(name), &bytes)?;
    }
    let readme = folder.join("README.md");
    if let Ok(text) = std::fs::read_to_string(&readme)
        && let Some(text) = crate::readme::filled(&text, plan.scale, &crate::readme::tables(plan, summary))
    {
        write(&mut written, readme, text.as_bytes())?;
    }
    Ok(Files { written })
}

/// What a file is called beside the plan; `None` if it stays where it is.
fn published_name(file: &Path, scale: Scale) -> Option<String> {
    let stem = file.file_stem()?.to_str()?;
    let ending = file.extension()?.to_str()?;
    let kept = matches!(ending, "svg" | "csv");
    kept.then(|| match scale {
        Scale::Quick => format!("{stem}.{ending}"),
        scale => format!("{stem}-{}.{ending}", scale.name()),
    })
}

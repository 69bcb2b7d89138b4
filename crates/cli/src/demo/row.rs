//! The rows of the comparison.

use mendpath::RecoveryKind;

use super::{DemoOptions, PathSpec};

/// One row: a scheme over some paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// For people.
    pub name: String,
    /// What mends.
    pub recovery: RecoveryKind,
    /// Over what; each with its place among the user's paths, which decides its losses.
    pub paths: Vec<(usize, PathSpec)>,
    /// `false` for the row that shows what would be possible without loss.
    pub lossy: bool,
}

/// The rows for `options`: the worst path alone without recovery, all paths with every scheme, and
/// all paths without loss.
pub fn rows(options: &DemoOptions) -> Vec<Row> {
    let all: Vec<_> = options.paths.iter().cloned().enumerate().collect();
    let count = match all.len() {
        1 => "1 path".to_owned(),
        n => format!("{n} paths"),
    };
    let mut rows = Vec::new();
    if all.len() > 1 {
        let worst = worst(&all);
        let name = format!("1 path (#{})", worst.0 + 1);
        rows.push(Row { name, recovery: RecoveryKind::None, paths: vec![worst.clone()], lossy: true });
    }
    for &recovery in &options.recovery {
        rows.push(Row { name: count.clone(), recovery, paths: all.clone(), lossy: true });
    }
    let limit = all.iter().map(|(place, path)| (*place, path.without_loss())).collect();
    let recovery = options.recovery.last().copied().unwrap_or_default();
    rows.push(Row { name: format!("{count}, no loss"), recovery, paths: limit, lossy: false });
    rows
}

/// The one that loses most, of equals the slowest.
fn worst(paths: &[(usize, PathSpec)]) -> &(usize, PathSpec) {
    let badness = |path: &PathSpec| (path.loss.get() + path.loss_up.get(), path.rtt.as_nanos());
    let compare = |a: &&(usize, PathSpec), b: &&(usize, PathSpec)| {
        badness(&a.1).partial_cmp(&badness(&b.1)).expect("loss rates are numbers")
    };
    paths.iter().max_by(compare).expect("there is a path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_comparison() {
        let rows = rows(&DemoOptions::default());
        let names: Vec<_> = rows.iter().map(|row| format!("{} {}", row.name, row.recovery)).collect();
        assert_eq!(
            names,
            [
                "1 path (#2) none",
                "2 paths none",
                "2 paths proactive",
                "2 paths fuso",
                "2 paths cofuso",
                "2 paths auto",
                "2 paths, no loss auto"
            ]
        );
        assert_eq!(rows.iter().filter(|row| !row.lossy).count(), 1);
        assert!(rows[0].paths[0].1.is_lossy());
        assert!(rows[6].paths.iter().all(|(_, path)| !path.is_lossy()));
    }

    #[test]
    fn one_path_alone_is_not_compared_with_itself() {
        let options = DemoOptions {
            paths: vec!["loss=3%".parse().unwrap()],
            recovery: vec![RecoveryKind::Fuso],
            ..DemoOptions::default()
        };
        let rows = rows(&options);
        assert_eq!(
            rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
            ["1 path", "1 path, no loss"]
        );
        assert_eq!(rows[1].recovery, RecoveryKind::Fuso);
    }
}

//! Rows from several machines become one experiment.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{campaign::Campaign, journal::Journal, row::Row};

/// Why rows do not make an experiment. Nothing has been kept of them then.
#[derive(Debug, Error)]
pub enum MergeError {
    /// A file.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// A row that is not of this plan.
    #[error("{} has rows of {plan} with the hash {hash}, which is another plan or another scale", file.display())]
    OtherPlan {
        /// Where it is.
        file: PathBuf,
        /// The plan's name in the row.
        plan: String,
        /// The plan's hash in the row.
        hash: String,
    },
    /// A row of the plan that it does not ask for.
    #[error(
        "{} has a row of {scheme} with seed {seed}, version {version}, that the plan does not ask for: \
         it comes of another version of the program, or of more seeds",
        file.display()
    )]
    OtherRun {
        /// Where it is.
        file: PathBuf,
        /// The row's scheme.
        scheme: String,
        /// The row's seed.
        seed: u64,
        /// The version of what ran.
        version: String,
    },
    /// Two rows of one run that differ: machines or compilers disagree.
    #[error(
        "{} has another result for {scheme} with seed {seed} than a file before it: \
         two machines disagree about the same run",
        file.display()
    )]
    Disagree {
        /// Where the second one is.
        file: PathBuf,
        /// The rows' scheme.
        scheme: String,
        /// The rows' seed.
        seed: u64,
    },
    /// Runs without a row.
    #[error("{missing} of {runs} runs are in none of the files, the first is {scheme} with seed {seed}")]
    Missing {
        /// How many.
        missing: usize,
        /// How many the plan asks for.
        runs: usize,
        /// The first one's scheme.
        scheme: String,
        /// The first one's seed.
        seed: u64,
    },
}

impl Campaign<'_> {
    /// Takes over the rows of `journals`, such as those of all shards, into this campaign's own:
    /// [`run`](Self::run) then has nothing left to do.
    ///
    /// # Errors
    /// Unless the rows are those of this plan, each run has one, and rows of one run agree, with those
    /// that the campaign has already as well. Lines that are not whole count as missing.
    pub fn merge(&self, journals: &[PathBuf]) -> Result<(), MergeError> {
        let jobs = self.jobs();
        let places = self.places(&jobs);
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        for file in journals {
            for row in read(file)? {
                if (&row.plan, &row.plan_hash) != (&self.plan.name, &self.plan.hash_text()) {
                    return Err(MergeError::OtherPlan {
                        file: file.clone(),
                        plan: row.plan,
                        hash: row.plan_hash,
                    });
                }
                let (scheme, seed) = (row.scheme.clone(), row.seed);
                let Some(place) = places.of(&row) else {
                    return Err(MergeError::OtherRun {
                        file: file.clone(),
                        scheme,
                        seed,
                        version: row.version,
                    });
                };
                if *rows.entry(place).or_insert_with(|| row.clone()) != row {
                    return Err(MergeError::Disagree { file: file.clone(), scheme, seed });
                }
            }
        }
        if let Some(first) = (0..jobs.len()).find(|place| !rows.contains_key(place)) {
            return Err(MergeError::Missing {
                missing: jobs.len() - rows.len(),
                runs: jobs.len(),
                scheme: self.plan.schemes[jobs[first].scheme].name.clone(),
                seed: jobs[first].seed,
            });
        }
        let failed = |error| MergeError::File { file: self.journal.clone(), error };
        let (mut journal, known) = Journal::open_alone(&self.journal).map_err(failed)?;
        for row in known {
            if let Some(other) = places.of(&row).and_then(|place| rows.remove(&place))
                && other != row
            {
                let (file, scheme, seed) = (self.journal.clone(), row.scheme, row.seed);
                return Err(MergeError::Disagree { file, scheme, seed });
            }
        }
        rows.values().try_for_each(|row| journal.add(row)).map_err(failed)
    }
}

fn read(file: &Path) -> Result<Vec<Row>, MergeError> {
    Journal::read(file).map_err(|error| MergeError::File { file: file.to_owned(), error })
}

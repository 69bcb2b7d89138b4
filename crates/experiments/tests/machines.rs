//! Every machine gives the same bytes: some plans of the repository, run again, have the summary that is
//! committed. `.ci/neon` runs this on an emulated aarch64 as well; `plans/rebuild all` compares all of them.

use std::{fs, path::Path};

use mendpath_experiments::{Campaign, Plan, Scale, write_all};

/// Plans of little work that together have lossy links, a radio link, losses in bursts, and traffic drawn from a
/// distribution.
const PLANS: [&str; 5] = ["cofuso-fig9", "cofuso-fig11", "ctcp-fig6a", "ctcp-fig10", "fuso-bursty"];

#[test]
fn plans_that_are_run_again_have_the_committed_summary() {
    for name in PLANS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans").join(name);
        let plan = Plan::load(&folder.join("plan.toml"), Scale::Quick).unwrap();
        let made = tempfile::tempdir().unwrap();
        let rows = Campaign::new(&plan, made.path()).unwrap().run(2, &|_| {}).unwrap();
        write_all(&plan, &rows, made.path()).unwrap();
        let [made, committed] =
            [made.path(), &folder].map(|folder| fs::read_to_string(folder.join("summary.csv")).unwrap());
        for (line, (made, committed)) in made.lines().zip(committed.lines()).enumerate() {
            assert_eq!(made, committed, "{name}, line {}", line + 1);
        }
        assert_eq!(made.len(), committed.len(), "{name}");
    }
}

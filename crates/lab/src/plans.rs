//! The plans that the lab comes with: files of `plans`, one line each.

macro_rules! plan {
    ($name:literal) => {
        ($name, include_str!(concat!("../plans/", $name, ".toml")))
    };
}

/// Name and TOML text of each.
pub const PLANS: &[(&str, &str)] = &[
    plan!("bursty-chains"),
    plan!("bursty-loss"),
    plan!("call"),
    plan!("call-cut"),
    plan!("cofuso-drops"),
    plan!("cofuso-m"),
    plan!("cofuso-sizes"),
    plan!("ctcp-fig7"),
    plan!("ctcp-goodput"),
    plan!("ctcp-sharing"),
    plan!("htpc-tunnel"),
    plan!("kernel-flows"),
    plan!("kernel-goodput"),
    plan!("never-worse"),
    plan!("one-lossy-path"),
    plan!("page"),
    plan!("reordering"),
    plan!("robust-cut"),
    plan!("shared-link"),
    plan!("slp-emulation"),
    plan!("slp-tunnel"),
    plan!("socks"),
    plan!("tunnel"),
    plan!("tunnel-speed"),
    plan!("two-paths"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn every_file_is_listed_and_can_be_used() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/plans");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort();
        assert_eq!(files, PLANS.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
        for (name, text) in PLANS {
            Plan::parse(name, text).unwrap();
        }
    }
}

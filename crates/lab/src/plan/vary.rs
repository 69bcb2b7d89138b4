//! One network for each combination of varied values.

use std::collections::BTreeMap;

use super::NetworkTemplate;
use crate::{Contender, PathSpec};

/// Most networks of one plan.
const MAX_NETWORKS: usize = 1_000;

/// A network of which every value is known.
#[derive(Clone, Debug)]
pub struct Network {
    /// What it is called.
    pub name: String,
    /// The values of varied names.
    pub vary: BTreeMap<String, String>,
    /// Its paths.
    pub paths: Vec<PathSpec>,
    /// Who takes part on it.
    pub contenders: Vec<Contender>,
}

/// Fills in `templates`, the name that varies fastest being the last.
pub(super) fn networks(
    templates: &[NetworkTemplate],
    contenders: &[Contender],
    vary: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<Network>, String> {
    let combinations = combinations(vary)?;
    let mut networks: Vec<Network> = Vec::new();
    for template in templates {
        let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
        for combination in &combinations {
            // What a template does not mention does not multiply it.
            let mut vary = combination.clone();
            vary.retain(|name, _| template.uses(name));
            if !seen.contains(&vary) {
                let network = network(template, contenders, &vary)?;
                if networks.iter().any(|other| (&other.name, &other.vary) == (&network.name, &network.vary)) {
                    return Err(format!("two networks are called `{}`", network.name));
                }
                networks.push(network);
                seen.push(vary);
            }
        }
    }
    if let Some(name) = vary.keys().find(|name| !templates.iter().any(|template| template.uses(name))) {
        return Err(format!("vary: no [[network]] has `{{{name}}}` in it"));
    }
    if networks.len() > MAX_NETWORKS {
        return Err(format!("it has {} networks: vary less, {MAX_NETWORKS} are the most", networks.len()));
    }
    Ok(networks)
}

impl NetworkTemplate {
    fn uses(&self, name: &str) -> bool {
        let braces = format!("{{{name}}}");
        self.name.contains(&braces) || self.paths.iter().any(|path| path.contains(&braces))
    }
}

fn combinations(vary: &BTreeMap<String, Vec<String>>) -> Result<Vec<BTreeMap<String, String>>, String> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in vary {
        if values.is_empty() {
            return Err(format!("vary: `{name}` has no values"));
        }
        if all.len() * values.len() > MAX_NETWORKS {
            return Err(format!("it varies too much: {MAX_NETWORKS} combinations are the most"));
        }
        let with = |known: &BTreeMap<String, String>, value: &String| {
            let mut known = known.clone();
            known.insert(name.clone(), value.clone());
            known
        };
        all = all.iter().flat_map(|known| values.iter().map(move |value| with(known, value))).collect();
    }
    Ok(all)
}

fn network(
    template: &NetworkTemplate,
    contenders: &[Contender],
    vary: &BTreeMap<String, String>,
) -> Result<Network, String> {
    let paths: Vec<PathSpec> = template
        .paths
        .iter()
        .map(|path| {
            let text = fill(path, vary)?;
            text.parse().map_err(|error| format!("path `{text}`: {error}"))
        })
        .collect::<Result<_, String>>()?;
    let name = match template.name.as_str() {
        "" => paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
        name => fill(name, vary)?,
    };
    let contenders = if template.contenders.is_empty() { contenders } else { &template.contenders };
    Ok(Network { name, vary: vary.clone(), paths, contenders: contenders.to_vec() })
}

fn fill(text: &str, vary: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = text.to_owned();
    for (name, value) in vary {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    if filled.contains(['{', '}']) {
        return Err(format!("`{filled}` has a name in braces that [vary] does not know"));
    }
    Ok(filled)
}

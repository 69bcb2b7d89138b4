//! Which parts of a crate know each other in both directions.
//!
//! A file knows another if it names something that is defined there, through whatever re-exports. A
//! folder and its own parts know each other by design and do not count. Rooms are the modules right
//! below a crate's root.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Item, UseTree, Visibility,
    visit::{self, Visit},
};

use super::{
    Count,
    source::{Crate, Module},
};

pub const ROOMS: &str = "circles between rooms of a crate";

/// Re-exports of re-exports are followed so far.
const DEPTH: usize = 8;

pub fn count(crates: &[Crate]) -> Vec<Count> {
    let (mut rooms, mut room_arrows) = (0, Vec::new());
    let (mut files, mut file_arrows) = (0, Vec::new());
    for of in crates {
        let arrows = Names::of(&of.modules).arrows();
        let between_rooms = arrows.iter().filter_map(|(from, to)| {
            let (a, b) = (from.path.first()?, to.path.first()?);
            (a != b).then(|| Arrow { from: a.clone(), to: b.clone(), seen: from.file.clone() })
        });
        let between_files = arrows.iter().filter_map(|(from, to)| {
            let related = from.path.starts_with(&to.path) || to.path.starts_with(&from.path);
            let other = !related && from.file != to.file;
            other.then(|| Arrow { from: from.file.clone(), to: to.file.clone(), seen: String::new() })
        });
        for circle in circles(between_rooms.collect()) {
            rooms += 1;
            room_arrows.push(format!("{}: {}", of.name, circle.members.join(", ")));
            room_arrows.extend(
                circle.arrows.into_iter().map(|a| format!("    {} -> {} ({})", a.from, a.to, a.seen)),
            );
        }
        for circle in circles(between_files.collect()) {
            files += circle.members.len();
            file_arrows.extend(circle.arrows.into_iter().map(|a| format!("{} -> {}", a.from, a.to)));
        }
    }
    vec![Count::said(ROOMS, rooms, room_arrows), Count::said("files in circles", files, file_arrows)]
}

/// Something knows something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: String,
    to: String,
    /// A file that shows it.
    seen: String,
}

/// What can all be reached from each other, and by which arrows.
struct Circle {
    members: Vec<String>,
    arrows: Vec<Arrow>,
}

/// What a crate's modules define, and what they call something that is defined elsewhere.
struct Names<'a> {
    modules: BTreeMap<&'a [String], &'a Module>,
    exports: BTreeMap<(&'a [String], String), Vec<String>>,
}

impl<'a> Names<'a> {
    fn of(modules: &'a [Module]) -> Self {
        let mut names = Self { modules: BTreeMap::new(), exports: BTreeMap::new() };
        for module in modules {
            names.modules.entry(&module.path).or_insert(module);
        }
        for module in modules {
            for item in &module.items {
                let Item::Use(import) = item else { continue };
                if matches!(import.vis, Visibility::Inherited) {
                    continue;
                }
                leaves(&import.tree, &mut Vec::new(), &mut |target, name| {
                    if let Some(target) = names.absolute(&module.path, target) {
                        names.exports.insert((&module.path, name), target);
                    }
                });
            }
        }
        names
    }

    /// Who names something of whom.
    fn arrows(&self) -> Vec<(&'a Module, &'a Module)> {
        let mut arrows = BTreeMap::new();
        for module in self.modules.values() {
            let mut paths = Paths::default();
            module.items.iter().for_each(|item| paths.visit_item(item));
            for path in paths.found {
                let target = self.absolute(&module.path, &path).and_then(|path| self.home(&path, DEPTH));
                if let Some(target) = target {
                    arrows.insert((&module.path, &target.path), (*module, target));
                }
            }
        }
        arrows.into_values().collect()
    }

    /// A path from the crate's root; `None` if it leads out of the crate.
    fn absolute(&self, from: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (mut above, mut rest) = (from.split_last()?.1, rest);
                while let Some((next, further)) = rest.split_first()
                    && next == "super"
                {
                    (above, rest) = (above.split_last()?.1, further);
                }
                Some([above, rest].concat())
            }
            name => {
                let child = [from, &[name.to_owned()]].concat();
                self.modules.contains_key(child.as_slice()).then(|| [child.as_slice(), rest].concat())
            }
        }
    }

    /// The module that defines what the path names.
    fn home(&self, path: &[String], depth: usize) -> Option<&'a Module> {
        let inside = (0..=path.len()).rev().find_map(|end| Some((end, self.modules.get(&path[..end])?)));
        let (end, module) = inside?;
        let Some(name) = path.get(end) else { return Some(module) };
        match self.exports.get(&(module.path.as_slice(), name.clone())) {
            Some(target) if depth > 0 => self.home(&[target, &path[end + 1..]].concat(), depth - 1),
            _ => Some(module),
        }
    }
}

/// Every path in a module's code.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        leaves(&import.tree, &mut Vec::new(), &mut |path, _| _ = self.found.insert(path.to_vec()));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {
        // A module of its own.
    }
}

/// Tells every path that a `use` names, and what it is called here.
fn leaves(tree: &UseTree, path: &mut Vec<String>, tell: &mut impl FnMut(&[String], String)) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            leaves(&step.tree, path, tell);
            path.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, tell)),
        UseTree::Glob(_) => tell(path, "*".to_owned()),
        UseTree::Name(name) if name.ident == "self" => {
            tell(path, path.last().cloned().unwrap_or_default());
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            tell(path, name.ident.to_string());
            path.pop();
        }
        UseTree::Rename(renamed) => {
            path.push(renamed.ident.to_string());
            tell(path, renamed.rename.to_string());
            path.pop();
        }
    }
}

/// The groups of two and more that can all be reached from each other.
fn circles(mut arrows: Vec<Arrow>) -> Vec<Circle> {
    arrows.sort();
    arrows.dedup_by(|a, b| (&a.from, &a.to) == (&b.from, &b.to));
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in &arrows {
        next.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut groups = BTreeSet::new();
    for (from, to) in &reached {
        let back = |other: &&&str| reached.get(**other).is_some_and(|further| further.contains(from));
        let members: Vec<&str> = to.iter().filter(back).copied().collect();
        if members.len() > 1 {
            groups.insert(members);
        }
    }
    let circle = |members: Vec<&str>| {
        let has = |name: &String| members.contains(&name.as_str());
        let arrows = arrows.iter().filter(|arrow| has(&arrow.from) && has(&arrow.to)).cloned().collect();
        Circle { arrows, members: members.into_iter().map(str::to_owned).collect() }
    };
    groups.into_iter().map(circle).collect()
}

fn reach<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(at) = waiting.pop() {
        for to in next.get(at).into_iter().flatten() {
            if reached.insert(*to) {
                waiting.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_trees_are_none() {
        let found = |text: &str| -> Vec<Vec<String>> {
            let arrow = |text: &str| {
                let (from, to) = text.split_once('>').unwrap();
                Arrow { from: from.to_owned(), to: to.to_owned(), seen: String::new() }
            };
            circles(text.split(' ').map(arrow).collect()).into_iter().map(|circle| circle.members).collect()
        };
        assert!(found("a>b a>c b>d c>d").is_empty());
        assert_eq!(found("a>b b>c c>a c>d e>a"), [["a", "b", "c"]]);
        assert_eq!(found("a>b b>a c>d d>c").len(), 2);
    }

    #[test]
    fn names_lead_through_re_exports_to_where_things_are_defined() {
        let module = |path: &[&str], code: &str| Module {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            file: format!("{}.rs", path.join("/")),
            lines: 0,
            items: syn::parse_file(code).unwrap().items,
        };
        let modules = [
            module(&[], "pub use inner::Thing; mod inner; mod user;"),
            module(&["inner"], "pub use deep::Thing; mod deep;"),
            module(&["inner", "deep"], "pub struct Thing; use super::super::user::Other;"),
            module(&["user"], "use crate::Thing; pub struct Other; fn f() { std::mem::drop(()) }"),
        ];
        let arrows = Names::of(&modules).arrows();
        let of_user: Vec<&str> = arrows
            .iter()
            .filter(|(from, _)| from.file == "user.rs")
            .map(|(_, to)| to.file.as_str())
            .collect();
        assert_eq!(of_user, ["inner/deep.rs"]);
        let crates = [Crate { name: "it".to_owned(), modules: modules.into() }];
        let counts = count(&crates);
        assert_eq!((counts[0].number.as_str(), counts[1].number.as_str()), ("1", "2"));
        assert_eq!(counts[0].places[0], "it: inner, user");
    }
}

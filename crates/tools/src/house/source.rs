//! The code of the workspace as modules, tests left out.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, ItemMod, Meta};

/// A crate's modules, in the order in which they are declared. A library and a program of one
/// package are one crate here.
pub struct Crate {
    /// The name of its folder.
    pub name: String,
    pub modules: Vec<Module>,
}

/// A module in a file of its own, or in its parent's.
pub struct Module {
    /// Its path below the crate's root, which has an empty one.
    pub path: Vec<String>,
    /// Where it is, from the workspace's folder.
    pub file: String,
    pub lines: usize,
    /// What is not for tests. Modules within the file are modules of their own.
    pub items: Vec<Item>,
}

/// Why the code could not be read.
#[derive(Debug)]
pub struct SourceError {
    file: PathBuf,
    problem: String,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

impl std::error::Error for SourceError {}

impl Crate {
    /// The crates in `tree/crates`, by name.
    ///
    /// # Errors
    /// If a file is missing or is not Rust.
    pub fn read_all(tree: &Path) -> Result<Vec<Self>, SourceError> {
        let folder = tree.join("crates");
        let failed = |error: io::Error| SourceError { file: folder.clone(), problem: error.to_string() };
        let entries =
            fs::read_dir(&folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let mut names: Vec<String> =
            entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.into_iter().map(|name| Self::read(tree, name)).collect()
    }

    fn read(tree: &Path, name: String) -> Result<Self, SourceError> {
        let mut reader = Reader { tree, modules: Vec::new() };
        for root in ["lib.rs", "main.rs"] {
            let file = tree.join("crates").join(&name).join("src").join(root);
            if file.exists() {
                reader.read_file(&file, Vec::new())?;
            }
        }
        Ok(Self { name, modules: reader.modules })
    }

    /// The files of the crate with their lines.
    pub fn files(&self) -> Vec<(&str, usize)> {
        let mut files: Vec<_> = self.modules.iter().map(|m| (m.file.as_str(), m.lines)).collect();
        files.dedup_by_key(|file| file.0);
        files
    }
}

struct Reader<'a> {
    tree: &'a Path,
    modules: Vec<Module>,
}

impl Reader<'_> {
    fn read_file(&mut self, file: &Path, path: Vec<String>) -> Result<(), SourceError> {
        let failed = |problem: String| SourceError { file: file.to_owned(), problem };
        let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| failed(format!("line {}: {error}", error.span().start().line)))?;
        self.add(file, text.lines().count(), path, parsed.items)
    }

    fn add(
        &mut self,
        file: &Path,
        lines: usize,
        path: Vec<String>,
        items: Vec<Item>,
    ) -> Result<(), SourceError> {
        let at = self.modules.len();
        let name = file.strip_prefix(self.tree).unwrap_or(file).to_string_lossy().into_owned();
        self.modules.push(Module { path: path.clone(), file: name, lines, items: Vec::new() });
        let mut own = Vec::new();
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            if let Item::Mod(module) = &item {
                let child = [path.as_slice(), &[module.ident.to_string()]].concat();
                match &module.content {
                    Some((_, items)) => self.add(file, lines, child, items.clone())?,
                    None => self.read_file(&file_of(file, &path, module), child)?,
                }
            }
            own.push(item);
        }
        self.modules[at].items = own;
        Ok(())
    }
}

/// Where the module is that `parent`, at `path`, declares without content.
fn file_of(parent: &Path, path: &[String], module: &ItemMod) -> PathBuf {
    let folder = parent.parent().unwrap_or(Path::new(""));
    let named = module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    if let Some(named) = named {
        return folder.join(named);
    }
    // A module within the file has no folder of its own in its parent's name, so the path says it.
    let stem = parent.file_stem().unwrap_or_default();
    let is_root = path.is_empty() || stem == "mod";
    let folder = if is_root { folder.to_owned() } else { folder.join(stem) };
    let name = module.ident.to_string();
    let beside = folder.join(format!("{name}.rs"));
    if beside.exists() { beside } else { folder.join(name).join("mod.rs") }
}

/// Whether an item is there for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
                && !condition.contains("not")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

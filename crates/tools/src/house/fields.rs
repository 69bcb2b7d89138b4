//! Fields of the transport's two large types that others can reach.

use syn::{Item, Visibility, spanned::Spanned as _};

use super::{Count, source::Crate};

pub const VISIBLE: &str = "fields of `Connection` and `Path` that are visible outside their room";

/// The types, each in the module that is named after it.
const TYPES: &[(&str, &str)] = &[("Connection", "connection"), ("Path", "path")];

pub fn count(crates: &[Crate]) -> Vec<Count> {
    let proto = crates.iter().filter(|of| of.name == "proto").flat_map(|of| &of.modules);
    let (mut visible, mut all) = (Vec::new(), Vec::new());
    for module in proto.filter(|module| module.path.len() == 1) {
        for item in &module.items {
            let Item::Struct(found) = item else { continue };
            if !TYPES.iter().any(|(name, room)| found.ident == name && module.path[0] == *room) {
                continue;
            }
            for field in &found.fields {
                let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                let place = format!("{}:{}: `{name}`", module.file, field.span().start().line);
                // Modules within the room see what is private to it.
                if !matches!(field.vis, Visibility::Inherited) {
                    visible.push(place.clone());
                }
                all.push(place);
            }
        }
    }
    vec![Count::of("fields of `Connection` and `Path`", all), Count::of(VISIBLE, visible)]
}

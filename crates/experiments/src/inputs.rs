//! Files that a plan names: recorded capacities and connection matrices.
//!
//! What stands in a file is put into the plan when that is read, as `{ name, text }` in the place of
//! the name. So the plan's hash covers it, and a plan can go to another machine without its files.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use plans::{Keys, PlanError};
use toml::{Table, Value};

/// The key of `[[fault]]` that names a capacity trace.
pub(crate) const MAHIMAHI: &str = "mahimahi";
/// The key of `[workload]` that names a connection matrix.
pub(crate) const MATRIX: &str = "matrix";

/// Most bytes of a file.
const MOST_BYTES: u64 = 256 << 20;

/// Puts the files that `body` names into it. Their names are relative to `folder`.
pub(crate) fn inline(body: &mut Table, folder: &Path) -> Result<(), PlanError> {
    if let Some(Value::Array(faults)) = body.get_mut("fault") {
        for (n, fault) in (1..).zip(faults) {
            inline_one(fault.as_table_mut(), MAHIMAHI, &format!("fault[{n}]"), folder)?;
        }
    }
    inline_one(body.get_mut("workload").and_then(Value::as_table_mut), MATRIX, "workload", folder)
}

fn inline_one(
    table: Option<&mut Table>,
    key: &'static str,
    at: &str,
    folder: &Path,
) -> Result<(), PlanError> {
    let Some(value) = table.and_then(|table| table.get_mut(key)) else { return Ok(()) };
    let Value::String(name) = value else { return Ok(()) };
    let wrong = |error: &dyn std::fmt::Display| {
        PlanError::value(format!("{at}.{key}"), format!("`{name}` ({error})"), "a file that can be read")
    };
    if name.starts_with('$') {
        return Err(wrong(&"of an axis: names of files cannot be swept"));
    }
    let text = read_file(&folder.join(&*name)).map_err(|error| wrong(&error))?;
    // The same plan elsewhere is the same plan.
    let name = Path::new(&*name).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let named = [("name".to_owned(), Value::String(name)), ("text".to_owned(), Value::String(text))];
    *value = Value::Table(named.into_iter().collect());
    Ok(())
}

/// The text of a file, which may be long, but not without end.
pub(crate) fn read_file(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("longer than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

/// What the file of a key says, if the key is there. `parse` tells line and reason of what is wrong.
pub(crate) fn read<T>(
    keys: &mut Keys<'_>,
    key: &'static str,
    parse: impl FnOnce(&str) -> Result<T, (usize, String)>,
) -> Result<Option<T>, PlanError> {
    if keys.value(key).is_none() {
        return Ok(None);
    }
    let path = keys.path(key);
    let mut file = keys.table(key)?;
    let name = file.text("name")?.unwrap_or("text").to_owned();
    let text = file.need_text("text", "what the file says")?;
    let parsed = parse(text).map_err(|(line, what)| {
        let message = format!("{name}, line {line}: {what}");
        PlanError::Shape { line: None, key: path, message }
    })?;
    file.finish()?;
    Ok(Some(parsed))
}

//! How long functions are, and what their callers have to guess.

use syn::{
    Expr, ExprMethodCall, FnArg, GenericArgument, ImplItemFn, ItemFn, Pat, PathArguments, Signature,
    TraitItemFn, Type,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use super::{
    Count,
    source::{Crate, is_for_tests},
};

/// Functions with so many lines fit a screen.
const SCREEN: usize = 60;
/// Lines that no file should exceed by much.
const LONG_FILE: usize = 600;

pub const TWO_BOOLEANS: &str = "functions that take two or more booleans";
pub const FILTERS: &str = "`filter` with a condition that does not look at the value";

/// What the functions of a file have told.
#[derive(Default)]
struct Functions<'a> {
    file: &'a str,
    lengths: Vec<usize>,
    long: Vec<String>,
    one_boolean: Vec<String>,
    two_booleans: Vec<String>,
    filters: Vec<String>,
    lookups: Vec<String>,
}

pub fn count(crates: &[Crate]) -> Vec<Count> {
    let mut found = Functions::default();
    for module in crates.iter().flat_map(|of| &of.modules) {
        found.file = &module.file;
        module.items.iter().for_each(|item| found.visit_item(item));
    }
    let files: Vec<_> = crates.iter().flat_map(Crate::files).collect();
    let lines: usize = files.iter().map(|file| file.1).sum();
    let long_files = files.iter().filter(|file| file.1 > LONG_FILE);
    found.lengths.sort_unstable();
    let median = found.lengths.get(found.lengths.len() / 2).copied().unwrap_or(0);
    let in_connection = found.lookups.into_iter().filter(|place| place.contains("proto/src/connection"));
    vec![
        Count::said("files", files.len(), Vec::new()),
        Count::said("lines, with comments and the tests within these files", lines, Vec::new()),
        Count::of(
            format!("files above {LONG_FILE} lines"),
            long_files.map(|(file, lines)| format!("{file}: {lines}")).collect(),
        ),
        Count::said("lines of a function, median", median, Vec::new()),
        Count::of(format!("functions above {SCREEN} lines"), found.long),
        Count::of("functions that take a boolean", found.one_boolean),
        Count::of(TWO_BOOLEANS, found.two_booleans),
        Count::of(FILTERS, found.filters),
        Count::of("look-ups of a path by its id in the connection", in_connection.collect()),
    ]
}

impl Functions<'_> {
    fn note(&mut self, signature: &Signature, lines: usize) {
        let line = signature.ident.span().start().line;
        let place = format!("{}:{line}: `{}`", self.file, signature.ident);
        self.lengths.push(lines);
        if lines > SCREEN {
            self.long.push(format!("{place}, {lines}"));
        }
        let types = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some(&*argument.ty),
            _ => None,
        });
        match types.map(booleans).sum::<usize>() {
            0 => {}
            1 => self.one_boolean.push(place),
            _ => {
                self.one_boolean.push(place.clone());
                self.two_booleans.push(place);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.note(&function.sig, lines(function.span()));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.note(&function.sig, lines(function.span()));
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.note(&function.sig, lines(function.span()));
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {
        // A module of its own.
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let place = || format!("{}:{}", self.file, call.method.span().start().line);
        if call.method == "filter"
            && matches!(call.args.first(), Some(Expr::Closure(closure)) if looks_away(closure))
        {
            self.filters.push(place());
        }
        if LOOKUPS.iter().any(|name| call.method == name) && is_paths(&call.receiver) {
            self.lookups.push(place());
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// How one path of several is asked for.
const LOOKUPS: &[&str] = &[
    "get",
    "get_mut",
    "kept",
    "kept_mut",
    "of_handshake",
    "of_handshake_mut",
    "is_closing",
    "sent_packet",
    "sent_packet_mut",
];

fn is_paths(receiver: &Expr) -> bool {
    match receiver {
        Expr::Field(field) => matches!(&field.member, syn::Member::Named(name) if name == "paths"),
        Expr::Path(path) => path.path.is_ident("paths"),
        _ => false,
    }
}

fn looks_away(closure: &syn::ExprClosure) -> bool {
    closure.inputs.iter().all(|input| matches!(input, Pat::Wild(_)))
}

fn lines(span: proc_macro2::Span) -> usize {
    span.end().line - span.start().line + 1
}

/// How many booleans a caller writes for an argument of this type.
fn booleans(argument: &Type) -> usize {
    match argument {
        Type::Path(path) if path.path.is_ident("bool") => 1,
        Type::Path(path) => path.path.segments.last().map_or(0, |last| match &last.arguments {
            PathArguments::AngleBracketed(generic) => generic
                .args
                .iter()
                .map(|g| if let GenericArgument::Type(t) = g { booleans(t) } else { 0 })
                .sum(),
            _ => 0,
        }),
        Type::Tuple(tuple) => tuple.elems.iter().map(booleans).sum(),
        Type::Reference(reference) => booleans(&reference.elem),
        _ => 0,
    }
}

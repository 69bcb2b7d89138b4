//! A configuration file to begin with, made from the command line's own words.

use clap::Arg;

use super::{
    command, find,
    settings::{SECRETS, is_list, is_number, is_switch, key, options, variable},
};

/// The columns of a comment.
const WIDTH: usize = 96;

/// A table for `name` with every key that may stand in it, as comments.
pub fn template(name: &str) -> String {
    let command = command();
    let keys = options(find(&command, name)).filter(|arg| !SECRETS.contains(&key(arg).as_str()));
    let head = format!(
        "# Options of `mendpath {name}`. What the environment says counts before this file, and what the\n\
         # command line says before both. Check it with: mendpath config check FILE\n\n[{name}]\n"
    );
    keys.fold(head, |text, arg| text + &entry(arg))
}

fn entry(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let explained = format!("{} (variable {})", help.trim_end_matches('.'), variable(arg));
    let comment: String = lines(&explained).iter().map(|line| format!("# {line}\n")).collect();
    format!("\n{comment}# {} = {}\n", key(arg), example(arg))
}

fn example(arg: &Arg) -> String {
    let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = match default {
        _ if matches!(arg.get_action(), clap::ArgAction::Count) => "1".to_owned(),
        _ if is_switch(arg) => "true".to_owned(),
        Some(number) if number.parse::<u64>().is_ok() => number,
        Some(text) => format!("\"{text}\""),
        None if is_number(arg) => name.unwrap_or_default(),
        None => format!("\"{}\"", name.unwrap_or_default()),
    };
    if is_list(arg) { format!("[{value}]") } else { value }
}

fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        match line.is_empty() {
            true => line.push_str(word),
            false if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

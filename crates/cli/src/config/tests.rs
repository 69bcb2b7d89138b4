use std::fs;

use clap::{Arg, ArgAction};

use super::{
    settings::{SECRETS, is_list, is_number, is_switch, key, options, variable},
    *,
};

/// A file with this text, and the directory that it is in.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mendpath.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

fn read(line: &[&str], environment: &[(&str, &str)]) -> Result<Cli, Unreadable> {
    let line = ["mendpath"].iter().chain(line).copied();
    Source::new(line, environment.iter().copied()).read().map(|(cli, _)| cli)
}

/// The options that come out, and what was said of wrong ones.
fn outcome(line: &[&str], text: &str, environment: &[(&str, &str)]) -> String {
    let (_dir, path) = file(text);
    let environment = [environment, &[("MENDPATH_CONFIG", path.as_str())]].concat();
    match read(line, &environment) {
        Ok(cli) => format!("{cli:?}"),
        Err(unreadable) => unreadable.to_string(),
    }
}

/// A value that is none of the defaults.
fn sample(arg: &Arg) -> &'static str {
    let names = arg.get_value_names().unwrap_or_default();
    match names.first().map_or("", |name| name.as_str()) {
        _ if is_switch(arg) => "true",
        _ if matches!(arg.get_action(), ArgAction::Count) => "2",
        "SYMBOLS" => "9",
        _ if arg
            .get_default_values()
            .first()
            .is_some_and(|value| value.to_str().unwrap().parse::<u64>().is_ok()) =>
        {
            "33"
        }
        "N" => "3",
        "SECONDS" => "33",
        "ADDR" => "127.0.0.9:9",
        "ADDR[:PORT]" => "192.0.2.53",
        "HOST[:PORT]" => "vps.example:9",
        "LISTEN=HOST:PORT" => "9=intern.example:22",
        "IFACE|IP" => "wwan7",
        "IP" => "192.0.2.53",
        "CIDR" => "192.0.2.0/24",
        "CONFIG" => "id=0a01",
        "SCHEME" => "fuso",
        "CODING" => "htpc",
        "NAME=RATE" => "wwan7=5mbit",
        "NAME" => "olia",
        "SCHEDULER" => "round-robin",
        "URL" => "http://127.0.0.1:3000",
        "LINK" => "</style.css>; rel=preload; as=style",
        "WHEN" => "never",
        "HOW" => "raw",
        "FORMAT" => "json",
        "DIR" => "/tmp",
        "FILE" => "file",
        other => panic!("say here what may stand for {other} of {}", key(arg)),
    }
}

#[test]
fn a_negative_number_is_told_what_may_stand_there() {
    for (line, said) in [
        ("trace analyze x --loss -1", "from 0 to 100 %"),
        ("trace analyze x --loss -1%", "from 0 to 100 %"),
        ("trace analyze --tail -1 x", "-1 is not in 1..=100"),
        ("demo --count -1", "-1 is not in 1..=1000000"),
        ("demo --size -60kB", "`-60kB` is not a size"),
        ("server --max-clients -1", "-1 is not in 1..=100000"),
        ("client --give-up -.5", "invalid digit"),
        ("demo --virtual -1", "unexpected value '-1' for '--virtual'"),
        ("demo -1", "unexpected argument '-1'"),
    ] {
        let line: Vec<&str> = line.split(' ').collect();
        let told = read(&line, &[]).err().unwrap().to_string();
        assert!(told.contains(said), "{told}");
    }
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    let of_another = words("mendpath run --give-up 9 -- nice --adjustment -5 true");
    assert_eq!(with_values(&of_another), of_another, "what is behind -- is not ours");
}

/// Whoever adds an option need not think of this: it is in files and in the environment.
#[test]
fn every_option_can_stand_in_a_file_and_in_the_environment() {
    let command = command();
    for &name in CONFIGURED {
        let mut count = 0;
        for arg in options(find(&command, name)).filter(|arg| !SECRETS.contains(&key(arg).as_str())) {
            let (key, value) = (key(arg), sample(arg));
            let line = match arg.get_action() {
                ArgAction::Count => format!("-{}", "v".repeat(value.parse().unwrap())),
                _ => format!("--{key}={value}"),
            };
            let by_line = outcome(&[name, &line], "", &[]);
            assert_ne!(by_line, outcome(&[name], "", &[]), "{line} changes nothing");
            let plain = is_switch(arg) || value.parse::<u64>().is_ok();
            let entry = if plain { format!("{key} = {value}") } else { format!("{key} = '{value}'") };
            assert_eq!(by_line, outcome(&[name], &format!("[{name}]\n{entry}"), &[]), "{entry}");
            if is_list(arg) {
                let list = format!("[{name}]\n{key} = ['{value}']");
                assert_eq!(by_line, outcome(&[name], &list, &[]), "{list}");
            }
            assert_eq!(by_line, outcome(&[name], "", &[(&variable(arg), value)]), "{}", variable(arg));
            count += 1;
        }
        assert!(count >= 12, "only {count} options of {name}");
    }
}

#[test]
fn the_line_counts_before_the_environment_and_that_before_the_file() {
    let text = "[server]\nmax-clients = 10\nmax-streams = 10\nallow-private = true\ndns = ['192.0.2.1', '192.0.2.2']\n\
                [client]\nsocks5 = 'nonsense of another command'";
    let environment = [("MENDPATH_MAX_CLIENTS", "20"), ("MENDPATH_DNS", "192.0.2.3, 192.0.2.4")];
    let line = ["server", "--max-clients", "30", "--allow-private=false"];
    let Ok(Cli { command: crate::args::Command::Server(args), .. }) = ({
        let (_dir, path) = file(text);
        let environment = [&environment[..], &[("MENDPATH_CONFIG", path.as_str())]].concat();
        read(&line, &environment)
    }) else {
        panic!("it is right")
    };
    assert_eq!((args.max_clients, args.max_streams, args.allow_private), (30, 10, false));
    let dns: Vec<_> = args.dns.iter().map(|address| address.ip().to_string()).collect();
    assert_eq!(dns, ["192.0.2.3", "192.0.2.4"], "a list is replaced, not added to");
}

#[test]
fn mistakes_are_answered_with_line_key_and_what_may_stand_there() {
    for (text, parts) in [
        (
            "[server]\nlisten = 'nowhere'",
            [
                "line 2: `server.listen`: it is \"nowhere\": it is no address with a port",
                "Write ADDR for it: UDP address",
            ],
        ),
        (
            "[server]\nmax-clients = 0",
            ["line 2: `server.max-clients`: it is 0: 0 is not in 1..=100000", "Clients at a time"],
        ),
        (
            "[server]\n\nmax-clients = 1.5",
            ["line 3: `server.max-clients`: it is 1.5: it is of another kind", "Clients at a time"],
        ),
        (
            "[server]\nallow-private = 'yes'",
            ["line 2: `server.allow-private`: it is \"yes\"", "Write true or false"],
        ),
        (
            "[server]\nverbose = 9",
            ["line 2: `server.verbose`: it is 9: it is no number from 0 to 3", "a number from 0 to 3"],
        ),
        (
            "[server]\ndns = ['192.0.2.1',\n'x']",
            ["`server.dns[2]`: it is \"x\": write an address", "Write a list of ADDR[:PORT]"],
        ),
        (
            "[server]\nqlog = 5",
            ["line 2: `server.qlog`: it is 5: it is of another kind", "Write DIR for it: Write a trace"],
        ),
        (
            "[server]\nlisten = ['a', 'b']",
            ["line 2: `server.listen`: it is [\"a\", \"b\"]: it is of another kind", "Write ADDR"],
        ),
        (
            "[server]\nrecovery = 'luck'",
            ["`server.recovery`: it is \"luck\": there is no `luck`: use one of none, ", "Write SCHEME"],
        ),
        (
            "[server]\nlisen = '[::]:1'",
            ["line 2: `server.lisen`: there is no such key", "Here are listen, advertise, state"],
        ),
        ("[severs]\nlisten = 1", ["line 1: there is no table `severs`", "`[server]` or `[client]`"]),
        ("server = 1", ["line 1: `server` is no table", "Write `[server]`"]),
        ("[server]\nlisten = ", ["line 2, column 10", "Write it in TOML"]),
    ] {
        let told = outcome(&["server"], text, &[]);
        for part in parts {
            assert!(told.contains(part), "`{part}` is missing in: {told}");
        }
        assert!(!told.contains('\n') && told.contains("mendpath.toml, line "), "{told}");
    }
    let told = outcome(&["client"], "[client]\npath = ['wlan0', 5]", &[]);
    assert!(told.contains("line 2: `client.path[2]`: it is 5: it is of another kind"), "{told}");
    let told = outcome(&["server"], "", &[("MENDPATH_MAX_CLIENTS", "many")]);
    assert!(
        told.contains("the variable MENDPATH_MAX_CLIENTS: `many`: ") && told.contains("Clients at a time"),
        "{told}"
    );
    for (path, wrong) in
        [("/no/such/file", "there is no such file"), ("/dev/zero", "it is longer than 1 MiB")]
    {
        let told = read(&["server", "--config", path], &[]).err().unwrap().to_string();
        assert!(told.contains(&format!("{path}: {wrong}")), "{told}");
    }
}

#[test]
fn secrets_stand_in_files_of_their_own() {
    let told = outcome(&["client"], "[client]\ninvitation = 'mendpath://secret@a:1?pin=x'", &[]);
    assert!(
        told.contains("line 2: `client.invitation`: a secret does not") && told.contains("invitation-file"),
        "{told}"
    );
    assert!(!told.contains("secret@"), "{told}");
    let text = "[client]\ninvitation-file = 'one'\nproxy-auth-file = 'two'";
    let files = |line: &[&str], environment: &[(&str, &str)]| {
        let told = outcome(&[&["client"], line].concat(), text, environment);
        (told.contains("\"one\""), told.contains("\"two\""))
    };
    assert_eq!(files(&[], &[]), (true, true));
    assert_eq!(files(&["-"], &[]), (false, true), "one invitation is enough");
    assert_eq!(files(&[], &[("MENDPATH_INVITATION", "x")]), (false, true));
    assert_eq!(files(&["--proxy-auth=a:b"], &[]), (true, false));
}

#[test]
fn an_empty_variable_names_no_file() {
    let cli = read(&["server"], &[("MENDPATH_CONFIG", ""), ("MENDPATH_MAX_CLIENTS", "")]).unwrap();
    let crate::args::Command::Server(args) = cli.command else { panic!("another command") };
    assert_eq!((args.config, args.max_clients), (None, 256));
}

#[test]
fn reading_again_tells_what_is_new() {
    let (_dir, path) = file("[server]\nmax-clients = 5");
    let source = Source::new(["mendpath", "server", "--max-streams=9"], [("MENDPATH_CONFIG", path.as_str())]);
    let (_, mut reload) = source.read().unwrap();
    let mut again = |text: &str| {
        fs::write(&path, text).unwrap();
        reload.again().map(|change| change.unwrap().keys)
    };
    assert_eq!(again("[server]\nmax-clients = 5"), Ok(vec![]));
    let changed = again("[server]\nmax-clients = 6\ndns = '192.0.2.1'\nmax-streams = 77").unwrap();
    assert_eq!(changed, ["dns", "max-clients"], "the command line still counts");
    assert!(again("[server]\nmax-clients = 'x'").is_err());
    assert_eq!(again("[server]\nmax-clients = 6").unwrap(), ["dns"], "against what was in force");
    assert!(Reload::default().again().unwrap().is_none());
}

#[test]
fn the_template_is_right_and_has_everything() {
    let command = command();
    for &name in CONFIGURED {
        let text = template(name);
        let (_dir, path) = file(&text);
        assert_eq!(check(Path::new(&path)).unwrap(), [name]);
        for arg in options(find(&command, name)).filter(|arg| !SECRETS.contains(&key(arg).as_str())) {
            let entry = text.lines().find_map(|line| line.strip_prefix(&format!("# {} = ", key(arg))));
            let entry = entry.unwrap_or_else(|| panic!("{} is missing:\n{text}", key(arg)));
            assert!(!is_number(arg) || !entry.contains('"'), "a number has no quotes: {entry}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// The command line may have the other one.
#[cfg(feature = "serve")]
#[test]
fn of_a_pair_the_one_that_is_missing_is_named() {
    for (keys, told) in [
        ("cert = 'a'", "serve, which needs --key as well"),
        ("key = 'b'", "serve, which needs --cert as well"),
        ("cert = 'a'\nkey = 'b'", "serve"),
        ("", "serve"),
    ] {
        let (_dir, path) = file(&format!("[serve]\nroot = 'www'\n{keys}"));
        assert_eq!(check(Path::new(&path)).unwrap(), [told], "{keys}");
    }
}

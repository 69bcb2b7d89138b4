//! Why this system gives no namespace, and which setting does.

use std::{fs, io, os::unix::fs::PermissionsExt as _};

use crate::failure::{Failure, io_reason};

/// What forbids namespaces to those who are not root.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    ("user/max_net_namespaces", "0", "user.max_net_namespaces=10000"),
];

/// What makes devices, and what its failing is called.
const DEVICE: &str = "/dev/net/tun";
pub(super) const TUN: &str = "make a TUN device";

/// Whether a file is not for everybody.
fn is_shut(file: &str) -> bool {
    fs::metadata(file).is_ok_and(|about| about.permissions().mode() & 0o6 != 0o6)
}

/// What to say when `step` failed while the namespace was made.
pub(super) fn explain(step: &str, error: &io::Error) -> Failure {
    explain_with(step, error, |setting| fs::read_to_string(format!("/proc/sys/{setting}")).ok())
}

fn explain_with(step: &str, error: &io::Error, read: impl Fn(&str) -> Option<String>) -> Failure {
    let tried = format!("cannot {step}");
    let shut = step == TUN && error.kind() == io::ErrorKind::PermissionDenied && is_shut(DEVICE);
    if shut || error.kind() == io::ErrorKind::NotFound && step == TUN {
        let next = "As root, `modprobe tun && chmod 666 /dev/net/tun` makes it as it usually is; or run this command as root";
        let wrong = if shut { "only root may open /dev/net/tun here" } else { "there is no /dev/net/tun" };
        return Failure::new(tried, wrong, next);
    }
    let set_so =
        |(name, forbids, _): &&(&str, &str, &str)| read(name).is_some_and(|value| value.trim() == *forbids);
    match SETTINGS.iter().find(set_so) {
        Some((name, value, allows)) => {
            let name = name.replace('/', ".");
            Failure::new(
                tried,
                format_args!("this system forbids it: {name} is {value}"),
                format!("As root, `sysctl -w {allows}` allows it; or run this command as root"),
            )
        }
        None => Failure::new(
            tried,
            io_reason(error),
            "Where the system, a container or its seccomp profile forbids namespaces, run this command as root, or use mendpath client",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_named() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        for (setting, value, allows) in SETTINGS {
            let read = |name: &str| (name == setting).then(|| format!("{value}\n"));
            let text = explain_with("make a namespace", &denied, read).to_string();
            assert!(text.contains(&format!("{} is {value}", setting.replace('/', "."))), "{text}");
            assert!(text.contains(allows) && !text.contains('\n'), "{text}");
        }
        let text = explain_with("make a namespace", &denied, |_| Some("1".to_owned())).to_string();
        assert!(text.contains("apparmor"), "the one that is set so: {text}");
        let text = explain_with("make a namespace", &denied, |_| None).to_string();
        assert!(text.contains("permission denied") && text.contains("as root"), "{text}");
    }
}

# One command for every habit: `just --list`. Each is one line that can be typed without just as well.

# What the words are
_default:
    @just --list

# All that must pass before a change is merged, or some steps of it
check *steps:
    .ci/run {{steps}}

# What is quick, while one works on a crate: `just quick mendpath-proto`
quick crate:
    cargo fmt --all
    cargo clippy -p {{crate}} --all-targets -- -D warnings
    cargo test -p {{crate}}

# Tests, as cargo takes them: `just test -p mendpath-proto cofuso`
test *arguments:
    cargo test {{ if arguments == "" { "--workspace" } else { arguments } }}

# Random scenarios from a seed on
scenarios seed="0" count="20000":
    cargo run --release -p mendpath-tools -- scenario --seed {{seed}} --count {{count}}

# Random inputs, some minutes for each target: `just fuzz 5 connection`
fuzz *arguments:
    fuzz/run {{arguments}}

# The live page in Chromium, or its pictures: `just browser pictures`
browser *what:
    .ci/browser {{what}}

# The demo: what it gains, on this machine
demo *arguments:
    cargo run --release -p mendpath-cli -- demo {{arguments}}

# A plan of the simulator: `just plan fuso-fig6ab`
plan *arguments:
    cargo run --release -p mendpath-cli -- experiment run {{arguments}}

# The shape of the code in numbers, or another checkout's: `just house --tree ../before`
house *arguments:
    cargo run -p mendpath-tools -- house {{arguments}}

# The book in a browser; needs mdbook
book:
    mdbook serve docs --open

# The libraries' documentation in a browser
doc:
    cargo doc --workspace --no-deps --open

# Beside other stacks and codecs: `just bench bulk --help`
bench *arguments:
    cargo run --release --manifest-path bench/Cargo.toml --no-default-features -- {{arguments}}

# Newest compatible dependencies, in all workspaces
update:
    cargo update
    cargo update --manifest-path bench/Cargo.toml
    cargo update --manifest-path bench/lab-peers/Cargo.toml
    cargo update --manifest-path bench/media/Cargo.toml
    cargo update --manifest-path fuzz/Cargo.toml
    cargo update --manifest-path python/Cargo.toml

# Before a release: packages, oldest Rust, what changed for dependents since the last one, and h3's own tests
release-check:
    .ci/run package msrv semver h3

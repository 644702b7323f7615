//! Names the commit that the binary is built from: what `CHANCERY_COMMIT` says, or what git does. Without either, the version
//! stands alone.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rerun-if-env-changed=CHANCERY_COMMIT");
    let said = std::env::var("CHANCERY_COMMIT").ok().filter(|commit| !commit.is_empty());
    let found = || git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_our_repository());
    let commit = said.or_else(found);
    let version = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=CHANCERY_VERSION={version}");
    // Both change with every commit; a path that is not there would have this run each time.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Whether this is the repository of these sources, and not one that they were unpacked into.
fn is_our_repository() -> bool {
    git(&["ls-files", "--error-unmatch", "build.rs"]).is_some()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

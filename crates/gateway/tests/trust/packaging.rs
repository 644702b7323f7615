//! `packaging/` runs as its files say, by hand and in a folder of the test.

use std::path::Path;
use std::process::Command;

use crate::gateway::folder;
use crate::http::get;
use crate::{V1, refused, started};

const UNIT: &str = include_str!("../../../../packaging/chancery.service");
const CONFIG: &str = include_str!("../../../../packaging/chancery.toml");
const CONTAINER: &str = include_str!("../../../../packaging/Containerfile");

/// A command line as a file has it, with the paths of a machine moved below a folder.
fn command(line: &str, root: &Path) -> Command {
    let here =
        |word: &str| word.replace("/etc/", &below(root, "/etc/")).replace("/var/", &below(root, "/var/"));
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("/usr/bin/chancery"), "{line}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.env_clear().current_dir("/").args(words.map(here));
    command
}

fn below(root: &Path, path: &str) -> String {
    format!("{}{path}", root.display())
}

/// What an installation has done before the first start.
fn installed() -> tempfile::TempDir {
    let root = folder("");
    let etc = root.path().join("etc/chancery");
    std::fs::create_dir_all(&etc).expect("it is made");
    std::fs::create_dir_all(root.path().join("var/lib/chancery")).expect("it is made");
    let config = CONFIG.replace("/var/", &below(root.path(), "/var/")).replace(":8080", ":0");
    std::fs::write(etc.join("chancery.toml"), config).expect("it is written");
    root
}

#[tokio::test]
async fn the_unit_starts_with_the_key_that_it_says_to_make() {
    let root = installed();
    let start = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("it starts something");
    let refused = refused(command(start, root.path()));
    assert_eq!(refused.status.code(), Some(64), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(UNIT.contains("\nRestartPreventExitStatus=64\n"), "systemd must not try it for ever");
    let make =
        UNIT.lines().find_map(|line| line.split_once("runuser -u chancery -- ")).expect("it says how").1;
    let made = command(make, root.path()).output().expect("it runs");
    let key = String::from_utf8(made.stdout).expect("a key is text");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (_running, url) = started(command(start, root.path()));
    let answer = get(&format!("{url}/agents/echo/tasks/none"), &[V1, ("x-api-key", key.trim())]).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let admin =
        format!("/usr/bin/chancery admin agents {}", start.split_once(" serve ").expect("it serves").1);
    let ran = command(&admin, root.path()).output().expect("it runs");
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("echo"),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[tokio::test]
async fn the_image_starts_with_the_key_that_it_says_to_make() {
    let root = installed();
    let variables = CONTAINER.lines().find_map(|line| line.strip_prefix("ENV ")).expect("it sets some");
    let set = |line: &str| {
        let mut command = command(line, root.path());
        for variable in variables.split_whitespace() {
            let (name, path) = variable.split_once('=').expect("a name and a value");
            command.env(name, below(root.path(), path));
        }
        command
    };
    let make =
        CONTAINER.lines().find_map(|line| line.strip_prefix("# run chancery key")).expect("it says how");
    let made = set(&format!("/usr/bin/chancery key{make}")).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let key = String::from_utf8(made.stdout).expect("a key is text");
    assert!(CONTAINER.contains("\nENTRYPOINT [\"/usr/bin/chancery\"]\nCMD [\"serve\"]\n"), "{CONTAINER}");
    let (_running, url) = started(set("/usr/bin/chancery serve"));
    let answer = get(&format!("{url}/agents/echo/tasks/none"), &[V1, ("x-api-key", key.trim())]).await;
    assert_eq!(answer.status, 404, "{answer:?}");
}

/// From the folder of the whole project.
fn project(program: &str, arguments: &[&str]) -> Option<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = Command::new(program).args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).expect("it prints text"))
}

#[test]
fn the_version_names_the_commit() {
    let output = Command::new(env!("CARGO_BIN_EXE_chancery")).arg("--version").output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("it prints text");
    let commit = option_env!("CHANCERY_COMMIT").map(str::to_owned);
    let commit = commit.or_else(|| project("git", &["rev-parse", "--short=12", "HEAD"]));
    let version = concat!("chancery ", env!("CARGO_PKG_VERSION"));
    match commit {
        Some(commit) => assert_eq!(said, format!("{version} ({})\n", commit.trim())),
        None => assert_eq!(said, format!("{version}\n")),
    }
}

#[test]
fn the_bill_of_materials_has_what_the_binary_is_made_of() {
    let made = project("scripts/sbom", &[]).expect("it is written");
    let bill: serde_json::Value = serde_json::from_str(&made).expect("it is JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "chancery");
    let components = bill["components"].as_array().expect("components");
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    let sqlite = named("rusqlite").expect("the store is linked in");
    let digest = sqlite["hashes"][0]["content"].as_str().expect("it has a digest");
    assert!(include_str!("../../../../Cargo.lock").contains(&format!("checksum = \"{digest}\"")));
    assert_eq!(sqlite["licenses"][0]["expression"], "MIT");
    assert!(named("proptest").is_none(), "tests alone use it");
    let own = ["chancery-control", "chancery-protocol", "chancery-sdk", "chancery-store"];
    assert!(own.iter().all(|name| named(name).is_some()));
    let known: Vec<_> = components.iter().map(|component| &component["bom-ref"]).collect();
    for dependency in bill["dependencies"].as_array().expect("a graph") {
        for on in dependency["dependsOn"].as_array().expect("a list") {
            assert!(known.contains(&on), "{on}");
        }
    }
    assert_eq!(project("scripts/sbom", &[]), Some(made), "the same sources give the same text");
}

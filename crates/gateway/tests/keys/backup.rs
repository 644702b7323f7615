//! A backup has everything that is kept, and a gateway that is restored from it is the same.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use chancery_sdk::{Client, ErrorCode};
use serde_json::Value;

use super::gateway::{Gateway, get};

const CONFIG: &str = "[budget.caller]\nmax_tasks_per_day = 2\n[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n\
                      [[agent]]\nname = \"ask\"\nkind = \"builtin\"\n";

/// Runs a command in a folder: what it says, and whether it succeeds.
fn run(folder: &std::path::Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    let ran = command.current_dir(folder).env_clear().args(arguments).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8(said).unwrap())
}

async fn client(gateway: &Gateway, agent: &str, key: &str) -> Client {
    Client::builder().retries(0).bearer(key).connect(gateway.agent(agent)).await.unwrap()
}

async fn published(gateway: &Gateway) -> Value {
    serde_json::from_str(&get(&format!("{}/.well-known/jwks.json", gateway.url), "").await).unwrap()
}

#[tokio::test]
async fn a_gateway_that_is_restored_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chancery.toml"), CONFIG).unwrap();
    let (_, key) = run(folder.path(), &["key", "create", "--caller", "alice"]);
    let key = key.trim();
    let gateway = Gateway::in_folder(folder);
    let alice = client(&gateway, "echo", key).await;
    let task = alice.send("remember me").await.unwrap().task().unwrap().id.clone();
    gateway.run(&["budget", "top-up", "--caller", "alice", "--per", "day", "--tasks", "5"]);
    gateway.run(&["admin", "contain", "ask", "--reason", "leaks prompts"]);
    let before = published(&gateway).await;

    let home = gateway.data().parent().unwrap().to_owned();
    std::fs::write(home.join("passphrase"), "correct horse battery\n").unwrap();
    let (plain, sealed) = (home.join("plain.backup"), home.join("sealed.backup"));
    let said = gateway.run(&["store", "backup", plain.to_str().unwrap()]);
    assert!(said.contains("not sealed"), "{said}");
    gateway.run(&["store", "backup", sealed.to_str().unwrap(), "--passphrase-file", "passphrase"]);
    let has = |path: &std::path::Path, needle: &str| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(needle.len()).any(|some| some == needle.as_bytes())
    };
    for needle in ["PRIVATE KEY", "remember me", "leaks prompts"] {
        assert!(has(&plain, needle) && !has(&sealed, needle), "{needle}");
    }
    for path in [&plain, &sealed] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let again = gateway.fail(&["store", "backup", plain.to_str().unwrap()]);
    assert!(again.contains("is there something already?"), "{again}");
    let over = gateway.fail(&["store", "restore", plain.to_str().unwrap()]);
    assert!(over.contains("restore into a directory that is empty"), "{over}");

    for (backup, passphrase) in [(&plain, None), (&sealed, Some(home.join("passphrase")))] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("chancery.toml"), CONFIG).unwrap();
        let mut arguments = vec!["store", "restore", backup.to_str().unwrap()];
        if let Some(passphrase) = &passphrase {
            let (done, said) = run(folder.path(), &arguments);
            assert!(!done && said.contains("is sealed"), "{said}");
            std::fs::write(folder.path().join("other"), "correct mouse battery").unwrap();
            let wrong = [&arguments[..], &["--passphrase-file", "other"]].concat();
            let (done, said) = run(folder.path(), &wrong);
            assert!(!done && said.contains("the passphrase is another one"), "{said}");
            let left = std::fs::read_dir(folder.path().join("chancery-data")).unwrap().count();
            assert_eq!(left, 0, "nothing is left of it");
            arguments.extend(["--passphrase-file", passphrase.to_str().unwrap()]);
        }
        let (done, said) = run(folder.path(), &arguments);
        assert!(done && said.contains("restored 1 tasks and "), "{said}");
        let restored = Gateway::in_folder(folder);
        assert_eq!(published(&restored).await, before);
        let alice = client(&restored, "echo", key).await;
        assert_eq!(alice.get(task.clone()).await.unwrap().id, task);
        // One of two was used, and five were added.
        for _ in 0..6 {
            alice.send("hello").await.unwrap();
        }
        let error = alice.send("hello").await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::ResourceExhausted), "{error}");
        let error = client(&restored, "ask", key).await.send("hello").await.unwrap_err();
        assert!(error.to_string().contains("leaks prompts"), "{error}");
    }
}

#[test]
fn what_is_no_backup_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty", &b""[..]), ("text", b"nothing of the kind"), ("zeros", &[0; 4096])] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let (done, said) = run(folder.path(), &["store", "restore", name]);
        assert!(!done && said.contains("cannot be restored"), "{name}: {said}");
    }
    std::fs::write(folder.path().join("short"), "x").unwrap();
    let (done, said) = run(folder.path(), &["store", "backup", "b", "--passphrase-file", "short"]);
    assert!(!done && said.contains("shorter than 8 bytes"), "{said}");
}

/// The members of a tar archive: their names, and where each begins and ends.
fn members(archive: &[u8]) -> Vec<(String, std::ops::Range<usize>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while archive[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = &archive[at + from..at + to];
            String::from_utf8(field.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
        };
        let size = usize::from_str_radix(text(124, 136).trim(), 8).unwrap();
        let end = at + 512 + size.next_multiple_of(512);
        found.push((text(0, 100), at..end));
        at = end;
    }
    found
}

/// What comes of restoring these bytes where nothing is, and what is there then.
fn restored(bytes: &[u8], more: &[&str]) -> (bool, String, usize) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("it.backup"), bytes).unwrap();
    std::fs::write(folder.path().join("passphrase"), "correct horse battery").unwrap();
    let (done, said) = run(folder.path(), &[&["store", "restore", "it.backup"], more].concat());
    let left = std::fs::read_dir(folder.path().join("chancery-data")).map_or(0, Iterator::count);
    (done, said, left)
}

/// A backup of a gateway with a key, not sealed.
fn plain_backup() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chancery.toml"), CONFIG).unwrap();
    run(folder.path(), &["key", "create", "--caller", "alice"]);
    let gateway = Gateway::in_folder(folder);
    let file = gateway.data().parent().unwrap().join("plain.backup");
    gateway.run(&["store", "backup", file.to_str().unwrap()]);
    std::fs::read(&file).unwrap()
}

#[test]
fn only_a_whole_backup_is_restored() {
    let whole = plain_backup();
    let members = members(&whole);
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.len() >= 4 && names[..2] == ["manifest.json", "store.db"], "{names:?}");
    let (done, said, _) = restored(&whole, &[]);
    assert!(done, "{said}");

    let refused = |bytes: &[u8], why: &str| {
        let (done, said, left) = restored(bytes, &[]);
        assert!(!done && said.contains(why) && left == 0, "{why}: {left} left: {said}");
    };
    for (number, (name, place)) in members.iter().enumerate() {
        let why = if number == 0 { "it is no backup" } else { "is missing" };
        // Cut before it, and with nothing but it left out.
        refused(&whole[..place.start], why);
        refused(&[&whole[..place.start], &whole[place.end..]].concat(), why);
        if number > 0 {
            let mut changed = whole.clone();
            changed[place.start + 512] ^= 1;
            refused(&changed, &format!("`{name}` in it is not what its manifest says"));
            refused(&[&whole[..place.end], &whole[place.start..]].concat(), "it is there twice");
        }
    }
}

#[test]
fn with_a_passphrase_only_a_sealed_backup_is_restored() {
    let (done, said, left) = restored(&plain_backup(), &["--passphrase-file", "passphrase"]);
    assert!(!done && left == 0 && said.contains("is not sealed") && said.contains("without"), "{said}");
}

/// The size in a header is where a line of a file of secrets could come to stand.
#[test]
fn nothing_of_a_damaged_header_is_shown() {
    let mut damaged = plain_backup();
    let start = members(&damaged)[1].1.start;
    damaged[start + 124..][..12].copy_from_slice(b"\x1b[31mSECRET\n");
    let mut sum = damaged.clone();
    sum[start + 148..][..8].copy_from_slice(b"\x1b]SECRET");
    for bytes in [damaged, sum] {
        let (done, said, left) = restored(&bytes, &[]);
        assert!(!done && left == 0 && said.contains("a header in it is damaged"), "{said}");
        assert!(!said.contains("SECRET") && !said.contains('\x1b'), "{said:?}");
    }
}

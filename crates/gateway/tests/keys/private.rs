//! What is kept is for the gateway alone, and what it gives away harms nobody who opens it.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::gateway::{ECHO, Gateway};

#[test]
fn the_data_directory_is_its_owners_alone() {
    let gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
    let mode = || std::fs::metadata(gateway.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    std::fs::set_permissions(gateway.data(), std::fs::Permissions::from_mode(0o777)).unwrap();
    gateway.run(&["key", "create", "--caller", "bob"]);
    assert_eq!(mode(), 0o700);
}

#[test]
fn a_secret_that_stands_elsewhere_is_not_read() {
    for file in ["secret", "keys.json", "signing-keys.json"] {
        let gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
        let elsewhere = gateway.data().parent().unwrap().join("elsewhere");
        std::fs::rename(gateway.data().join(file), &elsewhere).unwrap();
        symlink(&elsewhere, gateway.data().join(file)).unwrap();
        let action = if file == "signing-keys.json" { &["key", "signing"][..] } else { &["key", "list"] };
        let said = gateway.fail(action);
        assert!(said.contains("is a symbolic link"), "{file}: {said}");
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
    let victim = gateway.data().parent().unwrap().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    symlink(&victim, gateway.data().join("keys.draft")).unwrap();
    gateway.run(&["key", "create", "--caller", "bob"]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert!(gateway.run(&["key", "list"]).contains("/bob"));
}

#[tokio::test]
async fn no_cell_of_an_export_is_a_formula() {
    let gateway = Gateway::start_after(ECHO, &[]);
    for (place, name) in ["=1+1", "+1", "-1", "@SUM(A1)", "plain"].into_iter().enumerate() {
        let key = gateway.run(&["key", "create", &format!("--caller={name}")]);
        let sent = loop {
            let client = chancery_sdk::Client::builder().retries(0).bearer(key.trim());
            let client = client.connect(gateway.agent("echo")).await.unwrap();
            match client.send("hello").await {
                Err(error) if error.code() == Some(chancery_sdk::ErrorCode::Unauthenticated) => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                sent => break sent,
            }
        };
        sent.unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    for export in [&["spend", "export"][..], &["spend", "export", "--sums"]] {
        let text = gateway.run(export);
        let mut rows = csv::ReaderBuilder::new().from_reader(text.as_bytes());
        let callers = rows.headers().unwrap().iter().position(|head| head == "caller").unwrap();
        let mut named = Vec::new();
        for row in rows.records() {
            let row = row.unwrap();
            assert!(row.iter().all(|cell| !cell.starts_with(['=', '+', '-', '@', '\t', '\r'])), "{row:?}");
            named.push(row[callers].to_owned());
        }
        for name in ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "plain"] {
            assert!(named.iter().any(|known| known == name), "{export:?}: {name:?} is not in {named:?}");
        }
    }
}

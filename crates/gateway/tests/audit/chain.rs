//! No change of the log goes unseen: not of a row, and not of the end by whoever kept the head.

use std::path::Path;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::{ECHO, database, entries, of_action, ran, verified, wait_for};

/// A gateway whose log has a few entries.
async fn with_entries() -> Gateway {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    for _ in 0..3 {
        gateway.run(&["admin", "contain", "echo", "--reason", "a test"]);
        gateway.run(&["admin", "release", "echo"]);
    }
    wait_for(&gateway, |entries| !of_action(entries, "key.create").is_empty()).await;
    gateway
}

fn problem(told: &Value) -> &str {
    told["problems"][0].as_str().unwrap_or_else(|| panic!("{told}"))
}

#[tokio::test]
async fn a_flipped_row_and_a_missing_row_are_found() {
    let mut gateway = with_entries().await;
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(is_whole && told["entries"].as_u64().unwrap() >= 8, "{told}");
    let database = database(gateway.folder());
    let row = "SELECT number, body FROM audit WHERE body LIKE '%a test%' ORDER BY number LIMIT 1";
    let (number, body): (i64, String) =
        database.query_row(row, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let write = |body: &str| {
        let sql = "UPDATE audit SET body = ? WHERE number = ?";
        assert_eq!(database.execute(sql, rusqlite::params![body, number]), Ok(1));
    };
    write(&body.replace("a test", "b test"));
    let is_found = |folder: &Path| {
        let (is_whole, told) = verified(folder, &[]);
        assert!(!is_whole && problem(&told).contains(&format!("entry {number} has been changed")), "{told}");
        let said = String::from_utf8(ran(folder, &["audit", "verify"]).stdout).unwrap();
        assert!(said.contains("has been changed") && said.contains("not whole"), "{said}");
    };
    // While it runs, and when it has ended.
    is_found(gateway.folder());
    gateway.terminate();
    is_found(gateway.folder());
    write(&body);
    assert!(verified(gateway.folder(), &[]).0);
    database.execute("DELETE FROM audit WHERE number = 3", []).unwrap();
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(!is_whole && problem(&told).contains("entry 3 is missing"), "{told}");
    // `store check` looks at it, too.
    let checked = ran(gateway.folder(), &["store", "check"]);
    assert!(!checked.status.success());
    assert!(String::from_utf8(checked.stdout).unwrap().contains("entry 3 is missing"));
}

#[tokio::test]
async fn a_cut_end_is_found_against_an_exported_head() {
    let mut gateway = with_entries().await;
    let exported = gateway.run(&["audit", "export"]);
    gateway.write("export.jsonl", &exported);
    let head: Value = serde_json::from_str(exported.lines().last().unwrap()).unwrap();
    let hash = head["head"]["hash"].as_str().unwrap().to_owned();
    let heads = ["export.jsonl", &hash];
    // The log goes on, and the head stays in it.
    gateway.run(&["admin", "contain", "echo", "--reason", "later"]);
    for head in heads {
        assert!(verified(gateway.folder(), &["--head", head]).0);
    }
    gateway.terminate();
    let number = head["head"]["number"].as_i64().unwrap();
    database(gateway.folder()).execute("DELETE FROM audit WHERE number >= ?", [number]).unwrap();
    assert!(verified(gateway.folder(), &[]).0, "nothing in the file shows that its end is cut off");
    for head in heads {
        let (is_whole, told) = verified(gateway.folder(), &["--head", head]);
        assert!(!is_whole && problem(&told).contains("cut off"), "{told}");
    }
    // Nor does it help to let it grow again.
    gateway.kill_and_restart();
    gateway.run(&["admin", "contain", "echo", "--reason", "again"]);
    gateway.run(&["admin", "release", "echo"]);
    for head in heads {
        let (is_whole, told) = verified(gateway.folder(), &["--head", head]);
        assert!(!is_whole, "{told}");
    }
}

/// With nothing of ours: JSON in canonical form, and SHA-256.
#[tokio::test]
async fn an_export_can_be_verified_by_anybody() {
    use sha2::Digest as _;
    let gateway = with_entries().await;
    let exported = gateway.run(&["audit", "export"]);
    let mut previous = "0".repeat(64);
    let mut lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let head = lines.pop().unwrap();
    assert!(lines.len() >= 8);
    for (place, mut entry) in lines.into_iter().enumerate() {
        let hash = entry.as_object_mut().unwrap().remove("hash").unwrap();
        assert_eq!(
            (&entry["previous"], entry["number"].as_u64()),
            (&Value::from(previous), Some(place as u64 + 1))
        );
        // Its members are in the order of their names, and it has no number that is not whole.
        let digest = sha2::Sha256::digest(entry.to_string().as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, digest.as_str(), "{entry}");
        previous = digest;
    }
    assert_eq!(head["head"]["hash"], previous.as_str());
    let only = gateway.run(&["audit", "export", "--head-only", "--since", "1h"]);
    assert_eq!(only.lines().count(), 1);
    assert!(entries(&gateway).len() >= 8);
}

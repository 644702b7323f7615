//! Old entries go, and what is left says by the gateway's signature where it begins.

use chancery_protocol::Timestamp;
use chancery_store::{AuditRecord, Store, StoreLimits};
use serde_json::Value;

use crate::gateway::{Gateway, folder};
use crate::{ECHO, database, ran, verified, wait_for};

/// A gateway that has found a log with so many entries of last year, and as many of today.
async fn after(entries: usize, section: &str) -> Gateway {
    let folder = folder(&format!("[audit]\n{section}\n{ECHO}"));
    assert!(ran(folder.path(), &["key", "rotate"]).status.success());
    let url = format!("sqlite:{}", folder.path().join("chancery-data/chancery.db").display());
    let store = Store::open(&url, StoreLimits::default()).unwrap();
    let old = Timestamp::from_millis(Timestamp::now().as_millis() - 400 * 24 * 60 * 60 * 1000);
    for at in [old, Timestamp::now()] {
        let record = |n| AuditRecord { at, ..AuditRecord::new("act", format!("act {n}")) };
        store.append_audit((0..entries).map(record).collect()).await.unwrap();
    }
    store.close();
    Gateway::in_folder(folder, None)
}

async fn begins_after(gateway: &Gateway, number: u64) -> Value {
    let is_so = |entries: &[Value]| entries.first().is_some_and(|entry| entry["number"] == number + 1);
    wait_for(gateway, is_so).await;
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(is_whole, "{told}");
    assert_eq!(told["begins"]["number"], number);
    told
}

#[tokio::test]
async fn old_entries_leave_a_signed_checkpoint_from_which_the_chain_goes_on() {
    let mut gateway = after(300, "").await;
    let told = begins_after(&gateway, 300).await;
    let retention = |entries: &[Value]| entries.iter().any(|entry| entry["action"] == "audit.retention");
    wait_for(&gateway, retention).await;
    // A head from before that cannot be looked at any more, and says so by its number.
    gateway.write("old.jsonl", &format!("{{\"head\":{{\"number\":7,\"hash\":\"{}\"}}}}\n", "a".repeat(64)));
    assert!(verified(gateway.folder(), &["--head", "old.jsonl"]).0);
    // Another key, and nobody trusts the one before it: it is signed anew at the next start.
    let signer = told["signedBy"].clone();
    gateway.terminate();
    gateway.run(&["key", "rotate", "--overlap-hours", "0"]);
    let (is_whole, unknown) = verified(gateway.folder(), &[]);
    assert!(!is_whole, "{unknown}");
    assert!(unknown["problems"][0].as_str().unwrap().contains("not signed by a key of this"), "{unknown}");
    gateway.kill_and_restart();
    let is_signed_anew = || {
        let (is_whole, told) = verified(gateway.folder(), &[]);
        is_whole && told["signedBy"] != signer
    };
    while !is_signed_anew() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    gateway.terminate();
    // Nobody makes one up, and a beginning that is gone without one is found.
    let database = database(gateway.folder());
    database
        .execute_batch(
            "UPDATE audit_checkpoint SET number = 310, hash = (SELECT hash FROM audit WHERE number = 310)",
        )
        .unwrap();
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(
        !is_whole && told["problems"][0].as_str().unwrap().contains("signed for another entry"),
        "{told}"
    );
    database.execute_batch("DELETE FROM audit_checkpoint").unwrap();
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(
        !is_whole && told["problems"][0].as_str().unwrap().contains("entries 1 to 300 are missing"),
        "{told}"
    );
}

#[tokio::test]
async fn no_more_entries_are_kept_than_is_configured() {
    let gateway = after(1_500, "keep_days = 3000\nmax_entries = 1000").await;
    // One that says that it has started may come before or after.
    let is_cut =
        |entries: &[Value]| entries.first().is_some_and(|entry| entry["number"].as_u64() > Some(2000));
    wait_for(&gateway, is_cut).await;
    let (is_whole, told) = verified(gateway.folder(), &[]);
    assert!(is_whole && told["entries"].as_u64().unwrap() < 1100, "{told}");
}

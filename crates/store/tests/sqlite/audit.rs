//! The audit log in its file: read beside whoever has the store open, and every change of a row is found.

use chancery_store::{AuditHead, AuditRecord, AuditReport, AuditVerifier, Store, StoreLimits};
use rusqlite::Connection;

use crate::folder::Folder;

fn verify(url: &str) -> AuditReport {
    let file = Store::audit_of(url).unwrap().unwrap();
    let mut verifier = AuditVerifier::new(AuditHead::NONE);
    for entry in file.page(0, 1000).unwrap() {
        verifier.take(&entry);
    }
    verifier.finish()
}

#[tokio::test]
async fn a_row_that_was_changed_or_removed_is_found_in_an_open_store() {
    let folder = Folder::new("audit");
    let url = format!("sqlite:{}", folder.path("a.db").display());
    assert!(Store::audit_of(&url).unwrap().is_none());
    let store = Store::open(&url, StoreLimits::default()).unwrap();
    assert_eq!(verify(&url).entries, 0);
    store.append_audit((0..10).map(|n| AuditRecord::new("act", format!("a{n}"))).collect()).await.unwrap();
    assert_eq!((verify(&url).entries, verify(&url).problems.len()), (10, 0));
    assert_eq!(store.check().await.unwrap().problems, [""; 0]);
    let other = Connection::open(folder.path("a.db")).unwrap();
    for (change, undo, found) in [
        (
            "UPDATE audit SET body = replace(body, 'a4', 'x4') WHERE number = 5",
            "UPDATE audit SET body = replace(body, 'x4', 'a4') WHERE number = 5",
            "entry 5 has been changed",
        ),
        (
            "UPDATE audit SET at = at + 1 WHERE number = 2",
            "UPDATE audit SET at = at - 1 WHERE number = 2",
            "entry 2 is not in its place",
        ),
        (
            "UPDATE audit SET number = 99 WHERE number = 10",
            "UPDATE audit SET number = 10 WHERE number = 99",
            "entries 10 to 98 are missing",
        ),
        ("DELETE FROM audit WHERE number = 7", "", "entry 7 is missing"),
    ] {
        other.execute_batch(change).unwrap();
        let problems = verify(&url).problems;
        assert!(problems[0].contains(found), "{problems:?}");
        assert!(store.check().await.unwrap().problems.iter().any(|problem| problem.contains(found)));
        other.execute_batch(undo).unwrap();
    }
}

#[tokio::test]
async fn a_log_outlives_its_process_and_goes_on() {
    let folder = Folder::new("audit-reopened");
    let url = format!("sqlite:{}", folder.path("a.db").display());
    for round in 1..4 {
        let store = Store::open(&url, StoreLimits::default()).unwrap();
        store.append_audit(vec![AuditRecord::new("act", "again")]).await.unwrap();
        drop(store);
        assert_eq!((verify(&url).entries, verify(&url).problems.len()), (round, 0));
    }
}

#[test]
fn a_store_in_memory_cannot_be_read_from_outside() {
    let text = Store::audit_of("memory:").unwrap_err().to_string();
    assert!(text.contains("in memory") && text.contains("sqlite:"), "{text}");
}

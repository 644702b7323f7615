//! The audit log: a chain that shows every change.

use std::sync::Arc;

use chancery_protocol::Timestamp;
use chancery_store::{
    AuditCheckpoint, AuditEntry, AuditHash, AuditHead, AuditRecord, AuditReport, AuditVerifier, Store,
};

fn record(second: i64) -> AuditRecord {
    let at = Timestamp::from_millis(second * 1000);
    AuditRecord { at, ..AuditRecord::new("act", format!("act {second}")) }.target("somebody")
}

/// One entry a second, from this one on.
async fn write(store: &Store, first: i64, count: i64) -> Vec<AuditEntry> {
    store.append_audit((first..first + count).map(record).collect()).await.unwrap();
    store.audit(0, 1000).await.unwrap()
}

fn verify(begins: AuditHead, entries: &[AuditEntry]) -> AuditReport {
    let mut verifier = AuditVerifier::new(begins);
    entries.iter().for_each(|entry| verifier.take(entry));
    verifier.finish()
}

pub(crate) async fn entries_follow_each_other(store: Arc<Store>) {
    write(&store, 0, 2).await;
    let entries = write(&store, 2, 3).await;
    let report = verify(AuditHead::NONE, &entries);
    assert_eq!(report.problems, [""; 0]);
    assert_eq!((report.entries, report.head), (5, entries.last().map(AuditEntry::head)));
    assert_eq!(store.audit(3, 1).await.unwrap(), entries[3..4]);
    assert!(entries[4].body.contains(&format!(r#""previous":"{}""#, entries[3].hash)), "{}", entries[4].body);
    // Many at a time do not lose each other.
    let writers: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { write(&store, 9, 4).await }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let report = verify(AuditHead::NONE, &store.audit(0, 1000).await.unwrap());
    assert_eq!((report.entries, report.problems.len()), (37, 0));
}

pub(crate) async fn a_changed_or_missing_entry_is_found(store: Arc<Store>) {
    let whole = write(&store, 0, 6).await;
    let problems = |change: &dyn Fn(&mut Vec<AuditEntry>)| {
        let mut entries = whole.clone();
        change(&mut entries);
        verify(AuditHead::NONE, &entries).problems
    };
    assert_eq!(problems(&|_| {}), [""; 0]);
    assert!(problems(&|entries| drop(entries.remove(2)))[0].contains("entry 3 is missing"));
    assert!(problems(&|entries| drop(entries.drain(..2)))[0].contains("entries 1 to 2 are missing"));
    let flipped = problems(&|entries| entries[3].body = entries[3].body.replace("somebody", "somebodx"));
    assert!(flipped[0].contains("entry 4 has been changed"), "{flipped:?}");
    let rehashed = problems(&|entries| {
        entries[3].body = entries[3].body.replace("somebody", "somebodx");
        entries[3].hash = AuditHash::of(&entries[3].body);
    });
    assert!(rehashed[0].contains("entry 5 does not follow"), "{rehashed:?}");
    assert!(problems(&|entries| entries[1].at = entries[0].at)[0].contains("entry 2 is not in its place"));
    let swapped = problems(&|entries| entries.swap(1, 2));
    assert!(!swapped.is_empty());
}

pub(crate) async fn a_cut_end_is_found_by_whoever_kept_its_hash(store: Arc<Store>) {
    let entries = write(&store, 0, 6).await;
    let head = entries[5].head();
    let problems = |entries: &[AuditEntry], number| {
        let mut verifier = AuditVerifier::new(AuditHead::NONE).leading_to(head.hash, number);
        entries.iter().for_each(|entry| verifier.take(entry));
        verifier.finish().problems
    };
    for number in [None, Some(6)] {
        assert_eq!(problems(&entries, number), [""; 0]);
        assert!(problems(&entries[..5], number)[0].contains("cut off"));
    }
    let later = write(&store, 6, 3).await;
    assert_eq!(problems(&later, Some(6)), [""; 0]);
    // Written anew, as long as it was.
    let other = Store::memory();
    let other = write(&other, 1, 6).await;
    assert!(problems(&other, Some(6))[0].contains("not the one that was seen"));
    assert!(problems(&other, None)[0].contains("written anew"));
}

pub(crate) async fn what_is_old_goes_and_the_chain_goes_on(store: Arc<Store>) {
    let entries = write(&store, 0, 6).await;
    assert_eq!(store.audit_due(Timestamp::from_millis(0), 100).await.unwrap(), None);
    let due = store.audit_due(Timestamp::from_millis(4000), 100).await.unwrap();
    assert_eq!(due, Some(entries[3].head()));
    let checkpoint = AuditCheckpoint { head: due.unwrap(), token: "signed".to_owned() };
    store.begin_audit_after(checkpoint.clone()).await.unwrap();
    assert_eq!(store.audit_checkpoint().await.unwrap(), Some(checkpoint.clone()));
    let left = store.audit(0, 1000).await.unwrap();
    assert_eq!(left, entries[4..]);
    assert_eq!(verify(checkpoint.head, &left).problems, [""; 0]);
    assert!(verify(AuditHead::NONE, &left).problems[0].contains("1 to 4 are missing"));
    // Also if nothing is left.
    let head = store.audit_due(Timestamp::from_millis(9000), 100).await.unwrap().unwrap();
    assert_eq!(head, entries[5].head());
    store.begin_audit_after(AuditCheckpoint { head, token: String::new() }).await.unwrap();
    assert_eq!(store.audit_due(Timestamp::from_millis(9000), 0).await.unwrap(), None);
    let later = write(&store, 9, 1).await;
    assert_eq!((later.len(), later[0].number), (1, 7));
    assert_eq!(verify(head, &later).problems, [""; 0]);
}

pub(crate) async fn what_is_too_much_goes(store: Arc<Store>) {
    let entries = write(&store, 0, 900).await;
    let head = store.audit_due(Timestamp::from_millis(0), 10).await.unwrap().unwrap();
    assert_eq!(head, entries[889].head());
    store.begin_audit_after(AuditCheckpoint { head, token: String::new() }).await.unwrap();
    assert_eq!(store.audit(0, 1000).await.unwrap(), entries[890..]);
}

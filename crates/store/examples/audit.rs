//! What the audit log costs: writing entries in groups of a second's worth, and verifying all of them.
//!
//! `cargo run --release -p chancery-store --example audit -- 1000000`

use std::time::Instant;

use chancery_store::{AuditHead, AuditRecord, AuditVerifier, Store, StoreLimits};

/// As many as a second of refusals leaves.
const GROUP: usize = 34;

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "it says what it has measured")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let entries: usize = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("audit.db").display());
    let store = Store::open(&url, StoreLimits::for_url(&url))?;
    let began = Instant::now();
    let mut left = entries;
    while left > 0 {
        let group = left.min(GROUP);
        let record = || {
            let record = AuditRecord::new("denial", "call.denied").target("echo").detail("gate", "budget");
            record
                .detail("reason", "BUDGET_EXCEEDED")
                .detail("count", 294_u64)
                .detail("until", "2026-11-19T22:00:00Z")
        };
        store.append_audit((0..group).map(|_| record()).collect()).await?;
        left -= group;
    }
    println!("{entries} entries written in {:.1?}", began.elapsed());
    let (began, file) = (Instant::now(), Store::audit_of(&url)?.ok_or("there is a store")?);
    let (mut verifier, mut after) = (AuditVerifier::new(AuditHead::NONE), 0);
    loop {
        let page = file.page(after, 1024)?;
        let Some(last) = page.last() else { break };
        after = last.number;
        page.iter().for_each(|entry| verifier.take(entry));
    }
    let report = verifier.finish();
    println!(
        "{} entries verified in {:.1?}, {} problems",
        report.entries,
        began.elapsed(),
        report.problems.len()
    );
    Ok(())
}

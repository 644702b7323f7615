//! Old entries are removed, and the gateway signs where the log begins from then on: a checkpoint. Without it, a log that
//! begins later than its first entry is one from which somebody has removed the beginning.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chancery_protocol::Timestamp;
use chancery_protocol::signing::PublicKey;
use chancery_protocol::signing::jws::{Token, sign_token};
use chancery_store::{AuditCheckpoint, AuditHead, AuditRecord, Store};
use serde::{Deserialize, Serialize};

use super::Audit;
use crate::config::AuditSection;
use crate::identity::SigningKeys;

/// What a checkpoint says. The token that says it carries the public key.
#[derive(Debug, Deserialize, Serialize)]
struct Claims {
    /// The agent id of the gateway.
    iss: String,
    /// When it was signed, in seconds.
    iat: i64,
    /// The last entry that is gone.
    #[serde(flatten)]
    head: AuditHead,
}

const TOKEN_TYPE: &str = "chancery-audit+jwt";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A store in memory keeps no more, whatever is configured.
const MOST_IN_MEMORY: u64 = 25_000;

/// Removes what is too old or too much. Whatever is in the way is logged, and tried again a minute later.
pub(super) async fn tidy(store: &Store, data: &Path, keep: &AuditSection, audit: &Audit) {
    if let Err(error) = try_tidy(store, data, keep, audit).await {
        tracing::error!("old entries of the audit log stay for now: {error:#}");
    }
}

async fn try_tidy(store: &Store, data: &Path, keep: &AuditSection, audit: &Audit) -> anyhow::Result<()> {
    let span = i64::try_from(DAY.saturating_mul(keep.keep_days).as_millis()).unwrap_or(i64::MAX);
    let before = Timestamp::from_millis(Timestamp::now().as_millis().saturating_sub(span));
    let is_in_memory = matches!(store, Store::Memory(_));
    let most = if is_in_memory { keep.max_entries.min(MOST_IN_MEMORY) } else { keep.max_entries };
    let (due, known) = (store.audit_due(before, most).await?, store.audit_checkpoint().await?);
    let is_stale =
        |known: &AuditCheckpoint| Ok::<_, anyhow::Error>(signer_of(&known.token) != Some(own_id(data)?));
    let head = match (due, &known) {
        (Some(due), _) => due,
        // The key that had signed is on its way out.
        (None, Some(known)) if is_stale(known)? => known.head,
        (None, _) => return Ok(()),
    };
    store.begin_audit_after(AuditCheckpoint { head, token: sign(data, head)? }).await?;
    if due.is_some() {
        tracing::info!(number = head.number, "the audit log begins after entry {}", head.number);
        audit.note(AuditRecord::new("system", "audit.retention").detail("upTo", head.number));
    }
    Ok(())
}

fn sign(data: &Path, head: AuditHead) -> anyhow::Result<String> {
    let key = SigningKeys::open(data)?.1.agent_key()?;
    let claims = Claims { iss: key.id().to_string(), iat: Timestamp::now().as_millis() / 1000, head };
    sign_token(&key, TOKEN_TYPE, &claims).context("the checkpoint cannot be signed")
}

fn own_id(data: &Path) -> anyhow::Result<String> {
    Ok(SigningKeys::open(data)?.1.agent_key()?.public().kid())
}

fn signer_of(token: &str) -> Option<String> {
    Token::parse(token)?.header.kid
}

/// The keys by which a gateway may have signed a checkpoint: those in force, and those from before a change.
pub(crate) fn trusted_keys(data: &Path) -> anyhow::Result<Vec<PublicKey>> {
    SigningKeys::existing(data)?.map_or_else(|| Ok(Vec::new()), |keys| keys.public_keys())
}

/// Whether one of these keys has signed for what a checkpoint says. Gives the id of the key.
pub(crate) fn signed_by(checkpoint: &AuditCheckpoint, keys: &[PublicKey]) -> anyhow::Result<String> {
    let token = Token::parse(&checkpoint.token).context("the checkpoint of the log is not signed")?;
    ensure!(
        token.header.typ.as_deref() == Some(TOKEN_TYPE),
        "the checkpoint of the log is signed for something else"
    );
    let Some(key) = keys.iter().find(|key| token.is_signed_by(key)) else {
        let kid = token.header.kid.unwrap_or_default();
        anyhow::bail!("the checkpoint of the log is not signed by a key of this gateway, but by `{kid}`");
    };
    let claims: Claims =
        serde_json::from_slice(&token.payload).context("the checkpoint of the log cannot be read")?;
    ensure!(claims.head == checkpoint.head, "the checkpoint of the log is signed for another entry");
    Ok(key.kid())
}

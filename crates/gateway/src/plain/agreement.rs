//! What was agreed, sealed: the id of an agreement says what it is, so that nothing has to be kept of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_control::Millis;
use chancery_protocol::Principal;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::failure::Failure;

/// For how long an agreement can be quoted.
pub(super) const VALID_MS: u64 = 5 * 60 * 1000;

/// Keeps what is sealed here apart from what the same secret is used for elsewhere.
const PURPOSE: &[u8] = b"chancery plain agreement v1";

/// What was agreed, and with whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreement {
    pub(super) realm: String,
    pub(super) caller: String,
    pub(super) agent: String,
    /// The skills that it is for; any if empty.
    pub(super) skills: Vec<String>,
    /// What one call may cost at most.
    pub(super) budget_micro_usd: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) expires: u64,
}

/// Seals agreements, and knows its own again.
#[derive(Clone)]
pub(crate) struct Seal(Hmac<Sha256>);

impl Seal {
    /// With a secret that outlives the process.
    pub(crate) fn new(secret: &[u8]) -> anyhow::Result<Self> {
        let mut purpose = Hmac::<Sha256>::new_from_slice(secret)?;
        purpose.update(PURPOSE);
        Ok(Self(Hmac::new_from_slice(&purpose.finalize().into_bytes())?))
    }

    /// The id of an agreement.
    pub(super) fn id(&self, agreement: &Agreement) -> String {
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(agreement).unwrap_or_default());
        let mut mac = self.0.clone();
        mac.update(claims.as_bytes());
        format!("{claims}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// The agreement of an id, if it is one of ours, with this caller, and still holds.
    pub(super) fn open(&self, id: &str, caller: &Principal, now: Millis) -> Result<Agreement, Failure> {
        let unknown = || Failure::invalid("AGREEMENT_UNKNOWN", "there is no such agreement; negotiate again");
        let agreement = self.unsealed(id).ok_or_else(unknown)?;
        // To others it is as though it were not there.
        if agreement.realm != *caller.realm || agreement.caller != *caller.id {
            return Err(unknown());
        }
        if agreement.expires <= now.0 {
            return Err(Failure::invalid("AGREEMENT_EXPIRED", "the agreement is over; negotiate again"));
        }
        Ok(agreement)
    }

    fn unsealed(&self, id: &str) -> Option<Agreement> {
        let (claims, seal) = id.split_once('.')?;
        let mut mac = self.0.clone();
        mac.update(claims.as_bytes());
        mac.verify_slice(&URL_SAFE_NO_PAD.decode(seal).ok()?).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

impl Agreement {
    /// Whether a call to this agent, for this skill, is what was agreed.
    pub(super) fn check(&self, agent: Option<&str>, skill: Option<&str>) -> Result<(), Failure> {
        if let Some(agent) = agent.filter(|agent| *agent != self.agent) {
            let detail = format!("the agreement is with `{}`, and this is `{agent}`", self.agent);
            return Err(Failure::invalid("AGREEMENT_MISMATCH", detail));
        }
        let named = |skill: &&str| !self.skills.is_empty() && !self.skills.iter().any(|known| known == skill);
        if let Some(skill) = skill.filter(named) {
            let detail = format!("the agreement is not for the skill `{skill}`");
            return Err(Failure::invalid("AGREEMENT_MISMATCH", detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement() -> Agreement {
        Agreement {
            realm: "default".to_owned(),
            caller: "alice".to_owned(),
            agent: "echo".to_owned(),
            skills: vec!["echo".to_owned()],
            budget_micro_usd: Some(1),
            timeout_ms: None,
            expires: 100,
        }
    }

    fn refused(seal: &Seal, id: &str, caller: &str, now: u64) -> bool {
        seal.open(id, &Principal::new("default", caller), Millis(now)).is_err()
    }

    #[test]
    fn only_whom_it_was_made_with_can_quote_it_and_only_in_time() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let id = seal.id(&agreement());
        let alice = Principal::new("default", "alice");
        assert_eq!(seal.open(&id, &alice, Millis(99)).unwrap(), agreement());
        assert!(refused(&seal, &id, "bob", 99));
        assert!(refused(&seal, &id, "alice", 100));
        assert!(refused(&Seal::new(&[8; 32]).unwrap(), &id, "alice", 99), "another gateway's");
        let forged = Agreement { budget_micro_usd: None, ..agreement() };
        let (_, mac) = id.split_once('.').unwrap();
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&forged).unwrap());
        assert!(refused(&seal, &format!("{claims}.{mac}"), "alice", 99), "somebody wrote in it");
        assert!(refused(&seal, "nonsense", "alice", 99) && refused(&seal, "", "alice", 99));
    }

    #[test]
    fn it_is_for_one_agent_and_its_skills() {
        let agreement = agreement();
        assert!(agreement.check(Some("echo"), Some("echo")).is_ok());
        assert!(agreement.check(None, None).is_ok());
        assert!(agreement.check(Some("other"), None).is_err());
        assert!(agreement.check(Some("echo"), Some("other")).is_err());
    }
}

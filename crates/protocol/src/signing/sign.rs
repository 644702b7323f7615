//! Signing a card.

use super::canonical::{NotCanonical, canonical_json};
use super::form::Form;
use super::jws::{self, Header};
use super::key::SigningKey;
use crate::card::{AgentCard, AgentCardSignature};

/// How a card is signed.
#[derive(Clone, Debug, Default)]
pub struct Signing {
    /// Where the public keys are published, for the header of each signature.
    pub jku: Option<String>,
    /// Signs the card without its empty values as well, if it has any.
    ///
    /// The SDKs for Python and JavaScript cannot verify anything else, and a card that asks for a key, without scopes,
    /// has an empty value. It is not the default, because such a signature does not cover what is empty:
    /// see [`Form::NoEmpties`].
    pub for_readers_without_empties: bool,
}

/// Signs a card with each of these keys. Signatures that it had are replaced: they were made over another card.
pub fn sign_card(card: &mut AgentCard, keys: &[&SigningKey], signing: &Signing) -> Result<(), NotCanonical> {
    let spec = Form::Spec.of_card(card)?;
    let mut payloads = vec![(Form::Spec, spec)];
    if signing.for_readers_without_empties {
        let filled = Form::NoEmpties.of_card(card)?;
        if filled != payloads[0].1 {
            payloads.push((Form::NoEmpties, filled));
        }
    }
    let mut signatures = Vec::new();
    for (form, payload) in &payloads {
        for key in keys {
            signatures.push(signature(key, *form, payload, signing)?);
        }
    }
    card.signatures = signatures;
    Ok(())
}

/// Signs a card as it is served, for readers who take its JSON as it came: the text of a card without signatures.
pub fn sign_as_served(
    text: &str,
    keys: &[&SigningKey],
    signing: &Signing,
) -> Result<Vec<AgentCardSignature>, NotCanonical> {
    let payload = canonical_json(text)?;
    keys.iter().map(|key| signature(key, Form::AsReceived, &payload, signing)).collect()
}

/// The header says which form it is, so that a reader who would take any form does not have to take another one.
fn signature(
    key: &SigningKey,
    form: Form,
    payload: &str,
    signing: &Signing,
) -> Result<AgentCardSignature, NotCanonical> {
    // Whoever knows nothing of an agent but its id can verify with the key that comes along.
    let public = key.public();
    let header = Header {
        typ: Some("JOSE".to_owned()),
        jku: signing.jku.clone(),
        jwk: public.agent_id().map(|_| public.to_jwk()),
        form: Some(form.as_str().to_owned()),
        ..Header::of(key)
    };
    let protected = header.to_text()?;
    let signature = key.sign(jws::message(&protected, payload.as_bytes()).as_bytes());
    Ok(AgentCardSignature { protected, signature: jws::encode(&signature), header: None })
}

//! Lineage tokens: compact JWS that say of which call their bearer is the agent.
//!
//! A token of our own points at a call that must be open: what it says besides is for its reader. It is sealed with a keyed MAC,
//! or signed if other gateways are listed, which know nothing of the call but its claims.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_protocol::signing::{AgentId, Algorithm, jws};
use chancery_protocol::{CallOrigin, Denied, HopId, write_json};
use serde::{Deserialize, Serialize};

use super::federation::{Author, Federation, OwnKey, root_here};
use super::keys::{Keyring, OWN_ALGORITHM, TOKEN_TYPE};
use super::open::{Allowance, OpenHop};
use super::rules::{invalid, unlisted};
use super::trace::TraceId;
use crate::Millis;

/// The extension under which a token stands in the metadata of a message.
pub const LINEAGE_EXTENSION: &str = "urn:chancery:ext:lineage:v1";

/// Nothing longer is looked at.
pub const MAX_TOKEN_BYTES: usize = 4096;

/// So much of a token names the agents on the way: the last ones, if there are more.
const MAX_PATH_BYTES: usize = 1800;
/// Each gateway that it is for takes so much of that.
const BYTES_PER_GATEWAY: usize = 67;

/// Makes lineage tokens and reads them.
#[derive(Clone)]
pub struct Tokens {
    name: Arc<str>,
    keys: Keyring,
    federation: Option<Arc<Federation>>,
}

/// What a token says. Names and forms are those of JWT where it has any; the rest is spelt like all our extension data.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claims<'a, I, A> {
    /// The gateway that made it.
    iss: I,
    /// Who it is for: that gateway itself, by its name, or the ids of those that it lists.
    aud: A,
    /// The agent that it was given to.
    sub: &'a str,
    /// When it ends, in seconds since 1970.
    exp: u64,
    realm: &'a str,
    root: HopId,
    /// The call that the bearer answers: the parent of those that it makes.
    parent: HopId,
    depth: u16,
    path: Vec<Cow<'a, str>>,
    root_agent: Cow<'a, str>,
    trace_id: &'a str,
    /// What was held for the call.
    reserved: Figures,
    /// What was left for it, and for all that goes on from it, when the token was made. At another gateway: what all that is
    /// done with it there may cost.
    allowance: Figures,
}

/// What is read of a token of our own: the open call that it points at says the rest.
#[derive(Deserialize)]
struct Pointer<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
    exp: u64,
    #[serde(borrow)]
    realm: Cow<'a, str>,
    root: HopId,
    parent: HopId,
}

/// What is read of a token that another gateway has signed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForeignClaims<'a> {
    iss: AgentId,
    aud: Vec<AgentId>,
    exp: u64,
    parent: HopId,
    depth: u16,
    #[serde(borrow)]
    path: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    root_agent: Cow<'a, str>,
    #[serde(borrow)]
    trace_id: Cow<'a, str>,
    allowance: Figures,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
}

/// A token that holds.
#[derive(Debug)]
pub(super) enum Proven {
    /// It is ours, and points at this call of this root.
    Own { root: HopId, hop: HopId },
    /// Another gateway made it, which is listed here, and meant us.
    Foreign(Foreign),
    /// Another gateway made it, and not for us: it says nothing here.
    Elsewhere,
}

/// What another gateway says about a call.
#[derive(Clone, Debug)]
pub(super) struct Foreign {
    /// The root of all that is done here with this token.
    pub(super) root: HopId,
    pub(super) depth: u16,
    pub(super) trace: Option<TraceId>,
    pub(super) origin: CallOrigin,
}

// === impl Tokens ===

impl Tokens {
    /// For the gateway of this name, its public URL, which nobody else reads the tokens of.
    pub fn new(name: impl Into<Arc<str>>, keys: Keyring) -> Self {
        Self { name: name.into(), keys, federation: None }
    }

    /// Has gateways that are listed read them as well, and reads theirs.
    #[must_use]
    pub fn shared_with(mut self, federation: Arc<Federation>) -> Self {
        self.federation = Some(federation);
        self
    }

    /// A token for the agent of an open call.
    pub fn mint(&self, hop: &OpenHop, expires: Millis) -> String {
        self.mint_again(hop, hop.allowance, expires)
    }

    /// The same for a call that an earlier process let through: so much is left for it now.
    pub fn mint_again(&self, hop: &OpenHop, left: Allowance, expires: Millis) -> String {
        match self.federation.as_ref().filter(|federation| federation.is_shared()) {
            Some(federation) => signed(federation, hop, left, expires),
            None => self.sealed(hop, left, expires),
        }
    }

    fn sealed(&self, hop: &OpenHop, left: Allowance, expires: Millis) -> String {
        let path = hop.context.visited.iter().map(|visit| Cow::Borrowed(&*visit.agent));
        let (path, root_agent) = (last_of(path, MAX_PATH_BYTES), (&*hop.context.root_agent_id).into());
        let claims = Claims { path, root_agent, ..claims(hop, &*self.name, &*self.name, left, expires) };
        let trace = hop.context.trace_id.text();
        let mut json = Vec::with_capacity(640);
        write_json(&mut json, &Claims { trace_id: trace.as_str(), ..claims })
            .expect("strings, numbers and lists of them are always JSON");
        let key = self.keys.current();
        let mut token = String::with_capacity(key.head().len() + json.len().div_ceil(3) * 4 + 90);
        token.push_str(key.head());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(&json, &mut token);
        let seal = key.seal(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(seal, &mut token);
        token
    }

    /// Reads a token, and believes it only if its seal holds, it has not expired, and, being ours, is of this realm, or else
    /// is for us and of a gateway that is listed.
    pub(super) fn verify(&self, token: &str, realm: &str, now: Millis) -> Result<Proven, Denied> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(invalid("the token is too long"));
        }
        let (message, seal) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (head, body) = message.split_once('.').ok_or_else(malformed)?;
        let Some(key) = self.keys.find(head, now) else { return self.read_signed(token, realm, now) };
        let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| malformed())?;
        if !key.holds(message.as_bytes(), &seal) {
            return Err(forged());
        }
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| malformed())?;
        own(&json, &self.name, realm, now)
    }

    /// Who seems to have signed it is asked first, so that junk costs no signature.
    fn read_signed(&self, token: &str, realm: &str, now: Millis) -> Result<Proven, Denied> {
        let token = jws::Token::parse(token).ok_or_else(malformed)?;
        let head = &token.header;
        if head.typ.as_deref() != Some(TOKEN_TYPE) {
            return Err(malformed());
        }
        if head.alg == OWN_ALGORITHM {
            return Ok(Proven::Elsewhere);
        }
        let key = head.jwk.as_ref().and_then(|jwk| jwk.to_public_key()).ok_or_else(malformed)?;
        let id = key.agent_id().filter(|_| Algorithm::parse(&head.alg) == Some(Algorithm::EdDsa));
        let id = id.ok_or_else(malformed)?;
        let Some(federation) = &self.federation else { return Ok(Proven::Elsewhere) };
        let author = federation.author(&id, now);
        if matches!(author, Author::Own) {
            let is_signed = token.is_signed_by(&key);
            return if is_signed { own(&token.payload, &id.to_string(), realm, now) } else { Err(forged()) };
        }
        let claims: ForeignClaims<'_> = serde_json::from_slice(&token.payload).map_err(|_| malformed())?;
        if !claims.aud.iter().any(|audience| federation.is_own(audience, now)) {
            return Ok(Proven::Elsewhere);
        }
        match author {
            Author::Listed(gateway) if claims.iss == id && token.is_signed_by(&key) => {
                foreign(federation, gateway, &claims, now).map(Proven::Foreign)
            }
            Author::Listed(_) | Author::Own => Err(forged()),
            Author::Unknown => Err(unlisted(&id)),
        }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("name", &self.name)
            .field("keys", &self.keys)
            .field("federation", &self.federation)
            .finish()
    }
}

/// Signed, for the gateways that are listed as well as for this one.
fn signed(federation: &Federation, hop: &OpenHop, left: Allowance, expires: Millis) -> String {
    let own = federation.own();
    let audience: Vec<&AgentId> = federation.listed().collect();
    let room = MAX_PATH_BYTES.saturating_sub(audience.len() * BYTES_PER_GATEWAY);
    let path = last_of(federation.names_abroad(&own, &hop.context.visited).map(Cow::Owned), room);
    let root_agent = federation.name_abroad(&own, &hop.context.root_agent_id).into();
    // What is held here for this call covers all that is done for it there. Nobody declares tokens, so what is held of those is
    // a guess: there it is what is left as well.
    let allowance = Allowance {
        micro_usd: left.micro_usd.map(|_| hop.reserved.micro_usd),
        tokens: left.tokens.map(|left| left.saturating_add(hop.reserved.tokens)),
    };
    let trace = hop.context.trace_id.text();
    let claims = Claims { path, root_agent, ..claims(hop, own.id, audience, allowance, expires) };
    let claims = Claims { trace_id: trace.as_str(), ..claims };
    let OwnKey { key, .. } = &*own;
    jws::sign_token(key, TOKEN_TYPE, &claims).expect("strings, numbers and lists of them are always JSON")
}

/// What a token says for whomever it is.
fn claims<I, A>(hop: &OpenHop, iss: I, aud: A, allowance: Allowance, expires: Millis) -> Claims<'_, I, A> {
    Claims {
        iss,
        aud,
        sub: hop.bearer(),
        exp: expires.0.div_ceil(1000),
        realm: &hop.realm,
        root: hop.root,
        parent: hop.hop,
        depth: hop.context.depth,
        path: Vec::new(),
        root_agent: Cow::Borrowed(""),
        trace_id: "",
        reserved: Figures { micro_usd: Some(hop.reserved.micro_usd), tokens: Some(hop.reserved.tokens) },
        allowance: allowance.into(),
    }
}

/// As many names as there is room for, of those that come last; they are given with the last one first.
fn last_of<'n>(newest_first: impl Iterator<Item = Cow<'n, str>>, mut room: usize) -> Vec<Cow<'n, str>> {
    let fits = |name: &Cow<'_, str>| {
        room = room.saturating_sub(name.len() + 3);
        room > 0
    };
    let mut path: Vec<_> = newest_first.take_while(fits).collect();
    path.reverse();
    path
}

fn own(json: &[u8], name: &str, realm: &str, now: Millis) -> Result<Proven, Denied> {
    let pointer: Pointer<'_> = serde_json::from_slice(json).map_err(|_| malformed())?;
    if *pointer.iss != *name {
        return Err(forged());
    }
    check_time(pointer.exp, now)?;
    if pointer.realm != realm {
        return Err(invalid("the token is of another realm"));
    }
    Ok(Proven::Own { root: pointer.root, hop: pointer.parent })
}

fn foreign(
    federation: &Federation,
    gateway: &Arc<str>,
    claims: &ForeignClaims<'_>,
    now: Millis,
) -> Result<Foreign, Denied> {
    check_time(claims.exp, now)?;
    let named = |agent: &str| {
        federation
            .name_at_home(agent, now)
            .ok_or_else(|| invalid("the token names agents as no gateway does"))
    };
    let Allowance { micro_usd, tokens } = claims.allowance.into();
    Ok(Foreign {
        root: root_here(&claims.iss, claims.parent),
        depth: claims.depth,
        trace: TraceId::parse(&claims.trace_id),
        origin: CallOrigin {
            gateway: gateway.clone(),
            call: claims.parent,
            root_agent: named(&claims.root_agent)?,
            path: claims.path.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
            micro_usd,
            tokens,
        },
    })
}

fn check_time(expires_seconds: u64, now: Millis) -> Result<(), Denied> {
    match expires_seconds.saturating_mul(1000) <= now.0 {
        true => Err(invalid("the token has expired")),
        false => Ok(()),
    }
}

fn malformed() -> Denied {
    invalid("the token is not one of ours")
}

fn forged() -> Denied {
    invalid("the seal of the token does not hold")
}

// === impl Figures ===

impl From<Allowance> for Figures {
    fn from(allowance: Allowance) -> Self {
        Self { micro_usd: allowance.micro_usd, tokens: allowance.tokens }
    }
}

impl From<Figures> for Allowance {
    fn from(figures: Figures) -> Self {
        Self { micro_usd: figures.micro_usd, tokens: figures.tokens }
    }
}

//! Which of the interfaces on a card to call, and what each call to it needs to know.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use chancery_protocol::{AgentCard, AgentInterface, ProtocolBinding};
use http::Uri;

use super::error::ClientError;
use super::origin::Origin;
use super::settings::Settings;
use super::wire::Wire;
use crate::IDEMPOTENCY_EXTENSION;

/// One interface that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) wire: Wire,
    /// Where JSON-RPC is posted to.
    pub(crate) uri: Uri,
    /// What stands before the paths of HTTP+JSON and gRPC: URL, and by the first the tenant, without a slash at the end.
    pub(crate) base: String,
    pub(crate) tenant: String,
    pub(crate) origin: Arc<Origin>,
}

/// An agent as its card describes it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) card: Arc<AgentCard>,
    /// The name of the key that it is signed with, if that was looked at.
    pub(crate) signed_by: Option<String>,
    /// The SHA-256 of its text as it came, in hexadecimal.
    pub(crate) digest: String,
    /// The best one first; never empty.
    pub(crate) interfaces: Vec<Interface>,
    /// Whether a send with a key may be repeated.
    pub(crate) honours_keys: bool,
    /// Where the interface is that calls begin with: the first, unless the peer turned out to speak another version than
    /// its card let one think. Cards of v0.1 do not say of which version they are.
    pub(crate) understood: AtomicUsize,
}

impl Peer {
    /// Takes what can be used, in the user's order, then in the card's. A card that came over TLS leads to TLS where it does
    /// not say.
    pub(crate) fn new(card: AgentCard, settings: &Settings, named: &Origin) -> Result<Self, ClientError> {
        let mut usable = Vec::new();
        let (mut offered, mut refused) = (Vec::new(), None);
        for interface in &card.supported_interfaces {
            match usable_interface(interface, settings, named) {
                Ok(found) => match may_be_dialled(&found, settings, named) {
                    Ok(()) => usable.push((rank(&interface.protocol_binding, &settings.preferred), found)),
                    Err(why) => refused = refused.or(Some(why)),
                },
                Err(why) => offered.push(describe(interface, why)),
            }
        }
        if usable.is_empty() {
            return Err(refused.unwrap_or(ClientError::NoInterface { offered }));
        }
        usable.sort_by_key(|(rank, _)| *rank);
        let honours_keys =
            card.capabilities.extensions.iter().any(|known| known.uri == IDEMPOTENCY_EXTENSION);
        let interfaces = usable.into_iter().map(|(_, interface)| interface).collect();
        let understood = AtomicUsize::new(0);
        let (card, signed_by, digest) = (Arc::new(card), None, String::new());
        Ok(Self { card, signed_by, digest, interfaces, honours_keys, understood })
    }
}

impl Peer {
    /// How many interfaces further one of another version is than the one at this place; one step if there is none.
    pub(crate) fn steps_to_other_version(&self, at: usize) -> usize {
        let version = |interface: &Interface| interface.wire.version();
        let here = self.interfaces.get(at).map(version);
        let other = self.interfaces.iter().skip(at + 1).position(|next| Some(version(next)) != here);
        other.unwrap_or_default() + 1
    }
}

fn rank(binding: &ProtocolBinding, preferred: &[ProtocolBinding]) -> usize {
    preferred.iter().position(|known| known == binding).unwrap_or(preferred.len())
}

fn usable_interface(
    interface: &AgentInterface,
    settings: &Settings,
    named: &Origin,
) -> Result<Interface, &'static str> {
    let wire = Wire::of(&interface.protocol_binding, &interface.protocol_version, settings)?;
    if settings.only_preferred && !settings.preferred.contains(&interface.protocol_binding) {
        return Err("not a binding that was asked for");
    }
    let url = match wire.is_grpc() {
        true => Cow::Owned(super::grpc::url(&interface.url, named.is_https)),
        false => Cow::Borrowed(interface.url.as_str()),
    };
    let uri: Uri = url.parse().map_err(|_| "its URL cannot be read")?;
    let origin = Arc::new(Origin::of(&uri)?);
    if settings.only_named && !named.is_same(&origin) {
        return Err("it is elsewhere than the card");
    }
    let mut base = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned();
    if !interface.tenant.is_empty() && !wire.names_tenant() && !wire.is_grpc() {
        base.push('/');
        base.extend(super::rest::segment(&interface.tenant));
    }
    Ok(Interface { wire, uri, base, tenant: interface.tenant.clone(), origin })
}

/// Whether an interface is where the card came from, or where a card may lead, as far as can be said without resolving names.
fn may_be_dialled(interface: &Interface, settings: &Settings, named: &Origin) -> Result<(), ClientError> {
    let origin = &interface.origin;
    if named.is_same(origin) || settings.found_at.as_ref().is_some_and(|at| at.is_same(origin)) {
        return Ok(());
    }
    match settings.egress.check_uri(&interface.uri) {
        Ok(_) => Ok(()),
        Err(why) => Err(ClientError::Refused { origin: origin.to_string(), why: why.to_string() }),
    }
}

/// A card is somebody else's: what it says is shown short and clean.
fn describe(interface: &AgentInterface, why: &str) -> String {
    let clean = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).take(100).collect() };
    let (binding, version) = (clean(interface.protocol_binding.as_str()), clean(&interface.protocol_version));
    format!("{binding} {version} at {} ({why})", clean(&interface.url))
}

#[cfg(test)]
mod tests {
    use chancery_protocol::Version;

    use super::*;

    fn card(interfaces: Vec<AgentInterface>) -> AgentCard {
        interfaces.into_iter().fold(AgentCard::new("a", "b", "1"), AgentCard::interface)
    }

    fn named(is_https: bool) -> Origin {
        Origin { is_https, host: "a.example".to_owned(), port: if is_https { 443 } else { 80 } }
    }

    fn chosen(card: AgentCard, settings: &Settings) -> Vec<String> {
        let peer = Peer::new(card, settings, &named(false)).unwrap();
        peer.interfaces.iter().map(|interface| interface.base.clone()).collect()
    }

    #[test]
    fn the_card_decides_unless_the_user_does() {
        let both = || {
            card(vec![
                AgentInterface::new("grpc.example:443", ProtocolBinding::Grpc),
                AgentInterface::new("https://a.example/old", ProtocolBinding::JsonRpc).version("0.3"),
                AgentInterface::new("https://a.example/rpc/", ProtocolBinding::JsonRpc),
                AgentInterface::new("https://a.example/rest", ProtocolBinding::HttpJson).tenant("b/c"),
                AgentInterface::new("https://a.example/custom", "https://bindings.example/x"),
            ])
        };
        let (grpc, old) = ("http://grpc.example:443", "https://a.example/old");
        let (rpc, rest) = ("https://a.example/rpc", "https://a.example/rest/b%2Fc");
        assert_eq!(chosen(both(), &Settings::default()), [grpc, old, rpc, rest]);
        let rest_first = Settings { preferred: vec![ProtocolBinding::HttpJson], ..Settings::default() };
        assert_eq!(chosen(both(), &rest_first), [rest, grpc, old, rpc]);
        let pinned = |version| Settings { version: Some(version), ..Settings::default() };
        assert_eq!(chosen(both(), &pinned(Version::V1_0)), [grpc, rpc, rest]);
        assert_eq!(chosen(both(), &pinned(Version::V0_3)), [old]);
    }

    #[test]
    fn a_card_leads_nowhere_that_may_not_be_dialled() {
        let elsewhere = || {
            card(vec![
                AgentInterface::new("http://10.1.2.3:50051", ProtocolBinding::Grpc),
                AgentInterface::new("http://a.example/rpc", ProtocolBinding::JsonRpc),
            ])
        };
        assert_eq!(chosen(elsewhere(), &Settings::default()), ["http://a.example/rpc"]);
        let egress = crate::egress::Egress::default().allow("10.0.0.0/8".parse().unwrap());
        let allowed = Settings { egress, ..Settings::default() };
        assert_eq!(chosen(elsewhere(), &allowed), ["http://10.1.2.3:50051", "http://a.example/rpc"]);
        let nowhere = card(vec![AgentInterface::new("http://10.1.2.3:50051", ProtocolBinding::Grpc)]);
        let error = Peer::new(nowhere.clone(), &Settings::default(), &named(false)).unwrap_err().to_string();
        assert!(error.contains("the address 10.1.2.3 is reserved"), "{error}");
        // Where the card came from may be called, whatever its address.
        let own = Origin { is_https: false, host: "10.1.2.3".to_owned(), port: 50051 };
        assert!(Peer::new(nowhere, &Settings::default(), &own).is_ok());
    }

    #[test]
    fn no_other_version_is_spoken_than_the_one_asked_for() {
        let new = || card(vec![AgentInterface::new("https://a.example", ProtocolBinding::JsonRpc)]);
        let pinned = |version| Settings { version: Some(version), ..Settings::default() };
        assert!(Peer::new(new(), &pinned(Version::V1_0), &named(true)).is_ok());
        let refused = Peer::new(new(), &pinned(Version { major: 2, minor: 0 }), &named(true)).unwrap_err();
        assert!(refused.to_string().contains("not the version that was asked for"), "{refused}");
    }

    #[test]
    fn no_other_binding_is_used_than_those_asked_for() {
        let both = || {
            card(vec![
                AgentInterface::new("https://a.example", ProtocolBinding::JsonRpc),
                AgentInterface::new("https://a.example/old", ProtocolBinding::HttpJson).version("0.3"),
            ])
        };
        let only = |binding, version| Settings {
            preferred: vec![binding],
            only_preferred: true,
            version: Some(version),
            ..Settings::default()
        };
        assert_eq!(
            chosen(both(), &only(ProtocolBinding::HttpJson, Version::V0_3)),
            ["https://a.example/old"]
        );
        let refused =
            Peer::new(both(), &only(ProtocolBinding::HttpJson, Version::V1_0), &named(true)).unwrap_err();
        assert!(refused.to_string().contains("not a binding that was asked for"), "{refused}");
    }

    #[test]
    fn a_card_that_is_not_trusted_leads_nowhere_else() {
        let settings = Settings { only_named: true, ..Settings::default() };
        let far = AgentInterface::new("https://b.example", ProtocolBinding::JsonRpc);
        let near = AgentInterface::new("https://a.example/rpc", ProtocolBinding::JsonRpc);
        let both = card(vec![far.clone(), near]);
        let peer = Peer::new(both, &settings, &named(true)).unwrap();
        assert_eq!(peer.interfaces.len(), 1);
        assert_eq!(peer.interfaces[0].base, "https://a.example/rpc");
        assert!(Peer::new(card(vec![far]), &settings, &named(true)).is_err());
    }

    #[test]
    fn a_card_without_anything_usable_says_what_it_has() {
        let odd = card(vec![
            AgentInterface::new("grpc.example:443:1", ProtocolBinding::Grpc),
            AgentInterface::new("https://a.example", ProtocolBinding::JsonRpc).version("9.0"),
            AgentInterface::new("a.example", ProtocolBinding::JsonRpc),
            AgentInterface::new("https://me:hush@a.example", ProtocolBinding::JsonRpc),
        ]);
        let Err(ClientError::NoInterface { offered }) = Peer::new(odd, &Settings::default(), &named(true))
        else {
            panic!("it was usable")
        };
        assert_eq!(offered.len(), 4);
        assert!(offered[0].starts_with("GRPC 1.0 at grpc.example:443:1 ("), "{offered:?}");
        assert!(offered[1].contains("version"), "{offered:?}");
    }
}

//! Which versions of the protocol a site serves, on which bindings, and whether a call says the one that it speaks.

use chancery_protocol::{Error, ErrorCode, ProtocolBinding, Version};

/// The versions that are served, the newest last, and the bindings that are not.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    served: Vec<Version>,
    silent: Vec<ProtocolBinding>,
    /// Whether a call of the newest version may keep silent about it.
    pub(crate) lenient: bool,
}

/// What an agent does not speak, of what the server does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Omitted {
    pub(crate) versions: Vec<Version>,
    pub(crate) bindings: Vec<ProtocolBinding>,
}

/// The same to us as the version after it.
const V0_2: Version = Version { major: 0, minor: 2 };

impl Versions {
    /// Every version that there is an adapter for.
    pub(crate) fn all() -> Self {
        let served = vec![Version::V0_1, Version::V0_3, Version::V1_0];
        Self { served, silent: Vec::new(), lenient: false }
    }

    /// The same without what is left out for one agent.
    pub(crate) fn without(&self, omitted: &Omitted) -> Self {
        let mut rest = self.clone();
        omitted.versions.iter().for_each(|version| rest.remove(*version));
        rest.silent.extend_from_slice(&omitted.bindings);
        rest
    }

    /// Switches a binding off.
    pub(crate) fn remove_binding(&mut self, binding: ProtocolBinding) {
        self.silent.push(binding);
    }

    /// Whether there is a binding.
    pub(crate) fn speaks(&self, binding: &ProtocolBinding) -> bool {
        !self.silent.contains(binding)
    }

    /// Switches a version off.
    pub(crate) fn remove(&mut self, version: Version) {
        self.served.retain(|served| *served != version);
    }

    pub(crate) fn serves(&self, version: Version) -> bool {
        self.served.contains(&version)
    }

    /// What is wrong with the choice, if anything is.
    pub(crate) fn problem(&self) -> Option<String> {
        // Before v0.3 there was one binding.
        let is_on = |binding: &ProtocolBinding| {
            let is_first = *binding == ProtocolBinding::JsonRpc;
            self.speaks(binding) && (is_first || self.served.iter().any(|version| *version > Version::V0_1))
        };
        if self.served.is_empty() {
            return Some("every version of the protocol is switched off; leave one".to_owned());
        }
        let none =
            ![ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc].iter().any(is_on);
        none.then(|| "every binding of the protocol is switched off; leave one".to_owned())
    }

    /// The version of a call, from what its head asks for and what it looks like; nothing if it looks like none. A call
    /// that does not ask is one of 0.3, unless it looks like another and the operator lets that pass.
    pub(crate) fn agree(&self, asked: Option<&str>, looks: Option<Version>) -> Result<Version, Error> {
        let asked = asked.map(str::trim).unwrap_or_default();
        let version = match (asked, looks) {
            ("", Some(Version::V1_0)) if !self.lenient => None,
            ("", Some(version)) => Some(version),
            ("", None) if self.lenient => self.served.last().copied(),
            ("", None) => Some(Version::V0_3),
            (asked, _) => Version::parse(asked).map(|version| match version {
                V0_2 => Version::V0_3,
                version => version,
            }),
        };
        let refused = || Version::not_served(asked, &self.served);
        let version = version.filter(|version| self.serves(*version)).ok_or_else(refused)?;
        match looks {
            None => Ok(version),
            Some(looks) if looks == version => Ok(version),
            // To the newest version, the words of an older one are no words at all.
            Some(looks) if looks < version => Err(Error::with_message(
                ErrorCode::MethodNotFound,
                format!("Method not found: it is one of version {looks}, and A2A-Version says {version}"),
            )),
            Some(_) => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_body_must_agree() {
        let (all, new, old) = (Versions::all(), Some(Version::V1_0), Some(Version::V0_3));
        for (asked, looks, version) in [
            (Some("1.0"), new, Version::V1_0),
            (Some(" 1.0.1 "), new, Version::V1_0),
            (None, old, Version::V0_3),
            (Some(""), old, Version::V0_3),
            (Some("0.3.0"), old, Version::V0_3),
            (Some("0.2.5"), old, Version::V0_3),
            (None, None, Version::V0_3),
            (Some("1.0"), None, Version::V1_0),
        ] {
            assert_eq!(all.agree(asked, looks).unwrap(), version, "{asked:?} {looks:?}");
        }
        for (asked, looks, code) in [
            (None, new, ErrorCode::VersionNotSupported),
            (Some("0.3"), new, ErrorCode::VersionNotSupported),
            (Some("9.0"), new, ErrorCode::VersionNotSupported),
            (Some("9.0"), old, ErrorCode::VersionNotSupported),
            (Some("x"), None, ErrorCode::VersionNotSupported),
            (Some("1.0"), old, ErrorCode::MethodNotFound),
        ] {
            assert_eq!(all.agree(asked, looks).unwrap_err().code(), code, "{asked:?} {looks:?}");
        }
    }

    #[test]
    fn what_is_switched_off_is_refused() {
        let mut versions = Versions::all();
        versions.remove(Version::V0_3);
        for looks in [None, Some(Version::V0_3), Some(Version::V1_0)] {
            let error = versions.agree(None, looks).unwrap_err();
            assert_eq!(error.code(), ErrorCode::VersionNotSupported, "{looks:?}");
            assert_eq!(error.fact("supportedVersions"), Some("0.1,1.0"));
        }
        assert_eq!(versions.agree(None, Some(Version::V0_1)).unwrap(), Version::V0_1);
        versions.lenient = true;
        assert_eq!(versions.agree(None, Some(Version::V1_0)).unwrap(), Version::V1_0);
        assert_eq!(versions.agree(None, None).unwrap(), Version::V1_0);
        assert!(versions.agree(None, Some(Version::V0_3)).is_err());
    }
}

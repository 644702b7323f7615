//! Which version of the protocol a call speaks, and which extensions it activates.

use std::fmt;

use crate::decode::excerpt;
use crate::error::{Error, ErrorCode};

/// The request header, or URL query parameter, that names the version.
pub const VERSION_HEADER: &str = "a2a-version";
/// The header that names the extensions a client activates, and those that a server did.
pub const EXTENSIONS_HEADER: &str = "a2a-extensions";

/// A protocol version. Patch numbers never matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Incompatible changes.
    pub major: u16,
    /// Compatible ones.
    pub minor: u16,
}

impl Version {
    /// The version that this crate models.
    pub const V1_0: Self = Self { major: 1, minor: 0 };
    /// What a call without a version speaks.
    pub const V0_3: Self = Self { major: 0, minor: 3 };
    /// The first, in which clients name their tasks.
    pub const V0_1: Self = Self { major: 0, minor: 1 };

    /// Reads `Major.Minor`; a patch number is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        // What nearly everybody says.
        if text == "1.0" {
            return Some(Self::V1_0);
        }
        let mut numbers = text.split('.');
        let (major, minor) = (number(numbers.next()?)?, number(numbers.next()?)?);
        let patch_is_number = numbers.next().is_none_or(|patch| number(patch).is_some());
        (patch_is_number && numbers.next().is_none()).then_some(Self { major, minor })
    }

    /// The version that a call asks for, which must be one of those served. Missing or empty means 0.3,
    /// unless the operator chose to be lenient: then it means the newest.
    pub fn negotiate(asked: Option<&str>, served: &[Self], lenient: bool) -> Result<Self, Error> {
        let asked = asked.map(str::trim).unwrap_or_default();
        let version = match asked {
            "" if lenient => served.iter().max().copied(),
            "" => Some(Self::V0_3),
            text => Self::parse(text),
        };
        version.filter(|version| served.contains(version)).ok_or_else(|| Self::not_served(asked, served))
    }

    /// The refusal of what a call asks for; empty if it does not say. The versions that are served are named in it,
    /// the newest of them last.
    pub fn not_served(asked: &str, served: &[Self]) -> Error {
        let supported: Vec<_> = served.iter().map(ToString::to_string).collect();
        let message = if asked.is_empty() {
            format!(
                "Protocol version not supported: a request without A2A-Version speaks 0.3; send `A2A-Version: {}`",
                supported.last().map_or("1.0", String::as_str)
            )
        } else {
            format!("Protocol version not supported: {}", excerpt(asked, 32))
        };
        Error::with_message(ErrorCode::VersionNotSupported, message)
            .about("supportedVersions", supported.join(","))
    }
}

/// Digits only: the standard library would also take `+1`.
fn number(text: &str) -> Option<u16> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits { text.parse().ok() } else { None }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The URIs of an extensions header: comma-separated, in order, each once.
pub fn parse_extensions(header: &str, into: &mut Vec<String>) {
    for uri in header.split(',').map(str::trim).filter(|uri| !uri.is_empty()) {
        if !into.iter().any(|known| known == uri) {
            into.push(uri.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_numbers_do_not_matter() {
        assert_eq!(Version::parse("1.0"), Some(Version::V1_0));
        assert_eq!(Version::parse("1.0.1"), Some(Version::V1_0));
        for text in ["", "1", "1.x", "1.0.x", "1.0.0.0", "-1.0", "v1.0", "99999.0", "+1.0"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn missing_means_0_3_unless_lenient() {
        let served = [Version::V1_0];
        assert_eq!(Version::negotiate(Some("1.0"), &served, false).unwrap(), Version::V1_0);
        assert_eq!(Version::negotiate(None, &served, true).unwrap(), Version::V1_0);
        for asked in [None, Some(""), Some("0.3"), Some("99.0"), Some("1.1"), Some("x")] {
            let error = Version::negotiate(asked, &served, false).unwrap_err();
            assert_eq!(error.code(), ErrorCode::VersionNotSupported, "{asked:?}");
        }
    }

    #[test]
    fn extensions_are_listed_once() {
        let mut uris = Vec::new();
        parse_extensions(" a , b,,a", &mut uris);
        parse_extensions("c", &mut uris);
        assert_eq!(uris, ["a", "b", "c"]);
    }
}

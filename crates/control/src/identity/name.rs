//! What callers, realms and groups can be called: one rule, wherever a name is given. Names stand in logs, exports and headers.

/// How long a name may be.
pub const LONGEST_NAME: usize = 256;

/// Why a name cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadName {
    /// There is nothing in it.
    #[error("a name cannot be empty")]
    Empty,
    /// A terminal or a log would obey something in it.
    #[error("a name has no control characters, such as line breaks")]
    Control,
    /// It is too long.
    #[error("a name has at most {LONGEST_NAME} bytes")]
    TooLong,
}

/// Whether somebody or something can be called so.
pub fn check_name(name: &str) -> Result<(), BadName> {
    match name {
        name if name.trim().is_empty() => Err(BadName::Empty),
        name if name.len() > LONGEST_NAME => Err(BadName::TooLong),
        name if name.chars().any(char::is_control) => Err(BadName::Control),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_a_name() {
        for (name, expected) in [
            ("alice@example.com", Ok(())),
            ("Zoë Ä", Ok(())),
            ("", Err(BadName::Empty)),
            (" ", Err(BadName::Empty)),
            ("a\nb", Err(BadName::Control)),
            ("a\u{1b}[2J", Err(BadName::Control)),
            ("a\u{85}", Err(BadName::Control)),
            (&"x".repeat(LONGEST_NAME), Ok(())),
            (&"x".repeat(LONGEST_NAME + 1), Err(BadName::TooLong)),
        ] {
            assert_eq!(check_name(name), expected, "{name:?}");
        }
    }
}

//! What a URL says about a store: `sqlite:PATH?durability=power`.

use std::path::PathBuf;

use crate::error::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) path: PathBuf,
    pub(super) durability: Durability,
}

/// What a commit outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process, however it comes.
    Process,
    /// The end of the power as well.
    Power,
}

impl Options {
    /// Reads what follows `sqlite:`.
    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let refuse = |why: String| StoreError::Unavailable {
            what: format!("open `sqlite:{text}`"),
            why,
            hint: "write it as sqlite:PATH or sqlite:PATH?durability=power",
        };
        if path.is_empty() {
            return Err(refuse("it names no file".to_owned()));
        }
        let mut durability = Durability::Process;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            durability = match pair {
                "durability=process" => Durability::Process,
                "durability=power" => Durability::Power,
                _ => return Err(refuse(format!("`{pair}` is no setting of it"))),
            };
        }
        Ok(Self { path: PathBuf::from(path.strip_prefix("//").unwrap_or(path)), durability })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_and_a_durability() {
        let parse = |text: &str| Options::parse(text).unwrap();
        let options = |path: &str, durability| Options { path: PathBuf::from(path), durability };
        assert_eq!(parse("a.db"), options("a.db", Durability::Process));
        assert_eq!(parse("///srv/a.db?durability=power"), options("/srv/a.db", Durability::Power));
        assert_eq!(parse("a.db?durability=process"), options("a.db", Durability::Process));
        for text in ["", "?durability=power", "a.db?durability=none", "a.db?x=1"] {
            let error = Options::parse(text).unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
    }
}

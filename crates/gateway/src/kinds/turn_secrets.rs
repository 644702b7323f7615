//! The credentials of a turn, taken out of what its agent says: a program that prints its environment does not hand its authority to
//! whoever called it. That is for accidents; an agent that wants to give it away can write it in another way.

use chancery_protocol::{Artifact, Content, Part};
use chancery_sdk::Turn;

use super::task_keys::TaskKey;

/// What an agent was given for one turn and is not to repeat, with what stands in its place.
pub(super) struct TurnSecrets(Vec<(String, &'static str)>);

/// The end of a text that may be the beginning of a secret: it waits for what comes next, and is shorter than a secret.
pub(super) type Held = String;

impl TurnSecrets {
    /// The lineage token of a turn, and the key that was made for it.
    pub(super) fn of(turn: &Turn, key: Option<&TaskKey>) -> Self {
        let key = key.map(|key| (key.text().to_owned(), "[turn token]"));
        let lineage = turn.lineage().map(|token| (token, "[lineage token]"));
        Self(key.into_iter().chain(lineage).filter(|(secret, _)| !secret.is_empty()).collect())
    }

    /// A text without them.
    pub(super) fn without(&self, text: String) -> String {
        let replace = |text: String, (secret, name): &(String, &str)| match text.contains(secret) {
            true => text.replace(secret, name),
            false => text,
        };
        self.0.iter().fold(text, replace)
    }

    /// The next piece of a text that comes piece by piece. What may be the beginning of a secret is held until it is known.
    pub(super) fn piece(&self, held: &mut Held, next: &str, is_end: bool) -> String {
        held.push_str(next);
        let mut text = self.without(std::mem::take(held));
        if !is_end {
            *held = text.split_off(text.len() - self.begun(&text));
        }
        text
    }

    /// An artifact without them, wherever in it they stand.
    pub(super) fn artifact(&self, mut artifact: Artifact) -> Artifact {
        for part in &mut artifact.parts {
            if let Content::Raw(bytes) = &mut part.content
                && let Ok(text) = std::str::from_utf8(bytes)
                && self.tells(text)
            {
                *bytes = self.without(text.to_owned()).into();
            }
        }
        let written = serde_json::to_string(&artifact).unwrap_or_default();
        if !self.tells(&written) {
            return artifact;
        }
        serde_json::from_str(&self.without(written)).unwrap_or_else(|_| Artifact {
            artifact_id: artifact.artifact_id,
            parts: vec![Part::text("[an artifact with a token]")],
            name: String::new(),
            description: String::new(),
            metadata: None,
            extensions: Vec::new(),
        })
    }

    fn tells(&self, text: &str) -> bool {
        self.0.iter().any(|(secret, _)| text.contains(secret))
    }

    /// How many bytes at the end of a text begin a secret.
    fn begun(&self, text: &str) -> usize {
        let text = text.as_bytes();
        let begins = |(secret, _): &(String, &str)| {
            let secret = secret.as_bytes();
            (1..secret.len()).rev().find(|length| text.ends_with(&secret[..*length])).unwrap_or_default()
        };
        self.0.iter().map(begins).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> TurnSecrets {
        TurnSecrets(vec![
            ("chancery-turn-0af".to_owned(), "[turn token]"),
            ("aa.ab.c".to_owned(), "[lineage token]"),
        ])
    }

    #[test]
    fn a_secret_is_taken_out_however_it_is_cut() {
        let secrets = secrets();
        let said = "TOKEN=chancery-turn-0af\nL=aa.ab.c aa.aa.ab.c aa.ab.xchancery-turn-0af grüße c";
        let clean = secrets.without(said.to_owned());
        assert!(!clean.contains("0af") && !clean.contains("aa.ab.c"), "{clean}");
        for size in 1..said.len() {
            let (mut held, mut all, mut rest) = (Held::new(), String::new(), said);
            while !rest.is_empty() {
                let end =
                    (size.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap();
                let (next, left) = rest.split_at(end);
                all += &secrets.piece(&mut held, next, left.is_empty());
                assert!(held.len() < "chancery-turn-0af".len());
                rest = left;
            }
            assert_eq!(all, clean, "{size}");
        }
    }

    #[test]
    fn an_artifact_is_clean_in_every_place_and_else_as_it_was() {
        let secrets = secrets();
        let mut artifact: Artifact = serde_json::from_str(
            r#"{"artifactId":"a","name":"aa.ab.c","parts":[{"text":"x aa.ab.c"},{"data":{"n":1.0,"t":"aa.ab.c"}}],"metadata":{"chancery-turn-0af":1}}"#,
        )
        .unwrap();
        artifact.parts.push(Part::raw("chancery-turn-0af"));
        let clean = serde_json::to_string(&secrets.artifact(artifact)).unwrap();
        assert_eq!(clean.matches("[lineage token]").count(), 3, "{clean}");
        assert!(clean.contains(r#""[turn token]":1"#) && clean.contains(r#""n":1.0"#), "{clean}");
        let raw = serde_json::to_string(&Part::raw("[turn token]")).unwrap();
        assert!(clean.contains(&raw), "{clean}");
    }
}

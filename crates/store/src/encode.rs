//! The events of a batch, written one after the other.
//!
//! Most events of a stream are pieces of one artifact, which begin alike up to their parts. That beginning is written once
//! and copied for those that follow.

use std::ops::Range;

use chancery_protocol::{Artifact, TaskArtifactUpdateEvent, write_json};

use crate::error::StoreError;
use crate::record::Change;

/// Where the events of a batch are written to.
pub(crate) struct Encoder<'a> {
    pub(crate) json: Vec<u8>,
    last: Option<Piece<'a>>,
}

/// A piece of an artifact that has been written.
struct Piece<'a> {
    update: &'a TaskArtifactUpdateEvent,
    /// Where its beginning is.
    beginning: Range<usize>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { json: Vec::with_capacity(bytes), last: None }
    }

    pub(crate) fn write(&mut self, change: &'a Change) -> Result<(), StoreError> {
        match change {
            Change::Artifact(update) if is_bare(update) => self.write_piece(update)?,
            _ => write_json(&mut self.json, &change.wire())?,
        }
        Ok(())
    }

    fn write_piece(&mut self, update: &'a TaskArtifactUpdateEvent) -> Result<(), serde_json::Error> {
        let start = self.json.len();
        match &self.last {
            Some(last) if begin_alike(last.update, update) => {
                self.json.extend_from_within(last.beginning.clone());
            }
            _ => self.write_beginning(update)?,
        }
        self.last = Some(Piece { update, beginning: start..self.json.len() });
        write_json(&mut self.json, &update.artifact.parts)?;
        self.json.push(b'}');
        if update.append {
            self.json.extend_from_slice(br#","append":true"#);
        }
        if update.last_chunk {
            self.json.extend_from_slice(br#","lastChunk":true"#);
        }
        self.json.extend_from_slice(b"}}");
        Ok(())
    }

    fn write_beginning(&mut self, update: &TaskArtifactUpdateEvent) -> Result<(), serde_json::Error> {
        let json = &mut self.json;
        json.extend_from_slice(br#"{"artifactUpdate":{"taskId":"#);
        write_json(json, &update.task_id)?;
        json.extend_from_slice(br#","contextId":"#);
        write_json(json, &update.context_id)?;
        json.extend_from_slice(br#","artifact":{"artifactId":"#);
        write_json(json, &update.artifact.artifact_id)?;
        json.extend_from_slice(br#","parts":"#);
        Ok(())
    }
}

/// Whether there is nothing to it but ids and parts.
fn is_bare(update: &TaskArtifactUpdateEvent) -> bool {
    let Artifact { artifact_id: _, name, description, parts: _, metadata, extensions } = &update.artifact;
    update.metadata.is_none()
        && metadata.is_none()
        && name.is_empty()
        && description.is_empty()
        && extensions.is_empty()
}

fn begin_alike(one: &TaskArtifactUpdateEvent, other: &TaskArtifactUpdateEvent) -> bool {
    one.artifact.artifact_id == other.artifact.artifact_id
        && one.task_id == other.task_id
        && one.context_id == other.context_id
}

#[cfg(test)]
mod tests {
    use chancery_protocol::{ArtifactId, ContextId, JsonObject, Part, TaskId};
    use proptest::prelude::*;

    use super::*;

    fn object() -> impl Strategy<Value = Option<JsonObject>> {
        prop::option::weighted(0.2, Just(JsonObject::single("k", &1).unwrap()))
    }

    /// Few ids, so that many pieces begin alike, and now and then something besides.
    fn update() -> impl Strategy<Value = TaskArtifactUpdateEvent> {
        let id = || prop::sample::select(vec!["a", "b\"", "c,\"parts\":"]);
        let seldom = || prop_oneof![4 => Just(String::new()), 1 => "[a\"]{1,3}"];
        let flags = any::<(bool, bool)>();
        let texts = prop::collection::vec(".{0,9}", 1..3);
        (id(), id(), seldom(), seldom(), texts, object(), object(), flags).prop_map(
            |(task, artifact, name, description, texts, in_artifact, metadata, (append, last_chunk))| {
                let extensions = if name.is_empty() { Vec::new() } else { vec![name.clone()] };
                let artifact = Artifact {
                    artifact_id: ArtifactId::from(artifact),
                    name,
                    description,
                    parts: texts.into_iter().map(Part::text).collect(),
                    metadata: in_artifact,
                    extensions,
                };
                let (task_id, context_id) = (TaskId::from(task), ContextId::from("c"));
                TaskArtifactUpdateEvent { task_id, context_id, artifact, append, last_chunk, metadata }
            },
        )
    }

    proptest! {
        #[test]
        fn it_is_what_serde_writes(updates in prop::collection::vec(update(), 0..12)) {
            let changes: Vec<_> = updates.into_iter().map(Change::Artifact).collect();
            let mut encoder = Encoder::with_room(0);
            for change in &changes {
                let start = encoder.json.len();
                encoder.write(change).unwrap();
                let written = String::from_utf8(encoder.json[start..].to_vec()).unwrap();
                prop_assert_eq!(written, serde_json::to_string(&change.wire()).unwrap());
            }
        }
    }
}

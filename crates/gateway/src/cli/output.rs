//! What commands print: the protocol's own JSON for programs, labelled lines for people.

use std::io::{self, Write};

use chancery_protocol::{
    AgentCard, Artifact, Content, ListTasksResponse, Message, Part, StreamResponse, Task, TaskStatus,
};
use serde::Serialize;

use super::failure::printable;

/// Writes a value as one line of JSON.
pub(super) fn json_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writes labelled lines and blocks. Nothing in them is obeyed by a terminal.
pub(super) struct Lines<W: Write>(pub(super) W);

impl<W: Write> Lines<W> {
    pub(super) fn field(&mut self, label: &str, value: impl AsRef<str>) -> io::Result<()> {
        let value = value.as_ref();
        if value.is_empty() { Ok(()) } else { writeln!(self.0, "{label}: {}", printable(value)) }
    }

    /// Text of any length: a line with its label, the text, a blank line.
    fn block(&mut self, label: &str, text: &str) -> io::Result<()> {
        let clean: String = text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
        writeln!(self.0, "{label}:\n{}\n", clean.trim_end_matches('\n'))
    }

    pub(super) fn task(&mut self, task: &Task) -> io::Result<()> {
        self.field("Task", task.id.as_str())?;
        self.field("Context", task.context_id.as_ref().map_or("", |id| id.as_str()))?;
        self.status(&task.status)?;
        task.artifacts.iter().try_for_each(|artifact| self.artifact(artifact))
    }

    pub(super) fn status(&mut self, status: &TaskStatus) -> io::Result<()> {
        self.field("State", status.state.as_str())?;
        match &status.message {
            Some(message) => self.parts("Message", &message.parts),
            None => Ok(()),
        }
    }

    fn artifact(&mut self, artifact: &Artifact) -> io::Result<()> {
        let name = if artifact.name.is_empty() { artifact.artifact_id.as_str() } else { &artifact.name };
        self.field("Artifact", name)?;
        self.parts("Text", &artifact.parts)
    }

    pub(super) fn message(&mut self, message: &Message) -> io::Result<()> {
        self.field("Context", message.context_id.as_ref().map_or("", |id| id.as_str()))?;
        self.parts("Message", &message.parts)
    }

    fn parts(&mut self, label: &str, parts: &[Part]) -> io::Result<()> {
        for part in parts {
            let name = part.filename.as_deref().unwrap_or("(no name)");
            let media_type = part.media_type.as_deref().unwrap_or("application/octet-stream");
            match &part.content {
                Content::Text(text) => self.block(label, text)?,
                Content::Data(data) => self.block("Data", &pretty(data.as_str()))?,
                Content::Raw(bytes) => {
                    self.field("File", format!("{name}, {media_type}, {} bytes", bytes.len()))?;
                }
                Content::Url(url) => self.field("File", format!("{name}, {media_type}, at {url}"))?,
            }
        }
        Ok(())
    }

    /// One event of a stream.
    pub(super) fn event(&mut self, event: &StreamResponse) -> io::Result<()> {
        match event {
            StreamResponse::Task(task) => self.task(task)?,
            StreamResponse::Message(message) => self.message(message)?,
            StreamResponse::StatusUpdate(update) => {
                self.field("Task", update.task_id.as_str())?;
                self.field("Context", update.context_id.as_str())?;
                self.status(&update.status)?;
            }
            StreamResponse::ArtifactUpdate(update) => self.artifact(&update.artifact)?,
        }
        self.0.flush()
    }

    pub(super) fn tasks(&mut self, page: &ListTasksResponse) -> io::Result<()> {
        for task in &page.tasks {
            self.field("Task", task.id.as_str())?;
            self.field("Context", task.context_id.as_ref().map_or("", |id| id.as_str()))?;
            self.field("State", task.status.state.as_str())?;
            self.field("Since", task.status.timestamp.map(|at| at.to_string()).unwrap_or_default())?;
            writeln!(self.0)?;
        }
        self.field("Total", page.total_size.to_string())?;
        self.field("Next page", &page.next_page_token)
    }

    pub(super) fn card(&mut self, card: &AgentCard) -> io::Result<()> {
        self.field("Name", &card.name)?;
        self.field("Description", &card.description)?;
        self.field("Version", &card.version)?;
        if let Some(provider) = &card.provider {
            self.field("Provider", format!("{}, {}", provider.organization, provider.url))?;
        }
        for interface in &card.supported_interfaces {
            let tenant = match interface.tenant.as_str() {
                "" => String::new(),
                tenant => format!(", tenant {tenant}"),
            };
            let (binding, version) = (interface.protocol_binding.as_str(), &interface.protocol_version);
            self.field("Interface", format!("{binding} {version} at {}{tenant}", interface.url))?;
        }
        let can = |flag: Option<bool>| if flag == Some(true) { "yes" } else { "no" };
        self.field("Streaming", can(card.capabilities.streaming))?;
        self.field("Push notifications", can(card.capabilities.push_notifications))?;
        self.field("Extended card", can(card.capabilities.extended_agent_card))?;
        for extension in &card.capabilities.extensions {
            let required = if extension.required { " (required)" } else { "" };
            self.field("Extension", format!("{}{required}", extension.uri))?;
        }
        for name in card.security_schemes.keys() {
            self.field("Security scheme", name)?;
        }
        for skill in &card.skills {
            self.field("Skill", format!("{}: {}", skill.id, skill.description))?;
        }
        self.field("Signatures", card.signatures.len().to_string())
    }
}

fn pretty(json: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed_by_a_terminal() {
        let mut out = Vec::new();
        let mut lines = Lines(&mut out);
        lines.message(&Message::agent("a\u{1b}[2Jb\nc\r\u{7}")).unwrap();
        lines.field("Task", "x\ny").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "Message:\na[2Jb\nc\n\nTask: x y\n");
    }
}

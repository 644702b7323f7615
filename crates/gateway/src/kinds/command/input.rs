//! What a program is told: the text of the message, or the messages of the task as lines of JSON.

use chancery_sdk::Turn;

use crate::config::CommandInput;

pub(super) fn of(turn: &Turn, input: CommandInput) -> Result<Vec<u8>, serde_json::Error> {
    match input {
        CommandInput::Text => Ok(turn.text().into_owned().into_bytes()),
        CommandInput::Json => {
            let mut lines = Vec::new();
            let (asked, before) = (turn.message(), turn.history());
            // The history may have the message already.
            let before = before.iter().filter(|message| message.message_id != asked.message_id);
            for message in before.chain([asked]) {
                serde_json::to_writer(&mut lines, message)?;
                lines.push(b'\n');
            }
            Ok(lines)
        }
    }
}

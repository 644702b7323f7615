//! How a caller is answered: whether it reads the bytes of a file as base64 once or twice.
//!
//! Over HTTP+JSON and gRPC of v0.3 the SDKs disagree. Python and Go put base64 into a field of bytes, which ProtoJSON
//! writes as base64 once more; JavaScript puts the bytes there. No header tells them apart. So a caller is answered as
//! it wrote itself, if its message has a file; if not, as what it says it is written in does; and if it does not say,
//! as most do.

use http::HeaderMap;
use http::header::USER_AGENT;
use serde::Deserialize;

use super::Form;
use super::message::is_base64;
use chancery_protocol::field::Base64;

/// How the user agents of JavaScript begin: Node.js, Deno, Bun, browsers, and gRPC on Node.js.
const JAVASCRIPT: [&str; 6] = ["node", "undici", "Deno/", "Bun/", "Mozilla/", "grpc-node-js/"];

impl Form {
    /// The form in which whoever sent this is to be answered.
    pub(crate) fn for_caller(headers: &HeaderMap, body: &[u8]) -> Self {
        let twice = wrote_twice(body).unwrap_or_else(|| !is_javascript(headers));
        Self::Proto { twice }
    }
}

/// Whether the files of a message have base64 of base64 as their bytes; nothing if there is none.
fn wrote_twice(body: &[u8]) -> Option<bool> {
    #[derive(Deserialize)]
    struct Send {
        #[serde(alias = "request")]
        message: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(alias = "content")]
        parts: Vec<Part>,
    }
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        file: Option<File>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File {
        #[serde(alias = "file_with_bytes", default)]
        file_with_bytes: Option<Base64>,
    }
    // Most have none, and are not read twice.
    memchr::memmem::find(body, b"ytes\"")?;
    let Send { message } = serde_json::from_slice(body).ok()?;
    let files = message.parts.into_iter().filter_map(|part| part.file?.file_with_bytes);
    let mut twice = files.filter(|Base64(bytes)| !bytes.is_empty()).map(|Base64(bytes)| is_base64(&bytes));
    let first = twice.next()?;
    // One that cannot have been encoded again says more than many that may have been.
    Some(first && twice.all(|again| again))
}

fn is_javascript(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    JAVASCRIPT.iter().any(|name| agent.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(agent: &'static str, body: &str) -> Form {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, agent.parse().unwrap());
        Form::for_caller(&headers, body.as_bytes())
    }

    #[test]
    fn a_caller_is_answered_as_it_wrote() {
        let (once, twice) = (Form::Proto { twice: false }, Form::Proto { twice: true });
        let sent = |files: &[&str]| {
            let parts: Vec<_> =
                files.iter().map(|file| format!(r#"{{"file":{{"fileWithBytes":"{file}"}}}}"#)).collect();
            format!(r#"{{"message":{{"messageId":"m","content":[{}]}}}}"#, parts.join(","))
        };
        for agent in ["node", "python-httpx/0.28", ""] {
            assert_eq!(form(agent, &sent(&["AP8="])), once, "{agent}");
            assert_eq!(form(agent, &sent(&["QVA4PQ=="])), twice, "{agent}");
            // Bytes that look like base64 are no proof beside bytes that do not.
            assert_eq!(form(agent, &sent(&["QVA4PQ==", "AP8="])), once, "{agent}");
        }
        let snake = r#"{"request":{"content":[{"text":"x"},{"file":{"file_with_bytes":"AP8="}}]}}"#;
        assert_eq!(form("", snake), once);
    }

    #[test]
    fn who_sends_no_file_is_answered_as_its_kind_reads() {
        let (once, twice) = (Form::Proto { twice: false }, Form::Proto { twice: true });
        for body in [
            "",
            r#"{"message":{"content":[{"text":"bytes"}]}}"#,
            r#"{"message":{"content":[{"file":{"fileWithBytes":""}}]}}"#,
        ] {
            for agent in ["node", "grpc-node-js/1.14.0", "Mozilla/5.0", "Deno/2.1", "undici"] {
                assert_eq!(form(agent, body), once, "{agent}");
            }
            for agent in ["", "python-httpx/0.28.1", "grpc-python/1.76 grpc-c/51", "Go-http-client/1.1"] {
                assert_eq!(form(agent, body), twice, "{agent}");
            }
        }
    }
}

//! Just enough of an HTTP client: one request, one connection, and bytes as they come.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// For how long nothing may come.
const PATIENCE: Duration = Duration::from_secs(10);

/// The head of an answer, and a body still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

/// A body: so many bytes, or chunks until an empty one.
#[derive(Debug)]
struct Body {
    connection: BufReader<TcpStream>,
    left: usize,
    chunked: bool,
}

/// The events of a stream, each with the one line of data that it must have.
#[derive(Debug)]
pub(crate) struct Frames(BufReader<Body>);

/// Sends a request and reads the head of the answer.
pub(crate) fn exchange(
    address: SocketAddr,
    verb: &str,
    target: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> Response {
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let mut head = format!("{verb} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    connection.write_all(&[head.as_bytes(), body].concat()).expect("the request is taken");
    Response::read(BufReader::new(connection)).expect("an answer")
}

// === impl Response ===

impl Response {
    fn read(mut connection: BufReader<TcpStream>) -> io::Result<Self> {
        let status_line = read_line(&mut connection)?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut connection)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let chunked = find("transfer-encoding").is_some_and(|value| value == "chunked");
        let left = find("content-length").map_or(0, |value| value.parse().unwrap());
        let body = BufReader::new(Body { connection, left, chunked });
        Ok(Self { status: status.expect("a status"), headers, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The media type of the body.
    pub(crate) fn media_type(&self) -> &str {
        self.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The next line of the body, with its end.
    #[allow(dead_code, reason = "the acceptance tests read streams so")]
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.body.read_line(&mut line).expect("a line, or the end");
        (count > 0).then_some(line)
    }

    pub(crate) fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).expect("the whole body, in UTF-8");
        text
    }

    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"))
    }

    pub(crate) fn frames(self) -> Frames {
        Frames(self.body)
    }
}

fn read_line(source: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    source.read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.strip_suffix('\r').unwrap_or(line).to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

// === impl Body ===

impl Body {
    /// Reads the size of the next chunk. After the empty one there is nothing more.
    fn next_chunk(&mut self) -> io::Result<()> {
        let line = read_line(&mut self.connection)?;
        self.left = usize::from_str_radix(&line, 16).expect("the size of a chunk");
        if self.left == 0 {
            self.chunked = false;
            read_line(&mut self.connection)?;
        }
        Ok(())
    }
}

impl Read for Body {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && self.chunked {
            self.next_chunk()?;
        }
        let wanted = out.len().min(self.left);
        let count = self.connection.read(&mut out[..wanted])?;
        if count == 0 && wanted > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= count;
        if self.left == 0 && count > 0 && self.chunked {
            read_line(&mut self.connection)?;
        }
        Ok(count)
    }
}

// === impl Frames ===

impl Iterator for Frames {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut data = None;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("an event, or the end") == 0 {
                assert_eq!(data, None, "a stream ends after an event, not within one");
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(json) = line.strip_prefix("data:") {
                let parsed = serde_json::from_str(json).expect("each line of data is JSON");
                assert_eq!(data.replace(parsed), None, "an event has one line of data");
            } else if line.is_empty() && data.is_some() {
                return data;
            } else {
                let known = line.is_empty() || ["id:", "event:", ":"].iter().any(|p| line.starts_with(p));
                assert!(known, "no line of an event: {line}");
            }
        }
    }
}

//! `grpc.reflection`: which services there are and what their messages look like, for tools such as grpcurl. It tells what
//! anybody can read in the protocol's own files, and is off unless switched on.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_protocol::{Error, ErrorCode};
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use super::{Frames, head, unreadable};
use crate::grpc::{frame, status};
use crate::protobuf::Malformed;
use crate::protobuf::wire::{Record, put_bytes, put_nested, put_number, records};
use crate::server::{Body, Share};

/// Both names that it goes by; their messages are the same.
pub(crate) const SERVICES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
pub(crate) const METHOD: &str = "ServerReflectionInfo";

/// The `.proto` files as a `FileDescriptorSet`; a test makes it from them.
static DESCRIPTORS: &[u8] = include_bytes!("../../../proto/descriptors.bin");

/// The largest question.
const MOST_BYTES: usize = 4096;

// The fields of a question.
const FILE_BY_NAME: u32 = 3;
const FILE_BY_SYMBOL: u32 = 4;
const LIST_SERVICES: u32 = 7;
// The fields of an answer.
const HOST: u32 = 1;
const QUESTION: u32 = 2;
const FILES: u32 = 4;
const SERVICE_LIST: u32 = 6;
const FAILED: u32 = 7;

/// A file of the set.
struct File<'a> {
    bytes: &'a [u8],
    name: &'a str,
    package: &'a str,
    /// The names of its messages, enums and services.
    declared: Vec<&'a str>,
    services: Vec<&'a str>,
}

/// Answers each question of a body in its turn.
pub(crate) fn respond<B>(body: B, services: Vec<&'static str>, permit: Option<Share>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    let questions = body.map_err(drop).boxed_unsync();
    let frames = frame::Frames::new(MOST_BYTES);
    head(Body::frames(Reflected {
        questions,
        frames,
        services,
        trailers: None,
        over: false,
        _permit: permit,
    }))
}

struct Reflected {
    questions: UnsyncBoxBody<Bytes, ()>,
    frames: frame::Frames,
    services: Vec<&'static str>,
    trailers: Option<HeaderMap>,
    over: bool,
    _permit: Option<Share>,
}

impl Reflected {
    /// The answer to the next question, if all of it is there.
    fn answer_next(&mut self) -> Result<Option<Bytes>, Error> {
        let wrong =
            |_| Error::with_message(ErrorCode::InvalidRequest, "A question is too large, or compressed");
        let Some(question) = self.frames.next().map_err(wrong)? else { return Ok(None) };
        let mut out = Vec::new();
        frame::put(&mut out, |out| answer(out, &question, &self.services)).map_err(|why| unreadable(&why))?;
        Ok(Some(out.into()))
    }

    fn end(&mut self, error: Option<&Error>) {
        let mut trailers = status::ok();
        if let Some(error) = error {
            status::put(&mut trailers, error);
        }
        self.trailers = Some(trailers);
        self.over = true;
    }
}

impl Frames for Reflected {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        while !self.over {
            match self.answer_next() {
                Ok(Some(answer)) => return Poll::Ready(Some(Frame::data(answer))),
                Ok(None) => {}
                Err(error) => {
                    self.end(Some(&error));
                    break;
                }
            }
            match Pin::new(&mut self.questions).poll_frame(context) {
                Poll::Ready(Some(Ok(piece))) => {
                    if let Some(data) = piece.data_ref() {
                        self.frames.push(data);
                    }
                }
                Poll::Ready(Some(Err(())) | None) => self.end(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(self.trailers.take().map(Frame::trailers))
    }
}

/// Any bytes as a question.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzzed(question: &[u8]) {
    let _ = answer(&mut Vec::new(), question, &[crate::grpc::SERVICE]);
}

fn answer(out: &mut Vec<u8>, question: &[u8], services: &[&str]) -> Result<(), Malformed> {
    let fields = records(question)?;
    for (number, record) in &fields {
        if let (HOST, Record::Bytes(host)) = (*number, record) {
            put_bytes(out, HOST, host);
        }
    }
    put_bytes(out, QUESTION, question);
    let asked = fields.iter().rfind(|(number, _)| *number > HOST);
    let files = files(services)?;
    let (wanted, name) = match asked {
        Some((LIST_SERVICES, _)) => return put_services(out, services),
        Some((FILE_BY_NAME, Record::Bytes(name))) => {
            let name = text(name)?;
            (files.iter().find(|file| file.name == name), name)
        }
        Some((FILE_BY_SYMBOL, Record::Bytes(symbol))) => {
            let symbol = text(symbol)?;
            (files.iter().find(|file| file.declares(symbol)), symbol)
        }
        _ => return put_failure(out, 12, "this is not told here"),
    };
    match wanted {
        None => put_failure(
            out,
            5,
            &format!("`{}` is not known here", name.chars().take(100).collect::<String>()),
        ),
        Some(wanted) => put_nested(out, FILES, |out| {
            put_bytes(out, 1, wanted.bytes);
            // What it imports; more than is needed does no harm.
            for other in files.iter().filter(|other| other.name != wanted.name && other.services.is_empty()) {
                put_bytes(out, 1, other.bytes);
            }
            Ok(())
        }),
    }
}

fn put_services(out: &mut Vec<u8>, services: &[&str]) -> Result<(), Malformed> {
    put_nested(out, SERVICE_LIST, |out| {
        for service in services {
            put_nested(out, 1, |out| {
                put_bytes(out, 1, service.as_bytes());
                Ok::<_, Malformed>(())
            })?;
        }
        Ok(())
    })
}

fn put_failure(out: &mut Vec<u8>, code: u64, text: &str) -> Result<(), Malformed> {
    put_nested(out, FAILED, |out| {
        put_number(out, 1, code);
        put_bytes(out, 2, text.as_bytes());
        Ok(())
    })
}

/// The files of the set, but for those of services that are not served.
fn files(served: &[&str]) -> Result<Vec<File<'static>>, Malformed> {
    let mut files = Vec::new();
    for (_, record) in records(DESCRIPTORS)? {
        let Record::Bytes(bytes) = record else { continue };
        let file = File::read(bytes)?;
        let is_served = |service: &&str| served.contains(&format!("{}.{service}", file.package).as_str());
        if file.services.iter().all(is_served) {
            files.push(file);
        }
    }
    Ok(files)
}

impl<'a> File<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut file = Self { bytes, name: "", package: "", declared: Vec::new(), services: Vec::new() };
        for (number, record) in records(bytes)? {
            let Record::Bytes(value) = record else { continue };
            match number {
                1 => file.name = text(value)?,
                2 => file.package = text(value)?,
                4 | 5 => file.declared.push(name_of(value)?),
                6 => {
                    file.declared.push(name_of(value)?);
                    file.services.push(name_of(value)?);
                }
                _ => {}
            }
        }
        Ok(file)
    }

    /// Whether it declares a symbol, or what that is within.
    fn declares(&self, symbol: &str) -> bool {
        let within = symbol.strip_prefix(self.package).and_then(|rest| rest.strip_prefix('.'));
        let first = within.and_then(|rest| rest.split('.').next());
        first.is_some_and(|first| self.declared.contains(&first))
    }
}

/// The first field of everything that can be declared.
fn name_of(declaration: &[u8]) -> Result<&str, Malformed> {
    let fields = records(declaration)?;
    let name = fields.iter().find_map(|(number, record)| match (number, record) {
        (1, Record::Bytes(name)) => Some(*name),
        _ => None,
    });
    text(name.unwrap_or_default())
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a name is not UTF-8"))
}

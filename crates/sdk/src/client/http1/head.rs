//! The heads of requests and answers, as bytes (RFC 9112, sections 3 to 6).

use std::mem::MaybeUninit;

use bytes::{Buf as _, BufMut as _, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderValue, Method, Response, StatusCode, Uri, Version, response, uri};
use httparse::{Header, ParserConfig, Status};

use super::Broken;
use super::framing::{Chunks, Framing};
use crate::client::ask::Ask;

/// How large the head of an answer may be.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

/// The headers that the answer to a call is read by.
const READ_BY_CALLS: [HeaderName; 2] = [CONTENT_TYPE, RETRY_AFTER];

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: response::Parts,
    pub(super) framing: Framing,
    /// Whether the peer keeps the connection open afterwards.
    pub(super) keeps_open: bool,
}

/// Appends the head of a request.
pub(super) fn write(ask: &Ask, out: &mut BytesMut) {
    out.reserve(512);
    out.put_slice(ask.method.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(ask.uri.path_and_query().map_or("/", uri::PathAndQuery::as_str).as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    if ask.header(&HOST).is_none() {
        write_line(out, HOST.as_str(), host(&ask.uri).as_bytes());
    }
    for (name, value) in ask.headers() {
        // How long the body is, only we know.
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            write_line(out, name.as_str(), value.as_bytes());
        }
    }
    if !ask.body.is_empty() || matches!(ask.method, Method::POST | Method::PUT | Method::PATCH) {
        write_line(out, CONTENT_LENGTH.as_str(), itoa::Buffer::new().format(ask.body.len()).as_bytes());
    }
    out.put_slice(b"\r\n");
}

fn write_line(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(b"\r\n");
}

/// The `Host` of a request. The port is left out where the scheme says it.
fn host(target: &Uri) -> &str {
    let authority = target.authority().map_or("", uri::Authority::as_str);
    authority.strip_suffix(":80").unwrap_or(authority)
}

/// Whether a request says that the connection is not kept.
pub(super) fn closes(ask: &Ask) -> bool {
    ask.headers().iter().any(|(name, value)| name == CONNECTION && has_token(value.as_bytes(), "close"))
}

/// Takes the head of an answer off what has been read; none if it is not all there. What only announces an answer is
/// left out. `seen` is how much of it has been looked at before.
pub(super) fn read(read: &mut BytesMut, seen: &mut usize, ask: &Ask) -> Result<Option<Head>, Broken> {
    loop {
        // It is parsed from its beginning each time, so not for every byte that comes.
        if *seen > 0 && !has_end(&read[seen.saturating_sub(3)..]) {
            return partial(read, seen);
        }
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut answer = httparse::Response::new(&mut []);
        let parsed =
            ParserConfig::default().parse_response_with_uninit_headers(&mut answer, read, &mut headers);
        let length = match parsed {
            Ok(Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
            Ok(Status::Partial) => return partial(read, seen),
            Ok(Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Broken::HeadTooLarge);
            }
            Err(_) => return Err(Broken::NotHttp),
        };
        let head = head(&answer, ask)?;
        read.advance(length);
        *seen = 0;
        match head.parts.status {
            // Nobody has asked for another protocol.
            StatusCode::SWITCHING_PROTOCOLS => return Err(Broken::NotHttp),
            status if status.is_informational() => {}
            _ => return Ok(Some(head)),
        }
    }
}

fn partial(read: &BytesMut, seen: &mut usize) -> Result<Option<Head>, Broken> {
    *seen = read.len();
    if read.len() > MAX_HEAD_BYTES { Err(Broken::HeadTooLarge) } else { Ok(None) }
}

/// Whether a line ends here after which there is an empty one.
fn has_end(tail: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', tail).any(|at| matches!(&tail[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

fn head(answer: &httparse::Response<'_, '_>, ask: &Ask) -> Result<Head, Broken> {
    let (mut parts, ()) = Response::new(()).into_parts();
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok());
    parts.status = status.ok_or(Broken::NotHttp)?;
    let is_old = answer.version == Some(0);
    parts.version = if is_old { Version::HTTP_10 } else { Version::HTTP_11 };
    for header in &*answer.headers {
        if ask.wants_all_headers
            || READ_BY_CALLS.iter().any(|name| header.name.eq_ignore_ascii_case(name.as_str()))
        {
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Broken::NotHttp)?;
            let value = HeaderValue::from_bytes(header.value).map_err(|_| Broken::NotHttp)?;
            parts.headers.append(name, value);
        }
    }
    let says = |token| values(answer.headers, &CONNECTION).any(|value| has_token(value, token));
    let keeps_open = if is_old { says("keep-alive") } else { !says("close") };
    let framing = framing(answer.headers, &parts, &ask.method)?;
    Ok(Head { parts, framing, keeps_open: keeps_open && framing != Framing::Close })
}

/// The values of a header, as they came.
fn values<'a>(headers: &'a [Header<'_>], name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name.as_str())).map(|header| header.value)
}

/// How the end of the body is known. What could be read in two ways is refused.
fn framing(headers: &[Header<'_>], parts: &response::Parts, method: &Method) -> Result<Framing, Broken> {
    let status = parts.status;
    let has_none =
        status.is_informational() || matches!(status.as_u16(), 204 | 304) || method == Method::HEAD;
    if has_none {
        return Ok(Framing::Length(0));
    }
    let mut lengths = values(headers, &CONTENT_LENGTH);
    let length = lengths.next();
    let mut codings = values(headers, &TRANSFER_ENCODING);
    if let Some(coding) = codings.next() {
        let is_chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let is_only = codings.next().is_none() && length.is_none();
        // There is no other that we have said we would understand.
        let may_be = is_chunked && is_only && parts.version == Version::HTTP_11;
        return if may_be { Ok(Framing::Chunked(Chunks::Size)) } else { Err(Broken::NotHttp) };
    }
    let Some(length) = length else { return Ok(Framing::Close) };
    let is_one = lengths.all(|other| other == length);
    let digits =
        std::str::from_utf8(length).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok()).filter(|_| is_one);
    length.map(Framing::Length).ok_or(Broken::NotHttp)
}

fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn written(request: Request<Bytes>) -> String {
        let mut out = BytesMut::new();
        write(&request.into(), &mut out);
        String::from_utf8(out.to_vec()).expect("text")
    }

    fn post() -> Ask {
        Ask::new(Method::POST, Uri::default(), Bytes::new())
    }

    fn answer(text: &str) -> Result<Option<Head>, Broken> {
        super::read(&mut BytesMut::from(text), &mut 0, &post())
    }

    fn framing_of(headers: &str) -> Option<(Framing, bool)> {
        let head = answer(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).ok()?;
        head.map(|head| (head.framing, head.keeps_open))
    }

    #[test]
    fn a_request_says_where_it_goes_and_how_long_it_is() {
        let post =
            Request::post("http://a.example:80/x?y").header("accept", "z").header("content-length", "9");
        assert_eq!(
            written(post.body(Bytes::from_static(b"{}")).unwrap()),
            "POST /x?y HTTP/1.1\r\nhost: a.example\r\naccept: z\r\ncontent-length: 2\r\n\r\n"
        );
        let get = Request::get("http://a.example:8080").body(Bytes::new()).unwrap();
        assert_eq!(written(get), "GET / HTTP/1.1\r\nhost: a.example:8080\r\n\r\n");
        let empty = Request::post("http://a.example/").header("host", "b").body(Bytes::new()).unwrap();
        assert_eq!(written(empty), "POST / HTTP/1.1\r\nhost: b\r\ncontent-length: 0\r\n\r\n");
    }

    #[test]
    fn the_end_of_a_body_is_known_in_one_way() {
        let (length, chunked) = (Framing::Length(7), Framing::Chunked(Chunks::Size));
        assert_eq!(framing_of("content-length: 7\r\n"), Some((length, true)));
        assert_eq!(framing_of("content-length: 7\r\ncontent-length: 7\r\n"), Some((length, true)));
        assert_eq!(framing_of("Transfer-Encoding: Chunked\r\n"), Some((chunked, true)));
        assert_eq!(framing_of("content-length: 7\r\nconnection: x, Close\r\n"), Some((length, false)));
        assert_eq!(framing_of(""), Some((Framing::Close, false)));
        for two in [
            "content-length: 7\r\ncontent-length: 8\r\n",
            "content-length: 7, 7\r\n",
            "content-length: +7\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 7\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: identity\r\n",
        ] {
            assert_eq!(framing_of(two), None, "{two:?}");
        }
    }

    #[test]
    fn a_call_keeps_what_its_answer_is_read_by() {
        let text =
            "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Type: y\r\nRetry-After: 1\r\ncontent-length: 7\r\n\r\n";
        let head = |wants_all_headers| {
            let mut ask = post();
            ask.wants_all_headers = wants_all_headers;
            super::read(&mut BytesMut::from(text), &mut 0, &ask).unwrap().unwrap()
        };
        let (some, all) = (head(false), head(true));
        assert_eq!((some.framing, some.keeps_open), (all.framing, all.keeps_open));
        assert_eq!((some.parts.headers.len(), all.parts.headers.len()), (2, 4));
        for name in READ_BY_CALLS {
            assert_eq!(some.parts.headers.get(&name), all.parts.headers.get(&name));
        }
    }

    #[test]
    fn older_answers_and_those_without_a_body_are_known() {
        let old = |headers: &str| answer(&format!("HTTP/1.0 200 OK\r\n{headers}\r\n")).map(Option::unwrap);
        assert!(!old("content-length: 7\r\n").unwrap().keeps_open);
        assert!(old("content-length: 7\r\nconnection: keep-alive\r\n").unwrap().keeps_open);
        assert!(old("transfer-encoding: chunked\r\n").is_err());
        for status in [204, 304] {
            let text = format!("HTTP/1.1 {status} x\r\ncontent-length: 7\r\n\r\n");
            assert_eq!(answer(&text).unwrap().unwrap().framing, Framing::Length(0));
        }
    }

    #[test]
    fn what_comes_before_an_answer_is_left_out() {
        let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
        assert!(answer(early).unwrap().is_none());
        let head = answer(&format!("{early}HTTP/1.1 200 OK\r\n\r\n")).unwrap().unwrap();
        assert_eq!((head.parts.status.as_u16(), head.parts.headers.len()), (200, 0));
        assert!(answer("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_has_an_end() {
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MAX_HEAD_BYTES));
        assert!(matches!(answer(&endless), Err(Broken::HeadTooLarge)));
        assert!(matches!(answer(&format!("{endless}\r\n\r\n")), Err(Broken::HeadTooLarge)));
        let many: String = (0..=MAX_HEADERS).map(|n| format!("x-{n}: y\r\n")).collect();
        assert!(matches!(answer(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")), Err(Broken::HeadTooLarge)));
        for bad in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 99 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        ] {
            assert!(matches!(answer(bad), Err(Broken::NotHttp)), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn how_a_head_is_cut_makes_no_difference(
            headers in prop::collection::vec("(content-length: 7|x:|connection: close|\\PC{0,9}): ?[a-z, ]{0,9}\r?\n", 0..5),
            end in "\r?\n|",
        ) {
            let text = format!("HTTP/1.1 200 OK\r\n{}{end}", headers.concat());
            let whole = answer(&text);
            for size in [1, 2, 3, 7] {
                let (mut buffer, mut seen, mut last) = (BytesMut::new(), 0, Ok(None));
                for piece in text.as_bytes().chunks(size) {
                    buffer.extend_from_slice(piece);
                    last = super::read(&mut buffer, &mut seen, &post());
                    if !matches!(last, Ok(None)) {
                        break;
                    }
                }
                // What cannot be read may be found out later, when all of it is there.
                let is_same = format!("{last:?}") == format!("{whole:?}") || matches!((&last, &whole), (Ok(None), Err(_)));
                prop_assert!(is_same, "{last:?}, {whole:?}");
            }
        }
    }
}

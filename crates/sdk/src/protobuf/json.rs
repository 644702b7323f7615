//! A walk over a JSON text that our own serializer, or at least somebody's checked one, has written.
//!
//! Nothing is built: whoever walks takes each key and each value in its turn. What is no JSON is an error and never a
//! panic, but no effort is made to find all of it, since it has been looked at before.

use std::borrow::Cow;

use super::Malformed;

const NOT_JSON: Malformed = Malformed("it is no JSON");
const TOO_DEEP: Malformed = Malformed("it is nested too deep");

/// Arrays and objects within each other: those of users' own JSON, and those around it.
pub(super) const MAX_DEPTH: usize = chancery_protocol::MAX_DEPTH + 32;

/// Where the walk has come to.
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The first byte of what comes next.
    pub(super) fn peek(&mut self) -> Result<u8, Malformed> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied().ok_or(NOT_JSON)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek()? != byte {
            return Err(NOT_JSON);
        }
        self.at += 1;
        Ok(())
    }

    /// Whether another one follows in a list that ends with this byte.
    fn more(&mut self, first: &mut bool, end: u8) -> Result<bool, Malformed> {
        if self.peek()? == end {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn enter(&mut self, begin: u8) -> Result<(), Malformed> {
        self.expect(begin)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(TOO_DEEP) } else { Ok(()) }
    }

    /// Visits the entries of an object; the visitor has to take the value.
    pub(super) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, &str) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.enter(b'{')?;
        let mut first = true;
        while self.more(&mut first, b'}')? {
            let key = self.string()?;
            self.expect(b':')?;
            entry(self, &key)?;
        }
        Ok(())
    }

    /// Visits the values of an array; the visitor has to take each.
    pub(super) fn array(
        &mut self,
        mut value: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.enter(b'[')?;
        let mut first = true;
        while self.more(&mut first, b']')? {
            value(self)?;
        }
        Ok(())
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let token = self.string_token()?;
        if !token.contains('\\') { Ok(Cow::Borrowed(token)) } else { unescaped(token).map(Cow::Owned) }
    }

    /// What stands between the quotes.
    fn string_token(&mut self) -> Result<&'a str, Malformed> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let end = memchr::memchr2(b'"', b'\\', rest).ok_or(NOT_JSON)?;
            self.at += end;
            if rest[end] == b'"' {
                break;
            }
            self.at += 2;
        }
        let token = self.text.get(start..self.at).ok_or(NOT_JSON)?;
        self.at += 1;
        Ok(token)
    }

    /// A number, `true`, `false` or `null`.
    pub(super) fn word(&mut self) -> Result<&'a str, Malformed> {
        self.peek()?;
        let rest = self.text.get(self.at..).ok_or(NOT_JSON)?;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.bytes().take_while(|byte| is_part(*byte)).count();
        self.at += length;
        if length == 0 { Err(NOT_JSON) } else { Ok(&rest[..length]) }
    }

    /// A number. One that is beyond all floats is the largest of them.
    pub(super) fn number(&mut self) -> Result<f64, Malformed> {
        let number: f64 = self.word()?.parse().map_err(|_| NOT_JSON)?;
        if number.is_nan() { Err(NOT_JSON) } else { Ok(number.clamp(f64::MIN, f64::MAX)) }
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Result<(), Malformed> {
        match self.peek()? {
            b'{' => self.object(|walk, _| walk.skip()),
            b'[' => self.array(Self::skip),
            b'"' => self.string_token().map(drop),
            _ => self.word().map(drop),
        }
    }

    /// Nothing may follow.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        if self.peek().is_ok() { Err(NOT_JSON) } else { Ok(()) }
    }
}

/// JSON may have half a surrogate pair, which is no character: a replacement stands for it.
fn unescaped(token: &str) -> Result<String, Malformed> {
    let mut text = String::with_capacity(token.len());
    let mut rest = token;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let (escape, after) = after.split_at_checked(1).ok_or(NOT_JSON)?;
        rest = after;
        text.push(match escape {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => {
                let mut unit = unit(&mut rest)?;
                let low = rest.strip_prefix("\\u").filter(|_| (0xd800..0xdc00).contains(&unit));
                if let Some(mut after) = low
                    && let Ok(low @ 0xdc00..0xe000) = self::unit(&mut after)
                {
                    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    rest = after;
                }
                char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            "\"" | "\\" | "/" => escape.chars().next().unwrap_or_default(),
            _ => return Err(NOT_JSON),
        });
    }
    text.push_str(rest);
    Ok(text)
}

/// Four hexadecimal digits.
fn unit(rest: &mut &str) -> Result<u32, Malformed> {
    let (digits, after) = rest.split_at_checked(4).ok_or(NOT_JSON)?;
    *rest = after;
    u32::from_str_radix(digits, 16).map_err(|_| NOT_JSON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_json_has_them() {
        let read = |text: &str| Walk::new(text).string().map(Cow::into_owned);
        for text in [r#""plain é""#, r#""\"\\\/\b\f\n\r\t""#, r#""\u00e9\ud83d\ude00""#, r#""""#] {
            assert_eq!(read(text).unwrap(), serde_json::from_str::<String>(text).unwrap(), "{text}");
        }
        assert_eq!(read(r#""\ud800x""#).unwrap(), "\u{fffd}x");
        assert_eq!(read(r#""\ud800\u0041""#).unwrap(), "\u{fffd}A");
        for text in ["\"", r#""\"#, r#""\x""#, r#""\u12""#, "x", "\"a\\é\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_never_panics() {
        for text in ["{", "{\"a\"", "{\"a\":", "[1", "[1,", "{,}", "\"\\", "{\"a\" 1}", "", "nul", "[\"é\\"]
        {
            let mut walk = Walk::new(text);
            let _ = walk.skip().and_then(|()| walk.end());
        }
        let deep = "[".repeat(100_000);
        assert!(Walk::new(&deep).skip().is_err());
    }
}

//! W3C Trace Context: read, continued and written. For observation alone; nothing is decided by it.

use std::fmt;

use chancery_protocol::HopId;

/// Names a trace. Never all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub(super) [u8; 16]);

/// The name of a trace as it is written.
pub(crate) struct TraceText([u8; 32]);

/// A `traceparent` header: the trace, the span in it that calls, and whether it is being recorded.
///
/// ```
/// use chancery_control::lineage::Traceparent;
/// use chancery_protocol::HopId;
///
/// let came = Traceparent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
/// let goes = came.continued(HopId::generate());
/// assert_eq!(goes.trace, came.trace);
/// assert_ne!(goes.span, came.span);
/// assert!(goes.to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace.
    pub trace: TraceId,
    /// The span that the call is made in. Never all zeros.
    pub span: [u8; 8],
    /// The flags; only the lowest two bits mean anything yet.
    pub flags: u8,
}

/// The flags that version 00 knows: recorded, and random.
const KNOWN_FLAGS: u8 = 0b11;

// === impl TraceId ===

impl TraceId {
    /// The trace of a call that came without one: a call begins it, and names it.
    pub fn of(root: HopId) -> Self {
        Self(*root.as_bytes())
    }

    /// As it is written, without anything being allocated for it.
    pub(crate) fn text(&self) -> TraceText {
        let mut text = [0; 32];
        write_hex(&self.0, &mut text);
        TraceText(text)
    }

    /// Reads 32 lower-case hexadecimal digits that are not all zero.
    pub fn parse(text: &str) -> Option<Self> {
        hex(text.as_bytes()).map(Self)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl TraceText ===

impl TraceText {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are text")
    }
}

// === impl Traceparent ===

impl Traceparent {
    /// Reads the header. A version that is not known yet is read as far as version 00 goes, as the recommendation says.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let [version] = hex_or_zero::<1>(bytes.get(..2)?)?;
        let dashes = [2, 35, 52].iter().all(|place| bytes.get(*place) == Some(&b'-'));
        let ends = match version {
            0 => bytes.len() == 55,
            0xff => false,
            _ => bytes.len() == 55 || bytes.get(55) == Some(&b'-'),
        };
        if !(dashes && ends) {
            return None;
        }
        let trace = TraceId(hex(bytes.get(3..35)?)?);
        let span = hex(bytes.get(36..52)?)?;
        let [flags] = hex_or_zero(bytes.get(53..55)?)?;
        Some(Self { trace, span, flags: flags & KNOWN_FLAGS })
    }

    /// A trace that begins with this call.
    pub fn begun(hop: HopId) -> Self {
        Self { trace: TraceId::of(hop), span: span_of(hop), flags: 0 }
    }

    /// The same trace, in the span of this call.
    pub fn continued(self, hop: HopId) -> Self {
        Self { span: span_of(hop), ..self }
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every call has one, so it is written by hand and not by the machinery of formats.
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&self.trace.0, &mut text[3..35]);
        write_hex(&self.span, &mut text[36..52]);
        write_hex(&[self.flags], &mut text[53..]);
        f.write_str(std::str::from_utf8(&text).expect("digits and dashes are text"))
    }
}

/// The half of a UUIDv7 that is random.
fn span_of(hop: HopId) -> [u8; 8] {
    let mut span = [0; 8];
    span.copy_from_slice(&hop.as_bytes()[8..]);
    span
}

/// Writes two digits for each byte.
fn write_hex(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    hex_or_zero(text).filter(|bytes| bytes.iter().any(|byte| *byte != 0))
}

fn hex_or_zero<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_again() {
        assert_eq!(Traceparent::parse(GOOD).unwrap().to_string(), GOOD);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = GOOD.replacen("00-", "cc-", 1);
        for text in [later.clone(), format!("{later}-what-the-future-will-be-like")] {
            assert_eq!(Traceparent::parse(&text).unwrap().to_string(), GOOD, "{text}");
        }
        assert_eq!(Traceparent::parse(&format!("{later}.more")), None);
    }

    #[test]
    fn what_breaks_the_recommendation_is_no_trace() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Traceparent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn flags_that_nobody_knows_are_not_passed_on() {
        let flagged = format!("{}ff", &GOOD[..53]);
        assert!(Traceparent::parse(&flagged).unwrap().to_string().ends_with("-03"));
    }

    #[test]
    fn a_call_without_a_trace_begins_one() {
        let hop = HopId::generate();
        let begun = Traceparent::begun(hop);
        assert_eq!(begun.trace, TraceId::of(hop));
        assert_eq!(Traceparent::parse(&begun.to_string()), Some(begun));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            let _ = Traceparent::parse(&text);
        }
    }
}

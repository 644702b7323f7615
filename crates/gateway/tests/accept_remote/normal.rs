//! What a task from elsewhere says of its origin is left out. What is put in the place of ids, times and the rest of a budget: each id by when it was first seen, so that equal ones stay
//! equal, and each rest by how much less it is than the first.

const REST: &str = "\"remainingMicroUsd\":";

const PROVENANCE: &str = "\"urn:chancery:ext:provenance:v1\":{";

/// What is said of where a task comes from, which only one from elsewhere has.
fn without_provenance(text: &str) -> String {
    let mut plain = text.to_owned();
    while let Some(start) = plain.find(PROVENANCE) {
        let end = start + plain[start..].find('}').unwrap() + 1;
        let (before, after) = (&plain[..start], &plain[end..]);
        plain = match (before.strip_suffix(','), after.strip_prefix(',')) {
            (Some(before), _) => format!("{before}{after}"),
            (None, Some(after)) => format!("{before}{after}"),
            (None, None) => format!("{before}{after}").replacen(",\"metadata\":{}", "", 1),
        };
    }
    plain
}

/// The text without what nobody can know beforehand.
pub(crate) fn normal(text: &str) -> String {
    // Who counted is not the same: we, or the agent.
    let text = without_provenance(text).replace(r#""tokenSource":"reported""#, r#""tokenSource":"metered""#);
    let mut first_rest: Option<i64> = None;
    let mut ids: Vec<&str> = Vec::new();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(id) = rest.get(..36).filter(|id| is_uuid(id)) {
            let place = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            plain.push_str(&format!("<id {place}>"));
            rest = &rest[36..];
        } else if let Some(time) = rest.get(..24).filter(|time| is_time(time)) {
            plain.push_str("<time>");
            rest = &rest[time.len()..];
        } else if let Some((micro_usd, left)) = rest.strip_prefix(REST).and_then(leading_number) {
            let spent = *first_rest.get_or_insert(micro_usd) - micro_usd;
            plain.push_str(&format!("{REST}<first - {spent}>"));
            rest = left;
        } else {
            plain.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    plain
}

fn leading_number(text: &str) -> Option<(i64, &str)> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

fn is_uuid(text: &str) -> bool {
    text.char_indices().all(|(place, char)| match place {
        8 | 13 | 18 | 23 => char == '-',
        _ => char.is_ascii_hexdigit(),
    })
}

/// To the millisecond, as the protocol has it.
fn is_time(text: &str) -> bool {
    let pattern = "dddd-dd-ddTdd:dd:dd.dddZ";
    text.len() == pattern.len()
        && text.chars().zip(pattern.chars()).all(|(char, wanted)| match wanted {
            'd' => char.is_ascii_digit(),
            _ => char == wanted,
        })
}

#[test]
fn ids_and_times_are_put_out_of_sight_and_equal_ids_stay_equal() {
    let text = r#"{"id":"01a1e701-72f7-7436-92f5-d55652146b84","at":"2026-11-17T01:06:56.123Z","x":"01a1e701-72f7-7436-92f5-d55652146b85 01a1e701-72f7-7436-92f5-d55652146b84"}"#;
    assert_eq!(normal(text), r#"{"id":"<id 0>","at":"<time>","x":"<id 1> <id 0>"}"#);
    let text = r#"{"a":1,"metadata":{"urn:chancery:ext:provenance:v1":{"taskId":"t"}}}"#;
    assert_eq!(normal(text), r#"{"a":1}"#);
    let text = r#"{"remainingMicroUsd":900} {"remainingMicroUsd":700}"#;
    assert_eq!(normal(text), r#"{"remainingMicroUsd":<first - 0>} {"remainingMicroUsd":<first - 200>}"#);
}

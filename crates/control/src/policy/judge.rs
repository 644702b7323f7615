//! A call against the limits that hold for it, one after the other; the first that it breaks is the answer.

use std::sync::Arc;

use chancery_protocol::{Denied, DeniedKind, Operation, media_type_matches};

use super::decide::{Effective, Facts};
use super::rule::ANY;
use super::{
    COST_LIMIT, GATE, INPUT_MODE_NOT_ALLOWED, INPUT_TOO_LARGE, OPERATION_NOT_ALLOWED, SKILL_NOT_ALLOWED,
    SKILL_REQUIRED, TOKEN_LIMIT,
};

/// The skill that a call is for: the one of its path, the one that its message names, or the only one that there is.
/// None if the agent has no such skill, if two are named, or if none is and there are several.
pub fn skill<'a>(facts: &Facts<'a>) -> Option<&'a Arc<str>> {
    let wanted = match (facts.path_skill, facts.named_skill) {
        (Some(path), Some(named)) if path != named => return None,
        (path, named) => path.or(named),
    };
    match (wanted, facts.skills) {
        (Some(wanted), skills) => skills.iter().find(|skill| ***skill == *wanted),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

pub(super) fn operation(limits: &Effective<'_>, operation: Operation) -> Result<(), Denied> {
    match limits.operations {
        Some(set) if !set.to.contains(&operation) => Err(Denied {
            limit: Some(list(set.to.iter().map(|allowed| allowed.method()))),
            observed: Some(operation.method().into()),
            ..refusal(OPERATION_NOT_ALLOWED, set.by, "ask the operator for this operation")
        }),
        _ => Ok(()),
    }
}

/// All that is asked of a message.
pub(super) fn message(limits: &Effective<'_>, facts: &Facts<'_>) -> Result<(), Denied> {
    operation(limits, facts.operation)?;
    skills(limits, facts)?;
    input(limits, facts)?;
    amounts(limits, facts)
}

fn skills(limits: &Effective<'_>, facts: &Facts<'_>) -> Result<(), Denied> {
    let Some(set) = limits.allowed_skills else { return Ok(()) };
    let allowed = |skill: &Arc<str>| set.to.iter().any(|allowed| **allowed == *ANY || allowed == skill);
    if set.to.iter().any(|allowed| **allowed == *ANY) || skill(facts).is_some_and(allowed) {
        return Ok(());
    }
    let usable: Vec<&str> =
        facts.skills.iter().filter(|skill| allowed(skill)).map(|skill| &**skill).collect();
    let limit = Some(list(usable.iter().copied()));
    let wanted: Vec<&str> = facts.path_skill.into_iter().chain(facts.named_skill).collect();
    if wanted.is_empty() && !usable.is_empty() {
        let hint = format!("name the skill that the message is for: {}", list(usable.iter().copied()));
        let observed = Some("the message names no skill".into());
        return Err(Denied { limit, observed, ..refusal(SKILL_REQUIRED, set.by, &hint) });
    }
    let observed = match wanted[..] {
        [path, named] if path != named => format!("the path is for `{path}`, the message for `{named}`"),
        [wanted, ..] if skill(facts).is_none() => format!("`{}` has no skill `{wanted}`", facts.agent),
        [wanted, ..] => format!("`{wanted}`"),
        [] => format!("no skill of `{}` is allowed", facts.agent),
    };
    let hint = if usable.is_empty() {
        "call another agent, or ask the operator for a skill of this one".to_owned()
    } else {
        format!("use one of the skills that you may use here: {}", list(usable.iter().copied()))
    };
    Err(Denied { limit, observed: Some(observed), ..refusal(SKILL_NOT_ALLOWED, set.by, &hint) })
}

fn input(limits: &Effective<'_>, facts: &Facts<'_>) -> Result<(), Denied> {
    if let Some(set) = limits.max_input_bytes
        && facts.input_bytes > set.to
    {
        return Err(Denied {
            limit: Some(format!("{} bytes", set.to)),
            observed: Some(format!("{} bytes", facts.input_bytes)),
            ..refusal(INPUT_TOO_LARGE, set.by, "send less, or send a reference to it")
        });
    }
    let Some(set) = limits.input_modes else { return Ok(()) };
    let taken = |actual: &&&str| !set.to.iter().any(|mode| media_type_matches(mode, actual));
    match facts.media_types.iter().find(taken) {
        None => Ok(()),
        Some(refused) => Err(Denied {
            limit: Some(list(set.to.iter().map(|mode| &**mode))),
            observed: Some((*refused).chars().take(64).collect()),
            ..refusal(INPUT_MODE_NOT_ALLOWED, set.by, "send it in one of the media types that are allowed")
        }),
    }
}

fn amounts(limits: &Effective<'_>, facts: &Facts<'_>) -> Result<(), Denied> {
    if let Some(set) = limits.max_tokens
        && facts.reserved.tokens > set.to
    {
        return Err(Denied {
            limit: Some(format!("{} tokens", set.to)),
            observed: Some(format!("{} tokens", facts.reserved.tokens)),
            ..refusal(TOKEN_LIMIT, set.by, "ask for less, by the usage extension, or call a cheaper agent")
        });
    }
    if let Some(set) = limits.max_micro_usd
        && facts.reserved.micro_usd > set.to
    {
        return Err(Denied {
            limit: Some(usd(set.to)),
            observed: Some(usd(facts.reserved.micro_usd)),
            ..refusal(
                COST_LIMIT,
                set.by,
                "set a lower ceiling, by the usage extension, or call a cheaper agent",
            )
        });
    }
    Ok(())
}

fn refusal(reason: &'static str, rule: &str, hint: &str) -> Denied {
    let hint = Some(format!("{hint} (policy `{rule}`)"));
    Denied { hint, ..Denied::new(GATE, DeniedKind::Forbidden, reason) }
}

/// What there is, for people. Skills and media types of one agent are few, but nobody promises that.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 32;
    let names: Vec<&str> = names.collect();
    let more = if names.len() > MOST { ", …" } else { "" };
    if names.is_empty() { "none".into() } else { names[..names.len().min(MOST)].join(", ") + more }
}

/// Millionths of a US dollar, as people read them.
fn usd(micro: u64) -> String {
    let cents_and_less = format!("{:06}", micro % 1_000_000);
    let digits = cents_and_less.trim_end_matches('0');
    format!("{}.{digits:0<2} USD", micro / 1_000_000)
}

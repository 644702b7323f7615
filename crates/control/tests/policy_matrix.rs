//! Who may do what with which agent, as one table: every actor, action and resource of a small fleet, with the verdict
//! and the rule that it comes from. `BLESS=1 cargo test -p chancery-control --test policy_matrix` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use chancery_control::policy::*;
use chancery_protocol::{Amount, Denied, Message, OPERATIONS, Operation, Part};

const GOLDEN: &str = include_str!("policy_matrix.txt");

/// Agents, and the skills that they have.
const RESOURCES: [(&str, &[&str]); 4] = [
    ("library", &["rag.query", "rag.delete"]),
    ("embedder", &["embed.vectorize"]),
    ("painter", &["paint.draw"]),
    ("blank", &[]),
];

/// Realm, name and groups.
const ACTORS: [(&str, &str, &[&str]); 6] = [
    ("main", "stranger", &[]),
    ("main", "reader", &["readers"]),
    ("main", "curator", &["readers", "curators"]),
    ("main", "alice", &["readers"]),
    ("other", "alice", &[]),
    ("main", "ops", &[]),
];

fn texts(texts: &[&str]) -> Vec<Arc<str>> {
    texts.iter().copied().map(Arc::from).collect()
}

fn set(texts: &[&str]) -> BTreeSet<Arc<str>> {
    texts.iter().copied().map(Arc::from).collect()
}

fn skills(skills: &[&str]) -> Limits {
    Limits { allowed_skills: Some(texts(skills)), ..Limits::default() }
}

/// The rules, written so that their order says nothing about which of them counts.
fn policy() -> Policy {
    let reads = vec![Operation::SendMessage, Operation::GetTask, Operation::ListTasks, Operation::CancelTask];
    let default = Limits {
        max_micro_usd: Some(50_000),
        max_tokens: Some(10_000),
        max_duration: Some(Duration::from_secs(30)),
        max_input_bytes: Some(1_000),
        input_modes: Some(texts(&["text/*", "application/json"])),
        ..skills(&["rag.query", "embed.vectorize"])
    };
    Policy::new([
        Rule { limits: default, ..Rule::named("default") },
        Rule {
            callers: Callers::Groups(set(&["readers"])),
            limits: Limits { operations: Some(reads), ..Limits::default() },
            ..Rule::named("readers")
        },
        Rule {
            callers: Callers::Groups(set(&["curators"])),
            agents: Some(set(&["library"])),
            limits: Limits {
                operations: Some(OPERATIONS.iter().map(|row| row.operation).collect()),
                ..skills(&["rag.query", "rag.delete"])
            },
            ..Rule::named("curators at the library")
        },
        Rule {
            callers: Callers::Named(set(&["alice"])),
            realms: Some(set(&["main"])),
            limits: Limits { max_micro_usd: Some(1_000_000), ..skills(&["paint.draw"]) },
            ..Rule::named("alice")
        },
        Rule {
            callers: Callers::Named(set(&["alice"])),
            realms: Some(set(&["main"])),
            operations: Some(vec![Operation::SendStreamingMessage]),
            limits: Limits { operations: Some(vec![Operation::SendStreamingMessage]), ..Limits::default() },
            ..Rule::named("alice streams")
        },
        Rule {
            callers: Callers::Named(set(&["ops"])),
            limits: Limits { input_modes: Some(texts(&["*/*"])), ..skills(&[ANY]) },
            ..Rule::named("ops")
        },
        Rule {
            agents: Some(set(&["painter"])),
            mode: Mode::Observe,
            limits: skills(&["paint.draw"]),
            ..Rule::named("open the painter")
        },
        Rule {
            agents: Some(set(&["embedder"])),
            mode: Mode::Observe,
            limits: Limits { max_input_bytes: Some(10), ..Limits::default() },
            ..Rule::named("small embeddings")
        },
    ])
}

/// What is asked of an agent, besides the operation: a name, and the facts with it changed.
fn actions<'a>(plain: Facts<'a>, image: &'a [&'a str]) -> Vec<(&'static str, Facts<'a>)> {
    let first = Facts { named_skill: plain.skills.first().map(|skill| &**skill), ..plain };
    let reserved = |micro_usd, tokens| Amount { micro_usd, tokens, tasks: 1 };
    vec![
        ("send", plain),
        ("send for rag.query", Facts { named_skill: Some("rag.query"), ..plain }),
        ("send for rag.delete", Facts { named_skill: Some("rag.delete"), ..plain }),
        ("send to the path of rag.query", Facts { path_skill: Some("rag.query"), ..plain }),
        (
            "the same, for rag.delete",
            Facts { path_skill: Some("rag.query"), named_skill: Some("rag.delete"), ..plain },
        ),
        ("send 1001 bytes", Facts { input_bytes: 1_001, ..first }),
        ("send an image", Facts { media_types: image, ..first }),
        ("send for 0.05 USD", Facts { reserved: reserved(50_000, 0), ..first }),
        ("send for 0.050001 USD", Facts { reserved: reserved(50_001, 0), ..first }),
        ("send for 10001 tokens", Facts { reserved: reserved(0, 10_001), ..first }),
    ]
}

/// What is decided and by which rule; in parentheses, what would be decided if every rule were enforced.
fn verdict(decision: &Decision<'_>) -> String {
    let name = |denied: &Denied| {
        assert_eq!(denied.gate, GATE);
        let hint = denied.hint.as_deref().unwrap_or_default();
        let rule = hint.rsplit_once("(policy `").map_or("", |(_, rule)| rule.trim_end_matches("`)"));
        format!("{} {rule}", denied.reason)
    };
    match (&decision.denied, &decision.would_deny) {
        (Some(denied), None) => name(denied),
        (None, Some(would_deny)) => format!("ok ({})", name(would_deny)),
        (None, None) => "ok".into(),
        (Some(_), Some(_)) => panic!("what is refused cannot be refused in a rehearsal as well"),
    }
}

/// One row: an action of one actor at every agent.
fn row(table: &mut String, action: &str, verdict_at: impl Fn(&str, &[Arc<str>]) -> String) {
    let _ = write!(table, "{action:<33}");
    for (agent, skills) in RESOURCES {
        let _ = write!(table, "| {:<41}", verdict_at(agent, &texts(skills)));
    }
    table.truncate(table.trim_end().len());
    table.push('\n');
}

#[test]
fn every_actor_action_and_resource_is_judged_as_the_table_says() {
    let policy = policy();
    let mut table = String::new();
    for (realm, caller, groups) in ACTORS {
        let groups = texts(groups);
        let subject = Subject { realm, caller, groups: &groups };
        row(&mut table, &format!("{caller} of {realm}"), |agent, _| agent.to_owned());
        let nothing = Facts::new(subject, "", Operation::SendMessage);
        for (place, (action, _)) in actions(nothing, &[]).iter().enumerate() {
            row(&mut table, action, |agent, skills| {
                let facts = Facts { agent, skills, input_bytes: 11, ..nothing };
                verdict(&policy.decide(&actions(facts, &["text/plain", "image/png"])[place].1))
            });
        }
        let mut operations: Vec<Operation> = OPERATIONS.iter().map(|row| row.operation).collect();
        operations.dedup();
        for operation in operations {
            let asked = |agent: &str, _: &[Arc<str>]| verdict(&policy.authorize(subject, agent, operation));
            row(&mut table, operation.method(), asked);
        }
        table.push('\n');
    }
    if std::env::var_os("BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policy_matrix.txt");
        std::fs::write(path, &table).expect("the table can be written");
        return;
    }
    for (line, (actual, expected)) in table.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(actual, expected, "line {}", line + 1);
    }
    assert_eq!(table.lines().count(), GOLDEN.lines().count());
}

fn decide_at_library<'p>(policy: &'p Policy, named_skill: Option<&str>) -> Decision<'p> {
    let subject = Subject { realm: "main", caller: "reader", groups: &[] };
    let skills = texts(&["rag.query", "rag.delete", "rag.write"]);
    let facts =
        Facts { skills: &skills, named_skill, ..Facts::new(subject, "library", Operation::SendMessage) };
    policy.decide(&facts)
}

#[test]
fn a_restricted_caller_that_names_no_skill_is_told_which_there_are() {
    let rule = Rule { limits: skills(&["rag.query", "rag.write", "elsewhere"]), ..Rule::named("default") };
    let policy = Policy::new([rule]);
    let denied = decide_at_library(&policy, None).denied.expect("no skill was named");
    assert_eq!(denied.reason, SKILL_REQUIRED);
    assert_eq!(denied.limit.as_deref(), Some("rag.query, rag.write"));
    assert!(
        denied
            .hint
            .expect("a hint")
            .starts_with("name the skill that the message is for: rag.query, rag.write")
    );
    assert_eq!(decide_at_library(&policy, Some("rag.write")).skill.as_deref(), Some("rag.write"));
}

#[test]
fn each_limit_comes_from_the_most_specific_rule_that_sets_it() {
    let limited = |tokens: Option<u64>, micro_usd: Option<u64>| Limits {
        max_tokens: tokens,
        max_micro_usd: micro_usd,
        ..Limits::default()
    };
    let policy = Policy::new([
        Rule { limits: limited(Some(1), Some(1)), ..Rule::named("default") },
        Rule { limits: limited(Some(2), None), agents: Some(set(&["library"])), ..Rule::named("agent") },
        Rule {
            limits: limited(None, Some(3)),
            callers: Callers::Named(set(&["reader"])),
            ..Rule::named("caller")
        },
        Rule {
            limits: limited(None, Some(4)),
            callers: Callers::Named(set(&["reader"])),
            ..Rule::named("later")
        },
    ]);
    let decision = decide_at_library(&policy, None);
    assert_eq!(decision.enforced.max_tokens, Some(Set { to: 2, by: "agent" }));
    assert_eq!(decision.enforced.max_micro_usd, Some(Set { to: 3, by: "caller" }));
    assert_eq!(decision.enforced.caps(), Caps { tokens: Some(2), micro_usd: Some(3), duration: None });
    assert_eq!(decision.enforced.concurrency(), 16);
    let subject = Subject { realm: "main", caller: "reader", groups: &[] };
    let names: Vec<&str> =
        policy.matching(subject, "library", Operation::SendMessage).map(|rule| &*rule.name).collect();
    assert_eq!(names, ["caller", "later", "agent", "default"]);
}

#[test]
fn a_rule_that_is_observed_loosens_nothing_and_tightens_nothing() {
    let enforced = Rule { limits: skills(&["rag.query"]), ..Rule::named("enforced") };
    let observed = |allowed| Rule {
        limits: skills(allowed),
        agents: Some(set(&["library"])),
        mode: Mode::Observe,
        ..Rule::named("observed")
    };
    let looser = Policy::new([enforced.clone(), observed(&["*"])]);
    let decision = decide_at_library(&looser, Some("rag.delete"));
    assert_eq!(decision.denied.expect("it is not enforced").reason, SKILL_NOT_ALLOWED);
    assert_eq!(decision.would_deny, None);

    let tighter = Policy::new([enforced, observed(&["rag.write"])]);
    let decision = decide_at_library(&tighter, Some("rag.query"));
    assert_eq!(decision.denied, None);
    assert_eq!(decision.would_deny.expect("it would be").reason, SKILL_NOT_ALLOWED);
}

#[test]
fn a_part_that_states_no_media_type_is_judged_as_what_it_is() {
    let part = |part: serde_json::Value| serde_json::from_value::<Part>(part).expect("a part");
    let message = Message {
        parts: vec![
            part(serde_json::json!({"text": "hello"})),
            part(serde_json::json!({"data": {"x": 1}})),
            part(serde_json::json!({"raw": "aGVsbG8="})),
            part(serde_json::json!({"url": "https://a.example/x"})),
            part(serde_json::json!({"raw": "aGVsbG8=", "mediaType": "image/png"})),
        ],
        ..Message::user("")
    };
    let expected = [
        "text/plain",
        "application/json",
        "application/octet-stream",
        "application/octet-stream",
        "image/png",
    ];
    assert_eq!(media_types(&message), expected);
}

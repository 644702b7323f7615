//! Who may do what: every way to ask a gateway for something, by everybody who might ask. What is to come of it stands in
//! `rules`, and nothing of it was learnt from the gateway.
//!
//! | file | holds |
//! |---|---|
//! | `rules` | the rules |
//! | `plan` | all rows: what is asked for, in which way, and through which routes |
//! | `operations` | the operations in the words of each version and binding |
//! | `wire` | requests and answers |
//! | `site` | the gateway, who asks, and what there is to ask for |
//!
//! The routes are read from the tables by which the gateway itself finds them: `routes` is its own file, and
//! `chancery_sdk::testing::served_routes` lists those of the SDK. A route that no row leads through fails the first test.

#[path = "../../src/routes.rs"]
#[allow(dead_code, reason = "only the tables are needed")]
mod routes;

mod operations;
mod plan;
mod rules;
mod site;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;

use plan::Row;
use rules::{Expect, Thing, Who, expected};
use site::{Site, Standing};
use wire::Class;

/// A cell that is not as it should be.
struct Wrong {
    thing: Thing,
    who: Who,
    label: String,
    what: &'static str,
    how: String,
}

/// As many rows as are named of those that are wrong in the same way.
const SHOWN: usize = 8;

/// So many requests at a time.
const AT_A_TIME: usize = 16;

#[test]
fn every_route_has_a_row() {
    let rows = plan::rows();
    let reached: BTreeSet<_> = rows.iter().flat_map(|row| &row.reaches).cloned().collect();
    let declared: BTreeSet<_> = plan::declared().into_iter().collect();
    let missing: Vec<_> = declared.difference(&reached).collect();
    assert!(missing.is_empty(), "nothing says who may ask there; add rows in plan.rs: {missing:#?}");
    let gone: Vec<_> = reached.difference(&declared).collect();
    assert!(gone.is_empty(), "there are rows for what is no route: {gone:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reaches_what_is_not_theirs() {
    let callers = [
        Who::Owner,
        Who::Other,
        Who::OtherRealm,
        Who::GroupMember,
        Who::Turn,
        Who::Revoked,
        Who::Anonymous,
        Who::Stray,
    ];
    check(&Site::start(false).await, &callers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reaches_what_is_not_theirs_where_everybody_is_let_in() {
    let callers = [Who::Revoked, Who::Guest, Who::Bearer, Who::Thief, Who::ThiefElsewhere];
    check(&Site::start(true).await, &callers).await;
}

/// Has everybody ask for everything.
async fn check(site: &Site, callers: &[Who]) {
    let rows = plan::rows();
    let tasks = [(Who::Owner, &site.of_owner), (Who::Turn, &site.of_turn)];
    let mut before = Vec::new();
    for (who, at) in tasks {
        before.push(site.seen(who, at).await);
    }
    let cells: Vec<_> =
        rows.iter().flat_map(|row| asking(row, callers).into_iter().map(move |who| (row, who))).collect();
    let count = cells.len();
    let checking = cells.into_iter().map(|(row, who)| cell(site, row, who));
    let wrong: Vec<Wrong> = futures_util::stream::iter(checking)
        .buffer_unordered(AT_A_TIME)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{} of {count} are wrong\n\n{}\n\n{}", wrong.len(), shown(&wrong), site.log());
    for ((who, at), before) in tasks.into_iter().zip(before) {
        assert_eq!(site.seen(who, at).await, before, "what {who:?} has was changed by others");
    }
}

/// One of each kind, and how many there are.
fn shown(wrong: &[Wrong]) -> String {
    let mut kinds: BTreeMap<(Thing, Who, &str), Vec<&Wrong>> = BTreeMap::new();
    for one in wrong {
        kinds.entry((one.thing, one.who, one.what)).or_default().push(one);
    }
    let kinds = kinds.into_iter().map(|((thing, who, what), all)| {
        let labels: Vec<_> = all.iter().take(SHOWN).map(|one| one.label.as_str()).collect();
        format!("== {thing:?} by {who:?}: {what} ({})\n{}\n{}", all.len(), labels.join("\n"), all[0].how)
    });
    kinds.collect::<Vec<_>>().join("\n\n")
}

/// Who asks for it.
fn asking(row: &Row, callers: &[Who]) -> Vec<Who> {
    let others: &[Who] = match row.thing {
        Thing::Inbox | Thing::InboxTask => &[Who::Worker, Who::WorkerElsewhere],
        Thing::HiddenInbox | Thing::HiddenInboxTask | Thing::HiddenAgent => &[Who::HiddenWorker],
        _ if row.reaches.iter().any(|route| route.starts_with("admin ")) => &[Who::Operator],
        _ => &[],
    };
    callers.iter().chain(others).copied().collect()
}

/// One row for one caller; what is wrong about it.
async fn cell(site: &Site, row: &Row, who: Who) -> Option<Wrong> {
    let expect = expected(row.thing, who);
    let at = subject(site, row, who, expect).await;
    let ask = (row.ask)(&at);
    let answer = site.wires.send(&ask, site.credentials(who)).await;
    let class = answer.class();
    let wrong = match expect {
        Expect::Done if class == Class::Done => None,
        Expect::NotFound if class == Class::Missing => None,
        Expect::LetIn if matches!(class, Class::Done | Class::Missing) => None,
        Expect::Forbidden if class == Class::Forbidden => None,
        Expect::Unknown if class == Class::Unknown => None,
        Expect::Refused if class == Class::Refused => None,
        Expect::Missing if class != Class::Missing => Some((class.name(), String::new())),
        Expect::Alike if class == Class::Done => Some((class.name(), String::new())),
        Expect::Missing | Expect::Alike => {
            let nowhere = nowhere(site, row, expect, &at);
            let other = site.wires.send(&(row.ask)(&nowhere), site.credentials(who)).await;
            let (here, there) = (answer.looks(&at), other.looks(&nowhere));
            (here != there).then(|| ("told from what is nowhere", format!("\n{here}\n---\n{there}")))
        }
        _ => Some((class.name(), String::new())),
    };
    let leaked =
        site.leaks(who, &answer.text).filter(|_| expect != Expect::Done || row.thing != Thing::HiddenAgent);
    let (what, how) = wrong.or_else(|| leaked.map(|what| (what, String::new())))?;
    let (thing, label) = (row.thing, row.label.clone());
    Some(Wrong { thing, who, label, what, how: format!("{expect:?} is right\n{ask:?}\n{answer:?}{how}") })
}

/// What is spoken of: what there is, or something made for this alone where it may be changed.
async fn subject(site: &Site, row: &Row, who: Who, expect: Expect) -> Standing {
    let is_done = expect == Expect::Done;
    match row.thing {
        Thing::OwnersTask | Thing::OwnersReceivers | Thing::TurnsTask | Thing::TurnsReceivers => {
            let is_turns = matches!(row.thing, Thing::TurnsTask | Thing::TurnsReceivers);
            let Standing { tag, text, .. } = site.fresh();
            match row.oldest {
                Some(of_fleet) if is_done => site.own_oldest(who, of_fleet).await,
                _ if is_done => site.own(who).await,
                _ if is_turns => Standing { tag, text, ..site.of_turn.clone() },
                _ => Standing { tag, text, ..site.of_owner.clone() },
            }
        }
        Thing::InboxTask => site.leased(),
        thing if thing.is_hidden() => site.fresh().hidden(),
        Thing::GroupsAgent | Thing::GroupsSkill | Thing::GroupsHealth => site.fresh().of_group(),
        _ => site.fresh(),
    }
}

/// The same of something that is nowhere: a task, or all of an agent.
fn nowhere(site: &Site, row: &Row, expect: Expect, at: &Standing) -> Standing {
    let fresh = site.fresh();
    if expect == Expect::Alike && (row.thing.is_hidden() || row.thing == Thing::GroupsSkill) {
        return Standing { tag: fresh.tag, ..at.clone() }.elsewhere();
    }
    Standing { tag: fresh.tag, task: fresh.task, name: fresh.name, item: fresh.item, ..at.clone() }
}

//! The table of open calls: what it counts, what a cancel reaches, how it is made again.

use std::collections::BTreeSet;

use chancery_protocol::{Amount, CostSource, Edge, Settled, Timestamp};

use super::*;

fn agents(hops: &[Arc<OpenHop>]) -> BTreeSet<&str> {
    hops.iter().map(|hop| &*hop.agent).collect()
}

#[test]
fn a_call_is_removed_once() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    assert_eq!(gate.open.len(), 1);
    assert!(gate.open.remove(&root));
    assert!(!gate.open.remove(&root));
    assert!(gate.open.is_empty());
    assert_eq!(gate.open.open_at(&text("default"), &text("a")), 0);
}

#[test]
fn a_full_table_refuses_and_has_room_again_later() {
    let mut gate = gate(Rules::default());
    gate.open = Arc::new(Open::new(2));
    let one = gate.call(Who::User, None, "a").unwrap();
    gate.call(Who::User, None, "b").unwrap();
    let denied = gate.call(Who::User, None, "c").unwrap_err();
    assert_eq!(denied.reason, TOO_MANY_OPEN_CALLS);
    assert_eq!(denied.kind, chancery_protocol::DeniedKind::Exhausted);
    gate.open.remove(&one);
    assert!(gate.call(Who::User, None, "c").is_ok());
}

#[test]
fn a_cancel_reaches_all_below_even_where_a_call_between_has_ended() {
    let gate = gate(Rules::default());
    let a = gate.call(Who::User, None, "a").unwrap();
    let b = gate.call(Who::Agent("a"), Some(&gate.token(&a)), "b").unwrap();
    let c = gate.call(Who::Agent("b"), Some(&gate.token(&b)), "c").unwrap();
    gate.call(Who::Agent("a"), Some(&gate.token(&a)), "d").unwrap();
    gate.call(Who::Agent("c"), Some(&gate.token(&c)), "e").unwrap();
    gate.call(Who::User, None, "stranger").unwrap();
    assert_eq!(agents(&gate.open.descendants(a.root, b.hop)), BTreeSet::from(["c", "e"]));
    gate.open.remove(&b);
    assert_eq!(agents(&gate.open.cascade(&b)), BTreeSet::from(["c", "e"]));
    gate.open.remove(&a);
    assert_eq!(agents(&gate.open.cascade(&a)), BTreeSet::from(["c", "d", "e"]));
}

#[test]
fn a_cancel_reaches_what_an_agent_called_without_a_token() {
    let gate = gate(lenient());
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.token(&root);
    let one = gate.call(Who::Agent("a"), Some(&token), "x").unwrap();
    let other = gate.call(Who::User, None, "x").unwrap();
    gate.call(Who::Agent("x"), None, "lost").unwrap();
    gate.open.remove(&one);
    assert!(gate.open.cascade(&one).is_empty(), "it may be for the other call");
    gate.open.remove(&other);
    assert_eq!(agents(&gate.open.cascade(&other)), BTreeSet::from(["lost"]));
}

pub(super) fn edge(hop: &OpenHop, settled: bool) -> Edge {
    let at = Timestamp::from_millis(0);
    let ended = Settled {
        at,
        charged: Amount::ONE_TASK,
        overrun: Amount::default(),
        source: CostSource::Metered,
        state: None,
    };
    Edge {
        hop: hop.hop,
        root: hop.root,
        parent: hop.parent,
        depth: hop.context.depth,
        trace: Some(Arc::from(hop.context.trace_id.to_string())),
        realm: hop.realm.clone(),
        caller: hop.caller.clone(),
        payer: None,
        groups: Vec::new(),
        used: chancery_protocol::Usage::default(),
        agent: hop.agent.clone(),
        skill: None,
        peer: hop.peer.clone(),
        task: hop.task().cloned(),
        opened: at,
        reserved: hop.reserved,
        limits: chancery_protocol::CallLimits::default(),
        origin: hop.origin.clone(),
        settled: settled.then_some(ended),
    }
}

#[test]
fn the_table_is_the_same_after_a_restart() {
    let mut gate = gate(Rules { max_descendants: Some(3), ..lenient() });
    let a = gate.call(Who::Agent("origin"), None, "a").unwrap();
    a.began(&"task-a".into());
    let b = gate.call(Who::Agent("a"), Some(&gate.token(&a)), "b").unwrap();
    let c = gate.call(Who::Agent("b"), Some(&gate.token(&b)), "c").unwrap();
    let token = gate.token(&c);
    // The call in between has ended; the agents on the way are still those.
    let edges = [edge(&c, false), edge(&a, false), edge(&b, true)];
    let (open, rebuilt) =
        Open::rebuild(100, &edges, |_, caller| (caller == "caller").then(|| text("origin")));
    assert_eq!(rebuilt, Rebuilt { open: 2, incomplete: 0 });
    gate.open = Arc::new(open);

    let again = gate.open.find(c.root, c.hop).unwrap();
    assert_eq!(again.context.visited.names(), ["origin", "a", "b", "c"]);
    assert_eq!((again.context.depth, again.context.trace_id), (2, c.context.trace_id));
    assert_eq!(&*again.context.root_agent_id, "origin");
    assert_eq!(gate.open.find(a.root, a.hop).unwrap().task().map(|task| task.as_str()), Some("task-a"));
    assert_eq!(gate.open.descendants_ever(a.root), 2);
    assert_eq!(gate.open.open_at(&text("default"), &text("b")), 0);

    for known in ["origin", "a", "b"] {
        assert_eq!(reason(gate.call(Who::Agent("c"), Some(&token), known)), REVISIT_DENIED, "{known}");
    }
    gate.call(Who::Agent("c"), Some(&token), "d").unwrap();
    assert_eq!(reason(gate.call(Who::Agent("c"), Some(&token), "e")), TOO_MANY_DESCENDANTS);
}

#[test]
fn records_that_are_missing_or_go_in_circles_are_no_trouble() {
    let gate = gate(Rules::default());
    let b = gate.chain(&["a", "b"]).unwrap();
    let lonely = edge(&b, false);
    let circle = Edge { parent: Some(b.hop), ..edge(&b, false) };
    for edge in [lonely, circle] {
        let (open, rebuilt) = Open::rebuild(100, &[edge], |_, _| None);
        assert_eq!(rebuilt, Rebuilt { open: 1, incomplete: 1 });
        assert_eq!(open.find(b.root, b.hop).unwrap().context.depth, 1, "its depth is in its own record");
    }
}

//! Calls without a token, and tokens in the wrong hands.

use super::*;

#[test]
fn an_agent_with_one_open_call_works_on_that_one() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let descent = gate.descend(Who::Agent("a"), None).unwrap();
    assert_eq!(descent.basis, Basis::OnlyOpenCall);
    assert_eq!(descent.payer(), Payer::Root(root.hop));
    assert_eq!(reason(gate.receive(&descent, "a")), REVISIT_DENIED);
}

#[test]
fn an_agent_with_several_open_calls_answers_for_itself_as_strictly_as_for_any() {
    let gate = gate(lenient());
    gate.chain(&["p", "q", "a"]).unwrap();
    gate.call(Who::User, None, "a").unwrap();
    let descent = gate.descend(Who::Agent("a"), None).unwrap();
    assert_eq!(descent.payer(), Payer::Unattributed(text("a")));
    assert_eq!(descent.depth, 3);
    for known in ["a", "p", "q"] {
        assert_eq!(reason(gate.receive(&descent, known)), REVISIT_DENIED, "{known}");
    }
    let hop = gate.call(Who::Agent("a"), None, "x").unwrap();
    assert_eq!((hop.parent, hop.root), (None, hop.hop));
    let further = gate.call(Who::Agent("x"), Some(&gate.token(&hop)), "q");
    assert_eq!(reason(further), REVISIT_DENIED, "what may lie on the way stays on it");
}

#[test]
fn an_agent_with_nothing_open_begins_at_its_own_expense() {
    let gate = gate(lenient());
    let descent = gate.descend(Who::Agent("a"), None).unwrap();
    assert_eq!((descent.depth, descent.payer()), (0, Payer::Unattributed(text("a"))));
}

#[test]
fn realms_do_not_see_each_other() {
    let gate = gate(lenient());
    gate.call(Who::User, None, "a").unwrap();
    let (realm, agent) = (text("other"), text("a"));
    let arrival = Arrival { realm: &realm, agent: Some(&agent), anonymous: false, token: None, trace: None };
    let descent = gate.attribute(&arrival, Millis(0)).unwrap();
    assert_eq!(descent.payer(), Payer::Unattributed(agent.clone()));
    assert_eq!(descent.depth, 0);
}

#[test]
fn an_agent_that_does_not_say_for_which_of_its_calls_it_calls_is_refused_with_the_header_to_pass_on() {
    let gate = gate(Rules::default());
    let denied = gate.descend(Who::Agent("a"), None).unwrap_err();
    assert_eq!((&*denied.gate, &*denied.reason, denied.kind), (GATE, LINEAGE_REQUIRED, DeniedKind::Lineage));
    let hint = denied.hint.unwrap();
    assert!(hint.contains("`Chancery-Lineage`") && hint.contains("`budget.unattributed`"), "{hint}");

    let one = gate.call(Who::User, None, "a").unwrap();
    assert_eq!(gate.descend(Who::Agent("a"), None).unwrap().basis, Basis::OnlyOpenCall);
    gate.call(Who::User, None, "a").unwrap();
    assert_eq!(reason(gate.descend(Who::Agent("a"), None)), LINEAGE_REQUIRED);
    let descent = gate.descend(Who::Agent("a"), Some(&gate.token(&one))).unwrap();
    assert_eq!(descent.payer(), Payer::Root(one.hop));
    assert_eq!(gate.descend(Who::User, None).unwrap().basis, Basis::Fresh);
}

#[test]
fn the_token_of_an_open_call_alone_shows_who_belongs_to_the_fleet() {
    let gate = gate(Rules::default());
    let realm = text("default");
    let is_insider = |agent: Option<&str>, token: Option<&str>| {
        let agent = agent.map(text);
        let arrival =
            Arrival { realm: &realm, agent: agent.as_ref(), anonymous: agent.is_none(), token, trace: None };
        gate.is_insider(&arrival, Millis(0))
    };
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.token(&root);
    assert!(is_insider(None, Some(&token)) && !is_insider(Some("b"), None));
    assert!(!is_insider(None, None) && !is_insider(None, Some("x.y.z")));
    gate.open.remove(&root);
    assert!(!is_insider(None, Some(&token)));
}

#[test]
fn a_token_works_only_for_the_agent_that_it_was_given_to() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.token(&root);
    assert_eq!(reason(gate.descend(Who::Agent("b"), Some(&token))), LINEAGE_INVALID);
    assert_eq!(reason(gate.descend(Who::User, Some(&token))), LINEAGE_INVALID);
    // Somebody of whom nothing is known may be the agent.
    assert_eq!(gate.descend(Who::Anonymous, Some(&token)).unwrap().payer(), Payer::Root(root.hop));
}

#[test]
fn a_token_of_a_call_that_has_ended_is_refused() {
    let gate = gate(Rules::default());
    let root = gate.call(Who::User, None, "a").unwrap();
    let token = gate.token(&root);
    let descent = gate.descend(Who::Agent("a"), Some(&token)).unwrap();
    assert!(gate.open.remove(&root));
    assert_eq!(reason(gate.descend(Who::Agent("a"), Some(&token))), LINEAGE_INVALID);

    // Nor does a call leave that was received just before.
    let (realm, caller, agent) = (text("default"), text("a"), text("b"));
    let departure = Departure::new(HopId::generate(), &realm, &caller, &agent);
    assert_eq!(reason(gate.dispatch(&descent, departure)), LINEAGE_INVALID);
    assert!(gate.open.is_empty());
}

//! Gateways that list each other: what a chain through both is known by, and what a token of the other one is good for.

use chancery_protocol::signing::{AgentId, AgentKey};
use chancery_protocol::{Amount, Edge};

use super::tokens::json;
use super::*;

fn key(seed: u8) -> AgentKey {
    AgentKey::from_seed(&[seed; 32])
}

fn id(seed: u8) -> AgentId {
    key(seed).id()
}

/// A gateway with this key that lists those with these, and these agents with keys of their own.
fn gateway(seed: u8, listed: &[u8], agents: &[(&str, u8)]) -> Lineage {
    let listed = listed.iter().map(|seed| (id(*seed), text(&format!("gateway-{seed}"))));
    let agents = agents.iter().map(|(name, seed)| (text(name), id(*seed)));
    let federation = Federation::new(OwnKey::new(key(seed), []), listed, agents);
    let tokens = Tokens::new(
        format!("https://{seed}.example"),
        Keyring::try_new(&format!("k{seed}"), &[seed; 32]).unwrap(),
    );
    Lineage {
        rules: Rules::default(),
        tokens: tokens.shared_with(Arc::new(federation)),
        open: Arc::default(),
    }
}

#[test]
fn a_chain_through_another_gateway_keeps_its_depth_and_is_known_when_it_comes_back() {
    let (home, away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let last = home.chain(&["a", "b", "remote"]).unwrap();
    let out = home.token(&last);
    assert_eq!(json(&out, 0)["alg"], "EdDSA");
    assert_eq!(json(&out, 1)["path"][0], format!("{}#a", id(1)));

    let there = away.call(Who::User, Some(&out), "a").unwrap();
    assert_eq!(there.context.depth, 3, "an agent there may have the name of one here");
    assert_eq!(there.context.trace_id, last.context.trace_id);
    assert_eq!(there.parent, None);

    let descent = home.descend(Who::User, Some(&away.token(&there))).unwrap();
    assert_eq!((descent.depth, descent.payer()), (4, Payer::Caller));
    assert_eq!(descent.basis, Basis::Foreign(text("gateway-2")));
    for known in ["a", "b", "remote"] {
        assert_eq!(reason(home.receive(&descent, known)), REVISIT_DENIED, "{known}");
    }
    assert!(home.receive(&descent, "c").is_ok());
}

#[test]
fn a_loop_of_two_gateways_ends_at_the_depth_even_where_agents_may_come_again() {
    let mut gateways = [gateway(1, &[2], &[]), gateway(2, &[1], &[])];
    for gateway in &mut gateways {
        gateway.rules = Rules { deny_revisit: false, max_call_depth: 5, ..Rules::default() };
    }
    let mut token: Option<String> = None;
    let mut reached = 0;
    let refused = loop {
        let gateway = &gateways[reached % 2];
        match gateway.call(Who::User, token.as_deref(), "agent") {
            Ok(hop) => token = Some(gateway.token(&hop)),
            refused => break refused,
        }
        reached += 1;
    };
    assert_eq!((reached, reason(refused)), (6, CALL_DEPTH_EXCEEDED.to_owned()));
}

#[test]
fn an_agent_that_both_serve_is_known_by_its_key() {
    let (home, away) = (gateway(1, &[2], &[("scout", 9)]), gateway(2, &[1], &[("helper", 9)]));
    let hop = home.chain(&["scout", "writer"]).unwrap();
    let descent = away.descend(Who::User, Some(&home.token(&hop))).unwrap();
    assert_eq!(reason(away.receive(&descent, "helper")), REVISIT_DENIED);
    assert!(away.receive(&descent, "scout").is_ok(), "another agent has that name here");
}

#[test]
fn a_member_of_a_pool_is_known_elsewhere_too() {
    let (home, away) = (gateway(1, &[2], &[("member", 9)]), gateway(2, &[1], &[("helper", 9)]));
    let (realm, caller, pool, member) = (text("default"), text("caller"), text("pool"), text("member"));
    let descent = home.descend(Who::User, None).unwrap();
    let departure = Departure::new(HopId::generate(), &realm, &caller, &pool);
    let hop = home.dispatch(&descent, Departure { peer: Some(&member), ..departure }).unwrap();
    let token = home.token(&hop);
    let descent = away.descend(Who::User, Some(&token)).unwrap();
    assert_eq!(reason(away.receive(&descent, "helper")), REVISIT_DENIED);
    let there = away.call(Who::User, Some(&token), "other").unwrap();
    let back = home.descend(Who::User, Some(&away.token(&there))).unwrap();
    assert_eq!(reason(home.receive(&back, "pool")), REVISIT_DENIED);
}

#[test]
fn all_that_is_done_with_a_foreign_token_has_one_root_and_says_where_it_is_from() {
    let (home, away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let (realm, caller, agent) = (text("default"), text("alice"), text("a"));
    let departure = Departure {
        reserved: Amount { micro_usd: 500, tokens: 70, tasks: 1 },
        allowance: Allowance { micro_usd: Some(2_000), tokens: Some(30) },
        ..Departure::new(HopId::generate(), &realm, &caller, &agent)
    };
    let hop = home.dispatch(&home.descend(Who::User, None).unwrap(), departure).unwrap();
    let token = home.token(&hop);
    let one = away.call(Who::User, Some(&token), "x").unwrap();
    let other = away.call(Who::Anonymous, Some(&token), "y").unwrap();
    let below = away.call(Who::Agent("x"), Some(&away.token(&one)), "z").unwrap();
    assert_eq!((one.root, one.root), (other.root, below.root));
    assert_ne!(one.root, hop.hop, "nobody can name a root here");
    let origin = one.origin.as_ref().unwrap();
    assert_eq!((&*origin.gateway, origin.call), ("gateway-1", hop.hop));
    // What is held there, and of tokens what is left there as well.
    assert_eq!((origin.micro_usd, origin.tokens), (Some(500), Some(100)));
    assert_eq!((&below.origin, below.parent), (&one.origin, Some(one.hop)));
    // It is one tree, and counts as one.
    assert_eq!(away.open.descendants_ever(one.root), 3);
    assert_eq!(away.open.descendants(one.root, one.root).len(), 3);
}

#[test]
fn a_root_elsewhere_has_as_many_descendants_here_as_any() {
    let (home, mut away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let token = home.token(&home.call(Who::User, None, "a").unwrap());
    away.rules.max_descendants = Some(0);
    assert_eq!(reason(away.call(Who::User, Some(&token), "x")), TOO_MANY_DESCENDANTS);
    assert!(away.open.is_empty());
    away.rules.max_descendants = Some(2);
    let _one = away.call(Who::User, Some(&token), "x").unwrap();
    away.open.remove(&away.call(Who::User, Some(&token), "x").unwrap());
    assert_eq!(reason(away.call(Who::User, Some(&token), "x")), TOO_MANY_DESCENDANTS);
    assert!(away.call(Who::User, None, "x").is_ok(), "a root of its own is none");
}

#[test]
fn a_token_of_a_gateway_that_did_not_mean_us_says_nothing_and_one_that_did_must_be_listed() {
    let (maker, third) = (gateway(1, &[2], &[]), gateway(3, &[1], &[]));
    let token = maker.token(&maker.call(Who::User, None, "a").unwrap());
    // Nobody has told its maker of the third gateway, though that lists it.
    for (who, without) in [(Who::User, Basis::Fresh), (Who::Anonymous, Basis::Fresh)] {
        assert_eq!(third.descend(who, Some(&token)).unwrap().basis, without);
    }
    assert_eq!(reason(third.descend(Who::Agent("x"), Some(&token))), LINEAGE_REQUIRED);
    let knows_nobody = gate(Rules::default());
    assert_eq!(knows_nobody.descend(Who::User, Some(&token)).unwrap().basis, Basis::Fresh);

    let meant = gateway(2, &[], &[]);
    let denied = meant.descend(Who::User, Some(&token)).unwrap_err();
    assert_eq!(denied.reason, LINEAGE_INVALID);
    assert!(denied.observed.unwrap().contains(&id(1).to_string()));
    assert!(denied.hint.unwrap().contains("[[identity.gateway]]"));
}

#[test]
fn a_token_that_its_gateway_has_not_signed_is_refused() {
    let (maker, away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let token = maker.token(&maker.call(Who::User, None, "a").unwrap());
    let (message, seal) = token.rsplit_once('.').unwrap();
    let (head, body) = message.split_once('.').unwrap();
    let other = maker.token(&maker.call(Who::User, None, "b").unwrap());
    let other: Vec<&str> = other.split('.').collect();
    let impostor = gateway(3, &[2], &[]);
    let impostor = impostor.token(&impostor.call(Who::User, None, "a").unwrap());
    let impostor: Vec<&str> = impostor.split('.').collect();
    for forged in [
        format!("{head}.{body}.{}", other[2]),
        format!("{head}.{}.{seal}", other[1]),
        format!("{head}.{body}.{}", impostor[2]),
        format!("{}.{body}.{}", impostor[0], impostor[2]),
        format!("{head}.{}.{}", impostor[1], impostor[2]),
        impostor.join("."),
    ] {
        assert_eq!(reason(away.descend(Who::User, Some(&forged))), LINEAGE_INVALID, "{forged}");
        let at_home = maker.descend(Who::Agent("a"), Some(&forged));
        assert!(at_home.is_err() || at_home.unwrap().basis != Basis::Token, "{forged}");
    }
    let late =
        Arrival { realm: &text("default"), agent: None, anonymous: false, token: Some(&token), trace: None };
    assert_eq!(reason(away.attribute(&late, LATER)), LINEAGE_INVALID, "it has expired");
}

#[test]
fn a_gateway_reads_its_own_tokens_also_while_others_do_and_its_key_changes() {
    let agents: [(Arc<str>, AgentId); 0] = [];
    let federation = Arc::new(Federation::new(OwnKey::new(key(1), []), [(id(2), text("other"))], agents));
    let mut home = gate(Rules::default());
    let sealed = home.call(Who::User, None, "a").unwrap();
    let before = home.token(&sealed);
    home.tokens = home.tokens.clone().shared_with(federation.clone());
    let signed = home.token(&sealed);
    federation.change_key(OwnKey::new(key(5), [(id(1), Millis(100))]));
    for token in [&before, &signed, &home.token(&sealed)] {
        assert_eq!(home.descend(Who::Agent("a"), Some(token)).unwrap().basis, Basis::Token);
        assert_eq!(reason(home.descend(Who::Agent("b"), Some(token))), LINEAGE_INVALID);
    }
    let (realm, agent) = (text("default"), text("a"));
    let later =
        Arrival { realm: &realm, agent: Some(&agent), anonymous: false, token: Some(&signed), trace: None };
    let descent = home.attribute(&later, Millis(100)).unwrap();
    assert_eq!(descent.basis, Basis::OnlyOpenCall, "a key that is forgotten says nothing");
}

#[test]
fn an_agent_cannot_leave_its_open_calls_by_a_foreign_token_nor_begin_by_one() {
    let (home, mut away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let token = home.token(&home.call(Who::User, None, "remote").unwrap());
    assert_eq!(reason(away.descend(Who::Agent("x"), Some(&token))), LINEAGE_REQUIRED);
    away.rules = lenient();
    let idle = away.descend(Who::Agent("x"), Some(&token)).unwrap();
    assert_eq!((idle.depth, idle.payer()), (1, Payer::Unattributed(text("x"))));
    assert_eq!(idle.visited.names().last(), Some(&"x"));
    away.call(Who::User, None, "x").unwrap();
    assert_eq!(reason(away.descend(Who::Agent("x"), Some(&token))), LINEAGE_INVALID);
}

#[test]
fn where_a_call_is_from_is_known_after_a_restart() {
    let (home, mut away) = (gateway(1, &[2], &[]), gateway(2, &[1], &[]));
    let token = home.token(&home.chain(&["a", "b"]).unwrap());
    let x = away.call(Who::User, Some(&token), "x").unwrap();
    let y = away.call(Who::Agent("x"), Some(&away.token(&x)), "y").unwrap();
    let lineage = away.token(&y);
    let edges = [open::edge(&x, true), Edge { origin: None, ..open::edge(&y, false) }];
    let (open, rebuilt) = Open::rebuild(100, &edges, |_, _| None);
    assert_eq!(rebuilt, Rebuilt { open: 1, incomplete: 0 });
    let names =
        |hop: &OpenHop| hop.context.visited.names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let again = open.find(y.root, y.hop).unwrap();
    assert_eq!(again.origin, x.origin);
    assert_eq!((names(&again), again.context.depth), (names(&y), 3));
    assert_eq!(again.context.root_agent_id, y.context.root_agent_id);
    away.open = Arc::new(open);
    assert_eq!(away.open.descendants_ever(y.root), 2);

    // What it leads to comes home as deep as it is, and to nobody who was on the way.
    let z = away.call(Who::Agent("y"), Some(&lineage), "z").unwrap();
    let back = home.descend(Who::User, Some(&away.token(&z))).unwrap();
    assert_eq!(back.depth, 5);
    assert_eq!(reason(home.receive(&back, "a")), REVISIT_DENIED);
}

#[test]
fn the_longest_names_and_the_most_gateways_make_a_token_that_is_taken() {
    let listed: Vec<u8> = (2..2 + u8::try_from(MOST_GATEWAYS).unwrap()).collect();
    let mut home = gateway(1, &listed, &[]);
    home.rules.max_call_depth = 65;
    let names: Vec<String> = (0..65).map(|number| format!("{number:0>63}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let last = home.chain(&names).unwrap();
    let token = home.token(&last);
    assert!(token.len() <= MAX_TOKEN_BYTES, "{}", token.len());
    let away = gateway(2, &[1], &[]);
    let descent = away.descend(Who::User, Some(&token)).unwrap();
    assert_eq!(descent.depth, 65);
    assert!(descent.visited.names().len() > 4);
    assert!(home.descend(Who::Agent(names[64]), Some(&token)).is_ok());
}

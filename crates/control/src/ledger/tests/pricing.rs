//! What a call is taken to cost, and what it is charged.

use chancery_protocol::{CostSource, Usage};

use super::super::*;
use super::*;

const BOTH: Limited = Limited { money: true, tokens: true };

fn prices(settings: PriceSettings) -> Arc<Tariff> {
    Prices::new(settings).tariff(&Arc::from("rag"), Some(&Arc::from("query")))
}

fn unknown(unknown: UnknownCost) -> Arc<Tariff> {
    prices(PriceSettings { unknown, ..PriceSettings::default() })
}

fn declared(per_call: u64, per_1k_tokens: u64) -> Arc<Tariff> {
    let price = Price { per_call, per_1k_tokens };
    prices(PriceSettings { agents: [(Arc::from("rag"), price)].into(), ..PriceSettings::default() })
}

fn usage(input_tokens: u64, cost_micro_usd: u64) -> Usage {
    Usage { input_tokens, output_tokens: 0, cost_micro_usd }
}

#[test]
fn charges_round_up() {
    let price = Price { per_call: 10, per_1k_tokens: 3 };
    assert_eq!([0, 1, 333, 334, 1_000].map(|tokens| price.of(tokens)), [10, 11, 11, 12, 13]);
    assert_eq!(Price { per_call: u64::MAX, per_1k_tokens: u64::MAX }.of(u64::MAX), u64::MAX);
}

#[test]
fn a_skill_may_have_a_price_of_its_own() {
    let [rag, query]: [Arc<str>; 2] = ["rag".into(), "query".into()];
    let price = |per_call| Price { per_call, per_1k_tokens: 0 };
    let settings = PriceSettings {
        agents: [(rag.clone(), price(1))].into(),
        skills: [((rag.clone(), query.clone()), price(2))].into(),
        ..PriceSettings::default()
    };
    let prices = Prices::new(settings);
    assert_eq!(prices.tariff(&rag, Some(&query)).price(), Some(price(2)));
    assert_eq!(prices.tariff(&rag, Some(&Arc::from("other"))).price(), Some(price(1)));
    assert_eq!(prices.tariff(&Arc::from("other"), Some(&query)).price(), None);
}

#[test]
fn a_report_may_raise_a_charge_above_what_is_declared_and_never_lower_it() {
    let tariff = declared(100, 10);
    let estimate = tariff.estimate(None, BOTH).unwrap();
    assert_eq!((estimate.hold.micro_usd, estimate.expected.source), (100, CostSource::Declared));
    assert_eq!((estimate.expected.amount.tokens, estimate.expected.token_source), (0, CostSource::Unknown));
    let charge = |cost| tariff.charge(&estimate, Some((usage(1_000, cost), CostSource::Reported)));
    assert_eq!((charge(500).amount.micro_usd, charge(500).source), (500, CostSource::Reported));
    assert_eq!((charge(1).amount.micro_usd, charge(1).source), (110, CostSource::Declared));
    assert_eq!(tariff.charge(&estimate, None), estimate.expected);
}

#[test]
fn the_tokens_that_were_seen_are_held_and_never_charged() {
    let tariff = declared(10, 1_000);
    let before = tariff.estimate(None, Limited::default()).unwrap();
    assert_eq!((before.hold.micro_usd, before.hold.tokens), (10, 0));
    (0..9).for_each(|_| tariff.observe(usage(50, 100)));
    let estimate = tariff.estimate(None, Limited::default()).unwrap();
    assert!((50..=63).contains(&estimate.hold.tokens), "{estimate:?}");
    assert_eq!(estimate.hold.micro_usd, 10 + estimate.hold.tokens);
    assert_eq!(tariff.charge(&estimate, None), before.expected);
}

#[test]
fn where_tokens_are_limited_a_call_of_which_nothing_is_known_holds_one() {
    let hold = |tokens| {
        let limited = Limited { tokens, ..Limited::default() };
        declared(0, 0).estimate(None, limited).unwrap().hold.tokens
    };
    assert_eq!((hold(true), hold(false)), (1, 0));
}

#[test]
fn without_a_price_a_call_is_refused_where_money_is_limited_unless_it_is_said_what_to_hold() {
    let refused = unknown(UnknownCost::Deny).estimate(None, BOTH).unwrap_err();
    assert_eq!(refused.reason, COST_UNKNOWN);
    assert!(refused.hint.is_some_and(|hint| hint.contains("`price`") && hint.contains("hold:AMOUNT")));
    let tariff = unknown(UnknownCost::Hold(700));
    let estimate = tariff.estimate(None, BOTH).unwrap();
    assert_eq!((estimate.hold.micro_usd, estimate.expected.source), (700, CostSource::Held));
    let charge = |said| tariff.charge(&estimate, said);
    assert_eq!(charge(None).amount, Amount { micro_usd: 700, tokens: 0, tasks: 1 });
    // Tokens without a price say nothing of money.
    let tokens_alone = charge(Some((usage(70, 0), CostSource::Metered)));
    assert_eq!(tokens_alone.amount, Amount { micro_usd: 700, tokens: 70, tasks: 1 });
    assert_eq!((tokens_alone.source, tokens_alone.token_source), (CostSource::Held, CostSource::Metered));
    let told = charge(Some((usage(70, 3), CostSource::Reported)));
    assert_eq!((told.amount.micro_usd, told.source), (3, CostSource::Reported));
}

#[test]
fn where_no_money_is_limited_an_unknown_cost_is_nothing_and_says_so() {
    for policy in [UnknownCost::Deny, UnknownCost::Hold(700)] {
        let estimate = unknown(policy).estimate(None, Limited::default()).unwrap();
        assert_eq!((estimate.hold.micro_usd, estimate.expected.amount), (0, Amount::ONE_TASK));
        assert_eq!(estimate.expected.source, CostSource::Unknown);
    }
}

#[test]
fn the_callers_own_maximum_is_held_and_is_not_what_is_charged() {
    let tariff = declared(100, 0);
    let estimate = tariff.estimate(Some(5_000), BOTH).unwrap();
    assert_eq!((estimate.hold.micro_usd, estimate.expected.amount.micro_usd), (5_000, 100));
    // Too little for the price: what is held is the price, and the call's own account refuses it.
    assert_eq!(tariff.estimate(Some(50), BOTH).unwrap().hold.micro_usd, 100);
    // A caller that says what it is good for is no price.
    assert!(unknown(UnknownCost::Deny).estimate(Some(50), BOTH).is_err());
    let unlimited = unknown(UnknownCost::Deny).estimate(Some(50), Limited::default()).unwrap();
    assert_eq!((unlimited.hold.micro_usd, unlimited.expected.amount.micro_usd), (50, 0));
}

#[test]
fn skills_that_callers_make_up_do_not_fill_the_memory() {
    let prices = Prices::new(PriceSettings { max_tariffs: 3, ..PriceSettings::default() });
    let agent = Arc::from("rag");
    let tariffs: Vec<_> =
        (0..10).map(|skill| prices.tariff(&agent, Some(&format!("skill {skill}").into()))).collect();
    assert!(Arc::ptr_eq(&tariffs[8], &tariffs[9]));
    assert!(Arc::ptr_eq(&tariffs[9], &prices.tariff(&agent, None)));
    assert!(!Arc::ptr_eq(&tariffs[0], &tariffs[1]));
}

#[test]
fn what_an_agent_says_that_nobody_trusts_may_only_raise_the_charge() {
    let untrusted = [Arc::from("far")].into();
    let settings = PriceSettings { untrusted, unknown: UnknownCost::Hold(700), ..PriceSettings::default() };
    let tariff = Prices::new(settings).tariff(&"far".into(), None);
    let estimate = tariff.estimate(None, BOTH).unwrap();
    let charged = |said| tariff.charge(&estimate, Some((said, CostSource::Reported)));
    assert_eq!((charged(usage(1, 1)).amount.micro_usd, charged(usage(1, 1)).source), (700, CostSource::Held));
    let dear = charged(usage(5, 701));
    assert_eq!((dear.amount.micro_usd, dear.amount.tokens, dear.source), (701, 5, CostSource::Reported));
    // Nor does it get dearer by and by.
    (0..20).for_each(|_| tariff.observe(usage(1_000, 1)));
    assert_eq!(tariff.estimate(None, BOTH).unwrap(), estimate);
}

#[test]
fn what_was_learnt_stays_known_whatever_is_declared_and_is_learnt_on() {
    let price = |per_call| PriceSettings {
        agents: [("dear".into(), Price { per_call, per_1k_tokens: 0 })].into(),
        ..PriceSettings::default()
    };
    let before = Prices::new(price(1));
    let tokens = |prices: &Prices, agent: &str| {
        prices.tariff(&agent.into(), None).estimate(None, Limited::default()).unwrap().hold.tokens
    };
    let (known, dear) = (before.tariff(&"known".into(), None), before.tariff(&"dear".into(), None));
    (0..100).for_each(|_| [&known, &dear].into_iter().for_each(|tariff| tariff.observe(usage(70, 7))));
    let after = before.amended(price(2));
    let seen = tokens(&before, "known");
    assert_ne!(seen, 0);
    assert_eq!([tokens(&after, "known"), tokens(&after, "dear")], [seen, seen]);
    assert_eq!(after.tariff(&"dear".into(), None).price().map(|price| price.per_call), Some(2));
    // A call that goes by the old price is seen by those who go by the new one.
    (0..10_000).for_each(|_| dear.observe(usage(7_000, 7)));
    assert_eq!(tokens(&after, "dear"), tokens(&before, "dear"));
    assert_ne!(tokens(&after, "dear"), seen);
    let distrusted = PriceSettings { untrusted: ["dear".into()].into(), ..price(2) };
    assert_eq!(tokens(&after.amended(distrusted), "dear"), 0);
}

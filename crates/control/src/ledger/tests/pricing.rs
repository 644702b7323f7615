//! What a call is taken to cost, and what it is charged.

use chancery_protocol::{CostSource, Usage};

use super::super::*;
use super::*;

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
    let estimate = tariff.estimate(None, true).unwrap();
    assert_eq!((estimate.hold.micro_usd, estimate.expected.source), (120, CostSource::Declared));
    let charge = |cost| tariff.charge(&estimate, Some((usage(1_000, cost), CostSource::Reported)));
    assert_eq!((charge(500).amount.micro_usd, charge(500).source), (500, CostSource::Reported));
    assert_eq!((charge(1).amount.micro_usd, charge(1).source), (110, CostSource::Declared));
    assert_eq!(tariff.charge(&estimate, None), estimate.expected);
}

#[test]
fn what_was_seen_comes_before_the_default() {
    let tariff = unknown(UnknownCost::Deny);
    assert_eq!(tariff.estimate(None, true).unwrap_err().reason, COST_UNKNOWN);
    for cost in [80, 90, 100, 100, 100, 100, 100, 100, 100] {
        tariff.observe(usage(50, cost));
    }
    let estimate = tariff.estimate(None, true).unwrap();
    assert!((100..=125).contains(&estimate.hold.micro_usd), "{estimate:?}");
    assert!((50..=63).contains(&estimate.hold.tokens), "{estimate:?}");
    assert_eq!((estimate.expected.source, estimate.expected.flagged), (CostSource::Estimated, false));
}

#[test]
fn a_cost_that_nobody_knows_is_flagged_and_is_free_only_where_no_money_is_limited() {
    let estimate = |policy, limited| unknown(policy).estimate(None, limited).unwrap();
    assert_eq!(estimate(UnknownCost::AllowAndFlag, false).hold.micro_usd, 0);
    assert_eq!(estimate(UnknownCost::AllowAndFlag, true).hold.micro_usd, 10_000);
    assert_eq!(estimate(UnknownCost::Default, false).hold.micro_usd, 10_000);
    assert!(estimate(UnknownCost::AllowAndFlag, false).expected.flagged);
    // Tokens without a price say nothing of money.
    let tariff = unknown(UnknownCost::Default);
    let before = tariff.estimate(None, true).unwrap();
    let charge = tariff.charge(&before, Some((usage(70, 0), CostSource::Metered)));
    assert_eq!(charge.amount, Amount { micro_usd: 10_000, tokens: 70, tasks: 1 });
    assert_eq!((charge.source, charge.flagged), (CostSource::Estimated, true));
}

#[test]
fn the_callers_own_maximum_is_held_and_is_not_what_is_charged() {
    let tariff = declared(100, 0);
    let estimate = tariff.estimate(Some(5_000), true).unwrap();
    assert_eq!((estimate.hold.micro_usd, estimate.expected.amount.micro_usd), (5_000, 100));
    // Too little for the price: what is held is the price, and the call's own account refuses it.
    assert_eq!(tariff.estimate(Some(50), true).unwrap().hold.micro_usd, 100);
    assert_eq!(unknown(UnknownCost::Deny).estimate(Some(50), true).unwrap().hold.micro_usd, 50);
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
    let prices = Prices::new(PriceSettings { untrusted, ..PriceSettings::default() });
    let tariff = prices.tariff(&"far".into(), None);
    let estimate = tariff.estimate(None, true).unwrap();
    let silent = tariff.charge(&estimate, None).amount;
    let charged = |said| tariff.charge(&estimate, Some((said, CostSource::Reported)));
    assert_eq!(charged(usage(1, 1)).amount, silent);
    assert_eq!(charged(usage(1, 1)).source, CostSource::Estimated);
    let dear = charged(usage(silent.tokens + 1, silent.micro_usd + 1));
    assert_eq!((dear.amount.micro_usd, dear.amount.tokens), (silent.micro_usd + 1, silent.tokens + 1));
    assert_eq!(dear.source, CostSource::Reported);
    // Nor does it get cheaper by and by.
    tariff.observe(usage(1, 1));
    assert_eq!(tariff.estimate(None, true).unwrap(), estimate);
}

#[test]
fn what_was_learnt_stays_known_whatever_is_declared_and_is_learnt_on() {
    let price = |per_call| PriceSettings {
        agents: [("dear".into(), Price { per_call, per_1k_tokens: 0 })].into(),
        ..PriceSettings::default()
    };
    let before = Prices::new(price(1));
    let tokens = |prices: &Prices, agent: &str| {
        prices.tariff(&agent.into(), None).estimate(None, false).unwrap().expected.amount.tokens
    };
    let (known, dear) = (before.tariff(&"known".into(), None), before.tariff(&"dear".into(), None));
    (0..100).for_each(|_| [&known, &dear].into_iter().for_each(|tariff| tariff.observe(usage(70, 7))));
    let after = before.amended(price(2));
    let seen = tokens(&before, "known");
    assert_ne!(seen, PriceSettings::default().default.tokens);
    assert_eq!([tokens(&after, "known"), tokens(&after, "dear")], [seen, seen]);
    assert_eq!(after.tariff(&"dear".into(), None).price().map(|price| price.per_call), Some(2));
    // A call that goes by the old price is seen by those who go by the new one.
    (0..10_000).for_each(|_| dear.observe(usage(7_000, 7)));
    assert_eq!(tokens(&after, "dear"), tokens(&before, "dear"));
    assert_ne!(tokens(&after, "dear"), seen);
    let distrusted = PriceSettings { untrusted: ["dear".into()].into(), ..price(2) };
    assert_eq!(tokens(&after.amended(distrusted), "dear"), PriceSettings::default().default.tokens);
}

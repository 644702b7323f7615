//! What is told about a configuration, right and wrong.

use std::io::Write as _;

use super::*;

fn read(text: &str) -> Result<Loaded, Vec<Problem>> {
    read_with(text, &[])
}

fn read_with(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Vec<Problem>> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("it is written");
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Loaded::read(Some(file.path()), environment, Vec::new())
}

/// The problems without the name of the file.
fn complaints(text: &str) -> Vec<String> {
    let problems = read(text).expect_err("it is wrong");
    problems
        .iter()
        .map(|problem| {
            let text = problem.to_string();
            text.split_once(".toml:").map_or(text.clone(), |(_, rest)| rest.to_owned())
        })
        .collect()
}

const EXAMPLE: &str = r#"
[routing]
default_selector = "cheapest_under_latency"
latency_budget_ms = 2000
fallback = "lowest_latency"
[budget.global]
max_usd_per_minute = 10.0
overflow = "shed"
[policy.default]
max_cost_usd = 0.05
max_duration_ms = 30000
allowed_skills = ["rag.query", "embed.vectorize"]
[recursion]
max_call_depth = 8
deny_revisit = true
"#;

#[test]
fn what_the_documentation_shows_is_read_as_written() {
    let config = read(EXAMPLE).expect("it is right").config;
    assert_eq!(config.routing.default_selector, "cheapest_under_latency");
    assert_eq!(config.routing.latency_budget_ms, 2000);
    assert_eq!(config.routing.fallback.as_deref(), Some("lowest_latency"));
    assert_eq!(config.budget.global.max_usd_per_minute, Some(Usd(10_000_000)));
    assert_eq!(config.budget.global.overflow, Overflow::Shed);
    let policy = &config.policy["default"];
    assert_eq!((policy.max_cost_usd, policy.max_duration_ms), (Some(Usd(50_000)), Some(30_000)));
    assert_eq!(
        policy.allowed_skills.as_deref(),
        Some(&["rag.query".to_owned(), "embed.vectorize".to_owned()][..])
    );
    assert_eq!((config.recursion.max_call_depth, config.recursion.deny_revisit), (8, true));
}

#[test]
fn calls_may_wait_where_the_configuration_says_so() {
    let config =
        read("[budget.caller]\noverflow = { queue = { max_depth = 10, max_wait = 500 } }\n").unwrap().config;
    let queue = QueueSection { max_depth: 10, max_wait_ms: 500 };
    assert_eq!(config.budget.caller.overflow, Overflow::Queue(queue));
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let told = complaints(
        "[recursion]\nmax_cal_depth = 8\nmax_call_depth = \"deep\"\n[budget.global]\noverflow = \"shedd\"\nmax_usd_per_minute = -1\n[[agent]]\nname = \"x\"\nkind = \"robot\"\n",
    );
    assert_eq!(
        told,
        [
            "2:1: `recursion.max_cal_depth`: there is no such key; did you mean `max_call_depth`?",
            "3:18: `recursion.max_call_depth`: expected a whole number, found the text `deep`",
            "5:12: `budget.global.overflow`: expected \"shed\" or a table, found the text `shedd`; did you mean `shed`?",
            "6:22: `budget.global.max_usd_per_minute`: must be at least 0, found -1",
            "9:8: `agent.0.kind`: expected \"builtin\" or \"a2a\" or \"command\" or \"model\" or \"inbox\", found the text `robot`",
        ]
    );
}

#[test]
fn names_that_nobody_knows_are_told_with_the_nearest() {
    let told = complaints(
        "[routing]\ndefault_selector = \"cheapest\"\nfallback = \"lowest_latancy\"\n[policy.x]\noperations = [\"SendMesage\"]\nagents = [\"echo\"]\n[identity]\nallow = [\"team-a\"]\n",
    );
    assert_eq!(told.len(), 5, "{told:?}");
    assert!(
        told[0]
            .contains("there is no selector `cheapest`; there are capability_match, cheapest_under_latency"),
        "{}",
        told[0]
    );
    assert!(told[1].contains("did you mean `lowest_latency`?"), "{}", told[1]);
    assert!(told.iter().any(|text| text.contains("write `caller:NAME`")), "{told:?}");
    assert!(told.iter().any(|text| text.contains("did you mean `SendMessage`?")), "{told:?}");
}

#[test]
fn the_environment_stands_over_the_file_and_is_named() {
    let variable = [("CHANCERY__RECURSION__MAX_CALL_DEPTH", "3"), ("HOME", "/"), ("CHANCERY_OTHER", "x")];
    let loaded = read_with(EXAMPLE, &variable).expect("it is right");
    assert_eq!(loaded.config.recursion.max_call_depth, 3);
    let all = effective(&loaded);
    let of = |path: &str| all.iter().find(|value| value.path == path).expect("it is listed").origin.clone();
    assert_eq!(of("recursion.max_call_depth"), "environment CHANCERY__RECURSION__MAX_CALL_DEPTH");
    assert!(of("recursion.deny_revisit").contains(":15:"), "{}", of("recursion.deny_revisit"));
    assert_eq!(of("recursion.mode"), "default");
    let wrong = read_with("", &[("CHANCERY__RECURSION__DEPTH", "3")]).expect_err("it is wrong");
    assert!(wrong[0].to_string().starts_with("environment CHANCERY__RECURSION__DEPTH"), "{}", wrong[0]);
}

#[test]
fn flags_stand_over_everything() {
    let flags = vec![("--listen", &["server", "listen"][..], Value::from("127.0.0.1:9"))];
    let loaded = Loaded::read(None, std::iter::empty(), flags).expect("it is right");
    assert!(loaded.config.server.listen.to_string().ends_with(":9"));
    assert_eq!(loaded.origin(&["server", "listen"]).to_string(), "flag --listen");
}

#[test]
fn a_key_that_there_once_was_is_refused_with_what_took_its_place() {
    let told = complaints("[recursion]\nrequire_lineage = true\n");
    assert!(told[0].contains("`recursion.require_lineage`: there is no such key"), "{told:?}");
    assert!(told[0].contains("`budget.unattributed`"), "{told:?}");
}

#[test]
fn gateways_are_listed_once_and_by_their_ids() {
    let id = "f5977c8283546a63723bc31d2619124f11db4658643336741df81757d5ad3062";
    let gateway = |name: &str, id: &str| format!("[[identity.gateway]]\nname = \"{name}\"\nid = \"{id}\"\n");
    assert!(read_with(&gateway("berlin", id), &[]).is_ok());
    let told =
        complaints(&(gateway("berlin", id) + &gateway("other", id) + &gateway("url", "https://x.example")));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("`identity.gateway.1.id`: the gateway is listed twice"), "{told:?}");
    assert!(told[1].contains("is no agent id") && told[1].contains("chancery key signing"), "{told:?}");
    let many: String = (0..17).map(|place| gateway("many", &format!("{place:0>64}"))).collect();
    assert!(complaints(&many)[0].contains("must have at most 16 entries"));
}

#[test]
fn only_this_machine_looks_after_it() {
    let told = complaints("[admin]\nlisten = \"0.0.0.0:9090\"\n");
    assert!(told[0].contains("others than this machine could reach it"), "{told:?}");
    assert!(read_with("[admin]\nenabled = false\nlisten = \"0.0.0.0:9090\"\n", &[]).is_ok());
}

#[test]
fn agents_are_checked_by_their_kind() {
    let told = complaints(
        "[[agent]]\nname = \"Echo\"\nkind = \"builtin\"\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://x\"\n",
    );
    assert!(told.iter().any(|text| text.contains("is no name for an agent")), "{told:?}");
    assert!(told.iter().any(|text| text.contains("did you mean `echo`?")), "{told:?}");
    assert!(told.iter().any(|text| text.contains("needs `url`, or `members`")), "{told:?}");
    assert!(told.iter().any(|text| text.contains("there are two agents `far`")), "{told:?}");
}

#[test]
fn a_credential_has_one_secret_and_what_its_scheme_needs() {
    let told = |credential: &str| {
        complaints(&format!(
            "[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://a.example\"\ncredential = {{ {credential} }}\n"
        ))
    };
    for (credential, what) in [
        ("scheme = \"bearer\"", "there is no secret: add `secret_env` or `secret_file`"),
        ("scheme = \"bearer\", secret_env = \"A\", secret_file = \"b\"", "there is one secret"),
        ("scheme = \"basic\", secret_env = \"A\"", "add `user`"),
        ("scheme = \"bearer\", user = \"me\", secret_env = \"A\"", "only with the scheme `basic`"),
        ("scheme = \"header\", secret_env = \"A\"", "add `header`, such as \"X-API-Key\""),
        ("scheme = \"header\", header = \"a b\", secret_env = \"A\"", "`a b` is no name of a header"),
        ("scheme = \"bearer\", header = \"X-Key\", secret_env = \"A\"", "only with the scheme `header`"),
    ] {
        let told = told(credential);
        assert!(told.len() == 1 && told[0].contains(what), "{credential}: {told:?}");
    }
}

#[test]
fn ranges_that_notifications_may_go_to_are_ranges_and_a_variable_can_list_them() {
    assert_eq!(
        complaints("[push]\nallow_egress = [\"10.0.0.0/8\", \"the office\"]\n"),
        ["2:31: `push.allow_egress.1`: `the office` is no range of addresses; write it as 10.0.0.0/8"]
    );
    let listed = [("CHANCERY__PUSH__ALLOW_EGRESS", r#"["127.0.0.0/8"]"#)];
    assert_eq!(read_with("", &listed).expect("it is right").config.push.allow_egress, ["127.0.0.0/8"]);
}

#[test]
fn what_governs_the_demo_is_right() {
    let config = Loaded::read_own(crate::demo::CONFIG, Vec::new()).expect("it is right").config;
    let names: Vec<_> = config.agent.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, crate::demo::NAMES);
}

const TWO_AGENTS: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = { per_call = 0 }\n[[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://x\"\n";

#[test]
fn where_dollars_are_limited_an_agent_without_a_price_is_told_with_both_ways_out() {
    let limits = [
        ("[budget.root]\nmax_usd = 1", "budget.root.max_usd"),
        ("[budget.task]\nmax_usd = 1", "budget.task.max_usd"),
        ("[budget.global]\nmax_usd_per_day = 1", "budget.global.max_usd_per_day"),
        ("[budget.callers.ann]\nmax_usd_per_hour = 1", "budget.callers.ann.max_usd_per_hour"),
        ("[budget.realms.r]\nmax_usd_per_minute = 1", "budget.realms.r.max_usd_per_minute"),
        ("[budget.agents.far]\nmax_usd_per_month = 1", "budget.agents.far.max_usd_per_month"),
    ];
    for (limit, path) in limits {
        let told = complaints(&format!("{TWO_AGENTS}{limit}\n"));
        assert_eq!(told.len(), 1, "{limit}: {told:?}");
        assert!(told[0].starts_with("5:1: `agent.1.price`: `far` has no price"), "{told:?}");
        for words in [&format!("`{path}`"), "per_call = AMOUNT", "0 is a price", "hold:AMOUNT"] {
            assert!(told[0].contains(words), "{words}: {told:?}");
        }
        for way_out in ["deny", "hold:0.05"] {
            let budget = format!("budget.unknown_cost = \"{way_out}\"\n{TWO_AGENTS}{limit}\n");
            assert!(read(&budget).is_ok(), "{way_out}: {:?}", complaints(&budget));
        }
    }
    for limit in ["[budget.global]\nmax_tasks_per_day = 1", "[budget.agents.echo]\nmax_usd_per_day = 1"] {
        assert!(read(&format!("{TWO_AGENTS}{limit}\n")).is_ok(), "{limit} does not limit its dollars");
    }
}

#[test]
fn what_is_counted_as_it_is_used_has_a_price() {
    let of = |kind: &str| format!("[budget.root]\nmax_usd = 1\n[[agent]]\nname = \"x\"\n{kind}\n");
    let model = "kind = \"model\"\n[agent.model]\nurl = \"http://x\"\nmodel = \"m\"\n";
    let command = "kind = \"command\"\n[agent.command]\nrun = [\"true\"]\n";
    for (kind, price) in [(model, "price_per_1k_input_tokens"), (command, "price_per_second")] {
        assert_eq!(complaints(&of(kind)).len(), 1);
        assert!(read(&of(&format!("{kind}{price} = 0.1"))).is_ok());
    }
}

#[test]
fn words_of_before_for_an_unknown_cost_are_told_in_their_place() {
    for (before, says) in [("\"allow-and-flag\"", "`price`"), ("{ usd = 0.05 }", "\"hold:AMOUNT\"` now")] {
        let told = complaints(&format!("[budget]\nunknown_cost = {before}\n"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("2:16: `budget.unknown_cost`: expected \"deny\" or"), "{told:?}");
        assert!(told[0].contains(says), "{told:?}");
    }
}

#[test]
fn overruns_are_limited_in_dollars_and_tokens_and_nothing_else() {
    let config = read("[budget.overrun]\nmax_usd_per_day = 1.5\nmax_tokens_per_hour = 9\n").unwrap().config;
    assert_eq!(config.budget.overrun.max_usd_per_day, Some(Usd(1_500_000)));
    let told = complaints("[budget.overrun]\nmax_tasks_per_day = 1\n");
    assert!(told[0].contains("there is no such key"), "{told:?}");
}

#[test]
fn what_must_be_there_is_missed_where_it_should_stand() {
    let told = complaints("[[agent]]\nname = \"echo\"\n[server.cors]\nmax_age_s = 1\n");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("1:") && told[0].contains("`agent.0.kind`: must be there"), "{told:?}");
    assert!(told[1].contains("`server.cors.origins`: must be there"), "{told:?}");
}

#[test]
fn something_of_the_protocol_is_left_for_every_agent() {
    let server = "[server]\nwithout_versions = [\"0.3\", \"0.1\"]\nwithout_bindings = [\"GRPC\"]\n";
    let agent = |more: &str| format!("{server}[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n{more}\n");
    let config = read(&agent("without_bindings = [\"JSONRPC\"]")).expect("it is right").config;
    assert_eq!(config.agent[0].without_bindings, [SpokenBinding::JsonRpc]);
    assert_eq!(
        complaints(&agent("without_versions = [\"1.0\"]")),
        ["7:20: `agent.0.without_versions`: no version of the protocol is left"]
    );
    assert_eq!(
        complaints(&agent("without_bindings = [\"JSONRPC\", \"HTTP+JSON\"]")),
        ["7:20: `agent.0.without_bindings`: no binding of the protocol is left"]
    );
    assert!(complaints(&agent("without_versions = [\"2.0\"]"))[0].contains("without_versions"));
}

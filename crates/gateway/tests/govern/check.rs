//! `chancery check` tells everything that is wrong with a configuration at once, each with the line where it stands.

use tempfile::TempDir;

use super::gateway::{chancery, folder};

/// What is told of a configuration, a line each; nothing if it is right.
fn check(folder: &TempDir) -> Vec<String> {
    let ran = chancery(folder.path()).arg("check").output().expect("it runs");
    let told = String::from_utf8(ran.stderr).expect("it prints text");
    assert_eq!(ran.status.code(), Some(if told.is_empty() { 0 } else { 64 }), "{told}");
    told.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

/// That something is told of the line that has this mark, in these words, and that nothing else is told.
fn expect(config: &str, expected: &[(&str, &str)], prepare: &[&[&str]]) {
    let folder = folder(config);
    for arguments in prepare {
        let ran = chancery(folder.path()).args(*arguments).output().expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let told = check(&folder);
    for (mark, words) in expected {
        let line = config.lines().position(|line| line.contains(mark)).expect("the mark is there") + 1;
        let place = format!("chancery.toml:{line}:");
        let is_told = told.iter().any(|told| told.starts_with(&place) && told.contains(words));
        assert!(is_told, "line {line}, `{mark}`: {words}\n{told:#?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
}

#[test]
fn what_is_no_amount_and_all_else_is_told_at_once() {
    let config = "[budget.global]\nmax_usd_per_minute = nan\nmax_usd_per_hour = inf\nmax_usd_per_day = \"lots\"\n\
         max_usd_per_month = 0.0000001\n[budget.caller]\nmax_usd_per_hour = -1.5\nmax_usd_per_day = \"1e9999\"\n\
         max_usd_per_month = 99999999999999999999.0\n[budget]\nunknown_cost = \"hold:0.0000001\"\n\
         [policy.a]\nmax_cost_usd = \"infinity\"\nagents = [\"ghost\"]\n[recursion]\nmax_cal_depth = 3\n\
         revisit_allowlist = [\n  \"spectre\",\n]\n[budget.agents.wraith]\nmax_tasks_per_day = 1\n\
         [routing]\ndefault_selector = \"fastest\"\n\
         [[agent]]\nname = \"echo\"\nkind = \"builtin\"\nprice = { per_call = 0.00000001 }\n";
    let no_amount = "is no amount of US dollars";
    let too_small = "less than a millionth";
    expect(
        config,
        &[
            ("nan", no_amount),
            ("= inf", no_amount),
            ("lots", no_amount),
            ("month = 0.0000001", too_small),
            ("-1.5", "must be at least 0"),
            ("1e9999", no_amount),
            ("99999999999999999999", no_amount),
            ("hold:", "expected \"deny\" or"),
            ("infinity", no_amount),
            ("ghost", "there is no agent `ghost`"),
            ("max_cal_depth", "did you mean `max_call_depth`?"),
            ("spectre", "there is no agent `spectre`"),
            ("wraith", "there is no agent `wraith`"),
            ("fastest", "there is no selector `fastest`"),
            ("per_call", too_small),
        ],
        &[],
    );
}

#[test]
fn who_is_there_twice_or_nowhere_is_told() {
    let config = "[store]\nurl = \"mysql:x\"\n\
         [[agent]]\nname = \"pool\"\nkind = \"a2a\"\nmembers = [\n\
         { name = \"a\", url = \"http://127.0.0.1:1\" },\n\
         { name = \"a\", url = \"http://127.0.0.1:2\" },\n\
         { name = \"b\", url = \"ftp://host.example\" },\n]\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"ws://host.example\"\n\
         [[agent]]\nname = \"model\"\nkind = \"model\"\nmodel = { url = \"gopher://x\", model = \"m\" }\n";
    expect(
        config,
        &[
            ("mysql", "is no store that there is"),
            ("127.0.0.1:2", "there are two members `a`"),
            ("ftp:", "is no agent's URL"),
            ("ws:", "is no agent's URL"),
            ("gopher", "is no http or https URL"),
        ],
        &[],
    );
}

#[test]
fn what_opens_more_than_is_meant_is_told() {
    let config = "[server]\nlisten = \"127.0.0.1:9090\"\npublic_url = \"https://bob:hunter2@agents.example\"\n\
         hosts = [\"*\"]\nanonymous = true\ntrusted_proxies = [\"0.0.0.0/0\", \"::/0\"]\n\
         cors = { origins = [\"*\"] }\n\
         [admin]\nlisten = \"127.0.0.1:9090\" # the same\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://bob:hunter2@far.example\"\n\
         [[agent]]\nname = \"model\"\nkind = \"model\"\n\
         model = { url = \"http://bob:hunter2@model.example/v1\", model = \"m\" }\n\
         [[agent]]\nname = \"pool\"\nkind = \"a2a\"\n\
         members = [{ name = \"one\", url = \"http://hunter2@one.example\" }]\n\
         [[discover]]\nurl = \"https://bob:hunter2@fleet.example\"\nprefix = \"other\"\n";
    expect(
        config,
        &[
            ("@agents.example", "a user or a password stands in it"),
            ("hosts", "`*` is no name of a host"),
            ("trusted_proxies", "`0.0.0.0/0` is everybody"),
            ("trusted_proxies", "`::/0` is everybody"),
            ("cors", "lets every web page call"),
            ("# the same", "`server.listen` is 127.0.0.1:9090, too"),
            ("@far.example", "`[agent.credential]`"),
            ("@model.example", "`key_env` or `key_file`"),
            ("@one.example", "`[agent.credential]`"),
            ("@fleet.example", "a user or a password stands in it"),
        ],
        &[],
    );
    let folder = folder(config);
    for arguments in [&["check"][..], &["serve"], &["effective-config"]] {
        let ran = chancery(folder.path()).args(arguments).output().expect("it runs");
        let told = [ran.stdout, ran.stderr].concat();
        let told = String::from_utf8(told).expect("it prints text");
        assert!(!ran.status.success() && !told.contains("hunter2"), "{arguments:?}: {told}");
    }
}

#[test]
fn secrets_that_others_can_read_are_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = "[server]\ntls = { cert = \"cert.pem\", key = \"tls.key\" }\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:1\"\n\
         credential = { scheme = \"bearer\", secret_file = \"far.token\" }\n\
         [[agent]]\nname = \"model\"\nkind = \"model\"\n\
         model = { url = \"http://127.0.0.1:1\", model = \"m\", key_file = \"model.token\" }\n\
         [[markdown]]\nfolder = \".\"\n[markdown.models.large]\nurl = \"http://127.0.0.1:1\"\nmodel = \"m\"\n\
         key_file = \"large.token\"\n";
    let folder = folder(config);
    let secrets = ["tls.key", "far.token", "model.token", "large.token"];
    let modes = |mode: u32| {
        for name in secrets {
            let path = folder.path().join(name);
            std::fs::write(&path, "secret").expect("it is written");
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("it is its owner's");
        }
    };
    for mode in [0o640, 0o604] {
        modes(mode);
        let told = check(&folder);
        for name in secrets {
            let words = format!("others than its owner can read {name} (mode {mode:o})");
            assert!(told.iter().any(|told| told.contains(&words)), "{words}: {told:#?}");
        }
        assert_eq!(told.len(), secrets.len(), "{told:#?}");
    }
    modes(0o600);
    assert_eq!(check(&folder), Vec::<String>::new());
}

#[test]
fn what_is_not_on_this_machine_is_told() {
    let config = "[[agent]]\nname = \"program\"\nkind = \"command\"\n\
         command = { run = [\"/no/such/program\"] }\n\
         [[agent]]\nname = \"other\"\nkind = \"command\"\ncommand = { run = [\"no-such-program\"] }\n\
         [[agent]]\nname = \"model\"\nkind = \"model\"\n\
         model = { url = \"http://127.0.0.1:1\", model = \"m\", key_env = \"NO_SUCH_KEY\" }\n\
         [[agent]]\nname = \"far\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:1\"\n\
         credential = { scheme = \"bearer\", secret_file = \"/no/such/secret\" }\n";
    expect(
        config,
        &[
            ("/no/such/program", "there is no program /no/such/program"),
            ("no-such-program", "there is no program `no-such-program`"),
            ("NO_SUCH_KEY", "the variable `NO_SUCH_KEY` is not set"),
            ("/no/such/secret", "there is no file /no/such/secret"),
        ],
        &[],
    );
}

#[test]
fn callers_and_groups_that_nobody_is_are_told_once_there_are_keys() {
    let config = format!(
        "[identity]\nallow = [\n\"caller:alcie\",\n\"group:interns\",\n\"group:ghosts\",\n]\n\
         [policy.a]\ncallers = [\"bob\"]\n[policy.b]\ngroups = [\"nobodies\"]\n\
         [budget.callers.carol]\nmax_tasks_per_day = 1\n{}",
        super::ECHO
    );
    expect(&config, &[], &[]);
    let made: &[&str] = &["key", "create", "--caller", "alice", "--group", "interns"];
    expect(
        &config,
        &[
            ("alcie", "there is no caller with a key `alcie`; did you mean `alice`?"),
            ("ghosts", "there is no group of a caller with a key `ghosts`"),
            ("bob", "there is no caller with a key `bob`"),
            ("nobodies", "there is no group of a caller with a key `nobodies`"),
            ("carol", "there is no caller with a key `carol`"),
        ],
        &[made],
    );
}

//! Every fact of a card against what a probe finds that runs as the program.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::setting::{Gateway, Setting};
use crate::{MEMORY_MIB, agent, isolation, tried};

#[tokio::test]
async fn every_fact_of_a_card_is_what_a_probe_finds() {
    for setting in Setting::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let writable = format!("write = [{:?}]", folder.path());
        let config = agent("shut", &writable) + &agent("open", "network = \"host\"\nenv = [\"PATH\"]");
        let gateway = Gateway::start(setting, &config);
        let signal = format!("signal_to {}", gateway.pid());
        let log = format!("open_read {}/log", gateway.folder.path().display());
        for name in ["shut", "open"] {
            let compared = Compared::find(setting, &gateway, name, [&signal, &log]).await;
            compared.sandbox();
            compared.limits();
            compared.passed([&signal, &log]);
        }
    }
}

/// Where the canaries are laid is listed, so two checks fail.
#[tokio::test]
async fn what_fails_is_named_and_runs_only_if_the_operator_says_so() {
    for setting in Setting::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        let place = folder.path().to_str().expect("text");
        let config = |more: &str| agent("shut", more).replace("read = [", &format!("read = [{place:?}, "));
        let variables = [("TMPDIR", place)];
        let failing: &[&str] =
            if setting.has_namespaces() { &["no-host-files", "no-host-sockets"] } else { &["no-host-files"] };
        let told = Gateway::refusal(setting, &config(""), &variables);
        assert!(told.contains(&format!("it fails {}", failing.join(", "))), "{setting:?}: {told}");
        let allow = format!("preflight_allow = {failing:?}");
        for (more, level) in [(allow.as_str(), "custom"), ("isolation = \"relaxed\"", "relaxed")] {
            let gateway = Gateway::start_with(setting, &config(more), &variables);
            let client = gateway.client("shut").await;
            let card = isolation(&client).await;
            assert_eq!(
                (&card["level"], &card["preflight_allowed"]),
                (&json!(level), &json!(failing)),
                "{setting:?}"
            );
            assert_eq!(card["containall"], false, "{setting:?}");
            let passed = card["preflight_passed"].as_array().expect("a list");
            assert!(
                passed.contains(&json!("processes-end")) && !passed.contains(&json!("no-host-files")),
                "{card}"
            );
        }
    }
    let told = Gateway::refusal(Setting::User, &agent("shut", "preflight_allow = [\"everything\"]"), &[]);
    assert!(told.contains("`everything` is no check; there are uid-nonzero"), "{told}");
}

/// A card, and what probes find.
struct Compared {
    setting: Setting,
    name: &'static str,
    card: Value,
    found: BTreeMap<String, String>,
}

/// What is tried besides what depends on the gateway.
const LINES: [&str; 25] = [
    "user",
    "groups",
    "environment",
    "open_files",
    "directory_kind",
    "directory_is",
    "count_binds",
    "count_binds writable",
    "processes_seen",
    "list_folder /root",
    "open_write /usr/x",
    "keyctl_read",
    "io_uring",
    "socket_of 2 2",
    "socket_of 40 1",
    "seccomp_mode",
    "new_privileges",
    "limit_of as",
    "host_name",
    "signal_helper",
    "limit_helper",
    "unshare_kind 10000000",
    "prefer_life",
    "list_folder /usr/..",
    "first_line /proc/self/oom_score_adj",
];

impl Compared {
    async fn find(setting: Setting, gateway: &Gateway, name: &'static str, lines: [&str; 2]) -> Self {
        let client = gateway.client(name).await;
        let card = isolation(&client).await;
        let found = tried(&client, LINES.into_iter().chain(lines)).await;
        Self { setting, name, card, found }
    }

    fn is(&self, line: &str, result: &str) -> bool {
        self.found[line] == result
    }

    fn fact(&self, fact: &str, expected: impl Into<Value>) {
        let stated = fact.split('/').fold(&self.card, |card, key| &card[key]);
        let (setting, name, found) = (self.setting, self.name, &self.found);
        assert_eq!(*stated, expected.into(), "{fact} of {name} as {setting:?}: {} {found:?}", self.card);
    }

    /// Whether there is nothing in its environment but what the gateway gives and what the operator passes on.
    fn is_clean(&self) -> bool {
        let own = [
            "CHANCERY_URL",
            "CHANCERY_TOKEN",
            "CHANCERY_LINEAGE",
            if self.name == "open" { "PATH" } else { "" },
        ];
        self.found["environment"].split_whitespace().all(|name| own.contains(&name))
    }

    fn sandbox(&self) {
        let own = self.is("processes_seen", "own");
        self.fact("level", "hardened");
        self.fact("containall", own && !self.is("list_folder /root", "got"));
        self.fact("cleanenv", self.is_clean());
        self.fact("writable_tmpfs", self.is("directory_kind", "tmpfs"));
        self.fact("network", if self.is("socket_of 2 2", "got") { "host" } else { "none" });
        self.fact("preflight_allowed", json!([]));
        self.fact("binds_writable_count", u8::from(self.name == "shut"));
        if self.setting.has_namespaces() {
            assert_eq!(self.found["host_name"], "sandbox");
            assert_eq!(self.found["first_line /proc/self/oom_score_adj"], "800");
            assert_eq!(self.card["binds_count"].to_string(), self.found["count_binds"], "{}", self.card);
            let writable = self.card["binds_writable_count"].to_string();
            assert_eq!(writable, self.found["count_binds writable"], "{}", self.card);
        } else {
            assert_eq!(self.found["signal_helper"], "EPERM");
            assert_eq!(self.found["limit_helper"], "EPERM");
        }
        for (line, result) in [("groups", "none"), ("open_files", "0"), ("new_privileges", "1")] {
            assert_eq!(self.found[line], result, "{line} as {:?}", self.setting);
        }
    }

    fn limits(&self) {
        let mechanism = self.card["mechanism"].as_array().expect("a list");
        let by = |what: &str| mechanism.contains(&Value::from(what));
        assert_eq!(by("namespaces"), self.is("processes_seen", "own"), "{}", self.card);
        assert_eq!(
            by("seccomp"),
            self.is("seccomp_mode", "2") && self.is("socket_of 40 1", "EPERM"),
            "{}",
            self.card
        );
        let landlock = match self.setting {
            // A file of its own on a file system that it could write to.
            Setting::Root | Setting::User => self.is("prefer_life", "EACCES"),
            Setting::UserWithoutUsers => self.is("list_folder /usr/..", "EACCES"),
            // Mounts that are read-only say the same.
            Setting::RootWithoutUsers => by("landlock"),
        };
        assert_eq!(by("landlock"), landlock, "{}", self.card);
        let whole = by("cgroup");
        self.fact("limits/memory", if whole { "cgroup" } else { "per-process" });
        self.fact("limits/cpu", if whole { "cgroup" } else { "per-process" });
        let most = if whole { "-1".to_owned() } else { (MEMORY_MIB << 20).to_string() };
        assert_eq!(self.found["limit_of as"], most, "{}", self.card);
        let processes = match self.setting {
            _ if whole => "cgroup",
            Setting::Root | Setting::User => "namespace",
            Setting::RootWithoutUsers | Setting::UserWithoutUsers => "per-user",
        };
        self.fact("limits/processes", processes);
        self.fact("limits/disk", if self.is("directory_kind", "tmpfs") { "tmpfs" } else { "watched" });
    }

    /// Each check that a card says was passed, against a probe of ours.
    fn passed(&self, [gateway, log]: [&str; 2]) {
        let refused = |line: &str| !self.is(line, "got");
        let holds = [
            ("uid-nonzero", !self.is("user", "0")),
            ("no-host-home", refused("list_folder /root")),
            ("no-host-files", refused(log)),
            ("no-host-writes", refused("open_write /usr/x")),
            ("no-host-processes", refused(gateway)),
            ("no-keyring", self.is("keyctl_read", "EPERM")),
            ("no-network", refused("socket_of 2 2")),
            ("filtered-calls", self.is("io_uring", "EPERM") && self.is("unshare_kind 10000000", "EPERM")),
            ("clean-environment", self.is_clean()),
            // These two are tried at length by tests of their own.
            ("no-host-sockets", true),
            ("processes-end", true),
        ];
        let listed = self.card["preflight_passed"].as_array().expect("a list");
        for (check, holds) in holds {
            let stated = listed.contains(&Value::from(check));
            // A user without a name has no home that could be looked for.
            assert!(
                stated == holds || check == "no-host-home",
                "{check} as {:?}: {}",
                self.setting,
                self.card
            );
        }
    }
}

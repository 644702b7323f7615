//! What a program is shut in by, as it was found, and as a card states it.

use serde_json::{Value, json};

use super::plan::{Namespaces, Plan, Way};
use super::preflight::Demand;
use super::probe::Facts;

/// What the probe must find for an agent to be run: files, the network and the end of processes. Limits of resources are not
/// among them; where they are weaker the card says so.
pub(crate) const CHECKS: [&str; 11] = [
    "uid-nonzero",
    "no-host-home",
    "no-host-files",
    "no-host-writes",
    "no-host-sockets",
    "no-host-processes",
    "no-keyring",
    "no-network",
    "filtered-calls",
    "processes-end",
    "clean-environment",
];

/// What was really applied when it was tried.
#[derive(Clone, Debug)]
pub(crate) struct Isolation {
    way: Way,
    facts: Facts,
    network: bool,
    /// Whether a cgroup limits the whole program. None if it has none.
    whole: Option<bool>,
    relaxed: bool,
    /// Checks that failed and need not pass, because the operator named them.
    allowed: Vec<String>,
    /// Checks that failed.
    pub(crate) lacks: Vec<&'static str>,
}

impl Isolation {
    pub(super) fn new(plan: &Plan, way: Way, facts: Facts, whole: Option<bool>, demand: &Demand) -> Self {
        let failed = |name: &&str| facts.checks.get(*name) == Some(&false);
        let (allowed, lacks): (Vec<_>, Vec<_>) = CHECKS
            .into_iter()
            .filter(failed)
            .partition(|name| demand.allowed.iter().any(|other| other == name));
        let allowed = allowed.into_iter().map(str::to_owned).collect();
        Self { way, facts, network: plan.network, whole, relaxed: demand.relaxed, allowed, lacks }
    }

    /// Whether the operator lets it run with what it lacks.
    pub(super) fn may_run(&self) -> bool {
        self.lacks.is_empty() || self.relaxed
    }

    /// The plan of a program that is to be shut in like this.
    pub(crate) fn plan(&self, plan: &Plan) -> Plan {
        Plan { way: self.way, ..plan.clone() }
    }

    /// What holds less than it could: whose limits count for each process alone, or not at once.
    pub(crate) fn weaker(&self) -> Vec<String> {
        let limits = self.limits();
        let weak =
            [("memory", "per-process"), ("disk", "watched"), ("disk", "per-file"), ("processes", "per-user")];
        let weak = weak.into_iter().filter(|(what, how)| limits[*what] == **how);
        weak.map(|(what, how)| format!("{what} {how}")).collect()
    }

    /// The facts, as a card states them.
    pub(crate) fn card(&self) -> Value {
        let Facts { seen, checks, tmpfs, .. } = &self.facts;
        let passed = |name: &str| checks.get(name) == Some(&true);
        let owns = |kind: &str| seen.own.iter().any(|own| own == kind);
        let files = ["no-host-home", "no-host-files", "no-host-writes", "no-host-sockets"];
        let contained = ["mnt", "pid", "ipc"].into_iter().all(owns)
            && files.iter().all(|name| checks.get(*name) != Some(&false));
        let allowed: Vec<&str> =
            self.allowed.iter().map(String::as_str).chain(self.lacks.iter().copied()).collect();
        let level = match (self.lacks.is_empty(), self.allowed.is_empty()) {
            (true, true) => "hardened",
            (true, false) => "custom",
            (false, _) => "relaxed",
        };
        let network = match (self.network, passed("no-network")) {
            (false, true) => "none",
            _ => "host",
        };
        json!({
            "level": level,
            "containall": contained,
            "cleanenv": passed("clean-environment"),
            "writable_tmpfs": tmpfs,
            "preflight_passed": CHECKS.into_iter().filter(|name| passed(name)).collect::<Vec<_>>(),
            "preflight_allowed": allowed,
            "binds_count": seen.binds,
            "binds_writable_count": seen.writable_binds,
            "mechanism": self.mechanism(),
            "network": network,
            "limits": self.limits(),
        })
    }

    fn mechanism(&self) -> Vec<&'static str> {
        let parts = [
            ("namespaces", self.facts.seen.own.iter().any(|kind| kind == "pid")),
            ("landlock", self.facts.seen.landlock),
            ("seccomp", self.facts.checks.get("filtered-calls") == Some(&true)),
            ("cgroup", self.whole == Some(true)),
        ];
        parts.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name).collect()
    }

    fn limits(&self) -> Value {
        let Facts { tmpfs, limits, .. } = self.facts;
        let whole = self.whole == Some(true);
        let (each, none) = ("per-process", "none");
        let of_process = if limits { each } else { none };
        let memory = if whole { "cgroup" } else { of_process };
        let processes = match self.way.namespaces {
            _ if whole => "cgroup",
            _ if !limits => none,
            Namespaces::Own => "namespace",
            _ => "per-user",
        };
        let disk = match self.way.namespaces {
            _ if tmpfs && self.way.namespaces != Namespaces::None => "tmpfs",
            Namespaces::None => "watched",
            _ => none,
        };
        json!({"memory": memory, "processes": processes, "cpu": if whole { "cgroup" } else { of_process }, "disk": disk})
    }
}

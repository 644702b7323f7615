//! The servers that are compared.

use anyhow::Context as _;

/// One server: a package of this workspace, started with the same flags every time.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The package, which is also the name of the binary.
    pub(crate) package: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// The crate whose version the table names.
    pub(crate) of: &'static str,
    /// Whether it keeps tasks at all, so that memory per task means something.
    pub(crate) keeps: bool,
    /// Whether it takes `--compact`, which drops the events of a task that has ended.
    pub(crate) compacts: bool,
}

/// The floor that ratios refer to.
pub(crate) const LIMIT: &str = "limit";
/// The peer that ratios refer to.
pub(crate) const OFFICIAL: &str = "official";

pub(crate) const ALL: &[Contender] = &[
    Contender { name: LIMIT, package: "bench-limit", keeps: false, ..BARE },
    Contender { name: "limit+store", package: "bench-limit", flags: &["--store"], ..BARE },
    Contender { name: OFFICIAL, package: "bench-official", of: "a2a-server-lf", ..BARE },
    Contender { name: "protocol", package: "bench-protocol", of: "a2a-protocol-server", ..BARE },
    Contender { name: "chancery", package: "bench-chancery", of: "chancery-sdk", compacts: true, ..BARE },
];

const BARE: Contender =
    Contender { name: "", package: "", flags: &[], of: "hyper", keeps: true, compacts: false };

pub(crate) fn named(name: &str) -> anyhow::Result<&'static Contender> {
    ALL.iter().find(|contender| contender.name == name).with_context(|| format!("no such server: {name}"))
}

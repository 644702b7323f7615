//! The servers that are compared.

use anyhow::Context as _;

/// One server: a package of this workspace, started with the same flags every time.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The package, which is also the name of the binary.
    pub(crate) package: &'static str,
    /// `{folder}` in them stands for a folder of its own, which is gone when the server is.
    pub(crate) flags: &'static [&'static str],
    /// The crate whose version the table names.
    pub(crate) of: &'static str,
    /// Whether it keeps tasks in memory, so that memory per task means something.
    pub(crate) keeps: bool,
    /// Whether it takes `--compact`, which drops the events of a task that has ended.
    pub(crate) compacts: bool,
    /// Whether it takes SubscribeToTask.
    pub(crate) subscribes: bool,
    /// Whether its tasks outlive it and it takes `--fill`, so that it can be started with many.
    pub(crate) fills: bool,
}

/// The floor that ratios refer to.
pub(crate) const LIMIT: &str = "limit";
/// The peer that ratios refer to.
pub(crate) const OFFICIAL: &str = "official";
/// Ours.
pub(crate) const CHANCERY: &str = "chancery";

pub(crate) const ALL: &[Contender] = &[
    Contender { name: LIMIT, keeps: false, ..BARE },
    Contender { name: "limit+store", flags: &["--store"], ..BARE },
    Contender { name: OFFICIAL, package: "bench-official", of: "a2a-server-lf", ..BARE },
    Contender { name: "protocol", package: "bench-protocol", of: "a2a-protocol-server", ..BARE },
    Contender { name: CHANCERY, compacts: true, ..OURS },
    Contender { name: "chancery+sqlite", flags: &["--store", DATABASE], keeps: false, fills: true, ..OURS },
    Contender { name: "chancery+sqlite-power", flags: &["--store", DATABASE_POWER], keeps: false, ..OURS },
];

const DATABASE: &str = "sqlite:{folder}/tasks.db";
const DATABASE_POWER: &str = "sqlite:{folder}/tasks.db?durability=power";

const BARE: Contender = Contender {
    name: "",
    package: "bench-limit",
    flags: &[],
    of: "hyper",
    keeps: true,
    compacts: false,
    subscribes: false,
    fills: false,
};
const OURS: Contender = Contender { package: "bench-chancery", of: "chancery-sdk", subscribes: true, ..BARE };

pub(crate) fn named(name: &str) -> anyhow::Result<&'static Contender> {
    ALL.iter().find(|contender| contender.name == name).with_context(|| format!("no such server: {name}"))
}

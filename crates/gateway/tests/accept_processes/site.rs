//! A gateway with the conformance agent, which it runs itself or which is another process. Beside it the same with little time.

use std::io::{BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdout, Stdio};

use tempfile::TempDir;

use crate::caller::{BROKE_OFF, Caller};
use crate::gateway::{Gateway, chancery};

pub(crate) struct Site {
    gateway: Gateway,
    hasty: Gateway,
    _upstream: Option<Upstream>,
}

/// The agent, in a process of its own. Killed when dropped.
struct Upstream {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    _folder: TempDir,
}

const CONFIG: &str = "[budget.global]\nmax_usd_per_day = 100.0\n[push]\nallow_egress = [\"127.0.0.0/8\"]\n";
const PRICED: &str = "price = { per_call = 0.01 }\n";
const HASTY: &str = "[policy.default]\nmax_duration_ms = 500\n";

// === impl Site ===

impl Site {
    /// The gateway runs the agent.
    pub(crate) fn local() -> Self {
        let agent = format!("[[agent]]\nname = \"conformance\"\nkind = \"builtin\"\n{PRICED}");
        Self::with(&agent, None)
    }

    /// The agent is another process.
    pub(crate) fn remote() -> Self {
        let (upstream, url) = Upstream::start();
        let agent = format!("[[agent]]\nname = \"conformance\"\nkind = \"a2a\"\nurl = \"{url}\"\n{PRICED}");
        Self::with(&agent, Some(upstream))
    }

    fn with(agent: &str, upstream: Option<Upstream>) -> Self {
        let gateway = Gateway::start(&format!("{CONFIG}{agent}"));
        let hasty = Gateway::start(&format!("{CONFIG}{HASTY}{agent}"));
        Self { gateway, hasty, _upstream: upstream }
    }

    /// All that a caller is told in a scenario. If it breaks off, up to there.
    pub(crate) fn play(&self, scenario: fn(&mut Caller)) -> String {
        let [plain, hasty] = [&self.gateway, &self.hasty].map(|gateway| gateway.place().parse().unwrap());
        let mut caller = Caller::new(plain, hasty);
        let played = catch_unwind(AssertUnwindSafe(|| scenario(&mut caller)));
        let transcript = caller.transcript();
        match played {
            Ok(()) => transcript,
            Err(why) => {
                let text = why.downcast_ref::<String>().cloned();
                let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let text: String = text.unwrap_or_default().chars().take(300).collect();
                format!("{transcript}\n{BROKE_OFF}: {text}")
            }
        }
    }
}

// === impl Upstream ===

impl Upstream {
    fn start() -> (Self, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = chancery(folder.path());
        command.args(["demo", "--agent", "conformance", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it is");
        let url = line.trim().strip_prefix("Chancery demo at ").expect("an address").to_owned();
        (Self { child, _stdout: stdout, _folder: folder }, url)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

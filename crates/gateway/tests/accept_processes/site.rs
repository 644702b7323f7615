//! A gateway with the conformance agent, which it runs itself or which is another process. Beside it the same with little time.

use std::io::{BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

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

    /// The agent is another process, which is started with these words besides.
    pub(crate) fn remote(words: &[&str]) -> Self {
        let (upstream, url) = Upstream::start(words);
        let agent = format!("[[agent]]\nname = \"conformance\"\nkind = \"a2a\"\nurl = \"{url}\"\n{PRICED}");
        Self::with(&agent, Some(upstream))
    }

    /// The agent is the same on another SDK.
    pub(crate) fn foreign() -> Self {
        let (upstream, url) = Upstream::start_foreign();
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
    fn start(words: &[&str]) -> (Self, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = chancery(folder.path());
        command.args(["demo", "--agent", "conformance", "--listen", "127.0.0.1:0"]).args(words);
        let (upstream, line) = Self::of(command, folder);
        let url = line.trim().strip_prefix("Chancery demo at ").expect("an address").to_owned();
        (upstream, url)
    }

    /// On the SDK for Python, which `interop/setup` installs.
    fn start_foreign() -> (Self, String) {
        let interop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
        let mut command = Command::new(interop.join(".work/python-1.0/bin/python"));
        command.arg(interop.join("python/conformance_1_0.py"));
        let (upstream, line) = Self::of(command, tempfile::tempdir().expect("a folder"));
        let ready: serde_json::Value = serde_json::from_str(&line).expect("it is ready");
        (upstream, ready["url"].as_str().expect("a URL").to_owned())
    }

    fn of(mut command: Command, folder: TempDir) -> (Self, String) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it is");
        (Self { child, _stdout: stdout, _folder: folder }, line)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

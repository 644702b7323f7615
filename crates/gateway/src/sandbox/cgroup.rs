//! Limits for a whole program: a cgroup of its own for each run, where a part of the tree is the gateway's to divide.
//!
//! The gateway takes a part that it was given (`Delegate=` of systemd, a container with a tree of its own), moves itself into
//! a leaf, because only leaves may hold processes, and makes another leaf beside it for each program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::plan::Limits;

/// Where the gateway itself is.
const OWN: &str = "gateway";
/// What is to be divided.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// What the helpers use themselves.
const HELPERS_BYTES: u64 = 16 << 20;
const HELPERS: u64 = 2;
/// A hundred milliseconds, of which the processors' time is a share.
const PERIOD_MICROS: u64 = 100_000;
/// How often a leaf that is being emptied is tried to be removed, and the pause between.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The part of the tree that is the gateway's.
#[derive(Debug)]
pub(super) struct CgroupTree {
    root: PathBuf,
}

/// The cgroup of one run. Everything in it is killed, and it is removed, when it is dropped.
#[derive(Debug)]
pub(super) struct CgroupLeaf {
    path: PathBuf,
}

/// The part of this machine's tree that the gateway may divide, if there is one. Taken once.
pub(super) fn tree() -> Option<&'static CgroupTree> {
    static TREE: OnceLock<Option<CgroupTree>> = OnceLock::new();
    let take = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own_path(&mounts, &own)?;
        match CgroupTree::take(&path) {
            Ok(tree) => tree,
            Err(error) => {
                tracing::info!(
                    "programs are limited process by process: the cgroup {} cannot be divided: {error}",
                    path.display()
                );
                None
            }
        }
    };
    TREE.get_or_init(take).as_ref()
}

/// Where the cgroup of this process is, from what `/proc` says of mounts and cgroups.
fn own_path(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, place) = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let found = (fields.next()?, fields.next()?);
        after.starts_with("cgroup2 ").then_some(found)
    })?;
    let below = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(place).join(below))
}

// === impl CgroupTree ===

impl CgroupTree {
    /// Takes what is at this path, where this process is. None if the machine does not leave it what is to be divided.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let is_leaf = path.file_name().is_some_and(|name| name == OWN);
        let root = if is_leaf { path.parent().unwrap_or(path) } else { path };
        let there = fs::read_to_string(root.join("cgroup.controllers"))?;
        if !CONTROLLERS.iter().all(|wanted| there.split_whitespace().any(|found| found == *wanted)) {
            return Ok(None);
        }
        if !is_leaf {
            make(&root.join(OWN))?;
            write(&root.join(OWN), "cgroup.procs", "0")?;
        }
        if let Err(error) = write(root, "cgroup.subtree_control", "+memory +pids +cpu") {
            if !is_leaf {
                // Somebody else is in there. All is left as it was.
                let _ = write(root, "cgroup.procs", "0");
                let _ = fs::remove_dir(root.join(OWN));
            }
            return Err(error);
        }
        let tree = Self { root: root.to_owned() };
        tree.sweep();
        Ok(Some(tree))
    }

    /// Removes empty leaves that a gateway left behind which was killed.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("program-") {
                // One in which there is somebody stays.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// Makes a leaf for one run.
    pub(super) fn leaf(&self, name: &str, limits: &Limits) -> io::Result<CgroupLeaf> {
        let leaf = CgroupLeaf { path: self.root.join(format!("program-{name}")) };
        make(&leaf.path)?;
        for (file, value) in settings(limits) {
            write(&leaf.path, file, &value)?;
        }
        // Where memory is never swapped out there is no such file.
        if leaf.path.join("memory.swap.max").exists() {
            write(&leaf.path, "memory.swap.max", "0")?;
        }
        Ok(leaf)
    }
}

fn settings(limits: &Limits) -> [(&'static str, String); 4] {
    let quota = limits.cpus.saturating_mul(PERIOD_MICROS);
    // The kernel counts whole pages.
    let memory = (limits.memory_bytes.saturating_add(HELPERS_BYTES)) & !0xFFFF;
    [
        ("memory.max", memory.to_string()),
        ("memory.oom.group", "1".to_owned()),
        ("pids.max", (limits.processes + HELPERS).to_string()),
        ("cpu.max", format!("{quota} {PERIOD_MICROS}")),
    ]
}

fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn write(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

// === impl CgroupLeaf ===

impl CgroupLeaf {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the kernel says that the limits are these.
    pub(super) fn holds(&self, limits: &Limits) -> bool {
        settings(limits).iter().all(|(file, value)| {
            fs::read_to_string(self.path.join(file)).is_ok_and(|found| found.trim() == value)
        })
    }

    /// Whether its processes were ended because they had too much memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count != "0")
    }

    /// Kills everything in it.
    pub(super) fn kill(&self) {
        // Before Linux 5.14 there is no such file; what the process namespace and the watcher end is ended all the same.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }
}

impl Drop for CgroupLeaf {
    fn drop(&mut self) {
        self.kill();
        let path = std::mem::take(&mut self.path);
        // The kernel removes it when its last process is gone, which takes a moment.
        std::thread::spawn(move || {
            for _ in 0..TRIES {
                match fs::remove_dir(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(PAUSE),
                    _ => return,
                }
            }
        });
    }
}

/// Enters a leaf, and sees to it that this is where it is.
pub(super) fn enter(leaf: &Path) -> io::Result<()> {
    write(leaf, "cgroup.procs", "0")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let name = leaf.file_name().unwrap_or_default().to_string_lossy();
    let is_there = own.lines().any(|line| line.starts_with("0::") && line.ends_with(&format!("/{name}")));
    if is_there { Ok(()) } else { Err(io::Error::other(format!("{name} is not where it is"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { memory_bytes: 1 << 28, disk_bytes: 1 << 20, processes: 64, cpu_seconds: 60, cpus: 2 };

    /// A tree as the kernel shows it to who may divide it.
    fn fake(controllers: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.controllers"), controllers).expect("it is written");
        folder
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_own_part_is_found_among_mounts() {
        let hybrid = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 25 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/x\n0::/system.slice/chancery.service\n";
        let found = own_path(hybrid, own).expect("it is there");
        assert_eq!(found, Path::new("/sys/fs/cgroup/unified/system.slice/chancery.service"));
        let bound = "31 25 0:27 /system.slice /mnt rw - cgroup2 cgroup2 rw\n";
        assert_eq!(own_path(bound, own).expect("it is there"), Path::new("/mnt/chancery.service"));
        assert_eq!(own_path("1 1 0:1 / / rw - ext4 disk rw\n", own), None);
        assert_eq!(own_path(hybrid, "4:memory:/x\n"), None);
    }

    #[test]
    fn what_cannot_be_divided_is_left_alone() {
        let folder = fake("cpuset io memory pids\n");
        assert!(CgroupTree::take(folder.path()).expect("it can be read").is_none());
        assert!(!folder.path().join(OWN).exists(), "nothing was moved");
        assert!(CgroupTree::take(&folder.path().join("absent")).is_err());
    }

    #[test]
    fn a_part_that_others_are_in_is_left_as_it_was() {
        let folder = fake("cpu memory pids\n");
        // What cannot be written to, as where there are processes.
        fs::create_dir(folder.path().join("cgroup.subtree_control")).expect("a folder");
        let error = CgroupTree::take(folder.path()).expect_err("it cannot be divided");
        assert!(error.to_string().contains("cgroup.subtree_control"), "{error}");
        assert_eq!(read(&folder.path().join("cgroup.procs")), "0", "the gateway is back");
    }

    #[test]
    fn the_gateway_moves_aside_and_programs_get_leaves() {
        let folder = fake("cpuset cpu io memory pids\n");
        fs::create_dir(folder.path().join("program-left")).expect("a folder");
        let tree = CgroupTree::take(folder.path()).expect("it can be taken").expect("it can be divided");
        assert_eq!(read(&folder.path().join("gateway/cgroup.procs")), "0");
        assert_eq!(read(&folder.path().join("cgroup.subtree_control")), "+memory +pids +cpu");
        assert!(!folder.path().join("program-left").exists());
        // Whoever is in the leaf already divides what is above it.
        let again = CgroupTree::take(&folder.path().join(OWN)).expect("it can be taken");
        assert_eq!(again.expect("it can be divided").root, folder.path());
        let leaf = tree.leaf("1", &LIMITS).expect("it is made");
        let place = leaf.path().to_owned();
        assert_eq!(place, folder.path().join("program-1"));
        assert_eq!(read(&place.join("memory.max")), ((1 << 28) + HELPERS_BYTES).to_string());
        assert_eq!(read(&place.join("memory.oom.group")), "1");
        assert_eq!(read(&place.join("pids.max")), "66");
        assert_eq!(read(&place.join("cpu.max")), "200000 100000");
        assert!(leaf.holds(&LIMITS));
        fs::write(place.join("pids.max"), "max\n").expect("it is written");
        assert!(!leaf.holds(&LIMITS), "what is not in force is not said to be");
        drop(leaf);
        assert_eq!(read(&place.join("cgroup.kill")), "1");
    }

    #[test]
    fn swap_is_shut_where_there_is_any() {
        let folder = fake("cpu memory pids\n");
        let tree = CgroupTree::take(folder.path()).expect("it can be taken").expect("it can be divided");
        let place = folder.path().join("program-2");
        fs::create_dir(&place).expect("a folder");
        fs::write(place.join("memory.swap.max"), "max\n").expect("it is written");
        let _leaf = tree.leaf("2", &LIMITS).expect("it is made");
        assert_eq!(read(&place.join("memory.swap.max")), "0");
    }

    #[test]
    fn what_was_killed_for_its_memory_is_known() {
        let folder = fake("cpu memory pids\n");
        let tree = CgroupTree::take(folder.path()).expect("it can be taken").expect("it can be divided");
        let leaf = tree.leaf("3", &LIMITS).expect("it is made");
        assert!(!leaf.ran_out_of_memory());
        fs::write(leaf.path().join("memory.events"), "low 0\noom 0\noom_kill 0\n").expect("it is written");
        assert!(!leaf.ran_out_of_memory());
        fs::write(leaf.path().join("memory.events"), "oom 2\noom_kill 1\n").expect("it is written");
        assert!(leaf.ran_out_of_memory());
    }

    #[test]
    fn a_helper_that_is_not_where_it_was_put_says_so() {
        let folder = fake("cpu memory pids\n");
        let error = enter(&folder.path().join("absent")).expect_err("nobody is there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // A file by that name is written, and yet this process is not in it.
        assert!(enter(folder.path()).is_err());
    }
}

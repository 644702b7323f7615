//! A file system that holds nothing but what was listed: what every program needs, read-only, and what the operator adds.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use super::namespaces::NOBODY;
use super::plan::{Namespaces, Plan, WORK};
use super::rules::DEVICES;

/// What every program needs, as far as it is there. Symbolic links stay what they are.
const SYSTEM: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
];
/// What one with a network needs besides.
const NETWORK: [&str; 4] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf"];

/// Where the new file system is put together, and where the old one is meanwhile.
const BASE: &str = "/tmp";
const OLD: &str = "/old";
const NEW: &str = "/new";

/// What was bound into it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Binds {
    pub(super) all: usize,
    pub(super) writable: usize,
}

/// What a program may read without namespaces.
pub(super) fn readable(plan: &Plan) -> Vec<PathBuf> {
    let needed = SYSTEM.iter().chain(if plan.network { &NETWORK[..] } else { &[] }).map(PathBuf::from);
    needed.chain(plan.read.iter().cloned()).chain(plan.program.first().map(PathBuf::from)).collect()
}

/// What it is shown of the machine without a file system of its own.
pub(super) fn shown(plan: &Plan) -> Binds {
    let read = readable(plan).iter().filter(|path| path.exists()).count();
    Binds { all: read + plan.write.len(), writable: plan.write.len() }
}

/// Puts the file system together and moves into it.
pub(super) fn enter(plan: &Plan) -> io::Result<Binds> {
    // The sources, while the paths still mean what they mean outside.
    let read = resolved(&readable(plan), false)?;
    let write = resolved(&plan.write, true)?;
    mount_plain(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None)?;
    tmpfs(BASE, 1 << 20, 4096, "mode=0755")?;
    let below = |name: &str| format!("{BASE}{name}");
    fs::create_dir(below(OLD))?;
    fs::create_dir(below(NEW))?;
    pivot_root(BASE, below(OLD).as_str())?;
    chdir("/")?;
    tmpfs(NEW, 1 << 20, 4096, "mode=0755")?;
    devices()?;
    for place in ["/proc", WORK] {
        fs::create_dir_all(format!("{NEW}{place}"))?;
    }
    // Whoever makes the file system is the program's user, unless root does.
    let by_root = plan.way.namespaces == Namespaces::OwnByRoot;
    let owner = if by_root { format!("mode=0700,uid={NOBODY},gid={NOBODY}") } else { "mode=0700".to_owned() };
    tmpfs(&format!("{NEW}{WORK}"), plan.limits.disk_bytes, plan.limits.files(), &owner)?;
    let mut binds = Binds::default();
    for (place, source) in read {
        binds.all += usize::from(bind(&place, &source, true)?);
    }
    for (place, source) in write {
        binds.writable += usize::from(bind(&place, &source, false)?);
    }
    binds.all += binds.writable;
    names()?;
    // Where parts of /proc are hidden from us the kernel shows no other; a program can do without.
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let proc = format!("{NEW}/proc");
    if mount_plain(Some("proc"), &proc, Some("proc"), flags, None).is_ok() {
        if by_root {
            let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount_plain(None, &proc, None, read_only | flags, None)?;
        } else {
            // The one in which it will be nobody, and no more.
            let _ = fs::write(format!("{proc}/sys/user/max_user_namespaces"), "1");
        }
    }
    move_in()?;
    Ok(binds)
}

/// Paths with what they lead to. What every program needs may not be there; what was listed must be.
fn resolved(paths: &[PathBuf], all: bool) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for path in paths {
        match fs::canonicalize(path) {
            Ok(source) => found.push((path.clone(), source)),
            Err(_) if !all && is_system(path) => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
        }
    }
    // What contains others comes before them.
    found.sort();
    found.dedup();
    Ok(found)
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().chain(&NETWORK).any(|known| Path::new(known) == path)
}

/// Shows a file or directory of the old file system at its own path in the new one. Whether it had to be bound for that.
fn bind(place: &Path, source: &Path, read_only: bool) -> io::Result<bool> {
    let target = PathBuf::from(format!("{NEW}{}", place.display()));
    let said = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", place.display()));
    if is_within_system(place) && read_only {
        return Ok(false);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(said)?;
    }
    let link = fs::symlink_metadata(format!("{OLD}{}", place.display()))
        .is_ok_and(|found| found.file_type().is_symlink());
    if link && is_system(place) && place.components().count() == 2 {
        let leads_to = fs::read_link(format!("{OLD}{}", place.display()))?;
        return symlink(leads_to, &target).map(|()| false).map_err(said);
    }
    let source = PathBuf::from(format!("{OLD}{}", source.display()));
    if source.is_dir() {
        fs::create_dir_all(&target).map_err(said)?;
    } else if target.symlink_metadata().is_err() {
        fs::write(&target, "").map_err(said)?;
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    mount_plain(Some(&text(&source)), &text(&target), None, MsFlags::MS_BIND | MsFlags::MS_REC, None)
        .map_err(said)?;
    if read_only {
        freeze(&target).map_err(said)?;
    }
    Ok(true)
}

/// Whether it is shown already, as part of what every program needs.
fn is_within_system(place: &Path) -> bool {
    SYSTEM.iter().any(|known| place != Path::new(known) && place.starts_with(known))
}

/// Makes a mount and those below it read-only. Flags that it came with may not be taken off.
fn freeze(target: &Path) -> io::Result<()> {
    let mounts = fs::read_to_string(format!("{OLD}/proc/self/mountinfo"))?;
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let below: Vec<_> = places.filter(|place| Path::new(place).starts_with(target)).collect();
    for place in below {
        let came_with = statvfs(place.as_str()).map_or(MsFlags::empty(), |found| kept(found.flags()));
        let flags = MsFlags::MS_REMOUNT
            | MsFlags::MS_BIND
            | MsFlags::MS_RDONLY
            | MsFlags::MS_NOSUID
            | MsFlags::MS_NODEV
            | came_with;
        mount_plain(None, &place, None, flags, None)?;
    }
    Ok(())
}

fn kept(flags: FsFlags) -> MsFlags {
    let pairs = [
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    pairs.into_iter().filter(|(has, _)| flags.contains(*has)).map(|(_, flag)| flag).collect()
}

/// A path as `mountinfo` writes it, with what it writes as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, meant)| text.replace(escaped, meant))
}

/// The devices that hold nothing.
fn devices() -> io::Result<()> {
    fs::create_dir(format!("{NEW}/dev"))?;
    for device in DEVICES {
        let target = format!("{NEW}{device}");
        fs::write(&target, "")?;
        mount_plain(Some(&format!("{OLD}{device}")), &target, None, MsFlags::MS_BIND, None)?;
    }
    symlink(WORK, format!("{NEW}/dev/shm"))?;
    for (name, leads_to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(format!("/proc/self/{leads_to}"), format!("{NEW}/dev/{name}"))?;
    }
    Ok(())
}

/// Who there is: nobody.
fn names() -> io::Result<()> {
    fs::create_dir_all(format!("{NEW}/etc"))?;
    fs::write(format!("{NEW}/etc/passwd"), "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")?;
    fs::write(format!("{NEW}/etc/group"), "nogroup:x:65534:\n")
}

/// Makes the new file system the only one.
fn move_in() -> io::Result<()> {
    let flags =
        MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_plain(None, NEW, None, flags, None)?;
    umount2(OLD, MntFlags::MNT_DETACH)?;
    chdir(NEW)?;
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir(WORK)?;
    Ok(())
}

fn tmpfs(target: &str, bytes: u64, files: u64, more: &str) -> io::Result<()> {
    let data = format!("size={bytes},nr_inodes={files},{more}");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_plain(Some("tmpfs"), target, Some("tmpfs"), flags, Some(&data))
}

/// The system call, with texts.
fn mount_plain(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> io::Result<()> {
    mount(source, target, kind, flags, data).map_err(|error| {
        io::Error::new(io::Error::from(error).kind(), format!("cannot mount {target}: {error}"))
    })
}

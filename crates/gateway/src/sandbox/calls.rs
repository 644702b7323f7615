//! Which system calls a program may make. What no agent needs, and what has let programs out of sandboxes before, is refused
//! as if the rights for it were missing; what is newer than this list is answered as if the kernel did not know it.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

/// What is asked of the filter besides what is always refused.
#[derive(Clone, Debug, Default)]
pub(super) struct CallRules {
    /// Whether it may have sockets of the internet.
    pub(super) network: bool,
    /// Whether it may have sockets in the file system and the abstract name space.
    pub(super) local_sockets: bool,
    /// Whether memory that belongs to no process is refused, because nothing counts it.
    pub(super) only_own_memory: bool,
    /// Processes that stand outside and that it could signal, where it has no process namespace.
    pub(super) untouchable: Vec<i32>,
}

/// The newest call that was looked at when this list was written (`removexattrat`, Linux 6.13). It also bounds the second
/// set of numbers that x86-64 has for its calls (x32).
const NEWEST: u32 = 466;

const REFUSED: &[i64] = &[
    // Rings do what calls do, past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys of others who run as the same user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    457, // statmount
    458, // listmount
    libc::SYS_setns,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_memfd_secret,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[294]; // kexec_file_load

/// Kinds of namespace that the flags of `clone` and `unshare` can ask for.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// A namespace of clocks, which only `unshare` can ask for.
const NEW_TIME: u64 = 0x80;
/// Types into a terminal, pastes into a console.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;
/// Which signal tells of a file, to whomever its owner names.
const F_SETSIG: i32 = 10;
/// The part of a socket's type that is not a flag.
const TYPE: u64 = 0xF;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Lets the filter fall, for good.
pub(super) fn apply(rules: &CallRules) -> Result<(), Error> {
    apply_filter(&unknown())?;
    apply_filter(&compiled(absent(rules), libc::ENOSYS)?)?;
    apply_filter(&compiled(refused(rules)?, libc::EPERM)?)
}

fn compiled(rules: Rules, error: i32) -> Result<BpfProgram, Error> {
    let action = SeccompAction::Errno(error.unsigned_abs());
    let here = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, action, here)?.try_into()?)
}

/// Calls by numbers past the newest one that is known.
fn unknown() -> BpfProgram {
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut compare = statement(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, NEWEST);
    (compare.jt, compare.jf) = (0, 1);
    vec![
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        compare,
        statement(libc::BPF_RET | libc::BPF_K, absent),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Calls that seem not to exist: their callers then do without.
fn absent(rules: &CallRules) -> Rules {
    // Its flags are in memory, where no filter sees them. A libc falls back to `clone`.
    let mut absent = vec![libc::SYS_clone3];
    if rules.only_own_memory {
        absent.extend([libc::SYS_memfd_create, libc::SYS_shmget]);
    }
    absent.into_iter().map(|call| (call, Vec::new())).collect()
}

fn refused(rules: &CallRules) -> Result<Rules, BackendError> {
    let always = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new()));
    let mut refused: Rules = always.collect();
    refused.insert(libc::SYS_clone, namespaces(&[])?);
    refused.insert(libc::SYS_unshare, namespaces(&[NEW_TIME])?);
    refused.insert(libc::SYS_socket, sockets(rules)?);
    refused.insert(libc::SYS_socketpair, vec![all(&[differs(0, libc::AF_UNIX)?])?]);
    // Another layout of memory is what exploits ask for.
    let usual = [0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF].map(|value| when(0, SeccompCmpOp::Ne, value));
    refused.insert(libc::SYS_personality, vec![all(&usual.into_iter().collect::<Result<Vec<_>, _>>()?)?]);
    // Words put into the mouth of a terminal.
    let terminal = [TIOCSTI, TIOCLINUX];
    let terminal = terminal.into_iter().map(|request| all(&[when(1, SeccompCmpOp::Eq, request)?]));
    refused.insert(libc::SYS_ioctl, terminal.collect::<Result<_, _>>()?);
    if !rules.untouchable.is_empty() {
        refused.extend(signals(&rules.untouchable)?);
    }
    Ok(refused)
}

fn namespaces(more: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let flags = NAMESPACES.map(|flag| u64::from(flag.unsigned_abs())).into_iter().chain(more.iter().copied());
    flags.map(|flag| all(&[when(0, SeccompCmpOp::MaskedEq(flag), flag)?])).collect()
}

/// Sockets of other families than those listed, and raw ones.
fn sockets(rules: &CallRules) -> Result<Vec<SeccompRule>, BackendError> {
    let mut families = Vec::new();
    if rules.local_sockets {
        families.push(libc::AF_UNIX);
    }
    if rules.network {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if families.is_empty() {
        return Ok(Vec::new());
    }
    let others = families.into_iter().map(|family| differs(0, family)).collect::<Result<Vec<_>, _>>()?;
    let mut refused = vec![all(&others)?];
    if rules.network {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let raw = u64::from(libc::SOCK_RAW.unsigned_abs());
            refused.push(all(&[is(0, family)?, when(1, SeccompCmpOp::MaskedEq(TYPE), raw)?])?);
        }
        // What names are looked up with; the other protocols of this family administer the machine.
        refused.push(all(&[is(0, libc::AF_NETLINK)?, differs(2, libc::NETLINK_ROUTE)?])?);
    }
    Ok(refused)
}

/// Signals to those who stand outside, in all the ways there are, and limits for other processes.
fn signals(untouchable: &[i32]) -> Result<Rules, BackendError> {
    let mut to = vec![-1];
    to.extend(untouchable.iter().flat_map(|pid| [*pid, -*pid]));
    let mut rules = Rules::new();
    let calls = [
        libc::SYS_kill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
    ];
    for call in calls {
        let refused = to.iter().map(|pid| all(&[is(0, *pid)?])).collect::<Result<_, _>>()?;
        rules.insert(call, refused);
    }
    rules.insert(libc::SYS_tkill, Vec::new());
    rules.insert(libc::SYS_prlimit64, vec![all(&[differs(0, 0)?])?]);
    rules.insert(libc::SYS_fcntl, vec![all(&[is(1, F_SETSIG)?])?]);
    // What is hidden cannot be counted.
    rules.insert(libc::SYS_prctl, vec![all(&[is(0, libc::PR_SET_DUMPABLE)?])?]);
    Ok(rules)
}

fn all(conditions: &[SeccompCondition]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.to_vec())
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    when(argument, SeccompCmpOp::Eq, u64::from(value.cast_unsigned()))
}

fn differs(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    when(argument, SeccompCmpOp::Ne, u64::from(value.cast_unsigned()))
}

/// The kernel takes these arguments as 32 bits, whatever stands above them.
fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

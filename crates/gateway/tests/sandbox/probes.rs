//! What must come of each probe.

use std::fs::Permissions;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use tempfile::TempDir;

use crate::setting::{Gateway, Setting};
use crate::{agent, tried};

/// What is refused everywhere, as if rights were missing.
const REFUSED: &[&str] = &[
    "io_uring",
    "io_uring_enter",
    "keyctl_read",
    "keyctl_join",
    "key_add",
    "key_request planted",
    "trace_me",
    "trace_other 1",
    "read_memory",
    "write_memory",
    "mount_tmpfs",
    "mount_bind",
    "unmount",
    "new_mount",
    "clone_tree",
    "pivot",
    "change_root",
    "bpf_load",
    "perf",
    "faults",
    "kexec",
    "module_in",
    "module_out",
    "unshare_kind 10000000",
    "unshare_kind 20000",
    "unshare_kind 40000000",
    "unshare_kind 20000000",
    "unshare_kind 80",
    "clone_kind 10000000",
    "clone_kind 20000",
    "clone_kind 20000000",
    "clone_kind 40000000",
    "enter_namespace",
    "layout",
    "system_log",
    "set_host_name",
    "set_clock",
    "adjust_clock",
    "restart",
    "swap_on",
    "account",
    "handle",
    "take_file",
    "compare",
    "type_in",
    "secret_memory",
    "raise_limit",
    "make_device sda",
    "set_groups",
    "pair_of 2",
    // Bluetooth, raw packets, CAN, TIPC, ALG, VSOCK, XDP, SMC, and none that exists.
    "socket_of 31 3",
    "socket_of 17 3",
    "socket_of 29 3",
    "socket_of 30 1",
    "socket_of 38 5",
    "socket_of 40 1",
    "socket_of 44 3",
    "socket_of 43 1",
    "socket_of 99 1",
];

/// What seems not to exist.
const ABSENT: &[&str] = &["clone_three", "newest_call", "other_numbers", "memory_file 8", "shared_memory"];

/// What nobody gets, whatever the refusal says.
const OUT_OF_REACH: &[&str] = &[
    "open_read /etc/shadow",
    "open_read /etc/hostname",
    "open_read /etc/machine-id",
    "open_read /root/.profile",
    "list_folder /root",
    "list_folder /home",
    "list_folder /var",
    "list_folder /sys",
    "open_write /usr/planted",
    "open_write /etc/passwd",
    "open_write /dev/shm/../planted",
    "make_folder /planted",
    "make_folder /usr/planted",
    "remove_file /usr/bin/env",
    "open_read /dev/mem",
    "open_read /dev/kmsg",
    "open_read /dev/vda",
    "open_read /dev/sda",
    "open_read /dev/fuse",
    "open_read /dev/kvm",
    "open_read /dev/net/tun",
    "open_read /dev/tty",
    "set_sysctl",
    "open_write /proc/sys/kernel/hostname",
    "open_write /proc/sysrq-trigger",
    "parents_environment",
    "open_read /proc/1/mem",
    "prefer_life",
    "become_root",
    "open_read /proc/kcore",
];

/// Sockets of the internet, of families as Linux numbers them.
const INTERNET: &[&str] = &[
    "socket_of 2 1",
    "socket_of 2 2",
    "socket_of 2 3 1",
    "socket_of 10 1",
    "socket_of 10 2",
    "socket_of 16 3 0",
    "socket_of 16 3 15",
];

#[tokio::test]
async fn nothing_that_a_program_must_not_do_can_be_done() {
    for setting in Setting::all() {
        holds(setting).await;
    }
}

/// What everybody on the machine can reach.
struct Outside {
    folder: TempDir,
    name: String,
    _local: [UnixListener; 2],
    stream: TcpListener,
    datagrams: UdpSocket,
}

impl Outside {
    fn lay() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let open =
            |path: &Path| std::fs::set_permissions(path, Permissions::from_mode(0o777)).expect("it is ours");
        let name = path("name").to_string_lossy().into_owned();
        let named = SocketAddr::from_abstract_name(&name).expect("a name");
        let local = [UnixListener::bind(path("socket")), UnixListener::bind_addr(&named)];
        std::fs::write(path("secret"), "not for programs").expect("it is written");
        open(folder.path());
        open(&path("socket"));
        Self {
            name,
            _local: local.map(|socket| socket.expect("a socket")),
            stream: TcpListener::bind("127.0.0.1:0").expect("a port"),
            datagrams: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            folder,
        }
    }

    /// How a program would go about it.
    fn lines(&self, gateway: &Gateway) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name).to_string_lossy().into_owned();
        let pid = gateway.pid();
        let more = [
            format!("open_read {}", path("secret")),
            format!("open_write {}", path("planted")),
            format!("remove_file {}", path("secret")),
            format!("list_folder {}", gateway.folder.path().display()),
            format!("open_read /proc/{pid}/environ"),
            format!("open_read /proc/{pid}/mem"),
            format!("open_read /proc/{pid}/root/etc/shadow"),
            format!("signal_to {pid}"),
            format!("connect_local {}", path("socket")),
            format!("connect_local @{}", self.name),
        ];
        OUT_OF_REACH.iter().map(|line| (*line).to_owned()).chain(more).collect()
    }

    fn ports(&self) -> [String; 2] {
        let stream = self.stream.local_addr().expect("an address").port();
        let datagrams = self.datagrams.local_addr().expect("an address").port();
        [format!("connect_port {stream}"), format!("send_datagram {datagrams}")]
    }

    /// How often a program was heard.
    fn heard(&self) -> usize {
        self.datagrams.set_nonblocking(true).expect("it can be set");
        std::iter::from_fn(|| self.datagrams.recv(&mut [0; 8]).ok()).count()
    }
}

async fn holds(setting: Setting) {
    let outside = Outside::lay();
    let gateway = Gateway::start(setting, &(agent("shut", "") + &agent("open", "network = \"host\"")));
    let (unreached, ports) = (outside.lines(&gateway), outside.ports());
    let all = REFUSED.iter().chain(ABSENT).copied().chain(unreached.iter().map(String::as_str));
    for (agent, has_network) in [("shut", false), ("open", true)] {
        let client = gateway.client(agent).await;
        let lines: Vec<&str> =
            all.clone().chain(INTERNET.iter().copied()).chain(ports.iter().map(String::as_str)).collect();
        assert!(lines.len() >= 60, "{}", lines.len());
        let found = tried(&client, lines).await;
        let expect = |lines: &[&str], result: &str| {
            for line in lines {
                assert_eq!(found[*line], result, "{setting:?} {agent}: {line}");
            }
        };
        expect(REFUSED, "EPERM");
        expect(ABSENT, "ENOSYS");
        for line in &unreached {
            assert_ne!(found[line], "got", "{setting:?} {agent}: {line}");
        }
        expect(&["socket_of 2 3 1", "socket_of 16 3 15"], "EPERM");
        if has_network {
            expect(&["socket_of 2 1", "socket_of 2 2", "socket_of 16 3 0", &ports[0], &ports[1]], "got");
        } else {
            expect(INTERNET, "EPERM");
            expect(&[&ports[0], &ports[1]], "EPERM");
        }
    }
    if setting.has_namespaces() {
        // What no filter of calls hides.
        let found = tried(&gateway.client("shut").await, ["keys_seen _ses", "keys_seen planted"]).await;
        assert_eq!(
            (&*found["keys_seen _ses"], &*found["keys_seen planted"]),
            ("seen", "none"),
            "{setting:?}"
        );
    }
    assert_eq!(outside.heard(), 1, "{setting:?}: only the one with a network");
}

/// What a program needs to work at all.
#[tokio::test]
async fn a_program_is_not_kept_from_its_work() {
    for setting in Setting::all() {
        let gateway = Gateway::start(setting, &(agent("shut", "") + &agent("open", "network = \"host\"")));
        for name in ["shut", "open"] {
            let client = gateway.client(name).await;
            let got = [
                "open_write mine",
                "make_folder folder",
                "pair_of 1",
                "open_read /usr/bin/env",
                "open_read /dev/null",
                "open_read /dev/urandom",
                "unshare_kind 400",
            ];
            let found = tried(&client, got).await;
            for line in got {
                assert_eq!(found[line], "got", "{setting:?} {name}: {line}");
            }
            // Local sockets lead nowhere where a program has a file system of its own.
            let found = tried(&client, ["socket_of 1 1", "one_file 1024", "allocate 64", "forks 4"]).await;
            let local = if setting.has_namespaces() { "got" } else { "EPERM" };
            assert_eq!(found["socket_of 1 1"], local, "{setting:?} {name}");
            assert_eq!(
                (&*found["one_file 1024"], &*found["allocate 64"], &*found["forks 4"]),
                ("1024", "64", "4"),
                "{setting:?} {name}"
            );
        }
    }
}

/* Tries, from within a sandbox, what a program must not be able to do. Reads lines "NAME [ARGUMENT]", tries each in a process of
 * its own, and answers each with "NAME=RESULT": the name of an error, or what was got. Everything has a bound of its own, so
 * that it does no harm where nothing holds it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>

extern char **environ;
#define MIB (1024L * 1024L)

static void say(const char *what) { fputs(what, stdout); }
static void number(long value) { printf("%ld", value); }
/* The name of the error, or "got". */
static void came_of(long result) { say(result < 0 ? strerrorname_np(errno) : "got"); }
#define CALL(...) came_of(syscall(__VA_ARGS__))

/* --- files --- */
static void open_read(const char *path) { came_of(open(path, O_RDONLY)); }
static void open_write(const char *path) { came_of(open(path, O_WRONLY | O_CREAT | O_APPEND, 0600)); }
static void list_folder(const char *path) { came_of(opendir(path) ? 0 : -1); }
static void remove_file(const char *path) { came_of(unlink(path)); }
static void make_device(const char *path) { came_of(mknod(path, S_IFBLK | 0600, 0x0801)); }
static void make_folder(const char *path) { came_of(mkdir(path, 0700)); }
static void count_root(const char *none) {
  (void)none;
  DIR *root = opendir("/");
  if (!root) { came_of(-1); return; }
  long count = 0;
  for (struct dirent *entry; (entry = readdir(root));) count++;
  number(count);
}
static void first_line(const char *path) {
  char line[200] = "";
  FILE *file = fopen(path, "r");
  if (!file) { came_of(-1); return; }
  if (!fgets(line, sizeof line, file)) { say("empty"); return; }
  line[strcspn(line, "\n")] = 0;
  say(line);
}
static void directory_is(const char *none) {
  (void)none;
  char name[4096];
  say(getcwd(name, sizeof name) ? name : strerrorname_np(errno));
}
static void directory_kind(const char *none) {
  (void)none;
  struct statfs found;
  say(statfs(".", &found) ? strerrorname_np(errno) : found.f_type == 0x01021994 ? "tmpfs" : "other");
}
/* Files and folders of the machine among what is mounted, without the devices. */
static void count_binds(const char *writable) {
  FILE *mounts = fopen("/proc/self/mountinfo", "r");
  if (!mounts) { came_of(-1); return; }
  char line[8192];
  long all = 0, open_ones = 0;
  while (fgets(line, sizeof line, mounts)) {
    char place[4096], flags[512];
    if (sscanf(line, "%*s %*s %*s %*s %4095s %511s", place, flags) != 2) continue;
    if (!strcmp(place, "/") || !strcmp(place, "/tmp") || !strcmp(place, "/proc") || !strncmp(place, "/dev", 4)) continue;
    all++;
    open_ones += !strncmp(flags, "rw", 2);
  }
  number(*writable ? open_ones : all);
}

/* --- who and what it is --- */
static void user(const char *none) { (void)none; number(getuid()); }
static void pid(const char *none) { (void)none; number(getpid()); }
static void groups(const char *none) {
  (void)none;
  gid_t list[64];
  int count = getgroups(64, list);
  for (int i = 0; i < count; i++) if (list[i] == 0) { say("root"); return; }
  say("none");
}
static void environment(const char *none) {
  (void)none;
  for (char **pair = environ; *pair; pair++) printf("%.*s ", (int)strcspn(*pair, "="), *pair);
}
static void open_files(const char *none) {
  (void)none;
  long count = 0;
  for (int fd = 3; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
  number(count);
}
static void host_name(const char *none) {
  (void)none;
  struct utsname name;
  uname(&name);
  say(name.nodename);
}
static void status_field(const char *field) {
  char line[512];
  FILE *status = fopen("/proc/self/status", "r");
  if (!status) { came_of(-1); return; }
  while (fgets(line, sizeof line, status))
    if (!strncmp(line, field, strlen(field))) {
      char *value = line + strlen(field) + 1;
      value[strcspn(value, "\n")] = 0;
      say(value + strspn(value, "\t "));
    }
}
static void new_privileges(const char *none) { (void)none; number(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)); }
static void seccomp_mode(const char *none) { (void)none; number(prctl(PR_GET_SECCOMP)); }
static void become_root(const char *none) { (void)none; came_of(setuid(0)); }
static void set_groups(const char *none) { (void)none; gid_t root = 0; came_of(setgroups(1, &root)); }
static void limit_of(const char *name) {
  int which = !strcmp(name, "as") ? RLIMIT_AS : !strcmp(name, "core") ? RLIMIT_CORE : !strcmp(name, "fsize") ? RLIMIT_FSIZE
    : !strcmp(name, "nofile") ? RLIMIT_NOFILE : RLIMIT_CPU;
  struct rlimit limit;
  getrlimit(which, &limit);
  number((long)limit.rlim_max);
}
static void raise_limit(const char *none) {
  (void)none;
  struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
  came_of(setrlimit(RLIMIT_FSIZE, &limit));
}

/* --- calls --- */
static void io_uring(const char *none) { (void)none; char params[120] = ""; CALL(SYS_io_uring_setup, 4, params); }
static void io_uring_enter(const char *none) { (void)none; CALL(SYS_io_uring_enter, -1, 0, 0, 0, NULL); }
static void keyctl_read(const char *none) { (void)none; CALL(SYS_keyctl, 0, -3, 0); }
static void keyctl_join(const char *none) { (void)none; CALL(SYS_keyctl, 1, NULL); }
static void key_add(const char *none) { (void)none; CALL(SYS_add_key, "user", "planted", "x", 1, -3); }
static void key_request(const char *name) { CALL(SYS_request_key, "user", name, NULL, 0); }
/* Whether the key that was planted before the gateway started is among those that it may see. */
static void keys_seen(const char *name) {
  char line[512];
  FILE *keys = fopen("/proc/keys", "r");
  if (!keys) { came_of(-1); return; }
  while (fgets(line, sizeof line, keys)) if (strstr(line, name)) { say("seen"); return; }
  say("none");
}
static void trace_me(const char *none) { (void)none; CALL(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0); }
static void trace_other(const char *pid) { CALL(SYS_ptrace, 0x4206 /* SEIZE */, atoi(pid), 0, 0); }
static void read_memory(const char *pid) {
  char byte;
  struct iovec here = { &byte, 1 }, there = { (void *)environ, 1 };
  CALL(SYS_process_vm_readv, *pid ? atoi(pid) : getpid(), &here, 1, &there, 1, 0);
}
static void write_memory(const char *none) {
  (void)none;
  char byte = 0;
  struct iovec here = { &byte, 1 };
  CALL(SYS_process_vm_writev, getpid(), &here, 1, &here, 1, 0);
}
static void mount_tmpfs(const char *none) { (void)none; came_of(mount("x", "/tmp", "tmpfs", 0, "")); }
static void mount_bind(const char *none) { (void)none; came_of(mount("/", "/tmp", NULL, MS_BIND, NULL)); }
static void unmount(const char *none) { (void)none; came_of(umount2("/proc", MNT_DETACH)); }
static void new_mount(const char *none) { (void)none; CALL(SYS_fsopen, "tmpfs", 0); }
static void clone_tree(const char *none) { (void)none; CALL(SYS_open_tree, AT_FDCWD, "/", 1); }
static void pivot(const char *none) { (void)none; CALL(SYS_pivot_root, ".", "."); }
static void change_root(const char *none) { (void)none; came_of(chroot("/tmp")); }
static void bpf_load(const char *none) { (void)none; char attr[128] = ""; CALL(SYS_bpf, 5, attr, sizeof attr); }
static void perf(const char *none) { (void)none; char attr[128] = ""; attr[4] = 120; CALL(SYS_perf_event_open, attr, 0, -1, -1, 0); }
static void faults(const char *none) { (void)none; CALL(SYS_userfaultfd, 1); }
static void kexec(const char *none) { (void)none; CALL(SYS_kexec_load, 0, 0, NULL, 0); }
static void module_in(const char *none) { (void)none; CALL(SYS_init_module, "", 0, ""); }
static void module_out(const char *none) { (void)none; CALL(SYS_delete_module, "x", 0); }
static void unshare_kind(const char *flags) { came_of(unshare((int)strtol(flags, NULL, 16))); }
static void clone_kind(const char *flags) {
  long child = syscall(SYS_clone, strtol(flags, NULL, 16) | SIGCHLD, NULL, NULL, NULL, 0);
  if (child == 0) _exit(0);
  came_of(child);
}
static void clone_three(const char *none) {
  (void)none;
  uint64_t args[11] = { 0 };
  args[4] = SIGCHLD;
  long child = syscall(SYS_clone3, args, sizeof args);
  if (child == 0) _exit(0);
  came_of(child);
}
static void enter_namespace(const char *none) { (void)none; CALL(SYS_setns, 0, 0); }
static void newest_call(const char *none) { (void)none; CALL(4000); }
#ifdef __x86_64__
static void other_numbers(const char *none) { (void)none; CALL(0x40000000 | SYS_getpid); }
#else
static void other_numbers(const char *none) { (void)none; say("ENOSYS"); }
#endif
static void layout(const char *none) { (void)none; came_of(personality(ADDR_NO_RANDOMIZE)); }
static void system_log(const char *none) { (void)none; char text[16]; CALL(SYS_syslog, 3, text, sizeof text); }
static void set_host_name(const char *none) { (void)none; came_of(sethostname("mine", 4)); }
static void set_clock(const char *none) {
  (void)none;
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  CALL(SYS_clock_settime, CLOCK_REALTIME, &time);
}
static void adjust_clock(const char *none) { (void)none; struct timex adjust = { 0 }; CALL(SYS_adjtimex, &adjust); }
static void restart(const char *none) { (void)none; CALL(SYS_reboot, 0, 0, 0, NULL); }
static void swap_on(const char *none) { (void)none; CALL(SYS_swapon, "/nowhere", 0); }
static void account(const char *none) { (void)none; CALL(SYS_acct, NULL); }
static void handle(const char *none) { (void)none; char space[200] = ""; int mount_id; CALL(SYS_name_to_handle_at, AT_FDCWD, "/", space, &mount_id, 0); }
static void take_file(const char *none) { (void)none; CALL(SYS_pidfd_getfd, 0, 0, 0); }
static void compare(const char *none) { (void)none; CALL(SYS_kcmp, getpid(), getpid(), 0, 0, 0); }
static void type_in(const char *none) { (void)none; came_of(ioctl(0, TIOCSTI, "x")); }
static void set_sysctl(const char *none) { (void)none; open_write("/proc/sys/kernel/core_pattern"); }
static void secret_memory(const char *none) { (void)none; CALL(SYS_memfd_secret, 0); }
static void shared_memory(const char *none) { (void)none; came_of(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600)); }

/* --- sockets --- */
static void socket_of(const char *family) {
  int number_of, type = SOCK_STREAM, protocol = 0;
  if (sscanf(family, "%d %d %d", &number_of, &type, &protocol) < 1) return;
  came_of(socket(number_of, type, protocol));
}
static void pair_of(const char *family) { int pair[2]; came_of(socketpair(atoi(family), SOCK_STREAM, 0, pair)); }
static void connect_local(const char *name) {
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) { came_of(-1); return; }
  strncpy(address.sun_path, name, sizeof address.sun_path - 1);
  if (*name == '@') address.sun_path[0] = 0;
  came_of(connect(fd, (void *)&address, offsetof(struct sockaddr_un, sun_path) + strlen(name) + (*name != '@')));
}
static void connect_port(const char *port) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr = { htonl(INADDR_LOOPBACK) } };
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) { came_of(-1); return; }
  came_of(connect(fd, (void *)&address, sizeof address));
}
static void send_datagram(const char *port) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr = { htonl(INADDR_LOOPBACK) } };
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) { came_of(-1); return; }
  came_of(sendto(fd, "x", 1, 0, (void *)&address, sizeof address));
}

/* --- other processes --- */
static void signal_to(const char *pid) { came_of(kill(atoi(pid), 0)); }
static pid_t helper;
static void signal_helper(const char *none) { (void)none; came_of(kill(helper, 0)); }
static void limit_helper(const char *none) { (void)none; struct rlimit limit; came_of(prlimit(helper, RLIMIT_CPU, NULL, &limit)); }
static void processes_seen(const char *none) {
  (void)none;
  DIR *proc = opendir("/proc");
  if (!proc) { came_of(-1); return; }
  long count = 0;
  for (struct dirent *entry; (entry = readdir(proc));) count += atoi(entry->d_name) > 0;
  say(count <= 4 ? "own" : "others");
}
static void parents_environment(const char *none) { (void)none; open_read("/proc/1/environ"); }
static void prefer_life(const char *none) { (void)none; open_write("/proc/self/oom_score_adj"); }

/* --- how much --- */
static void touch(char *memory, long bytes) { for (long at = 0; at < bytes; at += 4096) memory[at] = 1; }
/* MiB that one process gets, of at most so many. */
static void allocate(const char *most) {
  long got = 0, limit = atol(most);
  for (; got < limit; got += 8) {
    char *memory = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
    touch(memory, 8 * MIB);
  }
  number(got);
}
static void memory_file(const char *most) {
  int fd = (int)syscall(SYS_memfd_create, "x", 0);
  if (fd < 0) { came_of(-1); return; }
  static char block[MIB];
  long got = 0, limit = atol(most);
  signal(SIGXFSZ, SIG_IGN);
  while (got < limit) {
    if (write(fd, block, sizeof block) != sizeof block) { close(fd); fd = (int)syscall(SYS_memfd_create, "x", 0); if (fd < 0) break; continue; }
    got++;
  }
  number(got);
}
/* How many processes there may be, of at most so many. */
static void forks(const char *most) {
  long count = 0, limit = atol(most);
  pid_t *children = calloc(limit, sizeof *children);
  for (; count < limit; count++) {
    children[count] = fork();
    if (children[count] < 0) break;
    if (children[count] == 0) { pause(); _exit(0); }
  }
  for (long i = 0; i < count; i++) kill(children[i], SIGKILL);
  number(count);
}
static long fill(const char *name, long most) {
  static char block[65536];
  long got = 0;
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return -1;
  for (ssize_t wrote; got < most && (wrote = write(fd, block, sizeof block)) > 0;) got += wrote;
  return got;
}
/* KiB in one file. */
static void one_file(const char *most) { signal(SIGXFSZ, SIG_IGN); number(fill("one", atol(most) * 1024) / 1024); unlink("one"); }
/* KiB in files of 256 KiB. */
static void many_files(const char *most) {
  long got = 0, limit = atol(most) * 1024;
  char name[32];
  int i = 0;
  for (; got < limit; i++) {
    snprintf(name, sizeof name, "many%d", i);
    long wrote = fill(name, 256 * 1024);
    if (wrote < 0) break;
    got += wrote;
    if (wrote < 256 * 1024) break;
  }
  for (; i >= 0; i--) { snprintf(name, sizeof name, "many%d", i); unlink(name); }
  number(got / 1024);
}
static void many_names(const char *most) {
  long count = 0, limit = atol(most);
  char name[32];
  for (; count < limit; count++) {
    snprintf(name, sizeof name, "name%ld", count);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) break;
    close(fd);
  }
  long made = count;
  for (; count >= 0; count--) { snprintf(name, sizeof name, "name%ld", count); unlink(name); }
  number(made);
}
/* Keeps KiB in files that have no name, and stays. */
static void nameless_files(const char *most) {
  long got = 0, limit = atol(most) * 1024;
  static char block[65536];
  while (got < limit) {
    int fd = open("nameless", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) break;
    unlink("nameless");
    long in_file = 0;
    for (ssize_t wrote; in_file < 256 * 1024 && (wrote = write(fd, block, sizeof block)) > 0;) in_file += wrote;
    got += in_file;
    if (in_file < 256 * 1024) break;
  }
  number(got / 1024);
  fflush(stdout);
  sleep(2);
}
static void shared_folder(const char *none) { (void)none; open_write("/dev/shm/x"); }
/* Writes the time to a file for as long as it lives, out of every group and session. */
static void outlive(const char *path) {
  int ready[2];
  if (pipe(ready)) return;
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      close(0); close(1); close(2);
      for (int tick = 0; tick < 6000; tick++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd >= 0) { dprintf(fd, "%d", tick); close(fd); }
        if (tick == 0) (void)!write(ready[1], "x", 1);
        usleep(20000);
      }
    }
    _exit(0);
  }
  char byte;
  (void)!read(ready[0], &byte, 1);
  say("left");
}
static void wait_here(const char *none) { (void)none; say("waiting\n"); fflush(stdout); sleep(300); }

static const struct { const char *name; void (*run)(const char *); } PROBES[] = {
#define P(name) { #name, name }
  P(open_read), P(open_write), P(list_folder), P(remove_file), P(make_device), P(make_folder), P(count_root), P(first_line), P(directory_is),
  P(count_binds), P(user), P(pid), P(groups), P(environment), P(open_files), P(host_name), P(status_field), P(new_privileges),
  P(seccomp_mode), P(become_root), P(set_groups), P(limit_of), P(raise_limit), P(io_uring), P(io_uring_enter),
  P(keyctl_read), P(keyctl_join), P(key_add), P(key_request), P(keys_seen), P(trace_me), P(trace_other), P(read_memory), P(write_memory),
  P(mount_tmpfs), P(mount_bind), P(unmount), P(new_mount), P(clone_tree), P(pivot), P(change_root), P(bpf_load), P(perf), P(faults),
  P(kexec), P(module_in), P(module_out), P(unshare_kind), P(clone_kind), P(clone_three), P(enter_namespace), P(newest_call),
  P(other_numbers), P(layout), P(system_log), P(set_host_name), P(set_clock), P(adjust_clock), P(restart), P(swap_on), P(account),
  P(handle), P(take_file), P(compare), P(type_in), P(set_sysctl), P(secret_memory), P(shared_memory), P(socket_of), P(pair_of),
  P(connect_local), P(connect_port), P(send_datagram), P(signal_to), P(signal_helper), P(limit_helper), P(directory_kind), P(processes_seen),
  P(parents_environment), P(prefer_life), P(allocate), P(memory_file), P(forks), P(one_file), P(many_files), P(many_names),
  P(nameless_files), P(shared_folder), P(outlive), P(wait_here),
};

int main(int count, char **words) {
  char line[4096];
  /* "plant COMMAND": runs it in a session whose keyring has a key that whoever is in it may read. */
  if (count > 2 && !strcmp(words[1], "plant")) {
    syscall(SYS_keyctl, 1, NULL);
    long key = syscall(SYS_add_key, "user", "planted", "secret", 6, -3);
    if (key < 0 || syscall(SYS_keyctl, 5, key, 0x3f000000) < 0) return 1;
    execvp(words[2], words + 2);
    return 1;
  }
  helper = getppid();
  setvbuf(stdin, NULL, _IONBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    char *argument = strchr(line, ' ');
    if (argument) *argument++ = 0; else argument = "";
    printf("%s%s%s=", line, *argument ? " " : "", argument);
    fflush(stdout);
    const char *unknown = "unknown";
    for (size_t i = 0; i < sizeof PROBES / sizeof *PROBES; i++) {
      if (strcmp(PROBES[i].name, line)) continue;
      unknown = NULL;
      pid_t child = fork();
      if (child < 0) { came_of(-1); break; }
      if (child == 0) { PROBES[i].run(argument); fflush(stdout); _exit(0); }
      int status;
      waitpid(child, &status, 0);
      if (WIFSIGNALED(status)) printf("signal %d", WTERMSIG(status));
    }
    if (unknown) say(unknown);
    say("\n");
    fflush(stdout);
  }
  return 0;
}

/* Records, in order, every change that a process makes to the files under one folder.

   Lance renames files by raw system calls, which a preloaded libc never sees. So the kernel itself hands the calls over:
   a seccomp filter turns each call that may change a file into SIGSYS, whose handler makes the call and writes down what
   it did. Calls from the one instruction `recorder_gate` are let through; the handler makes all of its calls there.
   Whatever could change a file unseen (io_uring, unnamed files, symbolic links) fails as if the kernel did not know it.

   A record is a header and two byte strings: paths, or the bytes written. Nothing here allocates or calls libc's I/O. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYNC, SYNC_ALL, MARK };

struct header {
    uint32_t kind, first_length;
    uint64_t inode, offset, second_length;
};

enum { LONGEST = 4096, CHUNK = 65536 };

static char root[LONGEST];
static size_t root_length;
static int record = -1;
static int guard;
static char chunk[CHUNK];

long recorder_gate(long number, long a, long b, long c, long d, long e, long f);
extern char recorder_gate_end[];

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define ARGUMENT(context, n) ((long)(context)->uc_mcontext.gregs[(int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[n]])
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
__asm__(".text\n.globl recorder_gate\n.type recorder_gate,@function\n"
        "recorder_gate:\n mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n"
        " mov 8(%rsp),%r9\n syscall\n.globl recorder_gate_end\nrecorder_gate_end:\n ret\n");
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define ARGUMENT(context, n) ((long)(context)->uc_mcontext.regs[n])
#define RESULT(context) ((context)->uc_mcontext.regs[0])
__asm__(".text\n.globl recorder_gate\n.type recorder_gate,%function\n"
        "recorder_gate:\n mov x8,x0\n mov x0,x1\n mov x1,x2\n mov x2,x3\n mov x3,x4\n mov x4,x5\n mov x5,x6\n"
        " svc #0\n.globl recorder_gate_end\nrecorder_gate_end:\n ret\n");
#else
#error "the recorder knows x86_64 and aarch64"
#endif

#define CALL(number, ...) CALL_(number, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(number, a, b, c, d, e, f, ...) \
    recorder_gate(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static void take_guard(void) {
    while (__atomic_exchange_n(&guard, 1, __ATOMIC_ACQUIRE)) CALL(SYS_sched_yield);
}

static void leave_guard(void) { __atomic_store_n(&guard, 0, __ATOMIC_RELEASE); }

static void put(const void *bytes, size_t length) {
    const char *next = bytes;
    while (length > 0) {
        long done = CALL(SYS_write, record, next, length);
        if (done <= 0) __builtin_trap(); /* a record with a gap would be worse than none */
        next += done;
        length -= (size_t)done;
    }
}

static void put_header(uint32_t kind, uint64_t inode, uint64_t offset, size_t first, size_t second) {
    struct header header = {kind, (uint32_t)first, inode, offset, second};
    put(&header, sizeof header);
}

static void put_paths(uint32_t kind, uint64_t inode, uint64_t offset, const char *first, const char *second) {
    size_t second_length = second ? strlen(second) : 0;
    put_header(kind, inode, offset, strlen(first), second_length);
    put(first, strlen(first));
    put(second, second_length);
}

/* ------------------------------------------------------------------------------------------------ what is under the root */

static int is_inside(const char *path) {
    return record >= 0 && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int path_of(int descriptor, char *into) {
    char link[32] = "/proc/self/fd/", digits[12];
    size_t at = strlen(link), count = 0;
    if (descriptor < 0) return 0;
    do digits[count++] = (char)('0' + descriptor % 10);
    while (descriptor /= 10);
    while (count > 0) link[at++] = digits[--count];
    link[at] = 0;
    long length = CALL(SYS_readlinkat, AT_FDCWD, link, into, LONGEST - 1);
    into[length < 0 ? 0 : length] = 0;
    return length > 0;
}

/* Whether a path is inside the root; it becomes absolute. */
static int locate(int folder, const char *path, char *into) {
    size_t length = 0;
    into[0] = 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD ? CALL(SYS_getcwd, into, LONGEST) <= 0 : !path_of(folder, into)) return 0;
        length = strlen(into);
        into[length++] = '/';
    }
    if (length + strlen(path) >= LONGEST) return 0;
    strcpy(into + length, path);
    return is_inside(into);
}

static int is_open_inside(int descriptor) {
    char path[LONGEST];
    return path_of(descriptor, path) && is_inside(path);
}

static uint64_t inode_of(int descriptor) {
    struct stat found;
    return CALL(SYS_fstat, descriptor, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

static uint64_t size_of(int descriptor) {
    struct stat found;
    return CALL(SYS_fstat, descriptor, &found) == 0 ? (uint64_t)found.st_size : 0;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return CALL(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)found.st_ino : 0;
}

/* ------------------------------------------------------------------------------------------------ calls, made and recorded */

static long open_file(int folder, const char *name, int flags, int mode) {
    char path[LONGEST];
    if (!locate(folder, name, path) || !(flags & (O_CREAT | O_TRUNC | O_TMPFILE)))
        return CALL(SYS_openat, folder, name, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
    take_guard();
    long opened = CALL(SYS_openat, folder, name, flags, mode);
    if (opened >= 0 && flags & O_CREAT) put_paths(CREATE, inode_of((int)opened), 0, path, NULL);
    if (opened >= 0 && flags & O_TRUNC) put_header(TRUNCATE, inode_of((int)opened), 0, 0, 0);
    leave_guard();
    return opened;
}

static long write_pieces(long number, int file, const struct iovec *pieces, long offset, const long *arguments) {
    int is_placed = number != SYS_write && number != SYS_writev && offset != -1;
    take_guard();
    long done = CALL(number, file, arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (done > 0) {
        long at = is_placed ? offset : CALL(SYS_lseek, file, 0, SEEK_CUR) - done;
        put_header(WRITE, inode_of(file), (uint64_t)at, 0, (size_t)done);
        for (size_t left = (size_t)done; left > 0; pieces++) {
            size_t length = pieces->iov_len < left ? pieces->iov_len : left;
            put(pieces->iov_base, length);
            left -= length;
        }
    }
    leave_guard();
    return done;
}

static long copy_bytes(long number, int from, const long *from_at, int to, const long *to_at, const long *arguments) {
    take_guard();
    long source = from_at ? *from_at : CALL(SYS_lseek, from, 0, SEEK_CUR);
    long target = to_at ? *to_at : CALL(SYS_lseek, to, 0, SEEK_CUR);
    long done = CALL(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (done > 0) {
        put_header(WRITE, inode_of(to), (uint64_t)target, 0, (size_t)done);
        for (long copied = 0; copied < done;) {
            long length = done - copied < CHUNK ? done - copied : CHUNK;
            long read = CALL(SYS_pread64, from, chunk, length, source + copied);
            if (read <= 0) __builtin_trap();
            put(chunk, (size_t)read);
            copied += read;
        }
    }
    leave_guard();
    return done;
}

static long resize(long number, int file, const long *arguments) {
    take_guard();
    uint64_t before = size_of(file);
    long done = CALL(number, arguments[0], arguments[1], arguments[2], arguments[3]);
    if (done == 0 && (number == SYS_ftruncate || size_of(file) != before))
        put_header(TRUNCATE, inode_of(file), size_of(file), 0, 0);
    leave_guard();
    return done;
}

static long truncate_path(const char *name, long size) {
    char path[LONGEST];
    if (!locate(AT_FDCWD, name, path)) return CALL(SYS_truncate, name, size);
    take_guard();
    long done = CALL(SYS_truncate, name, size);
    if (done == 0) put_header(TRUNCATE, inode_at(path), (uint64_t)size, 0, 0);
    leave_guard();
    return done;
}

static long two_paths(uint32_t kind, long number, int folder, const char *from, int other, const char *to,
                      const long *arguments) {
    char first[LONGEST], second[LONGEST];
    int touches = locate(folder, from, first);
    touches |= locate(other, to, second);
    if (!touches) return CALL(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
    take_guard();
    uint64_t inode = inode_at(first);
    long done = CALL(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
    if (done == 0) put_paths(kind, inode, 0, first, second);
    leave_guard();
    return done;
}

static long one_path(uint32_t kind, long number, int folder, const char *name, const long *arguments) {
    char path[LONGEST];
    if (!locate(folder, name, path)) return CALL(number, arguments[0], arguments[1], arguments[2]);
    take_guard();
    uint64_t inode = kind == MKDIR ? 0 : inode_at(path);
    long done = CALL(number, arguments[0], arguments[1], arguments[2]);
    if (done == 0) put_paths(kind, kind == MKDIR ? inode_at(path) : inode, 0, path, NULL);
    leave_guard();
    return done;
}

static long sync_file(long number, int file) {
    if (!is_open_inside(file)) return CALL(number, file);
    take_guard();
    long done = CALL(number, file);
    if (done == 0) put_header(SYNC, inode_of(file), 0, 0, 0);
    leave_guard();
    return done;
}

static long sync_all(long number, long file) {
    take_guard();
    long done = CALL(number, file);
    put_header(SYNC_ALL, 0, 0, 0, 0);
    leave_guard();
    return done;
}

static long handle(long number, const long *a) {
    struct iovec whole = {(void *)a[1], (size_t)a[2]};
    char path[LONGEST];
    switch (number) {
#ifdef SYS_open
    case SYS_open: return open_file(AT_FDCWD, (const char *)a[0], (int)a[1], (int)a[2]);
    case SYS_creat: return open_file(AT_FDCWD, (const char *)a[0], O_CREAT | O_WRONLY | O_TRUNC, (int)a[1]);
    case SYS_rename: return two_paths(RENAME, number, AT_FDCWD, (char *)a[0], AT_FDCWD, (char *)a[1], a);
    case SYS_link: return two_paths(LINK, number, AT_FDCWD, (char *)a[0], AT_FDCWD, (char *)a[1], a);
    case SYS_unlink: return one_path(UNLINK, number, AT_FDCWD, (char *)a[0], a);
    case SYS_mkdir: return one_path(MKDIR, number, AT_FDCWD, (char *)a[0], a);
    case SYS_rmdir: return one_path(RMDIR, number, AT_FDCWD, (char *)a[0], a);
    case SYS_symlink:
        return locate(AT_FDCWD, (char *)a[1], path) ? -EPERM : CALL(number, a[0], a[1]);
#endif
    case SYS_openat: return open_file((int)a[0], (const char *)a[1], (int)a[2], (int)a[3]);
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
        if (number == SYS_renameat2 && a[4] & ~1L) return -EINVAL; /* only RENAME_NOREPLACE is known here */
        return two_paths(RENAME, number, (int)a[0], (char *)a[1], (int)a[2], (char *)a[3], a);
    case SYS_linkat: return two_paths(LINK, number, (int)a[0], (char *)a[1], (int)a[2], (char *)a[3], a);
    case SYS_unlinkat: return one_path(a[2] & AT_REMOVEDIR ? RMDIR : UNLINK, number, (int)a[0], (char *)a[1], a);
    case SYS_mkdirat: return one_path(MKDIR, number, (int)a[0], (char *)a[1], a);
    case SYS_symlinkat: return locate((int)a[1], (char *)a[2], path) ? -EPERM : CALL(number, a[0], a[1], a[2]);
    case SYS_write:
    case SYS_pwrite64:
        if (!is_open_inside((int)a[0])) return CALL(number, a[0], a[1], a[2], a[3]);
        return write_pieces(number, (int)a[0], &whole, a[3], a);
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
        if (!is_open_inside((int)a[0])) return CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        return write_pieces(number, (int)a[0], (const struct iovec *)a[1], a[3], a);
    case SYS_copy_file_range:
        if (!is_open_inside((int)a[2])) return CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        return copy_bytes(number, (int)a[0], (const long *)a[1], (int)a[2], (const long *)a[3], a);
    case SYS_sendfile:
        if (!is_open_inside((int)a[0])) return CALL(number, a[0], a[1], a[2], a[3]);
        return copy_bytes(number, (int)a[1], (const long *)a[2], (int)a[0], NULL, a);
    case SYS_splice: return is_open_inside((int)a[2]) ? -EINVAL : CALL(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    case SYS_fallocate:
        if (is_open_inside((int)a[0]) && a[1] & ~(long)FALLOC_FL_KEEP_SIZE) return -EOPNOTSUPP;
        /* fall through */
    case SYS_ftruncate:
        if (!is_open_inside((int)a[0])) return CALL(number, a[0], a[1], a[2], a[3]);
        return resize(number, (int)a[0], a);
    case SYS_truncate: return truncate_path((const char *)a[0], a[1]);
    case SYS_fsync:
    case SYS_fdatasync: return sync_file(number, (int)a[0]);
    case SYS_sync:
    case SYS_syncfs: return sync_all(number, a[0]);
    default: return -ENOSYS;
    }
}

static void on_call(int signal_number, siginfo_t *info, void *given) {
    ucontext_t *context = given;
    long arguments[6];
    (void)signal_number;
    for (int n = 0; n < 6; n++) arguments[n] = ARGUMENT(context, n);
    RESULT(context) = handle(info->si_syscall, arguments);
}

/* ------------------------------------------------------------------------------------------------ the filter */

static const int ALWAYS[] = {
#ifdef SYS_open
    SYS_creat, SYS_rename, SYS_link, SYS_unlink, SYS_mkdir, SYS_rmdir, SYS_symlink,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_renameat2, SYS_linkat, SYS_unlinkat, SYS_mkdirat, SYS_symlinkat, SYS_write, SYS_pwrite64, SYS_writev,
    SYS_pwritev, SYS_pwritev2, SYS_copy_file_range, SYS_sendfile, SYS_splice, SYS_fallocate, SYS_ftruncate,
    SYS_truncate, SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs, SYS_io_uring_setup, SYS_openat2,
};

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define HIGH(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name) + 4)
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define OPENING(number, flags) \
    EQUAL(number, 0, 4), FIELD(flags), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CHANGES, 0, 1), \
        ANSWER(SECCOMP_RET_TRAP), ANSWER(SECCOMP_RET_ALLOW)

static int install(void) {
    uint64_t gate = (uint64_t)recorder_gate_end;
    struct sock_filter head[] = {
        FIELD(arch), EQUAL(ARCHITECTURE, 1, 0), ANSWER(SECCOMP_RET_ALLOW),
        FIELD(instruction_pointer), EQUAL((uint32_t)gate, 0, 3),
        HIGH(instruction_pointer), EQUAL((uint32_t)(gate >> 32), 0, 1), ANSWER(SECCOMP_RET_ALLOW),
        FIELD(nr),
#ifdef SYS_open
        OPENING(SYS_open, args[1]),
#endif
        OPENING(SYS_openat, args[2]),
    };
    enum { HEAD = sizeof head / sizeof *head, COUNT = sizeof ALWAYS / sizeof *ALWAYS };
    struct sock_filter program[HEAD + 2 * COUNT + 1];
    memcpy(program, head, sizeof head);
    for (int n = 0; n < COUNT; n++) {
        program[HEAD + 2 * n] = (struct sock_filter)EQUAL((uint32_t)ALWAYS[n], 0, 1);
        program[HEAD + 2 * n + 1] = (struct sock_filter)ANSWER(SECCOMP_RET_TRAP);
    }
    program[HEAD + 2 * COUNT] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {HEAD + 2 * COUNT + 1, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
    return (int)-CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

/* ------------------------------------------------------------------------------------------------ for Python */

/* Records this process from now on, at the end of a file outside the root; the number of an error, or 0. */
int recorder_start(const char *folder, const char *file) {
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSYS);
    if (strlen(folder) >= LONGEST) return ENAMETOOLONG;
    strcpy(root, folder);
    root_length = strlen(folder);
    record = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (record < 0 || sigaction(SIGSYS, &action, NULL) != 0) return errno;
    return install();
}

/* Puts a remark between the calls. */
void recorder_mark(const char *text, size_t length) {
    take_guard();
    put_header(MARK, 0, 0, length, 0);
    put(text, length);
    leave_guard();
}

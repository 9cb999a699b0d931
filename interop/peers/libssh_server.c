/* SFTP by libssh's server API for holders of the lab's keys. It handles one message for each CHANNEL_DATA, as libssh's
 * own sample and handlers do: what shares a packet with another message waits for the next packet.
 * Argument: directory of the lab. Prints its port, ends with stdin. */
/* Declares the server's half of sftp.h. */
#define WITH_SERVER 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <libssh/sftp.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

static ssh_key known[16];
static int known_count;
static ssh_channel channel;
static sftp_session sftp;
static int version_sent, ended;
/* Number of CHANNEL_DATA for which no message has been handled yet. */
static int arrived;

/* An open file or directory. */
struct open {
    int fd;
    DIR *dir;
    char path[PATH_MAX];
};

static void check(int ok, const char *what) {
    if (ok) return;
    perror(what);
    exit(1);
}

static void reply_errno(sftp_client_message msg, int failed) {
    uint32_t code = !failed            ? SSH_FX_OK
                    : errno == ENOENT  ? SSH_FX_NO_SUCH_FILE
                    : errno == EACCES  ? SSH_FX_PERMISSION_DENIED
                                       : SSH_FX_FAILURE;
    sftp_reply_status(msg, code, failed ? strerror(errno) : "Success");
}

static struct sftp_attributes_struct attributes(const struct stat *st) {
    struct sftp_attributes_struct attr;
    memset(&attr, 0, sizeof attr);
    attr.flags = SSH_FILEXFER_ATTR_SIZE | SSH_FILEXFER_ATTR_UIDGID | SSH_FILEXFER_ATTR_PERMISSIONS |
                 SSH_FILEXFER_ATTR_ACMODTIME;
    attr.size = (uint64_t)st->st_size;
    attr.uid = st->st_uid;
    attr.gid = st->st_gid;
    attr.permissions = st->st_mode;
    attr.atime = (uint32_t)st->st_atime;
    attr.mtime = (uint32_t)st->st_mtime;
    return attr;
}

static void reply_stat(sftp_client_message msg, int failed, const struct stat *st) {
    if (failed) return reply_errno(msg, 1);
    struct sftp_attributes_struct attr = attributes(st);
    sftp_reply_attr(msg, &attr);
}

static int set_attributes(const char *path, sftp_attributes attr) {
    if (attr == NULL) return 0;
    if (attr->flags & SSH_FILEXFER_ATTR_SIZE && truncate(path, (off_t)attr->size)) return -1;
    if (attr->flags & SSH_FILEXFER_ATTR_UIDGID && chown(path, attr->uid, attr->gid)) return -1;
    if (attr->flags & SSH_FILEXFER_ATTR_PERMISSIONS && chmod(path, attr->permissions & 07777)) return -1;
    struct utimbuf times = {attr->atime, attr->mtime};
    return attr->flags & SSH_FILEXFER_ATTR_ACMODTIME ? utime(path, &times) : 0;
}

static void reply_open(sftp_client_message msg, const char *path, int fd, DIR *dir) {
    if (fd < 0 && dir == NULL) return reply_errno(msg, 1);
    struct open *open = calloc(1, sizeof *open);
    check(open != NULL, "calloc");
    open->fd = fd;
    open->dir = dir;
    snprintf(open->path, sizeof open->path, "%s", path);
    ssh_string handle = sftp_handle_alloc(sftp, open);
    if (handle == NULL) {
        if (dir != NULL) closedir(dir);
        if (fd >= 0) close(fd);
        free(open);
        sftp_reply_status(msg, SSH_FX_FAILURE, "too many handles");
        return;
    }
    sftp_reply_handle(msg, handle);
    ssh_string_free(handle);
}

static int open_flags(uint32_t flags) {
    int read = (flags & SSH_FXF_READ) != 0, write = (flags & SSH_FXF_WRITE) != 0;
    return (read && write ? O_RDWR : write ? O_WRONLY : O_RDONLY) | (flags & SSH_FXF_APPEND ? O_APPEND : 0) |
           (flags & SSH_FXF_CREAT ? O_CREAT : 0) | (flags & SSH_FXF_TRUNC ? O_TRUNC : 0) |
           (flags & SSH_FXF_EXCL ? O_EXCL : 0);
}

static void reply_entries(sftp_client_message msg, struct open *open) {
    struct dirent *entry;
    int count = 0;
    while (count < 20 && (entry = readdir(open->dir)) != NULL) {
        char path[PATH_MAX * 2], line[PATH_MAX];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", open->path, entry->d_name);
        if (lstat(path, &st)) continue;
        struct sftp_attributes_struct attr = attributes(&st);
        snprintf(line, sizeof line, "%o 1 %u %u %lld %s", st.st_mode, st.st_uid, st.st_gid, (long long)st.st_size,
                 entry->d_name);
        sftp_reply_names_add(msg, entry->d_name, line, &attr);
        count++;
    }
    if (count > 0) sftp_reply_names(msg);
    else sftp_reply_status(msg, SSH_FX_EOF, "end");
}

static void with_handle(sftp_client_message msg, uint8_t type) {
    struct open *open = sftp_handle(sftp, msg->handle);
    if (open == NULL) {
        sftp_reply_status(msg, SSH_FX_FAILURE, "no such handle");
        return;
    }
    static char data[1 << 17];
    struct stat st;
    ssize_t count;
    switch (type) {
        case SSH_FXP_READ:
            count = pread(open->fd, data, msg->len < sizeof data ? msg->len : sizeof data, (off_t)msg->offset);
            if (count > 0) sftp_reply_data(msg, data, (int)count);
            else if (count == 0) sftp_reply_status(msg, SSH_FX_EOF, "end");
            else reply_errno(msg, 1);
            return;
        case SSH_FXP_WRITE:
            count = pwrite(open->fd, ssh_string_data(msg->data), ssh_string_len(msg->data), (off_t)msg->offset);
            return reply_errno(msg, count != (ssize_t)ssh_string_len(msg->data));
        case SSH_FXP_FSTAT: {
            int failed = open->dir ? stat(open->path, &st) : fstat(open->fd, &st);
            return reply_stat(msg, failed, &st);
        }
        case SSH_FXP_FSETSTAT:
            return reply_errno(msg, set_attributes(open->path, msg->attr));
        case SSH_FXP_READDIR:
            return reply_entries(msg, open);
        default: /* CLOSE */
            sftp_handle_remove(sftp, open);
            reply_errno(msg, open->dir ? closedir(open->dir) : close(open->fd));
            free(open);
    }
}

static void answer(sftp_client_message msg) {
    const char *path = sftp_client_message_get_filename(msg);
    uint8_t type = sftp_client_message_get_type(msg);
    char text[PATH_MAX];
    struct stat st;
    ssize_t len;
    int fd;
    switch (type) {
        case SSH_FXP_OPEN:
            fd = open(path, open_flags(sftp_client_message_get_flags(msg)),
                      msg->attr && msg->attr->flags & SSH_FILEXFER_ATTR_PERMISSIONS ? msg->attr->permissions & 0777
                                                                                   : 0666);
            return reply_open(msg, path, fd, NULL);
        case SSH_FXP_OPENDIR:
            return reply_open(msg, path, -1, opendir(path));
        case SSH_FXP_CLOSE:
        case SSH_FXP_READ:
        case SSH_FXP_WRITE:
        case SSH_FXP_FSTAT:
        case SSH_FXP_FSETSTAT:
        case SSH_FXP_READDIR:
            return with_handle(msg, type);
        case SSH_FXP_STAT:
            return reply_stat(msg, stat(path, &st), &st);
        case SSH_FXP_LSTAT:
            return reply_stat(msg, lstat(path, &st), &st);
        case SSH_FXP_SETSTAT:
            return reply_errno(msg, set_attributes(path, msg->attr));
        case SSH_FXP_MKDIR:
            return reply_errno(msg, mkdir(path, 0777));
        case SSH_FXP_RMDIR:
            return reply_errno(msg, rmdir(path));
        case SSH_FXP_REMOVE:
            return reply_errno(msg, unlink(path));
        case SSH_FXP_RENAME:
            return reply_errno(msg, rename(path, sftp_client_message_get_data(msg)));
        case SSH_FXP_REALPATH:
            if (realpath(path[0] ? path : ".", text) == NULL) return reply_errno(msg, 1);
            sftp_reply_name(msg, text, NULL);
            return;
        case SSH_FXP_READLINK:
            if ((len = readlink(path, text, sizeof text - 1)) < 0) return reply_errno(msg, 1);
            text[len] = 0;
            sftp_reply_name(msg, text, NULL);
            return;
        case SSH_FXP_SYMLINK:
            /* libssh calls the first string the file's name: its sample makes the link there, as the draft says. */
            return reply_errno(msg, symlink(sftp_client_message_get_data(msg), path));
        case SSH_FXP_EXTENDED:
            if (strcmp(sftp_client_message_get_submessage(msg), "posix-rename@openssh.com") == 0)
                return reply_errno(msg, rename(path, sftp_client_message_get_data(msg)));
            /* fall through */
        default:
            sftp_reply_status(msg, SSH_FX_OP_UNSUPPORTED, "not served");
    }
}

/* Takes one message from the channel and answers it. */
static void handle_message(void) {
    if (!version_sent) {
        version_sent = 1;
        ended |= sftp_server_init(sftp) < 0;
        return;
    }
    sftp_client_message msg = sftp_get_client_message(sftp);
    if (msg == NULL) {
        ended = 1;
        return;
    }
    answer(msg);
    sftp_client_message_free(msg);
}

/* libssh calls this once for each CHANNEL_DATA, also while an answer waits for the client's window. The data stay
 * in the channel: an answer from in here could not wait, because libssh reads nothing until this returns. */
static int on_data(ssh_session session, ssh_channel on, void *data, uint32_t len, int is_stderr, void *userdata) {
    (void)session, (void)on, (void)data, (void)len, (void)is_stderr, (void)userdata;
    arrived++;
    return 0;
}

static void on_end(ssh_session session, ssh_channel on, void *userdata) {
    (void)session, (void)on, (void)userdata;
    ended = 1;
}

static int on_subsystem(ssh_session session, ssh_channel on, const char *name, void *userdata) {
    (void)userdata;
    if (strcmp(name, "sftp") != 0) return SSH_ERROR;
    sftp = sftp_server_new(session, on);
    return sftp != NULL ? SSH_OK : SSH_ERROR;
}

static struct ssh_channel_callbacks_struct channel_callbacks = {
    .channel_data_function = on_data,
    .channel_eof_function = on_end,
    .channel_close_function = on_end,
    .channel_subsystem_request_function = on_subsystem,
};

static ssh_channel on_channel(ssh_session session, void *userdata) {
    (void)userdata;
    if (channel != NULL) return NULL;
    channel = ssh_channel_new(session);
    ssh_callbacks_init(&channel_callbacks);
    ssh_set_channel_callbacks(channel, &channel_callbacks);
    return channel;
}

static int on_key(ssh_session session, const char *user, struct ssh_key_struct *key, char state, void *userdata) {
    (void)session, (void)user, (void)userdata;
    if (state != SSH_PUBLICKEY_STATE_NONE && state != SSH_PUBLICKEY_STATE_VALID) return SSH_AUTH_DENIED;
    for (int at = 0; at < known_count; at++)
        if (ssh_key_cmp(key, known[at], SSH_KEY_CMP_PUBLIC) == 0) return SSH_AUTH_SUCCESS;
    return SSH_AUTH_DENIED;
}

static void serve(ssh_bind keys, int fd) {
    ssh_session session = ssh_new();
    struct ssh_server_callbacks_struct callbacks = {
        .auth_pubkey_function = on_key,
        .channel_open_request_session_function = on_channel,
    };
    ssh_callbacks_init(&callbacks);
    ssh_set_server_callbacks(session, &callbacks);
    ssh_set_auth_methods(session, SSH_AUTH_METHOD_PUBLICKEY);
    if (ssh_bind_accept_fd(keys, session, fd) != SSH_OK || ssh_handle_key_exchange(session) != SSH_OK) {
        fprintf(stderr, "%s %s\n", ssh_get_error(keys), ssh_get_error(session));
        exit(1);
    }
    ssh_event event = ssh_event_new();
    ssh_event_add_session(event, session);
    while (!ended && ssh_event_dopoll(event, -1) != SSH_ERROR) {
        for (; arrived > 0 && sftp != NULL && !ended; arrived--)
            if (ssh_channel_poll(channel, 0) > 0) handle_message();
    }
    if (channel != NULL) {
        ssh_channel_request_send_exit_status(channel, 0);
        ssh_channel_send_eof(channel);
        ssh_channel_close(channel);
    }
    /* Until the client has gone. */
    while (ssh_event_dopoll(event, 5000) != SSH_ERROR && ssh_is_connected(session)) continue;
    exit(0);
}

static void read_keys(const char *lab) {
    char path[PATH_MAX], line[8192];
    snprintf(path, sizeof path, "%s/authorized_keys", lab);
    FILE *file = fopen(path, "r");
    check(file != NULL, path);
    while (known_count < 16 && fgets(line, sizeof line, file) != NULL) {
        char *type = strtok(line, " \n"), *blob = strtok(NULL, " \n");
        if (type == NULL || blob == NULL) continue;
        if (ssh_pki_import_pubkey_base64(blob, ssh_key_type_from_name(type), &known[known_count]) == SSH_OK)
            known_count++;
    }
    fclose(file);
}

int main(int argc, char **argv) {
    check(argc == 2, "arguments");
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    read_keys(argv[1]);
    ssh_bind keys = ssh_bind_new();
    int no = 0;
    ssh_bind_options_set(keys, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no);
    for (const char *const *name = (const char *const[]){"host_ed25519", "host_rsa", "host_ecdsa", NULL}; *name; name++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", argv[1], *name);
        check(ssh_bind_options_set(keys, SSH_BIND_OPTIONS_HOSTKEY, path) == SSH_OK, path);
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    check(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0, "bind");
    check(listen(listener, 16) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        struct pollfd waits[2] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
        if (poll(waits, 2, -1) < 0) continue;
        if (waits[1].revents) return 0;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        if (fork() == 0) {
            close(listener);
            serve(keys, fd);
        }
        close(fd);
    }
}

/* What libssh does as a client. Arguments: port, user, directory of the lab. */
#include <dirent.h>
#include <fcntl.h>
#include <libssh/libssh.h>
#include <libssh/sftp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ssh_session session;
static sftp_session sftp;
static const char *lab;

static void check(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s: %s (sftp %d)\n", what, ssh_get_error(session), sftp ? sftp_get_error(sftp) : -1);
    exit(1);
}

static const char *in(const char *dir, const char *name) {
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s%s", lab, dir, name);
    return path;
}

static char *slurp(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    check(file != NULL, name);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    check(data != NULL && fread(data, 1, *size, file) == *size, name);
    fclose(file);
    return data;
}

static void put(const char *name, const char *data, size_t size) {
    sftp_file file = sftp_open(sftp, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    check(file != NULL, name);
    for (size_t at = 0; at < size;) {
        size_t part = size - at < 30000 ? size - at : 30000;
        check(sftp_write(file, data + at, part) == (ssize_t)part, name);
        at += part;
    }
    check(sftp_close(file) == SSH_OK, name);
}

static char *get(const char *name, size_t *size) {
    sftp_file file = sftp_open(sftp, name, O_RDONLY, 0);
    check(file != NULL, name);
    size_t room = 1 << 24;
    char *data = malloc(room);
    ssize_t count;
    *size = 0;
    while ((count = sftp_read(file, data + *size, 30000)) > 0) {
        *size += (size_t)count;
        check(*size + 30000 <= room, "too much");
    }
    check(count == 0 && sftp_close(file) == SSH_OK, name);
    return data;
}

int main(int argc, char **argv) {
    check(argc == 4, "arguments");
    unsigned port = (unsigned)atoi(argv[1]);
    lab = argv[3];
    session = ssh_new();
    ssh_options_set(session, SSH_OPTIONS_HOST, "127.0.0.1");
    ssh_options_set(session, SSH_OPTIONS_PORT, &port);
    ssh_options_set(session, SSH_OPTIONS_USER, argv[2]);
    int no = 0;
    ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &no);
    check(ssh_connect(session) == SSH_OK, "connect");
    ssh_key key;
    check(ssh_pki_import_privkey_file(in("user_ed25519", ""), NULL, NULL, NULL, &key) == SSH_OK, "key");
    check(ssh_userauth_publickey(session, NULL, key) == SSH_AUTH_SUCCESS, "login");
    sftp = sftp_new(session);
    check(sftp != NULL && sftp_init(sftp) == SSH_OK, "sftp");

    size_t size, back_size;
    char *data = slurp(in("blob", ""), &size);
    put(in("far/", "up"), data, size);
    char *back = get(in("far/", "up"), &back_size);
    FILE *down = fopen(in("down", ""), "wb");
    check(down != NULL && fwrite(back, 1, back_size, down) == back_size && fclose(down) == 0, "down");

    check(sftp_mkdir(sftp, in("far/", "small"), 0755) == SSH_OK, "mkdir");
    DIR *dir = opendir(in("small", ""));
    check(dir != NULL, "small");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char *small = slurp(in("small/", entry->d_name), &size);
        put(in("far/small/", entry->d_name), small, size);
        char *again = get(in("far/small/", entry->d_name), &back_size);
        check(size == back_size && memcmp(small, again, size) == 0, entry->d_name);
        free(small);
        free(again);
        count++;
    }
    sftp_dir listing = sftp_opendir(sftp, in("far/", "small"));
    check(listing != NULL, "opendir");
    for (sftp_attributes entry; (entry = sftp_readdir(sftp, listing)) != NULL; sftp_attributes_free(entry))
        if (entry->name[0] != '.') count--;
    check(count == 0 && sftp_closedir(listing) == SSH_OK, "names");

    check(sftp_symlink(sftp, in("far/", "up"), in("far/", "link")) == SSH_OK, "symlink");
    char *target = sftp_readlink(sftp, in("far/", "link"));
    check(target != NULL && strcmp(target, in("far/", "up")) == 0, "readlink");
    check(sftp_symlink(sftp, "nowhere", in("far/", "link2")) == SSH_OK, "symlink to nothing");
    put(in("far/", "moved.from"), "moved", 5);
    check(sftp_rename(sftp, in("far/", "moved.from"), in("far/", "moved")) == SSH_OK, "rename");
    put(in("far/", "gone"), "gone", 4);
    check(sftp_unlink(sftp, in("far/", "gone")) == SSH_OK, "unlink");
    puts("done");
    return 0;
}

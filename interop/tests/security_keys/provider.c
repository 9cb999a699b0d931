/*
 * A security key made of software, with OpenSSH's interface for libraries that talk to real ones (sk-api.h, version 10).
 *
 * A key's handle is its private key. LH_SK_PIN is the PIN; without it there is none. LH_SK_STORE is a folder in which resident
 * keys lie, a file each. The application "ssh:crash" ends the process, "ssh:noise" prints where a caller's answers go.
 */
#include <dirent.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRESENCE 0x01
#define VERIFICATION 0x04
#define FORCE 0x10
#define RESIDENT 0x20
#define GENERAL -1
#define UNSUPPORTED -2
#define PIN_REQUIRED -3
#define EXISTS -5
#define LONGEST 512

struct enrolled {
  uint8_t flags;
  uint8_t *public_key;
  size_t public_key_len;
  uint8_t *handle;
  size_t handle_len;
  uint8_t *signature;
  size_t signature_len;
  uint8_t *certificate;
  size_t certificate_len;
  uint8_t *authdata;
  size_t authdata_len;
};
struct signed_data {
  uint8_t flags;
  uint32_t counter;
  uint8_t *r;
  size_t r_len;
  uint8_t *s;
  size_t s_len;
};
struct resident {
  uint32_t alg;
  size_t slot;
  char *application;
  struct enrolled key;
  uint8_t flags;
  uint8_t *user;
  size_t user_len;
};
struct option {
  char *name;
  char *value;
  uint8_t required;
};

/* What lies in a file of the store. */
struct stored {
  uint32_t alg;
  uint8_t flags;
  char application[LONGEST];
  uint8_t user[32];
  size_t handle_len;
  uint8_t handle[LONGEST];
};

uint32_t sk_api_version(void) { return 0x000a0000; }

static uint8_t *copy(const void *from, size_t len) {
  uint8_t *to = malloc(len ? len : 1);
  memcpy(to, from, len);
  return to;
}

/* The user types it, or the hardware has none. */
static int pin_is_right(const char *pin) {
  const char *real = getenv("LH_SK_PIN");
  return real == NULL || (pin != NULL && strcmp(pin, real) == 0);
}

static const char *option(struct option **options, const char *name) {
  for (size_t i = 0; options != NULL && options[i] != NULL; i++)
    if (strcmp(options[i]->name, name) == 0) return options[i]->value;
  return NULL;
}

/* Files of the store are named after what tells keys apart. */
static void path_of(char *path, size_t size, const char *application, const uint8_t *user) {
  uint8_t sum[SHA256_DIGEST_LENGTH], all[LONGEST + 32] = {0};
  strncpy((char *)all, application, LONGEST - 1);
  memcpy(all + LONGEST, user, 32);
  SHA256(all, sizeof all, sum);
  snprintf(path, size, "%s/%02x%02x%02x%02x", getenv("LH_SK_STORE"), sum[0], sum[1], sum[2], sum[3]);
}

static int put_public(EVP_PKEY *key, uint32_t alg, struct enrolled *out) {
  uint8_t point[65];
  size_t len = sizeof point;
  int done = alg == 1 ? EVP_PKEY_get_raw_public_key(key, point, &len)
                      : EVP_PKEY_get_octet_string_param(key, "encoded-pub-key", point, sizeof point, &len);
  if (done != 1) return 0;
  out->public_key = copy(point, len);
  out->public_key_len = len;
  return 1;
}

int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application, uint8_t flags,
              const char *pin, struct option **options, struct enrolled **response) {
  if (strcmp(application, "ssh:crash") == 0) abort();
  if (strcmp(application, "ssh:noise") == 0) printf("touch me\n"), fflush(stdout);
  if (alg > 1) return UNSUPPORTED;
  if ((flags & (VERIFICATION | RESIDENT)) && !pin_is_right(pin)) return PIN_REQUIRED;
  uint8_t user[32] = {0};
  const char *name = option(options, "user");
  if (name != NULL) memcpy(user, name, strnlen(name, sizeof user));
  char path[4096];
  if (flags & RESIDENT) {
    if (getenv("LH_SK_STORE") == NULL) return UNSUPPORTED;
    path_of(path, sizeof path, application, user);
    FILE *there = fopen(path, "r");
    if (there != NULL) {
      fclose(there);
      if (!(flags & FORCE)) return EXISTS;
    }
  }
  EVP_PKEY *key = alg == 1 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") : EVP_EC_gen("P-256");
  struct enrolled *out = calloc(1, sizeof *out);
  if (key == NULL || !put_public(key, alg, out)) return GENERAL;
  unsigned char *der = NULL;
  int len = i2d_PrivateKey(key, &der);
  if (len <= 0 || len > LONGEST) return GENERAL;
  out->flags = flags;
  out->handle = copy(der, len);
  out->handle_len = len;
  /* Not a real attestation: what the caller can see that its challenge arrived. */
  out->signature = copy(challenge, challenge_len);
  out->signature_len = challenge_len;
  out->certificate = copy("certificate", 11);
  out->certificate_len = 11;
  out->authdata = copy("authdata", 8);
  out->authdata_len = 8;
  if (flags & RESIDENT) {
    struct stored stored = {.alg = alg, .flags = flags, .handle_len = len};
    strncpy(stored.application, application, LONGEST - 1);
    memcpy(stored.user, user, sizeof user);
    memcpy(stored.handle, der, len);
    FILE *file = fopen(path, "w");
    if (file == NULL || fwrite(&stored, sizeof stored, 1, file) != 1 || fclose(file) != 0) return GENERAL;
  }
  OPENSSL_free(der);
  EVP_PKEY_free(key);
  *response = out;
  return 0;
}

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application, const uint8_t *handle,
            size_t handle_len, uint8_t flags, const char *pin, struct option **options,
            struct signed_data **response) {
  (void)options;
  if (strcmp(application, "ssh:crash") == 0) abort();
  if ((flags & VERIFICATION) && !pin_is_right(pin)) return PIN_REQUIRED;
  const unsigned char *der = handle;
  EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &der, handle_len);
  if (key == NULL) return GENERAL;
  uint32_t counter = 7;
  uint8_t message[SHA256_DIGEST_LENGTH * 2 + 5];
  SHA256((const uint8_t *)application, strlen(application), message);
  message[32] = flags & (PRESENCE | VERIFICATION);
  message[33] = message[34] = message[35] = 0;
  message[36] = counter;
  SHA256(data, data_len, message + 37);
  uint8_t sig[128];
  size_t len = sizeof sig;
  EVP_MD_CTX *md = EVP_MD_CTX_new();
  if (EVP_DigestSignInit(md, NULL, alg == 1 ? NULL : EVP_sha256(), NULL, key) != 1 ||
      EVP_DigestSign(md, sig, &len, message, sizeof message) != 1)
    return GENERAL;
  struct signed_data *out = calloc(1, sizeof *out);
  out->flags = message[32];
  out->counter = counter;
  if (alg == 1) {
    out->r = copy(sig, len);
    out->r_len = len;
  } else {
    const unsigned char *at = sig;
    ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, len);
    uint8_t number[32];
    out->r_len = BN_bn2bin(ECDSA_SIG_get0_r(numbers), number);
    out->r = copy(number, out->r_len);
    out->s_len = BN_bn2bin(ECDSA_SIG_get0_s(numbers), number);
    out->s = copy(number, out->s_len);
    ECDSA_SIG_free(numbers);
  }
  EVP_MD_CTX_free(md);
  EVP_PKEY_free(key);
  *response = out;
  return 0;
}

int sk_load_resident_keys(const char *pin, struct option **options, struct resident ***keys, size_t *count) {
  (void)options;
  if (!pin_is_right(pin)) return PIN_REQUIRED;
  DIR *store = opendir(getenv("LH_SK_STORE"));
  if (store == NULL) return GENERAL;
  struct resident **list = calloc(64, sizeof *list);
  size_t found = 0;
  for (struct dirent *entry; (entry = readdir(store)) != NULL && found < 64;) {
    char path[4096];
    struct stored stored;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", getenv("LH_SK_STORE"), entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL || fread(&stored, sizeof stored, 1, file) != 1) return GENERAL;
    fclose(file);
    struct resident *key = calloc(1, sizeof *key);
    key->alg = stored.alg;
    key->slot = found;
    key->application = strdup(stored.application);
    key->flags = stored.flags;
    key->user = copy(stored.user, sizeof stored.user);
    key->user_len = sizeof stored.user;
    key->key.flags = stored.flags;
    key->key.handle = copy(stored.handle, stored.handle_len);
    key->key.handle_len = stored.handle_len;
    const unsigned char *der = stored.handle;
    EVP_PKEY *pkey = d2i_AutoPrivateKey(NULL, &der, stored.handle_len);
    if (pkey == NULL || !put_public(pkey, stored.alg, &key->key)) return GENERAL;
    EVP_PKEY_free(pkey);
    list[found++] = key;
  }
  closedir(store);
  *keys = list;
  *count = found;
  return 0;
}

/*
 * Keeps curl's TLS session in a file, for a later process to resume.
 *
 * curl's own --ssl-sessions needs a libcurl built with SSLS-EXPORT, which Debian's is not. Loaded before libssl, this
 * writes every ticket to SESSION_FILE, and offers what is in the file to the first connection of the process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*new_session)(SSL *, SSL_SESSION *);

static new_session curls_own;

static void *next(const char *name)
{
  void *found = dlsym(RTLD_NEXT, name);
  if(!found) {
    fprintf(stderr, "session: there is no %s\n", name);
    exit(1);
  }
  return found;
}

/* Another process never sees half a file. */
static void keep(SSL_SESSION *session)
{
  const char *path = getenv("SESSION_FILE");
  char partial[4096];
  FILE *file;
  int whole;

  if(!path)
    return;
  snprintf(partial, sizeof(partial), "%s.partial", path);
  file = fopen(partial, "w");
  whole = file && PEM_write_SSL_SESSION(file, session);
  if(file && fclose(file))
    whole = 0;
  if(!whole || rename(partial, path))
    perror("session: the ticket could not be kept");
}

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
  keep(session);
  return curls_own ? curls_own(ssl, session) : 0;
}

void SSL_CTX_sess_set_new_cb(SSL_CTX *context, new_session callback)
{
  void (*set)(SSL_CTX *, new_session) = (void (*)(SSL_CTX *, new_session))next("SSL_CTX_sess_set_new_cb");
  curls_own = callback;
  set(context, on_new_session);
}

static void offer(SSL *ssl)
{
  static int offered;
  const char *path = getenv("SESSION_FILE");
  SSL_SESSION *session;
  FILE *file;

  if(offered++ || !path)
    return;
  file = fopen(path, "r");
  if(!file)
    return;
  session = PEM_read_SSL_SESSION(file, NULL, NULL, NULL);
  fclose(file);
  if(!session || !SSL_set_session(ssl, session))
    fprintf(stderr, "session: what is in %s cannot be offered\n", path);
  SSL_SESSION_free(session);
}

int SSL_connect(SSL *ssl)
{
  int (*connect)(SSL *) = (int (*)(SSL *))next("SSL_connect");
  int first = SSL_in_before(ssl), done;

  if(first)
    offer(ssl);
  done = connect(ssl);
  if(done == 1)
    fprintf(stderr, "session: resumed=%s\n", SSL_session_reused(ssl) ? "true" : "false");
  return done;
}

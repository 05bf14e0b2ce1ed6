#include <pergola/pergola.h>

#include <stdio.h>

int main(void) {
  pergola_session session;
  if (pergola_session_create(NULL, &session) != PERGOLA_OK) {
    fprintf(stderr, "%s\n", pergola_last_error());
    return 1;
  }
  pergola_session_destroy(session);
  puts(pergola_version());
  return 0;
}

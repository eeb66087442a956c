/* A flag for SIGINT and SIGTERM. Not in the library: signals belong to whoever
 * owns main(). */
#ifndef NABLA_TOOLS_SIGNALS_H
#define NABLA_TOOLS_SIGNALS_H

/* From now on the first SIGINT and the first SIGTERM only set a flag, a second
 * one of the same kind ends the process as by default. SIGXFSZ and SIGPIPE are
 * ignored, so that they show as EFBIG and EPIPE. Call once, before threads
 * start; one thread. */
void cli_signals_install(void);

/* Returns the number of the first SIGINT or SIGTERM received since, or 0.
 * Thread-safe and cheap enough for every block of work. */
int cli_signals_received(void);

#endif

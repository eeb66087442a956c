/* A flag for signals that ask the process to end. Not in the library: signals
 * belong to whoever owns main(). */
#ifndef NABLA_TOOLS_SIGNALS_H
#define NABLA_TOOLS_SIGNALS_H

/* From now on the first of each kind in signals.def only sets a flag, and so
 * does the first of each real-time signal; one that is ignored, as by nohup,
 * stays ignored. SIGXFSZ and SIGPIPE are ignored, so that they show as EFBIG
 * and EPIPE. Call once, before threads start; one thread. */
void cli_signals_install(void);

/* Returns the number of the first signal received since, or 0. Thread-safe and
 * cheap enough for every block of work. */
int cli_signals_received(void);

/* 0 when SIGPIPE was ignored before. */
int cli_signals_pipe_kills(void);

#endif

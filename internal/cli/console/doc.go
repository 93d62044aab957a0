// Package console is what all commands share: the streams, the flags for output and logs, errors and exit codes, and signals.
//
// Data goes to stdout and everything else to stderr. An error is one line that names the flag, file or value and says
// what to do. ExitCode is the one place that maps an error to an exit code: 0 (success), 1 (failed), 2 (usage),
// 3 (inconclusive) or 130 (interrupted). A Console holds everything that a command touches outside itself, so that a
// test can run a whole command with streams, an environment, a clock and signals of its own.
//
// It contains no command and knows nothing about clusters.
//
// Floor: F4, a part of internal/cli.
package console

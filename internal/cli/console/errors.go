package console

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// The exit codes; `rehearse help exit-codes` explains them.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitInconclusive = 3
	ExitInterrupted  = 130
)

// UsageError reports an invalid command line: a retry cannot succeed, a different command line can.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// Usagef formats a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// InconclusiveError reports that the command has no result: a replay diverged, or a record is incomplete.
type InconclusiveError struct{ Message string }

func (e *InconclusiveError) Error() string { return e.Message }

// ErrInterrupted ends a command that the user stopped. It is not printed, because the user knows.
var ErrInterrupted = errors.New("interrupted")

// ExitError ends a command with an exit code after it has printed its result itself.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode is the one place that maps an error to an exit code.
func ExitCode(err error) int {
	var exit *ExitError
	var usage *UsageError
	var clusterUsage *cluster.UsageError
	var inconclusive *InconclusiveError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrInterrupted):
		return ExitInterrupted
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage), errors.As(err, &clusterUsage):
		return ExitUsage
	case errors.As(err, &inconclusive):
		return ExitInconclusive
	}
	return ExitFailed
}

// Report prints an error as one line; for a usage error it adds the command whose help explains the usage.
func (c *Console) Report(err error, command string) {
	var exit *ExitError
	if errors.Is(err, ErrInterrupted) || errors.As(err, &exit) {
		return
	}
	line := Message(err)
	if ExitCode(err) == ExitUsage {
		line += fmt.Sprintf(" (see '%s --help')", command)
	}
	c.Say("rehearse: %s", line)
}

// Message is an error as one line, whatever library the error comes from.
func Message(err error) string {
	var parts []string
	for _, l := range strings.Split(err.Error(), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			parts = append(parts, l)
		}
	}
	return strings.Join(parts, "; ")
}

// parserDetails matches what a flag of the library adds to an error and does not help a user.
var parserDetails = regexp.MustCompile(`strconv\.Parse\w+: parsing "[^"]*": `)

// ParserError is an error of the command line's parser as a UsageError.
func ParserError(err error) error {
	line := strings.Replace(Message(err), "; Did you mean this?; ", "; did you mean: ", 1)
	return &UsageError{parserDetails.ReplaceAllString(line, "")}
}

// NoArgs rejects arguments of a command that takes only flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// RejectEmpty rejects flags that were given an empty value: an unset variable of a shell script must not mean the default.
func RejectEmpty(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f.Changed && (f.Value.String() == "" || f.Value.String() == "[]") {
			return Usagef("--%s is empty", name)
		}
	}
	return nil
}

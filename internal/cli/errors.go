package cli

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
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitInterrupted  = 130
)

// UsageError is a command line that cannot be right: another try will not help, another command line will.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// inconclusiveError says that nothing can be concluded: a run did not go as it was recorded, or its record is no whole one.
type inconclusiveError struct{ message string }

func (e *inconclusiveError) Error() string { return e.message }

// errInterrupted ends a command that the user stopped. It is silent, because the user knows.
var errInterrupted = errors.New("interrupted")

// exitError carries an exit code of another program's making, whose message is out already.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode is the one place where an error becomes a number.
func exitCode(err error) int {
	var foreign *exitError
	var ours *UsageError
	var clusters *cluster.UsageError
	var open *inconclusiveError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &foreign):
		return foreign.code
	case errors.As(err, &ours), errors.As(err, &clusters):
		return exitUsage
	case errors.As(err, &open):
		return exitInconclusive
	}
	return exitFailed
}

// report prints an error as one line, with the command whose help would have told.
func (a *app) report(err error, command string) {
	var foreign *exitError
	if errors.Is(err, errInterrupted) || errors.As(err, &foreign) {
		return
	}
	line := message(err)
	if exitCode(err) == exitUsage {
		line += fmt.Sprintf(" (see '%s --help')", command)
	}
	a.say("rehearse: %s", line)
}

// message folds an error into one line, whatever library it comes from.
func message(err error) string {
	var parts []string
	for _, l := range strings.Split(err.Error(), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			parts = append(parts, l)
		}
	}
	return strings.Join(parts, "; ")
}

// parserDetails is what a flag of the library adds to an error that says nothing to a user.
var parserDetails = regexp.MustCompile(`strconv\.Parse\w+: parsing "[^"]*": `)

// parserMessage is the message of an error that the parser of the command line found.
func parserMessage(err error) string {
	line := strings.Replace(message(err), "; Did you mean this?; ", "; did you mean: ", 1)
	return parserDetails.ReplaceAllString(line, "")
}

// noArgs rejects arguments of a command that takes only flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

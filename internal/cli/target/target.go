package target

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// Default finds the cluster for a command line without a name. If it finds none, reason says why.
func Default(root statedir.Root, getenv func(string) string) (name, reason string, err error) {
	wanted := getenv("REHEARSE_NAME")
	entries, err := root.List()
	if err != nil {
		return "", "", err
	}
	var running []string
	for _, e := range entries {
		if !isRunning(e) {
			continue
		}
		if e.Name == wanted || wanted == "" && e.Name == Unnamed {
			return e.Name, "", nil
		}
		running = append(running, e.Name)
	}
	switch {
	case wanted != "":
		return "", fmt.Sprintf("cluster %q (from REHEARSE_NAME) is not running; start it: %s", wanted, StartCommand(root, wanted)), nil
	case len(running) == 0:
		return "", "no rehearse cluster is running; start one (rehearse up), or name another with --context", nil
	case len(running) > 1:
		return "", fmt.Sprintf("several clusters are running (%s); choose one with REHEARSE_NAME=NAME or --context rehearse-NAME",
			strings.Join(running, ", ")), nil
	}
	return running[0], "", nil
}

// Choose returns the running cluster of a name, or the default cluster if the name is empty.
func Choose(root statedir.Root, name string, getenv func(string) string) (string, error) {
	if name == "" {
		name, reason, err := Default(root, getenv)
		if err == nil && reason != "" {
			err = errors.New(reason)
		}
		return name, err
	}
	if err := ValidateName(name); err != nil {
		return "", err
	}
	e, _, err := root.Look(name)
	if err == nil && !isRunning(e) {
		err = fmt.Errorf("cluster %q is not running; start it: %s", name, StartCommand(root, name))
	}
	return name, err
}

// StartCommand is the command line that starts a cluster that does not run.
func StartCommand(root statedir.Root, name string) string {
	if stopped, err := root.LoadStopped(name); err == nil && stopped != nil {
		return "rehearse start " + name
	}
	return "rehearse up --name " + name
}

func isRunning(e statedir.Entry) bool {
	return e.Live && e.Record != nil && e.Record.Status == statedir.Running
}

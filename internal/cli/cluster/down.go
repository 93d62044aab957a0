package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

const (
	// stopTimeout is how long a clean stop of a cluster may take.
	stopTimeout = 30 * time.Second
	// killTimeout is how long a process may take to exit after SIGKILL.
	killTimeout = 5 * time.Second
	// recordTimeout is the longest time between a claim of a name and the record of the process that claims it.
	recordTimeout = 2 * time.Second
)

func (a *app) downCommand() *cobra.Command {
	var name string
	var all bool
	cmd := &cobra.Command{
		Use:        "down [NAME...]",
		SuggestFor: []string{"delete"}, // as with kind and kwokctl
		Short:      "Stop clusters",
		Long: `Stop clusters that run in the background or in another terminal.

down removes the cluster's context and state directory, and never removes a --data-dir. It succeeds if the cluster does not
exist. Of a cluster that 'rehearse stop' has stopped, it removes the configuration; to start a cluster again, use stop instead.`,
		Example: `  rehearse down
  rehearse down one two
  rehearse down --all`,
		ValidArgsFunction: target.Complete(a.Getenv),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := statedir.DefaultRoot(a.Getenv)
			if err != nil {
				return err
			}
			names, err := a.downNames(root, cmd, args, name, all)
			if err != nil {
				return err
			}
			var errs []error
			for _, n := range names {
				errs = append(errs, a.stop(root, n))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&name, "name", target.DefaultName(a.Getenv), "name of the cluster")
	cmd.Flags().BoolVar(&all, "all", false, "stop every cluster")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(a.Getenv))
	return cmd
}

// downNames are the names of the clusters to stop.
func (a *app) downNames(root statedir.Root, cmd *cobra.Command, args []string, name string, all bool) ([]string, error) {
	if all {
		if len(args) > 0 || cmd.Flags().Changed("name") {
			return nil, console.Usagef("--all and names are mutually exclusive")
		}
		entries, err := root.List()
		if err != nil {
			return nil, err
		}
		stopped, err := root.StoppedNames()
		if err == nil && len(entries)+len(stopped) == 0 {
			a.Say("No clusters are running.")
		}
		for _, e := range entries {
			args = append(args, e.Name)
		}
		args = append(args, stopped...)
		slices.Sort(args)
		return slices.Compact(args), err
	}
	if len(args) == 0 || cmd.Flags().Changed("name") {
		args = append(args, name)
	}
	for _, n := range args {
		if err := target.ValidateName(n); err != nil {
			return nil, err
		}
	}
	slices.Sort(args)
	return slices.Compact(args), nil
}

// stop stops one cluster and removes what it left.
func (a *app) stop(root statedir.Root, name string) error {
	e, ok, err := root.Look(name)
	if err != nil {
		return err
	}
	if !ok {
		if err := a.removeLeftovers(root, name); err != nil {
			return err
		}
		removed, err := root.RemoveStopped(name)
		switch {
		case err != nil:
			return fmt.Errorf("state directory: %w", err)
		case removed:
			a.Say("Cluster %q was stopped; its configuration has been removed. Its data directory stays.", name)
		default:
			a.Say("Cluster %q is not running.", name)
		}
		return nil
	}
	if e.Live {
		if err := terminate(root, name); err != nil {
			return err
		}
	}
	if err := a.clear(root, name, false); err != nil {
		return err
	}
	if _, err := root.RemoveStopped(name); err != nil { // of a cluster that was about to start or to fail
		return fmt.Errorf("state directory: %w", err)
	}
	a.Say("Cluster %q has stopped.", name)
	return nil
}

// removeLeftovers removes the directory of a name that no cluster has: at most the log of a cluster that failed. It takes
// the lock first, because a cluster may have started to use the directory in the meantime.
func (a *app) removeLeftovers(root statedir.Root, name string) error {
	if _, err := os.Stat(root.Path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return a.clear(root, name, false)
}

// terminate sends SIGTERM to the process of a cluster, and SIGKILL if it does not exit.
func terminate(root statedir.Root, name string) error {
	rec := awaitRecord(root, name)
	if rec == nil {
		return nil // it exited in the meantime
	}
	if !rec.Alive() {
		return fmt.Errorf("cluster %q: its process (pid %d) is not visible from here; stop it in the container or on the machine where it runs", name, rec.PID)
	}
	p, err := os.FindProcess(rec.PID)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if errors.Is(err, os.ErrProcessDone) || err == nil && root.AwaitEnd(name, stopTimeout) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop cluster %q (pid %d): %w", name, rec.PID, err)
	}
	if rec.Alive() {
		_ = p.Kill()
	}
	if !root.AwaitEnd(name, killTimeout) {
		return fmt.Errorf("cluster %q (pid %d): did not exit %s after SIGKILL", name, rec.PID, killTimeout)
	}
	return nil
}

// awaitRecord waits until a cluster that is starting has written its record.
func awaitRecord(root statedir.Root, name string) *statedir.Record {
	for deadline := time.Now().Add(recordTimeout); ; time.Sleep(10 * time.Millisecond) {
		e, _, err := root.Look(name)
		if err == nil && !e.Live {
			return nil
		}
		if err == nil && e.Record != nil && e.Record.PID != 0 {
			return e.Record
		}
		if time.Now().After(deadline) {
			return &statedir.Record{Name: name}
		}
	}
}

// clear removes what a dead cluster left: its kubeconfig entries and its directory. If the cluster was started again in
// the meantime, it removes nothing.
func (a *app) clear(root statedir.Root, name string, keepLog bool) error {
	dir, stale, err := root.Claim(name)
	var live *statedir.LiveError
	if errors.As(err, &live) {
		return nil
	}
	if err != nil {
		return err
	}
	if stale != nil {
		a.removeContext(*stale)
	}
	return dir.Release(keepLog)
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/config"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

func (a *app) stopCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "stop [NAME...]",
		Short: "Stop clusters that have a data directory, to start them again",
		Long: `Stop clusters that were started with --data-dir, and keep their configuration for 'rehearse start'.

The process of the cluster exits, and its context is removed from the kubeconfig. 'rehearse down' removes the configuration; the
data directory always stays. A cluster without --data-dir loses its objects when it stops, so stop rejects it.`,
		Example: `  rehearse up --name demo --data-dir ./demo --detach
  rehearse stop demo
  rehearse start demo`,
		ValidArgsFunction: target.Complete(a.Getenv),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachName(cmd, args, name, func(root statedir.Root, n string) error { return a.suspend(root, n) })
		},
	}
	cmd.Flags().StringVar(&name, "name", target.DefaultName(a.Getenv), "name of the cluster")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(a.Getenv))
	return cmd
}

// eachName calls do for the names of a command line.
func (a *app) eachName(cmd *cobra.Command, args []string, name string, do func(statedir.Root, string) error) error {
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return err
	}
	names, err := a.downNames(root, cmd, args, name, false)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		errs = append(errs, do(root, n))
	}
	return errors.Join(errs...)
}

// suspend stops a cluster and keeps its configuration.
func (a *app) suspend(root statedir.Root, name string) error {
	e, ok, err := root.Look(name)
	if err != nil {
		return err
	}
	if !ok {
		stopped, err := root.LoadStopped(name)
		if err == nil && stopped == nil {
			err = fmt.Errorf("cluster %q does not exist; start one: rehearse up --name %s", name, name)
		}
		if err == nil {
			a.Say("Cluster %q is already stopped.", name)
		}
		return err
	}
	kept, err := a.keep(root, name, false)
	if err != nil {
		if kept, _ = root.LoadStopped(name); kept == nil {
			return err
		}
	}
	if e.Live {
		if err := terminate(root, name); err != nil {
			_, e := root.RemoveStopped(name) // it still runs
			return errors.Join(err, e)
		}
		// A cluster that became ready meanwhile has removed the configuration.
		if err := root.SaveStopped(*kept); err != nil {
			return err
		}
	}
	if err := a.clear(root, name, false); err != nil {
		return err
	}
	a.Say("Cluster %q has stopped; start it again: rehearse start %s", name, name)
	return nil
}

// errInMemory reports a cluster that cannot be started again.
var errInMemory = errors.New("it has no --data-dir, so its objects are lost when it stops; save them with 'rehearse snapshot save', and use 'rehearse down'")

// keep saves the configuration of a cluster that runs, failed or was killed, so that start can start it again. It returns what it has saved.
func (a *app) keep(root statedir.Root, name string, failed bool) (*statedir.Stopped, error) {
	rec := awaitRecord(root, name)
	if rec == nil { // it does not run
		e, _, err := root.Look(name)
		if err != nil {
			return nil, err
		}
		if rec = e.Record; rec == nil {
			rec = &statedir.Record{Name: name}
		}
	}
	data, err := os.ReadFile(root.ConfigPath(name))
	if err != nil {
		return nil, fmt.Errorf("stop cluster %q: its configuration is missing: %w", name, err)
	}
	var c v1alpha1.Cluster
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("stop cluster %q: %s: %w", name, root.ConfigPath(name), err)
	}
	switch {
	case len(c.Spec.EtcdServers) > 0:
		return nil, fmt.Errorf("stop cluster %q: its objects are in the etcd of --etcd-servers, not in a --data-dir; use 'rehearse down', and 'rehearse up' with the same flags", name)
	case c.Spec.DataDir == "":
		return nil, fmt.Errorf("stop cluster %q: %w", name, errInMemory)
	case c.Spec.From != "" && rec.Status != statedir.Running:
		return nil, fmt.Errorf("stop cluster %q: the snapshot of --from is not restored completely; use 'rehearse down', and remove the data directory %s", name, c.Spec.DataDir)
	}
	// The data directory has the nodes, also those that the user has deleted, and the objects of the snapshot.
	nodes, no := 0, false
	c.Spec.Nodes, c.Spec.From, c.Spec.Detach = &nodes, "", &no
	if rec.KubeconfigPath != "" {
		c.Spec.Kubeconfig = rec.KubeconfigPath
	}
	kept, err := yaml.Marshal(c)
	if err != nil {
		return nil, err
	}
	out := &statedir.Stopped{
		Name: name, At: a.Now().UTC().Truncate(time.Second), DataDir: c.Spec.DataDir, Failed: failed, Port: portOf(rec.URL), Config: string(kept),
	}
	// A cluster that is starting again has no URL yet; it will have the port that it had before.
	if rec.URL == "" {
		if before, err := root.LoadStopped(name); err == nil && before != nil {
			out.Port = before.Port
		}
	}
	return out, root.SaveStopped(*out)
}

// portOf is the port of a URL, 0 if it has none.
func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}

// checkStopped rejects the name of a stopped cluster for another cluster.
func (a *app) checkStopped(o *upOptions) error {
	if o.resume != notStopped {
		return nil
	}
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return err
	}
	name := o.cluster.Name
	stopped, err := root.LoadStopped(name)
	if err == nil && stopped != nil && !(stopped.Failed && isSame(stopped.DataDir, o.cluster.DataDir)) {
		err = fmt.Errorf("cluster %q is stopped; start it (rehearse start %s), remove it (rehearse down %s), or choose another --name", name, name, name)
	}
	return err
}

// isSame reports whether two paths name the same directory.
func isSame(one, other string) bool {
	return other != "" && absolutePaths([]string{one})[0] == absolutePaths([]string{other})[0]
}

// forgetStopped removes what was kept of a stopped cluster.
func (a *app) forgetStopped(name string) error {
	root, err := statedir.DefaultRoot(a.Getenv)
	if err == nil {
		_, err = root.RemoveStopped(name)
	}
	return err
}

func (a *app) startCommand() *cobra.Command {
	var name string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "start [NAME...]",
		Short: "Start stopped clusters again",
		Long: `Start clusters that 'rehearse stop' has stopped, or that were killed or failed, with the same configuration, in the background.

The API server listens on the port that it had before, so that copies of the kubeconfig stay valid. If another program uses that
port, and --port was not given to up, start chooses a free one. start reads the files of --stages again.`,
		Example: `  rehearse start demo
  rehearse start demo --timeout 30s`,
		ValidArgsFunction: target.CompleteStopped(a.Getenv),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return console.Usagef("--timeout %s: must be more than 0", timeout)
			}
			return a.eachName(cmd, args, name, func(root statedir.Root, n string) error { return a.resume(cmd.Context(), root, n, timeout) })
		},
	}
	cmd.Flags().StringVar(&name, "name", target.DefaultName(a.Getenv), "name of the cluster")
	cmd.Flags().DurationVar(&timeout, "timeout", startTimeout, "how long the start may take")
	_ = cmd.RegisterFlagCompletionFunc("name", target.CompleteStopped(a.Getenv))
	return cmd
}

// resume starts a stopped cluster.
func (a *app) resume(ctx context.Context, root statedir.Root, name string, timeout time.Duration) error {
	e, ok, err := root.Look(name)
	switch {
	case err != nil:
		return err
	case ok && e.Live:
		a.Say("Cluster %q is already running.", name)
		return nil
	case ok: // it was killed
		if _, err := a.keep(root, name, true); err != nil && !isStopped(root, name) {
			return err
		}
		if err := a.clear(root, name, false); err != nil {
			return err
		}
	}
	stopped, err := root.LoadStopped(name)
	if err != nil {
		return err
	}
	if stopped == nil {
		return fmt.Errorf("cluster %q is not stopped and does not run; start one: rehearse up --name %s", name, name)
	}
	if _, err := os.Stat(stopped.DataDir); err != nil {
		return fmt.Errorf("start cluster %q: data directory: %w; remove the cluster with 'rehearse down %s'", name, err, name)
	}
	cmd, o := a.newUp()
	file, err := config.Decode("cluster.yaml", []byte(stopped.Config))
	if err == nil {
		_, err = file.Apply(cmd.Flags())
	}
	if err != nil {
		return fmt.Errorf("start cluster %q: %w", name, err)
	}
	set := func(flag string, value any) {
		err = errors.Join(err, cmd.Flags().Set(flag, fmt.Sprint(value)))
	}
	set("name", name)
	set("timeout", timeout)
	port := stopped.Port
	if o.cluster.Port == 0 && port > 0 && !a.isFree(o.cluster.BindAddress, port) {
		port = 0
	}
	set("resume", port)
	if err != nil {
		return err
	}
	if err := o.validate(cmd); err != nil {
		return err
	}
	return a.detach(ctx, o, childArgs(cmd))
}

// isFree reports whether a cluster can listen on a port, and says so if it cannot.
func (a *app) isFree(address string, port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		a.Say("rehearse: warning: port %d is in use; the cluster gets another port, and copies of its kubeconfig become invalid", port)
		return false
	}
	_ = l.Close()
	return true
}

package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
)

// clusterList is the output of `list -o json`, versioned like a Kubernetes kind.
type clusterList struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Items      []clusterItem `json:"items"`
}

// statusStopped is the status of a cluster that 'rehearse start' can start again.
const statusStopped = "stopped"

// clusterItem is one cluster of a list. Status is running, starting, unhealthy or stopped. A stopped cluster has only a name, a
// status and a data directory.
type clusterItem struct {
	Name       string    `json:"name"`
	Status     string    `json:"status"`
	URL        string    `json:"url,omitempty"`
	Context    string    `json:"context,omitempty"`
	Started    time.Time `json:"started,omitzero"`
	PID        int       `json:"pid,omitempty"`
	Kubeconfig string    `json:"kubeconfig,omitempty"`
	DataDir    string    `json:"dataDir,omitempty"`
	Log        string    `json:"log,omitempty"`
	Version    string    `json:"version,omitempty"`
}

// listCommand returns list, which is also 'get clusters'.
func (a *app) listCommand(use string) *cobra.Command {
	out := console.NewOutput("", "json", "yaml", "wide", "name")
	cmd := &cobra.Command{
		Use:   use,
		Short: "List clusters",
		Long:  "List the running clusters, and those that 'rehearse stop' has stopped.",
		Example: `  rehearse list
  rehearse list -o json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := statedir.DefaultRoot(a.Getenv)
			if err != nil {
				return err
			}
			items, err := a.clusters(cmd.Context(), root)
			if err != nil {
				return err
			}
			return a.printClusters(&out, items)
		},
	}
	out.AddFlag(cmd, "output")
	return cmd
}

// clusters lists the running clusters with their health, and removes what killed ones left.
func (a *app) clusters(ctx context.Context, root statedir.Root) ([]clusterItem, error) {
	entries, err := root.List()
	if err != nil {
		return nil, err
	}
	found := make([]clusterItem, len(entries))
	dead := make([]bool, len(entries))
	var wg sync.WaitGroup
	for i, e := range entries {
		if dead[i] = !e.Live; dead[i] {
			continue
		}
		it := &found[i]
		if *it = a.item(root, e); it.Status == statedir.Running {
			wg.Go(func() {
				if healthy(ctx, root.KubeconfigPath(it.Name)) != nil {
					it.Status = "unhealthy"
					dead[i] = root.CheckFree(it.Name) == nil // the lock of a process outlives it for a moment
				}
			})
		}
	}
	wg.Wait()
	items := []clusterItem{}
	for i, e := range entries {
		if !dead[i] {
			items = append(items, found[i])
			continue
		}
		again := ""
		if _, err := a.keep(root, e.Name, true); err == nil || isStopped(root, e.Name) {
			again = "; start it again: rehearse start " + e.Name
		}
		if err := a.clear(root, e.Name, true); err != nil {
			return nil, err
		}
		a.Say("Cluster %q was killed; its context and files were removed (log: %s)%s.", e.Name, root.LogPath(e.Name), again)
	}
	return a.addStopped(root, items)
}

// isStopped reports whether a configuration of a cluster is kept. A cluster that failed keeps it before its process ends.
func isStopped(root statedir.Root, name string) bool {
	stopped, err := root.LoadStopped(name)
	return err == nil && stopped != nil
}

// addStopped adds the stopped clusters, in the order of the names.
func (a *app) addStopped(root statedir.Root, items []clusterItem) ([]clusterItem, error) {
	names, err := root.StoppedNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if slices.ContainsFunc(items, func(i clusterItem) bool { return i.Name == name }) {
			continue // it starts
		}
		item := clusterItem{Name: name, Status: statusStopped}
		if s, err := root.LoadStopped(name); err == nil && s != nil {
			item.DataDir = s.DataDir
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b clusterItem) int { return strings.Compare(a.Name, b.Name) })
	return items, nil
}

func (a *app) item(root statedir.Root, e statedir.Entry) clusterItem {
	it := clusterItem{Name: e.Name, Status: statedir.Starting, Log: root.LogPath(e.Name)}
	if r := e.Record; r != nil && r.PID != 0 {
		it.Status, it.URL, it.Context, it.Started, it.PID = r.Status, r.URL, r.Context, r.Started, r.PID
		it.Kubeconfig, it.DataDir, it.Version = r.KubeconfigPath, r.DataDir, r.Version
	}
	return it
}

func (a *app) printClusters(out *console.Output, items []clusterItem) error {
	if out.IsMachineReadable() {
		return out.Print(a.Out, clusterList{APIVersion: console.APIVersion, Kind: "ClusterList", Items: items})
	}
	if len(items) == 0 {
		a.Say("No clusters are running; start one: rehearse up")
		return nil
	}
	if out.String() == "name" {
		for _, it := range items {
			fmt.Fprintln(a.Out, it.Name)
		}
		return nil
	}
	return a.table(a.Out, items, out.String() == "wide")
}

func (a *app) table(to io.Writer, items []clusterItem, wide bool) error {
	w := tabwriter.NewWriter(to, 0, 8, 3, ' ', 0)
	head := "NAME\tSTATUS\tURL\tCONTEXT\tAGE"
	if wide {
		head += "\tPID\tDATA-DIR\tKUBECONFIG\tLOG"
	}
	fmt.Fprintln(w, head)
	for _, it := range items {
		age := "-"
		if !it.Started.IsZero() {
			age = duration.HumanDuration(a.Now().Sub(it.Started))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s", it.Name, it.Status, dash(it.URL), dash(it.Context), age)
		if wide {
			pid := ""
			if it.PID != 0 {
				pid = strconv.Itoa(it.PID)
			}
			fmt.Fprintf(w, "\t%s\t%s\t%s\t%s", dash(pid), dash(it.DataDir), dash(it.Kubeconfig), dash(it.Log))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

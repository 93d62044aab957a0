package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

func (a *app) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Print clusters, the components of a cluster, or a kubeconfig",
		Args:  console.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.listCommand("clusters"), a.componentsCommand(), a.kubeconfigCommand())
	return cmd
}

// running finds a running cluster by its name; without a name, the one that kubectl uses.
func (a *app) running(name string) (statedir.Root, *statedir.Record, error) {
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return "", nil, err
	}
	if name, err = target.Choose(root, name, a.Getenv); err != nil {
		return "", nil, err
	}
	e, _, err := root.Look(name)
	if err == nil && e.Record == nil {
		err = fmt.Errorf("cluster %q is not running", name)
	}
	return root, e.Record, err
}

// addName adds --name to a command for a running cluster.
func (a *app) addName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "", "name of the cluster (default: the running one)")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(a.Getenv))
}

// componentList is the output of `get components -o json`.
type componentList struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []componentItem `json:"items"`
}

// componentItem is one component. Status is running, unhealthy or disabled.
type componentItem struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

const (
	statusUnhealthy = "unhealthy"
	statusDisabled  = "disabled"
)

func (a *app) componentsCommand() *cobra.Command {
	out := console.NewOutput("", "json", "yaml", "wide", "name")
	var name string
	cmd := &cobra.Command{
		Use:   "components",
		Short: "List the components of a running cluster",
		Long: `List the components of a running cluster.

All components run in the process of the cluster. STATUS is running, disabled (by --controllers), or unhealthy: the API server does
not answer at /readyz, which includes its store.`,
		Example: `  rehearse get components
  rehearse get components --name demo -o json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := a.components(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.printComponents(&out, items)
		},
	}
	out.AddFlag(cmd, "output")
	a.addName(cmd, &name)
	return cmd
}

func (a *app) components(ctx context.Context, name string) ([]componentItem, error) {
	root, rec, err := a.running(name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(root.ConfigPath(rec.Name))
	var c v1alpha1.Cluster
	if err == nil {
		err = yaml.Unmarshal(data, &c)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration of cluster %q: %w", rec.Name, err)
	}
	status := statedir.Running
	if err := healthy(ctx, root.KubeconfigPath(rec.Name)); err != nil {
		status = statusUnhealthy
		a.Say("rehearse: warning: cluster %q: %s (log: %s)", rec.Name, console.Message(err), root.LogPath(rec.Name))
	}
	store := componentItem{Name: "store", Status: status, Detail: "in memory"}
	switch {
	case c.Spec.DataDir != "":
		store = componentItem{Name: "etcd", Status: status, Detail: "embedded, " + c.Spec.DataDir}
	case len(c.Spec.EtcdServers) > 0:
		store = componentItem{Name: "etcd", Status: status, Detail: c.Spec.EtcdServers[0]}
	}
	items := []componentItem{{Name: "kube-apiserver", Status: status, Detail: rec.URL}, store}
	for _, part := range cluster.Components(c.Spec.Controllers) {
		item := componentItem{Name: part.Name, Status: statedir.Running, Detail: part.Description}
		if !part.Enabled {
			item.Status = statusDisabled
		}
		items = append(items, item)
	}
	return items, nil
}

func (a *app) printComponents(out *console.Output, items []componentItem) error {
	switch {
	case out.IsMachineReadable():
		return out.Print(a.Out, componentList{APIVersion: console.APIVersion, Kind: "ComponentList", Items: items})
	case out.String() == "name":
		for _, i := range items {
			fmt.Fprintln(a.Out, i.Name)
		}
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATUS\tDETAIL")
	for _, i := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\n", i.Name, i.Status, dash(i.Detail))
	}
	return w.Flush()
}

// defaultExpiration is how long a certificate of get kubeconfig is valid by default.
const defaultExpiration = 24 * time.Hour

// kubeconfigOptions are the flags of get kubeconfig.
type kubeconfigOptions struct {
	name, user string
	groups     []string
	expiration time.Duration
}

func (a *app) kubeconfigCommand() *cobra.Command {
	o := &kubeconfigOptions{}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig of a running cluster, for the administrator or any other user",
		Long: `Print a kubeconfig of a running cluster.

Without --user, it is the administrator's. With --user, it contains a new client certificate for this user and these groups, signed
by the cluster's certificate authority: the user exists only in the certificate, and RBAC decides what it may do. A certificate cannot
be revoked before it expires.`,
		Example: `  rehearse get kubeconfig > admin.kubeconfig
  rehearse get kubeconfig --user jane --group developers --expiration 1h > jane.kubeconfig
  rehearse kubectl --kubeconfig jane.kubeconfig auth can-i --list`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			config, err := a.kubeconfigOf(o)
			if err != nil {
				return err
			}
			data, err := clientcmd.Write(*config)
			if err == nil {
				_, err = a.Out.Write(data)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.user, "user", "", "user of the certificate (default: the administrator's kubeconfig)")
	f.StringSliceVar(&o.groups, "group", nil, "groups of the user; can be repeated")
	f.DurationVar(&o.expiration, "expiration", defaultExpiration, "how long the certificate is valid")
	a.addName(cmd, &o.name)
	return cmd
}

func (o *kubeconfigOptions) validate(cmd *cobra.Command) error {
	if err := console.RejectEmpty(cmd, "name", "user", "group"); err != nil {
		return err
	}
	for _, flag := range []string{"group", "expiration"} {
		if o.user == "" && cmd.Flags().Changed(flag) {
			return console.Usagef("--%s requires --user", flag)
		}
	}
	switch {
	case slices.Contains(o.groups, ""):
		return console.Usagef("--group: a group is empty")
	case o.expiration <= 0:
		return console.Usagef("--expiration %s: must be more than 0", o.expiration)
	}
	return nil
}

// kubeconfigOf returns the kubeconfig of a running cluster for a user.
func (a *app) kubeconfigOf(o *kubeconfigOptions) (*clientcmdapi.Config, error) {
	root, rec, err := a.running(o.name)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(root.KubeconfigPath(rec.Name))
	if err != nil || o.user == "" {
		return config, err
	}
	dir := root.Path(rec.Name)
	if rec.DataDir != "" {
		dir = rec.DataDir
	}
	cert, key, err := signClient(filepath.Join(dir, "pki"), o.user, o.groups, o.expiration, a.Now())
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for user %q: %w", o.user, err)
	}
	name := target.ContextName(rec.Name)
	user := o.user + "@" + name
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = config.Clusters[name]
	out.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	out.Contexts[user] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	out.CurrentContext = user
	return out, nil
}

package scale

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

// flags are the flags of
type flags struct {
	cluster  string
	template string
	request  Request
}

// Command returns scale.
func Command(c *console.Console) *cobra.Command {
	o := &flags{}
	cmd := &cobra.Command{
		Use:   "scale node|pod NAME --replicas N",
		Short: "Create many simulated nodes or pods from a template",
		Long: `Create NAME-0 to NAME-(N-1) from a template, in parallel, and delete those with a higher number.

scale deletes only objects that it created (label rehearse-k8s.github.io/scale=NAME). The scheduler chooses the nodes of the
pods, unless --assign-nodes sets them round robin.

The built-in templates accept these --param keys: cpu, memory, pods, arch, zone for nodes; image, cpu, memory,
restartPolicy, grace for pods. A --template is a Go template of the object in YAML, with .Name, .Namespace, .Index and the
functions param "NAME" "DEFAULT" and quote.`,
		Example: `  rehearse scale node big --replicas 100 --param cpu=96 --param memory=768Gi
  rehearse scale pod web --replicas 1000
  rehearse scale pod web --replicas 0`,
		ValidArgs: []string{string(Node), string(Pod)},
		Args:      scaleArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Kind, o.request.Name = Kind(args[0]), args[1]
			if err := o.validate(cmd); err != nil {
				return err
			}
			return o.run(cmd.Context(), c)
		},
	}
	f, r := cmd.Flags(), &o.request
	f.IntVar(&r.Replicas, "replicas", 0, "desired number of objects")
	f.StringVarP(&r.Namespace, "namespace", "n", "default", "namespace of the pods")
	f.StringToStringVar(&r.Params, "param", nil, "value for the template: KEY=VALUE")
	f.StringVar(&o.template, "template", "", "file with your own template")
	f.BoolVar(&r.AssignNodes, "assign-nodes", false, "set the pods' nodes round robin, without the scheduler")
	f.StringVar(&o.cluster, "name", "", "name of the cluster (default: the running one)")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(c.Getenv))
	return cmd
}

func scaleArgs(_ *cobra.Command, args []string) error {
	kinds := []Kind{Node, Pod}
	if len(args) != 2 {
		return console.Usagef("scale requires a kind (node or pod) and a NAME")
	}
	if !slices.Contains(kinds, Kind(args[0])) {
		return console.Usagef("%q cannot be scaled: must be node or pod", args[0])
	}
	return nil
}

func (o *flags) validate(cmd *cobra.Command) error {
	r := &o.request
	switch {
	case len(validation.IsDNS1123Label(r.Name)) > 0:
		return console.Usagef("name %q: must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit", r.Name)
	case !cmd.Flags().Changed("replicas"):
		return console.Usagef("--replicas is required")
	case r.Replicas < 0:
		return console.Usagef("--replicas %d: must not be negative", r.Replicas)
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return console.Usagef("--namespace %q: must be a valid namespace name", r.Namespace)
	case r.Kind == Node && (cmd.Flags().Changed("namespace") || r.AssignNodes):
		return console.Usagef("--namespace and --assign-nodes apply to pods only")
	}
	if o.template == "" {
		return nil
	}
	text, err := os.ReadFile(o.template)
	if err != nil {
		return console.Usagef("--template: %v", err)
	}
	if r.Template = string(text); r.Template == "" {
		return console.Usagef("--template %s: the file is empty", o.template)
	}
	return nil
}

func (o *flags) run(parent context.Context, c *console.Console) error {
	root, err := statedir.DefaultRoot(c.Getenv)
	if err != nil {
		return err
	}
	name, err := target.Choose(root, o.cluster, c.Getenv)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", root.KubeconfigPath(name))
	if err != nil {
		return err
	}
	config.UserAgent = console.UserAgent
	ctx, stop := c.Interruptible(parent)
	defer stop()
	r := o.request
	p := c.NewProgress()
	r.Progress = atMostTenPerSecond(func(done, total int) { p.Show("%s %s: %d/%d", r.Kind, r.Name, done, total) })
	begin := c.Now()
	result, err := Run(ctx, config, r)
	p.Clear()
	if ctx.Err() != nil {
		err = console.ErrInterrupted
	}
	var bad *TemplateError
	if errors.As(err, &bad) {
		return console.Usagef("%v", bad)
	}
	c.Say("%s %s: %d created, %d deleted, %d already existed (%.1f s)", r.Kind, r.Name,
		result.Created, result.Deleted, result.Kept, c.Now().Sub(begin).Seconds())
	return err
}

// atMostTenPerSecond limits a progress callback to ten calls per second, never concurrent.
func atMostTenPerSecond(f func(done, total int)) func(done, total int) {
	var last atomic.Int64
	return func(done, total int) {
		now := time.Now().UnixMilli()
		before := last.Load()
		if now-before >= 100 && last.CompareAndSwap(before, now) {
			f(done, total)
		}
	}
}

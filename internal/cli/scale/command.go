package scale

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
)

// flags are the flags of
type flags struct {
	cluster  target.Flags
	template string
	resource string
	params   []string
	request  Request
}

// Command returns scale.
func Command(c *console.Console) *cobra.Command {
	o := &flags{}
	cmd := &cobra.Command{
		Use:   "scale KIND [NAME] --replicas N",
		Short: "Create many objects of a kind from a template: nodes, pods, or any other",
		Long: `Create NAME-0 to NAME-(N-1) from a template, in parallel, and delete those with a higher number.

KIND is node or pod, for which there are built-in templates, or with --template any kind as for kubectl. scale deletes only objects
that it created (label rehearse-k8s.github.io/scale=NAME). The scheduler chooses the nodes of the pods, unless --assign-nodes sets
them round robin.

The built-in templates accept these --param keys: cpu, memory, pods, arch, zone, resource.NAME (extended resources),
image.NAME (sizes of images), label.KEY, annotation.KEY for nodes; image, cpu, memory, restartPolicy, grace, resource.NAME for
pods. A --template is a Go template of the object in YAML, with .Name, .Namespace, .Index and the functions
param "NAME" "DEFAULT", params "PREFIX.", bytes and quote.

With --resource, the template is a KwokctlResource of KWOK, and KIND is its name, which is also the default of NAME. Each --param is
a jq program that changes its parameters.`,
		Example: `  rehearse scale node big --replicas 100 --param cpu=96 --param memory=768Gi
  rehearse scale node gpu --replicas 4 --param resource.nvidia.com/gpu=8 --param image.train:v1=9Gi
  rehearse scale pod web --replicas 1000
  rehearse scale pod web --replicas 0
  rehearse scale deployment shop --replicas 20 --template deployment.yaml
  rehearse scale gpu-node --replicas 8 --resource resources.yaml --param .allocatable.cpu=8`,
		ValidArgs: []string{string(Node), string(Pod)},
		Args:      o.parseArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			return o.run(cmd, c)
		},
	}
	f, r := cmd.Flags(), &o.request
	f.IntVar(&r.Replicas, "replicas", 0, "desired number of objects")
	f.StringVarP(&r.Namespace, "namespace", "n", "default", "namespace of the objects")
	f.StringArrayVar(&o.params, "param", nil, "value for the template: KEY=VALUE; with --resource a jq program, such as .allocatable.cpu=8")
	f.StringVar(&o.template, "template", "", "file with your own template")
	f.StringVar(&o.resource, "resource", "", "file with the KwokctlResource named KIND")
	f.IntVar(&r.Digits, "serial-length", 1, "least number of digits in the names of the objects")
	f.BoolVar(&r.AssignNodes, "assign-nodes", false, "set the pods' nodes round robin, without the scheduler")
	o.cluster.AddFlags(cmd, c.Getenv)
	return cmd
}

// kinds are the other names of node and pod, as for kubectl.
var kinds = map[string]Kind{"nodes": Node, "no": Node, "pods": Pod, "po": Pod}

// parseArgs reads the kind and the name.
func (o *flags) parseArgs(_ *cobra.Command, args []string) error {
	r := &o.request
	switch {
	case len(args) == 1 && o.resource != "":
		args = append(args, args[0])
	case len(args) != 2:
		return console.Usagef("scale requires a kind (node, pod, or another one with --template) and a NAME")
	}
	r.Kind, r.Name = Kind(args[0]), args[1]
	if o.resource != "" {
		return nil // KIND is its name
	}
	if k, ok := kinds[args[0]]; ok {
		r.Kind = k
	}
	if r.Kind != Node && r.Kind != Pod && o.template == "" {
		return console.Usagef("%q has no built-in template: pass --template or --resource, or scale node or pod", args[0])
	}
	return nil
}

// maxDigits is the limit of --serial-length; there are never more objects.
const maxDigits = 10

func (o *flags) validate(cmd *cobra.Command) error {
	r := &o.request
	r.NamespaceGiven = cmd.Flags().Changed("namespace")
	if err := console.RejectEmpty(cmd, "template", "resource"); err != nil {
		return err
	}
	switch {
	case len(validation.IsDNS1123Label(r.Name)) > 0:
		return console.Usagef("name %q: must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit", r.Name)
	case !cmd.Flags().Changed("replicas"):
		return console.Usagef("--replicas is required")
	case r.Replicas < 0:
		return console.Usagef("--replicas %d: must not be negative", r.Replicas)
	case r.Digits < 1 || r.Digits > maxDigits:
		return console.Usagef("--serial-length %d: must be 1 to %d", r.Digits, maxDigits)
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return console.Usagef("--namespace %q: must be a valid namespace name", r.Namespace)
	case r.Kind == Node && o.resource == "" && (r.NamespaceGiven || r.AssignNodes):
		return console.Usagef("--namespace and --assign-nodes do not apply to nodes")
	case o.template != "" && o.resource != "":
		return console.Usagef("--template and --resource are mutually exclusive")
	}
	if o.resource != "" {
		r.Programs = o.params
		data, err := os.ReadFile(o.resource)
		if err != nil {
			return console.Usagef("--resource: %v", err)
		}
		if r.Resource, err = FindResource(o.resource, data, string(r.Kind)); err != nil {
			return console.Usagef("--resource: %v", err)
		}
		return nil
	}
	if err := o.parseParams(); err != nil {
		return err
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

// parseParams reads KEY=VALUE. One --param may have several, separated by commas.
func (o *flags) parseParams() error {
	o.request.Params = map[string]string{}
	for _, p := range o.params {
		pairs, err := csv.NewReader(strings.NewReader(p)).Read()
		if err != nil {
			return console.Usagef("--param %q: must be KEY=VALUE", p)
		}
		for _, pair := range pairs {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return console.Usagef("--param %q: must be KEY=VALUE", pair)
			}
			o.request.Params[key] = value
		}
	}
	if o.template != "" {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(o.request.Params)) {
		if err := checkParam(o.request.Kind, key, o.request.Params[key]); err != nil {
			return err
		}
	}
	return nil
}

// checkParam checks a value for a built-in template. Keys that no template reads are found later.
func checkParam(kind Kind, key, value string) error {
	if kind == Pod && value == "" {
		return nil // as without the parameter
	}
	isQuantity := key == "cpu" || key == "memory" || strings.HasPrefix(key, "resource.") ||
		kind == Node && (key == "pods" || strings.HasPrefix(key, "image."))
	if isQuantity {
		if _, err := resource.ParseQuantity(value); err != nil {
			return console.Usagef("--param %s=%s: must be a quantity, such as 2, 500m or 1Gi", key, value)
		}
	}
	if kind == Pod && key == "grace" {
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return console.Usagef("--param %s=%s: must be a whole number of seconds", key, value)
		}
	}
	return nil
}

func (o *flags) run(cmd *cobra.Command, c *console.Console) error {
	config, err := o.cluster.Config(cmd, c.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := c.Interruptible(cmd.Context())
	defer stop()
	klog.SetLogger(logr.Discard()) // client-go logs each interrupted request; the error says it once
	config.WarningHandler = rest.NewWarningWriter(c.Err, rest.WarningWriterOptions{Deduplicate: true})
	r := o.request
	p := c.NewProgress()
	begin := c.Now()
	r.Progress = atMostTenPerSecond(func(done, total int) {
		p.Show("%s %s: %d/%d%s", r.Kind, r.Name, done, total, console.Remaining(c.Now().Sub(begin), done, total))
	})
	result, err := Run(ctx, config, r)
	p.Clear()
	var bad *TemplateError
	if errors.As(err, &bad) {
		return console.Usagef("%v", bad)
	}
	summary := fmt.Sprintf("%s %s: %d created, %d deleted, %d already existed (%.1f s)", r.Kind, r.Name,
		result.Created, result.Deleted, result.Kept, c.Now().Sub(begin).Seconds())
	const unanswered = "requests without an answer may have been executed too"
	switch {
	case ctx.Err() != nil:
		c.Say("Interrupted: %s; %s; the same command does the rest", summary, unanswered)
		return console.ErrInterrupted
	case err != nil && result.Created+result.Deleted > 0:
		c.Say("Stopped: %s; %s", summary, unanswered)
		return failed(r, err)
	case err != nil:
		return failed(r, err)
	}
	c.Say("%s", summary)
	return nil
}

// failed is the error of a request that failed.
func failed(r Request, err error) error {
	if apierrors.IsNotFound(err) && r.Namespace != "" && strings.Contains(err.Error(), fmt.Sprintf("namespaces %q not found", r.Namespace)) {
		return fmt.Errorf("scale %s %s: %w; create it first (kubectl create namespace %s)", r.Kind, r.Name, err, r.Namespace)
	}
	return fmt.Errorf("scale %s %s: %w", r.Kind, r.Name, err)
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

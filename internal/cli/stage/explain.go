package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/stage"
)

// explainOptions are the flags of stage explain.
type explainOptions struct {
	out        console.Output
	stages     []string
	namespace  string
	kubeconfig string
	context    string
	cluster    string
}

func (a *app) stageExplainCommand() *cobra.Command {
	o := &explainOptions{out: console.NewOutput("", "json", "yaml", "wide")}
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME|FILE",
		Short: "Report which stage an object is in, why, when it is due and what it will write",
		Long: `Report which stage an object is in, why, since when, when it is due, what it will write and which stages may follow; and for
every other stage of the kind, the first requirement that does not match and the object's value there.

The object is in a cluster (KIND/NAME, as for kubectl) or in a file. The cluster is the running rehearse cluster, or the one
that --name, --context or --kubeconfig names. The stages are the cluster's Stage objects and those of --stages. Without
--stages, explain uses for a rehearse cluster on this machine the stages that the cluster was started with, and for files,
other rehearse clusters and clusters without Stage objects the default stages of 'rehearse up'.

The cluster does not store how long an object has been waiting, so explain counts from the newest timestamp in the object, as a
restarted engine does. It shows a random delay as a range, and each of several possible stages with its probability.`,
		Example: `  rehearse stage explain pod/web -n shop
  rehearse stage explain pod/web --context kind-kind --stages builtin:pod-fast
  kubectl get pod web -o yaml | rehearse stage explain -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return console.Usagef("stage explain requires one KIND/NAME, FILE or -")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := console.RejectEmpty(cmd, "kubeconfig", "context", "name", "namespace", "stages"); err != nil {
				return err
			}
			return a.stageExplain(cmd, o, args[0])
		},
	}
	f := cmd.Flags()
	o.out.AddFlag(cmd, "output")
	f.StringSliceVar(&o.stages, "stages", nil, "stages: files, directories or builtin:NAME")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object (default: that of the context)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig")
	f.StringVar(&o.cluster, "name", "", "name of the rehearse cluster (default: the running one)")
	_ = cmd.RegisterFlagCompletionFunc("name", target.Complete(a.Getenv))
	_ = cmd.RegisterFlagCompletionFunc("stages", completeStages)
	return cmd
}

// situation is an object and everything that its next stage depends on.
type situation struct {
	object stage.Object
	set    *stage.Set
	scene  stage.Scene
	facts  stage.Facts
	now    time.Time
	notes  []string // facts about the object that its stages do not show
}

func (a *app) stageExplain(cmd *cobra.Command, o *explainOptions, what string) error {
	var s *situation
	var err error
	if isFile(what) {
		for _, f := range []string{"kubeconfig", "context", "name", "namespace"} {
			if cmd.Flags().Changed(f) {
				return console.Usagef("--%s applies to objects in a cluster, but %s is a file", f, what)
			}
		}
		s, err = a.situationOfFile(o, what)
	} else {
		ctx, stop := a.Interruptible(cmd.Context())
		defer stop()
		if s, err = a.situationInCluster(ctx, o, what); ctx.Err() != nil {
			return console.ErrInterrupted
		}
	}
	if err != nil {
		return err
	}
	e := explain(s)
	if o.out.IsMachineReadable() {
		return o.out.Print(a.Out, e.machine())
	}
	a.printExplanation(e, o.out.String() == "wide")
	return nil
}

// isFile distinguishes a file from KIND/NAME: it exists, or has the extension of one.
func isFile(what string) bool {
	if what == console.Stdin || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(what)) {
		return true
	}
	_, err := os.Stat(what)
	return err == nil
}

func (a *app) situationOfFile(o *explainOptions, file string) (*situation, error) {
	set, err := a.stageSet(o.stages)
	if err != nil {
		return nil, err
	}
	objects, err := a.objects([]string{file})
	if err != nil {
		return nil, err
	}
	if len(objects) > 1 {
		return nil, console.Usagef("%s: want one object, got %d", file, len(objects))
	}
	if err := stagesFor(set, objects[0]); err != nil {
		return nil, err
	}
	now := a.Now()
	return &situation{
		object: stage.Created(objects[0].object, now), set: set, now: now,
		scene: stage.Scene{NodeReady: true}, facts: stage.StandIn{Start: now},
	}, nil
}

func (a *app) situationInCluster(ctx context.Context, o *explainOptions, what string) (*situation, error) {
	kind, name, found := strings.Cut(what, "/")
	if !found || kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, console.Usagef("%q: want KIND/NAME or an existing file", what)
	}
	var base *stage.Set
	var err error
	if len(o.stages) > 0 {
		if base, err = a.stageSet(o.stages); err != nil {
			return nil, err
		}
	}
	c, err := a.connect(o)
	if err != nil {
		return nil, err
	}
	s := &situation{now: a.Now()}
	if s.set, err = a.clusterStages(ctx, c, base); err != nil {
		return nil, err
	}
	if s.object, err = c.get(ctx, s.set, kind, name); err != nil {
		return nil, err
	}
	if err := c.surroundings(ctx, s); err != nil {
		return nil, err
	}
	if k := stage.KindOf(s.object); len(s.set.Names(k)) == 0 {
		s.notes = append(s.notes, fmt.Sprintf("no stage is for kind %s", k))
	}
	return s, nil
}

// explanation is what is known about the next stages of an object.
type explanation struct {
	*situation
	since    time.Time
	options  []stage.Option
	outcomes []stage.Outcome
	troubles []string
	then     [][]stage.Option // what may follow each option
	others   []stage.Explanation
}

func explain(s *situation) *explanation {
	e := &explanation{situation: s, since: s.now}
	if last := stage.LastChange(s.object); !last.IsZero() && last.Before(s.now) {
		e.since = last
	}
	e.options = s.set.Options(e.since, 0, s.object, stage.Past{}, s.scene)
	for i := range e.options {
		d := e.options[i].Decision()
		at := s.now
		if d.Due.After(at) {
			at = d.Due
		}
		outcome, err := s.set.Preview(at, s.object, d, s.facts)
		trouble := e.options[i].Problem
		if err != nil {
			trouble = err.Error()
		}
		var then []stage.Option
		if err == nil && outcome.After != nil && outcome.Writes() {
			past := stage.Past{Played: 1, Last: d.Stage, LastAt: at}
			then = s.set.Options(at, 0, outcome.After, past, s.scene)
		}
		e.outcomes, e.troubles, e.then = append(e.outcomes, outcome), append(e.troubles, trouble), append(e.then, then)
	}
	for _, one := range s.set.Explain(s.object, s.scene) {
		if !one.Matches {
			e.others = append(e.others, one)
		}
	}
	return e
}

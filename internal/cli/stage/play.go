package stage

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/stage"
)

// playOptions are the flags of stage play.
type playOptions struct {
	out         console.Output
	stages      []string
	seed        uint64
	span        time.Duration
	steps       int
	deleteAfter time.Duration
	deleted     bool
}

func (a *app) stagePlayCommand() *cobra.Command {
	o := &playOptions{out: console.NewOutput("", "json", "yaml", "wide")}
	cmd := &cobra.Command{
		Use:   "play FILE...",
		Short: "Simulate the lifecycle of objects in virtual time, without a cluster",
		Long: `Play stages on objects from files, of any kind, in virtual time, and print what happens and when.

play sets fields that the file omits as the API server and the scheduler do (UID, phase Pending, a node), and the node is Ready.
Without --stages, it uses the default stages of 'rehearse up'. If several stages may be next, the timeline follows the one that
--seed selects, and a tree shows all of them with their probabilities.

-o json also lists every stage that may be next for the object in the file: weight, delay in nanoseconds ([D], or
[least, most]) and effects. -o wide shows every field that changes.`,
		Example: `  rehearse stage play pod.yaml --delete-after 30s
  rehearse stage play pod.yaml --stages builtin:pod-fast,chaos.yaml --seed 7
  rehearse stage play widget.yaml --stages widgets.yaml --for 24h -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return console.Usagef("stage play requires a FILE with objects, or -")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.deleted = cmd.Flags().Changed("delete-after")
			switch {
			case o.span < 0:
				return console.Usagef("--for %s: must not be negative", o.span)
			case o.steps < 1:
				return console.Usagef("--max-steps %d: must be 1 or more", o.steps)
			case o.deleteAfter < 0:
				return console.Usagef("--delete-after %s: must not be negative", o.deleteAfter)
			}
			return a.stagePlay(o, args)
		},
	}
	f := cmd.Flags()
	o.out.AddFlag(cmd, "output")
	f.StringSliceVar(&o.stages, "stages", nil, "stages: files, directories or builtin:NAME (default: "+defaultStages()[0]+","+defaultStages()[1]+")")
	f.Uint64Var(&o.seed, "seed", 0, "seed of all randomness")
	f.DurationVar(&o.span, "for", time.Hour, "virtual time to play")
	f.IntVar(&o.steps, "max-steps", 100, "maximum number of stages to play")
	f.DurationVar(&o.deleteAfter, "delete-after", 0, "virtual time after which a user requests deletion of the object")
	_ = cmd.RegisterFlagCompletionFunc("stages", completeStages)
	return cmd
}

// The limits of the tree of branches.
const (
	maxBranches = 200
	maxDepth    = 12
)

// playStart is the start of every lifecycle, so that equal lifecycles print equal times.
var playStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// life is the lifecycle of one object.
type life struct {
	namedObject
	options     []stage.Option
	first       []stage.Outcome // of each option
	troubles    []string        // of each option
	transitions []stage.Transition
	end         string
	branches    []stage.Branch
}

func (a *app) stagePlay(o *playOptions, args []string) error {
	set, err := a.stageSet(o.stages)
	if err != nil {
		return err
	}
	objects, err := a.objects(args)
	if err != nil {
		return err
	}
	var lives []life
	for _, n := range objects {
		if err := stagesFor(set, n); err != nil {
			return err
		}
		lives = append(lives, o.play(set, n))
	}
	if o.out.IsMachineReadable() {
		return o.out.Print(a.Out, playedList(lives))
	}
	for i := range lives {
		a.printLife(&lives[i], i > 0, o.out.String() == "wide")
	}
	return nil
}

// stagesFor rejects an object whose kind no stage is for, because of a typing error or a missing --stages.
func stagesFor(set *stage.Set, n namedObject) error {
	kind := stage.KindOf(n.object)
	if len(set.Names(kind)) > 0 {
		return nil
	}
	var kinds []string
	for _, k := range set.Kinds() {
		kinds = append(kinds, k.String())
	}
	return console.Usagef("%s: no stage is for kind %s; name its stages with --stages (the loaded stages are for %s)", n.file, kind, listed(kinds))
}

func (o *playOptions) play(set *stage.Set, n namedObject) life {
	n.object = stage.Created(n.object, playStart)
	facts, scene := stage.StandIn{Start: playStart}, stage.Scene{NodeReady: true}
	l := life{namedObject: n}
	l.options = set.Options(playStart, o.seed, n.object, stage.Past{}, scene)
	for i := range l.options {
		d := l.options[i].Decision()
		outcome, err := set.Preview(d.Due, n.object, d, facts)
		trouble := l.options[i].Problem
		if err != nil {
			trouble = err.Error()
		}
		l.first, l.troubles = append(l.first, outcome), append(l.troubles, trouble)
	}
	deleteAfter := o.deleteAfter
	if !o.deleted {
		deleteAfter = -1
	}
	l.transitions, l.end = set.Life(n.object, stage.LifeOptions{
		Start: playStart, Seed: o.seed, For: o.span, MaxSteps: o.steps, DeleteAfter: deleteAfter, Facts: facts, Scene: scene,
	})
	l.branches = set.Tree(n.object, stage.TreeOptions{
		Start: playStart, Seed: o.seed, Facts: facts, Scene: scene, MaxDepth: maxDepth, MaxNodes: maxBranches,
	})
	return l
}

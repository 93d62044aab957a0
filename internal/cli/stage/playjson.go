package stage

import (
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/stage"
)

// playList is the output of `stage play -o json`.
type playList struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      []playItem `json:"items"`
}

// playItem is one object. Its first fields are those of KWOK's test data.
type playItem struct {
	APIGroup  string           `json:"apiGroup"`
	Kind      string           `json:"kind"`
	Name      string           `json:"name"`
	Namespace string           `json:"namespace,omitempty"`
	Stages    []playStage      `json:"stages"`
	Timeline  []playTransition `json:"timeline"`
	End       string           `json:"end"`
	Branches  []playBranch     `json:"branches"`
}

// playStage is a stage that may be next. Delay is [D], or [least, most].
type playStage struct {
	Stage   string          `json:"stage"`
	Timer   bool            `json:"timer,omitempty"`
	Weight  int64           `json:"weight"`
	Share   float64         `json:"share"`
	Delay   []time.Duration `json:"delay"`
	Next    []playEffect    `json:"next"`
	Problem string          `json:"problem,omitempty"`
}

// playEffect is one write or event. Kind is event, patch, apply or delete.
type playEffect struct {
	Kind          string `json:"kind"`
	Type          string `json:"type,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Message       string `json:"message,omitempty"`
	Subresource   string `json:"subresource,omitempty"`
	Impersonation string `json:"impersonation,omitempty"`
	Data          any    `json:"data,omitempty"`
}

// playTransition is one transition of a timeline; Stage is empty where a user requests deletion of the object.
type playTransition struct {
	At      time.Duration  `json:"at"`
	Stage   string         `json:"stage,omitempty"`
	Share   float64        `json:"share,omitempty"`
	Effects []playEffect   `json:"effects,omitempty"`
	Changes []stage.Change `json:"changes,omitempty"`
	Gone    bool           `json:"gone,omitempty"`
	Problem string         `json:"problem,omitempty"`
}

// playBranch is a node of the tree of possible lifecycles.
type playBranch struct {
	Stage   string          `json:"stage"`
	Share   float64         `json:"share"`
	Chance  float64         `json:"chance"`
	Delay   []time.Duration `json:"delay"`
	Again   bool            `json:"again,omitempty"`
	Cut     bool            `json:"cut,omitempty"`
	Gone    bool            `json:"gone,omitempty"`
	Problem string          `json:"problem,omitempty"`
	Next    []playBranch    `json:"next,omitempty"`
}

func playedList(lives []life) playList {
	list := playList{APIVersion: console.APIVersion, Kind: "StagePlayList", Items: []playItem{}}
	for i := range lives {
		l := &lives[i]
		kind := stage.KindOf(l.object)
		item := playItem{
			APIGroup: kind.APIVersion, Kind: kind.Kind, Name: l.object.GetName(), Namespace: l.object.GetNamespace(),
			Stages: []playStage{}, Timeline: []playTransition{}, End: l.end, Branches: branchesOf(l.branches),
		}
		for n := range l.options {
			item.Stages = append(item.Stages, stageOf(&l.options[n], &l.first[n].Effects, l.troubles[n]))
		}
		for n := range l.transitions {
			b := &l.transitions[n]
			transition := playTransition{
				At: b.At, Stage: b.Decision.Stage, Effects: effectsOf(&b.Effects), Gone: b.After == nil, Problem: b.Problem,
				Changes: stage.Changes(b.Before, b.After),
			}
			if transition.Stage != "" {
				transition.Share = b.Share
			}
			item.Timeline = append(item.Timeline, transition)
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func stageOf(o *stage.Option, e *stage.Effects, trouble string) playStage {
	return playStage{Stage: o.Stage, Timer: o.Timer, Weight: o.Weight, Share: o.Share, Delay: delayOf(o), Next: effectsOf(e), Problem: trouble}
}

func delayOf(o *stage.Option) []time.Duration {
	if o.Most > o.Least {
		return []time.Duration{o.Least, o.Most}
	}
	return []time.Duration{o.Least}
}

// effectsOf lists the effects of a stage in the order of its operations.
func effectsOf(e *stage.Effects) []playEffect {
	type placed struct {
		step int
		playEffect
	}
	var all []placed
	for _, event := range e.Events {
		all = append(all, placed{event.Step, playEffect{Kind: "event", Type: event.Type, Reason: event.Reason, Message: event.Message}})
	}
	for i := range e.Requests {
		r := &e.Requests[i]
		kind := "patch"
		if r.Verb == stage.VerbApply {
			kind = "apply"
		}
		all = append(all, placed{r.Step, playEffect{Kind: kind, Type: string(r.Type), Subresource: r.Subresource, Impersonation: r.As, Data: r.Body}})
	}
	if e.Delete {
		all = append(all, placed{e.DeleteStep, playEffect{Kind: "delete"}})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.step - b.step })
	out := []playEffect{}
	for _, p := range all {
		out = append(out, p.playEffect)
	}
	return out
}

func branchesOf(all []stage.Branch) []playBranch {
	out := []playBranch{}
	for i := range all {
		b := &all[i]
		out = append(out, playBranch{
			Stage: b.Stage(), Share: b.Share, Chance: b.Chance, Delay: delayOf(&b.Option),
			Again: b.Again, Cut: b.Cut, Gone: b.After == nil, Problem: b.Problem, Next: branchesOf(b.Next),
		})
	}
	return out
}

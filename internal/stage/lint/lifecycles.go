package lint

import (
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"maps"
	"slices"
	"strings"
	"time"
)

// mostStates bounds how many states of sample objects of one kind are looked at.
const mostStates = 400

// mostInstant is how many stages may follow each other without a delay before
// that is called a loop: something in the object grows and it never comes back.
const mostInstant = 32

// mostPlays bounds how often each stage is played: its template may be slow, and what it does shows before
// that. One that exceeds its budget is not played again.
const mostPlays = 100

// explorer plays all stages of one kind on sample objects, in every order.
type explorer struct {
	l      *linter
	kind   stage.Kind
	set    *stage.Set
	stages map[string]*linted
	known  map[string]*state
	queue  []*state
	over   bool // the bound was met

	written        map[string]bool // fields of the status that some stage changed
	left           map[string]int  // plays that each stage still has
	failed, played map[string]int
	failure        map[string]error
	real           map[string]bool // it failed on an object that was not made up
}

// state is an object as some stages made it.
type state struct {
	object  stage.Object
	like    string
	at      time.Time
	instant int    // stages without a delay right before it
	edges   []edge // those without a delay
	reached bool   // by samples, users and stages, and not made up
}

type edge struct {
	stage string
	to    *state
}

// kind explores a kind and reports what it found.
func (l *linter) kind(kind stage.Kind) {
	x := &explorer{
		l: l, kind: kind, stages: map[string]*linted{},
		known: map[string]*state{}, written: map[string]bool{}, left: map[string]int{}, failed: map[string]int{}, played: map[string]int{}, failure: map[string]error{}, real: map[string]bool{},
	}
	var stages []*linted
	var list []*stage.Compiled
	unsure := false // a stage is missing, so nothing can be said about absent ones
	for _, s := range l.stages {
		switch {
		case s.compiled == nil || s.compiled.Kind != kind || s.never:
			continue
		case len(s.bad) > 0:
			unsure = true
			continue
		}
		stages = append(stages, s)
		x.stages[s.Stage.Name] = s
		list = append(list, s.compiled)
		x.left[s.Stage.Name] = mostPlays
	}
	x.set = stage.SetOf(kind, list)
	if !unsure {
		l.weights(stages)
	}
	for _, sample := range samples(kind) {
		x.visit(sample, lintStart, 0, true)
		for _, s := range stages {
			if o := satisfied(sample, kind, s, false); o != nil {
				x.visit(o, lintStart, 0, true)
			}
		}
	}
	x.run()
	matched := x.matched()
	if !unsure && !x.over {
		x.reachability(stages, matched)
	}
	x.madeUp(stages, matched)
	x.loops()
	x.failures(stages)
}

// visit notes a state that has not been seen.
func (x *explorer) visit(o stage.Object, at time.Time, instant int, reached bool) *state {
	like := stage.EquivalenceKey(o)
	if s := x.known[like]; s != nil {
		return s
	}
	if len(x.known) >= mostStates {
		x.over = true
		return nil
	}
	s := &state{object: o, like: like, at: at, instant: instant, reached: reached}
	x.known[like] = s
	x.queue = append(x.queue, s)
	return s
}

func (x *explorer) run() {
	for len(x.queue) > 0 {
		s := x.queue[0]
		x.queue = x.queue[1:]
		x.follow(s)
		if s.reached {
			for _, o := range disturbances(s.object, x.kind) {
				x.visit(o, s.at, 0, true)
			}
		}
	}
}

// follow plays every stage that may be next.
func (x *explorer) follow(s *state) {
	for _, option := range x.set.Options(s.at, 0, s.object, stage.Past{}, stage.Scene{NodeReady: true}) {
		name := option.Stage
		if option.Problem != "" {
			field, text, _ := strings.Cut(option.Problem, ": ")
			x.l.say(x.stages[name], Warning, field, "%s (on a sample object)", text)
		}
		if option.Idle {
			x.played[name]++
		}
		d := option.Decision()
		if !d.Chosen() {
			continue
		}
		x.play(s, name, d, option)
	}
}

func (x *explorer) play(s *state, name string, d stage.Decision, option stage.Option) {
	if x.left[name] == 0 {
		x.over = true
		return
	}
	x.left[name]--
	linted := x.stages[name]
	// Time goes on, so that what writes the time is seen to change the object.
	now := s.at.Add(max(option.Least, time.Second))
	outcome, err := x.set.Preview(now, s.object, d, stage.StandIn{Start: lintStart})
	misfits := x.l.shapes(linted, outcome.Requests)
	if err != nil {
		if failed, ok := err.(*stage.Error); ok && failed.Overran {
			x.left[name] = 0
		}
		x.failed[name]++
		if !misfits && (x.failure[name] == nil || s.reached && !x.real[name]) {
			x.failure[name], x.real[name] = err, s.reached
		}
		return
	}
	x.played[name]++
	if !outcome.Writes() || outcome.After == nil || option.Share == 0 && !option.Timer {
		return
	}
	for _, c := range stage.Changes(s.object, outcome.After) {
		x.written[statusField(c.Path)] = true
	}
	instant := 0
	if option.Most == 0 {
		instant = s.instant + 1
	}
	if instant > mostInstant {
		x.l.say(linted, Error, "spec.delay", "the stage is played over and over without a delay, and the object never reaches a steady state")
		return
	}
	next := x.visit(outcome.After, now, instant, s.reached)
	again := next == s && len(outcome.Requests) == 0 // deleted again while something holds it
	if next != nil && option.Most == 0 && option.Share > 0 && !again {
		s.edges = append(s.edges, edge{stage: name, to: next})
	}
}

// matched are the stages that some object came to.
func (x *explorer) matched() map[string]bool {
	out := map[string]bool{}
	for _, s := range x.known {
		for _, e := range x.set.Explain(s.object, stage.Scene{NodeReady: true}) {
			out[e.Stage] = out[e.Stage] || e.Matches
		}
	}
	return out
}

// statusField is "phase" of "status.phase" and of "status.phase.x[y]"; empty of
// what is not of the status.
func statusField(path string) string {
	rest, ok := strings.CutPrefix(path, "status.")
	if i := strings.IndexAny(rest, ".["); i >= 0 {
		rest = rest[:i]
	}
	if !ok {
		return ""
	}
	return rest
}

// reachability reports stages that no object came to match. If they ask for what no stage here writes, the files
// are surely used with others, or with a controller of Kubernetes.
func (x *explorer) reachability(stages []*linted, matched map[string]bool) {
	type lost struct {
		*linted
		*clause
		got string
	}
	var all []lost
	severity, advice := Warning, ""
	for _, s := range stages {
		if matched[s.Stage.Name] {
			continue
		}
		because, got := x.nearest(s)
		i := slices.IndexFunc(s.clauses, func(c clause) bool { return c.text == because })
		if i < 0 {
			continue
		}
		c := &s.clauses[i]
		if c.steps == nil {
			x.l.say(s, Info, c.field, "the stage was not tried: %s holds for no sample object", because)
			continue
		}
		all = append(all, lost{s, c, got})
		own := len(c.steps) > 1 && x.written[c.steps[1].Name]
		if !own || !typed(x.kind) && reflectType(x.kind) != nil {
			severity, advice = Info, "; lint it together with the files it is used with"
		}
	}
	for _, s := range all {
		x.l.say(s.linted, severity, s.field, "no stage of this set leads here: %s never holds; sample objects have %s%s", s.text, s.got, advice)
	}
}

// nearest is the first requirement of a stage that does not hold of the object
// that comes nearest to it, and what all objects have there.
func (x *explorer) nearest(s *linted) (because, got string) {
	best, first := -1, 0
	var views []*expr.View
	for _, like := range slices.Sorted(maps.Keys(x.known)) {
		o := x.known[like].object
		v := &expr.View{Object: o, Now: lintStart, UID: o.GetUID()}
		views = append(views, v)
		holding, missing := 0, -1
		for i := range s.compiled.Requirements {
			if s.compiled.Requirements[i].Holds(v, s.Stage.Name) {
				holding++
			} else if missing < 0 {
				missing = i
			}
		}
		if holding > best && missing >= 0 {
			best, first = holding, missing
		}
	}
	if best < 0 {
		return "", ""
	}
	r := &s.compiled.Requirements[first]
	seen := map[string]bool{}
	for _, v := range views {
		seen[r.Got(v)] = true
	}
	all := slices.Sorted(maps.Keys(seen))
	const most = 6
	if len(all) > most {
		all = append(all[:most], "…")
	}
	return r.Text, strings.Join(all, ", ")
}

// madeUp plays the stages that nothing came to, on objects that are made to match.
func (x *explorer) madeUp(stages []*linted, matched map[string]bool) {
	for _, s := range stages {
		if matched[s.Stage.Name] {
			continue
		}
		for _, sample := range samples(x.kind) {
			if o := satisfied(sample, x.kind, s, true); o != nil {
				x.visit(o, lintStart, 0, false)
			}
		}
	}
	x.run()
}

// failures reports templates that failed.
func (x *explorer) failures(stages []*linted) {
	for _, s := range stages {
		name := s.Stage.Name
		err, _ := x.failure[name].(*stage.Error)
		if err == nil {
			continue
		}
		severity, on := Warning, "some sample objects that match"
		switch {
		case !x.real[name]:
			severity, on = Info, "an object created to match"
		case x.played[name] == 0:
			on = "every sample object that matches"
			if typed(x.kind) {
				severity = Error
			}
		}
		x.l.say(s, severity, err.Field, "%s (on %s)", err.Problem, on)
	}
}

// loops reports states from which stages lead back without a delay.
func (x *explorer) loops() {
	reported := map[string]bool{}
	done := map[*state]bool{}
	for _, like := range slices.Sorted(maps.Keys(x.known)) {
		x.circle(x.known[like], nil, done, reported)
	}
}

// circle follows edges depth first. trail is how it came here: the states, each
// with the edge that leads on.
func (x *explorer) circle(s *state, trail []passed, done map[*state]bool, reported map[string]bool) {
	if done[s] {
		return
	}
	if i := slices.IndexFunc(trail, func(p passed) bool { return p.state == s }); i >= 0 {
		x.report(trail[i:], reported)
		return
	}
	for _, e := range s.edges {
		x.circle(e.to, append(slices.Clone(trail), passed{state: s, by: e.stage}), done, reported)
	}
	done[s] = true
}

type passed struct {
	state *state
	by    string
}

func (x *explorer) report(loop []passed, reported map[string]bool) {
	var names []string
	for _, e := range loop {
		if !slices.Contains(names, e.by) {
			names = append(names, e.by)
		}
	}
	key := strings.Join(slices.Sorted(slices.Values(names)), " ")
	if reported[key] {
		return
	}
	reported[key] = true
	first := x.stages[names[0]]
	if len(names) == 1 {
		x.l.say(first, Warning, "spec.delay", "the stage matches its own result and has no delay: it is played once every %s for as long as the object lives (KWOK: as fast as the API answers)", stage.MinRepeat)
		return
	}
	x.l.say(first, Error, "spec.delay", "a loop without a delay: %s -> %s", strings.Join(names, " -> "), names[0])
}

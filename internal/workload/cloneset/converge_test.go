package cloneset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fake contains the properties of a pod that the numbers depend on.
type fake struct {
	outdated  bool
	available bool
	inPlace   bool // a user asked for its deletion
	specified bool // its deletion was asked for
	hooked    bool // a preDelete hook blocks it
	preparing bool // it waits for that hook
	gone      bool
}

// fakes is a set whose pods change as differences demand.
type fakes struct {
	wanted
	same bool
	pods []*fake
	// inPlaceNow reports whether a new pod can be updated in place later.
	inPlaceNow func() bool
	hookNow    func() bool
}

func (f *fakes) String() string {
	var words []string
	for _, p := range f.pods {
		word := "n"
		if p.outdated {
			word = "o"
		}
		for _, is := range []struct {
			is   bool
			mark string
		}{{p.inPlace, "i"}, {p.hooked, "h"}, {p.specified, "d"}, {p.preparing, "p"}, {!p.available, "-"}} {
			if is.is {
				word += is.mark
			}
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%+v same=%t: %s", f.wanted, f.same, strings.Join(words, " "))
}

func (f *fakes) groups() (outdated, updated group) {
	for _, p := range f.pods {
		g := &updated
		if p.outdated {
			g = &outdated
		}
		g.all++
		switch {
		case p.preparing:
			g.preparing++
			continue
		case p.specified:
			g.toDelete++
			if !p.available {
				g.unavailableToDelete++
			}
		case !p.available:
			g.unavailable++
		}
		if !p.inPlace {
			g.recreated++
		}
	}
	return outdated, updated
}

func (f *fakes) count(is func(*fake) bool) (n int) {
	for _, p := range f.pods {
		if is(p) {
			n++
		}
	}
	return n
}

func (f *fakes) available() int {
	return f.count(func(p *fake) bool { return p.available && !p.preparing })
}

// operation is one change of a plan.
type operation struct {
	what string
	do   func()
	// takes: the operation makes an available pod unavailable.
	takes bool
}

// plan returns all operations that a plan derives from the difference.
func (f *fakes) plan() (steps []operation) {
	outdated, updated := f.groups()
	d := differ(f.wanted, outdated, updated, f.same)
	acted := map[*fake]bool{}
	remove := func(p *fake, why string) bool {
		if p.available {
			if d.spare == 0 {
				return false
			}
			d.spare--
		}
		acted[p] = true
		steps = append(steps, operation{why, func() {
			if p.hooked {
				p.preparing = true
			} else {
				p.gone = true
			}
		}, p.available})
		return true
	}
	for _, p := range f.pods {
		if p.specified && !p.preparing {
			remove(p, "deletes a specified pod")
		}
	}
	byUse := slices.Clone(f.pods)
	slices.SortStableFunc(byUse, func(p, q *fake) int {
		value := map[bool]int{true: 1}
		return cmp.Compare(value[p.available], value[q.available])
	})
	shrink := func(n int, of bool) (left int) {
		for _, p := range byUse {
			if n > 0 && p.outdated == of && !acted[p] && !p.specified && !p.preparing {
				n--
				remove(p, "deletes a surplus pod")
			}
		}
		return n
	}
	shrink(shrink(min(d.remove, d.removeOutdated), true)+d.remove-min(d.remove, d.removeOutdated), false)
	for i := range d.createLimit {
		made := &fake{outdated: i < d.createOutdated && !f.same, inPlace: f.inPlaceNow(), hooked: f.hookNow()}
		steps = append(steps, operation{"creates a pod", func() { f.pods = append(f.pods, made) }, false})
	}
	left, fromOld := d.update, true
	if left < 0 {
		left, fromOld = -left, false
	}
	unavailable := f.count(func(p *fake) bool { return p.outdated != fromOld && !(p.available && !p.preparing) })
	for _, p := range byUse {
		if left == 0 || unavailable >= d.unavailable {
			break
		}
		if p.outdated != fromOld || acted[p] || p.specified || p.preparing {
			continue
		}
		if p.inPlace {
			if p.available {
				if d.spare == 0 {
					continue
				}
				d.spare--
			}
			acted[p] = true
			steps = append(steps, operation{"updates in place", func() { p.outdated, p.available = !fromOld, false }, p.available})
		} else if !remove(p, "recreates a pod") {
			continue
		}
		left--
		unavailable++
	}
	return steps
}

// carryOut carries out operations and checks what must hold for every selection of them.
func (f *fakes) carryOut(t *rapid.T, steps []operation) {
	before := f.String()
	total := len(f.pods) - f.excluded()
	of := func(outdated bool) func(*fake) bool {
		return func(p *fake) bool { return p.outdated == outdated && !p.specified && !p.preparing }
	}
	outdated, updated := f.count(of(true)), f.count(of(false))
	takes := false
	var done []string
	for _, s := range steps {
		s.do()
		takes = takes || s.takes
		done = append(done, s.what)
	}
	f.pods = slices.DeleteFunc(f.pods, func(p *fake) bool { return p.gone })
	if now := len(f.pods) - f.excluded(); now > max(total, f.replicas+f.maxSurge) {
		t.Fatalf("%s\n%s: now %d", before, done, now)
	}
	if now := f.available(); takes && now < f.replicas-f.maxUnavailable {
		t.Fatalf("%s\n%s: now %d are available\n%s", before, done, now, f)
	}
	// Users asked for the deletion of other pods only, so each revision keeps its share.
	if now := f.count(of(true)); now < min(outdated, f.partition) {
		t.Fatalf("%s\n%s: now %d are outdated\n%s", before, done, now, f)
	}
	if now := f.count(of(false)); now < min(updated, f.replicas-f.partition) {
		t.Fatalf("%s\n%s: now %d are updated\n%s", before, done, now, f)
	}
}

// excluded returns the number of pods that do not count towards replicas.
func (f *fakes) excluded() int {
	if !f.excludePreparingDelete {
		return 0
	}
	return f.count(func(p *fake) bool { return p.preparing })
}

// TestDifferenceConverges checks, for any pods, any part of each plan that is carried out and any change of
// pods in between, that there are never more pods than surge allows, that no plan makes more pods unavailable
// than maxUnavailable allows, and that once pods become ready and all operations succeed, the set converges
// and the plans are empty.
func TestDifferenceConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		flag := func(name string, oneIn int) bool { return rapid.IntRange(1, oneIn).Draw(t, name) == 1 }
		f := &fakes{same: flag("same", 5)}
		f.replicas = number("replicas", 0, 9)
		f.partition = number("partition", 0, f.replicas)
		if flag("whole", 2) {
			f.partition = 0
		}
		f.maxSurge, f.maxUnavailable = number("surge", 0, 4), number("missed", 0, 3)
		if f.maxSurge == 0 && f.maxUnavailable == 0 {
			f.maxUnavailable = 1 // the API rejects a set without either
		}
		f.scaleMaxUnavailable = math.MaxInt32
		if flag("slowly", 4) {
			f.scaleMaxUnavailable = number("at a time", 1, 5)
		}
		f.excludePreparingDelete, f.rollback = flag("exclude", 3), flag("rollback", 3)
		hooks, inPlace := flag("hooks", 3), number("in place", 0, 2)
		mixed := func(kind int) bool { return kind == 2 || kind == 1 && flag("can be updated in place", 2) }
		f.inPlaceNow = func() bool { return mixed(inPlace) }
		f.hookNow = func() bool { return hooks && flag("hook", 2) }
		for range number("pods", 0, 12) {
			p := &fake{outdated: flag("old", 2), available: !flag("broken", 4), specified: flag("specified", 8), inPlace: f.inPlaceNow(), hooked: f.hookNow()}
			p.preparing = p.hooked && flag("preparing", 3)
			f.pods = append(f.pods, p)
		}

		for range number("plans", 0, 25) {
			steps := f.plan()
			steps = slices.DeleteFunc(steps, func(operation) bool { return flag("fails", 3) })
			f.carryOut(t, steps)
			for _, p := range f.pods {
				switch number("becomes", 0, 9) {
				case 0, 1, 2, 3:
					p.available = true
				case 4:
					p.available = false
				case 5:
					p.hooked = false
				case 6:
					p.gone = flag("killed", 2)
				case 7:
					p.specified = p.specified || flag("asked for", 2)
				}
				p.gone = p.gone || p.preparing && !p.hooked
			}
			f.pods = slices.DeleteFunc(f.pods, func(p *fake) bool { return p.gone })
		}

		start := f.String()
		rounds := 0
		for ; rounds < 100; rounds++ {
			steps := f.plan()
			f.carryOut(t, steps)
			waits := f.count(func(p *fake) bool { return !p.available || p.preparing })
			if len(steps) == 0 && waits == 0 {
				break
			}
			for _, p := range f.pods {
				p.available, p.hooked, p.gone = true, false, p.preparing
			}
			f.pods = slices.DeleteFunc(f.pods, func(p *fake) bool { return p.gone })
		}
		outdated := f.count(func(p *fake) bool { return p.outdated })
		switch {
		case rounds == 100, len(f.pods) != f.replicas, f.count(func(p *fake) bool { return p.specified }) > 0,
			outdated > f.partition, outdated != f.partition && f.rollback && !f.same:
			t.Fatalf("from %s\nto   %s in %d rounds", start, f, rounds)
		}
	})
}

// kruisesPlan returns the operations of a plan of Kruise: those of the first step that has any, in the order
// scale up, delete specified pods, scale down, update. To recreate a pod it specifies it for deletion.
func (f *fakes) kruisesPlan() (steps []operation) {
	outdated, updated := f.groups()
	d := kruisesDifference(f.wanted, outdated, updated, f.same)
	add := func(do func()) { steps = append(steps, operation{do: do}) }
	if d.create > 0 {
		for i := range d.createLimit {
			add(func() { f.pods = append(f.pods, &fake{outdated: i < d.createOutdated, inPlace: f.inPlaceNow()}) })
		}
		return steps
	}
	remove := func(p *fake) {
		if p.available {
			if d.spare == 0 {
				return
			}
			d.spare--
		}
		add(func() { p.gone = true })
	}
	for _, p := range f.pods {
		if p.specified {
			remove(p)
		}
	}
	if len(steps) > 0 {
		return steps
	}
	if outdated.toDelete+updated.toDelete == 0 {
		for _, p := range f.pods {
			if p.outdated && d.remove > 0 && d.removeOutdated > 0 || !p.outdated && d.remove > d.removeOutdated {
				d.remove--
				d.removeOutdated -= min(d.removeOutdated, map[bool]int{true: 1}[p.outdated])
				remove(p)
			}
		}
	}
	if len(steps) > 0 {
		return steps
	}
	unavailable := f.count(func(p *fake) bool { return !p.available })
	begun := f.count(func(p *fake) bool { return !p.outdated && !p.available })
	for _, p := range f.pods {
		if d.update <= 0 || begun >= d.unavailable {
			break
		}
		if !p.outdated || p.available && unavailable >= d.unavailable {
			continue
		}
		d.update--
		begun++
		if p.available {
			unavailable++
		}
		switch {
		case p.inPlace:
			add(func() { p.outdated, p.available = false, false })
		case !p.specified:
			add(func() { p.specified = true })
		}
	}
	return steps
}

// rollOut returns how long it takes until exactly replicas pods exist and all are updated, and how many were
// created. A pod takes ten units of time to become ready, and every third one a varying time more. At the time
// another, the update revision changes.
func (f *fakes) rollOut(t *testing.T, another int, plan func() []operation) (now, made int) {
	for range f.replicas {
		f.pods = append(f.pods, &fake{outdated: true, available: true, inPlace: f.inPlaceNow()})
	}
	readyAt := map[*fake]int{}
	begun := 0
	for now < 1000*f.replicas {
		if another > 0 && now >= another {
			another = 0
			for _, p := range f.pods {
				p.outdated = true
			}
		}
		for steps := plan(); len(steps) > 0; steps = plan() {
			before := len(f.pods)
			for _, s := range steps {
				s.do()
			}
			made += max(len(f.pods)-before, 0)
			f.pods = slices.DeleteFunc(f.pods, func(p *fake) bool { return p.gone })
		}
		next := math.MaxInt
		for _, p := range f.pods {
			if p.available {
				continue
			}
			if _, ok := readyAt[p]; !ok {
				readyAt[p] = now + 10
				if begun%3 == 0 {
					readyAt[p] += begun % 7
				}
				begun++
			}
			next = min(next, readyAt[p])
		}
		if next == math.MaxInt {
			break
		}
		now = next
		for _, p := range f.pods {
			if !p.available && readyAt[p] == now {
				p.available = true
				delete(readyAt, p)
			}
		}
	}
	if len(f.pods) != f.replicas || f.count(func(p *fake) bool { return p.outdated }) > 0 {
		t.Fatalf("the rollout stops at: %s", f)
	}
	return now, made
}

// TestSurgeKeepsItsWidth compares the duration of rollouts. Pods never become ready all at the same time, so
// that Kruise has less and less surge left towards the end (#2491, #1442): it creates only as many pods as are
// still missing. This plan keeps maxSurge pods until the last one is created.
//
// Where pods are updated in place, Kruise creates surge pods and deletes them again (#2369). This plan does so
// only if maxUnavailable is 0; otherwise the update takes longer and moves no pod.
func TestSurgeKeepsItsWidth(t *testing.T) {
	type result struct{ time, made int }
	for _, c := range []struct {
		replicas, surge, missed, another int
		inPlace                          bool
		ours, kruises                    result
	}{
		{replicas: 8, surge: 3, ours: result{36, 8}, kruises: result{46, 8}},
		{replicas: 10, surge: 1, ours: result{111, 10}, kruises: result{111, 10}},
		{replicas: 10, surge: 5, ours: result{26, 10}, kruises: result{38, 10}},
		{replicas: 10, surge: 10, ours: result{16, 10}, kruises: result{16, 10}},
		{replicas: 20, surge: 6, ours: result{44, 20}, kruises: result{54, 20}},
		{replicas: 100, surge: 25, ours: result{51, 100}, kruises: result{81, 100}},
		{replicas: 100, surge: 30, ours: result{46, 100}, kruises: result{76, 100}},
		{replicas: 100, surge: 70, ours: result{26, 100}, kruises: result{67, 100}},
		{replicas: 100, surge: 30, missed: 10, ours: result{36, 100}, kruises: result{45, 100}},
		{replicas: 100, surge: 25, another: 15, ours: result{66, 148}, kruises: result{90, 148}},
		{replicas: 50, surge: 10, another: 35, ours: result{96, 87}, kruises: result{110, 87}},
		{replicas: 100, surge: 0, missed: 25, ours: result{51, 100}, kruises: result{51, 100}},
		{replicas: 10, surge: 3, missed: 2, inPlace: true, ours: result{58, 0}, kruises: result{32, 3}},
		{replicas: 10, surge: 3, inPlace: true, ours: result{52, 3}, kruises: result{52, 3}},
	} {
		t.Run(fmt.Sprintf("%d replicas, surge %d, %d may be unavailable, another revision after %d, in place %t", c.replicas, c.surge, c.missed, c.another, c.inPlace), func(t *testing.T) {
			run := func(plan func(*fakes) []operation) (r result) {
				f := &fakes{
					wanted:     wanted{replicas: c.replicas, maxSurge: c.surge, maxUnavailable: c.missed, scaleMaxUnavailable: math.MaxInt32},
					inPlaceNow: func() bool { return c.inPlace }, hookNow: func() bool { return false },
				}
				r.time, r.made = f.rollOut(t, c.another, func() []operation { return plan(f) })
				return r
			}
			if got := run((*fakes).plan); got != c.ours {
				t.Errorf("ours %+v, want %+v", got, c.ours)
			}
			if got := run((*fakes).kruisesPlan); got != c.kruises {
				t.Errorf("Kruise's %+v, want %+v", got, c.kruises)
			}
			if at := run((*fakes).plan).time; !c.inPlace && c.surge > 0 && c.another == 0 && at > 16*((c.replicas+c.surge-1)/c.surge) {
				t.Errorf("%d is not before the end of the rollout", at)
			}
		})
	}
}

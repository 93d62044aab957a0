package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Periodic is a series of writes that runs without faults have too: a heartbeat, or the resync of a controller.
type Periodic struct {
	// Actor writes the fields Paths of an object of Resource every Period.
	Actor, Resource string
	Paths           []string
	Period          time.Duration
}

// String returns, for example, "agent writes webs.example.com status.lastHeartbeat every 20s".
func (p Periodic) String() string {
	return fmt.Sprintf("%s writes %s %s every %s", p.Actor, p.Resource, strings.Join(p.Paths, ", "), p.Period.Round(time.Millisecond))
}

// same reports whether two series have the same writer and the same fields.
func (p Periodic) same(q Periodic) bool {
	return p.Actor == q.Actor && p.Resource == q.Resource && slices.Equal(p.Paths, q.Paths)
}

// MergePeriodic adds series to those that are known already; of two equal ones it keeps the longer period.
func MergePeriodic(known, more []Periodic) []Periodic {
	for _, p := range more {
		if n := slices.IndexFunc(known, p.same); n < 0 {
			known = append(known, p)
		} else {
			known[n].Period = max(known[n].Period, p.Period)
		}
	}
	return known
}

// LongestPeriod returns the longest period of several series; 0 without any.
func LongestPeriod(all []Periodic) (longest time.Duration) {
	for _, p := range all {
		longest = max(longest, p.Period)
	}
	return longest
}

// DifferenceTimeout is how long a run may differ from the runs without faults: at least two of the longest period of its
// periodic writes, because a resync corrects differences.
func DifferenceTimeout(timeout time.Duration, periodic []Periodic) time.Duration {
	return max(timeout, 2*LongestPeriod(periodic))
}

const (
	// minPeriod is the shortest period of a heartbeat. Writes that follow each other faster are a loop: a client
	// that is limited to five requests per second, for example, has intervals of 200 ms.
	minPeriod = 500 * time.Millisecond
	// minIntervals is how many intervals of about the same length make writes periodic.
	minIntervals = 3
	// maxSeries limits the writes of an object that are considered, the newest first.
	maxSeries = 64
)

// maxWaits is for how many times the wanted quiet time a run must have waited until periodic writes are looked
// for: most runs have none, and the search reads all writes.
const maxWaits = 2

// MayBePeriodic reports whether periodic writes may be what prevents the quiet time for which a run waits since a
// time.
func MayBePeriodic(now, lastWrite, since, quiet time.Duration) bool {
	return now-lastWrite < quiet && now >= since+maxWaits*quiet
}

// Activity is the writes of a run, without bookkeeping, by object.
type Activity struct {
	objects *Objects
	writes  map[string][]timedWrite // the newest of each object
	dropped time.Duration           // the time of the last write that is not among them
}

// timedWrite is one write. Its paths are nil until they are needed.
type timedWrite struct {
	at     time.Duration
	actor  string
	change Change
	paths  []string
}

// NewActivity returns an Activity without writes. objects decodes their contents.
func NewActivity(objects *Objects) *Activity {
	return &Activity{objects: objects, writes: map[string][]timedWrite{}}
}

// Add adds a write of an actor.
func (a *Activity) Add(at time.Duration, actor string, c Change) {
	if end := strings.IndexAny(actor, "/+"); end > 0 { // a replica, or a second instance
		actor = actor[:end]
	}
	writes := append(a.writes[c.Key], timedWrite{at: at, actor: actor, change: c})
	if len(writes) > maxSeries {
		a.dropped = max(a.dropped, writes[0].at)
		writes = slices.Delete(writes, 0, 1)
	}
	a.writes[c.Key] = writes
}

// Rhythm returns the time of the last write that is not periodic, and the periodic series. In a run to learn from,
// a series is periodic if its last intervals have about the same length and no other write changes the same fields in
// between; in any other run, if it is known and does not come more often.
func (a *Activity) Rhythm(learn bool, known []Periodic) (lastOther time.Duration, found []Periodic) {
	lastOther = a.dropped
	for key, writes := range a.writes {
		resource, _ := a.objects.o.Resources.ResourceOf(key)
		if learn && len(writes) <= minIntervals || !learn && !slices.ContainsFunc(known, func(p Periodic) bool { return p.Resource == resource.String() }) {
			lastOther = max(lastOther, writes[len(writes)-1].at)
			continue
		}
		all := a.seriesOf(writes)
		for _, s := range all {
			p := Periodic{Actor: s.actor, Resource: resource.String(), Paths: s.paths}
			at := time.Duration(0)
			if learn {
				p.Period, at = s.learn(all)
			} else {
				at = s.lastUnknown(known, p)
			}
			if p.Period > 0 {
				found = MergePeriodic(found, []Periodic{p})
			}
			lastOther = max(lastOther, at)
		}
	}
	slices.SortFunc(found, func(a, b Periodic) int { return strings.Compare(a.String(), b.String()) })
	return lastOther, found
}

// series are the writes of one actor to the same fields of one object.
type series struct {
	actor string
	paths []string
	times []time.Duration
}

// seriesOf divides the writes of one object by their actor and the fields that they change.
func (a *Activity) seriesOf(writes []timedWrite) (all []*series) {
	byKey := map[string]*series{}
	for n := range writes {
		w := &writes[n]
		if w.paths == nil {
			w.paths = changedPaths(a.objects.BeforeAndAfter(w.change))
		}
		key := w.actor + " " + strings.Join(w.paths, " ")
		s := byKey[key]
		if s == nil {
			s = &series{actor: w.actor, paths: w.paths}
			byKey[key], all = s, append(all, s)
		}
		s.times = append(s.times, w.at)
	}
	return all
}

// learn returns the period of the series, 0 if it has none, and the time of its last write that is not periodic.
func (s *series) learn(all []*series) (period, lastOther time.Duration) {
	last := len(s.times) - 1
	first := last
	shortest, longest := time.Duration(1<<62), time.Duration(0)
	for n := last; n > 0; n-- {
		interval := s.times[n] - s.times[n-1]
		shortest, longest = min(shortest, interval), max(longest, interval)
		if interval < minPeriod || longest-shortest > longest/4 {
			break
		}
		first = n - 1
	}
	if last-first < minIntervals || s.isContested(all, s.times[first]) {
		return 0, s.times[last]
	}
	if first > 0 {
		lastOther = s.times[first-1]
	}
	return (s.times[last] - s.times[first]) / time.Duration(last-first), lastOther
}

// isContested reports whether another series changes one of the fields after a time: then two writers, or two
// decisions of one, undo each other's changes.
func (s *series) isContested(all []*series, since time.Duration) bool {
	return slices.ContainsFunc(all, func(t *series) bool {
		return t != s && t.times[len(t.times)-1] > since &&
			slices.ContainsFunc(t.paths, func(path string) bool { return slices.Contains(s.paths, path) })
	})
}

// lastUnknown returns the time of the last write that runs without faults do not have.
func (s *series) lastUnknown(known []Periodic, p Periodic) time.Duration {
	last := len(s.times) - 1
	k := slices.IndexFunc(known, p.same)
	if k < 0 {
		return s.times[last]
	}
	for ; last > 0; last-- {
		if s.times[last]-s.times[last-1] < known[k].Period/2 {
			break
		}
	}
	return s.times[last]
}

// changedPaths returns the fields that a write changed, without those that every write changes. A list whose
// length changed is one field.
func changedPaths(before, after map[string]any) []string {
	switch {
	case before == nil:
		return []string{"(created)"}
	case after == nil:
		return []string{"(deleted)"}
	}
	paths := []string{}
	addChanged("", before, after, &paths)
	slices.Sort(paths)
	return slices.Compact(paths)
}

func addChanged(path string, before, after any, paths *[]string) {
	if alwaysVarying[path] || equality.Semantic.DeepEqual(before, after) {
		return
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if wasMap && isMap {
		for k := range unionKeys(was, is) {
			addChanged(joined(path, k), was[k], is[k], paths)
		}
		return
	}
	wasList, ok1 := before.([]any)
	isList, ok2 := after.([]any)
	if ok1 && ok2 && len(wasList) == len(isList) {
		for n := range isList {
			addChanged(path+"[*]", wasList[n], isList[n], paths)
		}
		return
	}
	*paths = append(*paths, strings.TrimPrefix(path, "."))
}

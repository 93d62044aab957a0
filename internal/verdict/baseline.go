package verdict

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Baseline is the final state of runs without faults. What differs between those runs is not
// expected of others.
type Baseline struct {
	state          State               // of the first run, only the IDs that all runs have
	varyingFields  map[fieldKey]bool   // by ID and path: fields whose values differ between the runs
	varyingCounts  map[string]bool     // IDs whose number of objects differs between the runs
	unexpected     map[string]int      // by resource: objects of the first run whose ID some other run does not have
	varyingUnknown map[string]bool     // resources whose number of such objects differs between the runs
	periodic       []Path              // fields that an actor writes again and again
	unordered      map[string][]string // by ID: lists whose order differs between the runs
	edited         map[string]bool     // IDs of objects that the user has changed after their creation
	recreated      map[string]bool     // those of them that a fault creates again
}

// MaskPeriodic stops the comparison of the fields that periodic writes change: their values depend on the time at
// which a run ends.
func (b *Baseline) MaskPeriodic(all []Periodic) {
	for _, p := range all {
		for _, path := range p.Paths {
			b.periodic = append(b.periodic, Path{Resource: p.Resource, Field: path})
		}
	}
}

// EditedID returns the ID of the object of a user's write that changes it after its creation; ok is false for any other step.
func EditedID(s *history.Step) (id string, ok bool) {
	if s.Kind != history.Request || s.Actor != history.User || !s.Wrote() || s.Verb == "create" || s.Verb == "delete" || s.Subresource != "" {
		return "", false
	}
	return idOf(s.Resource, s.Namespace, s.Name), true
}

// MaskEdited names the objects that the user has changed after their creation (EditedID). If a fault creates one again, the new object has the last
// content from the beginning, and its controller may rightly never say in the status what it said about the earlier content, nor keep a history of
// that content (withoutHistory).
func (b *Baseline) MaskEdited(ids map[string]bool) { b.edited = ids }

// CompareAfter returns Compare for runs with these faults; nil if they need not end in the same state as runs without faults. Deleting or evicting an
// object may legitimately leave a trace: a Job counts the pod as failed.
func (b *Baseline) CompareAfter(faults []fault.Fault) func(State) error {
	after := *b
	after.recreated = map[string]bool{}
	for _, f := range faults {
		switch f.Kind {
		case fault.KindDelete, fault.KindEvict:
			return nil
		case fault.KindRecreate:
			if o, ok := f.TargetObject(); ok {
				id := idOf(o.Resource, o.Namespace, o.Name)
				after.recreated[id] = b.edited[id]
			}
		}
	}
	return after.Compare
}

// varies reports whether the value of a field is not expected of other runs.
func (b *Baseline) varies(id, path string) bool {
	if b.varyingFields[fieldKey{id, path}] || b.recreated[id] && strings.HasPrefix(path, ".status") {
		return true
	}
	if path == revisionPath && (b.recreated[id] || b.isOfRecreated(id)) {
		return true
	}
	resource, _, _ := strings.Cut(id, " ")
	return slices.ContainsFunc(b.periodic, func(p Path) bool { return p.covers(resource, path) })
}

// revisionPath is where the Deployment controller counts the contents that a Deployment has had.
const revisionPath = ".metadata.annotations[deployment.kubernetes.io/revision]"

// isOfRecreated reports whether objects with an ID belong to an object that the user has changed and that a fault creates again.
func (b *Baseline) isOfRecreated(id string) bool {
	_, owner, _ := strings.Cut(id, ownedBy)
	kind, name, ok := strings.Cut(owner, " ")
	if !ok {
		return false
	}
	slash := strings.Index(kind, "/")
	namespace, kind := kind[:max(slash, 0)], kind[slash+1:]
	for recreated, edited := range b.recreated {
		if resource, _, _ := strings.Cut(recreated, " "); edited && strings.HasPrefix(resource, strings.ToLower(kind)) && recreated == idOf(resource, namespace, name) {
			return true
		}
	}
	return false
}

// withoutHistory returns the objects without those that a controller keeps because of earlier contents of their owner: revisions of a StatefulSet or a
// DaemonSet, and ReplicaSets without pods.
func withoutHistory(id string, objects []fields) []fields {
	resource, _, _ := strings.Cut(id, " ")
	return slices.DeleteFunc(slices.Clone(objects), func(f fields) bool {
		return resource == "controllerrevisions.apps" || resource == "replicasets.apps" && f[".spec.replicas"] == "0"
	})
}

// fieldKey names a field of the objects with an ID.
type fieldKey struct{ id, path string }

// NewBaseline learns a baseline from the final states of runs without faults; nil if there are none.
func NewBaseline(states []State) *Baseline {
	if len(states) == 0 {
		return nil
	}
	b := &Baseline{state: State{}, varyingFields: map[fieldKey]bool{}, varyingCounts: map[string]bool{}, varyingUnknown: map[string]bool{}, unordered: map[string][]string{}}
	for id, objects := range states[0] {
		if !slices.ContainsFunc(states, func(s State) bool { return len(s[id]) == 0 }) {
			b.state[id] = objects
		}
	}
	b.unexpected = b.unexpectedObjects(states[0])
	for _, s := range states[1:] {
		unexpected := b.unexpectedObjects(s)
		for resource := range unionKeys(b.unexpected, unexpected) {
			if b.unexpected[resource] != unexpected[resource] {
				b.varyingUnknown[resource] = true
			}
		}
		for id, objects := range b.state {
			if len(objects) != len(s[id]) {
				b.varyingCounts[id] = true
				continue
			}
			b.learnFields(id, b.sorted(id, objects), b.sorted(id, s[id]))
		}
	}
	return b
}

// unexpectedObjects counts, by resource, the objects whose IDs are not in the baseline.
func (b *Baseline) unexpectedObjects(s State) map[string]int {
	counts := map[string]int{}
	for id, objects := range s {
		if _, ok := b.state[id]; !ok {
			resource, _, _ := strings.Cut(id, " ")
			counts[resource] += len(objects)
		}
	}
	return counts
}

func unionKeys[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

func (b *Baseline) learnFields(id string, first, other []fields) {
	for n := range first {
		b.learnOrder(id, first[n], other[n])
		first[n], other[n] = b.inOrder(id, first[n]), b.inOrder(id, other[n])
		for path, value := range first[n] {
			if other[n][path] != value {
				b.varyingFields[fieldKey{id, path}] = true
			}
		}
		for path := range other[n] {
			if _, ok := first[n][path]; !ok {
				b.varyingFields[fieldKey{id, path}] = true
			}
		}
	}
}

// learnOrder finds the lists that have the same elements in two runs, in different orders.
func (b *Baseline) learnOrder(id string, first, other fields) {
	for path, value := range first {
		if other[path] == value {
			continue
		}
		for _, list := range listsOf(path) {
			if !slices.Contains(b.unordered[id], list) && sameElements(list, first, other) {
				b.unordered[id] = append(b.unordered[id], list)
			}
		}
	}
}

// inOrder returns the fields with the lists that have no order sorted.
func (b *Baseline) inOrder(id string, f fields) fields {
	for _, list := range b.unordered[id] {
		f = f.unordered(list)
	}
	return f
}

// sorted returns the objects of one ID in an order that does not depend on their names.
func (b *Baseline) sorted(id string, objects []fields) []fields {
	if len(objects) == 1 { // most are: the user chose their names
		return []fields{b.inOrder(id, objects[0])}
	}
	type keyed struct {
		key string
		f   fields
	}
	list := make([]keyed, len(objects))
	for n, f := range objects {
		f = b.inOrder(id, f)
		list[n] = keyed{b.sortKey(id, f), f}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].key < list[j].key })
	out := make([]fields, len(objects))
	for n := range list {
		out[n] = list[n].f
	}
	return out
}

func (b *Baseline) sortKey(id string, f fields) string {
	var key strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if path != observedGeneration && !b.varies(id, path) {
			fmt.Fprintf(&key, "%s=%s\n", path, f[path])
		}
	}
	return key.String()
}

// NotCompared lists what the baseline does not compare because it differs between the runs without faults or changes
// periodically: fields such as "pods status.hostIP", and numbers of objects.
func (b *Baseline) NotCompared() []string {
	if b == nil {
		return nil
	}
	found := map[string]bool{}
	for key := range b.varyingFields {
		resource, _, _ := strings.Cut(key.id, " ")
		found[Path{resource, anyElement(key.path)}.String()] = true
	}
	for _, p := range b.periodic {
		found[p.String()] = true
	}
	for id := range b.varyingCounts {
		found["the number of "+id] = true
	}
	for resource := range b.varyingUnknown {
		found["the number of "+resource+" whose names differ from run to run"] = true
	}
	for id, lists := range b.unordered {
		resource, _, _ := strings.Cut(id, " ")
		for _, list := range lists {
			found["the order of "+Path{resource, anyElement(list)}.String()] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// CompareGenerations returns nil if no object has a status.observedGeneration behind its metadata.generation, among
// the objects that have none without faults; otherwise the first such object, as a [Difference].
func (b *Baseline) CompareGenerations(got State) error {
	if b == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(b.state)) {
		if b.varies(id, observedGeneration) || slices.ContainsFunc(b.state[id], func(f fields) bool { return f[observedGeneration] != current }) {
			continue
		}
		if slices.ContainsFunc(got[id], func(f fields) bool { return f[observedGeneration] == behind }) {
			return differs(id, observedGeneration, "%s: at the end, status.observedGeneration is behind metadata.generation; without faults they are equal", id)
		}
	}
	return nil
}

// ExpectsGenerations reports whether CompareGenerations expects anything.
func (b *Baseline) ExpectsGenerations() bool {
	if b != nil {
		for _, objects := range b.state {
			if slices.ContainsFunc(objects, func(f fields) bool { return f[observedGeneration] == current }) {
				return true
			}
		}
	}
	return false
}

// Difference is what a final state has in another way than the runs without faults. It is an error.
type Difference struct {
	// Resource and Path name the field that differs; without a Path, the number of objects differs.
	Resource, Path string
	id             string // of the objects that differ (see [State])
	message        string
}

// Error implements error.
func (d *Difference) Error() string { return d.message }

// differs returns the difference of the objects with an ID, at a path.
func differs(id, path, format string, args ...any) error {
	resource, _, _ := strings.Cut(id, " ")
	return &Difference{Resource: resource, Path: strings.TrimPrefix(path, "."), id: id, message: fmt.Sprintf(format, args...)}
}

// Compare returns nil if a final state is as the baseline expects, and otherwise the first
// difference, a [Difference]. A nil baseline expects nothing.
func (b *Baseline) Compare(got State) error {
	if b == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(b.state)) {
		if b.varyingCounts[id] {
			continue
		}
		want, have := b.state[id], got[id]
		if b.isOfRecreated(id) {
			want, have = withoutHistory(id, want), withoutHistory(id, have)
		}
		if len(want) != len(have) {
			return differs(id, "", "%s: %d at the end; without faults %d", id, len(have), len(want))
		}
		sortedWant, sortedHave := b.sorted(id, want), b.sorted(id, have)
		for n := range sortedWant {
			if err := b.compareFields(id, sortedWant[n], sortedHave[n]); err != nil {
				return err
			}
		}
	}
	unexpected := b.unexpectedObjects(got)
	for _, resource := range slices.Sorted(maps.Keys(unionKeys(b.unexpected, unexpected))) {
		if b.varyingUnknown[resource] || unexpected[resource] == b.unexpected[resource] {
			continue
		}
		return differs(resource, "", "%s: %d at the end; without faults %d", b.example(resource, got), unexpected[resource], b.unexpected[resource])
	}
	return nil
}

// example names a resource by one of its unexpected objects.
func (b *Baseline) example(resource string, got State) string {
	if b.unexpected[resource] == 0 {
		for _, id := range slices.Sorted(maps.Keys(got)) {
			if _, known := b.state[id]; !known && strings.HasPrefix(id, resource+" ") {
				return id
			}
		}
	}
	return resource + " whose names differ from run to run"
}

func (b *Baseline) compareFields(id string, want, have fields) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if path == observedGeneration {
			continue // CompareGenerations
		}
		if v, ok := have[path]; (!ok || v != want[path]) && !b.varies(id, path) {
			return differs(id, path, "%s: %s is %s; without faults %s", id, strings.TrimPrefix(path, "."), shown(v), shown(want[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[path]; !ok && path != observedGeneration && !b.varies(id, path) {
			return differs(id, path, "%s: %s is %s; without faults it is not set", id, strings.TrimPrefix(path, "."), shown(have[path]))
		}
	}
	return nil
}

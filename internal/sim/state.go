package sim

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Object is one object of a world.
type Object struct {
	Resource string
	Content  map[string]any // as JSON has it
	// Private says that messages leave out more of its values than those of a Secret (see
	// [history.Confidential]).
	Private bool
}

// State is what a world holds when it has come to rest, in a form in which two runs
// can be compared: without UIDs, revisions, times and generated names. Objects that
// some other object controls are told apart by their owner, not by their name.
type State map[string][]fields

// fields are the leaves of an object, by path.
type fields map[string]string

// own is the prefix of what interference leaves behind.
const own = "rehearse-k8s.github.io/"

// NewState makes a state of objects, which are not changed. Paths such as ".spec.nodeName"
// are left out, with what is below them.
func NewState(objects []Object, without ...string) State {
	known := map[string]string{} // what a UID stands for
	hashes := map[string]bool{}
	for _, o := range objects {
		m, _ := o.Content["metadata"].(map[string]any)
		if hash := templateHash(o.Resource, m); hash != "" {
			hashes[hash] = true
		}
		if uid, ok := m["uid"].(string); ok {
			known[uid] = "<uid of " + o.Resource + ">"
		}
	}
	texts := &texts{known: known, hashes: slices.Sorted(maps.Keys(hashes)), without: without}
	s := State{}
	for _, o := range objects {
		m, _ := o.Content["metadata"].(map[string]any)
		name, _ := m["name"].(string)
		namespace, _ := m["namespace"].(string)
		id := o.Resource + " " + strings.TrimPrefix(namespace+"/"+withoutUUIDs(name), "/")
		switch owner := controller(m); {
		case owner != "":
			id = o.Resource + " of " + strings.TrimPrefix(namespace+"/", "/") + owner
		case m["generateName"] != nil:
			id = fmt.Sprintf("%s %s/%v*", o.Resource, namespace, m["generateName"])
		default:
			name = "" // a name that somebody chose is no accident
		}
		f := fields{}
		f.add("", o.Content, leaf{texts: texts, name: name})
		for path, value := range f {
			if history.Confidential(o.Resource, path, o.Private) {
				f[path] = confidential + value
			}
		}
		if o.Resource == "deployments.apps" {
			delete(f, ".status.collisionCount")
		}
		id = texts.withoutHashes(id)
		s[id] = append(s[id], f)
	}
	return s
}

// confidential begins the values that messages leave out. No text that an API server accepts has it.
const confidential = "\x00"

// shown is a value as messages have it.
func shown(value string) string {
	if value, ok := strings.CutPrefix(value, confidential); ok {
		return fmt.Sprintf("a value (%d characters)", len(value))
	}
	return strconv.Quote(value)
}

// controller is kind and name of the object that controls another one.
func controller(metadata map[string]any) string {
	refs, _ := metadata["ownerReferences"].([]any)
	for _, r := range refs {
		if ref, ok := r.(map[string]any); ok && ref["controller"] == true {
			return fmt.Sprintf("%v %v", ref["kind"], ref["name"])
		}
	}
	return ""
}

// accidental are the paths that differ between any two runs.
var accidental = map[string]bool{
	".metadata.uid": true, ".metadata.resourceVersion": true, ".metadata.creationTimestamp": true,
	".metadata.managedFields": true, ".metadata.generation": true, ".status.observedGeneration": true,
	".metadata.deletionTimestamp": true,
}

// podTemplateHash is the label by which a Deployment tells its ReplicaSets apart. Its value is part of
// their names. If the ReplicaSet of a Deployment that was deleted is still there when another one of
// the same name makes its own, that one counts a collision and takes another hash: which of the two
// happens depends on how quick the garbage collector was, and nothing else does. What the
// template says is compared all the same.
const podTemplateHash = "pod-template-hash"

// templateHash is that of a ReplicaSet which a Deployment made and named by it; empty of any other object.
func templateHash(resource string, metadata map[string]any) string {
	labels, _ := metadata["labels"].(map[string]any)
	hash, _ := labels[podTemplateHash].(string)
	deployment, ok := strings.CutPrefix(controller(metadata), "Deployment ")
	if resource != "replicasets.apps" || hash == "" || !ok || metadata["name"] != deployment+"-"+hash {
		return ""
	}
	return hash
}

// texts is what all strings of a state are written with, so that runs can be compared.
type texts struct {
	known   map[string]string
	hashes  []string
	without []string
}

func (t *texts) withoutHashes(s string) string {
	for _, hash := range t.hashes {
		s = strings.ReplaceAll(s, hash, "<hash>")
	}
	return s
}

// leaf says how a string of one object is written.
type leaf struct {
	*texts
	name string
}

func (l leaf) text(s string) string {
	if k, ok := l.known[s]; ok {
		return k
	}
	if len(s) >= len("2000-01-01T00:00:00Z") && s[4] == '-' {
		if _, err := time.Parse(time.RFC3339, s); err == nil {
			return "<time>"
		}
	}
	if l.name != "" {
		s = strings.ReplaceAll(s, l.name, "<name>")
	}
	return withoutUUIDs(l.withoutHashes(s))
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// withoutUUIDs is for texts that are made of an object's UID, as the name of a
// provisioned volume is.
func withoutUUIDs(s string) string {
	if len(s) < 36 || strings.Count(s, "-") < 4 {
		return s
	}
	return uuid.ReplaceAllString(s, "<uid>")
}

func (f fields) add(path string, value any, l leaf) {
	if accidental[path] || slices.Contains(l.without, path) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			if !strings.HasPrefix(k, own) {
				f.add(path+"."+k, inner, l)
			}
		}
	case []any:
		if conditions := byType(path, v); conditions != nil {
			f.add(path, conditions, l)
			return
		}
		n := 0
		for _, inner := range v {
			if s, ok := inner.(string); ok && strings.HasPrefix(s, own) {
				continue
			}
			f.add(fmt.Sprintf("%s[%d]", path, n), inner, l)
			n++
		}
	case string:
		f[path] = l.text(v)
	case nil:
	default:
		f[path] = fmt.Sprint(v)
	}
}

// byType are the conditions of an object by their type, nil if a list is none of conditions.
// In which order they came, and what they tell people, is of the way that a run took; type,
// status and reason are of where it came to.
func byType(path string, list []any) map[string]any {
	if !strings.HasSuffix(path, ".conditions") {
		return nil
	}
	conditions := make(map[string]any, len(list))
	for _, one := range list {
		c, _ := one.(map[string]any)
		kind, _ := c["type"].(string)
		if _, twice := conditions[kind]; kind == "" || twice {
			return nil
		}
		c = maps.Clone(c)
		delete(c, "type")
		delete(c, "message")
		conditions[kind] = c
	}
	return conditions
}

// Expectation is how a world ends when nothing goes wrong, learned from several runs:
// what differs between them is not expected.
type Expectation struct {
	state  State           // of the first run, but only what all have
	masked map[string]bool // path under an id
	loose  map[string]bool // ids whose number of objects differs
	others map[string]int  // by resource: objects whose names only one run knows
	any    map[string]bool // resources of which the number of such objects differs
}

// Learn makes an expectation of the states of runs without faults; nil of none.
func Learn(states []State) *Expectation {
	if len(states) == 0 {
		return nil
	}
	e := &Expectation{state: State{}, masked: map[string]bool{}, loose: map[string]bool{}, others: map[string]int{}, any: map[string]bool{}}
	for id, all := range states[0] {
		if !slices.ContainsFunc(states, func(s State) bool { return len(s[id]) == 0 }) {
			e.state[id] = all
		}
	}
	e.others = e.strangers(states[0])
	for _, s := range states[1:] {
		others := e.strangers(s)
		for resource := range both(e.others, others) {
			if e.others[resource] != others[resource] {
				e.any[resource] = true
			}
		}
		for id, all := range e.state {
			if len(all) != len(s[id]) {
				e.loose[id] = true
				continue
			}
			e.learn(id, e.sorted(id, all), e.sorted(id, s[id]))
		}
	}
	return e
}

// strangers counts, by resource, the objects that are not in every run.
func (e *Expectation) strangers(s State) map[string]int {
	counts := map[string]int{}
	for id, all := range s {
		if _, ok := e.state[id]; !ok {
			resource, _, _ := strings.Cut(id, " ")
			counts[resource] += len(all)
		}
	}
	return counts
}

// both are the keys of two maps.
func both[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

func (e *Expectation) learn(id string, a, b []fields) {
	for n := range a {
		for path, value := range a[n] {
			if b[n][path] != value {
				e.masked[id+path] = true
			}
		}
		for path := range b[n] {
			if _, ok := a[n][path]; !ok {
				e.masked[id+path] = true
			}
		}
	}
}

// sorted brings the objects of one id into an order that does not depend on their
// names.
func (e *Expectation) sorted(id string, all []fields) []fields {
	type keyed struct {
		key string
		f   fields
	}
	list := make([]keyed, len(all))
	for n, f := range all {
		list[n] = keyed{e.text(id, f), f}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].key < list[j].key })
	out := make([]fields, len(all))
	for n := range list {
		out[n] = list[n].f
	}
	return out
}

func (e *Expectation) text(id string, f fields) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if !e.masked[id+path] {
			fmt.Fprintf(&b, "%s=%s\n", path, f[path])
		}
	}
	return b.String()
}

// Fits returns nil if a state is as expected, and otherwise the first difference.
func (e *Expectation) Fits(got State) error {
	if e == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(e.state)) {
		if e.loose[id] {
			continue
		}
		want, have := e.state[id], got[id]
		if len(want) != len(have) {
			return fmt.Errorf("%s: %d at the end; without faults %d", id, len(have), len(want))
		}
		a, b := e.sorted(id, want), e.sorted(id, have)
		for n := range a {
			if err := e.compare(id, a[n], b[n]); err != nil {
				return err
			}
		}
	}
	others := e.strangers(got)
	for _, resource := range slices.Sorted(maps.Keys(both(e.others, others))) {
		if e.any[resource] || others[resource] == e.others[resource] {
			continue
		}
		return fmt.Errorf("%s: %d at the end; without faults %d", e.example(resource, got), others[resource], e.others[resource])
	}
	return nil
}

// example names a resource by one of the objects of which there are too many.
func (e *Expectation) example(resource string, got State) string {
	if e.others[resource] == 0 {
		for _, id := range slices.Sorted(maps.Keys(got)) {
			if _, known := e.state[id]; !known && strings.HasPrefix(id, resource+" ") {
				return id
			}
		}
	}
	return resource + " of names that differ from run to run"
}

func (e *Expectation) compare(id string, want, have fields) error {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if v, ok := have[path]; !e.masked[id+path] && (!ok || v != want[path]) {
			return fmt.Errorf("%s: %s is %s; without faults %s", id, strings.TrimPrefix(path, "."), shown(v), shown(want[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[path]; !e.masked[id+path] && !ok {
			return fmt.Errorf("%s: %s is %s; without faults it is not there", id, strings.TrimPrefix(path, "."), shown(have[path]))
		}
	}
	return nil
}

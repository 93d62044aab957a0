package verdict_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// configMaps are the only resource that is served.
type configMaps struct{}

func (configMaps) Directory(resource schema.GroupResource) string {
	if resource.Resource != "configmaps" {
		return ""
	}
	return "/configmaps/"
}

func (configMaps) ResourceOf(key string) (schema.GroupResource, bool) {
	return schema.GroupResource{Resource: "configmaps"}, strings.HasPrefix(key, "/configmaps/")
}

func decodeJSON(value []byte) (content map[string]any, err error) {
	err = json.Unmarshal(value, &content)
	return content, err
}

// writer writes ConfigMaps and passes the writes to objects.
type writer struct {
	objects  *verdict.Objects
	revision int64
	pending  []verdict.Write
}

// newWriter starts with one ConfigMap, "old".
func newWriter() *writer {
	w := &writer{}
	w.put("old", "0")
	w.objects = verdict.NewObjects(verdict.ObjectsOptions{
		Resources: configMaps{}, Decodings: verdict.NewDecodings(decodeJSON),
		Now: time.Now, Elapsed: func() time.Duration { return 0 }, Run: func() *history.Run { return &history.Run{} },
	}, w.revision, w.pending)
	w.pending = nil
	return w
}

func (w *writer) put(name, value string) int64 {
	data := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q,"uid":"u-%s"},"data":{"v":%q}}`, name, name, value)
	return w.write(name, []byte(data))
}

func (w *writer) remove(name string) int64 { return w.write(name, nil) }

func (w *writer) write(name string, value []byte) int64 {
	w.revision++
	w.pending = append(w.pending, verdict.Write{Key: "/configmaps/default/" + name, Value: value, Revision: w.revision})
	return w.revision
}

// take passes the pending writes to the objects.
func (w *writer) take() (changes []verdict.Change) {
	for _, p := range w.pending {
		changes = append(changes, w.objects.Take(p))
	}
	w.pending = nil
	return changes
}

// list returns the ConfigMaps of a view as "name=value".
func list(v *verdict.Objects) string {
	var all []string
	for _, o := range v.List("configmaps") {
		data, _ := o.Object["data"].(map[string]any)
		all = append(all, fmt.Sprintf("%s=%v", o.GetName(), data["v"]))
	}
	return strings.Join(all, " ")
}

// TestTake: the objects reflect the writes taken so far, and each change names the previous revision of its
// object.
func TestTake(t *testing.T) {
	w := newWriter()
	w.put("a", "1")
	if got := list(w.objects); got != "old=0" {
		t.Errorf("before the first write: %s", got)
	}
	first := w.take()
	second := w.put("a", "2")
	gone := w.remove("old")
	if got := list(w.objects); got != "a=1 old=0" {
		t.Errorf("after the first write: %s", got)
	}
	next := w.take()
	if got := list(w.objects); got != "a=2" {
		t.Errorf("after all: %s", got)
	}
	if len(first) != 1 || first[0].Before != 0 || len(next) != 2 ||
		next[0].Revision != second || next[0].Before != first[0].Revision || next[1].Revision != gone || next[1].Before == 0 {
		t.Errorf("first %+v, next %+v", first, next)
	}
	if w.objects.Get("configmaps", "default", "a") == nil || w.objects.Get("configmaps", "default", "old") != nil || w.objects.Get("secrets", "default", "a") != nil {
		t.Error("Get does not agree with List")
	}
}

// TestContents: the record describes each write, including the first write of an object that existed before
// the run.
func TestContents(t *testing.T) {
	w := newWriter()
	w.put("old", "1")
	w.put("a", "1")
	w.remove("a")
	changes := w.take()
	contents := w.objects.Contents(changes)
	if len(contents) != 3 {
		t.Fatalf("%d contents of %d changes", len(contents), len(changes))
	}
	for n, want := range []string{"configmaps default/old", "configmaps default/a", "configmaps default/a"} {
		if got := contents[n].Object.String(); got != want || contents[n].Object.UID == "" {
			t.Errorf("change %d is of %s (%s), want %s", n, got, contents[n].Object.UID, want)
		}
	}
}

// TestWalk: visit sees the objects as each step of the record left them, until it returns false, and no later
// writes.
func TestWalk(t *testing.T) {
	w := newWriter()
	w.put("a", "1")
	w.put("b", "1")
	w.remove("old")
	w.put("a", "2")
	changes := w.take()
	record := &history.Run{Header: history.Header{Start: time.Unix(1000, 0)}}
	made := map[int][]verdict.Change{}
	for n, c := range changes {
		record.Add(history.Step{Kind: history.Frame, At: time.Duration(2*n) * time.Second}) // changes nothing
		s := record.Add(history.Step{Kind: history.Request, Verb: "update", Revision: c.Revision, At: time.Duration(2*n+1) * time.Second})
		made[s.N] = []verdict.Change{c}
	}
	var seen []string
	show := func(most int) *verdict.Objects {
		seen = nil
		return w.objects.Walk(record, made, func(v *verdict.Objects) bool {
			if steps := len(v.Run().Steps); v.Elapsed() != v.Run().Steps[steps-1].At || !v.Now().Equal(record.Start.Add(v.Elapsed())) {
				t.Errorf("step %d is at %s, %s", steps-1, v.Elapsed(), v.Now())
			}
			seen = append(seen, list(v))
			return len(seen) < most
		})
	}
	all := []string{"a=1 old=0", "a=1 b=1 old=0", "a=1 b=1", "a=2 b=1"}
	if end := show(99); !slices.Equal(seen, all) || list(end) != all[3] {
		t.Errorf("seen %q, at the end %s", seen, list(end))
	}
	if end := show(2); !slices.Equal(seen, all[:2]) || list(end) != all[1] {
		t.Errorf("at most two: seen %q, at the end %s", seen, list(end))
	}
	if got := list(w.objects); got != all[3] {
		t.Errorf("the objects that were walked became %s", got)
	}
}

// TestHashes: WritesHash distinguishes two orders of writes with the same final state, StateHash does not.
func TestHashes(t *testing.T) {
	one, other, detour := newWriter(), newWriter(), newWriter()
	one.put("a", "1")
	one.put("b", "1")
	other.put("b", "1")
	other.put("a", "1")
	detour.put("a", "0")
	detour.put("b", "1")
	detour.put("a", "1")
	for _, w := range []*writer{one, other, detour} {
		w.take()
	}
	if one.objects.WritesHash() == other.objects.WritesHash() || one.objects.WritesHash() == detour.objects.WritesHash() {
		t.Error("different orders of writes have the same WritesHash")
	}
	if one.objects.StateHash() != other.objects.StateHash() || one.objects.StateHash() != detour.objects.StateHash() {
		t.Error("the same state has different hashes")
	}
}

// byPrefix are the resources of the hash tests, each stored under its name.
type byPrefix struct{}

func (byPrefix) Directory(resource schema.GroupResource) string {
	if resource.Resource == "unknown" {
		return ""
	}
	return "/" + resource.String() + "/"
}

func (byPrefix) ResourceOf(key string) (schema.GroupResource, bool) {
	_, rest, _ := strings.Cut(key, "/")
	resource, _, ok := strings.Cut(rest, "/")
	return schema.ParseGroupResource(resource), ok
}

// afterWrites applies writes such as "pods/n/a=1 pods/n/b=", the second of which is a delete.
func afterWrites(writes string) *verdict.Objects {
	start := []verdict.Write{{Key: "/quotas/n/q", Value: []byte("0"), Revision: 1}}
	o := verdict.NewObjects(verdict.ObjectsOptions{Resources: byPrefix{}}, 1, start)
	for n, w := range strings.Fields(writes) {
		key, value, _ := strings.Cut(w, "=")
		write := verdict.Write{Key: "/" + key, Revision: int64(n + 2)}
		if value != "" {
			write.Value = []byte(value)
		}
		o.Take(write)
	}
	return o
}

// TestHashFor: HashFor depends only on what the answer to a request for pod a can depend on.
func TestHashFor(t *testing.T) {
	hash := func(writes string) uint64 { return afterWrites(writes).HashFor("pods", "n", "a") }
	base := hash("pods/n/a=1 pods/n/b=1 pods/n/c=1 quotas/n/q=1")
	if hash("pods/n/a=1 pods/n/c=1 pods/n/b=1 quotas/n/q=1") != base || hash("pods/n/a=1 pods/n/c=2 pods/n/c= quotas/n/q=1") != base {
		t.Error("other pods change the hash")
	}
	if hash("jobs.batch/n/j=1 pods/n/a=1 quotas/n/q=1") != hash("jobs.batch/n/k=2 pods/n/a=1 quotas/n/q=1") {
		t.Error("jobs change the hash")
	}
	for _, other := range []string{
		"pods/n/a=2 pods/n/b=1 pods/n/c=1 quotas/n/q=1",            // another content
		"pods/n/b=1 pods/n/a=1 pods/n/c=1 quotas/n/q=1",            // another revision
		"pods/n/b=1 pods/n/c=1 pods/n/d=1 quotas/n/q=1",            // it does not exist
		"pods/n/a=1 pods/n/b=1 pods/n/c=1 quotas/n/q=2",            // another quota
		"pods/n/a=1 pods/n/b=1 quotas/n/q=1 pods/n/c=1",            // the quota at another revision
		"pods/n/a=1 pods/n/b=1 pods/n/c=1 quotas/n/q=1 pods/n/d=1", // another write
		"pods/n/b=1 pods/n/a= pods/n/c=1 quotas/n/q=1",             // it was deleted
		"pods/n/a=1 quotas/n/q=0 quotas/n/q=0 quotas/n/q=1",        // more writes of the quota
	} {
		if hash(other) == base {
			t.Errorf("%s: the same hash", other)
		}
	}
}

// TestHashOf: HashOf depends only on what the answer to a list of pods can depend on.
func TestHashOf(t *testing.T) {
	hash := func(writes string) uint64 { return afterWrites(writes).HashOf("pods") }
	base := hash("pods/n/a=1 quotas/n/q=1 pods/n/b=1")
	if hash("pods/n/a=1 jobs.batch/n/j=1 pods/n/b=1") != base {
		t.Error("other resources change the hash")
	}
	for _, other := range []string{
		"pods/n/a=1 quotas/n/q=1 pods/n/b=2",
		"pods/n/b=1 quotas/n/q=1 pods/n/a=1",
		"pods/n/a=1 pods/n/b=1 quotas/n/q=1",
		"pods/n/a=1 quotas/n/q=1 pods/n/b=1 quotas/n/q=2",
	} {
		if hash(other) == base {
			t.Errorf("%s: the same hash", other)
		}
	}
	same := afterWrites("pods/n/a=1 quotas/n/q=1")
	if same.HashOf("unknown") != same.WritesHash() || same.HashFor("unknown", "n", "a") != same.WritesHash() {
		t.Error("the answer about a resource that is not served does not depend on all writes")
	}
}

package truth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/truth"
)

// world is a world of ConfigMaps whose bytes a test writes itself.
type world struct {
	*store.World
	t     *testing.T
	truth *truth.Truth
}

func newWorld(t *testing.T) *world {
	t.Helper()
	worlds := store.New(store.Options{})
	if _, err := worlds.Storage(store.Config{
		Codec: scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), ResourcePrefix: "/configmaps", GroupResource: schema.GroupResource{Resource: "configmaps"},
	}); err != nil {
		t.Fatal(err)
	}
	w := &world{World: worlds.World("run"), t: t}
	w.put("old", "0")
	var err error
	w.truth, err = truth.New(truth.Options{
		Source: truth.Stored{Worlds: worlds, World: w.World}, Decodings: &truth.Decodings{},
		Now: time.Now, Elapsed: func() time.Duration { return 0 }, Run: func() *history.Run { return &history.Run{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// put writes an object, whatever is there.
func (w *world) put(name, value string) int64 {
	w.t.Helper()
	_, now, _, _, _ := w.RawGet("/configmaps/default/" + name)
	data := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q,"uid":"u-%s"},"data":{"v":%q}}`, name, name, value)
	rev, ok := w.RawPut("/configmaps/default/"+name, []byte(data), now)
	if !ok {
		w.t.Fatalf("%s is not written", name)
	}
	return rev
}

func (w *world) remove(name string) int64 {
	w.t.Helper()
	_, now, _, _, _ := w.RawGet("/configmaps/default/" + name)
	rev, ok := w.RawDelete("/configmaps/default/"+name, now)
	if !ok {
		w.t.Fatalf("%s is not deleted", name)
	}
	return rev
}

func (w *world) follow() []truth.Change {
	w.t.Helper()
	changes, err := w.truth.Follow()
	if err != nil {
		w.t.Fatal(err)
	}
	return changes
}

// held is what a view holds, as "name=value".
func held(v *truth.Truth) string {
	var all []string
	for _, o := range v.List("configmaps") {
		data, _ := o.Object["data"].(map[string]any)
		all = append(all, fmt.Sprintf("%s=%v", o.GetName(), data["v"]))
	}
	return strings.Join(all, " ")
}

// TestFollow: the truth is what it was when it was last followed, and each write is told
// once, with what was there before.
func TestFollow(t *testing.T) {
	w := newWorld(t)
	w.put("a", "1")
	if got := held(w.truth); got != "old=0" {
		t.Errorf("before it follows: %s", got)
	}
	first := w.follow()
	second := w.put("a", "2")
	gone := w.remove("old")
	if got := held(w.truth); got != "a=1 old=0" {
		t.Errorf("after the first write: %s", got)
	}
	next := w.follow()
	if got := held(w.truth); got != "a=2" {
		t.Errorf("after all: %s", got)
	}
	if len(first) != 1 || first[0].Before != 0 || len(next) != 2 ||
		next[0].Revision != second || next[0].Before != first[0].Revision || next[1].Revision != gone || next[1].Before == 0 {
		t.Errorf("first %+v, next %+v", first, next)
	}
	if more := w.follow(); len(more) != 0 {
		t.Errorf("told twice: %+v", more)
	}
	if w.truth.Get("configmaps", "default", "a") == nil || w.truth.Get("configmaps", "default", "old") != nil || w.truth.Get("secrets", "default", "a") != nil {
		t.Error("Get does not agree with List")
	}
}

// TestContents: a record tells what a write did, and of what the world began with where it
// first changes.
func TestContents(t *testing.T) {
	w := newWorld(t)
	w.put("old", "1")
	w.put("a", "1")
	w.remove("a")
	changes := w.follow()
	contents := w.truth.Contents(changes)
	if len(contents) != 3 {
		t.Fatalf("%d contents of %d changes", len(contents), len(changes))
	}
	for n, want := range []string{"configmaps default/old", "configmaps default/a", "configmaps default/a"} {
		if got := contents[n].Object.String(); got != want || contents[n].Object.UID == "" {
			t.Errorf("change %d is of %s (%s), want %s", n, got, contents[n].Object.UID, want)
		}
	}
}

// TestAgain: the world is shown as each step of the record has left it, whatever it has
// become since, and no further than it is wanted.
func TestAgain(t *testing.T) {
	w := newWorld(t)
	w.put("a", "1")
	w.put("b", "1")
	w.remove("old")
	w.put("a", "2")
	changes := w.follow()
	record := &history.Run{Header: history.Header{Start: time.Unix(1000, 0)}}
	made := map[int][]truth.Change{}
	for n, c := range changes {
		record.Add(history.Step{Kind: history.Frame, At: time.Duration(2*n) * time.Second}) // changes nothing
		s := record.Add(history.Step{Kind: history.Request, Verb: "update", Revision: c.Revision, At: time.Duration(2*n+1) * time.Second})
		made[s.N] = []truth.Change{c}
	}
	var seen []string
	show := func(most int) *truth.Truth {
		seen = nil
		return w.truth.Again(record, made, func(v *truth.Truth) bool {
			if steps := len(v.Run().Steps); v.Elapsed() != v.Run().Steps[steps-1].At || !v.Now().Equal(record.Start.Add(v.Elapsed())) {
				t.Errorf("step %d is at %s, %s", steps-1, v.Elapsed(), v.Now())
			}
			seen = append(seen, held(v))
			return len(seen) < most
		})
	}
	all := []string{"a=1 old=0", "a=1 b=1 old=0", "a=1 b=1", "a=2 b=1"}
	if end := show(99); !slices.Equal(seen, all) || held(end) != all[3] {
		t.Errorf("seen %q, in the end %s", seen, held(end))
	}
	if end := show(2); !slices.Equal(seen, all[:2]) || held(end) != all[1] {
		t.Errorf("of two: seen %q, in the end %s", seen, held(end))
	}
	if got := held(w.truth); got != all[3] {
		t.Errorf("the truth itself has become %s", got)
	}
}

// TestPasts: two histories with the same end are told apart, and two states with the same
// writes in another order are not.
func TestPasts(t *testing.T) {
	one, other, detour := newWorld(t), newWorld(t), newWorld(t)
	one.put("a", "1")
	one.put("b", "1")
	other.put("b", "1")
	other.put("a", "1")
	detour.put("a", "0")
	detour.put("b", "1")
	detour.put("a", "1")
	for _, w := range []*world{one, other, detour} {
		w.follow()
	}
	if one.truth.Past() == other.truth.Past() || one.truth.Past() == detour.truth.Past() {
		t.Error("different pasts are taken for the same")
	}
	if one.truth.Fingerprint() != other.truth.Fingerprint() || one.truth.Fingerprint() != detour.truth.Fingerprint() {
		t.Error("the same state is taken for another")
	}
}

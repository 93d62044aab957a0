package viewtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Start is when the record of each World begins.
var Start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// World is an invariant.View that a test fills in.
type World struct {
	// Clock is the time since Start.
	Clock time.Duration
	// Objects are the objects by resource, sorted by namespace and name.
	Objects map[string][]*unstructured.Unstructured
	// Record is what Run returns.
	Record history.Run
}

// Now implements invariant.View.
func (w *World) Now() time.Time { return Start.Add(w.Clock) }

// Elapsed implements invariant.View.
func (w *World) Elapsed() time.Duration { return w.Clock }

// Run implements invariant.View.
func (w *World) Run() *history.Run { return &w.Record }

// List implements invariant.View.
func (w *World) List(resource string) []*unstructured.Unstructured { return w.Objects[resource] }

// Get implements invariant.View.
func (w *World) Get(resource, namespace, name string) *unstructured.Unstructured {
	for _, o := range w.Objects[resource] {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// NewWorld returns a world with the objects of some YAML documents, each of which names its
// resource in a field "resource", and with a record in which a user creates them.
func NewWorld(t testing.TB, documents string) *World {
	t.Helper()
	w := &World{Objects: map[string][]*unstructured.Unstructured{}, Record: history.Run{Header: history.Header{Start: Start}}}
	for doc := range strings.SplitSeq(documents, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatal(err)
		}
		resource, _ := o.Object["resource"].(string)
		if resource == "" {
			continue
		}
		delete(o.Object, "resource")
		if o.GetUID() == "" {
			o.SetUID(types.UID(resource + "/" + o.GetName()))
		}
		if o.GetCreationTimestamp().Time.IsZero() {
			o.SetCreationTimestamp(metav1.NewTime(Start))
		}
		w.Objects[resource] = append(w.Objects[resource], o)
		w.Record.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Code: 201, Revision: int64(len(w.Record.Steps) + 1),
			Object: history.Object{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID())}})
	}
	for _, list := range w.Objects {
		slices.SortFunc(list, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return w
}

// Check fails the test if an invariant's error does not contain want; an empty want expects that
// the invariant holds.
func Check(t *testing.T, i invariant.Invariant, v invariant.View, want string) {
	t.Helper()
	err := i.Check(v)
	switch {
	case err == nil && want != "":
		t.Errorf("%s: holds; want %q", i.Name, want)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v; want %q", i.Name, err, want)
	}
}

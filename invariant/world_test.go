package invariant_test

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

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a View made by hand.
type world struct {
	elapsed time.Duration
	objects map[string][]*unstructured.Unstructured
	run     history.Run
}

func (w *world) Now() time.Time         { return start.Add(w.elapsed) }
func (w *world) Elapsed() time.Duration { return w.elapsed }
func (w *world) Run() *history.Run      { return &w.run }

func (w *world) List(resource string) []*unstructured.Unstructured { return w.objects[resource] }

func (w *world) Get(resource, namespace, name string) *unstructured.Unstructured {
	for _, o := range w.objects[resource] {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// newWorld holds the objects of some YAML documents, each of which names its resource,
// and a record in which somebody made them.
func newWorld(t testing.TB, documents string) *world {
	t.Helper()
	w := &world{objects: map[string][]*unstructured.Unstructured{}, run: history.Run{Header: history.Header{Start: start}}}
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
			o.SetCreationTimestamp(metav1.NewTime(start))
		}
		w.objects[resource] = append(w.objects[resource], o)
		w.run.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Code: 201, Revision: int64(len(w.run.Steps) + 1),
			Object: history.Object{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID())}})
	}
	for _, list := range w.objects {
		slices.SortFunc(list, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return w
}

// check compares what an invariant says with what it should say: "" if it holds.
func check(t *testing.T, i invariant.Invariant, v invariant.View, want string) {
	t.Helper()
	err := i.Check(v)
	switch {
	case err == nil && want != "":
		t.Errorf("%s: holds; want %q", i.Name, want)
	case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v; want %q", i.Name, err, want)
	}
}

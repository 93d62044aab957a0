//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestInterfere: a fault changes the object that a client wrote, and not one that replaced it, that is excluded, that the
// run does not own, or whose change says nothing.
func TestInterfere(t *testing.T) {
	all := func(kind fault.Kind, requests ...string) map[fault.Kind][]string {
		return map[fault.Kind][]string{kind: requests}
	}
	for name, c := range map[string]struct {
		resource string // of the object that the client wrote
		phase    string
		prepare  func(r *testRun, o *history.Object)
		want     map[fault.Kind][]string
	}{
		"deleted":         {want: all(fault.KindDelete, "delete pods/default/o")},
		"evicted":         {want: all(fault.KindEvict, "create pods/default/o eviction")},
		"labelled":        {want: all(fault.KindLabel, "patch pods/default/o")},
		"finalized":       {want: all(fault.KindFinalizer, "patch pods/default/o", "patch pods/default/o")},
		"finished pod":    {phase: "Succeeded", want: map[fault.Kind][]string{fault.KindDelete: nil, fault.KindEvict: nil}},
		"running pod":     {phase: "Running", want: all(fault.KindDelete, "delete pods/default/o")},
		"not a pod":       {resource: "webs.example.com", want: all(fault.KindEvict)},
		"of another kind": {resource: "webs.example.com", want: all(fault.KindDelete, "delete webs.example.com/default/o")},
		"not served":      {prepare: func(_ *testRun, o *history.Object) { o.Resource = "jobs.batch" }, want: all(fault.KindDelete)},
		"excluded": {prepare: func(r *testRun, _ *history.Object) {
			r.run.world.excluded = func(key string) bool { return key == "/pods/default/o" }
		}, want: all(fault.KindDelete)},
		"not owned": {prepare: func(r *testRun, _ *history.Object) {
			r.run.world.owns = func(context.Context, history.Object) bool { return false }
		}, want: all(fault.KindLabel)},
		"owned": {prepare: func(r *testRun, _ *history.Object) {
			r.run.world.owns = func(_ context.Context, o history.Object) bool { return o.Name == "o" }
		}, want: all(fault.KindLabel, "patch pods/default/o")},
		"replaced": {prepare: func(_ *testRun, o *history.Object) { o.UID = "another" }, want: map[fault.Kind][]string{
			fault.KindDelete: {"delete pods/default/o"}, fault.KindLabel: {"patch pods/default/o"}, fault.KindFinalizer: nil,
		}},
	} {
		for kind, want := range c.want {
			inRun(t, copyScenario, func(r *testRun) {
				_, f := fakeExternal(t)
				r.otherUser = f
				of := "Pod"
				if c.resource != "" {
					of = "Web"
				}
				key, o := f.add(of, "default", "o", "", "theirs")
				if c.phase != "" {
					o.Object["status"] = map[string]any{"phase": c.phase}
					o = f.put(key, o)
				}
				object := history.Object{Resource: c.resource, Namespace: "default", Name: "o", UID: string(o.GetUID())}
				if c.resource == "" {
					object.Resource = "pods"
				}
				if c.prepare != nil {
					c.prepare(r, &object)
				}
				go r.monitor.follow(r.ctx)
				r.interfere(fault.Fault{Kind: kind, For: time.Second}, object)
				held := f.objects[key].GetFinalizers()
				r.watchers.Wait()
				what := fmt.Sprintf("%s, %s", name, kind)
				equal(t, what, strings.Join(want, "\n"), strings.Join(f.requests, "\n"))
				is := f.objects[key]
				equal(t, what+": finalizers afterwards", []string{"theirs"}, is.GetFinalizers())
				equal(t, what+": finalizers during the fault", kind == fault.KindFinalizer && len(want) > 0, len(held) == 2)
				replaced := name == "replaced"
				equal(t, what+": deleted", kind == fault.KindDelete && len(want) > 0 && !replaced, is.GetDeletionTimestamp() != nil)
				equal(t, what+": labelled", kind == fault.KindLabel && len(want) > 0 && !replaced, len(is.GetLabels()) > 0)
			})
		}
	}
}

// TestFinalizerWithoutAnswer: the end of a run removes a finalizer also if its request had no answer.
func TestFinalizerWithoutAnswer(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		_, f := fakeExternal(t)
		r.otherUser = f
		key, o := f.add("Pod", "default", "o", "")
		f.fail = func(verb, _ string) error {
			if verb != "patch" {
				return nil
			}
			f.fail = nil
			o.SetFinalizers([]string{fault.InterferenceFinalizer})
			f.put(key, o)
			return errors.New("the connection was closed")
		}
		r.interfere(fault.Fault{Kind: fault.KindFinalizer, For: time.Hour}, history.Object{Resource: "pods", Namespace: "default", Name: "o", UID: string(o.GetUID())})
		equal(t, "delayed actions", 0, r.pendingActions)
		equal(t, "before", 1, len(f.objects[key].GetFinalizers()))
		r.removeFinalizers()
		equal(t, "after", 0, len(f.objects[key].GetFinalizers()))
	})
}

// TestEachObject: a step acts on each object of its selector, ignores those that do not exist, and ends with the first
// error.
func TestEachObject(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		_, f := fakeExternal(t)
		r.user = selected{f}
		for name, c := range map[string]struct {
			on   v1alpha1.Reference
			want string
		}{
			"by name":      {v1alpha1.Reference{Resource: "pods", Namespace: "default", Name: "a"}, "a"},
			"by selector":  {v1alpha1.Reference{Resource: "pods", Selector: "all"}, "a gone b fails: no connection"},
			"none":         {v1alpha1.Reference{Resource: "pods", Selector: "none"}, ""},
			"not listed":   {v1alpha1.Reference{Resource: "pods", Selector: "error"}, ": selector error"},
			"another kind": {v1alpha1.Reference{Resource: "jobs.batch", Name: "a"}, `: the API does not serve "jobs.batch"`},
		} {
			var names []string
			err := r.each(&scenario.Step{On: c.on}, func(_ dynamic.ResourceInterface, name string) error {
				names = append(names, name)
				switch name {
				case "gone":
					return apierrors.NewNotFound(pods, name)
				case "fails":
					return errors.New("no connection")
				}
				return nil
			})
			got := strings.Join(names, " ")
			if err != nil {
				got += ": " + err.Error()
			}
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}

// selected is a cluster whose pods have all been selected, or none.
type selected struct{ *fakeCluster }

func (s selected) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return selectedPods{}
}

type selectedPods struct {
	dynamic.NamespaceableResourceInterface
}

func (p selectedPods) Namespace(string) dynamic.ResourceInterface { return p }

func (p selectedPods) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	switch o.LabelSelector {
	case "error":
		return nil, errors.New("selector error")
	case "all":
		for _, name := range []string{"a", "gone", "b", "fails", "after"} {
			list.Items = append(list.Items, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}})
		}
	}
	return list, nil
}

package invariant_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// snapshot is a View of a fixed set of objects. In a test, simtest provides the View.
type snapshot map[string][]*unstructured.Unstructured

func (s snapshot) Now() time.Time                                    { return time.Unix(0, 0) }
func (s snapshot) Elapsed() time.Duration                            { return 0 }
func (s snapshot) Run() *history.Run                                 { return &history.Run{} }
func (s snapshot) List(resource string) []*unstructured.Unstructured { return s[resource] }
func (s snapshot) Get(resource, ns, name string) *unstructured.Unstructured {
	for _, o := range s[resource] {
		if o.GetNamespace() == ns && o.GetName() == name {
			return o
		}
	}
	return nil
}

// pod returns a pod that a CloneSet named web controls.
func pod(name, phase string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": name, "ownerReferences": []any{
			map[string]any{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "1", "controller": true},
		}},
		"status": map[string]any{"phase": phase},
	}}
}

func ExampleFunc() {
	noFailedPods := invariant.Func("no pod has failed", func(v invariant.View) error {
		for _, pod := range v.List("pods") {
			if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase == "Failed" {
				return fmt.Errorf("pod %s has failed", pod.GetName())
			}
		}
		return nil
	})
	fmt.Println(noFailedPods.Check(snapshot{"pods": {pod("web-1", "Running")}}))
	fmt.Println(noFailedPods.Check(snapshot{"pods": {pod("web-1", "Running"), pod("web-2", "Failed")}}))
	// Output:
	// <nil>
	// pod web-2 has failed
}

func ExampleAtMostPods() {
	web := invariant.Owner{Kind: "CloneSet", Namespace: "default", Name: "web"}
	i := invariant.AtMostPods(web, 1)
	fmt.Println(i.Name)
	fmt.Println(i.Check(snapshot{"pods": {pod("web-1", "Running"), pod("web-2", "Succeeded")}}))
	fmt.Println(i.Check(snapshot{"pods": {pod("web-1", "Running"), pod("web-2", "Pending")}}))
	// Output:
	// at most 1 active pod of CloneSet default/web
	// <nil>
	// there are 2: default/web-1, default/web-2
}

func ExampleCEL() {
	i, err := invariant.CEL("no two running pods", `list("pods").filter(p, p.status.phase == "Running").size() <= 1`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(i.Check(snapshot{"pods": {pod("web-1", "Running"), pod("web-2", "Pending")}}))
	fmt.Println(i.Check(snapshot{"pods": {pod("web-1", "Running"), pod("web-2", "Running")}}))
	// Output:
	// <nil>
	// the expression is false: 2 > 1: default/web-1, default/web-2
}

func ExampleStays() {
	// Stays keeps state, so each run needs its own Invariant.
	i := invariant.Stays(invariant.Exists("pods", "default", "web-1"))
	fmt.Println(i.Check(snapshot{}))
	fmt.Println(i.Check(snapshot{"pods": {pod("web-1", "Running")}}))
	fmt.Println(i.Check(snapshot{}))
	// Output:
	// <nil>
	// <nil>
	// it was true at 0s, and now: it does not exist
}

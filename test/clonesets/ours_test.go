package clonesets_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// ours is this repository's controller with one worker, so that runs repeat, and without the audit, which is
// for faults that are not legal.
var ours = controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1})

// fed is the same as `rehearse up` runs it: it reads pods from a shared cache and sends whole pods.
var fed = family.Fed(func(pods *podcache.Cache) func(context.Context, *rest.Config) error {
	return controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1, Pods: pods, Whole: true})
})

// TestSmoke plays the life of a CloneSet, creation, update and scaling down, with each single fault.
func TestSmoke(t *testing.T) {
	runs := 400
	if *races {
		runs = 2000 // there are some 1,500 single faults
	}
	for _, kind := range []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible} {
		t.Run(string(kind), func(t *testing.T) {
			c := clonesets.Case{Replicas: 3, Spec: v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: kind}}}
			c.Changes = []clonesets.Change{
				{After: 5 * time.Second, Patch: `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`},
				{After: 10 * time.Second, Patch: `{"spec":{"replicas":1}}`},
			}
			simtest.Run(t, clonesets.Options().Seeds(runs), c.Test(ours))
		})
	}
}

package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwnerVersions: only CloneSets are moved, once, and only to a version that is served.
func TestOwnerVersions(t *testing.T) {
	resources := func(version string, names ...string) *metav1.APIResourceList {
		list := &metav1.APIResourceList{GroupVersion: version}
		for _, name := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		return list
	}
	given := []*metav1.APIResourceList{
		resources("apps/v1", "deployments"), resources("apps.kruise.io/v1beta1", "statefulsets", "clonesets", "daemonsets"), withNone,
	}
	moved := []*metav1.APIResourceList{
		resources("apps/v1", "deployments"), resources("apps.kruise.io/v1beta1", "statefulsets", "daemonsets"), withNone, resources("apps.kruise.io/v1alpha1", "clonesets"),
	}
	if diff := cmp.Diff(moved, inOwnerVersion(given, func() bool { return true })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(given, inOwnerVersion(given, func() bool { return false })); diff != "" {
		t.Errorf("v1alpha1 is not served: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(moved, inOwnerVersion(moved, func() bool { return true })); diff != "" {
		t.Errorf("moved already: (-want +got)\n%s", diff)
	}
	if len(given[1].APIResources) != 3 {
		t.Error("what was given is changed")
	}
}

var withNone = &metav1.APIResourceList{GroupVersion: "batch/v1"}

package cluster

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// ownerVersions presents CloneSets to upstream's garbage collector in the version that owner references name: v1alpha1, as in
// every released OpenKruise.
//
// The collector watches each kind in the preferred version, which is v1beta1 by the ordering of version names. If an owner
// reference names another version than the collector knows, it verifies the owner with a live read for each new pod
// (pkg/controller/garbagecollector, graph_builder.go, addDependentToOwners).
type ownerVersions struct {
	clientbuilder.ControllerClientBuilder
}

// DiscoveryClient implements clientbuilder.ControllerClientBuilder.
func (b ownerVersions) DiscoveryClient(name string) (discovery.DiscoveryInterface, error) {
	client, err := b.ControllerClientBuilder.DiscoveryClient(name)
	return ownerVersionsDiscovery{client}, err
}

type ownerVersionsDiscovery struct{ discovery.DiscoveryInterface }

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d ownerVersionsDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	lists, err := d.DiscoveryInterface.ServerPreferredResources()
	return inOwnerVersion(lists, func() bool {
		// A user's definition that replaces ours may serve one version only.
		served, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		if err != nil {
			return !apierrors.IsNotFound(err) // the API is busy: nothing has changed
		}
		return slices.ContainsFunc(served.APIResources, isCloneSets)
	}), err
}

func isCloneSets(r metav1.APIResource) bool { return r.Name == v1alpha1.Resource }

// inOwnerVersion moves CloneSets from v1beta1 to v1alpha1 if that is served. It does not modify its argument.
func inOwnerVersion(lists []*metav1.APIResourceList, served func() bool) []*metav1.APIResourceList {
	out := slices.Clone(lists)
	for i, list := range out {
		at := slices.IndexFunc(list.APIResources, isCloneSets)
		if list.GroupVersion != v1beta1.GroupVersion.String() || at < 0 || !served() {
			continue
		}
		rest := *list
		rest.APIResources = slices.Delete(slices.Clone(list.APIResources), at, at+1)
		out[i] = &rest
		out = append(out, &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String(), APIResources: []metav1.APIResource{list.APIResources[at]}})
		break
	}
	return out
}

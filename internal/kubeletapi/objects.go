package kubeletapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// logRule selects the entry for the logs of a container.
func (s *Server) logRule(ctx context.Context, t target) (*rules.Match[v1alpha1.Log], error) {
	stored, err := s.stored(ctx, t, "logs", "clusterlogs")
	if err != nil {
		return nil, err
	}
	return rules.Log(slices.Concat(s.options.Rules.Logs, stored.Logs), t.pod.Namespace, t.pod.Name, t.container)
}

// stored reads the objects of the API that may apply to a pod: the one with its namespace and name, and those of the Cluster kind, oldest
// first. A kind that is not installed has no objects. The server reads them at each request, so a change applies at once.
func (s *Server) stored(ctx context.Context, t target, namespaced, clusterScoped string) (*rules.Set, error) {
	c, err := s.clients()
	if err != nil {
		return nil, err
	}
	var found []unstructured.Unstructured
	own, err := c.dynamic.Resource(v1alpha1.GroupVersion.WithResource(namespaced)).Namespace(t.pod.Namespace).Get(ctx, t.pod.Name, metav1.GetOptions{})
	if err == nil {
		found = append(found, *own)
	} else if !apierrors.IsNotFound(err) {
		return nil, failed(http.StatusInternalServerError, "%w", err)
	}
	all, err := c.dynamic.Resource(v1alpha1.GroupVersion.WithResource(clusterScoped)).List(ctx, metav1.ListOptions{})
	if err == nil {
		slices.SortFunc(all.Items, func(a, b unstructured.Unstructured) int {
			at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
			return cmp.Or(at.Time.Compare(bt.Time), cmp.Compare(a.GetName(), b.GetName()))
		})
		found = append(found, all.Items...)
	} else if !apierrors.IsNotFound(err) {
		return nil, failed(http.StatusInternalServerError, "%w", err)
	}
	set := &rules.Set{}
	for _, o := range found {
		data, err := o.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if err := set.AddObject(data); err != nil {
			return nil, err
		}
	}
	return set, nil
}

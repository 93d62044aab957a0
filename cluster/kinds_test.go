package cluster_test

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/apps/v1beta1"
	"github.com/rehearse-k8s/rehearse/api/crds"
	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestCloneSetVersions: a user's client has both versions, with a data directory also after
// the process has begun anew.
func TestCloneSetVersions(t *testing.T) {
	o := cluster.Options{DataDir: t.TempDir(), Controllers: []string{"cloneset"}}
	first := startCluster(t, o)
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "a"}}},
			},
			"scaleStrategy": map[string]any{"excludePreparingDelete": true},
		},
	}}
	newest := v1beta1.GroupVersion.WithResource(v1alpha1.Resource)
	await(t, "a CloneSet of v1beta1 is taken", func() error {
		_, err := admin(t, first).Resource(newest).Namespace("default").Create(t.Context(), set, metav1.CreateOptions{})
		return err
	})
	first.Stop()
	second := admin(t, startCluster(t, o))
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		got, err := second.Resource(newest.GroupResource().WithVersion(version)).Namespace("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		field, _, _ := unstructured.NestedBool(got.Object, "spec", "scaleStrategy", "excludePreparingDelete")
		if label := len(got.GetLabels()) == 1; field != (version == "v1beta1") || label == field {
			t.Errorf("%s: field %t, labels %v", version, field, got.GetLabels())
		}
	}
}

// TestWithoutCloneSets: who leaves the controller out installs OpenKruise's own, definition
// and all.
func TestWithoutCloneSets(t *testing.T) {
	c := admin(t, startCluster(t, cluster.Options{Controllers: []string{"stage"}}))
	_, err := c.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(t.Context(), crds.CloneSetName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Error(errors.Join(errors.New("the definition of CloneSet is there"), err))
	}
}

// admin is a client of the administrator's kubeconfig.
func admin(t *testing.T, c *cluster.Cluster) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.NewDefaultClientConfig(*c.Kubeconfig(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
